"""How long today's level lasts, learnt from the past days.

In some traffic a busy morning is a busy day, in other traffic it is over by noon. Which of the two
it is decides how far a deviation is carried into the rest of the window.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from budgetroute.forecast.outlook import DAYS, Outlook, deviation, faded, outlook
from budgetroute.forecast.shapes import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.forecast.outlook import Counts

_CHOICES = (math.inf, 1.0, 1 / 2, 1 / 4, 1 / 8)  # windows
_LEAST_DAYS = 3
_MARKS = tuple(range(BUCKETS // 24, BUCKETS, BUCKETS // 24))  # every hour of a day
_DOUBT = 0.02
"""Windows of requests, over the days judged, by which fading must be better: that a rise lasts is
the costlier thing to miss. Measured (`benchmarks/pacing.py`): calm traffic is not touched."""


def persistence(days: Sequence[Counts]) -> float:
    """Return after how many windows 1/e is left of a deviation; inf = it lasts.

    Each of the past 7 days but the first is forecast from the others' shape and the total of the
    day before it; what errs least on the rest of the day, hour by hour, is taken. Fewer than 3 days
    say nothing.

    Args:
        days: past days, oldest first.
    """
    sums = [[sum(row) for row in day] for day in days[-DAYS:] if any(map(sum, day))]
    if len(sums) < _LEAST_DAYS:
        return math.inf
    errors = [_errors(sums, day) for day in range(1, len(sums))]
    means = [sum(column) / len(errors) for column in zip(*errors, strict=True)]
    doubt = _DOUBT / len(errors)
    ranked = [mean + (doubt if i else 0.0) for i, mean in enumerate(means)]
    return _CHOICES[ranked.index(min(ranked))]


def _errors(sums: Sequence[Sequence[int]], day: int) -> list[float]:
    """Return for each choice the mean error on what was to come, as a share of the day."""
    rows = [[(count,) for count in each] for each in (*sums[:day], *sums[day + 1 :])]
    view = outlook(rows, usual=1.0, groups=1)
    expected, whole = sum(sums[day - 1]), sum(sums[day])
    view = Outlook(float(expected), view.rest, view.sums, view.fading, view.mass)
    lasting = [faded(view.sums, choice) for choice in _CHOICES]
    errors = [0.0] * len(_CHOICES)
    for mark in _MARKS:
        excess = deviation(view, sums[day][:mark], mark / BUCKETS) - 1.0
        came = sum(sums[day][mark:])
        for i, left in enumerate(lasting):
            said = expected * (view.sums[mark] + excess * left[mark])
            errors[i] += abs(said - came) / (whole * len(_MARKS))
    return errors
