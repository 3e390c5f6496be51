"""How traffic spreads over a window: the planned share of a stretch of time.

A shape is a tuple of weights over equal buckets of the window, 288 times five minutes for a day. Without a
past there is no shape and money is planned evenly over time.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUCKETS = 288
_PRIOR = 1 / 6  # requests added to each bucket, so that a bucket never seen is not impossible
_DAYS = 7
_SMOOTH = 3  # buckets on either side
_LEVEL_PRIOR = 0.005
_EARLY = 0.02  # a rate seen for less than half an hour is taken for less than it says


def shape_from_days(days: Sequence[Mapping[int, int]]) -> tuple[float, ...] | None:
    """Return the mean share of each bucket over up to 7 days, smoothed by its neighbours.

    Args:
        days: bucket → requests, one mapping per past day, newest last.

    Returns:
        weights summing to 1, or None when the days hold no request.
    """
    full = [day for day in days[-_DAYS:] if sum(day.values()) > 0]
    if not full:
        return None
    shares = [_day_shares(day) for day in full]
    raw = [statistics.fmean(day[b] for day in shares) for b in range(BUCKETS)]
    near = range(-_SMOOTH, _SMOOTH + 1)
    smooth = [statistics.fmean(raw[(b + k) % BUCKETS] for k in near) for b in range(BUCKETS)]
    total = sum(smooth)
    return tuple(weight / total for weight in smooth)


def _day_shares(day: Mapping[int, int]) -> list[float]:
    counts = [day.get(b, 0) + _PRIOR for b in range(BUCKETS)]
    total = sum(counts)
    return [count / total for count in counts]


def share_between(shape: Sequence[float] | None, start: float, end: float) -> float:
    """Return the part of a window's traffic expected between two positions in [0, 1].

    >>> share_between(None, 0.25, 0.75)
    0.5
    """
    return _cumulative(shape, end) - _cumulative(shape, start)


def share_of_rest(shape: Sequence[float] | None, start: float, end: float) -> float:
    """Return the part of the traffic still to come at `start` that is expected until `end`.

    >>> share_of_rest(None, 0.5, 0.75)
    0.5
    """
    rest = share_between(shape, start, 1.0)
    return min(1.0, share_between(shape, start, end) / rest) if rest > 0 else 1.0


def calls_to_come(seen: float, *, done: float, daily: float | None) -> float:
    """Return how many calls the rest of a window will see.

    The expected rest is scaled by (κ + seen) / (κ + expected so far), κ half a percent of a day
    (pacing study §11): early in the day the expectation holds, later what was seen.

    Args:
        seen: calls so far.
        done: the part of a window's traffic that lies behind, in [0, 1].
        daily: calls expected in the whole window; None = nothing says, today's rate goes on.

    >>> calls_to_come(0, done=0.0, daily=1000), calls_to_come(1005, done=0.5, daily=1000)
    (1000.0, 1000.0)
    """
    if daily is None:
        return seen * (1.0 - done) / (done + _EARLY)
    prior = _LEVEL_PRIOR * daily
    return daily * (1.0 - done) * (prior + seen) / (prior + daily * done)


def _cumulative(shape: Sequence[float] | None, position: float) -> float:
    position = min(1.0, max(0.0, position))
    if shape is None:
        return position
    place = position * len(shape)
    whole = int(place)
    part = shape[whole] * (place - whole) if whole < len(shape) else 0.0
    return sum(shape[:whole]) + part
