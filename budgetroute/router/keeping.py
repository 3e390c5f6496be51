"""Writing what can be computed anew: a store that is busy is no reason to fail a call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec

from budgetroute.errors import StoreError
from budgetroute.units import is_within

if TYPE_CHECKING:
    from budgetroute.protocols import Store

T = TypeVar("T")

logger = logging.getLogger("budgetroute.pace")


def recalled(decoder: msgspec.json.Decoder[T], text: str | None, *, what: str) -> T | None:
    """Decode what was kept; None where nothing was, or nothing that can be meant.

    A store may be damaged or come from elsewhere, and what it keeps is never worth a failed call.

    Args:
        decoder: of what is kept.
        text: as it is kept.
        what: begins the warning, `kept γ cannot be read, calibration starts over`.
    """
    if text is None:
        return None
    try:
        value = decoder.decode(text)
        if is_within(msgspec.to_builtins(value)):
            return value
        problem: object = "a number in it is beyond all bounds"
    except (msgspec.MsgspecError, RecursionError) as err:
        problem = err
    logger.warning("%s: %s", what, problem)
    return None


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
