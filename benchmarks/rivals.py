"""What the solving pacer is compared with; each row says by which rule it spends.

The step rules are budgetroute's own `dual` pacer (`budgetroute.pacing.step`), called as the router
calls it. All rows run under the same hard cap and keep money for the cheapest action of requests
still to come where they expect any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pacing_lp import crowds, optimum
from pacing_ours import Solving, best, expected_total, pace_view
from pacing_sim import GUARD, Choice, View, run
from workload import ACTIONS, DAY_S, MIX, SCENARIOS, Day, Scenario, days, table

from budgetroute import forecast, pacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pacing_sim import Policy
    from workload import Table

NO_GAMMA = (1.0,) * len(ACTIONS)


def usual_groups(view: View) -> list[pacing.Group]:
    """Return a whole announced day's requests with their curves."""
    return [
        pacing.Group(view.usual * share, tuple(zip(costs, rewards, strict=True)))
        for share, costs, rewards in zip(MIX, view.table.costs, view.table.rewards, strict=True)
    ]


def at_price(view: View, price: float, guard: float = 0.0) -> Choice:
    """Return argmax R − λC for every type."""
    actions = best(view.table, NO_GAMMA, price)
    return Choice(actions, actions, guard=guard)


class Reserve:
    """Money kept for the cheapest action of requests still to come, from past days' shape."""

    def __init__(self) -> None:
        self._day = -1
        self._shape: tuple[float, ...] | None = None

    def __call__(self, view: View) -> float:
        """Return 1.5 × the cheapest action for the requests still to come, as the router does."""
        self.learn(view)
        calls = forecast.calls_to_come(
            float(sum(map(sum, view.today))),
            done=forecast.share_between(self._shape, 0.0, view.now / DAY_S),
            daily=expected_total(view),
        )
        floor = sum(share * min(row) for share, row in zip(MIX, view.table.costs, strict=True))
        return GUARD * floor * calls

    def share_of_rest(self, start: float, end: float) -> float:
        """Return the part of the traffic to come at `start` that is expected until `end`."""
        return forecast.share_of_rest(self._shape, start, end)

    def learn(self, view: View) -> None:
        """Take in the past days, once a day."""
        if view.day != self._day:
            self._day = view.day
            self._shape = forecast.shape_from_days(
                [{b: sum(row) for b, row in enumerate(day)} for day in view.history[-7:]]
            )


class Dual:
    """The textbook step rules, by the library's own functions."""

    every_s = 30.0
    every_share = math.inf

    def __init__(self, **settings: object) -> None:
        self._rule = pacing.PacingRule(pacer="dual", **settings)  # type: ignore[arg-type]
        self._plan: pacing.PacingPlan | None = None
        self._choice = Choice((), ())
        self._reserve = Reserve()

    def plan(self, view: View) -> Choice:
        """Take a step if a period has ended."""
        self._reserve.learn(view)
        pace = self._view(view)
        if self._plan is None:
            self._plan = pacing.start(self._rule, usual_groups(view), pace)
        elif pacing.due(self._rule, self._plan, window=pace.window, start=pace.start, now=pace.now):
            self._plan = pacing.step(self._rule, self._plan, pace)
        else:
            return self._choice
        self._choice = at_price(view, self._plan.high, self._reserve(view))
        return self._choice

    def _view(self, view: View) -> pacing.PaceView:
        turned = self._plan is not None and self._plan.window != f"{view.day:03d}"
        return pace_view(
            view,
            share_of_rest=self._reserve.share_of_rest,
            before=view.yesterday if turned else None,
        )


@dataclass
class Static:
    """λ from the plan's linear program, never moved."""

    every_s: float = 300.0
    every_share: float = math.inf
    _price: float = 0.0
    _reserve: Reserve = field(default_factory=Reserve)

    def plan(self, view: View) -> Choice:
        """Choose by the price of the first plan."""
        if not self._price:
            low, high, _ = pacing.solve(usual_groups(view), view.budget)
            self._price = math.sqrt(low * high)
        return at_price(view, self._price, self._reserve(view))


