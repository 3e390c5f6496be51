"""Curves: what a prompt type's actions are worth, from noisy cells to an upper concave hull.

Points are (cost, reward) pairs; costs are dollars or anything else that is scarce and positive.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.records import Cell, CellSource

Point: TypeAlias = "tuple[float, float]"

STEEPNESS_GRID: tuple[float, ...] = tuple(0.25 * 2 ** (step / 4) for step in range(29))
"""Values tried for s: from nearly straight in log cost (0.25) to a step at the cheapest (32)."""

FIT_PARAMETERS = 3
VARIANCE_FLOOR = 0.02
"""Least variance of one graded answer: a cell with 5 of 5 right is not certain."""

FADE = 1.5
"""In log cap: how far below the smallest profiled cap an answer still has a chance."""

CERTAINTY: tuple[CellSource, ...] = ("measured", "interpolated", "pooled", "like", "prior")
"""Where a cell can come from, surest first."""


class Segment(NamedTuple):
    """A step along a hull: ΔR/ΔC, ΔC and ΔR."""

    efficiency: float
    cost: float
    reward: float


def hull(points: Sequence[Point]) -> list[int]:
    """Return the indices of the upper concave hull, cost and reward strictly increasing.

    It starts at the best reward among the cheapest points. Of equal points the first counts;
    points on a straight line between two vertices are left out.

    Raises:
        ValueError: a cost or reward is not finite.

    >>> hull([(1.0, 0.2), (2.0, 0.6), (3.0, 0.5), (4.0, 0.7)])
    [0, 1, 3]
    """
    if sum([x - x + y - y for x, y in points]) != 0:  # the quick look: infinity − itself is NaN
        index = next(i for i, point in enumerate(points) if not all(map(math.isfinite, point)))
        raise ValueError(
            f"point {index} of a curve is {points[index]}; cost and reward must be finite"
        )
    kept: list[tuple[float, float, int]] = []
    highest = -math.inf
    for cost, less, index in sorted([(x, -y, i) for i, (x, y) in enumerate(points)]):
        reward = -less
        if reward <= highest:
            continue
        while len(kept) > 1:
            x0, y0, _ = kept[-2]
            x1, y1, _ = kept[-1]
            if (y1 - y0) * (cost - x1) > (reward - y1) * (x1 - x0):
                break  # bends down at the vertex before
            kept.pop()
        kept.append((cost, reward, index))
        highest = reward
    return [index for _, _, index in kept]


def segments(vertices: Sequence[Point]) -> list[Segment]:
    """Return the steps between successive hull vertices, best efficiency first.

    >>> segments([(1.0, 0.2), (2.0, 0.6), (4.0, 0.7)])[0]
    Segment(efficiency=0.39999999999999997, cost=1.0, reward=0.39999999999999997)
    """
    return [Segment(*step) for step in steps(vertices)]


def steps(vertices: Sequence[Point]) -> list[tuple[float, float, float]]:
    """Return what `segments` does as plain tuples, for the solver: a third of the time."""
    return [
        ((next_reward - reward) / (next_cost - cost), next_cost - cost, next_reward - reward)
        for (cost, reward), (next_cost, next_reward) in itertools.pairwise(vertices)
    ]


@dataclass(frozen=True, slots=True)
class ConcaveFit:
    """R(c) = a + b·(1 − exp(−s·log(c/c_min)/log(c_max/c_min))), b ≥ 0: saturating in log cost.

    Attributes:
        a: reward at the least cost.
        b: what spending more can add, before saturation.
        s: steepness.
        cheapest: c_min.
        dearest: c_max.
    """

    a: float
    b: float
    s: float
    cheapest: float
    dearest: float

    def at(self, cost: float) -> float:
        """Return the fitted reward, held inside [0, 1]; outside the costs fitted, the end's."""
        rise = _saturation(self.s, _log_position(cost, self.cheapest, self.dearest))
        return min(1.0, max(0.0, self.a + self.b * rise))


