"""What a settled call teaches: tokens that its function adds, γ, and bounds that it crossed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.errors import StoreError
from budgetroute.router.crossings import crossings
from budgetroute.units import micros_from_time, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.records import Decision, Settlement, Usage
    from budgetroute.router.core import Router

_MOST_HELD = 10
_LONGEST = 2_000_000  # tokens of input, where the model's own limit is not known
_TOLD = frozenset({"reported", "timed", "given"})


def learn(
    router: Router, decision: Decision, settlement: Settlement, usages: Sequence[Usage]
) -> None:
    """Take in a bill that was reported or given; estimates and cached answers teach nothing."""
    if settlement.repeated or settlement.source not in _TOLD:
        return
    if any(usage.from_cache for usage in usages):
        return
    _gamma(router, decision, settlement)
    try:
        _overheads(router, decision, usages)
        _crossed(router, decision, settlement, usages)
    except StoreError as err:
        router.herald.warn(f"what a call of route {decision.route!r} used is not kept: {err}")


def _gamma(router: Router, decision: Decision, settlement: Settlement) -> None:
    """Tell γ what the call cost next to what was predicted; at most ten times what was held."""
    solver, chosen = router.pace.solver, decision.chosen
    if solver is not None and decision.slots and settlement.balance is not None:
        solver.billed(
            chosen.action,
            predicted=chosen.cost / chosen.gamma,
            billed=usd_from_pico(min(settlement.amount, _MOST_HELD * chosen.worst)),
        )


def _overheads(router: Router, decision: Decision, usages: Sequence[Usage]) -> None:
    """Note what the function added to its prompt, for each of its requests.

    No more is believed than the model can read.
    """
    facts = router.equipment.facts(decision.model)
    most = facts.card.max_input_tokens or _LONGEST
    at = micros_from_time(decision.at)
    counted = decision.input_tokens * facts.ratio
    counted += decision.images * (facts.image_tokens or 0)
    for usage in usages:
        reported = min(usage.input_tokens, most)
        router.overheads.learn(decision.route, reported=reported, counted=counted, at=at)


def _crossed(
    router: Router, decision: Decision, settlement: Settlement, usages: Sequence[Usage]
) -> None:
    """Raise the bounds that this call crossed, and say so when that is new."""
    found = crossings(
        decision,
        usages,
        settlement.amount,
        facts=router.equipment.facts(decision.model),
        billed_as=settlement.billed_as,
        given=settlement.source == "given",
    )
    if not found:
        return
    at = micros_from_time(router.store.now())
    for crossing in router.crossings.note(found, at):
        router.herald.warn(f"{crossing.text}. Worst cases are raised for a day")
