"""How sure a profile's numbers are: for display, never for choosing.

A router that chose by upper ends would pick the least known action: the optimiser's curse again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.curves import hull, wilson
from budgetroute.profiling.fit import effective_samples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random  # noqa: TID251 - the type of what is passed in

    from budgetroute.records import Action, Cell

DRAWS = 200
"""Enough to tell 5 % from 15 %."""


def interval(cell: Cell) -> tuple[float, float]:
    """Return the 95 % interval of a cell's reward.

    Wilson's, at the number of independent answers that the standard error stands for; of a cell
    that was not measured, two standard errors each way.

    >>> from budgetroute.records import Cell
    >>> [round(end, 2) for end in interval(Cell(400, 0.5, 0.025, 90.0))]
    [0.45, 0.55]
    """
    if cell.n > 0:
        return wilson(cell.reward, effective_samples(cell))
    return max(0.0, cell.reward - 2 * cell.reward_se), min(1.0, cell.reward + 2 * cell.reward_se)


def hull_shares(
    actions: Sequence[Action],
    cells: Sequence[Cell],
    costs: Sequence[float],
    *,
    luck: Random,
    draws: int = DRAWS,
) -> list[float]:
    """Return how often each action is on the hull when rewards are drawn within their errors.

    A parametric bootstrap: normal rewards, one draw for all caps of a way, since they come from
    the same answers.
    """
    hits = [0] * len(cells)
    for _ in range(draws):
        shift: dict[str, float] = {}
        points = [
            (cost, cell.reward + cell.reward_se * shift.setdefault(act.family, luck.gauss(0, 1)))
            for act, cell, cost in zip(actions, cells, costs, strict=True)
        ]
        for vertex in hull(points):
            hits[vertex] += 1
    return [count / draws for count in hits]
