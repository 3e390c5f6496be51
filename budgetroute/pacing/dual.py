"""The textbook rule: λ steps after each period of spend.

raw              λ′ = max(0, λ + η·(spend − B/T))
relative         λ′ = max(0, λ + η·λ_ref·(spend/share − 1))
multiplicative   λ′ = λ·exp(η·(spend/share − 1))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from budgetroute.pacing.plans import PacingPlan
from budgetroute.pacing.program import solve, span
from budgetroute.units import PICO_PER_USD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.pacing.plans import Bound, PaceView, PacingRule, Step
    from budgetroute.pacing.program import Group
    from budgetroute.units import Pico

DEFAULT_ETA: dict[Step, float] = {"raw": 0.001, "relative": 0.1, "multiplicative": 0.2}
_ERROR_CAP = 10.0  # spend/share − 1 counts at most this much: one wild period must not end the day
_COLD_US = 3_600_000_000  # the solving pacer's warm-up: an hour
_COLD_STEP_US = 300_000_000  # of which the first five minutes may be bought at once
_ALMOST = 1e-9  # of a bound: nearer than that is at it
_SET_BACK = 60_000_000  # microseconds; less than this is a race between processes


def start(rule: PacingRule, groups: Sequence[Group], view: PaceView) -> PacingPlan:
    """Make the first plan: the given λ, else the conservative end of the linear program's.

    λ is never 0 at start unless the user wrote 0: a price of 0 sends everything to the dearest.

    Args:
        rule: the settings.
        groups: the requests of a whole window; the program is solved for what is left of both
            requests and money, and never for more money per request than the whole window has.
        view: the world at the start.
    """
    rest = 1.0 - view.share_of_rest(0.0, (view.now - view.start) / (view.end - view.start))
    left = max(0.0, view.limit - view.settled)
    if rest > 0:
        left = min(left / rest, view.limit)
    _, solved, _ = solve(groups, left / PICO_PER_USD)
    e_min, e_max = span(groups)
    price = solved if rule.initial_lambda is None else rule.initial_lambda
    plan = PacingPlan(
        price,
        price,
        reference=price or solved,
        e_min=e_min,
        e_max=e_max,
        born=view.now,
        born_mark=view.settled,
    )
    return anchored(rule, in_force(rule, plan), view)


def in_force(rule: PacingRule, plan: PacingPlan) -> PacingPlan:
    """Return a kept plan under the settings of today: bounds hold, and a written `fixed` λ wins."""
    low, high = plan.low, plan.high
    if rule.pacer == "fixed" and rule.initial_lambda is not None:
        low = high = rule.initial_lambda
    low, high = bounded(rule, plan, low), bounded(rule, plan, high)
    return plan if (low, high) == (plan.low, plan.high) else replace(plan, low=low, high=high)


def due(rule: PacingRule, plan: PacingPlan, *, window: str, start: int, now: int) -> bool:
    """Say whether a period has ended since the plan was made, or the clock was set back.

    Processes read the clock before they read the plan, so a plan may be a little ahead of `now`.

    Args:
        rule: the settings.
        plan: the plan.
        window: id of the current budget window.
        start: its start, microseconds since 1970 UTC.
        now: the time, same unit.
    """
    ahead = plan.made_at - now
    if ahead > 0:
        return ahead > _SET_BACK
    return window != plan.window or _begun(rule, now - start) > plan.begun


def step(rule: PacingRule, plan: PacingPlan, view: PaceView) -> PacingPlan:
    """Return the plan after the period that just ended; λ is kept when nothing was spent in it."""
    spend = view.settled_before - plan.mark
    if plan.made_at > view.now:  # the clock was set back: nothing that happened can be priced
        return anchored(rule, plan, view)
    moved = plan if spend == 0 or rule.pacer == "fixed" else _moved(rule, plan, view, spend)
    return anchored(rule, moved, view)


def anchored(rule: PacingRule, plan: PacingPlan, view: PaceView) -> PacingPlan:
    """Return the plan with the current period's beginning and sums noted in it."""
    return replace(
        plan,
        window=view.window,
        length=view.end - view.start,
        begun=_begun(rule, view.now - view.start),
        mark=view.settled,
        made_at=view.now,
    )


def _begun(rule: PacingRule, position: int) -> int:
    """Return when the period of a position in the window began, microseconds into the window."""
    period = round(rule.period_s * 1_000_000)
    return position - position % period