def fit_concave(
    costs: Sequence[float], rewards: Sequence[float], weights: Sequence[float] | None = None
) -> ConcaveFit:
    """Fit a concave saturating curve by weighted least squares, s on a grid (pacing study §6).

    Args:
        costs: positive costs.
        rewards: mean rewards at them.
        weights: samples behind each; None = all alike.

    Raises:
        ValueError: no points, a cost that is not positive, or no weight at all.

    >>> fit = fit_concave([1, 2, 4, 8], [0.2, 0.5, 0.6, 0.62])
    >>> [round(fit.at(cost), 2) for cost in (1, 2, 4, 8)]
    [0.2, 0.5, 0.59, 0.63]
    """
    mass = [1.0] * len(costs) if weights is None else list(weights)
    if not costs or min(costs) <= 0 or min(mass) < 0 or sum(mass) <= 0:
        raise ValueError(
            f"a curve needs positive costs and some weight; found costs {list(costs)!r} with "
            f"weights {mass!r}"
        )
    low, high = min(costs), max(costs)
    places = [_log_position(cost, low, high) for cost in costs]
    tried = (_line(s, places, rewards=rewards, weights=mass) for s in STEEPNESS_GRID)
    _, a, b, s = min(tried)
    return ConcaveFit(a, b, s, low, high)


def _line(
    s: float, places: Sequence[float], *, rewards: Sequence[float], weights: Sequence[float]
) -> tuple[float, float, float, float]:
    """Return (squared error, a, b, s) of the best a and b ≥ 0 for one steepness."""
    rises = [_saturation(s, place) for place in places]
    total = sum(weights)
    mid_x = math.fsum(w * x for w, x in zip(weights, rises, strict=True)) / total
    mid_y = math.fsum(w * y for w, y in zip(weights, rewards, strict=True)) / total
    rows = list(zip(weights, rises, rewards, strict=True))
    spread = math.fsum(w * (x - mid_x) ** 2 for w, x, _ in rows)
    slope = math.fsum(w * (x - mid_x) * (y - mid_y) for w, x, y in rows)
    b = max(0.0, slope / spread) if spread > 0 else 0.0
    a = mid_y - b * mid_x
    return math.fsum(w * (y - a - b * x) ** 2 for w, x, y in rows), a, b, s


def _saturation(s: float, place: float) -> float:
    return -math.expm1(-s * place)


def _log_position(cost: float, low: float, high: float) -> float:
    if cost <= low or high <= low:
        return 0.0
    return min(1.0, (math.log(cost) - math.log(low)) / (math.log(high) - math.log(low)))


def shrink(means: Sequence[float], n: Sequence[float], fitted: Sequence[float]) -> list[float]:
    """Pull noisy means towards a fit, each by how little it is known (empirical Bayes).

    R̂ = w·R̄ + (1 − w)·μ with w = τ²/(τ² + v/n), v = max(R̄(1 − R̄), 0.02). τ² is what the means
    scatter around the fit beyond their sampling error (moments, weighted by n, corrected for the
    fit's three parameters). A cell without samples takes the fit; with three cells or fewer the
    scatter cannot be judged and the means stay.

    >>> shrink([0.2, 0.9, 0.6, 0.7], [9, 9, 0, 9], [0.3, 0.5, 0.6, 0.7])[2]
    0.6
    """
    rows = list(zip(means, n, fitted, strict=True))
    known = [(mean, count, mu) for mean, count, mu in rows if count > 0]
    if len(known) <= FIT_PARAMETERS:
        return [mean if count > 0 else mu for mean, count, mu in rows]
    between = _between_variance(known)
    return [_posterior(mean, count, mu=mu, between=between) for mean, count, mu in rows]


def _between_variance(known: Sequence[tuple[float, float, float]]) -> float:
    total = sum(count for _, count, _ in known)
    scatter = math.fsum(count * (mean - mu) ** 2 for mean, count, mu in known) / total
    sampling = math.fsum(_variance(mean) for mean, _, _ in known) / total
    return max(0.0, scatter * len(known) / (len(known) - FIT_PARAMETERS) - sampling)


