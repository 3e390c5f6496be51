"""A simulated day: requests arrive, the real router decides, costs scatter around what was expected.

Five types and eight models over a price span of 100, saturating rewards, lognormal cost noise
(σ = 0.7, cut at three times the mean). Rewards are the true means, so that what is measured is
pacing and not luck.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from budgetroute.curves import hull
from budgetroute.errors import BudgetExceeded
from budgetroute.pacing import Group
from budgetroute.records import Action, InputSize, Profile, PromptType, Usage
from helpers.world import asked, cell

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from budgetroute.records import Decision
    from budgetroute.router import Router
    from helpers.world import World

DAY_S = 86_400
SPREAD = 0.7
CUT = 3.0
CAP = 1600
PRICE = {f"m{i}": 0.4 * 100 ** (i / 7) for i in range(8)}
TYPES = {  # mean output tokens, reward of the cheapest, what spending can add, steepness
    "chat": (420, 0.85, 0.08, 5.0),
    "code": (200, 0.15, 0.70, 1.5),
    "general": (250, 0.45, 0.35, 3.0),
    "math": (150, 0.05, 0.85, 0.6),
    "reading": (400, 0.60, 0.20, 6.0),
}
SHARE = {"chat": 0.3, "code": 0.15, "general": 0.2, "math": 0.15, "reading": 0.2}
MODELS = "\n".join(
    f'[models."{name}"]\nprice = {{ input = {price / 4:.6f}, output = {price:.6f} }}\n'
    for name, price in PRICE.items()
)


def _reward(kind: str, i: int) -> float:
    _, low, extra, steep = TYPES[kind]
    rise = (1 - math.exp(-steep * i / 7)) / (1 - math.exp(-steep))
    bump = -0.06 if i in {2, 5} else 0.0  # two models are worth less than their neighbours
    return max(0.0, low + extra * rise + bump)


PROFILE = Profile(
    name="simulated",
    created="2026-03-04",
    types={name: PromptType(SHARE[name], 150) for name in TYPES},
    actions=tuple(Action(name, CAP) for name in PRICE),
    cells={
        kind: tuple(cell(_reward(kind, i), TYPES[kind][0], cut=0.0) for i in range(8))
        for kind in TYPES
    },
)


@dataclass(frozen=True)
class Arrival:
    """One request: when, of which type, how long its prompt is, and how far its cost is off."""

    at: float
    kind: str
    tokens: int
    noise: float


@dataclass
class Outcome:
    """What a day came to."""

    limit: float
    spent: float = 0.0
    reward: float = 0.0
    calls: int = 0
    refused: int = 0
    prices: list[float] = field(default_factory=list)
    by_kind: dict[str, int] = field(default_factory=dict)
    spent_at: list[tuple[float, float]] = field(default_factory=list)
    highest: float = 0.0

    @property
    def mean_reward(self) -> float:
        return self.reward / max(1, self.calls + self.refused)


def flat(_position: float) -> float:
    return 1.0


def sine(position: float) -> float:
    return 1.0 + 0.75 * math.sin(2 * math.pi * (position - 0.3))


def arrivals(
    luck: random.Random, calls: int, shape: Callable[[float], float] = flat, *, start: float = 0.0
) -> Iterator[Arrival]:
    """Draw a day's requests in order, `calls` of them on average over a whole day."""
    at, top = start * DAY_S, 1.75
    while True:
        at += luck.expovariate(calls * top / DAY_S)
        if at >= DAY_S:
            return
        if luck.random() * top > shape(at / DAY_S):
            continue
        turn = 0.5 * math.sin(2 * math.pi * at / DAY_S)
        weights = [SHARE[k] * (1 + turn * (1 if i % 2 else -1)) for i, k in enumerate(TYPES)]
        kind = luck.choices(list(TYPES), weights)[0]
        tokens = int(luck.lognormvariate(math.log(120), 0.6)) + 1
        yield Arrival(at, kind, tokens, _noise(luck))


def _noise(luck: random.Random) -> float:
    while True:
        drawn = luck.lognormvariate(-SPREAD * SPREAD / 2, SPREAD)
        if drawn < CUT:
            return drawn / _TRUNCATED_MEAN


def _normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


_EDGE = (math.log(CUT) + SPREAD * SPREAD / 2) / SPREAD
_TRUNCATED_MEAN = _normal(_EDGE - SPREAD) / _normal(_EDGE)


