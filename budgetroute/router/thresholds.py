"""Warnings: which shares of a limit were crossed, each told once per period by one process."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from budgetroute.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from budgetroute.protocols import Store
    from budgetroute.records import Applied, Balance, Slot

_REMEMBERED = 10_000


class Thresholds:
    """What was told already, in the store and, to spare it, in this process.

    A warning is told by the process that sets its mark in the store. The mark comes first: a
    process that is killed between the two leaves a warning that nobody sees, never two.

    Args:
        store: where marks are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: OrderedDict[tuple[Slot, float], None] = OrderedDict()

    def of(
        self, applied: Sequence[Applied], balances: Sequence[Balance]
    ) -> Iterator[tuple[Applied, Balance, float]]:
        """Yield (limit, its sums, share) of each share of spending that is crossed for the first time."""
        for limit, balance in zip(applied, balances, strict=True):
            for share in limit.warn:
                if limit.usd is None or balance.settled < share * limit.usd:
                    break
                if self._is_first(limit.slot, share):
                    yield limit, balance, share

    def exhausted(self, limit: Applied) -> bool:
        """Say whether a limit that refused is to be told of: it warns at 1 and has not yet."""
        return 1.0 in limit.warn and self._is_first(limit.slot, 1.0)

    def _is_first(self, slot: Slot, share: float) -> bool:
        if (slot, share) in self._told:
            return False
        try:
            is_first = self._store.mark(slot, f"warn:{share:g}")
        except StoreError:  # the next call that finds it crossed tells
            return False
        self._told[slot, share] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return is_first
