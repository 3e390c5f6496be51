"""The plan in plain words: what `status` and `explain` say of λ, the forecast, γ and the bank."""

from __future__ import annotations

import json

import msgspec
import pytest
from cli_support import STORE, cli_at
from helpers.world import asked

from budgetroute.pacing import PacingPlan
from budgetroute.records import Pins, Usage
from budgetroute.units import micros_from_time

SOLVE = f'{STORE}\n[pacing]\npacer = "solve"\n'


def opened(world, budget="daily_usd = 10.0", more=SOLVE):
    return world.router(budget=budget, more=more)


def begun(world, **more):
    """A router whose ledger exists."""
    router = opened(world, **more)
    router.release(router.decide(asked()))
    return router


def keep(world, key, value):
    """Write what a router keeps under a key."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    version = world.store.load_plan(key).version
    assert world.store.save_plan(key, text, expected_version=version)


def plan_of_now(world, **more) -> PacingPlan:
    """A plan that was solved a moment ago."""
    at = micros_from_time(world.clock.at)
    seen = {"window": "day:2026-03-04", "made_at": at, "e_min": 1.0, "e_max": 100.0, "steps": 3}
    return PacingPlan(**seen | more)


def status(world, width=140):
    answer = cli_at(world, "status", width=width)
    return answer.line, cli_at(world, "status", "--json").json["plan"]


def test_before_the_first_call_there_is_no_plan(disk_world):
    """No line tells of one, and its prices are null."""
    opened(disk_world)
    line, plan = status(disk_world)
    assert "Forecast" not in line
    assert (plan["lambda_low"], plan["lambda_high"], plan["steps"]) == (None, None, 0)
    assert plan["pacer"] == "solve"


def test_two_prices_and_the_share_of_each_are_told(disk_world):
    """λ_low, λ_high and f, and what an answer is worth at either."""
    begun(disk_world)
    keep(disk_world, "test|all", plan_of_now(disk_world, low=20.0, high=40.0, share=0.37))
    line, plan = status(disk_world)
    assert "37 % of requests at λ 20 ($0.05 an answer), the others at 40 ($0.025 an answer)" in line
    assert (plan["lambda_low"], plan["lambda_high"], plan["share_low"]) == (20.0, 40.0, 0.37)
    assert (plan["steps"], plan["bound"]) == (3, None)


def test_one_price_is_told_once(disk_world):
    """A plan with a single λ has no shares."""
    begun(disk_world)
    keep(disk_world, "test|all", plan_of_now(disk_world, low=20.0, high=20.0, share=1.0))
    assert "of requests at" not in status(disk_world)[0]


@pytest.mark.parametrize(
    ("price", "more", "bound", "words"),
    [
        (200.0, "", "2·e_max", "λ stands at its upper bound: only the cheapest"),
        (0.5, "", "e_min/2", "more money than the traffic can use"),
        (30.0, "lambda_max = 30.0\n", "lambda_max", "λ stands at lambda_max"),
        (30.0, "lambda_min = 30.0\n", "lambda_min", "λ stands at lambda_min"),
    ],
)
def test_a_bound_is_named(disk_world, price, more, bound, words):
    """Where λ cannot go further, that is said."""
    begun(disk_world, more=SOLVE + more)
    keep(disk_world, "test|all", plan_of_now(disk_world, low=price, high=price))
    line, plan = status(disk_world)
    assert plan["bound"] == bound
    assert words in line


def test_the_forecast_is_the_pacers_own(disk_world):
    """The calls still to come that the next solution would go by."""
    router = opened(disk_world)
    for _ in range(30):
        router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 100)])
        disk_world.pass_time(minutes=10)
    line, plan = status(disk_world)
    seen = router.pace.prospect(micros_from_time(disk_world.clock.at))
    assert plan["calls_to_come"] == pytest.approx(seen.to_come) != 0
    assert f"about {seen.to_come:,.0f} calls still to come today" in line
    assert plan["days_ahead"] == 0.0


def test_the_step_rule_has_a_forecast_too(disk_world):
    """Without a solver the calls that the guard counts on are told."""
    router = opened(disk_world, more=f'{STORE}\n[pacing]\npacer = "dual"\n')
    router.settle(router.decide(asked()), [Usage(200, 100)])
    line, plan = status(disk_world)
    assert plan["calls_to_come"] > 0
    assert "still to come today" in line
    assert plan["gamma"] == {}


def test_gamma_is_told_where_calls_cost_other_than_predicted(disk_world):
    """By model and thinking, farthest off first; those within 2 % are left out."""
    begun(disk_world, budget="daily_usd = 1.0")
    keep(disk_world, "test|all", plan_of_now(disk_world, low=20.0, high=20.0))
    sums = {"mid|cot": (10.0, 15.0), "mid": (10.0, 10.0), "large": (10.0, 7.0)}
    keep(disk_world, "test|calibration", {"sums": sums})
    line, plan = status(disk_world)
    assert "billed over predicted cost: mid/cot ×1.50, large ×0.70" in line
    assert plan["gamma"]["mid|cot"] == pytest.approx(1.5, abs=0.01)


def test_gamma_of_one_is_told_as_such(disk_world):
    """Where every call costs what its curve says, one phrase says so."""
    begun(disk_world)
    keep(disk_world, "test|all", plan_of_now(disk_world, low=20.0, high=20.0))
    keep(disk_world, "test|calibration", {"sums": {"mid": (10.0, 10.0)}})
    assert "calls cost what the curves predict" in status(disk_world)[0]


def test_the_bank_is_told(disk_world):
    """What past days left, the most that may be kept, and how far ahead is planned."""
    router = opened(disk_world, budget="daily_usd = 1.0\ncarry_over = 2\ncalls_per_day = 5")
    router.settle(router.decide(asked()), given=400_000_000_000)
    disk_world.pass_time(days=1)
    router.settle(router.decide(asked()), [Usage(200, 100)])
    line, plan = status(disk_world)
    assert "Bank $0.60 of at most $2.00, part of today's limit" in line
    assert (plan["bank_usd"], plan["bank_limit_usd"]) == (0.6, 2.0)
    assert plan["days_ahead"] == pytest.approx(3.0)
    assert "planned together with the next 3 days" in line


def test_without_carry_over_there_is_no_bank(disk_world):
    """A strict reset keeps nothing to tell of."""
    router = opened(disk_world)
    router.settle(router.decide(asked()), [Usage(200, 100)])
    line, plan = status(disk_world)
    assert "Bank" not in line
    assert plan["bank_limit_usd"] == 0.0


def test_raised_worst_cases_are_told(disk_world):
    """What is held above the declared worst case, and for whom."""
    router = opened(disk_world)
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="large")))
    router.settle(decision, [Usage(200, 5000), Usage(200, 0)])
    line, plan = status(disk_world)
    assert "large: worst cases hold 3,248 output tokens beyond the cap" in line
    assert "answer: worst cases hold 1 more responses a call" in line
    assert plan["raised"]["beyond_tokens"] == {"large": 3248}


def test_looking_writes_no_gamma_and_no_curve(disk_world):
    """`status` reads what the pacer keeps and leaves it as it is."""
    router = opened(disk_world)
    router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 5000)])
    keys = ["test|all", "test|calibration", "test|crossings"]
    before = [disk_world.store.load_plan(key) for key in keys]
    status(disk_world)
    assert [disk_world.store.load_plan(key) for key in keys] == before


def test_explain_tells_both_prices_and_gamma(disk_world):
    """The λ that was drawn, the other one, and the γ in C."""
    router = begun(disk_world, budget="daily_usd = 1.0")
    keep(disk_world, "test|all", plan_of_now(disk_world, low=20.0, high=40.0, share=0.5))
    keep(disk_world, "test|calibration", {"sums": {"mid|cot": (10.0, 15.0)}})
    at = micros_from_time(disk_world.clock.at)
    router.pace.solver.factors = router.pace.prospect(at).factors
    disk_world.pass_time(seconds=2)
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="mid", cot=True)))
    said = cli_at(disk_world, "explain", decision.id, "--json").json
    assert said["plan"] == {"lambda_low": 20.0, "lambda_high": 40.0, "share_low": 0.5}
    assert said["gamma"] == pytest.approx(decision.chosen.gamma, abs=1e-4)
    line = cli_at(disk_world, "explain", decision.id, width=140).line
    other = 40 if said["lambda"] == 20.0 else 20
    assert f"drawn with probability 0.50, else λ {other}" in line
    assert f"C is ×{decision.chosen.gamma:.2f}" in line
    (entry,) = disk_world.store.find(decision.id)
    assert json.loads(entry.decided)["plan"] == [20.0, 40.0, 0.5]
