"""The solving pacer: λ is what the money that is left buys of the traffic still to come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from budgetroute.pacing.dual import anchored, bounded
from budgetroute.pacing.program import fill
from budgetroute.units import PICO_PER_USD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.pacing.plans import PaceView, PacingPlan, PacingRule
    from budgetroute.pacing.program import Program
    from budgetroute.units import Pico

EVERY_US = 60_000_000
"""A plan older than this is solved anew."""
EVERY_SHARE = 1000
"""A plan is solved anew when a 1/1000 of the budget was spent since."""
_SET_BACK = 60_000_000  # microseconds; less than this is a race between processes
_HORIZON = 1000.0  # requests
_BANKS = 2.0
_NEGLIGIBLE = 0.01  # requests: nothing is to come, the last plan holds


def solving_due(plan: PacingPlan, *, window: str, now: int, spent: Pico, limit: Pico) -> bool:
    """Say whether a plan is to be solved anew.

    Args:
        plan: the plan.
        window: id of the current budget window.
        now: microseconds since 1970 UTC.
        spent: settled in the window, as far as is known.
        limit: the budget.
    """
    age = now - plan.made_at
    if window != plan.window:
        return age > 0 or -age > _SET_BACK
    return age >= EVERY_US or -age > _SET_BACK or (spent - plan.mark) * EVERY_SHARE >= max(1, limit)


def days_ahead(per_day: float, *, carry_over: float) -> float:
    """Return how many days beyond today to plan for: the horizon H less today.

    H = min(2 · carry_over, 1,000 requests) in days, and never less than today: where unspent money
    is carried over, thin traffic is planned over enough requests to tell luck from need, but no
    further than two full banks, for what does not fit into the bank is lost (pacing study §5).

    Args:
        per_day: requests of a day.
        carry_over: days' money that the bank may hold.

    >>> days_ahead(5, carry_over=7), days_ahead(200, carry_over=7), days_ahead(5, carry_over=0.25)
    (13.0, 4.0, 0.0)
    """
    return max(0.0, min(_BANKS * carry_over, _HORIZON / max(1.0, per_day)) - 1.0)


def resolved(
    rule: PacingRule,
    plan: PacingPlan,
    view: PaceView,
    program: Program,
    counts: Sequence[float],
    *,
    ahead: Pico = 0,
) -> PacingPlan:
    """Return the plan that spends what is left on what is still to come.

    B_rem = limit − settled − expected cost of every live hold, in this window, plus `ahead`. The
    plan's bounds are those of the program.

    Args:
        rule: the settings.
        plan: the plan before.
        view: the world.
        program: hull segments of every group.
        counts: requests still to come, per group of the program.
        ahead: money of later windows, where `counts` reaches into them.
    """
    if sum(counts) < _NEGLIGIBLE:
        return anchored(rule, plan, view)
    if program.steps:
        plan = replace(plan, e_min=program.steps[-1][0], e_max=program.steps[0][0])
    left = max(0, view.limit - view.settled - view.expected + ahead) / PICO_PER_USD
    low, high, share = fill(program, counts, left)
    if not rule.mix:
        low = high = high if share < 0.5 else low  # noqa: PLR2004 - whichever is bought more
    return anchored(
        rule,
        replace(
            plan,
            low=bounded(rule, plan, low),
            high=bounded(rule, plan, high),
            share=share,
            steps=plan.steps + 1,
        ),
        view,
    )
