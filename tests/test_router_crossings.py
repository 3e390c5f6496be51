"""A worst case that a bill crossed is raised for a day: by what, for whom, how far, and never for ever."""

from __future__ import annotations

import itertools
import json
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from helpers.fakes import FlakyStore
from helpers.world import MODELS, World, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute import billing
from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded
from budgetroute.prices import PriceBook
from budgetroute.records import Action, InputSize, Pins, Terms, Usage
from budgetroute.router.crossings import Crossing, Crossings, crossings
from budgetroute.router.overheads import Overheads
from budgetroute.stores import DiskStore, MemoryStore
from budgetroute.telemetry import decided_fields
from budgetroute.units import pico_from_usd

LARGE = {"prompt_type": "math", "pins": Pins(model="large")}
MID = {"prompt_type": "math", "pins": Pins(model="mid", cot=False)}
BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'


def worst(router, **request) -> float:
    """What the next such call holds, given back at once."""
    decision = router.decide(asked(**request))
    router.release(decision)
    return decision.worst_usd


def crossed(router, usages, **request):
    decision = router.decide(asked(**request))
    return decision, router.settle(decision, usages)


def test_output_beyond_the_cap_is_held_from_then_on(any_world):
    """The most that was seen beyond a cap, a tenth more, at every cap of that model; nowhere else."""
    router = any_world.router()
    before = worst(router, **LARGE), worst(router, **MID)
    decision, settlement = crossed(router, [Usage(200, 5000)], **LARGE)
    assert settlement.overshoot == settlement.amount - decision.chosen.worst > 0
    extra = (5000 - 1024) * 1.1
    assert worst(router, **LARGE) == pytest.approx(before[0] + extra * 40 / 1e6, abs=1e-4)
    assert worst(router, **MID) == before[1]
    other = asked(prompt_type="math", pins=Pins(model="large", max_tokens=2000))
    at_cap = router.decide(other).chosen
    assert at_cap.worst - at_cap.declared == pytest.approx(extra * 40 * 1e6, rel=0.001)


def test_thinking_is_told_apart(world):
    """Reasoning outside the cap raises what such calls hold, not what the same model holds without."""
    router = world.router()
    thinking = {"prompt_type": "math", "pins": Pins(model="mid", cot=True)}
    plain, deep = worst(router, **MID), worst(router, **thinking)
    crossed(router, [Usage(200, 9000)], **thinking)
    assert worst(router, **thinking) > deep
    assert worst(router, **MID) == plain


@pytest.mark.parametrize("with_usage", [True, False])
def test_an_untold_price_costs_no_more_than_the_calls_in_flight(any_world, with_usage):
    """A price doubles unannounced: what bills exceed their holds by, over the whole day, is the
    excess of the calls that were in flight when the first bill crossed; the cap then holds again.
    """
    router = any_world.router(budget="daily_usd = 1.0", more=BEST)
    flying, total, allowed = deque(), 0, None
    for made in itertools.cycle((1024, 600, 900)):
        if (call := sent(router, made)) is None:
            break
        flying.append(call)
        if len(flying) == 4:
            over = land(router, *flying.popleft(), with_usage=with_usage)
            total += over
            if over and allowed is None:
                allowed = over + sum(excess(*each) for each in flying)
    total += sum(land(router, *each, with_usage=with_usage) for each in flying)
    assert allowed is not None
    assert total <= allowed
    assert 0.8 < router.status().spent_usd <= 1.0


def sent(router, made):
    """A call in flight with the usage it will have; None when the budget refuses it."""
    try:
        return router.decide(asked(**LARGE)), Usage(200, made)
    except BudgetExceeded:
        return None


def land(router, decision, usage, *, with_usage):
    usages = [usage] if with_usage else []
    return router.settle(decision, usages, given=doubled(usage)).overshoot


def doubled(usage) -> int:
    return 2 * (usage.input_tokens * 10 + usage.output_tokens * 40) * 10**6


def excess(decision, usage) -> int:
    return max(0, doubled(usage) - decision.chosen.worst)


