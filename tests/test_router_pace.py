"""The shadow price over a store: where it starts, what it survives, and clocks that lie."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from helpers.fakes import FlakyStore, Witness
from helpers.world import MODELS, TINY, asked

from budgetroute.pacing import Group, solve
from budgetroute.records import Pins, Usage
from budgetroute.units import micros_from_time

DUAL = '[pacing]\npacer = "dual"\n'
RAW = DUAL + 'step = "raw"\ntarget = "flat"\neta = 1.0\ninitial_lambda = 5.0\nwarmup_periods = 0\n'
TICK = timedelta(minutes=5)


def call(router, tokens: int = 300, **more):
    """One whole call; return its decision."""
    decision = router.decide(asked(prompt_type="math", **more))
    router.settle(decision, [Usage(200, tokens)])
    return decision


def program(calls: float, budget: float, *, but: str = "") -> float:
    """The conservative end of the profile's linear program, from its cells and made-up prices."""
    prices = {"small": (0.1, 0.4), "mid": (1.0, 4.0), "large": (10.0, 40.0)}
    groups = []
    for name, kind in TINY.types.items():
        points = []
        for action, cell in zip(TINY.actions, TINY.cells[name], strict=True):
            if action.model == but:
                continue
            given, made = prices[action.model]
            tokens = kind.input_tokens * cell.input_factor
            points.append(((tokens * given + cell.output_mean * made) / 1e6, cell.reward))
        groups.append(Group(calls * kind.share, tuple(points)))
    return solve(groups, budget)[1]


@pytest.mark.parametrize("calls", [100, 2000, 50_000])
def test_the_first_lambda_is_the_programs_at_the_hint(any_world, calls):
    """`calls_per_day` and the profile give λ; the hour of the first call does not matter."""
    router = any_world.router(budget=f"daily_usd = 5\ncalls_per_day = {calls}", more=DUAL)
    assert call(router).shadow_price == pytest.approx(program(calls, 5.0), rel=1e-6)


def test_without_a_hint_a_thousand_calls_are_assumed(world):
    """A default is written down and used."""
    assert call(world.router(more=DUAL)).shadow_price == pytest.approx(program(1000, 10.0))


@pytest.mark.parametrize(
    "first",
    [
        {"pins": Pins(model="small", max_tokens=256)},
        {"pins": Pins(cot=True)},
        {"ceiling": 256},
        {"needs": frozenset({"tools"})},
    ],
)
def test_a_first_call_that_is_special_does_not_skew_the_start(world, first):
    """Pins, ceilings and tools of one request say nothing about the traffic to come."""
    assert call(world.router(more=DUAL), **first).shadow_price == pytest.approx(program(1000, 10.0))


def test_a_route_that_reaches_fewer_models_starts_from_those(world):
    """The program is solved over what the first route can be sent to."""
    router = world.router(more=DUAL + '[routes.answer]\ndeny = ["large"]')
    few = program(1000, 10.0, but="large")
    assert call(router).shadow_price == pytest.approx(few) != program(1000, 10.0)


def test_a_restart_goes_on(any_world):
    """Another router on the same store has the same λ, before and after the next period."""
    one = any_world.router(more=DUAL)
    for _ in range(40):
        call(one, tokens=900)
    any_world.pass_time(minutes=5)
    moved = call(one).shadow_price
    two = any_world.router(more=DUAL)
    assert call(two).shadow_price == moved
    any_world.pass_time(minutes=5)
    assert call(two).shadow_price == call(any_world.router(more=DUAL)).shadow_price != moved


def test_two_routers_step_a_period_once(any_world):
    """Whoever comes first steps; the other follows."""
    one, two = any_world.router(more=RAW), any_world.router(more=RAW)
    call(one, tokens=1000)
    call(two, tokens=1000)
    any_world.pass_time(minutes=5)
    assert call(two).shadow_price == call(one).shadow_price
    assert two.status().shadow_price == one.status().shadow_price
    kept = json.loads(any_world.store.load_plan("test|all").value)
    assert kept["steps"] == 1


