"""Limits on tags, users, routes and runs: who counts where, what binds, what degrades and comes back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers import spending
from helpers.fakes import Witness
from helpers.spending import SMALL
from helpers.world import World, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute.clock import ManualClock
from budgetroute.context import run
from budgetroute.errors import BudgetExceeded, ConfigError
from budgetroute.records import Pins, Usage
from budgetroute.stores import MemoryStore
from budgetroute.units import micros_from_time

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
LARGE = {"prompt_type": "math", "pins": Pins(model="large")}
PAID = 0.01  # dollars that `spend` bills


def limited(world, limits, *, budget="daily_usd = 10.0", **more):
    """A router at λ = 0 with these tables of limits."""
    return world.router(budget=budget, more=f"{BEST}{limits}", **more)


def spend(router, usd=PAID, **request):
    """Make one call that is booked at so much; return its decision."""
    return spending.spend(router, usd, **request)


def standing(router, name, **call):
    """Return where a limit stands for such a call."""
    return next(limit for limit in router.limits(**call) if limit.name == name)


# who counts where


def test_a_limit_per_user_is_one_for_each(any_world):
    """One user's spending leaves another's limit alone; both count in the day."""
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.02\n')
    for _ in range(2):
        spend(router, tags={"user": "ann"})
    with pytest.raises(BudgetExceeded) as caught:
        spend(router, tags={"user": "ann"})
    assert (caught.value.scope, caught.value.window) == ("users", "day")
    spend(router, tags={"user": "ben"})
    assert standing(router, "users", tags={"user": "ann"}).spent_usd == pytest.approx(2 * PAID)
    assert standing(router, "users", tags={"user": "ben"}).spent_usd == pytest.approx(PAID)
    assert router.status().spent_usd == pytest.approx(3 * PAID)


def test_calls_without_the_tag_do_not_count(any_world):
    """Nobody's limit is everybody's only where the budget says so."""
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.0\n')
    assert [limit.name for limit in spend(router).limits] == ["day"]
    with pytest.raises(BudgetExceeded):
        spend(router, tags={"user": ""})


def test_match_is_for_all_of_its_tags(any_world):
    """Every tag must have one of the values; `route` is the route's name."""
    limits = '[limits.ads]\nmatch = { route = "answer", team = ["ads", "search"] }\ndaily_usd = 1\n'
    router = limited(any_world, limits)

    def counts(**call):
        return "ads" in [limit.name for limit in router.limits(**call)]

    assert counts(route="answer", tags={"team": "ads", "user": "ann"})
    assert counts(route="answer", tags={"team": "search"})
    assert not counts(route="answer", tags={"team": "hr"})
    assert not counts(route="answer")
    assert not counts(route="other", tags={"team": "ads"})


def test_a_tag_named_route_does_not_pose_as_the_route(world):
    """What a caller can set as a tag does not move calls to another route's limit."""
    router = limited(world, '[limits.r]\nmatch = { route = "cheap" }\ndaily_usd = 0.0\n')
    assert spend(router, tags={"route": "cheap"}).tightest == "day"


def test_per_and_match_together(any_world):
    """Users of one tier have a limit each, others another."""
    limits = (
        '[limits.free]\nper = "user"\nmatch = { tier = "free" }\ndaily_usd = 0.01\n'
        '[limits.paid]\nper = "user"\nmatch = { tier = "paid" }\ndaily_usd = 0.03\n'
    )
    router = limited(any_world, limits)
    for tier, most in (("free", 1), ("paid", 3)):
        for _ in range(most):
            spend(router, tags={"user": "ann", "tier": tier})
        with pytest.raises(BudgetExceeded) as caught:
            spend(router, tags={"user": "ann", "tier": tier})
        assert caught.value.scope == tier


def test_per_route(any_world):
    """Each route has its own."""
    router = limited(any_world, '[limits.each]\nper = "route"\ndaily_usd = 0.01\n')
    spend(router, route="one")
    spend(router, route="two")
    with pytest.raises(BudgetExceeded, match="'each' "):
        spend(router, route="one")


