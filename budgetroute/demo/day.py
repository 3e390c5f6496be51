"""When a day's requests come and what they ask: the shape of a real day, the mix of a profile."""

from __future__ import annotations

import json
import math
from bisect import bisect
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING

from budgetroute.demo.luck import seeded
from budgetroute.demo.prompts import WRITERS, write_task
from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.demo.prompts import Task
    from budgetroute.records import Profile

DAY = 11
"""The day that is shown: it wakes slowly, swings by a third, peaks at 1.4 times its mean late in the
evening, and has no outage. The demo has no past to learn from, and what nothing announces costs money
on a first day: on days whose last hour falls off, 1 to 2 % of the budget stays unspent; on the day with
an outage from six in the evening on, 19 %."""
DAY_SECONDS = 86_400
_DRIFT = 0.15
"""How far a type's weight swings over the day, relative to its share."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the day.

    Attributes:
        second: when it comes, in seconds since midnight.
        task: what it asks.
    """

    second: float
    task: Task


def day_shape(day_index: int) -> tuple[int, ...]:
    """Return the requests per ten-minute bin of one day of the 14-day series, in 1/100000.

    The file names its source and licence.
    """
    text = files("budgetroute.demo").joinpath("day_shapes.json").read_text("utf-8")
    days = json.loads(text)["days"]
    if not 0 <= day_index < len(days):
        raise ValueError(f"day {day_index} was asked for; the series has days 0 to {len(days) - 1}")
    return tuple(days[day_index])


def arrivals(calls: int = 4000, *, day_index: int = DAY, seed: int = 0) -> list[float]:
    """Return that many seconds of the day, in order, in the shape of a day of the series.

    Every bin gets its share to within one request; inside a bin times are uniform.
    """
    shape = day_shape(day_index)
    width = DAY_SECONDS / len(shape)
    rng = seeded("arrivals", seed, day_index)
    return sorted(
        (index + rng.random()) * width
        for index, count in enumerate(_apportioned(shape, calls))
        for _ in range(count)
    )


def _apportioned(weights: Sequence[int], total: int) -> list[int]:
    """Split a total by weight into whole numbers, the largest remainders rounded up."""
    exact = [weight * total / sum(weights) for weight in weights]
    counts = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: counts[index] - exact[index])
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    return counts


def shares_of(profile: Profile) -> dict[str, float]:
    """Return the profile's types that the demo has prompts for, with their shares of traffic.

    Raises:
        ProfileError: none of its types is one of the demo's.
    """
    shares = {name: kind.share for name, kind in profile.types.items() if name in WRITERS}
    if not sum(shares.values()) > 0:
        raise ProfileError(
            f"profile {profile.name!r} has the types {', '.join(profile.types)}; the demo has "
            f"prompts for {', '.join(WRITERS)}. Use the shipped profile: --profile broad"
        )
    return shares


def day(
    shares: Mapping[str, float], *, calls: int = 4000, day_index: int = DAY, seed: int = 0
) -> tuple[Call, ...]:
    """Return a day's requests in order, no prompt twice.

    Types come by their shares, each of them a little more at its own time of the day.

    Args:
        shares: prompt type → share of traffic, of types in `WRITERS`.
        calls: how many requests.
        day_index: which day of the series gives the shape.
        seed: of the times, the mix and the prompts.
    """
    rng = seeded("mix", seed)
    fresh = _Fresh(seed)
    kinds = sorted(shares)
    return tuple(
        Call(second, fresh.task(kinds[bisect(_bounds(shares, kinds, second), rng.random())]))
        for second in arrivals(calls, day_index=day_index, seed=seed)
    )


def _bounds(shares: Mapping[str, float], kinds: Sequence[str], second: float) -> list[float]:
    """Return where the types' slices of [0, 1) end at a time of day, without the last."""
    turn = 2 * math.pi * second / DAY_SECONDS
    swings = (math.sin(turn + 2 * math.pi * index / len(kinds)) for index in range(len(kinds)))
    weights = [
        shares[kind] * (1 + _DRIFT * swing) for kind, swing in zip(kinds, swings, strict=True)
    ]
    total = sum(weights)
    return [edge / total for edge in accumulate(weights[:-1])]


class _Fresh:
    """Writes tasks and never the same prompt twice."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._next = dict.fromkeys(WRITERS, 0)
        self._seen: set[str] = set()

    def task(self, kind: str) -> Task:
        while True:
            task = write_task(kind, seed=self._seed, number=self._next[kind])
            self._next[kind] += 1
            if task.prompt not in self._seen:
                self._seen.add(task.prompt)
                return task
