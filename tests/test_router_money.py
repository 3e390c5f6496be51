"""Money through the router: what is held, billed, refused and shown, to the pico-dollar."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from helpers.world import MODELS, TINY, World, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded
from budgetroute.records import Action, InputSize, Pins, Usage
from budgetroute.router.bills import billed
from budgetroute.stores import MemoryStore
from budgetroute.units import pico_from_usd

FIXED = '[pacing]\npacer = "fixed"\ninitial_lambda = {}\n'
LARGE = {"prompt_type": "math", "pins": Pins(model="large")}
WORST_LARGE = (200 * 1.6 * 10 + 1024 * 40) / 1e6  # bound of the input at r = 1.6, the whole cap


def settled(router) -> float:
    return router.status().spent_usd


def test_the_worst_case_is_held_and_the_bill_replaces_it(any_world):
    """Input bound and whole cap are held; after the settlement only the bill is left."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    assert decision.worst_usd == pytest.approx(WORST_LARGE)
    assert router.status().held_usd == decision.worst_usd
    settlement = router.settle(decision, [Usage(210, 300)])
    assert settlement.usd == pytest.approx((210 * 10 + 300 * 40) / 1e6)
    status = router.status()
    assert (status.spent_usd, status.held_usd, status.calls) == (settlement.usd, 0.0, 1)


def test_a_released_hold_leaves_no_trace(any_world):
    """What was not sent costs nothing and is no call; a second release changes nothing."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    router.release(decision)
    router.release(decision)
    status = router.status()
    assert (status.spent_usd, status.held_usd, status.calls) == (0.0, 0.0, 0)


def test_unknown_usage_is_estimated_and_the_rest_stays_held(any_world):
    """λ sees the expected cost, the cap sees the worst; late usage corrects both."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    settlement = router.settle(decision)
    assert (settlement.source, settlement.usage) == ("estimated", None)
    assert settlement.usd == pytest.approx(decision.expected_usd)
    status = router.status()
    assert status.spent_usd == pytest.approx(decision.expected_usd)
    assert status.spent_usd + status.held_usd == pytest.approx(WORST_LARGE)
    assert status.estimated == 1
    late = router.settle(decision, [Usage(200, 100)])
    assert late.usd == pytest.approx(0.006)
    status = router.status()
    assert (status.spent_usd, status.held_usd, status.estimated) == (late.usd, 0.0, 0)


def test_settling_twice_bills_once(any_world):
    """The second settlement says that it is one and changes nothing."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    first = router.settle(decision, [Usage(200, 100)])
    again = router.settle(decision, [Usage(200, 900)])
    assert (first.repeated, again.repeated) == (False, True)
    assert again.amount == first.amount
    assert settled(router) == first.usd


def test_a_given_bill_is_taken_as_it_is(any_world):
    """The user's own number wins over tokens."""
    router = any_world.router()
    settlement = router.settle(router.decide(asked(**LARGE)), given=pico_from_usd("0.0123"))
    assert (settlement.source, settled(router)) == ("given", 0.0123)


def test_several_responses_are_billed_together(any_world):
    """A body that called twice is billed the sum."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE, calls=2))
    settlement = router.settle(decision, [Usage(100, 10), Usage(50, 20)])
    assert settlement.usd == pytest.approx((150 * 10 + 30 * 40) / 1e6)
    assert (settlement.usage.input_tokens, settlement.usage.output_tokens) == (150, 30)


def test_what_exceeds_the_hold_is_shown(any_world):
    """A bill above the worst case is booked in full and named as overshoot."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    settlement = router.settle(decision, [Usage(200, 5000)])
    assert settlement.overshoot == settlement.amount - decision.chosen.worst > 0
    assert settled(router) == settlement.usd
    (entry,) = router.store.find(decision.id)
    assert json.loads(entry.outcome)["overshoot_usd"] == pytest.approx(settlement.overshoot / 1e12)


@pytest.mark.parametrize(
    ("answered", "usd", "billed_as", "warned"),
    [
        ("mid", 0.0011, "mid", False),
        ("mid-2026-01-01", 0.0011, "mid", False),
        ("custom/mid", 0.0011, "mid", False),
        ("large", 0.011, "large", True),  # dearer and known: its price
        ("small", 0.0011, "mid", True),  # cheaper: the planned price
        ("ghost", 0.0011, "mid", True),  # unknown: the planned price
    ],
)
def test_another_model_in_the_response(world, caplog, answered, usd, billed_as, warned):
    """Dearer and known is billed as such; the rest at the planned price, and said."""
    facts = world.router().equipment.facts
    price = facts("mid").price
    usage = Usage(300, 200, model=answered)
    amount, key = billed([usage], model="mid", price=price, fixed=False, facts=facts)
    assert (amount, key) == (pico_from_usd(str(usd)), billed_as)
    assert ("another model answered" in caplog.text) is warned


def test_a_written_price_is_believed_over_the_responses_name(world):
    """`price` or `price_as` in config: deployments echo a family name of another price."""
    router = world.router()
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="small")))
    settlement = router.settle(decision, [Usage(100, 100, model="large")])
    assert settlement.billed_as == "small"
    (entry,) = router.store.find(decision.id)
    assert json.loads(entry.outcome)["model"] == "large"


def test_each_retry_holds_and_is_billed_on_its_own(any_world):
    """Attempt 2 needs its own hold; both attempts' bills count."""
    router = any_world.router()
    decision = router.decide(asked(**LARGE))
    router.settle(decision, attempt=1)
    second = router.again(decision, asked(**LARGE), attempt=2)
    assert router.status().held_usd > decision.worst_usd
    router.settle(second, [Usage(200, 100)], attempt=2)
    status = router.status()
    assert status.calls == 2
    assert status.spent_usd == pytest.approx(decision.expected_usd + 0.006)
    assert [e.attempt for e in router.store.find(decision.id)] == [
        f"{decision.id}#1",
        f"{decision.id}#2",
    ]


