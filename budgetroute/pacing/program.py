"""The linear program behind λ: buy hull segments in order of efficiency until the money is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.curves import hull, segments
from budgetroute.pacing.plans import UNSOLVED

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that share one set of curves.

    Attributes:
        count: how many are expected.
        points: (cost in dollars, reward) of each action.
    """

    count: float
    points: tuple[tuple[float, float], ...]


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
        return UNSOLVED, UNSOLVED, 0.0
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