def test_losing_the_race_for_a_step_takes_the_winners_plan(world):
    """A plan that another process wrote in between is used, not overwritten."""
    store = FlakyStore(world.store)
    one, two = world.router(more=RAW), world.router(more=RAW, store=store)
    call(one, tokens=1000)
    world.pass_time(minutes=5)
    calls = []

    def late(key, value, *, expected_version):
        if key == "test|all" and not calls:
            calls.append(key)
            call(one, tokens=1000)  # steps first
        return world.store.save_plan(key, value, expected_version=expected_version)

    store.save_plan = late
    assert call(two).shadow_price == one.status().shadow_price
    assert json.loads(world.store.load_plan("test|all").value)["steps"] == 1


def spend_at(world, router, when: datetime, tokens: int) -> float:
    """Set the clock, spend, and return λ."""
    world.clock.at = when
    return call(router, tokens=tokens).shadow_price


def test_a_clock_set_back_a_day_finds_its_sums_and_keeps_lambda(any_world, caplog):
    """Back and forth: each day's spend is its own, λ is never moved by the jumps."""
    router = any_world.router(more=RAW)
    today, yesterday = datetime(2026, 3, 4, 12, tzinfo=UTC), datetime(2026, 3, 3, 12, tzinfo=UTC)
    spend_at(any_world, router, yesterday, 100_000)
    first = router.status().spent_usd
    price = spend_at(any_world, router, today, 50_000)
    second = router.status().spent_usd
    assert spend_at(any_world, router, yesterday, 0) == price
    assert "set back" in caplog.text
    assert router.status().spent_usd == pytest.approx(first, abs=0.0021)
    returned = spend_at(any_world, router, today, 0)
    assert returned == pytest.approx(price, abs=0.05)
    assert router.status().spent_usd == pytest.approx(second, abs=0.0021)
    any_world.clock.at = today + TICK
    assert router.status().shadow_price == pytest.approx(price, abs=0.1)


def test_a_clock_a_year_ahead_and_back(any_world):
    """A leap into the future starts an empty day there; coming back, today's money is still spent."""
    router = any_world.router(budget="daily_usd = 1.0", more=RAW)
    today = datetime(2026, 3, 4, 12, tzinfo=UTC)
    spend_at(any_world, router, today, 10_000)
    spent, price = router.status().spent_usd, router.status().shadow_price
    any_world.clock.at = today.replace(year=2027)
    ahead = router.status()
    assert (ahead.spent_usd, ahead.window) == (0.0, "day:2027-03-04")
    price = ahead.shadow_price
    call(router, tokens=10)
    any_world.clock.at = today + TICK
    back = router.status()
    assert back.spent_usd == spent
    assert back.shadow_price == pytest.approx(price)
    call(router, tokens=10)
    any_world.clock.at = today + 2 * TICK
    assert router.status().shadow_price < price + 1.0


def test_a_clock_set_back_an_hour_goes_on_pacing(world):
    """Within a day too: the next period is stepped after five minutes, not after an hour."""
    router = world.router(more=RAW)
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    spend_at(world, router, noon, 10_000)
    world.clock.at = noon - timedelta(hours=1)
    price = call(router, tokens=100_000).shadow_price
    world.clock.at = noon - timedelta(hours=1) + TICK
    assert call(router).shadow_price != price


def test_processes_that_disagree_by_seconds_do_not_step_twice(world):
    """A process whose clock reads just before midnight takes the plan made just after it."""
    router = world.router(more=RAW)
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    spend_at(world, router, midnight - timedelta(minutes=1), 50_000)
    after = spend_at(world, router, midnight + timedelta(seconds=1), 0)
    late = world.router(more=RAW)
    assert spend_at(world, late, midnight - timedelta(seconds=1), 0) == after
    assert spend_at(world, router, midnight + timedelta(seconds=2), 0) == after
    assert json.loads(world.store.load_plan("test|all").value)["window"] == "day:2026-03-05"


