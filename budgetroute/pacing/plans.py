"""What a pacer is told, what it plans, and what it sees of the world."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.units import Pico

Step: TypeAlias = Literal["raw", "relative", "multiplicative"]
Target: TypeAlias = Literal["flat", "forecast"]
Pacer: TypeAlias = Literal["solve", "dual", "fixed"]
Bound: TypeAlias = Literal["0", "e_min/2", "2·e_max", "lambda_min", "lambda_max"]

UNSOLVED = 1.0
"""λ when there is nothing to solve: one unit of quality is worth a dollar."""


@dataclass(frozen=True, slots=True)
class PacingRule:
    """Settings of the pacers.

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
        mix: `solve` draws between two neighbouring prices, so that a budget between two actions is
            met; False takes one price.
    """

    pacer: Pacer = "dual"
    step: Step = "multiplicative"
    target: Target = "forecast"
    eta: float | None = None
    period_s: float = 300.0
    alpha: float = 0.0
    lambda_min: float | None = None
    lambda_max: float | None = None
    initial_lambda: float | None = None
    warmup_periods: int = 3
    mix: bool = True


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
        born: microseconds since 1970 UTC of the first plan.
        born_mark: settled in its window then.
        is_cold: there was no past when it was born.
    """

    low: float
    high: float
    share: float = 0.0
    reference: float = UNSOLVED
    e_min: float = 0.0
    e_max: float = 0.0
    window: str = ""
    length: int = 0
    begun: int = 0
    mark: int = 0  # pico-dollars; a plain int because the plan is decoded at run time
    error: float = 0.0
    steps: int = 0
    made_at: int = 0
    born: int = 0
    born_mark: int = 0
    is_cold: bool = False

    def price(self, draw: float) -> tuple[float, float]:
        """Return (λ, probability of that λ) for a draw in [0, 1)."""
        if self.low == self.high:
            return self.high, 1.0
        return (self.low, self.share) if draw < self.share else (self.high, 1.0 - self.share)


def dearest(plans: Sequence[PacingPlan], draw: float) -> tuple[float, float, int]:
    """Return (λ, probability of that λ, place of its plan): the dearest price of several scopes.

    All plans are drawn from with one number in [0, 1).

    >>> dearest([PacingPlan(1.0, 3.0, share=0.5), PacingPlan(2.0, 2.0)], 0.2)
    (2.0, 0.5, 1)
    >>> dearest([PacingPlan(1.0, 3.0, share=0.5), PacingPlan(2.0, 2.0)], 0.7)
    (3.0, 0.5, 0)
    """
    if len(plans) == 1:
        return (*plans[0].price(draw), 0)
    price, place = _highest(plans, draw)
    cuts = sorted({0.0, 1.0, *[min(1.0, max(0.0, plan.share)) for plan in plans]})
    spans = pairwise(cuts)
    chance = sum(end - start for start, end in spans if _highest(plans, start)[0] == price)
    return price, chance, place


def _highest(plans: Sequence[PacingPlan], draw: float) -> tuple[float, int]:
    prices = [plan.price(draw)[0] for plan in plans]
    price = max(prices)
    return price, prices.index(price)


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
        expected: expected cost of the calls in flight.
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
    expected: Pico = 0
