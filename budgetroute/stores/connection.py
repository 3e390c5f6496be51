"""One SQLite connection that all threads of a process share, and what goes wrong with it."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from budgetroute.errors import StoreError
from budgetroute.stores.forks import pause_around_forks
from budgetroute.stores.messages import locked_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "Identity",
    "SharedConnection",
    "identity_of",
    "is_corrupt",
    "patiently",
    "refusal",
]

T = TypeVar("T")
Identity: TypeAlias = tuple[int, int]
"""Device and inode: tells a file from another one of the same name."""

_log = logging.getLogger("budgetroute.store")
_PRIMARY = 0xFF
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "it cannot be written; give this user the rights, or set [store] path "
    "to a folder that can",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; see that it is a file of this user in a folder "
    "that can be written, or set [store] path to another",
    sqlite3.SQLITE_PERM: "this user may not open it; set [store] path to another folder",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write it; see the system's log",
}
_AT_ONCE = 6
"""Tries without a pause: a transaction of another process is shorter than the least sleep."""
_LEAST_PAUSE_S, _USUAL_PAUSE_S = 0.0001, 0.0003
_LONG_S = 0.1
_inherited: list[sqlite3.Connection] = []


class SharedConnection:
    """A connection guarded by `lock`; it is made anew after a fork or when its file is replaced.

    Args:
        path: the database file.
        connect: opens it.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self.lock = threading.Lock()
        self.identity: Identity | None = None
        self._path = str(path)
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._at_exit: weakref.finalize[[], SharedConnection] | None = None
        pause_around_forks(self)

    def ready(self) -> sqlite3.Connection:
        """Return a connection to the file that `path` names now; the caller holds `lock`."""
        if self._connection is not None and self._pid == os.getpid():
            if identity_of(self._path) == self.identity:
                if self._connection.in_transaction:  # left open by an interrupt: undo it
                    self._connection.execute("ROLLBACK")
                return self._connection
            _log.warning("store %s was removed or replaced while open; opening anew", self._path)
            self.drop()
        if self._connection is not None:
            # Inherited through a fork that Python did not see: closing it would harm the parent.
            _inherited.append(self._connection)
            self._forget()
        return self._open()

    def drop(self) -> None:
        """Close the connection if there is one; the caller holds `lock`."""
        connection = self._connection
        if connection is not None:
            self._forget()
            connection.close()

    def close(self) -> None:
        """Close the connection; the next operation opens it again."""
        with self.lock:
            self.drop()

    def pause(self) -> None:
        """Close and keep others out until `resume`, because the process is about to fork."""
        self.lock.acquire()
        self.drop()

    def resume(self) -> None:
        """Let others in again."""
        self.lock.release()

    def _open(self) -> sqlite3.Connection:
        while True:
            self.identity = identity_of(self._path)
            connection = self._connect()
            if identity_of(self._path) == self.identity:
                break
            connection.close()  # the file was made or replaced meanwhile: which one is this?
        self._connection, self._pid = connection, os.getpid()
        self._at_exit = weakref.finalize(self, connection.close)
        return connection

    def _forget(self) -> None:
        self._connection = None
        if self._at_exit is not None:
            self._at_exit.detach()


def identity_of(path: str | Path) -> Identity | None:
    """Return which file `path` names now; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called per operation, a Path costs four times as much
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def patiently(operation: Callable[[], T], *, patience_s: float, path: Path) -> T:
    """Run `operation`, again and again while another process locks the database.

    Raises:
        StoreError: it stayed locked for longer than `patience_s` (retryable).
    """
    begun, tries = 0.0, 0
    while True:
        try:
            return operation()
        except sqlite3.OperationalError as err:
            if _code(err) not in _BUSY:
                raise
            now = time.monotonic()
            begun = begun or now
            if now - begun >= patience_s:
                raise locked_out(path, patience_s) from err
        tries += 1
        if tries > _AT_ONCE:
            time.sleep(_pause_after(now - begun) * _jitter())


def _pause_after(waited_s: float) -> float:
    """Return how long to sleep before the next try, in seconds.

    Short while a few busy processes make each other wait (longer gave less at 8 processes); then a
    share of what was waited: 200 that poll at a fixed pace keep who holds the lock from running.
    """
    if waited_s > _LONG_S:
        return waited_s / 50
    return max(_LEAST_PAUSE_S, min(waited_s / 8, _USUAL_PAUSE_S))


def is_corrupt(error: sqlite3.Error) -> bool:
    """Say whether the file itself is damaged or is no database."""
    return _code(error) in _CORRUPT


def refusal(
    error: sqlite3.Error | OverflowError | OSError | UnicodeEncodeError, path: Path
) -> StoreError:
    """Return the error to raise for one of SQLite's or the system's."""
    if isinstance(error, OSError):
        advice = f"{error.strerror}; see that this user may write there, or set [store] path"
    elif isinstance(error, UnicodeEncodeError):
        advice = "a name has half a surrogate pair, which no text file can carry; correct it"
    elif isinstance(error, OverflowError | sqlite3.IntegrityError):
        advice = "an amount or a sum does not fit 64 bits of pico-dollars ($9.2 million)"
    else:
        advice = _ADVICE.get(_code(error), "SQLite refused")
    return StoreError(f"store {path}: {advice} (found: {error})")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def _jitter() -> float:
    """Draw from [0.5, 1.5): waiters must not wake together; nothing else depends on the draw."""
    return 0.5 + os.urandom(1)[0] / 256