def test_an_idle_week_moves_nothing_but_the_last_spend(world):
    """After days without a call there is one step, for the period in which money was spent."""
    witness = Witness()
    router = world.router(more=RAW, observers=[witness])
    call(router, tokens=30_000)
    world.pass_time(days=7)
    call(router)
    assert len(witness.steps) == 2
    share, spent = 10.0 * 300 / 86_400, (200 * 10 + 30_000 * 40) / 1e6
    assert witness.steps[1]["to"] == pytest.approx(5.0 + spent - share)
    kept = json.loads(world.store.load_plan("test|all").value)
    assert kept["steps"] == 1


def test_new_prices_move_the_bounds_of_a_kept_plan(world):
    """Prices fall to a thousandth: λ may rise beyond what the old curves allowed."""
    router = world.router(more=DUAL)
    call(router)
    before = json.loads(world.store.load_plan("test|all").value)["e_max"]
    cheap = MODELS
    for old, new in (("0.1,", "0.0001,"), ("0.4 ", "0.0004 "), ("1.0,", "0.001,"),
                     ("4.0 ", "0.004 "), ("10.0,", "0.01,"), ("40.0 ", "0.04 ")):  # fmt: skip
        cheap = cheap.replace(f" {old}", f" {new}")
    again = world.router(models=cheap, more=DUAL + "lambda_min = 1e6\nlambda_max = 1e7\n")
    assert call(again).shadow_price == 1e6
    world.pass_time(minutes=5)
    call(world.router(models=cheap, more=DUAL))
    world.pass_time(minutes=5)
    call(world.router(models=cheap, more=DUAL))
    assert json.loads(world.store.load_plan("test|all").value)["e_max"] == pytest.approx(
        1000 * before, rel=1e-6
    )


def test_fixed_follows_its_config_and_ignores_spend(world):
    """A new `initial_lambda` holds from the first call on."""
    fixed = '[pacing]\npacer = "fixed"\ninitial_lambda = {}\n'
    router = world.router(more=fixed.format(7.0))
    for _ in range(5):
        assert call(router, tokens=1000).shadow_price == 7.0
        world.pass_time(minutes=5)
    assert call(world.router(more=fixed.format(0.5))).shadow_price == 0.5


def test_wider_windows_do_not_pass_for_days(world):
    """With weekly and monthly caps the calls of the last *day* are the expectation."""
    budget = "daily_usd = 10\nweekly_usd = 50\nmonthly_usd = 150"
    router = world.router(budget=budget, more=DUAL)
    for day in range(3):
        world.clock.at = datetime(2026, 3, 2 + day, 12, tzinfo=UTC)
        for _ in range(10):
            call(router)
    world.clock.at = datetime(2026, 3, 5, tzinfo=UTC)
    at = micros_from_time(world.clock.at)
    assert router.pace.calls_to_come(at) == pytest.approx(10, rel=0.3)


def test_yesterdays_calls_start_the_next_app_day(world):
    """Without a hint a lost plan starts from the traffic of the last full day."""
    router = world.router(budget="daily_usd = 0.5", more=DUAL)
    for _ in range(100):
        call(router, tokens=10)
    world.pass_time(hours=12)
    version = world.store.load_plan("test|all").version
    world.store.save_plan("test|all", "lost", expected_version=version)
    again = world.router(budget="daily_usd = 0.5", more=DUAL)
    assert call(again).shadow_price == pytest.approx(program(100, 0.5), rel=1e-6)


def test_a_leap_over_a_whole_window_is_told(world, caplog):
    """Where more than a day lies between two calls, the log says so; λ goes on from where it was."""
    router = world.router()
    before = router.pace.current(micros_from_time(world.clock.at))
    world.pass_time(days=400)
    with caplog.at_level("INFO", logger="budgetroute.pace"):
        after = router.pace.current(micros_from_time(world.clock.at))
    assert "or the clock leapt" in caplog.text
    assert after.high == pytest.approx(before.high)
