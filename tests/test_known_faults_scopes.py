"""Faults that budgets elsewhere had with scopes, resets and refusals; here each is tried.

The names are those of the kinds of fault: a cap that is checked after the call, a reset that comes
late, a day that begins with the first request, an error that is retried, …
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers.spending import SMALL, spend
from helpers.world import MODELS, World, asked

from budgetroute.clock import ManualClock
from budgetroute.config import load_config
from budgetroute.errors import BudgetExceeded, ConfigError
from budgetroute.records import Pins, Usage
from budgetroute.stores import DiskStore, MemoryStore

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
USERS = '[limits.users]\nper = "user"\ndaily_usd = 0.01\n'
ANN = {"user": "ann"}


def limited(world, limits=USERS, *, budget="daily_usd = 10.0", **more):
    return world.router(budget=budget, more=f"{BEST}{limits}", **more)


def refusal(router, **request) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        spend(router, 0.001, **request)
    return caught.value


# admission


def test_concurrent_first_requests_of_a_new_key_do_not_bypass_its_limit(any_world):
    """A user who was never seen has a limit at once: of twenty calls at once only so many are held."""
    router = limited(any_world, USERS.replace("0.01", "0.001"))
    barrier, outcomes = threading.Barrier(20), []

    def call():
        barrier.wait()
        try:
            outcomes.append(router.decide(asked(**SMALL, tags={"user": "new"})).chosen.worst)
        except BudgetExceeded:
            outcomes.append(None)

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [worst for worst in outcomes if worst is not None]
    assert len(outcomes) == 20
    assert 0 < len(held) < 20
    assert sum(held) <= 0.001e12 < sum(held) + held[0]


def test_a_cap_is_checked_before_the_call(any_world):
    """The refused body is never entered, so nothing is sent that cannot be paid."""
    from budgetroute import route, tags

    router = limited(any_world, USERS.replace("0.01", "0"))
    entered = []

    @route(router=router)
    def answer(question, *, model="small", max_tokens=256):
        entered.append(model)

    with tags(**ANN), pytest.raises(BudgetExceeded):
        answer("what?")
    assert entered == []


def test_a_missing_limit_is_no_limit_of_zero(any_world):
    """A table with one window has no cap on the others, a call without limits is only the day's."""
    router = limited(any_world, '[limits.users]\nper = "user"\nmonthly_usd = 5\n')
    assert [x.window for x in router.limits(tags=ANN)] == ["day", "month"]
    spend(router, 4.0, tags=ANN)
    spend(router, 1.0)


def test_a_limit_of_zero_is_a_limit(any_world):
    """0 refuses everything in its scope, and nothing elsewhere."""
    router = limited(any_world, USERS.replace("0.01", "0"))
    assert refusal(router, tags=ANN).limit_usd == 0.0
    spend(router, 0.01)


@pytest.mark.parametrize("key", ["daily_usd", "weekly_usd", "monthly_usd", "total_usd", "hard_usd"])
def test_a_negative_budget_is_refused(tmp_path, key):
    """In [budget] and in every limit, when the configuration is read."""
    (tmp_path / ".git").mkdir()
    file = tmp_path / "budgetroute.toml"
    file.write_text(f"[budget]\ndaily_usd = 1\n[limits.a]\n{key} = -0.01\n")
    with pytest.raises(ConfigError, match=key):
        load_config(file, env={"HOME": str(tmp_path)})


def test_free_models_are_served_by_an_empty_budget(any_world):
    """What costs nothing fits a budget of nothing."""
    free = MODELS.replace("price = { input = 0.1, output = 0.4 }", 'price = "free"')
    router = limited(any_world, USERS.replace("0.01", "0"), budget="daily_usd = 0", models=free)
    decision = router.decide(asked(prompt_type="math", tags=ANN))
    assert (decision.model, decision.chosen.worst) == ("small", 0)


def test_a_budget_error_is_never_retried(any_world):
    """It says so itself, and the caller sees it at the first attempt."""
    router = limited(any_world, USERS.replace("0.01", "0"))
    assert refusal(router, tags=ANN).retryable is False
    import litellm

    from budgetroute import completion, tags

    with tags(**ANN), pytest.raises(BudgetExceeded):
        completion(
            [{"role": "user", "content": "hi"}], route="r", model="small", attempts=5,
            router=router, mock_response="never",
        )  # fmt: skip
    assert litellm
    assert router.store.recent(9) == ()