def test_per_run_holds_in_every_enclosing_run(any_world):
    """No run costs more than config says, whatever cap the code gave it."""
    router = limited(any_world, '[limits.runs]\nper = "run"\ntotal_usd = 0.02\n')

    def call():
        spend(router, run_limits=(("outer", 10**12), ("inner", 10**12)))

    call()
    spend(router, run_limits=(("outer", 10**12),))
    with pytest.raises(BudgetExceeded) as caught:
        call()
    assert (caught.value.scope, caught.value.window, caught.value.resets_at) == (
        "runs", "total", None,
    )  # fmt: skip
    assert "never resets" in str(caught.value)
    spend(router, run_limits=(("inner", 10**12),))


def test_a_limit_without_match_is_for_all_calls(any_world):
    """A project's whole money, over days, beside the day's."""
    router = limited(any_world, "[limits.project]\ntotal_usd = 0.02\n")
    for _ in range(2):
        spend(router)
        any_world.pass_time(days=40)
    router.status()  # drops what is old
    with pytest.raises(BudgetExceeded, match="project"):
        spend(router)


def test_every_window_of_a_limit_counts(any_world):
    """Day, week, month and total hold at once, each with its own reset."""
    limits = (
        '[limits.users]\nper = "user"\ndaily_usd = 0.02\nweekly_usd = 0.03\n'
        "monthly_usd = 0.04\ntotal_usd = 0.05\n"
    )
    zone = ZoneInfo("Europe/Paris")
    budget = 'daily_usd = 10\ntimezone = "Europe/Paris"\nreset_hour = 4'
    router = limited(any_world, limits, budget=budget)
    refusals = []

    def until_refused():
        try:
            while True:
                spend(router, tags={"user": "ann"})
        except BudgetExceeded as error:
            refusals.append((error.window, error.resets_at))

    for day in (4, 5, 9, 31):  # Wednesday, Thursday, Monday, the last of March
        any_world.clock.at = datetime(2026, 3, day, 12, tzinfo=UTC)
        until_refused()
    any_world.clock.at = datetime(2026, 4, 1, 12, tzinfo=UTC)
    until_refused()
    assert refusals == [
        ("day", datetime(2026, 3, 5, 4, tzinfo=zone)),
        ("week", datetime(2026, 3, 9, 4, tzinfo=zone)),
        ("month", datetime(2026, 4, 1, 4, tzinfo=zone)),
        ("month", datetime(2026, 4, 1, 4, tzinfo=zone)),
        ("total", None),
    ]


def test_weeks_begin_where_config_says(any_world):
    """From Sunday: Saturday's money is gone, Sunday's is new."""
    budget = 'daily_usd = 10\nweekly_usd = 0.01\nweek_start = "sunday"'
    router = limited(any_world, "", budget=budget)
    any_world.clock.at = datetime(2026, 3, 7, 12, tzinfo=UTC)  # a Saturday
    spend(router)
    with pytest.raises(BudgetExceeded) as caught:
        spend(router)
    assert caught.value.resets_at == datetime(2026, 3, 8, tzinfo=UTC)
    any_world.pass_time(days=1)
    spend(router)
    any_world.pass_time(days=1)
    with pytest.raises(BudgetExceeded):
        spend(router)


def test_renaming_a_limit_keeps_its_sums(any_world):
    """What is counted belongs to what is selected, not to the name; the order of a list is no matter."""
    old = limited(any_world, '[limits.a]\nmatch = { team = ["x", "y"] }\ndaily_usd = 0.02\n')
    spend(old, tags={"team": "x"})
    new = limited(any_world, '[limits.b]\nmatch = { team = ["y", "x"] }\ndaily_usd = 0.02\n')
    assert standing(new, "b", tags={"team": "y"}).spent_usd == pytest.approx(PAID)


