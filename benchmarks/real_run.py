"""Real traffic with real answers through the library's own Router, call by call.

`Router.decide` and `Router.settle` over a memory store and a clock that follows the arrivals; settled
is what the answer's tokens cost. A call counts for the day it was decided in.
"""

from __future__ import annotations

import heapq
import json
import math
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from real_outcomes import TASKS, read_outcomes
from series import read_series
from workload import DAY_S

from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded
from budgetroute.pacing import Group, solve
from budgetroute.profiles import save_profile
from budgetroute.records import InputSize, Request, Usage
from budgetroute.router import Router
from budgetroute.stores import MemoryStore
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable

    from real_outcomes import Half, Outcomes
    from series import Series
    from workload import Floats, Ints

    from budgetroute.records import Decision, Profile

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
HOUR_S = 3_600.0
VOLUME, QUICK_VOLUME = 20_000.0, 2_000.0
DAYS, QUICK_DAYS = 14, 4
BYTES_PER_TOKEN = 4
FIRST_TOKEN_S, TOKENS_PER_S = 1.0, 50.0
AXES = frozenset({"model", "max_tokens"})


@dataclass(frozen=True, slots=True)
class World:
    """One drawing of the traffic, and what the router may know.

    Attributes:
        half: the judged prompts.
        profile: the curves, from the other prompts.
        costs: [task][action] dollars as the curves have them.
        times: [day] arrivals, seconds into the day.
        drawn: [day] which prompts are asked.
        volume: requests on a mean day.
        prices: model → dollars per input and output token.
    """

    half: Half
    profile: Profile
    costs: Floats
    times: list[Floats]
    drawn: list[Ints]
    volume: float
    prices: dict[str, tuple[float, float]]

    @property
    def rewards(self) -> Floats:
        """[task][action] rewards as the curves have them."""
        rows = self.profile.cells
        return np.array([[cell.reward for cell in rows[name] if cell] for name in TASKS])

    def grid(self, count: int) -> list[float]:
        """Return budgets per day, evenly in log, inside cheapest plan … plan with most reward."""
        shares = [self.profile.types[name].share for name in TASKS]
        best = self.costs[range(len(TASKS)), self.rewards.argmax(axis=1)]
        low, high = (self.volume * float(np.dot(shares, c)) for c in (self.costs.min(1), best))
        return [low * (high / low) ** (k / (count + 1)) for k in range(1, count + 1)]


@cache
def sources(folder: Path) -> tuple[Series, Outcomes]:
    return read_series(folder)[0], read_outcomes(folder)


def world(folder: Path, *, swapped: bool, quick: bool) -> World:
    series, outcomes = sources(folder)
    known, asked = outcomes.halves(0)[:: -1 if swapped else 1]
    rng = np.random.default_rng([1, swapped])
    volume = QUICK_VOLUME if quick else VOLUME
    days = range(QUICK_DAYS if quick else DAYS)
    times = [series.times(day, volume=volume, seed=int(swapped)) for day in days]
    return World(
        half=asked,
        profile=outcomes.profile(known),
        costs=known.means(known.costs),
        times=times,
        drawn=[rng.integers(asked.kinds.size, size=each.size) for each in times],
        volume=volume,
        prices=dict(outcomes.models),
    )


@dataclass
class Result:
    """What a day came to; dollars and sums of rewards."""

    budget: float
    requests: int
    spend: float = 0.0
    highest: float = 0.0
    reward: float = 0.0
    rejected: int = 0
    early: float = 0.0


@dataclass(order=True, slots=True)
class Flight:
    """A call on its way; `lands` in seconds since the first midnight."""

    lands: float
    number: int
    decision: Decision = field(compare=False)
    usage: Usage = field(compare=False)
    result: Result = field(compare=False)


class Airport:
    """Sends a world's requests through a router and settles each when its answer is there."""

    def __init__(self, world: World, router: Router, clock: ManualClock) -> None:
        self._world, self._router, self._clock = world, router, clock
        self._columns = {action.label: i for i, action in enumerate(world.profile.actions)}
        self._flying: list[Flight] = []
        self._sent = 0

    def run(self, budget: float) -> list[Result]:
        """Send all days' requests; a call counts for the day it was decided in."""
        results = []
        for day, (times, drawn) in enumerate(
            zip(self._world.times, self._world.drawn, strict=True)
        ):
            results.append(Result(budget, times.size))
            for second, prompt in zip(times.tolist(), drawn.tolist(), strict=True):
                at = day * DAY_S + second
                self._land(at)
                self._set_clock(at)
                self._send(at, prompt, results[-1])
        self._land(math.inf)
        return results

    def _set_clock(self, at: float) -> None:
        self._clock.at = MONDAY + timedelta(seconds=at)

    def _send(self, at: float, prompt: int, result: Result) -> None:
        half = self._world.half
        self._sent += 1
        given = int(half.inputs[prompt])
        request = Request(
            route="real",
            text="",
            size=InputSize(given, BYTES_PER_TOKEN * given),
            sendable=AXES,
            prompt_type=TASKS[half.kinds[prompt]],
            seed=str(self._sent),
        )
        try:
            decision = self._router.decide(request)
        except BudgetExceeded:
            result.rejected += 1
            return
        column = self._columns[decision.action.label]
        made = int(half.outputs[prompt, column])
        result.reward += float(half.scores[prompt, column])
        result.early += float(half.costs[prompt, column]) if at % DAY_S < HOUR_S else 0.0
        lands = at + FIRST_TOKEN_S + made / TOKENS_PER_S
        usage = Usage(given, made)
        heapq.heappush(self._flying, Flight(lands, self._sent, decision, usage, result))

    def _land(self, until: float) -> None:
        while self._flying and self._flying[0].lands <= until:
            flight = heapq.heappop(self._flying)
            self._set_clock(flight.lands)
            settled = self._router.settle(flight.decision, [flight.usage])
            flight.result.spend += settled.usd
            books = settled.balance.settled + settled.balance.held
            flight.result.highest = max(flight.result.highest, usd_from_pico(books))


