"""How far off the forecast is: requests still to come, at every hour of every day.

    python benchmarks/forecast.py [--quick] [--json] [--data DIR]

What is asked is the router's own `Traffic` over `budgetroute.forecast`; it sees the arrivals up to
the hour and the days before, nothing else. The same question is put to three naive forecasts. Worlds
are the synthetic workload (`workload.py`) and, with `--data DIR`, every real series in that folder,
scaled to 20,000 requests on a mean day. An error is forecast / truth − 1; hours after which less
than 1 % of the day comes are left out, and the first midnight, when nobody knows anything.

Each naive forecast suits some world. So the targets, once there is a past: over all worlds no naive
forecast errs less, and in no world is the one that suits it best, known in hindsight, more than a
tenth better. What errors cost in reward is measured by `pacing.py`: the rows `solve` and `solve, true
counts` differ in nothing else.
"""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from harness import Figure, at_most, report, say
from series import Series, no_data, read_series
from workload import DAY_S, SCENARIOS, TYPES, days

from budgetroute.budget import Window
from budgetroute.forecast import BUCKETS
from budgetroute.router.periods import period_of
from budgetroute.router.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workload import Ints

VOLUME = 20_000.0
SEEDS = 24
QUICK_SEEDS = 6
CORES = 2
HOURS = 24
PER_HOUR = BUCKETS // HOURS
LEAST = 0.01  # of the day must be still to come
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WORLDS = ("base", "wild", "x3noon")
HINTS = (1.0, 0.05, 20.0)
OURS = "budgetroute"
NAIVE = ("even rate", "yesterday's rest", "yesterday × level")


@dataclass(frozen=True, slots=True)
class Mark:
    """One question: what is still to come after this hour of this day?

    Attributes:
        world: where.
        day: 0 = the first.
        hour: 0 to 23.
        hint: announced over true volume; it counts on the first day only.
        errors: forecast → said / came − 1.
        mix: ½ Σ over types |share said − share that came|: what is put to a wrong type.
    """

    world: str
    day: int
    hour: int
    hint: float
    errors: Mapping[str, float]
    mix: float


class Counted:
    """The part of a store that counts arrivals, up to a moment."""

    def __init__(self, traffic: Sequence[Ints]) -> None:
        self._days = [
            (f"day:{(MONDAY + timedelta(days=day)).date()}", counts)
            for day, counts in enumerate(traffic)
        ]
        self._day, self._bucket = 0, 0

    def show(self, day: int, bucket: int) -> None:
        """Hide what comes from this bucket on."""
        self._day, self._bucket = day, bucket

    def arrivals(self, prefix: str) -> Mapping[tuple[str, str], int]:
        """Return (group, bucket) → requests, for buckets that start with `prefix`."""
        name, _, number = prefix.partition("#")
        asked = [int(number)] if number else range(BUCKETS)
        return {
            (f"bench|{kind}", f"{full}#{bucket:03d}"): count
            for day, (full, counts) in enumerate(self._days[: self._day + 1])
            if full.startswith(name)
            for bucket in asked
            if day < self._day or bucket < self._bucket
            for kind, count in enumerate(counts[bucket].tolist())
            if count
        }


def naive(traffic: Sequence[Ints], day: int, bucket: int, usual: float) -> dict[str, float]:
    """Return what the naive forecasts say; the day before the first is even and as announced."""
    place = bucket / BUCKETS
    so_far = float(traffic[day][:bucket].sum())
    before, after = usual * place, usual * (1.0 - place)
    if day:
        before = float(traffic[day - 1][:bucket].sum())
        after = float(traffic[day - 1][bucket:].sum())
    rate = so_far * (1.0 - place) / place if bucket else after
    scaled = after * so_far / before if before else after
    return dict(zip(NAIVE, (rate, after, scaled), strict=True))


@dataclass(frozen=True, slots=True)
class Task:
    """One drawing of one world, asked for its first days."""

    world: str
    seed: int
    days: int
    hint: float = 1.0
    series: Series | None = None

    def traffic(self) -> list[Ints]:
        """Return each day's [bucket][type] counts."""
        if self.series is not None:
            count = min(self.days, len(self.series.rates))
            drawn = [self.series.times(d, volume=VOLUME, seed=self.seed) for d in range(count)]
            return [counted(times, np.zeros(times.size, int), 1) for times in drawn]
        scenario = SCENARIOS[self.world]
        return [
            counted(day.times, day.types, len(TYPES))
            for day in days(scenario, self.seed)[: self.days]
        ]


def counted(times: np.ndarray, kinds: np.ndarray, width: int) -> Ints:
    """Return [bucket][type] counts."""
    buckets = np.minimum(times * (BUCKETS / DAY_S), BUCKETS - 1).astype(int)
    return np.bincount(buckets * width + kinds, minlength=BUCKETS * width).reshape(BUCKETS, width)


def work(task: Task) -> list[Mark]:
    """Put the question at every hour of the task's days."""
    traffic = task.traffic()
    known = Counted(traffic)
    usual = task.hint * VOLUME
    ours = Traffic(known, app="bench", usual=usual)  # type: ignore[arg-type]
    marks = []
    for day, hour in ((d, h) for d in range(len(traffic)) for h in range(HOURS)):
        bucket = hour * PER_HOUR
        known.show(day, bucket)
        at = MONDAY + timedelta(days=day, hours=hour)
        found = ours.to_come(period_of(Window("day"), at), round(at.timestamp() * 1e6))
        came = traffic[day][bucket:].sum(axis=0)
        if not found or came.sum() < LEAST * traffic[day].sum():
            continue
        said = {OURS: sum(found.values())} | naive(traffic, day, bucket, usual)
        errors = {name: value / float(came.sum()) - 1.0 for name, value in said.items()}
        marks.append(Mark(task.world, day, hour, task.hint, errors, misplaced(found, came)))
    return marks