def test_the_ledger_names_nobody(disk_world):
    """No file of the store holds a tag's value, not as text; the key is not in the ledger."""
    limits = '[limits.users]\nper = "user"\nmatch = { org = "acme-secret" }\ndaily_usd = 1.0\nwarn = 0.001\n'
    router = limited(disk_world, limits)
    tags = {"user": "ann.surname@example.org", "org": "acme-secret"}
    decision = spend(router, tags=tags)
    router.status()
    key = disk_world.store.scope_key()
    disk_world.store.close()
    for file in (disk_world.folder / "ledger").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert b"ann.surname" not in content, file
        assert b"acme-secret" not in content, file
        assert key.hex().encode() not in content or file.name == "scopes.key"
    assert "ann.surname" not in repr(decision)


def test_values_that_look_alike_do_not_meet(world):
    """Separators, case and unpaired surrogates in a value make other limits."""
    router = limited(world, '[limits.users]\nper = "user"\ndaily_usd = 1.0\n')
    users = ["a", "A", "a ", "a#b", "a|b", "", "\ud800", "ä", "a\u0308"]
    for user in users:
        spend(router, tags={"user": user})
    assert {standing(router, "users", tags={"user": user}).spent_usd for user in users} == {PAID}


# what binds


def test_the_tightest_binds_and_is_named(any_world):
    """The best action does not fit a user's limit: a lesser one that does is taken, and why is said."""
    witness = Witness()
    limits = '[limits.users]\nper = "user"\ndaily_usd = 0.02\n[limits.team]\nmatch = { team = "x" }\ndaily_usd = 5\n'
    router = limited(any_world, limits, observers=[witness])
    decision = router.decide(asked(prompt_type="math", tags={"user": "ann", "team": "x"}))
    assert decision.action.label == "mid/1024/cot"
    assert (decision.bound_by, decision.tightest) == ("users", "users")
    assert decision.left == pytest.approx(0.02e12 - decision.chosen.worst)
    assert [limit.name for limit in decision.limits] == ["day", "users", "team"]
    (entry,) = router.store.find(decision.id)
    bound = json.loads(entry.decided)["bound"]
    assert (bound["limit"], bound["window"], bound["guard"]) == ("users", "day", False)
    assert bound["left"] == pytest.approx(0.02)
    assert bound["needed"] > 0.02


def test_money_kept_free_is_told_apart(world):
    """Where the guard of the day is in the way, it is not called exhausted."""
    world.clock.at = datetime(2026, 3, 4, tzinfo=UTC)
    free = limited(world, "", budget="daily_usd = 0.5")
    for _ in range(6):
        free.settle(free.decide(asked(**LARGE)), [Usage(200, 1000)])
    router = limited(world, "", budget="daily_usd = 0.5\ncalls_per_day = 4000")
    decision = router.decide(asked(prompt_type="math"))
    (entry,) = router.store.find(decision.id)
    assert json.loads(entry.decided)["bound"]["guard"] is True
    assert decision.bound_by == "day"


def test_a_refusal_is_told_to_observers_and_names_the_limit(any_world):
    """Observers that ask to know get the error that the caller gets."""

    refusals = []

    class Told(Witness):
        def refused(self, route, error):
            refusals.append((route, error))

    told = Told()
    router = limited(
        any_world, '[limits.r]\nmatch = { route = "answer" }\ndaily_usd = 0\n', observers=[told]
    )
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked())
    assert refusals == [("answer", caught.value)]
    assert caught.value.scope == "r"


amounts = st.floats(0.0, 0.06).map(lambda usd: f"{usd:.4f}")
tables = st.lists(
    st.tuples(
        st.sampled_from(['per = "user"', 'match = { team = "x" }', "", 'per = "route"']),
        st.sampled_from(["daily_usd", "weekly_usd", "monthly_usd", "total_usd"]),
        amounts,
    ),
    max_size=4,
)
calls = st.lists(
    st.tuples(st.sampled_from(["ann", "ben"]), st.sampled_from(["x", "y"]), st.integers(0, 1024)),
    max_size=12,
)


