"""Requests still to come in a window, by group: past days' shape, corrected by today's level.

Days are rows of bucket counts: `day[bucket][group]`, `BUCKETS` buckets of equal length. The method and
its constants are those of the pacing study (§11), checked there by simulation; lulls and fading are
for real traffic (`benchmarks/forecast.py`), which stands still for hours and wanders.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from budgetroute.forecast.shapes import BUCKETS

Counts: TypeAlias = Sequence[Sequence[int]]
"""[bucket][group] → requests."""

DAYS = 7
_SMOOTH = 3  # buckets on either side
_SPARSE = 5.0  # below this many requests per bucket medians of counts are mostly 0: take means
_PRIOR = 1.0  # requests added over a day, spread evenly
_KAPPA = 0.005  # of a day: how much the expectation weighs against the last hour
_LEAST_KAPPA = 50.0  # requests
_HEARSAY = 10.0  # requests that a mere announcement weighs: it may be wrong by far
_FADE = math.exp(-24 / BUCKETS)  # per bucket: the last hour weighs most
_SEEN = BUCKETS // 4  # buckets that the fading average looks at
_BLOCK = BUCKETS // 96  # buckets per ratio: a quarter of an hour
_BLOCKS = 12  # ratios in the median: three hours
_TRUST = 10.0  # requests per block at which the median counts as much as the whole day's ratio
_FEW = 50.0  # requests at which one day says as much as the mean of several
_INFLATION = 0.05  # the rest is taken for a little more than it looks, early in the day
_LULL = 0.05  # of what today lets expect: less than that is no traffic, not little traffic
_ENOUGH = 10.0  # requests that must be expected before none of them means something


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a window was expected to be before it began.

    Attributes:
        total: requests.
        rest: [bucket][group] share of the window from the start of that bucket on; one row more
            than buckets, the last of zeros.
        sums: the same over all groups.
        fading: the same, each share times what is left by then of a deviation seen now.
        mass: requests that the expectation weighs against what is seen.
    """

    total: float
    rest: tuple[tuple[float, ...], ...]
    sums: tuple[float, ...]
    fading: tuple[float, ...]
    mass: float


def outlook(
    days: Sequence[Counts], *, usual: float, groups: int, persistence: float = math.inf
) -> Outlook:
    """Make a window's outlook from past days or, without any, from the announced volume.

    Args:
        days: past days, oldest first; the last 7 count.
        usual: requests announced for a window; used without a past.
        groups: how many groups there are; at least 1.
        persistence: windows after which 1/e is left of a deviation; inf = today's level lasts.
    """
    past = [day for day in days[-DAYS:] if any(map(sum, day))]
    shape = _shape(past, groups) if past else [(1.0 / (BUCKETS * groups),) * groups] * BUCKETS
    rest = [(0.0,) * groups]
    for row in reversed(shape):
        rest.append(tuple([share + later for share, later in zip(row, rest[-1], strict=True)]))
    rest.reverse()
    sums = tuple(map(sum, rest))
    total = _expected_total(days[-DAYS:], usual=usual)
    mass = max(_LEAST_KAPPA, _KAPPA * total) if past else _HEARSAY
    return Outlook(total, tuple(rest), sums, faded(sums, persistence), mass)


def faded(sums: Sequence[float], persistence: float) -> tuple[float, ...]:
    """Return Σ share · exp(−distance / persistence) from the start of each bucket on.

    Args:
        sums: share of the window from the start of each bucket on.
        persistence: in windows.
    """
    left = math.exp(-1.0 / (BUCKETS * persistence))
    found = [0.0]
    for here, after in zip(sums[-2::-1], sums[:0:-1], strict=True):
        found.append(here - after + left * found[-1])
    return tuple(reversed(found))


def _expected_total(days: Sequence[Counts], *, usual: float) -> float:
    """Return the requests expected: same weekday last week, else yesterday.

    Few requests are drawn to the mean of the last days, n/(n + 50).
    """
    if not days:
        return usual
    totals = [sum(map(sum, day)) for day in days]
    like = totals[0] if len(totals) == DAYS else totals[-1]
    weight = like / (like + _FEW)
    return max(1.0, weight * like + (1 - weight) * statistics.fmean(totals))


def _shape(days: Sequence[Counts], groups: int) -> list[tuple[float, ...]]:
    """Return the typical share of each bucket and group, summing to 1."""
    smooth = [_smooth(day, groups) for day in days]
    mean = statistics.fmean(sum(map(sum, day)) for day in days) / BUCKETS
    typical = statistics.fmean if mean < _SPARSE else statistics.median
    raw = [
        [typical([day[group][bucket] for day in smooth]) for group in range(groups)]
        for bucket in range(BUCKETS)
    ]
    prior = _PRIOR / (BUCKETS * groups * mean * BUCKETS)
    whole = sum(map(sum, raw)) + prior * BUCKETS * groups
    return [tuple([(share + prior) / whole for share in row]) for row in raw]


