"""Failures that are ours: routing that blows up, a store that is down. The user's call goes on."""

from __future__ import annotations

import logging
import threading

import pytest
from helpers.fakes import FlakyStore, Witness
from helpers.world import asked

from budgetroute.errors import (
    BudgetExceeded,
    ConfigError,
    NoEligibleAction,
    StoreError,
    UnpricedModel,
)
from budgetroute.records import Action, Pins, Usage

FREE = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
OPEN = '[store]\non_store_error = "open"\n'


class Broken:
    """A classifier that raises what it is told."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def classify(self, request):
        raise self.error


def broken(router, error: Exception):
    router.equipment.lane("answer").chain.parts = (Broken(error),)
    return router


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("x"), ZeroDivisionError(), TypeError("x"), RuntimeError("x"),
     AttributeError("x"), OSError("x"), UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
     RecursionError()],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_a_classifier_that_blows_up_costs_no_call(world, caplog, error):
    """The baseline is taken, priced, held and settled like any decision, with one warning."""
    router = broken(world.router(), error)
    decision = router.decide(asked())
    assert (decision.fallback, decision.action) == (True, Action("mid", 1024))
    assert decision.classified_by == "fallback"
    assert router.status().held_usd == decision.worst_usd > 0
    router.settle(decision, [Usage(200, 100)])
    assert router.status().spent_usd == pytest.approx(0.0006)
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [type(error).__name__ in r.getMessage() for r in warnings] == [True]


def test_the_warning_never_quotes_what_a_foreign_error_says(world, caplog):
    """An error's text may hold the prompt; only its type is logged and kept."""
    router = broken(world.router(), ValueError("the user's secret prompt"))
    decision = router.decide(asked())
    (entry,) = router.store.find(decision.id)
    for text in (caplog.text, decision.why, entry.decided):
        assert "secret" not in text


def test_strict_raises_instead(world):
    """`strict = true` hands the error on, and nothing is held."""
    router = broken(world.router(top="strict = true"), ValueError("boom"))
    with pytest.raises(ValueError, match="boom"):
        router.decide(asked())
    assert router.status().calls == 0


def test_without_a_baseline_the_error_is_raised(world):
    """There is nothing to fall back on."""
    with pytest.raises(ZeroDivisionError):
        broken(world.router(), ZeroDivisionError()).decide(asked(baseline=None))


def test_the_fallback_is_held_against_the_cap_like_anything(world):
    """No room for the baseline's worst case: BudgetExceeded, not a free ride."""
    router = broken(world.router(budget="daily_usd = 0.001"), ValueError("x"))
    with pytest.raises(BudgetExceeded):
        router.decide(asked())


def test_a_first_call_that_falls_back_still_starts_a_sane_price(world):
    """λ starts from the profile's program also when the very first call could not be routed."""
    router = broken(world.router(), ValueError("x"))
    router.decide(asked())
    parts = router.equipment.lane("answer").chain
    parts.parts = ()
    price = router.decide(asked(prompt_type="math")).shadow_price
    assert price == pytest.approx(10.0, rel=3.0)
    assert price > 3.0


def test_a_baseline_without_a_price_cannot_be_fallen_back_on(world):
    """The routing error is raised then, since a call of unknown cost must not run."""
    router = broken(world.router(), ZeroDivisionError())
    with pytest.raises((ZeroDivisionError, UnpricedModel)):
        router.decide(asked(baseline=Action("mystery", 100)))


def test_the_pins_hold_in_a_fallback(world):
    """What the user fixed is fixed also when routing failed."""
    router = broken(world.router(), ValueError("x"))
    pins = Pins(model="small", max_tokens=300, temperature=0.5)
    assert router.decide(asked(pins=pins)).action == Action("small", 300, temperature=0.5)


def test_user_errors_are_not_covered_up(world):
    """A type that does not exist and a pin without price are raised, baseline or not."""
    with pytest.raises(ConfigError):
        world.router().decide(asked(prompt_type="nonsense"))
    with pytest.raises(UnpricedModel):
        world.router().decide(asked(prompt_type="math", pins=Pins(model="mystery")))


def test_a_store_that_is_down_raises_by_default(world):
    """A hard limit that cannot be checked is not assumed to hold."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    store.down = FlakyStore.EVERYTHING
    with pytest.raises(StoreError, match="down"):
        router.decide(asked(prompt_type="math"))


@pytest.mark.parametrize("known", [False, True])
def test_open_lets_calls_through_uncounted(world, caplog, known):
    """At the last known λ, or at the cheapest without one; counted, and said once a minute."""
    store = FlakyStore(world.store)
    router = world.router(store=store, more=OPEN)
    price = router.decide(asked(prompt_type="math")).shadow_price if known else 1e15
    store.down = FlakyStore.EVERYTHING
    for _ in range(3):
        decision = router.decide(asked(prompt_type="math"))
        assert decision.shadow_price == price
        assert (decision.slots, decision.balance) == ((), None)
        router.settle(decision, [Usage(200, 100)])
        router.release(decision)
    assert router.uncounted == 3
    assert caplog.text.count("let through uncounted") == 1
    store.down = frozenset()
    assert router.status().uncounted == 3


def test_open_keeps_to_gates_and_falls_back_too(world):
    """Without a ledger the rules of choosing are the same."""
    store = FlakyStore(world.store)
    router = world.router(store=store, more=OPEN + '[routes.answer]\ndeny = ["small"]')
    store.down = FlakyStore.EVERYTHING
    assert router.decide(asked(prompt_type="math")).model == "mid"
    assert broken(router, ValueError("x")).decide(asked()).fallback
    with pytest.raises(NoEligibleAction):
        router.decide(
            asked(prompt_type="math", pins=Pins(model="small"), baseline=Action("small", 256))
        )


def test_open_lets_a_retry_through(world):
    """A store that dies between two attempts does not end the call."""
    store = FlakyStore(world.store)
    router = world.router(store=store, more=OPEN)
    request = asked(prompt_type="math")
    decision = router.decide(request)
    store.down = FlakyStore.EVERYTHING
    again = router.again(decision, request, attempt=2)
    assert (again.slots, router.uncounted) == ((), 1)
    router.settle(again, [Usage(200, 100)], attempt=2)


def test_a_bill_waits_in_memory_and_is_booked_later(world, caplog):
    """The store dies before the settlement: the hold stays, the bill is booked when it is back."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    decisions = [router.decide(asked(prompt_type="math")) for _ in range(3)]
    store.down = FlakyStore.EVERYTHING
    for decision in decisions:
        settlement = router.settle(decision, [Usage(200, 100)])
        assert (settlement.amount > 0, settlement.balance) == (True, None)
    assert caplog.text.count("waits in memory") == 3
    store.down = frozenset()
    status = router.status()
    assert status.held_usd == 0.0
    assert status.spent_usd == pytest.approx(sum(e.row.amount for e in store.recent(10)) / 1e12)
    assert {e.row.state for e in store.recent(10)} == {"settled"}


