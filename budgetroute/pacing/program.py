"""The linear program behind λ: buy hull segments in order of efficiency until the money is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from budgetroute.curves import hull, segments, steps
from budgetroute.pacing.plans import UNSOLVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.pacing.plans import PacingPlan


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
    return fill(prepare([g.points for g in groups]), [g.count for g in groups], budget)


@dataclass(frozen=True, slots=True)
class Program:
    """Hull segments of several groups, sorted once, so that new counts and money solve quickly.

    Attributes:
        floors: cheapest cost of each group, dollars.
        steps: (efficiency, group, extra dollars), steepest first.
    """

    floors: tuple[float, ...]
    steps: tuple[tuple[float, int, float], ...]


def prepare(curves: Sequence[Sequence[tuple[float, float]]]) -> Program:
    """Prepare groups' (cost, reward) points for `fill`."""
    floors, bought = [], []
    for group, points in enumerate(curves):
        vertices = [points[i] for i in hull(points)]
        floors.append(vertices[0][0])
        bought += [(efficiency, group, extra) for efficiency, extra, _ in steps(vertices)]
    bought.sort(key=itemgetter(0), reverse=True)
    return Program(tuple(floors), tuple(bought))


def capped(
    points: Sequence[tuple[float, float]], plan: PacingPlan
) -> tuple[tuple[float, float], ...]:
    """Return (cost, reward) points without what requests that pay at least this plan's price skip.

    Between its two prices the plan's mix is the dearest point that is left.

    >>> curve = ((0.001, 0.5), (0.002, 0.8), (0.01, 0.9))
    >>> from budgetroute.pacing.plans import PacingPlan
    >>> capped(curve, PacingPlan(low=20.0, high=20.0))
    ((0.001, 0.5), (0.002, 0.8))
    """
    dear, cheap = (_best(points, price) for price in (plan.low, plan.high))
    kept = tuple(point for point in points if point[0] <= cheap[0])
    share = 0.0 if plan.low == plan.high else plan.share
    if dear == cheap or share <= 0.0:
        return kept
    cost, reward = (share * d + (1.0 - share) * c for d, c in zip(dear, cheap, strict=True))
    return (*kept, (cost, reward))


def _best(points: Sequence[tuple[float, float]], price: float) -> tuple[float, float]:
    return max(points, key=lambda point: (point[1] - price * point[0], -point[0]))


def fill(program: Program, counts: Sequence[float], budget: float) -> tuple[float, float, float]:
    """Return (λ_low, λ_high, f) for these requests per group and this money; see `solve`.

    Segments of equal efficiency are one: they share what is left of the money.
    """
    left = budget - sum([n * floor for n, floor in zip(counts, program.floors, strict=True)])
    before = here = 0.0  # efficiencies of the segment before, and of the running one
    price = 0.0  # what all segments of the running efficiency cost together
    for efficiency, group, extra in program.steps:
        cost = counts[group] * extra
        if cost <= 0.0:
            continue
        if efficiency != here:
            if here and price >= left:
                return _split(before, here, efficiency, left / price)
            left -= price
            before, here, price = here, efficiency, 0.0
        price += cost
    if not here:
        return UNSOLVED, UNSOLVED, 0.0
    if price >= left:
        return _split(before, here, here / 4, left / price)
    return here / 2, here / 2, 1.0


def _split(before: float, here: float, after: float, share: float) -> tuple[float, float, float]:
    """Return the prices on either side of the marginal efficiency, and the share bought of it."""
    above = before or 4 * here
    return math.sqrt(here * after), math.sqrt(here * above), max(0.0, share)


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


def span(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the flattest and the steepest hull segment in reward per dollar; (0, 0) = unknown."""
    efficiencies = _by_efficiency(groups)
    return (min(efficiencies), max(efficiencies)) if efficiencies else (0.0, 0.0)
