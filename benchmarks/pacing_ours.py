"""The solving pacer in the simulator: budgetroute's pure functions, wired as the router wires them.

Counts and forecast (the router's `Traffic`) → horizon and linear program (`days_ahead`, `prepare`,
`resolved`) → the plan's two prices and the chance of each. What the router reads from its store comes
from the simulator's view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pacing_sim import BUCKETS, GUARD, Choice, Counts, View
from workload import DAY_S, FAMILIES

from budgetroute import pacing
from budgetroute.router.periods import Period
from budgetroute.router.traffic import Traffic
from budgetroute.units import PICO_PER_USD

if TYPE_CHECKING:
    from workload import Table

Forecast = Callable[[View], list[float]]


class Arrivals:
    """The simulator's arrivals, told as the library's stores tell them."""

    def __init__(self) -> None:
        self.view: View | None = None

    def arrivals(self, prefix: str) -> dict[tuple[str, str], int]:
        """Return (group, bucket) → requests, for buckets starting with `prefix`."""
        if self.view is None:
            return {}
        today, _, bucket = prefix.partition("#")
        if bucket:
            return dict(_counted(today, int(bucket), self.view.today))
        days = enumerate((*self.view.history, self.view.today))
        return {
            key: n
            for number, day in days
            for place in range(BUCKETS)
            for key, n in _counted(f"day:{number:03d}", place, day)
        }


def _counted(day: str, bucket: int, counts: Counts) -> Iterator[tuple[tuple[str, str], int]]:
    for kind, n in enumerate(counts[bucket]):
        if n:
            yield (f"sim|{kind}", f"{day}#{bucket:03d}"), n


class Recent:
    """The library's own count of the traffic and its forecast."""

    def __init__(self) -> None:
        self._arrivals = Arrivals()
        self._traffic: Traffic | None = None

    def __call__(self, view: View) -> list[float]:
        """Return the requests still to come today, per type."""
        self._arrivals.view = view
        begin = round(view.day * DAY_S * 1e6)
        today = Period(f"day:{view.day:03d}", begin, begin + round(DAY_S * 1e6))
        at = min(begin + round(view.now * 1e6), today.end - 1)
        return _row(self.traffic(view).to_come(today, at), len(view.table.costs))

    def traffic(self, view: View) -> Traffic:
        """Return the counts, as of the last call."""
        if self._traffic is None:
            self._traffic = Traffic(self._arrivals, app="sim", usual=view.usual)  # type: ignore[arg-type]  # arrivals are all it asks for
        return self._traffic

    def a_day(self, view: View) -> list[float]:
        """Return the requests of a whole day, per type."""
        return _row(self.traffic(view).a_day(), len(view.table.costs))

    def total(self, view: View) -> float:
        """Return how many requests a day was expected to have."""
        return max(1.0, self.traffic(view).expected_total)


def _row(counts: Mapping[str, float], kinds: int) -> list[float]:
    return [counts.get(f"sim|{kind}", 0.0) for kind in range(kinds)]