def written(found):
    return "".join(
        f"[limits.l{n}]\n{who}\n{key} = {usd}\n" for n, (who, key, usd) in enumerate(found)
    )


def served(folder, found, made):
    """Return what was held by each call of a fresh ledger, None where it was refused."""
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    router = limited(World(folder, clock, MemoryStore(clock)), written(found))
    held = []
    for user, team, out in made:
        try:
            decision = router.decide(asked(prompt_type="math", tags={"user": user, "team": team}))
        except BudgetExceeded:
            held.append(None)
            continue
        standings = router.limits(route="answer", tags={"user": user, "team": team})
        for limit in standings:
            assert limit.spent_usd + limit.held_usd <= limit.limit_usd + 1e-12, limit
        least = min(standings, key=lambda limit: limit.remaining_usd)
        assert decision.left == pytest.approx(least.remaining_usd * 1e12, abs=2)
        router.settle(decision, [Usage(200, min(out, decision.max_tokens))])
        held.append(decision.chosen.worst)
    return held


@settings(max_examples=60)
@given(tables, calls)
def test_every_limit_holds_and_the_least_left_is_named(tmp_path_factory, found, made):
    """After every reservation no limit that it counts in is crossed."""
    served(tmp_path_factory.mktemp("w"), found, made)


@settings(max_examples=60)
@given(tables, st.tuples(*[st.just(s) for s in ('per = "user"', "daily_usd")], amounts), calls)
def test_one_more_limit_never_allows_a_dearer_call(tmp_path_factory, found, one_more, made):
    """Of the same past, what is held with a limit more is never more than without it."""
    folder = tmp_path_factory.mktemp("w")
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    store = MemoryStore(clock)
    world = World(folder, clock, store)
    wide, narrow = (limited(world, written(tables)) for tables in (found, [*found, one_more]))

    def held(router, tags):
        try:
            decision = router.decide(asked(prompt_type="math", tags=tags))
        except BudgetExceeded:
            return -1, None
        return decision.chosen.worst, decision

    for user, team, out in made:
        tags = {"user": user, "team": team}
        less, decision = held(narrow, tags)
        if decision is not None:
            narrow.release(decision)
        more, decision = held(wide, tags)
        assert less <= more
        if decision is not None:
            wide.release(decision)
        _, decision = held(narrow, tags)
        if decision is not None:
            narrow.settle(decision, [Usage(200, min(out, decision.max_tokens))])


# soft


def test_a_soft_limit_never_refuses(any_world):
    """Beyond it calls go on with the best action, and status says by how much it is over."""
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.01\nsoft = true\n')
    for _ in range(3):
        spend(router, tags={"user": "ann"})
    decision = router.decide(asked(prompt_type="math", tags={"user": "ann"}))
    assert (decision.model, decision.bound_by, decision.tightest) == ("large", "", "day")
    limit = standing(router, "users", tags={"user": "ann"})
    assert (limit.is_soft, limit.hard_usd, limit.remaining_usd) == (True, None, 0.0)
    assert limit.over_usd == pytest.approx(0.02)


# degrade and the way back


def test_a_limit_degrades_and_comes_back(any_world):
    """Beyond the limit the cheapest action up to hard_usd, then refusals; the next day all is well."""
    limits = '[limits.users]\nper = "user"\ndaily_usd = 0.02\non_exhausted = "degrade"\nhard_usd = 0.03\n'
    router = limited(any_world, limits)
    tags = {"user": "ann"}
    spend(router, 0.02, tags=tags)
    degraded = router.decide(asked(prompt_type="math", tags=tags))
    assert (degraded.action.label, degraded.degraded, degraded.bound_by) == (
        "small/256",
        True,
        "users",
    )
    assert json.loads(router.store.find(degraded.id)[0].decided)["degraded"] is True
    router.settle(degraded, given=10**10)
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked(prompt_type="math", tags=tags))
    assert (caught.value.scope, caught.value.limit_usd) == ("users", 0.03)
    assert not router.decide(asked(prompt_type="math", tags={"user": "ben"})).degraded
    any_world.pass_time(days=1)
    back = router.decide(asked(prompt_type="math", tags=tags))
    assert (back.degraded, back.model) == (False, "mid")


