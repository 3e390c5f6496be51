"""The solving pacer in the simulator: forecast, solve, choose; the parts are passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pacing_reference as reference
from pacing_sim import BUCKET_S, BUCKETS, GUARD, HOUR_S, Choice, View
from workload import DAY_S

from budgetroute.pacing import Group, solve

if TYPE_CHECKING:
    from workload import Table

HORIZON = 1_000.0  # requests
WARMUP = 1.5  # even shares
BANKS = 2.0  # but never further than two full banks: what does not fit into the bank is lost

Forecast = Callable[[View], list[float]]
Solve = Callable[[Sequence[Group], float], tuple[float, float, float]]


class Recent:
    """The forecast of the reference: past days' shape, level of the last hours."""

    def __init__(self) -> None:
        self._day = -1
        self._outlook = reference.Outlook(0.0, (), (), 0.0)
        self._totals: list[int] = []

    def __call__(self, view: View) -> list[float]:
        if view.day != self._day:
            self._day = view.day
            self._totals = []
            self._outlook = reference.outlook(
                view.history, usual=view.usual, kinds=len(view.table.costs)
            )
        factor = reference.level(self._outlook, self._counted(view), view.now)
        return reference.to_come(self._outlook, factor, view.now)

    def _counted(self, view: View) -> list[int]:
        """Return requests per bucket up to now; closed buckets are summed once."""
        del self._totals[-1:]
        bucket = min(BUCKETS - 1, int(view.now // BUCKET_S))
        self._totals += map(sum, view.today[len(self._totals) : bucket + 1])
        return self._totals


def warmup(view: View) -> float:
    """Return what is kept back in the first hour ever: all but 1.5 × an even share of the day."""
    if view.history or view.now > HOUR_S:
        return 0.0
    return view.limit * (1.0 - WARMUP * (view.now + BUCKET_S) / DAY_S)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Days beyond today that the plan looks at, and their requests per type."""

    days: float
    counts: tuple[float, ...]


def later(view: View, requests: float) -> Ahead:
    """Return the days after today in which this many requests are seen, at past days' rate."""
    kinds = len(view.table.costs)
    seen = [1.0 + sum(row[k] for day in view.history for row in day) for k in range(kinds)]
    past = len(view.history) + 1.0
    rate = (view.usual + sum(seen)) / past
    days = max(0.0, min(BANKS * view.carry_over, requests / rate) - 1.0)
    return Ahead(days, tuple(days * rate * count / sum(seen) for count in seen))


@dataclass
class Ours:
    """The solving pacer of facts §11."""

    forecast: Forecast = field(default_factory=Recent)
    solve: Solve = solve
    calibrated: bool = True
    every_s: float = 60.0
    every_share: float = 0.001
    horizon: float = HORIZON
    _day: int = -1
    _later: Ahead = field(default_factory=lambda: Ahead(0.0, ()))
    _seen: tuple[tuple[float, ...], tuple[float, ...], int] | None = None
    _calibration: reference.Calibration | None = None

    def plan(self, view: View) -> Choice:
        """Solve for the money and the requests that are left."""
        factors = self._factors(view)
        costs = [[c * f for c, f in zip(row, factors, strict=True)] for row in view.table.costs]
        flying = sum(
            (sent - done) * f for sent, done, f in zip(view.sent, view.done, factors, strict=True)
        )
        today = self.forecast(view)
        ahead = self._ahead(view)
        counts = [count + later for count, later in zip(today, ahead.counts, strict=True)]
        groups = [
            Group(count, tuple(zip(cost, rewards, strict=True)))
            for count, cost, rewards in zip(counts, costs, view.table.rewards, strict=True)
        ]
        left = view.limit - view.settled - flying
        low, high, share = self.solve(groups, left + ahead.days * view.budget)
        floor = sum(n * min(cost) for n, cost in zip(today, costs, strict=True))
        return Choice(
            best(view.table, costs, low),
            best(view.table, costs, high),
            share,
            max(GUARD * floor, warmup(view)),
        )

    def _ahead(self, view: View) -> Ahead:
        """Return what lies beyond today: with a bank, days until about 1,000 requests are seen."""
        kinds = len(view.table.costs)
        if not view.carry_over:
            return Ahead(0.0, (0.0,) * kinds)
        if view.day != self._day:
            self._day = view.day
            self._later = later(view, self.horizon)
        return self._later

    def _factors(self, view: View) -> list[float]:
        width = len(view.sent)
        if not self.calibrated:
            return [1.0] * width
        zeros = (0.0,) * width
        old = self._seen or (zeros, zeros, 0)
        known = self._calibration or reference.Calibration(zeros, zeros)
        self._seen = (tuple(view.done), tuple(view.billed), view.settlements)
        self._calibration = known.after(
            [now - then for now, then in zip(view.done, old[0], strict=True)],
            [now - then for now, then in zip(view.billed, old[1], strict=True)],
            view.settlements - old[2],
        )
        return self._calibration.factors(
            view.budget / reference.expected_total(view.history, usual=view.usual)
        )


def best(table: Table, costs: Sequence[Sequence[float]], price: float) -> tuple[int, ...]:
    """Return argmax R − λ·C per type, ties to the cheaper."""
    return tuple(
        max(range(len(row)), key=lambda a: (rewards[a] - price * row[a], -row[a]))
        for row, rewards in zip(costs, table.rewards, strict=True)
    )
