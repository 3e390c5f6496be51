"""Where the ledger and the plan are kept: in memory, or on a local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.errors import StoreError
from budgetroute.stores.checkpoints import sqlite_version, wal_reset_bug
from budgetroute.stores.disk import DiskStore
from budgetroute.stores.memory import MemoryStore
from budgetroute.stores.paths import NETWORK_FILESYSTEMS, filesystem_of

if TYPE_CHECKING:
    from budgetroute.protocols import Clock, Store

__all__ = [
    "NETWORK_FILESYSTEMS",
    "DiskStore",
    "MemoryStore",
    "filesystem_of",
    "open_store",
    "sqlite_version",
    "wal_reset_bug",
]


def open_store(where: str, clock: Clock) -> Store:
    """Return the store at a path, or in memory for `memory:`; nothing is opened yet.

    Raises:
        StoreError: `where` names a kind of store that does not exist.
    """
    if where == "memory:":
        return MemoryStore(clock)
    scheme, separator, _ = where.partition("://")
    if separator:
        raise StoreError(
            f"store {scheme}:// is not in this version of budgetroute; there are folders on a local "
            f'disk and "memory:". Write [store] path = "~/.local/state/budgetroute".'
        )
    if not where.strip() or "\0" in where:
        raise StoreError(f'a store needs a place; found {where!r}. Write [store] path = "…".')
    return DiskStore(where, clock)
