"""Pacing: how the shadow price λ follows the spend.

`dual` is the textbook rule: after each period of spend

    raw              λ′ = max(0, λ + η·(spend − B/T))
    relative         λ′ = max(0, λ + η·λ_ref·(spend/share − 1))
    multiplicative   λ′ = λ·exp(η·(spend/share − 1))

`fixed` keeps λ. Start-up λ comes from the profile's linear program. Everything here is a pure function
of a plan and what was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from budgetroute.curves import hull, segments
from budgetroute.units import PICO_PER_USD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.units import Pico

Step: TypeAlias = Literal["raw", "relative", "multiplicative"]
Target: TypeAlias = Literal["flat", "forecast"]

DEFAULT_ETA: dict[Step, float] = {"raw": 0.001, "relative": 0.1, "multiplicative": 0.2}
_ERROR_CAP = 10.0  # spend/share − 1 counts at most this much: one wild period must not end the day
_SET_BACK = 60_000_000  # microseconds; less than this is a race between processes
_UNSOLVED = 1.0  # λ when there is nothing to solve: one unit of quality is worth a dollar


@dataclass(frozen=True, slots=True)
class PacingRule:
    """Settings of the `dual` and `fixed` pacers.

    Attributes:
        pacer: which.
        step: the form of the update.
        target: `flat` plans B/T per period; `forecast` plans what is left of the budget over what
            is left of the window, in the shape of past days (evenly without a past).
        eta: η. Reward per dollar² for `raw`, a plain number for the other two.
        period_s: length of a period, seconds.
        alpha: weight of the past in the moving average of the error, in [0, 1); 0 = none.
        lambda_min: lower bound of λ; None = half of the flattest hull segment (`raw`: 0).
        lambda_max: upper bound of λ; None = twice the steepest hull segment (`raw`: none).
        initial_lambda: λ to start with; None = solve the profile's linear program.
        warmup_periods: first periods, in which at most 1.5 times the planned share is bought.
    """

    pacer: Literal["dual", "fixed"] = "dual"
    step: Step = "multiplicative"
    target: Target = "forecast"
    eta: float | None = None
    period_s: float = 300.0
    alpha: float = 0.0
    lambda_min: float | None = None
    lambda_max: float | None = None
    initial_lambda: float | None = None
    warmup_periods: int = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that share one set of curves.

    Attributes:
        count: how many are expected.
        points: (cost in dollars, reward) of each action.
    """

    count: float
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class PacingPlan:
    """Where pacing stands; persisted, so that restarts and other processes carry on.

    Attributes:
        low: λ_low, drawn with probability `share`.
        high: λ_high, drawn otherwise; equal to `low` for the step rules.
        share: f.
        reference: λ_ref, the start-up price, the scale of `relative` steps.
        e_min: flattest hull segment of the profile, reward per dollar; 0 = unknown.
        e_max: steepest hull segment; 0 = unknown.
        window: id of the budget window the mark belongs to.
        length: microseconds in that window; 0 = not known, taken to be as long as the current one.
        begun: microseconds into that window at which the current period began.
        mark: settled in the window when the current period began.
        error: moving average of the error.
        steps: periods with spend so far.
        made_at: microseconds since 1970 UTC of the last step.
    """

    low: float
    high: float
    share: float = 0.0
    reference: float = _UNSOLVED
    e_min: float = 0.0
    e_max: float = 0.0
    window: str = ""
    length: int = 0
    begun: int = 0
    mark: int = 0  # pico-dollars; a plain int because the plan is decoded at run time
    error: float = 0.0
    steps: int = 0
    made_at: int = 0

    def price(self, draw: float) -> tuple[float, float]:
        """Return (λ, probability of that λ) for a draw in [0, 1)."""
        if self.low == self.high:
            return self.high, 1.0
        return (self.low, self.share) if draw < self.share else (self.high, 1.0 - self.share)


def evenly(start: float, end: float) -> float:
    """Return the part of the rest of a window that lies before `end`, traffic spread evenly.

    >>> evenly(0.5, 0.75)
    0.5
    """
    return min(1.0, (end - start) / (1.0 - start)) if start < 1.0 else 1.0


@dataclass(frozen=True, slots=True)
class PaceView:
    """What a pacer sees of the world.

    Attributes:
        window: id of the current budget window.
        now: microseconds since 1970 UTC.
        start: start of the window, same unit.
        end: end of the window, same unit.
        limit: the budget of the window.
        settled: settled in the window.
        settled_before: settled by now in the window the plan's mark belongs to.
        share_of_rest: (start, end), positions in [0, 1] of the window → part of the traffic still
            to come at start that is expected until end; evenly spread by default.
    """

    window: str
    now: int
    start: int
    end: int
    limit: Pico
    settled: Pico
    settled_before: Pico
    share_of_rest: Callable[[float, float], float] = evenly