class ParetoBandit:
    """ParetoBandit's pacer: one multiplier on log cost, moved after every bill.

    ema = 0.95·ema + 0.05·c;  λ = clip(λ + 0.05·(ema/target − 1), 0, 5);  argmax R − λ·log-cost,
    with log cost brought to [0, 1] between $2e-5 and $0.1. The target is dollars per request, from
    the announced volume. Only its pacer: it is given the true curves, not its bandit.
    """

    every_s = 300.0
    every_share = math.inf
    _LOW, _HIGH = math.log(2e-5), math.log(0.1)

    def __init__(self) -> None:
        self._price = 0.0
        self._ema: float | None = None
        self._target = 0.0
        self._reserve = Reserve()
        self._scaled: list[list[float]] = []
        self._rewards: tuple[tuple[float, ...], ...] = ()

    def plan(self, view: View) -> Choice:
        """Set target and curves."""
        self._target = view.budget / view.usual
        if self._ema is None:
            self._ema = self._target
        span = self._HIGH - self._LOW
        self._scaled = [[(math.log(c) - self._LOW) / span for c in row] for row in view.table.costs]
        self._rewards = view.table.rewards
        return at_price(view, 0.0, self._reserve(view))

    def decide(self, kind: int) -> int:
        """Return argmax R − λ·log cost."""
        scaled, price = self._scaled[kind], self._price
        values = [r - price * c for r, c in zip(self._rewards[kind], scaled, strict=True)]
        return values.index(max(values))

    def billed(self, dollars: float) -> None:
        """Move the multiplier."""
        ema = self._ema if self._ema is not None else dollars
        self._ema = 0.95 * ema + 0.05 * dollars
        self._price = min(5.0, max(0.0, self._price + 0.05 * (self._ema / self._target - 1.0)))


@dataclass
class Uniform:
    """One action for everything, the best that fits on average; when the money is out, stop."""

    every_s: float = math.inf
    every_share: float = math.inf

    def plan(self, view: View) -> Choice:
        """Choose the action of the day."""
        groups = usual_groups(view)
        action = max(
            (
                (sum(g.count * g.points[a][1] for g in groups), a)
                for a in range(len(view.table.costs[0]))
                if sum(g.count * g.points[a][0] for g in groups) <= view.budget
            ),
        )[1]
        actions = (action,) * len(groups)
        stop = tuple(() for _ in view.table.costs[0])
        return Choice(actions, actions, ladder=(stop,) * len(groups))


@dataclass
class Greedy:
    """The best action for everything; when the money is out, the cheapest."""

    every_s: float = 300.0
    every_share: float = math.inf
    _reserve: Reserve = field(default_factory=Reserve)

    def plan(self, view: View) -> Choice:
        """Choose the best actions."""
        actions = best(view.table, NO_GAMMA, 0.0)
        return Choice(actions, actions, guard=self._reserve(view), ladder=then_floor(view.table))


@dataclass
class Priority:
    """Money is released evenly; the type that gains most has first call on it, the rest the floor.

    The type of rank r (by reward gained over the floor) takes its best action while less is spent
    than released minus r percent of the budget.
    """

    every_s: float = 60.0
    every_share: float = math.inf
    _reserve: Reserve = field(default_factory=Reserve)

    def plan(self, view: View) -> Choice:
        """Give each type its best or its cheapest action."""
        top = best(view.table, NO_GAMMA, 0.0)
        floor = best(view.table, NO_GAMMA, math.inf)
        gains = [
            rewards[a] - rewards[0] for rewards, a in zip(view.table.rewards, top, strict=True)
        ]
        ranks = sorted(range(len(gains)), key=lambda kind: -gains[kind])
        free = view.limit * view.now / DAY_S - view.settled - view.held / 3.0
        actions = tuple(
            top[kind] if free > 0.01 * view.limit * ranks.index(kind) else floor[kind]
            for kind in range(len(gains))
        )
        return Choice(actions, actions, guard=self._reserve(view), ladder=then_floor(view.table))


