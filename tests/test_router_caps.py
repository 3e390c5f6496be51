"""Caps: the day, the week, the month and runs hold before the call; what fits is found."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers.world import World, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute.clock import ManualClock
from budgetroute.context import current_runs, run
from budgetroute.errors import BudgetExceeded
from budgetroute.records import InputSize, Pins, Usage
from budgetroute.stores import MemoryStore

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
LARGE = {"prompt_type": "math", "pins": Pins(model="large")}


def limited(**more):
    """A request inside the runs that are open now."""
    runs = tuple((scope.id, scope.limit) for scope in current_runs())
    return asked(prompt_type="math", run_limits=runs, **more)


def test_a_refused_hold_goes_to_the_best_candidate_that_fits(any_world):
    """At λ = 0 the best is wanted; with room for less, the best that fits is taken and said."""
    router = any_world.router(budget="daily_usd = 0.02", more=BEST)
    decision = router.decide(asked(prompt_type="math"))
    assert decision.action.label == "mid/1024/cot"
    assert decision.stepped_down > 0
    assert decision.runner_up.action.label == "large/1024"


def test_exceeded_says_everything(any_world):
    """Scope, spent, held, limit, what was needed and when it resets are fields of the error."""
    router = any_world.router(
        budget='daily_usd = 0.046\ntimezone = "Europe/Paris"\nreset_hour = 4', more=BEST
    )
    first = router.decide(asked(**LARGE))
    bill = router.settle(first, [Usage(200, 1024)]).usd
    second = router.decide(asked(prompt_type="math", pins=Pins(model="small")))
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked(**LARGE))
    error = caught.value
    assert error.scope == "day"
    assert error.spent_usd == pytest.approx(bill)
    assert error.held_usd == pytest.approx(second.worst_usd)
    assert error.limit_usd == 0.046
    assert error.needed_usd == pytest.approx(first.worst_usd)
    assert error.resets_at == datetime(2026, 3, 5, 4, tzinfo=ZoneInfo("Europe/Paris"))
    assert router.status().calls == 2


def test_a_budget_of_nothing_refuses_everything(any_world):
    """daily_usd = 0 is a switch, not a division by zero."""
    router = any_world.router(budget="daily_usd = 0")
    with pytest.raises(BudgetExceeded, match=r"of \$0\.0"):
        router.decide(asked(prompt_type="math"))
    assert router.status().calls == 0
    assert router.status().shadow_price > 0


def test_the_next_day_begins_with_the_whole_budget(any_world):
    """What was spent yesterday does not bind today; yesterday's sums stay."""
    router = any_world.router(budget="daily_usd = 0.05", more=BEST)
    router.settle(router.decide(asked(**LARGE)), [Usage(200, 1024)])
    with pytest.raises(BudgetExceeded):
        router.decide(asked(**LARGE))
    any_world.pass_time(hours=12)
    assert router.decide(asked(**LARGE)).model == "large"
    past = router.store.history("test|all")
    assert past["day:2026-03-04"].settled > 0
    assert past["day:2026-03-05"].settled == 0


def test_a_call_belongs_to_the_day_of_its_reservation(any_world):
    """Sent before midnight, billed after it: yesterday's money."""
    router = any_world.router()
    any_world.pass_time(hours=11, minutes=59)
    decision = router.decide(asked(**LARGE))
    any_world.pass_time(minutes=2)
    router.settle(decision, [Usage(200, 100)])
    past = router.store.history("test|all")
    assert past["day:2026-03-04"].settled == 6 * 10**9
    assert router.status().spent_usd == 0.0


@pytest.mark.parametrize(
    ("key", "scope", "resets"),
    [
        ("weekly_usd", "week", datetime(2026, 3, 9, tzinfo=UTC)),
        ("monthly_usd", "month", datetime(2026, 4, 1, tzinfo=UTC)),
    ],
)
def test_wider_caps_hold_over_days(any_world, key, scope, resets):
    """A day with room is refused when its week or month is used up, and that is named."""
    router = any_world.router(budget=f"daily_usd = 10\n{key} = 0.1", more=BEST)
    for _ in range(2):
        router.settle(router.decide(asked(**LARGE)), [Usage(200, 1024)])
        any_world.pass_time(days=1)
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked(**LARGE))
    assert (caught.value.scope, caught.value.resets_at) == (scope, resets)
    any_world.clock.at = resets
    assert router.decide(asked(**LARGE)).model == "large"