def test_one_limit_of_several_does_not_hide_the_others(any_world):
    """A limit with money left does not overrule one without; the empty one is named."""
    limits = '[limits.rich]\nper = "user"\ndaily_usd = 9\n[limits.poor]\nmatch = { user = "ann" }\ndaily_usd = 0\n'
    assert refusal(limited(any_world, limits), tags=ANN).scope == "poor"


def test_holds_of_a_scope_are_not_its_spending(any_world):
    """A user whose calls are all in flight has spent nothing; the refusal tells the two apart."""
    router = limited(any_world, USERS.replace("0.01", "0.0002"))
    router.decide(asked(**SMALL, tags=ANN))
    error = refusal(router, tags=ANN)
    assert error.spent_usd == 0.0
    assert error.held_usd > 0.0


# resets


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Pacific/Auckland", "America/St_Johns"])
def test_a_reset_is_not_late_by_the_offset_of_its_zone(any_world, zone):
    """At local midnight, to the microsecond, money is new; not before and not hours after."""
    router = limited(any_world, budget=f'daily_usd = 10\ntimezone = "{zone}"')
    spend(router, 0.01, tags=ANN)
    resets = refusal(router, tags=ANN).resets_at
    local = resets.astimezone(ZoneInfo(zone))
    assert (local.hour, local.minute, local.second, local.microsecond) == (0, 0, 0, 0)
    assert timedelta(0) < resets - any_world.clock.now() <= timedelta(days=1)
    any_world.clock.at = resets.astimezone(UTC) - timedelta(microseconds=1)
    refusal(router, tags=ANN)
    any_world.pass_time(microseconds=1)
    spend(router, 0.01, tags=ANN)


def test_a_day_does_not_begin_with_the_first_request(any_world):
    """Spent at 23:59, the limit is new a minute later, not a day later."""
    router = limited(any_world)
    any_world.clock.at = datetime(2026, 3, 4, 23, 59, tzinfo=UTC)
    spend(router, 0.01, tags=ANN)
    refusal(router, tags=ANN)
    any_world.pass_time(minutes=1)
    spend(router, 0.01, tags=ANN)


def test_the_zone_that_was_set_is_the_zone_that_counts(any_world):
    """Any zone of the database, with its changes of clocks; an unknown one is an error."""
    router = limited(any_world, budget='daily_usd = 10\ntimezone = "America/Sao_Paulo"')
    assert spend(router, 0.01, tags=ANN).slots[1].period == "day:2026-03-04"
    any_world.clock.at = datetime(2026, 3, 5, 2, 59, tzinfo=UTC)  # 23:59 there
    refusal(router, tags=ANN)
    with pytest.raises(ConfigError, match="close matches: America/Sao_Paulo"):
        limited(any_world, budget='daily_usd = 10\ntimezone = "America/Sao_Paolo"')


def test_no_reset_lies_decades_ahead(any_world):
    """Periods are named by the calendar, not by seconds to live: every reset is in its window."""
    limits = '[limits.users]\nper = "user"\ndaily_usd = 0\nweekly_usd = 0\nmonthly_usd = 0\n'
    router = limited(any_world, limits)
    ahead = [x.resets_at - any_world.clock.now() for x in router.limits(tags=ANN)[1:]]
    assert [
        timedelta(0) < each <= timedelta(days=most)
        for each, most in zip(ahead, (1, 7, 31), strict=True)
    ] == [True] * 3


def test_a_budget_resets_without_anything_running(any_world):
    """Nobody ran for a month, no job was scheduled: the first call finds a new period."""
    router = limited(any_world)
    spend(router, 0.01, tags=ANN)
    any_world.pass_time(days=33)
    spend(limited(any_world), 0.01, tags=ANN)
    spend(router, 0.0, tags={"user": "ben"})


def test_a_roll_over_never_sets_spending_to_the_last_writer(tmp_path):
    """Many processes cross midnight at once: each bill counts once, in the day of its reservation."""
    clock = ManualClock(datetime(2026, 3, 4, 23, 59, 59, tzinfo=UTC))
    worlds = [World(tmp_path, clock, DiskStore(tmp_path / "s", clock)) for _ in range(4)]
    routers = [limited(world, USERS.replace("0.01", "1")) for world in worlds]
    before = [router.decide(asked(**SMALL, tags=ANN)) for router in routers]
    clock.at += timedelta(seconds=2)
    after = [router.decide(asked(**SMALL, tags=ANN)) for router in routers]
    for router, old, new in zip(routers, before, after, strict=True):
        router.settle(new, given=20_000_000)
        router.settle(old, given=10_000_000)
    scope = before[0].slots[1].scope
    sums = routers[0].store.history(scope)
    assert {period: balance.settled for period, balance in sums.items()} == {
        "day:2026-03-04": 40_000_000,
        "day:2026-03-05": 80_000_000,
    }
    for world in worlds:
        world.store.close()


