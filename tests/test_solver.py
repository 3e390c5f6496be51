"""The solving pacer in the real router, over simulated days."""

from __future__ import annotations

import random
import statistics
from datetime import UTC, datetime

import pytest
from helpers import traffic
from helpers.world import World

from budgetroute.clock import ManualClock
from budgetroute.pacing import Calibration
from budgetroute.stores import MemoryStore
from budgetroute.units import micros_from_time

SOLVE = '[pacing]\npacer = "solve"\n'
CALLS = 1500
BUDGET = 0.75


@pytest.fixture
def sim(tmp_path):
    """A world at midnight whose profile is that of the simulated traffic."""
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    return World(tmp_path, clock, MemoryStore(clock), traffic.PROFILE)


def opened(sim, *, more=SOLVE, budget=f"daily_usd = {BUDGET}"):
    return sim.router(budget=budget, models=traffic.MODELS, more=more)


def day(sim, router, seed, *, calls=CALLS, **more):
    drawn = traffic.arrivals(random.Random(seed), calls, traffic.sine)
    return traffic.run_day(sim, router, drawn, **more)


def test_from_the_second_day_it_reaches_the_hindsight_program(sim):
    """Spend within 1 % under the budget, never over, and at least 99 % of the program's reward."""
    router = opened(sim)
    day(sim, router, 1)
    second = day(sim, router, 2)
    assert 0.99 * BUDGET <= second.spent <= BUDGET
    assert second.highest <= BUDGET
    assert second.reward >= 0.99 * traffic.hindsight(second.by_kind, BUDGET)


@pytest.mark.parametrize("hint", [CALLS // 20, CALLS * 20])
def test_a_wrong_hint_does_not_empty_the_first_hour(sim, hint):
    """Without a past the first hour buys at most 1.5 times its share, whatever was announced."""
    router = opened(sim, budget=f"daily_usd = {BUDGET}\ncalls_per_day = {hint}")
    first = day(sim, router, 3)
    by_then = max((spent for at, spent in first.spent_at if at <= 3600), default=0.0)
    assert by_then <= 1.5 * BUDGET / 24
    assert 0.9 * BUDGET <= first.spent <= BUDGET


def test_gamma_absorbs_a_profile_that_is_wrong(sim):
    """Where calls cost half as much again as predicted, γ learns it and the day still holds."""
    router = opened(sim)
    day(sim, router, 4, factor=1.5)
    second = day(sim, router, 5, factor=1.5)
    used = router.pace.factors
    assert 1.4 < statistics.median(used.values()) < 1.6
    assert 0.98 * BUDGET <= second.spent <= BUDGET


def test_gamma_is_shared_and_survives_a_restart(sim):
    """A new router on the same store starts with the γ that the old one learnt."""
    day(sim, opened(sim), 6, factor=1.5)
    after = opened(sim)
    short = traffic.arrivals(random.Random(7), 200, traffic.flat)
    traffic.run_day(sim, after, short, factor=1.5)
    assert after.pace.factors
    assert statistics.median(after.pace.factors.values()) > 1.3


def test_another_process_solves_for_groups_it_never_served(sim):
    """Curves of groups are in the store: a router that serves one route plans for all."""
    one, other = opened(sim), opened(sim)
    day(sim, one, 8)
    day(sim, one, 9)
    traffic.run_day(sim, other, traffic.arrivals(random.Random(10), 20, traffic.flat))
    program = other.pace.solver._program
    assert program is not None
    served = set(other.pace.solver._own)
    assert set(program[0]) > served


def test_without_mixing_one_price_holds(sim):
    """`mix = false` never draws between two prices."""
    router = opened(sim, more=SOLVE + "mix = false\n")
    day(sim, router, 11, calls=400)
    plan = router.pace.known()
    assert plan.low == plan.high


def test_with_mixing_both_prices_are_drawn(sim):
    """Requests draw λ_low with probability f, else λ_high, and the propensity is kept."""
    router = opened(sim)
    day(sim, router, 12)
    made = [router.decide(traffic.asked(prompt_type="math", baseline=None)) for _ in range(80)]
    plan = router.pace.known()
    assert plan.low < plan.high
    drawn = {(each.shadow_price, each.propensity) for each in made}
    assert len(drawn) >= 2
    assert all(0.0 < propensity < 1.0 for _, propensity in drawn)


def test_plans_are_made_anew_each_minute_or_thousandth(sim):
    """Solving is due after 60 s, or once a thousandth of the budget is spent."""
    router = opened(sim)
    day(sim, router, 13)
    steps = router.pace.known().steps
    assert 300 <= steps <= 1500 + 1000


def test_a_bank_carries_money_over(sim):
    """What a quiet day leaves may be spent later, up to `carry_over` days' money."""
    budget = f"daily_usd = {BUDGET}\ncarry_over = 1"
    router = opened(sim, budget=budget)
    quiet = day(sim, router, 14, calls=60)
    left = BUDGET - quiet.spent
    assert left > 0
    assert router.status().limit_usd == pytest.approx(BUDGET + left)
    sim.clock.at = sim.clock.at.replace(day=10)
    assert router.status().limit_usd == pytest.approx(2 * BUDGET)
    busy = day(sim, router, 15)
    assert BUDGET < busy.spent <= 2 * BUDGET


def test_with_a_bank_thin_traffic_is_planned_over_two_full_banks(sim):
    """The horizon is as long as two banks, today included; without a bank it is today."""
    carried = opened(sim, budget=f"daily_usd = {BUDGET}\ncarry_over = 3\ncalls_per_day = 60")
    day(sim, carried, 18, calls=60)
    day(sim, carried, 19, calls=60)
    assert carried.pace.prospect(at_of(sim)).days_ahead == pytest.approx(5.0)
    strict = opened(sim)
    day(sim, strict, 20, calls=60)
    assert strict.pace.prospect(at_of(sim)).days_ahead == 0.0


def at_of(sim) -> int:
    return micros_from_time(sim.clock.at)


def test_without_a_bank_no_day_has_more_than_its_own(sim):
    """`carry_over = 0` is a strict reset."""
    router = opened(sim)
    day(sim, router, 16, calls=60)
    assert router.status().limit_usd == BUDGET


def test_an_unreadable_gamma_starts_over(sim, caplog):
    """A damaged calibration costs a warning, not a call."""
    sim.store.save_plan("test|calibration", "{broken", expected_version=0)
    router = opened(sim)
    outcome = day(sim, router, 17, calls=100)
    assert outcome.calls > 50
    assert any("calibration starts over" in r.getMessage() for r in caplog.records)


def test_gamma_of_nothing_is_nothing():
    """Without a call and without money there is no γ to tell."""
    assert Calibration().factors(0.0) == {}
    assert Calibration().factors(1.0) == {}
