"""What a ledger on disk forgets after 35 days, and the closing totals it keeps instead.

Sums stay when the attempts that made them are dropped. What those attempts counted is added up in
`carried`, so that an audit can always compute every sum anew.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from budgetroute import budget
from budgetroute.records import Attempt, Balance
from budgetroute.stores import rows
from budgetroute.units import time_from_micros

if TYPE_CHECKING:
    import sqlite3

    from budgetroute.records import Slot
    from budgetroute.stores.ledger import LedgerFile

__all__ = ["DROPPED", "RESCUED", "forget"]

DROPPED = "dropped"
"""Why sums are carried: their attempts were dropped after 35 days."""
RESCUED = "rescued"
"""Why sums are carried: they were read from a damaged ledger."""

_AT_ONCE = 1000
_log = logging.getLogger("budgetroute.store")

_OLD = (
    "SELECT EXISTS (SELECT 1 FROM attempts WHERE at < ? AND state != 'held')"
    " OR EXISTS (SELECT 1 FROM arrivals WHERE at < ?)"
)
_OLDEST = (
    "SELECT seq, slots, state, worst, expected, amount FROM attempts"
    " WHERE at < ? AND state != 'held' LIMIT ?"
)
_CARRY = (
    "INSERT INTO carried (scope, period, why, settled, held, calls, estimated)"
    " VALUES (?, ?, 'dropped', ?, ?, ?, ?) ON CONFLICT (scope, period, why) DO UPDATE SET"
    " settled = settled + excluded.settled, held = held + excluded.held,"
    " calls = calls + excluded.calls, estimated = estimated + excluded.estimated"
)
_DROP_ARRIVALS = (
    'DELETE FROM arrivals WHERE (bucket, "group") IN'
    ' (SELECT bucket, "group" FROM arrivals WHERE at < ? LIMIT ?)'
)
_OUTLIVED = (
    "SELECT EXISTS (SELECT 1 FROM sums WHERE scope GLOB '*#*' AND period >= ? AND period < ?)"
)
_DROP_OUTLIVED = (
    "DELETE FROM {table} WHERE (scope, period) IN (SELECT scope, period FROM {table}"
    " WHERE scope GLOB '*#*' AND period >= ? AND period < ? LIMIT ?)"
)


def forget(file: LedgerFile, at: int) -> None:
    """Drop a batch of what is too old at `at`; each step is a transaction of its own.

    Raises:
        StoreError: the file cannot be used, or stayed locked.
    """
    known = file.read(_elapsed)
    if budget.elapsed(known, at) != known:
        known = file.write(lambda ledger: _note(ledger, at))
    before = known.sure - budget.RETENTION
    if file.read(lambda ledger: ledger.execute(_OLD, (before, before)).fetchone()[0]):
        file.write(lambda ledger: _drop(ledger, before))
    for period in budget.outlived(time_from_micros(before)):
        if file.read(lambda ledger: ledger.execute(_OUTLIVED, period).fetchone()[0]):  # noqa: B023 - called here
            file.write(lambda ledger: _drop_outlived(ledger, period))  # noqa: B023 - called here


def _elapsed(ledger: sqlite3.Connection) -> budget.Elapsed:
    found = ledger.execute("SELECT sure, noted FROM elapsed").fetchone()
    return budget.Elapsed(*found) if found else budget.Elapsed()


def _note(ledger: sqlite3.Connection, at: int) -> budget.Elapsed:
    now = budget.elapsed(_elapsed(ledger), at)
    ledger.execute("INSERT OR REPLACE INTO elapsed (one, sure, noted) VALUES (1, ?, ?)", now)
    return now


def _drop(ledger: sqlite3.Connection, before: int) -> None:
    old = ledger.execute(_OLDEST, (before, _AT_ONCE)).fetchall()
    totals: dict[Slot, Balance] = {}
    for _, slots, *attempt in old:
        _count(totals, slots, Attempt(*attempt))
    ledger.executemany(
        _CARRY,
        [
            (slot.scope, slot.period, sums.settled, sums.held, sums.calls, sums.estimated)
            for slot, sums in totals.items()
        ],
    )
    ledger.executemany("DELETE FROM attempts WHERE seq = ?", [(seq,) for seq, *_ in old])
    ledger.execute(_DROP_ARRIVALS, (before, _AT_ONCE))


def _count(totals: dict[Slot, Balance], slots: str, attempt: Attempt) -> None:
    try:
        change = budget.counted(attempt)
    except ValueError as err:
        _log.warning("an attempt was dropped that could not be read: %s", err)
        return
    for slot in rows.slots_from(slots):
        totals[slot] = totals.get(slot, Balance()) + change


def _drop_outlived(ledger: sqlite3.Connection, period: tuple[str, str]) -> None:
    for table in ("sums", "marks", "carried"):
        ledger.execute(_DROP_OUTLIVED.format(table=table), (*period, _AT_ONCE))