def test_a_retry_that_does_not_fit_is_refused(any_world):
    """The cap holds for every attempt."""
    router = any_world.router(budget="daily_usd = 0.06")
    decision = router.decide(asked(**LARGE))
    router.settle(decision, [Usage(200, 500)])
    with pytest.raises(BudgetExceeded):
        router.again(decision, asked(**LARGE), attempt=2)


OPS = st.lists(
    st.tuples(
        st.sampled_from(["reported", "unknown", "release", "again", "late", "hang"]),
        st.integers(0, 3000),
        st.sampled_from(["math", "chat", "general"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40)
@given(ops=OPS)
def test_spend_is_the_sum_of_the_ledger(ops, tmp_path_factory):
    """Whatever happens to calls: Σ settled = Σ entries, settled + held never crosses the limit."""
    clock = ManualClock(datetime(2026, 3, 4, tzinfo=UTC))
    world = World(tmp_path_factory.mktemp("w"), clock, MemoryStore(clock))
    router = world.router(budget="daily_usd = 0.15")
    for what, tokens, kind in ops:
        world.pass_time(minutes=7)
        request = asked(prompt_type=kind)
        try:
            decision = router.decide(request)
        except BudgetExceeded:
            continue
        _carry_out(router, decision, request, what, tokens)
    status, entries = router.status(), router.store.recent(1000)
    assert pico_from_usd(str(status.spent_usd)) == sum(e.row.amount for e in entries)
    assert status.spent_usd + status.held_usd <= 0.15 + 1e-12
    held = sum(e.row.worst for e in entries if e.row.state == "held")
    residue = sum(e.row.worst - e.row.amount for e in entries if e.row.state == "estimated")
    assert pico_from_usd(str(status.held_usd)) == held + residue


def _carry_out(router, decision, request, what: str, tokens: int) -> None:
    usage = [Usage(200, min(tokens, decision.max_tokens))]
    if what == "reported":
        router.settle(decision, usage)
    elif what == "unknown":
        router.settle(decision)
    elif what == "late":
        router.settle(decision)
        router.settle(decision, usage)
    elif what == "release":
        router.release(decision)
    elif what == "again":
        router.settle(decision)
        try:
            second = router.again(decision, request, attempt=2)
        except BudgetExceeded:
            return
        router.settle(second, usage, attempt=2)


def test_prices_hold_for_every_class_of_tokens(world):
    """Cached, written and reasoning tokens are billed at their own rates."""
    models = MODELS.replace(
        "price = { input = 1.0, output = 4.0 }",
        "price = { input = 1.0, output = 4.0, cached_input = 0.25, cache_write = 1.25, "
        "reasoning = 8.0 }",
    )
    router = world.router(models=models)
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="mid")))
    usage = Usage(1000, 100, cached_tokens=400, cache_write_tokens=200, reasoning_tokens=40)
    settlement = router.settle(decision, [usage])
    expected = 400 * 1.0 + 400 * 0.25 + 200 * 1.25 + 60 * 4.0 + 40 * 8.0
    assert settlement.usd == pytest.approx(expected / 1e6)
    assert decision.worst_usd >= (200 * 1.6 * 1.25 + 1024 * 8.0) / 1e6


def test_a_free_model_costs_nothing_and_is_counted(world):
    """`price = "free"` is said, so $0 is right; the call counts."""
    models = MODELS.replace("price = { input = 0.1, output = 0.4 }", 'price = "free"')
    router = world.router(models=models)
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="small")))
    router.settle(decision, [Usage(200, 300)])
    status = router.status()
    assert (status.spent_usd, status.held_usd, status.calls) == (0.0, 0.0, 1)


def test_n_choices_are_all_held_and_billed(world):
    """n in config multiplies the cap that is held and the output that is expected."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\nn = [3]')
    router = world.router(models=models)
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="mid", cot=False),
                                   baseline=Action("mid", 1024)))  # fmt: skip
    assert decision.action.n == 3
    assert decision.expected_usd == pytest.approx((200 * 1.0 + 3 * 320 * 4.0) / 1e6)
    assert decision.worst_usd == pytest.approx((320 * 1.0 + 3 * 1024 * 4.0) / 1e6)


def test_an_action_without_a_cell_for_a_mixed_type_uses_those_it_has(world):
    """Weights of types without a curve are spread over the others."""
    cells = {name: list(row) for name, row in TINY.cells.items()}
    cells["chat"][4] = None
    world = world.with_profile(cells={name: tuple(row) for name, row in cells.items()})
    router = world.router(more=FIXED.format(0.0))

    class Given:
        def classify(self, request):
            return (("math", 0.6), ("chat", 0.4)), "given"

    router.equipment.lane("answer").chain.parts = (Given(),)
    decision = router.decide(asked())
    assert decision.model == "large"
    assert decision.chosen.reward == pytest.approx(0.85)


def test_a_larger_prompt_is_bounded_by_its_bytes(world):
    """min(UTF-8 bytes, count · r): short tokens cannot make the bound exceed the bytes."""
    router = world.router()
    dense = router.decide(asked(**LARGE, size=InputSize(200, 210)))
    assert dense.worst_usd == pytest.approx((210 * 10 + 1024 * 40) / 1e6)
    guessed = router.decide(asked(**LARGE, size=InputSize(200, 800, exact=False)))
    assert guessed.worst_usd == pytest.approx((800 * 10 + 1024 * 40) / 1e6)
