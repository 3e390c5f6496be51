"""The hindsight optimum: what a day's traffic could have earned with its budget, counts known.

Type information only: realised counts of each type, mean costs, mean rewards. The linear program is
a multiple-choice knapsack, solved exactly by buying hull segments in order of reward per dollar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from workload import TYPES, Day

from budgetroute.curves import hull, segments

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Optimum:
    """Reward, shadow price (reward per dollar), requests at their type's floor, dollars."""

    reward: float
    price: float
    floor: float
    spend: float


@dataclass(frozen=True, slots=True)
class Crowd:
    """Requests with the same curve."""

    count: float
    costs: tuple[float, ...]
    rewards: tuple[float, ...]


def crowds(day: Day) -> list[Crowd]:
    """Count a day's requests per type and table in force."""
    phases = day.phases()
    found = []
    for phase, (_, table) in enumerate(day.truth):
        counts = np.bincount(day.types[phases == phase], minlength=len(TYPES))
        found += [
            Crowd(float(count), costs, rewards)
            for count, costs, rewards in zip(counts, table.costs, table.rewards, strict=True)
        ]
    return found


def optimum(groups: Sequence[Crowd], budget: float) -> Optimum:
    """Solve the linear program for one budget."""
    reward, spend, floor, steps = 0.0, 0.0, 0.0, []
    for group in groups:
        points = list(zip(group.costs, group.rewards, strict=True))
        vertices = [points[i] for i in hull(points)]
        reward += group.count * vertices[0][1]
        spend += group.count * vertices[0][0]
        floor += group.count
        for place, segment in enumerate(segments(vertices)):
            steps.append((segment.efficiency, segment.cost * group.count, place, group.count))
    price = 0.0
    for efficiency, cost, place, count in sorted(steps, reverse=True):
        share = min(1.0, max(0.0, (budget - spend) / cost)) if cost > 0 else 1.0
        reward += share * cost * efficiency
        spend += share * cost
        floor -= share * count if place == 0 else 0.0
        if share < 1.0:
            price = efficiency
            break
    return Optimum(reward, price, floor, spend)