def test_runs_cap_what_happens_inside_them_and_nest(any_world):
    """The tightest binds; outside, the run's money is only the day's."""
    router = any_world.router(more=BEST)
    with run(usd=0.06, id="outer"):
        assert router.decide(limited()).model == "large"
        with run(usd=0.02, id="inner"):
            assert router.decide(limited()).action.label == "mid/1024/cot"
            with run(usd=0.0, id="none"), pytest.raises(BudgetExceeded) as caught:
                router.decide(limited())
            assert (caught.value.scope, caught.value.resets_at) == ("run:none", None)
        with pytest.raises(BudgetExceeded) as caught:
            router.decide(limited(pins=Pins(model="large")))
        assert caught.value.scope == "run:outer"
    assert router.decide(limited()).model == "large"


def test_a_run_goes_on_under_its_name(any_world):
    """The same id in a later block, or in another process, is the same budget."""
    router = any_world.router(more=BEST)
    with run(usd=0.06, id="job-7"):
        router.settle(router.decide(limited()), [Usage(200, 1024)])
    any_world.pass_time(days=3)
    with run(usd=0.06, id="job-7"):
        assert router.decide(limited()).model != "large"


def test_degrade_serves_the_cheapest_up_to_the_hard_cap(any_world):
    """Beyond daily_usd only the cheapest action is served; at hard_usd nothing is."""
    budget = 'daily_usd = 0.05\non_exhausted = "degrade"\nhard_usd = 0.052'
    router = any_world.router(budget=budget, more=BEST)
    router.settle(router.decide(asked(**LARGE)), [Usage(200, 1200)])
    served = []

    def serve():
        decision = router.decide(asked(prompt_type="math"))
        served.append(decision.action.label)
        router.settle(decision, [Usage(200, 256)])

    with pytest.raises(BudgetExceeded) as caught:
        deque(iter(serve, "never"))
    assert set(served) == {"small/256"}
    assert len(served) > 5
    assert caught.value.limit_usd == 0.052
    assert 0.0519 < router.status().spent_usd <= 0.052


def test_degrade_bends_no_other_cap(any_world):
    """hard_usd is the day's; a run's cap still holds."""
    budget = 'daily_usd = 0.0001\non_exhausted = "degrade"\nhard_usd = 1.0'
    router = any_world.router(budget=budget)
    assert router.decide(limited()).action.label == "small/256"
    with run(usd=0.0001), pytest.raises(BudgetExceeded, match="run:"):
        router.decide(limited())


def test_the_guard_keeps_the_cheapest_traffic_free(world):
    """With most of the budget spent, a dear action leaves room for the rest of the day's calls."""
    budget = "daily_usd = 0.5\ncalls_per_day = 4000"
    world.clock.at = datetime(2026, 3, 4, tzinfo=UTC)
    free = world.router(budget="daily_usd = 0.5", more=BEST)
    for _ in range(6):
        free.settle(free.decide(asked(**LARGE)), [Usage(200, 1000)])
    guarded = world.router(budget=budget, more=BEST)
    assert guarded.decide(asked(prompt_type="math")).action.label == "small/256"
    world.clock.at = datetime(2026, 3, 4, 23, 59, tzinfo=UTC)
    assert guarded.decide(asked(prompt_type="math")).model == "large"


def test_the_guard_never_blocks_the_cheapest(world):
    """However much traffic is expected, the cheapest action is served while the limit holds."""
    router = world.router(budget="daily_usd = 0.01\ncalls_per_day = 1000000", more=BEST)
    assert router.decide(asked(prompt_type="math")).action.label == "small/256"


@settings(max_examples=30)
@given(
    limit=st.floats(0.001, 0.3),
    calls=st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 1100)), max_size=30),
)
def test_the_cap_is_never_crossed(limit, calls, tmp_path_factory):
    """settled + held ≤ limit after every operation, for bills within what was held."""
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    world = World(tmp_path_factory.mktemp("w"), clock, MemoryStore(clock))
    router = world.router(budget=f"daily_usd = {limit:.6f}", more=BEST)
    flying = []
    for tokens, made in calls:
        clock.at += timedelta(seconds=30)
        size = InputSize(tokens, 4 * tokens)
        try:
            flying.append((router.decide(asked(prompt_type="math", size=size)), tokens, made))
        except BudgetExceeded:
            if flying:
                decision, given_, out = flying.pop(0)
                router.settle(decision, [Usage(given_, min(out, decision.max_tokens))])
        status = router.status()
        assert status.spent_usd + status.held_usd <= status.limit_usd + 1e-12
        assert status.remaining_usd == pytest.approx(
            status.limit_usd - status.spent_usd - status.held_usd, abs=1e-12
        )
