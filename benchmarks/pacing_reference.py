"""The solving pacer of the pacing study §11, in plain Python, to check the simulator against.

Three pure functions and their records: what is still to come (`outlook`, `level`, `to_come`), what
the money buys (`budgetroute.pacing.solve`), what calls really cost (`Calibration`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

BUCKET_S = 300.0
BUCKETS = 288
SMOOTH = 3  # buckets on either side
DAYS = 7
SPARSE = 5.0  # below this many requests per bucket medians of counts are mostly 0: take means
PRIOR = 1.0  # requests added over a day, spread evenly
KAPPA = 0.005  # of a day: how much the expectation weighs against the last hour
LEAST_KAPPA = 50.0  # requests; all that a mere announcement weighs
AGE_S = 3_600.0
SEEN = 72  # buckets that the last hour's average looks at
BLOCK = 3  # buckets per ratio
BLOCKS = 12  # ratios in the median: three hours
TRUST = 10.0  # requests per block at which the median counts as much as the whole day's ratio
FEW = 50.0  # requests at which one day says as much as the mean of several
INFLATION = 0.05

DECAY = 0.999  # per call billed
MASS = 10.0  # requests at the budget's mean price: how much γ = 1 weighs

Counts = Sequence[Sequence[int]]
Shares = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a day was expected to be before it began.

    Attributes:
        total: requests.
        rest: [bucket][type] share of the day from the start of that bucket on.
        sums: the same over all types.
        mass: requests that this outlook weighs against what is seen.
    """

    total: float
    rest: Shares
    sums: tuple[float, ...]
    mass: float


def outlook(history: Sequence[Counts], *, usual: float, kinds: int) -> Outlook:
    """Make a day's outlook from past days, oldest first, or from the announced volume."""
    days = [day for day in history[-DAYS:] if any(map(sum, day))]
    total = expected_total(history, usual=usual)
    shape = _shape(days, kinds=kinds) if days else _flat(kinds)
    rest = [(0.0,) * kinds]
    for row in reversed(shape):
        rest.append(tuple(share + later for share, later in zip(row, rest[-1], strict=True)))
    rest.reverse()
    mass = max(LEAST_KAPPA, KAPPA * total) if days else LEAST_KAPPA
    return Outlook(total, tuple(rest), tuple(map(sum, rest)), mass)


def expected_total(history: Sequence[Counts], *, usual: float) -> float:
    """Return the requests expected in a day.

    Same weekday last week, else yesterday, drawn to the mean of the last days by how few they are;
    without a past what was announced.
    """
    if not history:
        return usual
    totals = [sum(map(sum, day)) for day in history[-DAYS:]]
    like = totals[0] if len(totals) == DAYS else totals[-1]
    weight = like / (like + FEW)
    return max(1.0, weight * like + (1 - weight) * statistics.fmean(totals))


def _flat(kinds: int) -> list[tuple[float, ...]]:
    return [(1.0 / (BUCKETS * kinds),) * kinds] * BUCKETS


def _shape(days: Sequence[Counts], *, kinds: int) -> list[tuple[float, ...]]:
    """Return the typical share of each bucket and type, summing to 1."""
    smooth = [_smooth(day, kinds=kinds) for day in days]
    mean = statistics.fmean(sum(map(sum, day)) for day in days) / BUCKETS
    typical = statistics.fmean if mean < SPARSE else statistics.median
    raw = [
        [typical([day[kind][bucket] for day in smooth]) for kind in range(kinds)]
        for bucket in range(BUCKETS)
    ]
    prior = PRIOR / (BUCKETS * kinds * mean * BUCKETS)
    whole = sum(map(sum, raw)) + prior * BUCKETS * kinds
    return [tuple((share + prior) / whole for share in row) for row in raw]


def _smooth(day: Counts, *, kinds: int) -> list[list[float]]:
    """Return [type][bucket]: share of the day, averaged over neighbouring buckets."""
    whole = sum(map(sum, day))
    rows = []
    for kind in range(kinds):
        sums = [0]
        for row in day:
            sums.append(sums[-1] + row[kind])
        ends = [(max(0, b - SMOOTH), min(BUCKETS, b + SMOOTH + 1)) for b in range(BUCKETS)]
        rows.append([(sums[end] - sums[start]) / (end - start) / whole for start, end in ends])
    return rows


