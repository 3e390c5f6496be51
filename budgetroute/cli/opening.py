"""Opens the ledger to be looked at: nothing is made where nothing was spent yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.clock import WallClock
from budgetroute.router.assembly import store_target
from budgetroute.stores import MemoryStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from budgetroute.config import Config
    from budgetroute.protocols import Clock, Store

LEDGER = "ledger.db"


def ledger_file(config: Config) -> Path | None:
    """Return where the ledger is or will be; None for a store that is not on disk."""
    if config.store.url is not None:
        return None
    return config.resolve(store_target(config)) / LEDGER


def store_to_read(config: Config, clock: Clock | None = None) -> Store:
    """Return the configured store, or an empty one in memory if its ledger does not exist yet.

    So a look as another user (root, say) leaves no file that the service could not write.
    """
    clock = clock or WallClock()
    path = ledger_file(config)
    if path is not None and not path.exists():
        return MemoryStore(clock)
    return open_store(store_target(config), clock)


def store_words(config: Config) -> str:
    """Say where the store is, in a few words."""
    path = ledger_file(config)
    if path is None:
        return f"store {config.store.url} (each process has its own)"
    return f"store {path.parent}"
