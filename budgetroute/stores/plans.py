"""The folder `plan/`: the pacer's plan, read in microseconds, written by compare-and-set.

Kept by diskcache (eviction off, no pickles). The plan can be computed anew, so a folder that
cannot be read is set aside, and the pacer starts over.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from budgetroute.errors import StoreError
from budgetroute.records import StoredPlan
from budgetroute.stores.checkpoints import checkpoint, is_due
from budgetroute.stores.connection import (
    Identity,
    SharedConnection,
    identity_of,
    is_corrupt,
    patiently,
    refusal,
)
from budgetroute.stores.messages import StrangeContentError, locked_out
from budgetroute.stores.paths import create_private, locked, make_folder, set_aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from diskcache import Cache

    from budgetroute.protocols import Clock

__all__ = ["PlanFolder"]

T = TypeVar("T")

_log = logging.getLogger("budgetroute.store")
_NO_PLAN = StoredPlan(None, 0)
_SETTINGS = {
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "disk_min_file_size": 2**30,
    "sqlite_mmap_size": 0,
    "sqlite_wal_autocheckpoint": 0,
    "sqlite_journal_size_limit": 0,
}
_SELECT = "SELECT mode, value FROM Cache WHERE key = ? AND raw = 1"
_HAS = "SELECT count(*) FROM sqlite_master WHERE name ="
_COUNTED = frozenset({"count", "hits", "misses", "size"})
_UNDECODABLE = "decode to UTF-8"
_VERSION_DIGITS = 18
_NO_TABLE = "no such table"
_RAW = 1


class PlanFolder:
    """Plans by key, each with a version.

    Reads go straight to diskcache's table over a connection of our own: 4 µs, and nothing is
    left open in other threads that a fork could inherit.

    Args:
        folder: made when something is first written.
        clock: dates a folder that is set aside.
        patience_s: how long to wait for other processes.
    """

    def __init__(self, folder: Path, clock: Clock, *, patience_s: float) -> None:
        self._folder = folder
        self._path = folder / "cache.db"
        self._lock_path = folder.with_name(folder.name + ".lock")
        self._clock = clock
        self._patience_s = patience_s
        self._shared = SharedConnection(self._path, self._connect)
        self._cache: Cache | None = None
        self._cached: Identity | None = None

    def load(self, key: str) -> StoredPlan:
        """Return the plan under `key`; none where nothing was written or it cannot be read."""
        with self._shared.lock:
            return self._or_set_aside(lambda: self._select(key), otherwise=_NO_PLAN)

    def save(self, key: str, value: str, *, expected_version: int) -> bool:
        """Write the plan if its version is still `expected_version`; say whether it was."""

        def swap() -> bool:
            return self._swap(key, value, expected_version)

        with self._shared.lock:
            return self._or_set_aside(swap, otherwise=False)

    def close(self) -> None:
        """Close the files; the next operation opens them again."""
        self._shared.close()

    def _or_set_aside(self, work: Callable[[], T], *, otherwise: T) -> T:
        try:
            return patiently(work, patience_s=self._patience_s, path=self._folder)
        except StrangeContentError as err:
            self._set_aside(err)
        except sqlite3.DatabaseError as err:
            if not is_corrupt(err) and _UNDECODABLE not in str(err):
                raise refusal(err, self._path) from err
            self._set_aside(err)
        except (OSError, UnicodeEncodeError) as err:
            raise refusal(err, self._path) from err
        return otherwise

    def _select(self, key: str) -> StoredPlan:
        try:
            found = self._shared.ready().execute(_SELECT, (key,)).fetchone()
        except sqlite3.OperationalError as err:
            if self._shared.identity is None or _NO_TABLE in str(err) or not self._has_table():
                return _NO_PLAN  # another process may make the table just now
            raise
        if found and found[0] != _RAW:
            raise StrangeContentError(f"plan {key!r} is a pickle or a file")
        return _plan_from(found and found[1])

    def _has_table(self) -> bool:
        found: tuple[int] = self._shared.ready().execute(f"{_HAS} 'Cache'").fetchone()
        return found[0] == 1

    def _probe(self) -> None:
        """Raise what a locked database raises: diskcache's constructor would wait for a minute."""
        connection = self._shared.ready()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")

    def _check_settings(self) -> None:
        """Refuse settings that diskcache would take as its own attributes, methods or SQL.

        It runs `PRAGMA name = value` for each that begins with `sqlite_`, as they stand in the file.
        """
        ledger = self._shared.ready()
        if not ledger.execute(f"{_HAS} 'Settings'").fetchone()[0]:
            return
        ours = _every_setting()
        for key, value in ledger.execute("SELECT key, value FROM Settings"):
            is_run = str(key).startswith("sqlite_")
            if key not in _COUNTED and (key not in ours or (is_run and value != ours[key])):
                raise StrangeContentError(f"a setting that budgetroute never makes: {key!r:.40}")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )

    def _swap(self, key: str, value: str, expected_version: int) -> bool:
        from diskcache import Timeout

        cache = self._opened_cache()
        try:
            with cache.transact():
                unchanged = _plan_from(cache.get(key)).version == expected_version
                if unchanged:
                    cache.set(key, f"{expected_version + 1}\n{value}")
        except Timeout as err:
            raise locked_out(self._folder, self._patience_s) from err
        finally:
            cache.close()
        if is_due(str(self._path)):
            self._checkpoint()
        return unchanged

    def _checkpoint(self) -> None:
        """Checkpoint under the write lock, after the commit: only then can the log start over.

        A failure costs only time: the plan is written, and the next save tries again.
        """
        try:
            connection = self._shared.ready()
            connection.execute("BEGIN IMMEDIATE")
            try:
                checkpoint(self._path)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as err:
            _log.debug("plan %s was not checkpointed now: %s", self._path, err)

    def _opened_cache(self) -> Cache:
        if self._cache is None or identity_of(self._path) != self._cached:
            make_folder(self._folder.parent)
            make_folder(self._folder)
            with locked(self._lock_path, patience_s=self._patience_s):
                create_private(self._path)
                self._cached = identity_of(self._path)
                self._has_table()  # raises here if it is damaged
                self._check_settings()
                self._probe()
                self._cache = _open_cache(self._folder, self._patience_s)
        return self._cache

    def _set_aside(self, damage: Exception) -> None:
        """Rename the folder, unless another process has; a plan is never worth a failed call."""
        seen = {self._shared.identity, self._cached} - {None}
        self._cache = self._cached = None
        try:
            self._shared.drop()
            with locked(self._lock_path, patience_s=self._patience_s):
                if identity_of(self._path) not in seen:
                    return
                moved = set_aside([self._folder], self._clock.now())
        except (OSError, sqlite3.Error, StoreError) as err:
            _log.warning("plan %s is damaged (%s) and stays: %s", self._folder, damage, err)
            return
        _log.warning(
            "plan %s is damaged (%s) and was set aside as %s. Lost: the shadow price and what the "
            "pacer learnt; it starts over. No money is lost: that is in the ledger.",
            self._folder,
            damage,
            moved,
        )


def _open_cache(folder: Path, patience_s: float) -> Cache:
    from diskcache import Cache as OpenCache

    from budgetroute.stores.plain_disk import PlainDisk

    return OpenCache(str(folder), timeout=patience_s, disk=PlainDisk, **_every_setting())


def _every_setting() -> dict[str, object]:
    """Return a value for all of diskcache's settings, so that none is taken from the file."""
    from diskcache.core import DEFAULT_SETTINGS

    return {**DEFAULT_SETTINGS, **_SETTINGS}


def _plan_from(text: object) -> StoredPlan:
    if text is None:
        return _NO_PLAN
    version, newline, value = text.partition("\n") if isinstance(text, str) else ("", "", "")
    if not (newline and version.isdecimal() and len(version) <= _VERSION_DIGITS):
        raise StrangeContentError(f"a plan without a version ({type(text).__name__})")
    return StoredPlan(value, int(version))