def test_two_processes_share_it(tmp_path, clock):
    """Another process on the same store holds more a second later, and a restarted one at once."""
    world = World(tmp_path, clock, DiskStore(tmp_path / "ledger", clock))
    one = world.router()
    other = world.router(store=DiskStore(tmp_path / "ledger", clock))
    before = worst(other, **LARGE)
    crossed(one, [Usage(200, 5000)], **LARGE)
    world.pass_time(seconds=1)
    assert worst(other, **LARGE) == worst(one, **LARGE) > 2 * before
    crossed(other, [Usage(200, 8000)], **LARGE)
    world.pass_time(seconds=1)
    assert worst(one, **LARGE) == worst(other, **LARGE) > 5 * before
    assert worst(world.router(), **LARGE) == worst(one, **LARGE)
    one.store.close()
    other.store.close()


def test_it_is_forgotten_a_day_after_it_was_last_seen(world):
    """Each crossing counts for 24 hours; then the next largest since counts."""
    router = world.router(budget="daily_usd = 100")
    declared = worst(router, **LARGE)
    crossed(router, [Usage(200, 6024)], **LARGE)
    world.pass_time(hours=20)
    crossed(router, [Usage(200, 2024)], **LARGE)
    high = worst(router, **LARGE)
    world.pass_time(hours=5)
    low = worst(router, **LARGE)
    assert declared + 0.04 < low < declared + 0.05 < high
    world.pass_time(hours=20)
    assert worst(router, **LARGE) == declared
    assert json.loads(world.store.load_plan("test|crossings").value) != {}


def test_nonsense_does_not_lock_a_model(world):
    """A report of 10¹² tokens raises the hold to ten caps at most, and only for a day."""
    router = world.router(budget="daily_usd = 5")
    declared = worst(router, **LARGE)
    crossed(router, [Usage(200, 10**12)], **LARGE)
    world.pass_time(hours=13)
    assert declared < worst(router, **LARGE) <= 12 * declared
    world.pass_time(hours=12)
    assert worst(router, **LARGE) == declared


def test_nonsensical_input_does_not_refuse_a_route_for_ever(any_world):
    """A report of 10¹² input tokens is believed as far as models can read, and for a day at most."""
    router = any_world.router(budget="daily_usd = 5")
    before = worst(router, **LARGE)
    crossed(router, [Usage(200, 100)], **LARGE)
    any_world.pass_time(days=1)
    crossed(router, [Usage(10**12, 100)], **LARGE)
    any_world.pass_time(hours=13)
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked(**LARGE))
    assert 20 < caught.value.needed_usd < 25
    for opened in (router, any_world.router(budget="daily_usd = 5")):
        any_world.pass_time(hours=12)
        assert worst(opened, **LARGE) == before


def test_silent_days_forget_wild_overheads_one_by_one(clock):
    """Also those that an older version kept; what is not ten times the next is kept."""
    store = MemoryStore(clock)
    store.save_plan("a|overhead|r", "[5,30000]", expected_version=0)
    overheads = Overheads(store, app="a")
    day = 86_400_000_000
    assert overheads.of("r", default=9, at=100 * day).bound == 33_001
    overheads.learn("r", reported=900_000, counted=0.0, at=100 * day)
    assert overheads.of("r", default=9, at=101 * day - 1).bound == 990_001
    assert overheads.of("r", default=9, at=101 * day).bound == 33_001
    assert overheads.of("r", default=9, at=101 * day + 5).bound == 33_001
    assert Overheads(store, app="a").of("r", default=9, at=102 * day).bound == 6
    assert Overheads(store, app="a").of("r", default=4000, at=200 * day).bound == 33_001


def test_a_nonsensical_bill_is_believed_up_to_ten_times(world):
    """So is a given bill of a million dollars."""
    router = world.router()
    declared = worst(router, **LARGE)
    decision = router.decide(asked(**LARGE))
    router.settle(decision, given=pico_from_usd("1000000"))
    world.pass_time(hours=13)
    assert worst(router, **LARGE) == pytest.approx(11 * declared)


def test_an_answer_of_a_dearer_model_raises_the_price(world):
    """Asked for mid, answered and billed as large: mid's worst case is ten times as high."""
    router = world.router()
    decision = router.decide(asked(**MID))
    usage, facts = Usage(100, 200, model="large"), router.equipment.facts
    bill = billing.bill(facts("large").price, usage)
    (found,) = crossings(
        decision, [usage], bill, facts=facts("mid"), billed_as="another", given=False
    )
    assert (found.kind, found.name, found.amount) == ("dearer", "mid", pytest.approx(10))