def test_a_reset_zeroes_no_accumulated_cost(any_world):
    """Yesterday's sums stay where they are when today begins."""
    router = limited(any_world)
    scope = spend(router, 0.004, tags=ANN).slots[1].scope
    any_world.pass_time(days=1)
    spend(router, 0.003, tags=ANN)
    assert [b.settled for _, b in sorted(router.store.history(scope).items())] == [
        4_000_000_000, 3_000_000_000,
    ]  # fmt: skip


def test_every_part_reads_one_clock(world):
    """The store's time alone decides day, reset and lease; the machine's is not asked."""
    world.clock.at = datetime(2031, 7, 1, 12, tzinfo=UTC)
    router = limited(world)
    decision = spend(router, 0.01, tags=ANN)
    assert {slot.period for slot in decision.slots} == {"day:2031-07-01"}
    assert router.status().window == "day:2031-07-01"
    assert refusal(router, tags=ANN).resets_at == datetime(2031, 7, 2, tzinfo=UTC)


def test_a_clock_that_goes_back_finds_its_sums(any_world):
    """Set back over midnight and forward again, no day starts twice with new money."""
    router = limited(any_world)
    spend(router, 0.01, tags=ANN)
    any_world.pass_time(days=1)
    spend(router, 0.01, tags=ANN)
    for days in (-1, 1):
        any_world.pass_time(days=days)
        refusal(router, tags=ANN)


# what is counted


def test_a_counter_is_the_sum_of_its_ledger(any_world):
    """Of every scope: what it says is spent is what the rows that count in it add up to."""
    limits = USERS.replace("0.01", "1") + "[limits.all]\ntotal_usd = 5\n"
    router = limited(any_world, limits)
    for number in range(12):
        request = asked(**SMALL, tags={"user": "ab"[number % 2]})
        decision = router.decide(request)
        if number % 3 == 0:
            router.release(decision)
        else:
            router.settle(decision, [Usage(200, number)] if number % 3 == 1 else [])
    entries = router.store.recent(99)
    slots = {slot for entry in entries for slot in entry.slots}
    assert len(slots) == 4
    for slot in slots:
        (sums,) = router.store.snapshot([slot])
        mine = [entry.row for entry in entries if slot in entry.slots]
        assert sums.settled == sum(row.amount for row in mine)
        late = sum(row.worst - row.amount for row in mine if row.state == "estimated")
        assert sums.held == late


def test_a_cost_is_that_of_the_model_that_was_chosen(any_world):
    """Degraded to the cheapest, a call is billed as the cheapest in every scope."""
    limits = (
        '[limits.users]\nper = "user"\ndaily_usd = 0.001\nsoft = true\non_exhausted = "degrade"\n'
    )
    router = limited(any_world, limits)
    spend(router, 0.001, tags=ANN)
    decision = router.decide(asked(prompt_type="math", tags=ANN))
    paid = router.settle(decision, [Usage(200, 100)])
    assert decision.model == "small"
    assert paid.usd == pytest.approx((200 * 0.1 + 100 * 0.4) / 1e6)
    assert router.limits(tags=ANN)[1].spent_usd == pytest.approx(0.001 + paid.usd)


def test_a_pinned_model_is_held_to_its_limits_too(any_world):
    """Naming a model in the call is no way round a limit."""
    router = limited(any_world)
    with pytest.raises(BudgetExceeded, match="users"):
        router.decide(asked(prompt_type="math", pins=Pins(model="large"), tags=ANN))


def test_a_log_line_cannot_be_forged_by_a_tag(any_world, caplog):
    """Values are in no line, and names of limits are quoted."""
    limits = '[limits."a\\nb=c"]\nper = "user"\ndaily_usd = 0.001\nwarn = 0.5\n'
    router = limited(any_world, limits)
    with caplog.at_level("DEBUG"):
        spend(router, 0.0006, tags={"user": "x\nlevel=CRITICAL"})
    assert "CRITICAL" not in caplog.text
    assert all("\n" not in record.getMessage() for record in caplog.records)
    record = json.loads(router.store.recent(1)[0].decided or "{}")
    assert "CRITICAL" not in json.dumps(record)


def test_limits_are_read_from_config_and_never_from_the_store(world):
    """A process with another configuration holds its own limit against the shared sums."""
    store = MemoryStore(world.clock)
    spend(limited(world, USERS.replace("0.01", "5"), store=store), 0.02, tags=ANN)
    assert refusal(limited(world, store=store), tags=ANN).spent_usd == pytest.approx(0.02)
