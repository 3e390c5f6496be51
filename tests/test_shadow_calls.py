"""Shadow mode round real functions: nothing changes for them, whatever happens in the routing."""

from __future__ import annotations

import asyncio
import logging

import pytest
from helpers.world import MODELS

from budgetroute import record, route
from budgetroute.calls import last_decision
from budgetroute.errors import BudgetRouteError, StoreError

SHADOW = 'mode = "shadow"'
CHEAP = '[pacing]\npacer = "fixed"\ninitial_lambda = 1e6\n'
ANSWER = {"usage": {"prompt_tokens": 200, "completion_tokens": 300}}
ANSWER_USD = 0.0014


@pytest.fixture
def router(any_world):
    return any_world.router(top=SHADOW, more=CHEAP)


def test_the_function_receives_what_the_caller_passed(router):
    """No model, cap or instruction is injected; the answer is the very object."""
    seen = []

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024, **options):
        seen.append((question, model, max_tokens, options))
        return ANSWER

    assert answer("a question", stop="x") is ANSWER
    assert seen == [("a question", "mid", 1024, {"stop": "x"})]
    assert router.status().spent_usd == pytest.approx(ANSWER_USD)
    assert last_decision().shadowed.model == "small"


def test_an_explicit_argument_reaches_the_function_and_is_what_is_billed(router):
    """A passed model is what is sent, so it is what is booked."""

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        return {"model": model, **ANSWER}

    assert answer("a question", model="large")["model"] == "large"
    assert router.status().spent_usd == pytest.approx(10 * ANSWER_USD)


def test_a_pin_changes_nothing(router):
    """`pin()` would change what is sent, so shadow mode leaves it out."""
    from budgetroute import pin

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        return {"model": model, **ANSWER}

    with pin(model="large"):
        assert answer("a question")["model"] == "mid"
    assert router.status().spent_usd == pytest.approx(ANSWER_USD)


def test_messages_that_can_be_read_once_arrive(router):
    """An iterator is read for classifying and still reaches the function whole."""

    @route(router=router)
    def answer(messages, *, model="mid", max_tokens=1024):
        return {"said": [m["content"] for m in messages], **ANSWER}

    given = ({"role": "user", "content": word} for word in ("a", "b"))
    assert answer(given)["said"] == ["a", "b"]


@pytest.mark.parametrize("passed", [{"max_tokens": "many"}, {"model": "nobody-knows"}])
def test_what_cannot_be_routed_goes_through_with_a_warning(router, passed, caplog):
    """A call that cannot be priced or read runs all the same; that it is not counted is told."""

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        return record(ANSWER)

    with caplog.at_level(logging.WARNING, logger="budgetroute"):
        assert answer("a question", **passed) is ANSWER
    assert "is not counted" in caplog.text
    assert router.status().calls == 0


def test_a_store_that_is_down_goes_unnoticed_by_the_call(any_world, caplog, monkeypatch):
    """Not even a lost ledger fails a call of shadow mode."""
    router = any_world.router(top=SHADOW)

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        return ANSWER

    def down(*_):
        raise StoreError("no ledger")

    monkeypatch.setattr(router.store, "reserve", down)
    with caplog.at_level(logging.WARNING, logger="budgetroute"):
        assert answer("a question") is ANSWER
    assert "is not counted: no ledger" in caplog.text


def test_the_functions_own_error_is_all_the_caller_sees(router):
    """An exception comes through, and the call is booked as unknown like any other."""

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        answer("a question")
    assert router.status().estimated == 1


def test_a_missing_argument_is_told_as_the_function_would(router):
    """A call that does not fit the function raises the function's own TypeError."""

    @route(router=router)
    def answer(question, *, model="mid", max_tokens=1024):
        return ANSWER

    with pytest.raises(TypeError, match="answer"):
        answer()
    status = router.status()
    assert (status.held_usd, status.virtual.held_usd) == (0.0, 0.0)


def test_coroutines_and_generators_are_followed_too(router):
    """Every kind of function is counted when it ends, and receives its own defaults."""
    seen = []

    @route(router=router)
    async def answer(question, *, model="mid", max_tokens=1024):
        seen.append(model)
        return ANSWER

    @route(router=router)
    def tell(question, *, model="mid", max_tokens=1024):
        seen.append(model)
        yield "word"
        record(ANSWER)

    @route(router=router)
    async def atell(question, *, model="mid", max_tokens=1024):
        seen.append(model)
        yield "word"
        record(ANSWER)

    async def all_of_them():
        await answer("a question")
        return [word async for word in atell("a question")]

    assert asyncio.run(all_of_them()) == list(tell("a question")) == ["word"]
    assert seen == ["mid"] * 3
    assert router.status().spent_usd == pytest.approx(3 * ANSWER_USD)


def test_record_in_an_untouched_call_returns_the_response(any_world):
    """With budgetroute off a function that records runs as it stands; without a routed call ever, not."""
    with pytest.raises(BudgetRouteError, match="outside a routed call"):
        record(ANSWER)

    @route(router=any_world.router(top='mode = "off"'))
    def answer(question, *, model="mid", max_tokens=1024):
        return record(ANSWER)

    assert answer("a question") is ANSWER


def test_a_baseline_beyond_the_configured_models_is_counted(any_world):
    """The code's own model need not be one of those that `on` may choose."""
    cheap_only = MODELS.split("[models.")[1]
    router = any_world.router(
        top=SHADOW,
        models=f'[models.{cheap_only}[models."old"]\nenabled = false\nprice = {{ input = 5.0, output = 9.0 }}\n',
    )

    @route(router=router)
    def answer(question, *, model="old", max_tokens=500):
        return ANSWER

    answer("a question")
    assert router.status().spent_usd == pytest.approx(200 * 5e-6 + 300 * 9e-6)
    assert last_decision().shadowed.model == "small"
    assert "reward not comparable" in last_decision().why