def test_an_undeclared_second_response_counts_once(world):
    """It raises its route's holds by one response, and neither the model's price nor its output."""
    router = world.router()
    declared = worst(router, **LARGE)
    crossed(router, [Usage(200, 1024), Usage(200, 1024)], **LARGE)
    raised = router.crossings.last_seen
    assert (dict(raised.beyond), dict(raised.dearer)) == ({}, {})
    assert worst(router, **LARGE) == pytest.approx(2 * declared)
    assert worst(router, **LARGE, route="other") == declared
    assert worst(router, **LARGE, calls=2) == pytest.approx(3 * declared)


def test_declared_responses_and_services_cross_nothing(world):
    """`calls=2` may report two, and a tier that was asked for may be billed at its price."""
    models = MODELS.replace("output = 40.0 }", "output = 40.0 }\ntoken_ratio = 1.5")
    router = world.router(models=models)
    crossed(router, [Usage(200, 1024), Usage(200, 1024)], **LARGE, calls=2)
    crossed(router, [Usage(900, 1024)], **LARGE, terms=Terms(services=frozenset({"priority"})))
    assert not router.crossings.last_seen
    assert world.store.load_plan("test|crossings").value is None


def test_input_is_left_to_the_overheads(world):
    """A prompt that its function makes longer is learnt as overhead alone."""
    router = world.router()
    crossed(router, [Usage(9000, 100)], **LARGE)
    assert not router.crossings.last_seen
    assert worst(router, **LARGE) > 0.09


def test_a_bill_below_the_hold_says_nothing_of_the_price(world):
    """A given bill may hold fees; only above the declared worst case it raises anything."""
    router = world.router()
    decision = router.decide(asked(**LARGE))
    router.settle(decision, [Usage(10, 1)], given=decision.chosen.worst)
    assert not router.crossings.last_seen


def test_a_repeated_settlement_teaches_nothing(world):
    """Only the first bill of a call counts."""
    router = world.router()
    decision, _ = crossed(router, [Usage(200, 100)], **LARGE)
    router.settle(decision, [Usage(200, 9000)])
    assert not router.crossings.last_seen


def test_why_more_is_held_is_said_everywhere(disk_world, caplog):
    """In the warning, once; in the debug log; in the record that `explain` reads."""
    router = disk_world.router()
    with caplog.at_level(logging.WARNING, "budgetroute"):
        crossed(router, [Usage(200, 5000)], **LARGE)
        crossed(router, [Usage(200, 5000)], **LARGE)
    warned = [r.getMessage() for r in caplog.records]
    assert len(warned) == 1
    assert "3,976 output tokens were billed beyond the cap" in warned[0]
    decision = router.decide(asked(**LARGE))
    assert (
        "4,374 output tokens beyond the cap; declared $0.04" in decided_fields(decision)["raised"]
    )
    (entry,) = router.store.find(decision.id)
    declared, why = json.loads(entry.decided)["raised"]["large/1024"]
    assert declared == pytest.approx(decision.chosen.declared / 1e12)
    assert why == "4,374 output tokens beyond the cap"


def test_what_cannot_be_read_is_learnt_anew(world, caplog):
    """A damaged record costs a warning, not a call."""
    world.store.save_plan("test|crossings", "{broken", expected_version=0)
    router = world.router()
    declared = worst(router, **LARGE)
    crossed(router, [Usage(200, 5000)], **LARGE)
    assert worst(router, **LARGE) > declared
    assert any("learned anew" in r.getMessage() for r in caplog.records)


