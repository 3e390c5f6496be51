"""Whole simulated days through the router: the cap holds, the money is used, and used well.

4,000 calls a day, five types, eight models, cost noise σ = 0.7 (`helpers.traffic`). The linear
program of a day knows its requests beforehand; the random mix is the best one in hindsight.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile

import pytest
from helpers.traffic import (
    MODELS,
    PROFILE,
    Outcome,
    arrivals,
    flat,
    hindsight,
    random_mix,
    run_day,
    sine,
)
from helpers.world import World

from budgetroute.clock import ManualClock
from budgetroute.stores import MemoryStore

pytestmark = pytest.mark.slow

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
PER_CALL = 0.001
"""A budget between the cheapest plan ($0.0001 a call) and the dearest ($0.01)."""


def opened(folder, *, calls: int, hint: float | None, pacer: str = "", per_call: float = PER_CALL):
    clock = ManualClock(MONDAY)
    world = World(folder, clock, MemoryStore(clock, keep_closed=200), PROFILE)
    budget = f"daily_usd = {calls * per_call}\n"
    budget += f"calls_per_day = {hint}\n" if hint else ""
    more = f'[pacing]\npacer = "{pacer}"\n' if pacer else ""
    return world, world.router(budget=budget, models=MODELS, more=more)


@dataclass(frozen=True)
class Case:
    """Some days with one pacer; the last one is judged."""

    pacer: str
    shape: object
    days: int
    calls: int = 4000


CASES = {
    "default, even traffic, first day": Case("", flat, 1),
    "default, traffic in a sine, second day": Case("", sine, 2),
    "dual, traffic in a sine, second day": Case("dual", sine, 2),
}


@pytest.fixture(scope="module")
def day(request, tmp_path_factory) -> tuple[Outcome, Case]:
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp("day")
    world, router = opened(folder, calls=case.calls, hint=case.calls, pacer=case.pacer)
    luck = random.Random(7)
    outcomes = [run_day(world, router, arrivals(luck, case.calls, case.shape))
                for _ in range(case.days)]  # fmt: skip
    assert all(o.highest <= o.limit + 1e-9 for o in outcomes)
    return outcomes[-1], case


@pytest.mark.parametrize("day", CASES, indirect=True)
def test_spend_ends_within_one_percent_under_the_budget(day):
    """Never over, settled + held included, and at most 1 % is left; nobody is turned away."""
    outcome, _ = day
    assert outcome.highest <= outcome.limit + 1e-9
    assert 0.99 <= outcome.spent / outcome.limit <= 1.0
    assert outcome.refused <= 2


@pytest.mark.parametrize("day", CASES, indirect=True)
def test_reward_is_near_the_hindsight_program(day):
    """At least 98.5 % of what could have been had by knowing every request beforehand."""
    outcome, _ = day
    best = hindsight(outcome.by_kind, outcome.limit)
    assert outcome.reward >= 0.985 * best


@pytest.mark.parametrize("day", CASES, indirect=True)
def test_reward_beats_the_best_random_mix_at_equal_dollars(day):
    """By at least 3 % of reward: types are told apart, which a random mix cannot."""
    outcome, _ = day
    assert outcome.reward >= 1.03 * random_mix(outcome.by_kind, outcome.spent)


@pytest.mark.parametrize("pacer", ["", "dual"])
@pytest.mark.parametrize("off", [0.05, 20.0])
def test_a_wrong_hint_buys_no_more_than_half_more_than_planned_at_first(tmp_path, pacer, off):
    """A hint 20 times too small or large: the first periods keep to 1.5 × their planned share."""
    calls = 20_000
    world, router = opened(
        tmp_path, calls=calls, hint=calls * off, pacer=pacer or "", per_call=0.002
    )
    early = takewhile(lambda r: r.at < 900, arrivals(random.Random(3), calls, flat))
    outcome = run_day(world, router, early, latency_s=1.0)
    share = outcome.limit / 288
    for period in (1, 2, 3):
        spent = max((usd for at, usd in outcome.spent_at if at <= 300 * period), default=0.0)
        assert spent <= 1.5 * share * period * 1.1 + 0.05  # noise of one draw on the last calls
    assert outcome.spent > 0


@pytest.mark.parametrize("off", [0.05, 20.0])
def test_a_wrong_hint_costs_little_of_the_day(tmp_path, off):
    """By midnight the budget is used and never crossed, whatever the hint said."""
    world, router = opened(tmp_path, calls=1500, hint=1500 * off)
    outcome = run_day(world, router, arrivals(random.Random(5), 1500, flat))
    assert outcome.highest <= outcome.limit + 1e-9
    assert outcome.spent / outcome.limit >= 0.97
    assert outcome.reward >= 0.95 * hindsight(outcome.by_kind, outcome.limit)


def test_a_profile_that_is_wrong_about_tokens_keeps_the_cap(tmp_path):
    """Answers 60 % longer than profiled: the cap holds and the day is still used up."""
    world, router = opened(tmp_path, calls=1500, hint=1500)
    luck = random.Random(11)
    for _ in range(2):
        outcome = run_day(world, router, arrivals(luck, 1500, flat), factor=1.6)
        assert outcome.highest <= outcome.limit + 1e-9
    assert outcome.spent / outcome.limit >= 0.97
