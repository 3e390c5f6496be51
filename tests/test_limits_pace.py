"""Paced limits: a shadow price of their own, the dearest of all holds, both budgets are spent evenly."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cli_support import STORE, cli_at
from helpers.traffic import MODELS as SIMULATED
from helpers.traffic import PROFILE, arrivals, flat
from helpers.world import World, asked
from hypothesis import given
from hypothesis import strategies as st

from budgetroute import pacing
from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded
from budgetroute.pacing import PacingPlan
from budgetroute.records import InputSize, Usage
from budgetroute.router.picks import draw_of
from budgetroute.stores import MemoryStore

ADS = {"team": "ads"}
PACED = '[limits.ads]\nmatch = { team = "ads" }\ndaily_usd = 0.05\npace = true\n'

plans = st.builds(
    PacingPlan, st.floats(0.1, 100), st.floats(0.1, 100), st.sampled_from([0.0, 0.25, 0.5, 1.0])
)


# the rule


@given(st.lists(plans, min_size=1, max_size=4), st.floats(0, 1, exclude_max=True))
def test_the_dearest_price_holds_with_its_probability(several, draw):
    """λ is the most of all plans' at this draw, its propensity the share of draws that give it."""
    price, propensity, place = pacing.dearest(several, draw)
    drawn = [max(plan.price(n / 400)[0] for plan in several) for n in range(400)]
    assert price == max(plan.price(draw)[0] for plan in several) == several[place].price(draw)[0]
    assert propensity == pytest.approx(drawn.count(price) / 400, abs=1e-9)


@given(
    st.lists(st.tuples(st.floats(0.0001, 0.1), st.floats(0, 1)), min_size=1, max_size=8),
    plans,
    st.floats(0.1, 200),
)
def test_what_a_dearer_price_skips_is_not_planned_for(points, plan, price):
    """At any price, the best of the points that are left costs no more than the plan's own mix."""
    left = pacing.capped(points, plan)
    dear, cheap = (
        max(points, key=lambda p: (p[1] - at * p[0], -p[0])) for at in (plan.low, plan.high)
    )
    share = 0.0 if plan.low == plan.high else plan.share
    mixed = share * dear[0] + (1 - share) * cheap[0]
    bought = max(left, key=lambda p: (p[1] - price * p[0], -p[0]))
    assert bought[0] <= max(mixed, cheap[0]) + 1e-12
    assert cheap in left


# the router


def spent_all(router, usd, **request):
    """Use up so much with large calls."""
    total = 0.0
    while total < usd:
        decision = router.decide(asked(prompt_type="math", **request))
        total += router.settle(decision, [Usage(200, 100)]).usd


def test_calls_of_a_paced_limit_pay_its_price(any_world):
    """Tight money of its own makes λ dear for its calls, and for no others; all say whose λ it is."""
    router = any_world.router(budget="daily_usd = 50\ncalls_per_day = 100", more=PACED)
    mine = router.decide(asked(prompt_type="math", tags=ADS))
    other = router.decide(asked(prompt_type="math"))
    assert (mine.priced_by, other.priced_by) == ("ads", "day")
    assert mine.shadow_price > other.shadow_price
    assert mine.expected_usd < other.expected_usd
    assert json.loads(router.store.find(mine.id)[0].decided)["priced_by"] == "ads"
    assert "priced_by" not in json.loads(router.store.find(other.id)[0].decided)


def test_a_rich_limit_leaves_the_price_to_the_budget(any_world):
    """With more money than it needs, its λ is the lower one and does not hold."""
    limits = PACED.replace("0.05", "50")
    router = any_world.router(budget="daily_usd = 0.05\ncalls_per_day = 1000", more=limits)
    assert router.decide(asked(prompt_type="math", tags=ADS)).priced_by == "day"


def test_each_paced_scope_keeps_its_own_plan(any_world):
    """Plans are stored by scope: a restart goes on with both."""
    budget = "daily_usd = 50\ncalls_per_day = 100"
    router = any_world.router(budget=budget, more=PACED)
    seed = next(str(n) for n in range(99) if draw_of(str(n)) > 0.99)
    first = router.decide(asked(prompt_type="math", tags=ADS, seed=seed))
    again = any_world.router(budget=budget, more=PACED)
    second = again.decide(asked(prompt_type="math", tags=ADS, seed=seed))
    assert second.shadow_price == first.shadow_price
    assert (
        again.paces.prices() == router.paces.prices() == {"ads": pytest.approx(first.shadow_price)}
    )