def misplaced(found: Mapping[str, float], came: Ints) -> float:
    """Return the share of requests that is put to a wrong type."""
    whole = sum(found.values())
    shares = [found.get(f"bench|{kind}", 0.0) / whole for kind in range(came.size)]
    return float(np.abs(np.array(shares) - came / came.sum()).sum() / 2)


def tasks(series: Iterable[Series], *, quick: bool) -> list[Task]:
    """List what is drawn: whole series, and first days with wrong hints."""
    drawn = [*((name, None) for name in WORLDS), *((one.name, one) for one in series)]
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    return [
        Task(world, seed, 14 if hint == 1.0 else 1, hint, one)
        for world, one in drawn
        for hint in HINTS
        for seed in seeds
    ]


@dataclass(frozen=True, slots=True)
class Slice:
    """Some days: [first, last) with one hint."""

    name: str
    first: int
    last: int
    hint: float = 1.0

    def of(self, marks: Iterable[Mark], world: str) -> list[Mark]:
        """Return its marks of a world."""
        return [
            m
            for m in marks
            if m.world == world and m.hint == self.hint and self.first <= m.day < self.last
        ]


LATER = Slice("2nd to last day", 1, 99)
SLICES = (
    Slice("1st day, hint right", 0, 1),
    Slice("1st day, hint × 0.05", 0, 1, 0.05),
    Slice("1st day, hint × 20", 0, 1, 20.0),
    Slice("2nd day", 1, 2),
    Slice("7th day", 6, 7),
    Slice("8th to last day", 7, 99),
    LATER,
)


def errors(marks: Sequence[Mark], name: str = OURS) -> np.ndarray:
    return np.array([mark.errors[name] for mark in marks])


def mape(marks: Sequence[Mark], name: str = OURS) -> float:
    return 100 * float(np.abs(errors(marks, name)).mean())


HEAD = ("MAPE", "bias", "p50", "p90", "mix", *NAIVE)


def cells(marks: Sequence[Mark]) -> list[str]:
    """Return a row: our error four ways and in types, the naive ones' MAPE."""
    ours = 100 * errors(marks)
    half, most = np.percentile(np.abs(ours), (50, 90))
    mix = 100 * float(np.mean([mark.mix for mark in marks]))
    values = (mape(marks), ours.mean(), half, most, mix, *(mape(marks, name) for name in NAIVE))
    return [f"{v:+.1f}" if place == 1 else f"{v:.1f}" for place, v in enumerate(values)]


def show(marks: Sequence[Mark], worlds: Iterable[str]) -> None:
    """Print errors by day and by hour."""
    for world in worlds:
        by_day = [(part.name, part.of(marks, world)) for part in SLICES]
        later = LATER.of(marks, world)
        by_hour = [(f"{h:02d}:00", [m for m in later if m.hour == h]) for h in range(HOURS)]
        for title, rows in (("by day", by_day), (f"by hour, {LATER.name}", by_hour)):
            print(f"\n{world}, {title}; %")
            lines = [["", *HEAD], *([name, *cells(found)] for name, found in rows if found)]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            for line in lines:
                padded = [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
                print("  ".join([line[0].ljust(widths[0]), *padded]))
    print()


def figures(marks: Sequence[Mark], worlds: Sequence[str]) -> list[Figure]:
    """Return errors by world and day, and how they compare with the naive forecasts'."""
    found = []
    for world in worlds:
        for part in SLICES:
            mine = part.of(marks, world)
            what = f"{world}, {part.name}"
            found += [
                Figure(f"MAPE, {what}", mape(mine), "%"),
                Figure(f"bias, {what}", 100 * float(errors(mine).mean()), "%"),
            ]
    ours, *others = (
        [mape(LATER.of(marks, world), name) for world in worlds] for name in (OURS, *NAIVE)
    )
    for world, own, *theirs in zip(worlds, ours, *others, strict=True):
        found.append(at_most(f"MAPE / best naive, {world}", own / min(theirs), "×", 1.1))
    for name, theirs in zip(NAIVE, others, strict=True):
        ratio = sum(ours) / sum(theirs)
        found.append(at_most(f"MAPE / {name}, mean over worlds", ratio, "×", 1.0))
    return found


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6 drawings in place of 24")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--data", type=Path, help="folder with traces/servegen_rate_*.parquet")
    return parser.parse_args()


def main() -> int:
    told = asked()
    series = read_series(told.data) if told.data else []
    if told.data and not series:
        return no_data(told.data, "real arrival series")
    listed = tasks(series, quick=told.quick)
    marks: list[Mark] = []
    with multiprocessing.Pool(CORES) as pool:
        for place, some in enumerate(pool.imap_unordered(work, listed), 1):
            marks += some
            say(f"{place}/{len(listed)} {some[0].world} hint × {some[0].hint:g}")
    worlds = [*WORLDS, *(one.name for one in series)]
    if not told.json:
        show(marks, worlds)
    report(figures(marks, worlds), as_json=told.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
