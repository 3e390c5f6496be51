"""What a day of real requests could have earned: yardsticks with more and more hindsight.

- *same curves*: the counts of the day known, bought in the order of the curves that the router had;
  what is missing to it is pacing alone.
- *true curves*: the same, in the order of the judged prompts' own means: pacing and curves.
- *every outcome*: which action answers which prompt, known: no router can know that.
- *random mix*: the best two single actions and share, chosen in hindsight at the same dollars.
- *single*: the best single action that the same dollars buy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pacing_lp import Crowd, optimum
from real_outcomes import TASKS

from budgetroute.curves import hull, segments

if TYPE_CHECKING:
    from real_outcomes import Half
    from workload import Floats, Ints


class Day:
    """The requests of one day: which judged prompts were asked."""

    def __init__(self, half: Half, drawn: Ints) -> None:
        self.requests = drawn.size
        self._half = half
        self._asked, self._times = np.unique(drawn, return_counts=True)
        kinds = half.kinds[self._asked]
        self._counts = [float(self._times[kinds == kind].sum()) for kind in range(len(TASKS))]
        self._costs, self._scores = (
            np.array([self._mean(values, kinds == kind) for kind in range(len(TASKS))])
            for values in (half.costs, half.scores)
        )

    def _mean(self, values: Floats, mine: np.ndarray) -> Floats:
        return np.average(values[self._asked[mine]], axis=0, weights=self._times[mine])

    def bought(self, costs: Floats, rewards: Floats, budget: float) -> float:
        """Return the reward of buying in the order of some [task][action] curves, counts known."""
        steps = []
        spend = reward = 0.0
        for kind, count in enumerate(self._counts):
            places = hull(list(zip(costs[kind].tolist(), rewards[kind].tolist(), strict=True)))
            spend += count * self._costs[kind][places[0]]
            reward += count * self._scores[kind][places[0]]
            found = segments([(costs[kind][i], rewards[kind][i]) for i in places])
            for segment, (before, after) in zip(found, pairwise(places), strict=True):
                dollars, more = (
                    count * (table[kind][after] - table[kind][before])
                    for table in (self._costs, self._scores)
                )
                steps.append((-segment.efficiency, kind, dollars, more))
        for _, _, dollars, more in sorted(steps):
            if spend + dollars > budget:
                return float(reward + more * max(0.0, budget - spend) / dollars)
            spend += dollars
            reward += more
        return float(reward)

    def true_curves(self, budget: float) -> float:
        """Return what the judged prompts' own means buy, counts known."""
        half = self._half
        return self.bought(half.means(half.costs), half.means(half.scores), budget)

    def every_outcome(self, budget: float) -> float:
        """Return what knowing each answer beforehand buys."""
        half = self._half
        crowds = [
            Crowd(float(count), tuple(half.costs[i].tolist()), tuple(half.scores[i].tolist()))
            for i, count in zip(self._asked.tolist(), self._times.tolist(), strict=True)
        ]
        return optimum(crowds, budget).reward

    def _whole(self) -> list[tuple[float, float]]:
        """Return each action's (dollars, reward) if it had answered everything."""
        half, times = self._half, self._times
        dollars, rewards = (times @ table[self._asked] for table in (half.costs, half.scores))
        return list(zip(dollars.tolist(), rewards.tolist(), strict=True))

    def random_mix(self, dollars: float) -> float:
        """Return the reward of the best random mix of two actions at these dollars."""
        points = self._whole()
        line = [points[i] for i in hull(points)]
        return float(np.interp(dollars, *zip(*line, strict=True)))

    def single(self, dollars: float) -> float:
        """Return the reward of the best action that these dollars buy for everything."""
        return max((r for c, r in self._whole() if c <= dollars), default=0.0)