def _smooth(day: Counts, groups: int) -> list[list[float]]:
    """Return [group][bucket]: share of the day, averaged over neighbouring buckets."""
    whole = sum(map(sum, day))
    ends = [(max(0, b - _SMOOTH), min(BUCKETS, b + _SMOOTH + 1)) for b in range(BUCKETS)]
    rows = []
    for group in range(groups):
        sums = [0]
        for row in day:
            sums.append(sums[-1] + row[group])
        rows.append([(sums[end] - sums[start]) / (end - start) / whole for start, end in ends])
    return rows


def level(view: Outlook, totals: Sequence[int], position: float) -> float:
    """Return by which factor the traffic still to come differs from the outlook.

    (1 + (deviation − 1) · share of it that lasts) · (1 + 0.05 · rest of the window).

    Args:
        view: the window's outlook.
        totals: requests per bucket of this window so far, all groups; the last one still runs.
        position: where in the window we are, in [0, 1].
    """
    bucket, part = _place(position)
    rest = _within(view.sums, bucket, part)
    lasting = _within(view.fading, bucket, part) / rest if rest > 0 else 1.0
    seen = deviation(view, totals, position)
    return (1.0 + (seen - 1.0) * lasting) * (1.0 + _INFLATION * rest)


def deviation(view: Outlook, totals: Sequence[int], position: float) -> float:
    """Return by which factor traffic now differs from the outlook: max(median, (median + local)/2).

    The median is of the last 12 quarter hours' (actual + ½)/(expected + ½), drawn to the whole
    day's ratio where requests are few; local weighs the last hour exponentially. Stretches in which
    traffic stood still are left out: when it comes back, it comes back as it was.
    """
    bucket, part = _place(position)
    mass = view.mass
    whole = (sum(totals[:bucket]) + mass) / (view.total * (1.0 - view.sums[bucket]) + mass)
    median = _median(view, totals, bucket, whole=whole)
    local = _local(view, totals, (bucket, part), whole=whole)
    return max(median, (median + local) / 2)


def _is_lull(actual: float, usual: float) -> bool:
    """Say whether traffic stands still, `usual` being what today's level lets expect."""
    return usual >= _ENOUGH and actual < _LULL * usual


def _place(position: float) -> tuple[int, float]:
    """Return the bucket of a position and how far into the bucket it is."""
    place = min(1.0, max(0.0, position)) * BUCKETS
    bucket = min(BUCKETS - 1, int(place))
    return bucket, place - bucket


def _median(view: Outlook, totals: Sequence[int], bucket: int, *, whole: float) -> float:
    """Return the robust ratio of actual to expected over full quarter hours."""
    ratios: list[float] = []
    counted = 0
    for end in range(bucket, max(_BLOCK - 1, bucket - _BLOCK * _BLOCKS), -_BLOCK):
        actual = sum(totals[end - _BLOCK : end])
        expected = view.total * (view.sums[end - _BLOCK] - view.sums[end])
        if not _is_lull(actual, whole * expected):
            ratios.append((actual + 0.5) / (expected + 0.5))
            counted += actual
    if not ratios:
        return whole
    weight = counted / (counted + _TRUST * len(ratios))
    return weight * statistics.median(ratios) + (1 - weight) * whole


def _local(
    view: Outlook, totals: Sequence[int], place: tuple[int, float], *, whole: float
) -> float:
    """Return actual over expected, the last hour weighing most."""
    bucket, part = place
    seen = view.mass
    looked = view.mass
    for age in range(min(bucket + 1, _SEEN)):
        at = bucket - age
        actual = totals[at] if at < len(totals) else 0
        length = part if age == 0 else 1.0
        expected = view.total * length * (view.sums[at] - view.sums[at + 1])
        if not _is_lull(actual, whole * expected):
            weight = 1.0 if age == 0 else _FADE ** (age - 0.5 + part)
            seen += weight * actual
            looked += weight * expected
    return seen / looked if looked > view.mass else whole


def _within(sums: Sequence[float], bucket: int, part: float) -> float:
    return sums[bucket] + part * (sums[bucket + 1] - sums[bucket])


def to_come(view: Outlook, factor: float, position: float) -> list[float]:
    """Return the requests still to come in the window, per group."""
    bucket, part = _place(position)
    scale = factor * view.total
    here, after = view.rest[bucket], view.rest[bucket + 1]
    return [scale * (a + part * (b - a)) for a, b in zip(here, after, strict=True)]