def test_money_that_comes_back_ends_degraded_service(any_world):
    """A hold that was given back, and a late bill below its estimate, free money at once."""
    budget = 'daily_usd = 0.05\non_exhausted = "degrade"\nhard_usd = 0.06'
    router = limited(any_world, "", budget=budget)
    spend(router, 0.008)
    held = router.decide(asked(**LARGE))
    assert router.decide(asked(prompt_type="math")).degraded
    router.release(held)
    again = router.decide(asked(**LARGE))
    router.settle(again)  # usage unknown: its worst case stays taken
    assert router.decide(asked(prompt_type="math")).degraded
    router.settle(again, [Usage(200, 10)])
    decision = router.decide(asked(prompt_type="math"))
    assert (decision.degraded, decision.model) == (False, "mid")


def test_a_soft_limit_may_degrade_without_end(any_world):
    """`soft` with `degrade`: only the cheapest beyond the limit, and never a refusal."""
    limits = (
        '[limits.users]\nper = "user"\ndaily_usd = 0.01\nsoft = true\non_exhausted = "degrade"\n'
    )
    router = limited(any_world, limits)
    for _ in range(5):
        spend(router, tags={"user": "ann"})
    decision = router.decide(asked(prompt_type="math", tags={"user": "ann"}))
    assert (decision.action.label, decision.degraded) == ("small/256", True)


def test_a_retry_of_degraded_service_may_use_the_same_money(any_world):
    """A second attempt of a call beyond the limit is held up to hard_usd like the first."""
    budget = 'daily_usd = 0.001\non_exhausted = "degrade"\nhard_usd = 1.0'
    router = limited(any_world, "", budget=budget)
    spend(router, 0.001)
    request = asked(prompt_type="math")
    decision = router.decide(request)
    router.settle(decision)
    again = router.again(decision, request, attempt=2)
    assert [limit.name for limit in again.limits] == ["day"]
    router.settle(again, [Usage(200, 10)], attempt=2)


def test_a_retry_names_the_limit_that_refuses(any_world):
    """An attempt that does not fit raises like a decision does."""
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.0005\n')
    request = asked(**SMALL, tags={"user": "ann"})
    decision = router.decide(request)
    router.settle(decision, given=499_000_000)
    with pytest.raises(BudgetExceeded) as caught:
        router.again(decision, request, attempt=2)
    assert caught.value.scope == "users"


# how it is kept


def test_a_million_users_leave_memory_flat(world, monkeypatch):
    """What the router remembers of users is bounded; here by 4,096 keys and 10,000 warnings."""
    router = limited(world, '[limits.users]\nper = "user"\ndaily_usd = 1\nwarn = 0.5\n')
    at = micros_from_time(world.clock.now())
    for number in range(12_000):
        router.till.applied(at, asked(tags={"user": f"u{number}"}))
    assert router.till.scopes._value_key.cache_info().currsize == 4096
    assert len(router.till.scopes._periods) <= 3


def test_a_huge_value_is_not_remembered(world):
    """A tag of a megabyte counts like any other and stays in no cache."""
    router = limited(world, '[limits.users]\nper = "user"\ndaily_usd = 1\n')
    spend(router, tags={"user": "x" * 2**20})
    assert router.till.scopes._value_key.cache_info().currsize == 0
    assert standing(router, "users", tags={"user": "x" * 2**20}).spent_usd == PAID


