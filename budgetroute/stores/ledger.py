"""The file `ledger.db`: transactions that wait, are retried on a new file, and get checkpointed."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

from budgetroute.errors import StoreError
from budgetroute.stores import checkpoints, schema
from budgetroute.stores.connection import (
    SharedConnection,
    identity_of,
    is_corrupt,
    patiently,
    refusal,
)
from budgetroute.stores.paths import create_private, locked, make_folder, set_aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from budgetroute.protocols import Clock

__all__ = ["LedgerFile"]

T = TypeVar("T")

_log = logging.getLogger("budgetroute.store")
_OLDEST_SQLITE = (3, 35, 0)
_PAGE_BYTES = 2048
_COMMITS_PER_LOOK = 16


class LedgerFile:
    """The ledger's database file.

    Args:
        folder: the store's folder, made when it is first needed.
        clock: dates a file that is set aside.
        patience_s: how long to wait for other processes' locks.
    """

    def __init__(self, folder: Path, clock: Clock, *, patience_s: float) -> None:
        self.path = folder / "ledger.db"
        self._lock_path = folder / "ledger.lock"
        self._clock = clock
        self._patience_s = patience_s
        self._shared = SharedConnection(self.path, self._connect)
        self._commits = 0

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction: all of it or nothing; blocks while others write.

        Raises:
            StoreError: the file cannot be used, or stayed locked.
        """
        return self._run(self._transact, work)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which only reads, on one state of the ledger; never waits for a writer."""
        return self._run(self._look, work)

    def close(self) -> None:
        """Close the file; the next operation opens it again."""
        self._shared.close()

    def _run(
        self,
        way: Callable[[Callable[[sqlite3.Connection], T]], T],
        work: Callable[[sqlite3.Connection], T],
    ) -> T:
        with self._shared.lock:
            try:
                return way(work)
            except sqlite3.DatabaseError as err:
                if not is_corrupt(err):
                    raise refusal(err, self.path) from err
                self._start_anew(err)
            except (OverflowError, OSError, UnicodeEncodeError) as err:
                raise refusal(err, self.path) from err
            try:
                return way(work)
            except sqlite3.DatabaseError as err:
                raise refusal(err, self.path) from err

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._shared.ready()
        self._begin(connection)
        try:
            answer = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self._commits += 1
        if self._commits % _COMMITS_PER_LOOK == 0 and checkpoints.is_due(str(self.path)):
            self._checkpoint(connection)
        return answer

    def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._shared.ready()

        def look() -> T:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("COMMIT")

        return patiently(look, patience_s=self._patience_s, path=self.path)

    def _begin(self, connection: sqlite3.Connection) -> None:
        patiently(
            lambda: connection.execute("BEGIN IMMEDIATE"),
            patience_s=self._patience_s,
            path=self.path,
        )

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Checkpoint under the write lock; a failure costs only time, the commits are safe."""
        try:
            self._begin(connection)
            try:
                checkpoints.checkpoint(self.path)
            finally:
                connection.execute("ROLLBACK")
        except (sqlite3.Error, StoreError) as err:
            _log.warning("store %s could not be checkpointed, its log grows: %s", self.path, err)

    def _connect(self) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(
                f"the ledger needs SQLite 3.35 or later; this Python runs on "
                f"{sqlite3.sqlite_version}. Use another Python build."
            )
        make_folder(self.path.parent)
        with locked(self._lock_path, patience_s=self._patience_s):
            return self._open()

    def _open(self) -> sqlite3.Connection:
        if not create_private(self.path) and self.path.stat().st_size == 0:
            _log.warning(
                "ledger %s was empty; a new one is started in it. If it had been used before, its "
                "sums are lost: spending in the current windows counts from zero again.",
                self.path,
            )
        connection = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            patiently(
                lambda: self._configure(connection), patience_s=self._patience_s, path=self.path
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"store {self.path}: the file system cannot do write-ahead logging (found journal "
                f"mode {mode!r}). Set [store] path to a local disk."
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {checkpoints.KEPT_BYTES}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA trusted_schema = OFF")
        schema.prepare(connection, self.path)

    def _start_anew(self, damage: sqlite3.DatabaseError) -> None:
        """Set the damaged file aside, unless another process has; carry over what is legible."""
        seen = self._shared.identity
        with suppress(sqlite3.Error):
            self._shared.drop()
        with locked(self._lock_path, patience_s=self._patience_s):
            if seen is None or identity_of(self.path) != seen:
                return
            companions = [self.path.with_name(self.path.name + end) for end in ("-wal", "-shm")]
            moved = set_aside([self.path, *companions], self._clock.now())
            with closing(self._open()) as connection:
                kept = schema.carry_over(moved, connection)
        _log.warning(
            "ledger %s is damaged (%s) and was set aside as %s; a new one was started. Lost: its "
            "attempts and decision records. %s",
            self.path,
            damage,
            moved,
            f"Kept: {kept} sums by scope and period, so limits still hold."
            if kept
            else "Lost too: all sums; spending in the current windows counts from zero again.",
        )