def test_what_could_not_be_kept_is_held_here_and_written_later(world, caplog):
    """A store that fails the write: this process holds more all the same, and tries again."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    declared = worst(router, **LARGE)
    store.down = frozenset({"save_plan"})
    crossed(router, [Usage(200, 5000)], **LARGE)
    world.pass_time(seconds=2)
    assert worst(router, **LARGE) > declared
    store.down = frozenset()
    crossed(router, [Usage(200, 1030)], **MID)
    world.pass_time(seconds=2)
    kept = json.loads(world.store.load_plan("test|crossings").value)
    assert set(kept) == {"beyond|large", "beyond|mid"}


def test_a_retry_holds_what_its_first_attempt_held(world):
    """The chosen candidate carries its raised worst case."""
    router = world.router()
    crossed(router, [Usage(200, 5000)], **LARGE)
    decision = router.decide(asked(**LARGE))
    router.settle(decision)
    router.again(decision, asked(**LARGE), attempt=2)
    rows = [entry.row.worst for entry in router.store.find(decision.id)]
    assert rows == [decision.chosen.worst] * 2


@settings(max_examples=60)
@given(
    reports=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 8000)), min_size=1, max_size=4),
    factor=st.sampled_from([1, 2, 5]),
    calls=st.integers(1, 2),
)
def test_what_was_billed_once_is_held_the_next_time(reports, factor, calls, tmp_path_factory):
    """Whatever crossed a hold, the same call afterwards holds at least that bill."""
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    world = World(tmp_path_factory.mktemp("w"), clock, MemoryStore(clock))
    router = world.router(budget="daily_usd = 1000")
    usages = [Usage(given, made) for given, made in reports]
    decision = router.decide(asked(**LARGE, calls=calls))
    bill = sum(u.input_tokens * 10 + u.output_tokens * 40 for u in usages) * 10**6
    known = {"given": factor * bill} if factor > 1 else {}
    settlement = router.settle(decision, usages, **known)
    again = router.decide(asked(**LARGE, calls=calls))
    assert again.chosen.worst >= settlement.amount


def test_only_the_largest_since_are_kept(clock):
    """However many crossings there are, the record stays short."""
    store = MemoryStore(clock)
    known = Crossings(store, app="a")
    for minute in range(0, 2 * 1440, 7):
        amount = 100 + minute % 50
        known.note([Crossing("beyond", "m", amount, "")], at=minute * 60_000_000)
    (kept,) = json.loads(store.load_plan("a|crossings").value).values()
    assert len(kept) <= 30
    assert known.last_seen.beyond["m"] >= 149


def test_without_a_store_the_last_known_worst_case_counts(world):
    """`on_store_error = "open"` chooses with what was raised before the store went away."""
    store = FlakyStore(world.store)
    router = world.router(store=store, more='[store]\non_store_error = "open"\n')
    crossed(router, [Usage(200, 5000)], **LARGE)
    store.down = FlakyStore.EVERYTHING - {"now"}
    decision = router.decide(asked(**LARGE))
    assert decision.chosen.declared is not None


def test_a_family_is_a_model_and_how_it_thinks():
    """Caps and sampling do not part families, reasoning does."""
    names = {
        Action("m", 100).family,
        Action("m", 200, n=2, temperature=0.5).family,
        Action("m", 100, cot=True).family,
        Action("m", 100, reasoning_effort="low").family,
    }
    assert names == {"m", "m|cot", "m|low"}


def test_an_image_prompt_is_raised_too(world):
    """Rows whose images cannot be bounded stay out, others carry the raise."""
    models = MODELS.replace('[models."large"]', '[models."large"]\nimage_tokens = 1000')
    router = world.router(models=models)
    crossed(router, [Usage(200, 5000)], **LARGE)
    size = InputSize(200, 800, images=2)
    decision = router.decide(asked(prompt_type="math", size=size, pins=Pins(model="large")))
    assert decision.chosen.worst > decision.chosen.declared >= pico_from_usd("0.06")


def test_threads_lose_no_crossing(clock):
    """Several threads that cross different bounds at once are all remembered, here and in the store."""
    store = MemoryStore(clock)
    known = Crossings(store, app="a")
    names = [f"m{n}" for n in range(12)]

    def cross(name: str) -> None:
        for step in range(20):
            known.note([Crossing("beyond", name, 100 + step, "")], at=step)
            known.raised(step * 2_000_000)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(cross, names))
    again = Crossings(store, app="a").raised(30_000_000)
    assert set(known.raised(100_000_000).beyond) == set(names)
    assert set(again.beyond) == set(names)
    assert min(again.beyond.values()) >= 119


@given(
    key=st.sampled_from(
        ("gpt-4o", "o4-mini", "gemini-2.5-pro", "claude-sonnet-4-5", "deepseek-chat")
    ),
    tokens=st.integers(0, 10**6),
    out=st.integers(0, 10**6),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)
def test_a_plain_bill_is_never_above_what_its_tokens_can_cost(key, tokens, out, shares):
    """So a plain usage at the planned price need not be looked at: nothing can be dearer."""
    price = PriceBook({}).price(key)
    cached, written, thought = shares
    usage = Usage(
        tokens,
        out,
        cached_tokens=int(tokens * cached),
        cache_write_tokens=int(tokens * (1 - cached) * written),
        reasoning_tokens=int(out * thought),
    )
    assert billing.bill(price, usage) <= billing.worst_case(price, input_bound=tokens, cap=out)