class Sky:
    """Calls in flight: each lands, and is settled, `latency_s` after it was sent."""

    def __init__(self, world: World, router: Router, outcome: Outcome) -> None:
        self.world, self.router, self.outcome = world, router, outcome
        self.midnight = world.clock.at
        self._flying: list[tuple[float, int, Decision, Usage]] = []

    def go_to(self, at: float) -> None:
        """Settle what lands before `at`, then set the clock to it."""
        while self._flying and self._flying[0][0] <= at:
            landed, _, decision, usage = heapq.heappop(self._flying)
            self.world.clock.at = self.midnight + timedelta(seconds=landed)
            self._settle(decision, usage)
        self.world.clock.at = self.midnight + timedelta(seconds=at)

    def send(self, decision: Decision, usage: Usage, *, lands_at: float) -> None:
        """Take off."""
        heapq.heappush(self._flying, (lands_at, self.outcome.calls, decision, usage))

    def empty(self) -> None:
        """Settle everything, and set the clock to the next midnight."""
        self.go_to(max((at for at, *_ in self._flying), default=0.0))
        self.world.clock.at = self.midnight + timedelta(days=1)

    def _settle(self, decision: Decision, usage: Usage) -> None:
        settled, outcome = self.router.settle(decision, [usage]), self.outcome
        outcome.spent += settled.usd
        total = settled.balance.settled + settled.balance.held
        outcome.highest = max(outcome.highest, total / 1e12)
        at = (self.world.clock.at - self.midnight).total_seconds()
        outcome.spent_at.append((at, outcome.spent))


def run_day(
    world: World,
    router: Router,
    requests: Iterator[Arrival],
    *,
    latency_s: float = 10.0,
    factor: float = 1.0,
) -> Outcome:
    """Send a day's requests through the router.

    Args:
        world: its clock is moved from midnight on.
        router: decides and settles.
        requests: in order of time.
        latency_s: how long a call takes.
        factor: real over expected tokens, for a profile that is wrong.
    """
    outcome = Outcome(limit=router.config.budget.daily_usd)
    sky = Sky(world, router, outcome)
    for request in requests:
        sky.go_to(request.at)
        size = InputSize(request.tokens, 4 * request.tokens)
        try:
            decision = router.decide(asked(prompt_type=request.kind, size=size, baseline=None))
        except BudgetExceeded:
            outcome.refused += 1
            continue
        made = min(CAP, max(1, round(TYPES[request.kind][0] * request.noise * factor)))
        sky.send(decision, Usage(request.tokens, made), lands_at=request.at + latency_s)
        outcome.calls += 1
        outcome.reward += decision.chosen.reward or 0.0
        outcome.prices.append(decision.shadow_price)
        outcome.by_kind[request.kind] = outcome.by_kind.get(request.kind, 0) + 1
    sky.empty()
    return outcome


def mean_cost(kind: str, i: int) -> float:
    """Expected dollars of one request of a type on model i."""
    price = PRICE[f"m{i}"]
    return (MEAN_INPUT * price / 4 + TYPES[kind][0] * price) / 1e6


MEAN_INPUT = 120 * math.exp(0.18) + 0.5


def groups_of(counts: dict[str, int]) -> list[Group]:
    """The realised requests by type, for the hindsight program."""
    return [
        Group(n, tuple((mean_cost(kind, i), _reward(kind, i)) for i in range(8)))
        for kind, n in counts.items()
    ]


def hindsight(counts: dict[str, int], budget: float) -> float:
    """The most reward that these requests could have had for this money, types known."""
    from scipy.optimize import linprog

    groups = groups_of(counts)
    gain = [-g.count * r for g in groups for _, r in g.points]
    cost = [g.count * c for g in groups for c, _ in g.points]
    width = len(groups[0].points)
    equal = [
        [1.0 if j // width == k else 0.0 for j in range(len(gain))] for k in range(len(groups))
    ]
    found = linprog(gain, [cost], [budget], equal, [1.0] * len(groups), bounds=(0, 1))
    return float(-found.fun)


def random_mix(counts: dict[str, int], budget: float) -> float:
    """Reward of the best random mix of two models, blind to types, at this money."""
    groups = groups_of(counts)
    points = [
        (
            sum(g.count * g.points[i][0] for g in groups),
            sum(g.count * g.points[i][1] for g in groups),
        )
        for i in range(8)
    ]
    line = [points[i] for i in hull(points)]
    for (c0, r0), (c1, r1) in pairwise(line):
        if c0 <= budget <= c1:
            return r0 + (r1 - r0) * (budget - c0) / (c1 - c0)
    return line[-1][1] if budget > line[-1][0] else line[0][1] * budget / line[0][0]
