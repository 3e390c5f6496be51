"""From raw cells to what a profile promises: shrunk, monotone, judged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from budgetroute.curves import fit_concave, hull, shrink
from budgetroute.profiling.outcomes import with_reward

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.profiling.outcomes import Curve
    from budgetroute.profiling.pooling import Prediction
    from budgetroute.records import Action, Cell

SATURATION_SHARE = 0.95
SENSITIVE_RATIO = 10.0
HALF = 0.5


def pulled(curve: Curve, prediction: Prediction, *, scatter: float) -> Curve:
    """Return a measured curve pulled towards its prediction (empirical Bayes).

    w = τ²/(τ² + se²), τ the standard error of the prediction, at least what true scores scatter around
    predictions; both on the reward scale. The new error is that of the posterior, √w · se.
    """
    least = (prediction.reward * (1 - prediction.reward)) ** 2 * scatter
    spread = max(least, prediction.reward_se**2)
    weight = spread / (spread + curve.reward_se**2)
    reward = weight * curve.reward + (1 - weight) * prediction.reward
    return with_reward(curve, reward, reward_se=math.sqrt(weight) * curve.reward_se)


def shrink_cells(cells: Sequence[Cell], costs: Sequence[float]) -> list[Cell]:
    """Shrink a type's measured cells towards a concave fit over log cost; others stay as they are.

    Args:
        cells: one type's.
        costs: dollars of each, positive.
    """
    known = [i for i, cell in enumerate(cells) if cell.source == "measured" and cell.n > 0]
    if not known:
        return list(cells)
    means = [cells[i].reward for i in known]
    counts = [effective_samples(cells[i]) for i in known]
    fit = fit_concave([costs[i] for i in known], means, counts)
    better = dict(zip(known, shrink(means, counts, [fit.at(costs[i]) for i in known]), strict=True))
    return [replace(cell, reward=better.get(i, cell.reward)) for i, cell in enumerate(cells)]


def shrink_ways(
    actions: Sequence[Action], cells: Sequence[Cell], costs: Sequence[float]
) -> list[Cell]:
    """Shrink a type's ways of answering, each at its largest cap, and scale their smaller caps.

    What a cap cuts follows from the lengths and has no error to share with other ways; left among
    the cells it would only make the fit's scatter large, and the shrinkage weak.

    Args:
        actions: one type's.
        cells: one per action.
        costs: dollars of each, positive.
    """
    ways = [_way(action) for action in actions]
    top: dict[Action, int] = {}
    for index, way in enumerate(ways):
        if way not in top or actions[index].max_tokens > actions[top[way]].max_tokens:
            top[way] = index
    indices = list(top.values())
    shrunk = shrink_cells([cells[i] for i in indices], [costs[i] for i in indices])
    scale = {
        ways[i]: cell.reward / cells[i].reward if cells[i].reward > 0 else 1.0
        for i, cell in zip(indices, shrunk, strict=True)
    }
    return [
        replace(cell, reward=min(1.0, cell.reward * scale[way]))
        for cell, way in zip(cells, ways, strict=True)
    ]


def _way(action: Action) -> Action:
    """Return the action without its cap, if a cap only cuts; else every cap is a way of its own."""
    only_cuts = action.reasoning_effort in {None, "none"} and action.n == 1
    return replace(action, max_tokens=1) if only_cuts else action


def effective_samples(cell: Cell) -> float:
    """Return how many independent answers would give the cell's standard error."""
    if cell.reward_se <= 0:
        return float(cell.n)
    return min(float(cell.n), max(cell.reward * (1 - cell.reward), 0.02) / cell.reward_se**2)


def monotone_caps(actions: Sequence[Action], cells: Sequence[Cell]) -> list[Cell]:
    """Lift cells so that a larger cap of the same action never promises less reward.

    >>> from budgetroute.records import Action, Cell
    >>> kept = monotone_caps(
    ...     [Action("m", 64), Action("m", 128)], [Cell(9, 0.5, 0.1, 9.0), Cell(9, 0.4, 0.1, 9.0)]
    ... )
    >>> kept[1].reward
    0.5
    """
    best: dict[str, float] = {}
    lifted = list(cells)
    for index in sorted(range(len(actions)), key=lambda i: actions[i].max_tokens):
        family = replace(actions[index], max_tokens=1).label
        best[family] = max(best.get(family, 0.0), cells[index].reward)
        lifted[index] = replace(cells[index], reward=best[family])
    return lifted


def mixed_reward(cells: Mapping[str, Cell], shares: Mapping[str, float]) -> tuple[float, float]:
    """Return the share-weighted reward of one action over types, and its standard error."""
    total = math.fsum(shares[name] for name in cells)
    reward = math.fsum(shares[name] * cell.reward for name, cell in cells.items()) / total
    squares = math.fsum((shares[name] * cell.reward_se) ** 2 for name, cell in cells.items())
    return reward, math.sqrt(squares) / total


def is_sensitive(points: Sequence[tuple[float, float]]) -> bool:
    """Say whether quality keeps rising with spend.

    True when reaching 95 % of the best reward on the hull costs more than ten times what half of
    it costs.

    >>> is_sensitive([(1.0, 0.90), (20.0, 0.92)]), is_sensitive([(1.0, 0.5), (20.0, 0.9)])
    (False, True)
    """
    vertices = [points[i] for i in hull(points)]
    if not vertices:
        return False
    best = vertices[-1][1]

    def cost_of(share: float) -> float:
        return next(cost for cost, reward in vertices if reward >= share * best)

    return cost_of(SATURATION_SHARE) > SENSITIVE_RATIO * cost_of(HALF)