def level(view: Outlook, totals: Sequence[int], now: float) -> float:
    """Return by which factor the traffic still to come differs from the outlook.

    max(median, (median + local)/2) · (1 + 0.05 · rest of the day). The median is of the last 12
    quarter hours' (actual + ½)/(expected + ½), drawn to the day's ratio with weight n/(n + 50);
    local weighs the last hour exponentially.

    Args:
        view: the day's outlook.
        totals: requests per bucket today, all types.
        now: seconds into the day.
    """
    bucket = min(BUCKETS - 1, int(now // BUCKET_S))
    part = now / BUCKET_S - bucket
    median = _median(view, totals, bucket)
    local = _local(view, totals, bucket=bucket, part=part)
    gone = 1.0 - _rest(view.sums, bucket, part)
    return max(median, (median + local) / 2) * (1.0 + INFLATION * (1.0 - gone))


def _median(view: Outlook, totals: Sequence[int], bucket: int) -> float:
    """Return the robust ratio of actual to expected over full quarter hours."""
    seen = sum(totals[:bucket])
    wanted = view.total * (1.0 - view.sums[bucket])
    mass = view.mass
    whole = (seen + mass) / (wanted + mass)
    ratios = []
    counted = 0
    for end in range(bucket, max(BLOCK - 1, bucket - BLOCK * BLOCKS), -BLOCK):
        actual = sum(totals[end - BLOCK : end])
        expected = view.total * (view.sums[end - BLOCK] - view.sums[end])
        ratios.append((actual + 0.5) / (expected + 0.5))
        counted += actual
    if not ratios:
        return whole
    weight = counted / (counted + TRUST * len(ratios))
    return weight * statistics.median(ratios) + (1 - weight) * whole


def _local(view: Outlook, totals: Sequence[int], *, bucket: int, part: float) -> float:
    """Return actual over expected, the last hour weighing most."""
    sums, total = view.sums, view.total
    fade = math.exp(-BUCKET_S / AGE_S)
    actual = float(totals[bucket])
    expected = total * part * (sums[bucket] - sums[bucket + 1])
    weight = math.exp(-BUCKET_S / AGE_S * (part + 0.5))
    for place in range(bucket - 1, max(-1, bucket - SEEN), -1):
        actual += weight * totals[place]
        expected += weight * total * (sums[place] - sums[place + 1])
        weight *= fade
    mass = view.mass
    return (mass + actual) / (mass + expected)


def _rest(sums: Sequence[float], bucket: int, part: float) -> float:
    return sums[bucket] + part * (sums[bucket + 1] - sums[bucket])


def to_come(view: Outlook, factor: float, now: float) -> list[float]:
    """Return the requests still to come today, per type."""
    bucket = min(BUCKETS - 1, int(now // BUCKET_S))
    part = now / BUCKET_S - bucket
    scale = factor * view.total
    here, after = view.rest[bucket], view.rest[bucket + 1]
    return [scale * (a + part * (b - a)) for a, b in zip(here, after, strict=True)]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Billed over predicted dollars, recent calls weighing most.

    Attributes:
        predicted: decayed sum of predictions, per action.
        billed: decayed sum of bills, per action.
    """

    predicted: tuple[float, ...]
    billed: tuple[float, ...]

    def after(self, predicted: Sequence[float], billed: Sequence[float], calls: int) -> Calibration:
        """Return the calibration after some calls' sums have come in."""
        fade = DECAY**calls
        return replace(
            self,
            predicted=tuple(
                old * fade + new for old, new in zip(self.predicted, predicted, strict=True)
            ),
            billed=tuple(old * fade + new for old, new in zip(self.billed, billed, strict=True)),
        )

    def factors(self, per_request: float) -> list[float]:
        """Return γ per action: γ over all calls, then each action's own drawn to it.

        Args:
            per_request: what the budget has for a mean request, dollars.
        """
        mass = MASS * per_request
        overall = (mass + sum(self.billed)) / (mass + sum(self.predicted))
        return [
            (mass * overall + billed) / (mass + predicted)
            for billed, predicted in zip(self.billed, self.predicted, strict=True)
        ]
