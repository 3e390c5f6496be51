"""Writing what can be computed anew: a store that is busy is no reason to fail a call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from budgetroute.errors import StoreError

if TYPE_CHECKING:
    from budgetroute.protocols import Store

logger = logging.getLogger("budgetroute.pace")


def kept(store: Store, key: str, value: str, *, version: int) -> bool:
    """Write by compare-and-set; False where another was first or the store stayed locked.

    Raises:
        StoreError: the store cannot be written at all.
    """
    try:
        return store.save_plan(key, value, expected_version=version)
    except StoreError as err:
        if not err.retryable:
            raise
        logger.info("%s was not written, the next one will be: %s", key.partition("|")[2], err)
        return False
