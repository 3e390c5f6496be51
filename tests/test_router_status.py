"""`status()` and what is learned on the way: the day as it stands, and what functions add."""

from __future__ import annotations

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from helpers.world import MODELS, asked

from budgetroute.records import InputSize, Pins, Usage

FREE = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
MID = {"prompt_type": "math", "pins": Pins(model="mid", cot=False)}


def test_the_fields_of_a_day(any_world):
    """Everything a dashboard needs, in dollars, with the reset in the budget's zone."""
    router = any_world.router(budget='daily_usd = 10\ntimezone = "America/New_York"')
    router.settle(router.decide(asked(**MID)), [Usage(200, 300)])
    held = router.decide(asked(**MID))
    status = router.status()
    assert status.name == "test"
    assert status.spent_usd == pytest.approx(0.0014)
    assert status.held_usd == held.worst_usd
    assert status.limit_usd == 10.0
    assert status.remaining_usd == pytest.approx(10 - 0.0014 - held.worst_usd)
    assert status.window == "day:2026-03-04"
    assert status.resets_at == datetime(2026, 3, 5, tzinfo=ZoneInfo("America/New_York"))
    assert (status.calls, status.estimated, status.uncounted) == (2, 0, 0)
    assert status.planned_usd == pytest.approx(10 * 7 / 24)
    assert status.shadow_price == held.shadow_price


def test_before_the_first_call(any_world):
    """A new app has spent nothing and has no shadow price yet."""
    status = any_world.router().status()
    assert (status.spent_usd, status.held_usd, status.calls) == (0.0, 0.0, 0)
    assert status.shadow_price is None


def test_it_reads_as_attributes_as_items_and_as_a_dict(world):
    """status.x, status["x"], dict(status) and JSON say the same."""
    status = world.router().status()
    assert status["spent_usd"] == status.spent_usd
    assert dict(status)["limit_usd"] == 10.0
    assert json.loads(json.dumps(status.to_json()))["resets_at"] == status.resets_at.isoformat()
    with pytest.raises(KeyError):
        status["nonsense"]
    with pytest.raises(KeyError):
        status["keys"]


def test_abandoned_holds_show_as_spent_after_their_lease(any_world):
    """A call that nobody settled becomes its expected cost once its lease is over."""
    router = any_world.router()
    decision = router.decide(asked(**MID, timeout_s=30))
    any_world.pass_time(seconds=89)
    assert router.status().estimated == 0
    any_world.pass_time(seconds=2)
    status = router.status()
    assert status.estimated == 1
    assert status.spent_usd == pytest.approx(decision.expected_usd)
    assert status.spent_usd + status.held_usd == pytest.approx(decision.worst_usd)


def test_an_estimate_is_corrected_when_the_bill_arrives_after_all(any_world):
    """A call slower than its lease is billed what it cost."""
    router = any_world.router()
    decision = router.decide(asked(**MID))
    any_world.pass_time(minutes=16)
    assert router.status().estimated == 1
    router.settle(decision, [Usage(200, 100)])
    status = router.status()
    assert (status.spent_usd, status.held_usd, status.estimated) == (0.0006, 0.0, 0)


def expected(router, **more) -> float:
    """Input tokens that the next call is expected to have: its cost, less the output's."""
    decision = router.decide(asked(**MID, hidden_input=True, **more))
    router.release(decision)
    return decision.expected_usd * 1e6 - 320 * 4.0


def test_what_a_function_adds_is_learned(any_world):
    """At first `input_tokens` is expected; then the mean of what was reported beyond the prompt."""
    router = any_world.router(more=FREE + "[routes.answer]\ninput_tokens = 3000\n")
    assert expected(router) == pytest.approx(200 + 3000)
    for reported in (300, 500):
        router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(reported, 10)])
    assert expected(router) == pytest.approx(200 + 200)
    assert expected(router, tokens=50) == pytest.approx(50 + 200)


def test_the_largest_addition_is_reserved(any_world):
    """The maximum of the last calls and a tenth more is held."""
    router = any_world.router(more=FREE + "[routes.answer]\ninput_tokens = 3000\n")
    for reported in (1200, 300):
        router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(reported, 10)])
    decision = router.decide(asked(**MID, hidden_input=True))
    bound = 200 * 1.6 + 1000 * 1.1 + 1
    assert decision.worst_usd == pytest.approx((bound * 1.0 + 1024 * 4.0) / 1e6)


def test_what_is_learned_outlives_the_process(any_world):
    """Another router on the same store starts from it."""
    more = FREE + "[routes.answer]\ninput_tokens = 3000\n"
    router = any_world.router(more=more)
    router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(260, 10)])
    assert expected(any_world.router(more=more)) == pytest.approx(260)


def test_several_requests_of_one_call_are_learned_one_by_one(any_world):
    """A body that calls three times with the same overhead does not triple it."""
    router = any_world.router(more=FREE)
    usages = [Usage(260, 10)] * 3
    router.settle(router.decide(asked(**MID, hidden_input=True, calls=3)), usages)
    assert expected(router) == pytest.approx(260)


def test_a_models_own_tokenizer_is_not_taken_for_an_addition(world):
    """token_ratio 1.5: 300 reported for 200 counted are no overhead."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\ntoken_ratio = 1.5')
    router = world.router(models=models, more=FREE)
    router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(300, 10)])
    assert expected(router) == pytest.approx(300)


def test_images_are_not_taken_for_an_addition(world):
    """Image tokens in a report do not make later prompts without images look larger."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\nimage_tokens = 1000')
    router = world.router(models=models, more=FREE)
    size = InputSize(200, 800, images=1)
    decision = router.decide(asked(**MID, hidden_input=True, size=size))
    router.settle(decision, [Usage(1200, 10)])
    assert expected(router) == pytest.approx(200)


def test_estimates_teach_nothing(any_world):
    """Unknown usage says nothing about the function."""
    router = any_world.router(more=FREE + "[routes.answer]\ninput_tokens = 700\n")
    router.settle(router.decide(asked(**MID, hidden_input=True)))
    assert expected(router) == pytest.approx(200 + 700)


def test_only_the_last_two_hundred_calls_count(world):
    """An addition that is gone is forgotten."""
    router = world.router(more=FREE)
    for reported in [5200] + [210] * 200:
        router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(reported, 10)])
    assert expected(router) == pytest.approx(210)


def test_damaged_overheads_are_learned_anew(any_world, caplog):
    """A value that is no list of numbers is reported and replaced, the call goes on."""
    any_world.store.save_plan("test|overhead|answer", "{broken", expected_version=0)
    router = any_world.router(more=FREE + "[routes.answer]\ninput_tokens = 700\n")
    assert expected(router) == pytest.approx(200 + 700)
    assert "learned anew" in caplog.text
    router.settle(router.decide(asked(**MID, hidden_input=True)), [Usage(230, 10)])
    assert expected(any_world.router(more=FREE)) == pytest.approx(230)
