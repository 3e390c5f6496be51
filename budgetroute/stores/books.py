"""Reading a ledger on disk for an audit: one moment of it, without changing or blocking anything.

The connection is opened read-only, so that not even a damaged file is touched: it stays as the
evidence that it is. Readers do not keep writers waiting; a long read only lets the log grow.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from budgetroute.audit import Books, Carried, Report, Row, audit
from budgetroute.errors import StoreError
from budgetroute.records import Balance, Slot
from budgetroute.stores.connection import is_corrupt, refusal
from budgetroute.stores.schema import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DamagedLedgerError", "Ledger", "plan_version", "reading", "verify"]

_TIMEOUT_S = 2.0
_ROWS = (
    "SELECT attempt, decision, state, worst, expected, amount, lease_until, at, closed_at, chosen,"
    " slots, decided, outcome FROM attempts"
)
_NEWEST = f"{_ROWS} WHERE at >= ? AND at < ? ORDER BY at DESC, seq DESC"
_SUMS = "SELECT scope, period, settled, held, expected, calls, estimated FROM sums"
_CARRIED = "SELECT scope, period, why, settled, held, 0, calls, estimated FROM carried"
_REPEATED = "SELECT attempt FROM attempts NOT INDEXED GROUP BY attempt HAVING count(*) > 1"
_PLAN = "SELECT value FROM Cache WHERE key = ? AND raw = 1 AND mode = 1"
_ALWAYS = (-(2**62), 2**62)


class DamagedLedgerError(StoreError):
    """Raise for a ledger file that SQLite cannot read any further."""


class Ledger:
    """A ledger as one moment shows it; made by `reading`.

    Args:
        connection: in a read transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, since: int | None = None, until: int | None = None) -> Iterator[Row]:
        """Yield attempts, newest first.

        Args:
            since: only those reserved from this time on, microseconds since 1970.
            until: only those reserved before this time.
        """
        first, last = _ALWAYS
        bounds = (first if since is None else since, last if until is None else until)
        for values in self._connection.execute(_NEWEST, bounds):
            yield Row(*values)

    def sums(self) -> dict[Slot, Balance]:
        """Return every sum; they are kept for ever, save those of one of many."""
        return {Slot(*row[:2]): Balance(*row[2:]) for row in self._connection.execute(_SUMS)}

    def books(self) -> Books:
        """Return all of it."""
        return Books(
            rows=(Row(*values) for values in self._connection.execute(_ROWS)),
            sums=self.sums(),
            carried=list(self._carried()),
            repeated=[attempt for (attempt,) in self._connection.execute(_REPEATED)],
            damage=list(self._damage()),
            sure=self._sure(),
        )

    def _carried(self) -> Iterator[Carried]:
        if not self._has("carried"):
            return
        for scope, period, why, *total in self._connection.execute(_CARRIED):
            yield Carried(Slot(scope, period), why, Balance(*total))

    def _sure(self) -> int:
        if not self._has("elapsed"):
            return 0
        found = self._connection.execute("SELECT sure FROM elapsed").fetchone()
        return found[0] if found else 0

    def _damage(self) -> Iterator[str]:
        for (text,) in self._connection.execute("PRAGMA integrity_check"):
            if text != "ok":
                yield text

    def _has(self, table: str) -> bool:
        query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self._connection.execute(query, (table,)).fetchone()[0])


@contextmanager
def reading(path: Path) -> Iterator[Ledger]:
    """Read the ledger at `path` (the file) in one transaction.

    Raises:
        DamagedLedgerError: the file cannot be read any further.
        StoreError: it is not there, cannot be opened, or is of a later version.
    """
    try:
        with closing(_opened(path)) as connection:
            connection.execute("BEGIN")
            _refuse_strangers(connection, path)
            yield Ledger(connection)
    except sqlite3.Error as err:
        if is_corrupt(err):
            text = f"ledger {path} is damaged: {err}. Nothing was changed by looking at it."
            raise DamagedLedgerError(text) from err
        raise refusal(err, path) from err


def verify(path: Path, *, now: int) -> Report:
    """Audit the ledger at `path` (the file); `now` in microseconds since 1970.

    Raises:
        DamagedLedgerError: the file cannot be read any further.
        StoreError: it is not there, cannot be opened, or is of a later version.
    """
    with reading(path) as ledger:
        return audit(ledger.books(), now=now)


def plan_version(folder: Path, key: str) -> int | None:
    """Return the version of the plan that a store's folder keeps under `key`; None if it has none.

    Unlike the pacer's own reading, this leaves a damaged folder where it is.
    """
    path = folder / "plan" / "cache.db"
    if not path.is_file():
        return None
    try:
        with closing(_connected(path, "mode=ro")) as connection:
            found = connection.execute(_PLAN, (key,)).fetchone()
    except sqlite3.Error:
        return None
    version = str(found[0]).partition("\n")[0] if found else ""
    return int(version) if version.isdecimal() else None


def _opened(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreError(f"there is no ledger at {path}; the first routed call makes it.")
    connection = _connected(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as err:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if err.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or log.exists():
            raise
        # A folder that cannot be written has no room for the index of a log; there is no log.
        return _connected(path, "mode=ro&immutable=1")
    return connection


def _connected(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_TIMEOUT_S, isolation_level=None
    )
    connection.execute("PRAGMA trusted_schema = OFF")  # a file may be of somebody else's making
    return connection


def _refuse_strangers(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 1 <= version <= VERSION:
        raise StoreError(
            f"{path} has schema {version}, this budgetroute reads 1 to {VERSION}: it is of a later "
            f"version, of another program, or empty."
        )