def solve(groups: Sequence[Group], budget: float) -> tuple[float, float, float]:
    """Solve max Σ N·R subject to Σ N·C ≤ budget; return (λ_low, λ_high, f).

    Buys hull segments of all groups in order of efficiency ΔR/ΔC until the money is spent. λ_low
    and λ_high are the geometric means of the marginal efficiency with its neighbours, f the share
    bought of the marginal segment. Source: multiple-choice knapsack, linear relaxation.

    >>> group = Group(100, ((0.001, 0.5), (0.002, 0.8), (0.01, 0.9)))
    >>> low, high, f = solve([group], 0.15)
    >>> round(low, 1), round(high, 1), round(f, 2)
    (61.2, 600.0, 0.5)
    """
    steps = sorted(_by_efficiency(groups).items(), reverse=True)
    if not steps:
        return _UNSOLVED, _UNSOLVED, 0.0
    efficiencies = [efficiency for efficiency, _ in steps]
    left = budget - floor_cost(groups)
    for place, (_, price) in enumerate(steps):
        if price >= left:
            share = max(0.0, left / price)
            return _below(efficiencies, place), _above(efficiencies, place), share
        left -= price
    return efficiencies[-1] / 2, efficiencies[-1] / 2, 1.0


def floor_cost(groups: Sequence[Group]) -> float:
    """Return the dollars that these requests take at the least."""
    return sum(group.count * min(cost for cost, _ in group.points) for group in groups)


def _by_efficiency(groups: Sequence[Group]) -> dict[float, float]:
    """Return ΔR/ΔC → what all hull segments of that efficiency cost together, in dollars."""
    costs: dict[float, float] = {}
    for group in groups:
        if group.count > 0:
            for efficiency, extra, _ in segments([group.points[i] for i in hull(group.points)]):
                costs[efficiency] = costs.get(efficiency, 0.0) + group.count * extra
    return costs


def _above(efficiencies: Sequence[float], place: int) -> float:
    """Return the price between the segment at `place` and the better one before it."""
    here = efficiencies[place]
    return math.sqrt(here * (efficiencies[place - 1] if place else 4 * here))


def _below(efficiencies: Sequence[float], place: int) -> float:
    """Return the price between the segment at `place` and the worse one after it."""
    here, last = efficiencies[place], place == len(efficiencies) - 1
    return math.sqrt(here * (here / 4 if last else efficiencies[place + 1]))


def span(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the flattest and the steepest hull segment in reward per dollar; (0, 0) = unknown."""
    efficiencies = _by_efficiency(groups)
    return (min(efficiencies), max(efficiencies)) if efficiencies else (0.0, 0.0)


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
    plan = PacingPlan(price, price, reference=price or solved, e_min=e_min, e_max=e_max)
    return _anchored(rule, in_force(rule, plan), view)


def in_force(rule: PacingRule, plan: PacingPlan) -> PacingPlan:
    """Return a kept plan under the settings of today: bounds hold, and a written `fixed` λ wins."""
    low, high = plan.low, plan.high
    if rule.pacer == "fixed" and rule.initial_lambda is not None:
        low = high = rule.initial_lambda
    low, high = _bounded(rule, plan, low), _bounded(rule, plan, high)
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
        return _anchored(rule, plan, view)
    moved = plan if spend == 0 or rule.pacer == "fixed" else _moved(rule, plan, view, spend)
    return _anchored(rule, moved, view)


def _anchored(rule: PacingRule, plan: PacingPlan, view: PaceView) -> PacingPlan:
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
    price = _bounded(rule, plan, price)
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


def _bounded(rule: PacingRule, plan: PacingPlan, price: float) -> float:
    free = rule.step == "raw" or rule.pacer == "fixed"
    floor = 0.0 if free else plan.e_min / 2
    ceiling = math.inf if free or plan.e_max == 0 else 2 * plan.e_max
    high = max(ceiling, rule.lambda_min or 0.0) if rule.lambda_max is None else rule.lambda_max
    low = min(floor, high) if rule.lambda_min is None else rule.lambda_min
    return max(0.0, min(max(price, low), high))


def warming_up(rule: PacingRule, plan: PacingPlan) -> bool:
    """Say whether pacing still buys no more than 1.5 times its planned share."""
    return rule.pacer == "dual" and plan.steps < rule.warmup_periods


def warmup_allowance(rule: PacingRule, plan: PacingPlan, view: PaceView) -> float:
    """Return the pico-dollars that the running period may spend during warm-up."""
    length = view.end - view.start
    ended = min(1.0, (plan.begun + rule.period_s * 1_000_000) / length)
    left = max(0, view.limit - plan.mark)
    return 1.5 * left * view.share_of_rest(plan.begun / length, ended)