@dataclass
class Solving:
    """The solving pacer.

    Attributes:
        forecast: requests still to come today, per type; None = the library's own.
        families: what each action's γ is kept for.
        calibrated: whether γ is learnt at all.
    """

    forecast: Forecast | None = None
    families: Sequence[str] = FAMILIES
    calibrated: bool = True
    every_s: float = 60.0
    every_share: float = 0.001
    _rule: pacing.PacingRule = field(default_factory=lambda: pacing.PacingRule(pacer="solve"))
    _plan: pacing.PacingPlan | None = None
    _recent: Recent = field(default_factory=Recent)
    _seen: tuple[tuple[float, ...], tuple[float, ...], int] | None = None
    _known: pacing.Calibration = field(default_factory=pacing.Calibration)
    _factors: dict[str, float] = field(default_factory=dict)
    _program: pacing.Program | None = None

    def plan(self, view: View) -> Choice:
        """Solve for the money and the requests that are left."""
        if self._calibrate(view) or self._program is None:
            self._program = pacing.prepare(curves(view.table, self._per_action()))
        factors = self._per_action()
        flying = sum((s - d) * f for s, d, f in zip(view.sent, view.done, factors, strict=True))
        seen = pace_view(view, expected=flying)
        if self._plan is None:
            self._plan = started(self._rule, view, seen)
        today = self._recent(view)
        if self.forecast is not None:
            today = self.forecast(view)
        later = self._recent.a_day(view) if view.carry_over else [0.0] * len(today)
        per_day = sum(later) or self._recent.total(view)
        ahead = pacing.days_ahead(per_day, carry_over=view.carry_over)
        self._plan = plan = pacing.resolved(
            self._rule,
            self._plan,
            seen,
            self._program,
            [n + ahead * m for n, m in zip(today, later, strict=True)],
            ahead=round(ahead * view.budget * PICO_PER_USD),
        )
        kept = GUARD * sum(n * c for n, c in zip(today, self._program.floors, strict=True))
        low, high = (best(view.table, factors, price) for price in (plan.low, plan.high))
        return Choice(low, high, plan.share, max(kept, self._warmup(view, seen)))

    def _warmup(self, view: View, seen: pacing.PaceView) -> float:
        """Return what warm-up keeps back, dollars."""
        if self._plan is None or not pacing.warming_up(self._rule, self._plan, now=seen.now):
            return 0.0
        bought = pacing.warmup_allowance(self._rule, self._plan, seen)
        return view.limit - (bought + pacing.warmup_mark(self._rule, self._plan)) / PICO_PER_USD

    def _per_action(self) -> list[float]:
        return [pacing.gamma_of(self._factors, family) for family in self.families]

    def _calibrate(self, view: View) -> bool:
        """Take in the bills since the last plan; say whether γ moved."""
        if not self.calibrated:
            return False
        old = self._seen or ((0.0,) * len(view.done), (0.0,) * len(view.done), 0)
        self._seen = (tuple(view.done), tuple(view.billed), view.settlements)
        sums: dict[str, tuple[float, float]] = {}
        for action, family in enumerate(self.families):
            predicted, billed = sums.get(family, (0.0, 0.0))
            sums[family] = (
                predicted + view.done[action] - old[0][action],
                billed + view.billed[action] - old[1][action],
            )
        self._known = self._known.after(sums, calls=view.settlements - old[2])
        fresh = self._known.factors(view.limit / self._recent.total(view))
        if pacing.moved(self._factors, fresh):
            self._factors = fresh
            return True
        return False


def expected_total(view: View) -> float:
    """Return the requests of a day, from the last one."""
    return max(1.0, sum(map(sum, view.history[-1]))) if view.history else view.usual


def started(rule: pacing.PacingRule, view: View, seen: pacing.PaceView) -> pacing.PacingPlan:
    """Return the first plan, for the announced traffic."""
    kinds = len(view.table.costs)
    curve = curves(view.table, [1.0] * len(view.table.costs[0]))
    groups = [pacing.Group(view.usual / kinds, points) for points in curve]
    return replace(pacing.start(rule, groups, seen), is_cold=not view.history)


def pace_view(
    view: View,
    *,
    expected: float = 0.0,
    share_of_rest: Callable[[float, float], float] = pacing.evenly,
    before: float | None = None,
) -> pacing.PaceView:
    """Return the library's view of the simulator's world.

    Args:
        view: the world.
        expected: predicted dollars in flight.
        share_of_rest: how traffic spreads.
        before: dollars settled in the window of the last plan; None = the same window.
    """
    begin = round(view.day * DAY_S * 1e6)
    settled = round(view.settled * PICO_PER_USD)
    return pacing.PaceView(
        window=f"{view.day:03d}",
        now=begin + round(view.now * 1e6),
        start=begin,
        end=begin + round(DAY_S * 1e6),
        limit=round(view.limit * PICO_PER_USD),
        settled=settled,
        settled_before=settled if before is None else round(before * PICO_PER_USD),
        share_of_rest=share_of_rest,
        expected=round(expected * PICO_PER_USD),
    )


def curves(table: Table, factors: Sequence[float]) -> list[tuple[tuple[float, float], ...]]:
    """Return each type's (dollars, reward) points with γ applied."""
    return [
        tuple((c * f, r) for c, f, r in zip(costs, factors, rewards, strict=True))
        for costs, rewards in zip(table.costs, table.rewards, strict=True)
    ]


def best(table: Table, factors: Sequence[float], price: float) -> tuple[int, ...]:
    """Return argmax R − λ·γC per type, ties to the cheaper."""
    chosen = []
    for points in curves(table, factors):
        values = [(reward - price * cost, -cost) for cost, reward in points]
        chosen.append(values.index(max(values)))
    return tuple(chosen)