def _moved(rule: PacingRule, plan: PacingPlan, view: PaceView, spend: Pico) -> PacingPlan:
    eta = DEFAULT_ETA[rule.step] if rule.eta is None else rule.eta
    error = _error(rule, plan, view, spend)
    average = rule.alpha * plan.error + (1.0 - rule.alpha) * error
    match rule.step:
        case "raw":
            price = plan.high + eta * average
        case "relative":
            price = plan.high + eta * plan.reference * average
        case "multiplicative":
            price = plan.high * math.exp(eta * average)
    price = bounded(rule, plan, price)
    return replace(plan, low=price, high=price, error=average, steps=plan.steps + 1)


def _error(rule: PacingRule, plan: PacingPlan, view: PaceView, spend: Pico) -> float:
    """Return spend − B/T in dollars (`raw`), else spend/share − 1."""
    share = planned_share(rule, plan, view)
    if rule.step == "raw":
        return (spend - share) / PICO_PER_USD
    return min(_ERROR_CAP, spend / share - 1.0) if share > 0 else _ERROR_CAP


def planned_share(rule: PacingRule, plan: PacingPlan, view: PaceView) -> float:
    """Return the pico-dollars planned for the period that just ended.

    `raw` and `flat` plan B/T, whatever happened before. The others also count the empty periods
    since the last step, so that thin traffic is not taken for overspending.
    """
    length = plan.length or view.end - view.start
    period = rule.period_s * 1_000_000
    if rule.step == "raw" and rule.target == "flat":
        return view.limit * period / length
    same = plan.window == view.window
    ended = _begun(rule, view.now - view.start) if same else length
    if rule.target == "flat":
        return view.limit * max(period, ended - plan.begun) / length
    left = max(0, view.limit - plan.mark)
    return left * view.share_of_rest(plan.begun / length, ended / length)


def bounded(rule: PacingRule, plan: PacingPlan, price: float) -> float:
    """Return a price within the bounds: the user's, else half and twice the hulls' segments."""
    low, high = bounds(rule, plan)
    return max(0.0, min(max(price, low), high))


def bounds(rule: PacingRule, plan: PacingPlan) -> tuple[float, float]:
    """Return the least and the greatest λ: the user's, else half and twice the hulls' segments."""
    free = rule.step == "raw" or rule.pacer == "fixed"
    floor = 0.0 if free else plan.e_min / 2
    ceiling = math.inf if free or plan.e_max == 0 else 2 * plan.e_max
    high = max(ceiling, rule.lambda_min or 0.0) if rule.lambda_max is None else rule.lambda_max
    low = min(floor, high) if rule.lambda_min is None else rule.lambda_min
    return low, high


def touched(rule: PacingRule, plan: PacingPlan) -> Bound | None:
    """Return the bound that a plan's λ stands at, None between them.

    The upper one where λ_high reaches it, else the lower one where λ_low does. A λ that is `fixed`
    has none.
    """
    if rule.pacer == "fixed":
        return None
    low, high = bounds(rule, plan)
    if plan.high >= high * (1.0 - _ALMOST) and high != rule.lambda_min:
        return "2·e_max" if rule.lambda_max is None else "lambda_max"
    if plan.low > low * (1.0 + _ALMOST):
        return None
    if rule.lambda_min is not None:
        return "lambda_min"
    return "e_min/2" if low > 0 else "0"


def warming_up(rule: PacingRule, plan: PacingPlan, *, now: int) -> bool:
    """Say whether pacing still buys no more than 1.5 times its planned share.

    `dual`: during its first periods with spend. `solve`: during the first hour without a past.
    """
    if rule.pacer == "solve":
        return plan.is_cold and 0 <= now - plan.born < _COLD_US
    return rule.pacer == "dual" and plan.steps < rule.warmup_periods


def warmup_allowance(rule: PacingRule, plan: PacingPlan, view: PaceView) -> float:
    """Return the pico-dollars that may be spent since `warmup_mark` during warm-up."""
    length = view.end - view.start
    if rule.pacer == "solve":
        begun, mark = max(0, plan.born - view.start), plan.born_mark
        ended = max(view.now - view.start, begun + _COLD_STEP_US)
    else:
        begun, mark = plan.begun, plan.mark
        ended = plan.begun + round(rule.period_s * 1_000_000)
    left = max(0, view.limit - mark)
    return 1.5 * left * view.share_of_rest(begun / length, min(1.0, ended / length))


def warmup_mark(rule: PacingRule, plan: PacingPlan) -> Pico:
    """Return what was settled when the spend that warm-up bounds began to count."""
    return plan.born_mark if rule.pacer == "solve" else plan.mark