def test_a_tag_asked_for_is_a_string(world):
    """`limits(tags=…)` says so, as `tags()` does."""
    with pytest.raises(ConfigError, match="write a string"):
        limited(world, "").limits(tags={"user": 7})


def test_old_days_of_users_are_dropped(any_world):
    """35 days after they ended, sums of single users are gone; the budget's and totals stay."""
    limits = '[limits.users]\nper = "user"\ndaily_usd = 1\ntotal_usd = 0.01\n'
    router = limited(any_world, limits)
    scope = spend(router, tags={"user": "ann"}).slots[1].scope
    for _ in range(80):
        any_world.pass_time(hours=12)
        router.store.sweep(micros_from_time(any_world.clock.now()))
    assert sorted(router.store.history(scope)) == ["total"]
    assert "day:2026-03-04" in router.store.history("test|all")
    with pytest.raises(BudgetExceeded):
        spend(router, tags={"user": "ann"})


def test_limits_follow_the_day_across_threads_and_midnight(world):
    """Right after midnight a limit counts in the new day, whoever computed it before."""
    router = limited(world, '[limits.team]\nmatch = { team = "x" }\ndaily_usd = 1\n')
    call = asked(tags={"team": "x"})
    noon = micros_from_time(world.clock.now())
    after = noon + 12 * 3_600_000_000
    for at, day in ((noon, "04"), (after, "05"), (noon, "04"), (after - 1, "04"), (after, "05")):
        periods = {limit.slot.period for limit in router.till.applied(at, call)}
        assert periods == {f"day:2026-03-{day}"}


def test_a_run_inside_limits(any_world):
    """Runs and limits hold together; the tighter of them binds."""
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.02\n')
    with run(usd=0.05, id="job") as scope:
        request = {"tags": {"user": "ann"}, "run_limits": ((scope.id, scope.limit),)}
        assert spend(router, **request).tightest == "users"
    with pytest.raises(BudgetExceeded, match="users"):
        router.decide(asked(**LARGE, **request))
    other = {"tags": {"user": "ben"}, "run_limits": (("job", 10**10),)}
    with pytest.raises(BudgetExceeded, match="run:job"):
        spend(router, **other)


def test_days_of_23_and_25_hours(any_world):
    """Per user and per day, in Paris: the limit is new when the local day is, and only then."""
    budget = 'daily_usd = 10\ntimezone = "Europe/Paris"'
    router = limited(any_world, '[limits.users]\nper = "user"\ndaily_usd = 0.01\n', budget=budget)
    for begin, hours in (
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 23),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
    ):
        any_world.clock.at = begin
        spend(router, tags={"user": "ann"})
        any_world.clock.at = begin + timedelta(hours=hours, microseconds=-1)
        with pytest.raises(BudgetExceeded) as caught:
            spend(router, tags={"user": "ann"})
        assert caught.value.resets_at == begin + timedelta(hours=hours)
        any_world.pass_time(microseconds=1)
        spend(router, tags={"user": "ann"})


def test_a_key_is_the_same_in_every_process(world):
    """What a limit selects is written in order: sets are ordered differently in each process."""
    router = limited(
        world,
        f"[limits.a]\nmatch = {{ team = {[f't{n}' for n in range(20)][::-1]} }}\ndaily_usd = 1\n",
    )
    (rule,) = router.till.scopes.rules
    assert json.loads(rule.selection) == [None, [["team", sorted(f"t{n}" for n in range(20))]]]


def test_without_the_key_a_user_cannot_be_looked_up(tmp_path, clock):
    """Two stores hash the same value differently: knowing the method and the ledger is not enough."""
    scopes = set()
    for _ in range(2):
        world = World(tmp_path, clock, MemoryStore(clock))
        router = limited(world, '[limits.users]\nper = "user"\ndaily_usd = 1\n')
        scopes |= {spend(router, tags={"user": "ann"}).slots[1].scope}
    first, second = scopes
    assert first.rpartition("#")[2] != second.rpartition("#")[2]
