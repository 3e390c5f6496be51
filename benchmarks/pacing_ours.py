"""The solving pacer in the simulator: budgetroute's pure functions, wired as the router wires them.

Forecast (`budgetroute.forecast`) → linear program (`prepare`, `resolved`) → the plan's two prices and
the chance of each. What the router reads from its store comes from the simulator's view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pacing_sim import BUCKET_S, BUCKETS, GUARD, Choice, View
from workload import ACTIONS, DAY_S

from budgetroute import forecast, pacing
from budgetroute.units import PICO_PER_USD

if TYPE_CHECKING:
    from workload import Table

HORIZON = 1_000.0  # requests
BANKS = 2.0  # but never further than two full banks: what does not fit into the bank is lost
NOTICED = 0.02  # γ that moved by less makes no new curves

Forecast = Callable[[View], list[float]]


class Recent:
    """The library's forecast: past days' shape, level of the last hours."""

    def __init__(self) -> None:
        self._day = -1
        self._outlook: forecast.Outlook | None = None
        self._totals: list[int] = []

    def __call__(self, view: View) -> list[float]:
        """Return the requests still to come today, per type."""
        kinds = len(view.table.costs)
        if self._outlook is None or view.day != self._day:
            self._day = view.day
            self._totals = []
            self._outlook = forecast.outlook(view.history, usual=view.usual, groups=kinds)
        place = view.now / DAY_S
        factor = forecast.level(self._outlook, self._counted(view), place)
        counts = forecast.to_come(self._outlook, factor, place)
        return counts if view.history else mixed(sum(counts), view.today, kinds)

    def _counted(self, view: View) -> list[int]:
        """Return requests per bucket up to now; closed buckets are summed once."""
        del self._totals[-1:]
        bucket = min(BUCKETS - 1, int(view.now // BUCKET_S))
        self._totals += map(sum, view.today[len(self._totals) : bucket + 1])
        return self._totals


def mixed(count: float, seen: Sequence[Sequence[int]], kinds: int) -> list[float]:
    """Share requests among types by what was seen, each type counting one more."""
    sums = [1.0 + sum(row[kind] for row in seen) for kind in range(kinds)]
    return [count * n / sum(sums) for n in sums]


@dataclass(frozen=True, slots=True)
class Ahead:
    """Days beyond today that the plan looks at, and their requests per type."""

    days: float
    counts: tuple[float, ...]


def later(view: View) -> Ahead:
    """Return what lies beyond today: with a bank, days until about 1,000 requests are seen."""
    kinds = len(view.table.costs)
    if not view.carry_over:
        return Ahead(0.0, (0.0,) * kinds)
    past = [row for day in view.history for row in day]
    seen = [1.0 + sum(row[kind] for row in past) for kind in range(kinds)]
    rate = (view.usual + sum(seen)) / (len(view.history) + 1.0)
    days = max(0.0, min(BANKS * view.carry_over, HORIZON / rate) - 1.0)
    return Ahead(days, tuple(days * rate * count / sum(seen) for count in seen))


@dataclass
class Solving:
    """The solving pacer.

    Attributes:
        forecast: requests still to come today, per type.
        models: the model that each action's γ is kept for; in this world each is its own.
        calibrated: whether γ is learnt at all.
    """

    forecast: Forecast = field(default_factory=Recent)
    models: Sequence[str] = ACTIONS
    calibrated: bool = True
    every_s: float = 60.0
    every_share: float = 0.001
    _rule: pacing.PacingRule = field(default_factory=lambda: pacing.PacingRule(pacer="solve"))
    _plan: pacing.PacingPlan | None = None
    _ahead: tuple[int, Ahead] = (-1, Ahead(0.0, ()))
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
        today = self.forecast(view)
        ahead = self._beyond(view)
        self._plan = plan = pacing.resolved(
            self._rule,
            self._plan,
            seen,
            self._program,
            [n + m for n, m in zip(today, ahead.counts, strict=True)],
            ahead=round(ahead.days * view.budget * PICO_PER_USD),
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

    def _beyond(self, view: View) -> Ahead:
        if self._ahead[0] != view.day:
            self._ahead = (view.day, later(view))
        return self._ahead[1]

    def _per_action(self) -> list[float]:
        return [self._factors.get(model, 1.0) for model in self.models]

    def _calibrate(self, view: View) -> bool:
        """Take in the bills since the last plan; say whether γ moved."""
        if not self.calibrated:
            return False
        old = self._seen or ((0.0,) * len(view.done), (0.0,) * len(view.done), 0)
        self._seen = (tuple(view.done), tuple(view.billed), view.settlements)
        sums: dict[str, tuple[float, float]] = {}
        for action, model in enumerate(self.models):
            predicted, billed = sums.get(model, (0.0, 0.0))
            sums[model] = (
                predicted + view.done[action] - old[0][action],
                billed + view.billed[action] - old[1][action],
            )
        self._known = self._known.after(sums, calls=view.settlements - old[2])
        fresh = self._known.factors(view.limit / expected_total(view))
        if any(abs(fresh[m] / self._factors.get(m, 1.0) - 1.0) > NOTICED for m in fresh):
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