def _posterior(mean: float, count: float, *, mu: float, between: float) -> float:
    if count <= 0:
        return mu
    weight = between / (between + _variance(mean) / count)
    return weight * mean + (1 - weight) * mu


def _variance(mean: float) -> float:
    return max(mean * (1 - mean), VARIANCE_FLOOR)


def wilson(mean: float, n: float, *, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a share, for display; (0, 1) without samples.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    if n <= 0:
        return 0.0, 1.0
    stretch = 1 + z * z / n
    middle = (mean + z * z / (2 * n)) / stretch
    half = z / stretch * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def interpolate_cap(cells_by_cap: Mapping[int, Cell], cap: int) -> Cell | None:
    """Return the cell at a cap that was not profiled, linear in log cap between its neighbours.

    Above the largest profiled cap the largest counts; below the smallest nothing is known (None).
    Expected and p95 / p99 tokens never exceed the cap. n is the smaller neighbour's, the standard
    error the larger, the source the less certain.

    >>> from budgetroute.records import Cell
    >>> curve = {256: Cell(50, 0.4, 0.07, 200.0), 1024: Cell(50, 0.6, 0.07, 300.0)}
    >>> round(interpolate_cap(curve, 512).reward, 6), interpolate_cap(curve, 128)
    (0.5, None)
    """
    if not cells_by_cap or cap < min(cells_by_cap):
        return None
    below = max(profiled for profiled in cells_by_cap if profiled <= cap)
    if below == cap or below == max(cells_by_cap):
        return cells_by_cap[below]
    above = min(profiled for profiled in cells_by_cap if profiled > cap)
    share = math.log(cap / below) / math.log(above / below)
    return _between(cells_by_cap[below], cells_by_cap[above], share=share, cap=cap)


def stretched(cells_by_cap: Mapping[int, Cell], cap: int, log_factor: float) -> Cell | None:
    """Return the cell at a cap for prompts whose answers are exp(log_factor) times as long.

    What such answers lose at cap m, others lose at m / factor. Below the smallest profiled cap the
    reward falls in log cap to nothing at a fifth of it, unless nothing is cut there.

    >>> from budgetroute.records import Cell
    >>> curve = {256: Cell(50, 0.4, 0.07, 200.0), 1024: Cell(50, 0.6, 0.07, 300.0)}
    >>> longer = stretched(curve, 1024, math.log(2))
    >>> round(longer.reward, 3), longer.output_mean
    (0.5, 500.0)
    """
    if not cells_by_cap:
        return None
    factor, least = math.exp(log_factor), min(cells_by_cap)
    place = max(1.0, cap / factor)
    cell = interpolate_cap(cells_by_cap, max(least, round(place)))
    if cell is None:
        return None
    lost = min(1.0, max(0.0, math.log(least / place)) / FADE) if cell.cut != 0.0 else 0.0
    output = min(cell.output_mean, place) if lost else cell.output_mean
    return replace(
        cell, reward=cell.reward * (1.0 - lost), output_mean=min(output * factor, float(cap))
    )


def _between(low: Cell, high: Cell, *, share: float, cap: int) -> Cell:
    def mixed(first: float, second: float) -> float:
        return first + (second - first) * share

    def both(first: float | None, second: float | None) -> float | None:
        return None if first is None or second is None else mixed(first, second)

    def held(first: float | None, second: float | None) -> float | None:
        value = both(first, second)
        return None if value is None else min(value, cap)

    return replace(
        low,
        n=min(low.n, high.n),
        reward=mixed(low.reward, high.reward),
        reward_se=max(low.reward_se, high.reward_se),
        output_mean=min(mixed(low.output_mean, high.output_mean), cap),
        output_p95=held(low.output_p95, high.output_p95),
        output_p99=held(low.output_p99, high.output_p99),
        cut=both(low.cut, high.cut),
        input_factor=max(low.input_factor, high.input_factor),
        latency_mean=both(low.latency_mean, high.latency_mean),
        latency_p95=both(low.latency_p95, high.latency_p95),
        source=max(low.source, high.source, "interpolated", key=CERTAINTY.index),
    )