def test_only_paced_scopes_keep_money_free(any_world):
    """The guard is for the paced limit's own traffic; a limit that is not paced has none."""
    limits = PACED + "[limits.all]\ndaily_usd = 40\n"
    router = any_world.router(budget="daily_usd = 50\ncalls_per_day = 100", more=limits)
    request = asked(prompt_type="math", tags=ADS)
    at = 1_000_000 * int(any_world.clock.now().timestamp())
    pick = router.chooser.pick(request, 0.5, at)
    applied = router.till.applied(at, request)
    guards = {limit.name: pick.guards.get(limit.slot, 0) for limit in applied}
    assert guards["day"] > 0
    assert guards["ads"] > 0
    assert guards["all"] == 0


def test_traffic_is_counted_once_and_told_apart(any_world):
    """One arrival per call; the limit's forecast sees its calls, the budget's sees all."""
    router = any_world.router(budget="daily_usd = 50\ncalls_per_day = 100", more=PACED)
    for tags in (ADS, {}, {}):
        router.decide(asked(prompt_type="math", tags=tags))
    assert sum(router.store.arrivals("day:").values()) == 3
    any_world.pass_time(minutes=2)
    for tags in (ADS, {}):
        router.decide(asked(prompt_type="math", tags=tags))
    own = router.paces.of(asked(tags=ADS))[1]
    assert sum(own.solver.traffic._sums.values()) < sum(router.pace.solver.traffic._sums.values())


def test_the_budget_plans_without_what_a_limit_will_not_buy(world):
    """Money that calls of a paced limit cannot spend is planned for the others, at a lower λ."""
    world.clock.at = datetime(2026, 3, 4, tzinfo=UTC)
    router = world.router(
        budget="daily_usd = 2\ncalls_per_day = 400", more=PACED.replace("0.05", "0.03")
    )
    for number in range(40):
        world.pass_time(minutes=3)
        tags = ADS if number % 2 else {}
        router.settle(router.decide(asked(tags=tags)), [Usage(200, 100)])
    at = 1_000_000 * int(world.clock.now().timestamp())
    solver, view, plan = router.pace.solver, router.pace.view(None, at), router.pace.known()
    aware = solver.replanned(plan, view, router.pace.period(at), at)
    solver.dearer = dict
    blind = solver.replanned(plan, view, router.pace.period(at), at)
    assert (aware.low, aware.high, -aware.share) < (blind.low, blind.high, -blind.share)


@pytest.mark.parametrize("pacer", ["solve", "dual", "fixed"])
def test_every_pacer_can_pace_a_limit(any_world, pacer):
    """A limit is paced by the same rule as the budget."""
    more = f'[pacing]\npacer = "{pacer}"\n{PACED}'
    router = any_world.router(budget="daily_usd = 50\ncalls_per_day = 100", more=more)
    spent_all(router, 0.002, tags=ADS)
    any_world.pass_time(minutes=6)
    spent_all(router, 0.002, tags=ADS)
    assert router.limits(tags=ADS)[1].spent_usd > 0.003


def test_without_a_store_the_last_prices_hold(world):
    """With `on_store_error = "open"`, calls of a paced limit go on at its last known price."""
    from helpers.fakes import FlakyStore

    store = FlakyStore(world.store)
    more = f'{PACED}[store]\nurl = "memory:"\non_store_error = "open"\n'
    router = world.router(budget="daily_usd = 50\ncalls_per_day = 100", more=more, store=store)
    before = router.decide(asked(prompt_type="math", tags=ADS, seed="x"))
    store.down = FlakyStore.EVERYTHING
    after = router.decide(asked(prompt_type="math", tags=ADS, seed="x"))
    assert after.shadow_price == before.shadow_price
    assert after.slots == ()