@pytest.mark.parametrize("trigger", ["decide", "settle"])
def test_any_later_call_books_what_waits(world, trigger):
    """The next decision or settlement brings the bills in, each once."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    waiting, other = (router.decide(asked(prompt_type="math")) for _ in range(2))
    store.down = frozenset({"settle"})
    router.settle(waiting, [Usage(200, 100)])
    store.down = frozenset()
    if trigger == "decide":
        router.decide(asked(prompt_type="math"))
    else:
        router.settle(other, [Usage(200, 100)])
    (entry,) = store.find(waiting.id)
    assert entry.row.state == "settled"


def test_a_bill_the_store_refuses_for_good_does_not_block_the_others(world):
    """One settlement that always fails leaves the rest of the ledger working."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    poison, healthy = (router.decide(asked(prompt_type="math")) for _ in range(2))
    inner, refused = store.inner.settle, poison.id

    def settle(bill):
        if bill.decision == refused:
            raise StoreError("this amount does not fit")
        return inner(bill)

    store.settle = settle
    router.settle(poison, [Usage(200, 100)])
    assert router.settle(healthy, [Usage(200, 100)]).balance is not None
    (entry,) = store.find(healthy.id)
    assert entry.row.state == "settled"


def test_threads_never_lose_a_waiting_bill(world):
    """Eight threads bring the waiting bills in at once: each is booked once, none is dropped."""
    store = FlakyStore(world.store)
    router = world.router(store=store, budget="daily_usd = 100")
    waiting = [router.decide(asked(prompt_type="chat")) for _ in range(200)]
    store.down = frozenset({"settle"})
    for decision in waiting:
        router.settle(decision, [Usage(80, 50)])
    store.down = frozenset()
    failed: list[BaseException] = []

    def bring_in():
        try:
            for _ in range(20):
                router.settle(router.decide(asked(prompt_type="chat")), [Usage(80, 50)])
        except Exception as err:  # noqa: BLE001 - whatever it is fails the test
            failed.append(err)

    threads = [threading.Thread(target=bring_in) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {e.row.state for e in store.recent(10_000)} == {"settled"}
    assert router.status().calls == 360


def test_a_release_that_fails_is_left_to_the_lease(world, caplog):
    """The hold stays until its lease ends; the caller is not bothered."""
    store = FlakyStore(world.store)
    router = world.router(store=store)
    decision = router.decide(asked(prompt_type="math"))
    store.down = frozenset({"release"})
    router.release(decision)
    assert "waits in memory" in caplog.text
    assert router.status().held_usd == decision.worst_usd


def test_an_observer_that_raises_is_not_noticed_by_the_call(world, caplog):
    """The others are told, the failure is logged, the decision and the bill stand."""

    class Angry:
        def decided(self, decision):
            raise RuntimeError("no")

        settled = stepped = lambda self, *_: (_ for _ in ()).throw(RuntimeError("no"))

    witness = Witness()
    router = world.router(observers=[Angry(), witness])
    router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 100)])
    assert (len(witness.decisions), len(witness.settlements), len(witness.steps)) == (1, 1, 1)
    assert "an observer failed" in caplog.text


def test_a_damaged_plan_starts_pacing_over(world, caplog):
    """A plan that cannot be read is reported and replaced; money is untouched."""
    router = world.router()
    router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 100)])
    spent = router.status().spent_usd
    key = "test|all"
    for value in ("{broken", '{"low": "high"}', "[]"):
        version = world.store.load_plan(key).version
        assert world.store.save_plan(key, value, expected_version=version)
        again = world.router()
        assert again.decide(asked(prompt_type="math")).shadow_price > 1.0
        assert again.status().spent_usd == spent
    assert caplog.text.count("pacing starts over") >= 3


@pytest.mark.parametrize("pacer", ["solve", "dual", "fixed"])
def test_a_plan_store_that_is_busy_fails_no_call(world, pacer):
    """Prices, curves and overheads can be computed anew: not writing them costs nothing but them."""
    store = FlakyStore(world.store)
    router = world.router(store=store, more=f'[pacing]\npacer = "{pacer}"\n')
    store.down = frozenset({"save_plan"})
    for _ in range(3):
        router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 100)])
        world.pass_time(minutes=6)
    store.down = frozenset()
    router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 100)])
    status = router.status()
    assert (status.calls, status.held_usd) == (4, 0.0)
    assert status.shadow_price > 0
