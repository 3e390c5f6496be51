"""Spends exact amounts through a router without its learning anything from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.records import Bill, Pins
from budgetroute.units import micros_from_time
from helpers.world import asked

if TYPE_CHECKING:
    from budgetroute.records import Decision
    from budgetroute.router import Router

SMALL = {"prompt_type": "math", "pins": Pins(model="small", max_tokens=256)}
"""A call that can cost $0.000134 at most."""
_LAST = 1_000_000  # pico-dollars


def spend(router: Router, usd: float, **request: object) -> Decision:
    """Make one small call and settle it, with so much booked in its scopes altogether.

    What the call itself cannot cost is booked beside it: a bill far above a worst case would raise
    the worst cases of later calls.
    """
    decision = router.decide(asked(**{**SMALL, **request}))
    total = round(usd * 10**12)
    last = min(total, _LAST)
    at = micros_from_time(router.store.now())
    router.store.settle(
        Bill(f"{decision.id}#99", decision.id, at, decision.slots, total - last, 0, total)
    )
    router.settle(decision, given=last)
    return decision