def test_status_and_explain_show_the_price_of_a_limit(disk_world):
    """`status` has λ of each paced limit, `explain` says whose λ a call paid."""
    router = disk_world.router(
        budget="daily_usd = 50\ncalls_per_day = 100", more=f"{STORE}\n{PACED}"
    )
    decision = router.decide(asked(prompt_type="math", tags=ADS))
    router.settle(decision, [Usage(200, 100)])
    said = cli_at(disk_world, "status", "--json").json
    assert said["limits_shadow_price"] == router.paces.prices()
    assert "· λ " in cli_at(disk_world, "status", width=140).line
    assert "the price of limit ads" in cli_at(disk_world, "explain", decision.id, width=140).line
    assert cli_at(disk_world, "explain", decision.id, "--json").json["priced_by"] == "ads"


# whole days

DAY_S = 86_400
CALLS, PER_CALL, OWN_USD, OWN_SHARE = 1500, 0.001, 0.15, 0.3


@dataclass
class Day:
    """What a day came to, for calls of the limit (True) and others (False)."""

    quarters: dict[bool, list[float]] = field(
        default_factory=lambda: {True: [0.0] * 4, False: [0.0] * 4}
    )
    refused: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    reward: float = 0.0

    @property
    def own(self) -> float:
        """Part of the limit that was spent."""
        return sum(self.quarters[True]) / OWN_USD

    @property
    def whole(self) -> float:
        """Part of the budget that was spent."""
        return (sum(self.quarters[True]) + sum(self.quarters[False])) / (CALLS * PER_CALL)


def simulated(folder, *, pace: bool) -> Day:
    """Run two days of even traffic, a third of it under a limit with a tenth of the money."""
    clock = ManualClock(datetime(2026, 3, 2, tzinfo=UTC))
    world = World(folder, clock, MemoryStore(clock, keep_closed=200), PROFILE)
    limits = f'[limits.ads]\nmatch = {{ team = "ads" }}\ndaily_usd = {OWN_USD}\npace = {str(pace).lower()}\n'
    budget = f"daily_usd = {CALLS * PER_CALL}\ncalls_per_day = {CALLS}"
    router = world.router(budget=budget, models=SIMULATED, more=limits)
    luck, midnight = random.Random(7), clock.at
    for number in range(2):
        day = Day()
        for arrival in arrivals(luck, CALLS, flat):
            clock.at = midnight + timedelta(days=number, seconds=arrival.at)
            _call(router, arrival, day, is_own=luck.random() < OWN_SHARE)
    return day


def _call(router, arrival, day, *, is_own):
    size = InputSize(arrival.tokens, 4 * arrival.tokens)
    tags = ADS if is_own else {}
    try:
        decision = router.decide(
            asked(prompt_type=arrival.kind, size=size, tags=tags, baseline=None)
        )
    except BudgetExceeded:
        day.refused[is_own] += 1
        return
    bill = min(decision.chosen.worst, round(decision.expected_usd * arrival.noise * 1e12))
    router.settle(decision, given=bill)
    day.quarters[is_own][int(4 * arrival.at / DAY_S)] += bill / 1e12
    day.reward += decision.chosen.reward


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """The second day, with and without pace; each simulated once."""

    @cache
    def run(pace: bool) -> Day:
        return simulated(tmp_path_factory.mktemp("day"), pace=pace)

    return run


@pytest.mark.slow
def test_a_paced_limit_is_spent_evenly_and_so_is_the_budget(days):
    """Each quarter of the day has about a quarter of both, nobody is refused, little is left."""
    day = days(True)
    assert 0.95 <= day.own <= 1.0
    assert 0.97 <= day.whole <= 1.0
    for quarter in day.quarters[True]:
        assert 0.15 <= quarter / OWN_USD <= 0.35
    for own, other in zip(day.quarters[True], day.quarters[False], strict=True):
        assert 0.15 <= (own + other) / (CALLS * PER_CALL) <= 0.35
    assert day.refused == {True: 0, False: 0}


@pytest.mark.slow
def test_without_pace_the_limit_is_a_wall(days):
    """The same day without `pace`: most of it is gone in the first quarter, later calls are refused."""
    day = days(False)
    assert day.quarters[True][0] / OWN_USD > 0.6
    assert day.refused[True] > 100
    assert day.reward < days(True).reward