def then_floor(known: Table) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return ladders that go from any action straight to the cheapest."""
    width = len(known.costs[0])
    return tuple(tuple(() if a == 0 else (0,) for a in range(width)) for _ in known.costs)


class Oracle:
    """The true counts still to come, per type: what a perfect forecast would be worth."""

    def __init__(self, traffic: Sequence[Day]) -> None:
        self._days = {day.number: day for day in traffic}
        self._day = -1
        self._times: list[np.ndarray] = []

    def __call__(self, view: View) -> list[float]:
        """Return the requests of each type after now."""
        if view.day != self._day:
            day = self._days[view.day]
            self._day = view.day
            self._times = [day.times[day.types == kind] for kind in range(len(MIX))]
        return [float(t.size - np.searchsorted(t, view.now)) for t in self._times]


GRIDS: dict[str, tuple[float, ...]] = {
    "raw": (2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0),
    "relative": (0.02, 0.05, 0.1, 0.2, 0.4),
    "multiplicative": (0.02, 0.05, 0.1, 0.2, 0.4),
}
TUNING_SEEDS = range(100, 106)


def tune(step: pacing.Step, target: pacing.Target) -> list[tuple[float, float]]:
    """Return (mean reward over the linear program's, η), best first, for one step rule.

    The η of the tables are the winners of the scenario `base` with seeds 100 to 105, which no table
    uses; they are the same in every other scenario.
    """
    scenario = SCENARIOS["base"]
    traffic = [days(scenario, seed) for seed in TUNING_SEEDS]
    return sorted(
        ((_worth(scenario, traffic, (step, target, eta)), eta) for eta in GRIDS[step]), reverse=True
    )


def _worth(
    scenario: Scenario,
    traffic: Iterable[list[Day]],
    setting: tuple[pacing.Step, pacing.Target, float],
) -> float:
    step, target, eta = setting
    ratios = []
    for drawn in traffic:
        outcomes = run(scenario, drawn, Dual(step=step, target=target, eta=eta), table=table())
        ratios += [
            outcome.reward / optimum(crowds(day), scenario.budget).reward
            for day, outcome in zip(drawn[1:], outcomes[1:], strict=True)
        ]
    return float(np.mean(ratios))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the tables: how to make its policy for some traffic, and its carry-over in words."""

    name: str
    make: Callable[[Sequence[Day]], Policy]
    carry_over: str = "0"


RAW_ETA, RELATIVE_ETA, FLAT_ETA, FORECAST_ETA = 160.0, 0.1, 0.05, 0.1  # found by `tune`

OURS = "solve"
ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row(OURS, lambda _: Solving(), "0 (5/day: 7)"),
        Row("solve, true counts", lambda traffic: Solving(Oracle(traffic)), "0 (5/day: 7)"),
        Row("solve, no calibration", lambda _: Solving(calibrated=False), "0 (5/day: 7)"),
        Row(
            "raw 0.001/h cold",
            lambda _: Dual(
                step="raw", target="flat", eta=0.001, period_s=3600.0, initial_lambda=0.0
            ),
        ),
        Row("raw tuned /5min", lambda _: Dual(step="raw", target="flat", eta=RAW_ETA)),
        Row("relative, B/T", lambda _: Dual(step="relative", target="flat", eta=RELATIVE_ETA)),
        Row(
            "multiplicative, B/T",
            lambda _: Dual(step="multiplicative", target="flat", eta=FLAT_ETA),
        ),
        Row(
            "multiplicative, forecast",
            lambda _: Dual(step="multiplicative", target="forecast", eta=FORECAST_ETA),
        ),
        Row("ParetoBandit pacer", lambda _: ParetoBandit()),
        Row("static price", lambda _: Static()),
        Row("uniform, then stop", lambda _: Uniform()),
        Row("priority, then floor", lambda _: Priority()),
        Row("greedy, then floor", lambda _: Greedy()),
    )
}