def routed(world: World, budget: float, pacing: str) -> list[Result]:
    """Run a world's days through a Router with some `[pacing]` section."""
    clock = ManualClock(MONDAY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_profile(world.profile, folder / "half.json")
        file = folder / "budgetroute.toml"
        file.write_text(configuration(world, budget, pacing), encoding="utf-8")
        file.chmod(0o600)
        router = Router.from_config(file, store=MemoryStore(clock, keep_closed=100), observers=[])
        return Airport(world, router, clock).run(budget)


def configuration(world: World, budget: float, pacing: str) -> str:
    models = [
        f"[models.{json.dumps(name)}]\nprice = {{ input = {1e6 * given!r}, output = {1e6 * made!r} }}"
        for name, (given, made) in world.prices.items()
    ]
    head = f'name = "real"\nprofile = "half.json"\n[budget]\ndaily_usd = {budget!r}\n'
    return "\n".join([head, pacing, *models, ""])


OURS, TEXTBOOK = "solve", "dual, textbook"


def textbook(world: World) -> str:
    """Return the textbook rule λ + η·(spend − B/T) with an η that suits the middle budget.

    There a period that spends twice its share moves λ by a tenth of the program's price.
    """
    middle = world.grid(1)[0]
    price = math.sqrt(math.prod(world_price(world, middle)))
    eta = 0.1 * price / (middle / 288)
    return f'[pacing]\npacer = "dual"\nstep = "raw"\ntarget = "flat"\neta = {eta!r}\n'


def world_price(world: World, budget: float) -> tuple[float, float]:
    """Return the two prices of the linear program of a mean day."""
    groups = [
        Group(
            world.volume * world.profile.types[name].share,
            tuple(zip(costs.tolist(), rewards.tolist(), strict=True)),
        )
        for name, costs, rewards in zip(TASKS, world.costs, world.rewards, strict=True)
    ]
    low, high, _ = solve(groups, budget)
    return low, high


ROUTED: dict[str, Callable[[World], str]] = {
    OURS: lambda _: "",
    "dual, multiplicative": lambda _: '[pacing]\npacer = "dual"\n',
    TEXTBOOK: textbook,
}


def evenly(world: World, drawn: Ints, budget: float) -> Ints:
    """Return for each request the action that the curves say fits a mean day best."""
    shares = np.array([world.profile.types[name].share for name in TASKS])
    costs, rewards = world.volume * shares @ world.costs, shares @ world.rewards
    return np.full(drawn.size, np.where(costs <= budget, rewards, -1.0).argmax())


def greedily(world: World, drawn: Ints, budget: float) -> Ints:
    """Return the best action for each request, then the cheapest.

    It is told the moment from which on nothing but the cheapest can be paid till midnight.
    """
    kinds, costs = world.half.kinds[drawn], world.half.costs
    best, floor = world.rewards.argmax(axis=1)[kinds], world.costs.argmin(axis=1)[kinds]
    dear, cheap = np.cumsum(costs[drawn, best]), np.cumsum(costs[drawn, floor])
    fits = dear + cheap[-1] - cheap <= budget
    return np.where(np.arange(drawn.size) < np.count_nonzero(fits), best, floor)


UNROUTED: dict[str, Callable[[World, Ints, float], Ints]] = {
    "uniform, then stop": evenly,
    "greedy, then floor": greedily,
}


def unrouted(
    world: World, budget: float, plan: Callable[[World, Ints, float], Ints]
) -> list[Result]:
    """Send each day's requests to planned actions until a bill does not fit, then stop."""
    results = []
    half = world.half
    for times, drawn in zip(world.times, world.drawn, strict=True):
        actions = plan(world, drawn, budget)
        bills = half.costs[drawn, actions]
        paid = np.cumsum(bills) <= budget
        spend, early = float(bills[paid].sum()), float(bills[paid & (times < HOUR_S)].sum())
        reward = float(half.scores[drawn, actions][paid].sum())
        rejected = int(np.count_nonzero(~paid))
        results.append(Result(budget, drawn.size, spend, spend, reward, rejected, early))
    return results
