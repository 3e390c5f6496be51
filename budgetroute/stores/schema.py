"""The tables of `ledger.db`, and what may be read from a damaged one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from budgetroute.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["VERSION", "carry_over", "prepare"]

VERSION = 3
"""Kept in `PRAGMA user_version`; an older file is brought up to it, a later one is refused."""

# `sums` holds one row per scope and period for ever: money cannot be computed anew once attempts
# are dropped. A sum beyond 64 bits would silently become a float, hence the checks.
_TABLES = """
CREATE TABLE sums (
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    settled INTEGER NOT NULL CHECK (typeof(settled) = 'integer'),
    held INTEGER NOT NULL CHECK (typeof(held) = 'integer'),
    expected INTEGER NOT NULL CHECK (typeof(expected) = 'integer'),
    calls INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    PRIMARY KEY (scope, period)
) WITHOUT ROWID;
CREATE TABLE attempts (
    seq INTEGER PRIMARY KEY,
    attempt TEXT NOT NULL UNIQUE,
    decision TEXT NOT NULL,
    state TEXT NOT NULL,
    worst INTEGER NOT NULL,
    expected INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    at INTEGER NOT NULL,
    closed_at INTEGER,
    chosen INTEGER NOT NULL,
    slots TEXT NOT NULL,
    decided TEXT NOT NULL,
    outcome TEXT
);
CREATE INDEX attempts_by_lease ON attempts (lease_until) WHERE state = 'held';
CREATE INDEX attempts_by_time ON attempts (at);
CREATE TABLE arrivals (
    bucket TEXT NOT NULL,
    "group" TEXT NOT NULL,
    count INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (bucket, "group")
) WITHOUT ROWID;
CREATE INDEX arrivals_by_time ON arrivals (at);
"""
# Sums of scopes that are one of many (`#`, budgetroute.budget.ONE_OF_MANY) are dropped in the end;
# only they are in the index.
_SINCE_2 = """
CREATE TABLE marks (
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (scope, period, name)
) WITHOUT ROWID;
CREATE INDEX sums_of_many ON sums (period) WHERE scope GLOB '*#*';
CREATE INDEX marks_of_many ON marks (period) WHERE scope GLOB '*#*';
"""
# `carried` holds what counts in `sums` though its attempts are gone, and why they are.
_SINCE_3 = """
CREATE TABLE carried (
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    why TEXT NOT NULL,
    settled INTEGER NOT NULL CHECK (typeof(settled) = 'integer'),
    held INTEGER NOT NULL CHECK (typeof(held) = 'integer'),
    calls INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    PRIMARY KEY (scope, period, why)
) WITHOUT ROWID;
CREATE INDEX carried_of_many ON carried (period) WHERE scope GLOB '*#*';
CREATE TABLE elapsed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    sure INTEGER NOT NULL,
    noted INTEGER NOT NULL
);
"""
_STEPS = (_TABLES, _SINCE_2, _SINCE_3)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file; leave a known one as it is.

    Raises:
        StoreError: the file was written by a later version, or is not a ledger.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    if version > VERSION:
        raise StoreError(
            f"ledger {path} has schema {version}, this budgetroute reads {VERSION}. Upgrade "
            f"budgetroute, or set [store] path to another folder."
        )
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
        raise StoreError(
            f"{path} is a SQLite file of something else, not a ledger. Set [store] path to "
            f"another folder, or move the file away."
        )
    statements = "".join(_STEPS[version:])
    connection.executescript(f"BEGIN IMMEDIATE;{statements}PRAGMA user_version = {VERSION};COMMIT;")


def carry_over(damaged: Path, connection: sqlite3.Connection) -> int:
    """Copy the sums that can still be read from a damaged ledger into a new one; count them.

    Holds are carried too, though nobody will give them back: a limit must not be crossed
    because a file broke. They end with their period.
    """
    rows: list[tuple[str, str, int, int, int, int]] = []
    try:
        with closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as old:
            query = "SELECT scope, period, settled, held, calls, estimated FROM sums"
            rows.extend(row for row in old.execute(query) if _is_sound(row))
    except sqlite3.Error:
        pass  # whatever was read before the damage counts
    connection.executemany(
        "INSERT OR IGNORE INTO sums (scope, period, settled, held, expected, calls, estimated)"
        " VALUES (?, ?, ?, ?, 0, ?, ?)",
        rows,
    )
    connection.executemany(
        "INSERT OR IGNORE INTO carried (scope, period, why, settled, held, calls, estimated)"
        " VALUES (?, ?, 'rescued', ?, ?, ?, ?)",
        rows,
    )
    return len(rows)


def _is_sound(row: tuple[object, ...]) -> bool:
    scope, period, *counts = row
    named = isinstance(scope, str) and isinstance(period, str)
    return named and all(isinstance(count, int) and count >= 0 for count in counts)
