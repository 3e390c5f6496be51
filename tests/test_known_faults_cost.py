"""Kinds of fault in cost and usage that public bug reports tell of, each shown not to occur here.

Reports, by test: litellm#37992, PR#37734, #34875, #6215, #26807, #31714, PR#33983, #27745, #36999, PR#35914, #35691,
#20615, #1416, #15354, #8810, #13810, PR#30558, #16377, PR#10141, #14749, PR#21816, #8867, #18554, #10973, #37923, #25874;
Aider-AI/aider PR#5518, #4080; langfuse#12306; autogen#1270; zeph#3489; deepeval PR#2943.
"""

from __future__ import annotations

import json
import warnings

import pytest
from helpers.world import MODELS, asked
from http_support import BIG, HELLO, MINI, attempts, cost, make_router, openai_client, reply

from budgetroute import route
from budgetroute.backends.usage import read_usage
from budgetroute.billing import bill
from budgetroute.errors import ConfigError, UnpricedModel
from budgetroute.prices import PriceBook, price_from_config
from budgetroute.records import Pins, Usage
from budgetroute.testing import ScriptedServer
from budgetroute.units import pico_from_usd

CLAUDE = "claude-sonnet-4-5"
"""$3 in, $15 out, $0.30 read, $3.75 written, $6 written for an hour, per million tokens."""


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


def price(key):
    return PriceBook().price(key)


def answered(router, response, model=MINI):
    """Send a call whose function returns `response`; return its only attempt's (state, amount)."""

    @route(router=router)
    def answer(question, *, model=model, max_tokens=256):
        return response

    answer("why?", model=model)
    return attempts(router)[-1]


def chat(given, made, **more):
    usage = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return {"choices": [], "usage": usage | more}


class TestZeroAndMissing:
    def test_a_reported_zero_is_not_replaced_by_an_estimate(self, router):
        """A provider that says 0 tokens is believed; silence is not 0."""
        assert answered(router, reply(MINI, given=0, made=0)) == ("settled", 0)
        state, amount = answered(router, {"model": MINI})
        assert state == "estimated"
        assert amount > 0

    def test_a_zero_part_is_not_filled_from_elsewhere(self):
        """No output is no output, although the input was large."""
        assert read_usage(chat(1000, 0)) == Usage(1000, 0)

    def test_a_partial_stream_is_not_free(self, router):
        """What came of a stream without usage is priced by the planned model."""
        with ScriptedServer() as server, openai_client(server) as client:

            @route(router=router)
            def answer(question, *, model=MINI, max_tokens=256):
                return client.chat.completions.create(
                    model=model, messages=HELLO, max_tokens=max_tokens, stream=True
                )

            stream = answer("why?")
            next(iter(stream))
            stream.close()
        ((state, amount),) = attempts(router)
        assert state == "estimated"
        assert amount > 0

    def test_a_stream_that_was_read_is_priced_by_its_usage(self, router):
        """A whole stream costs what its last chunk reports, cached tokens and all."""
        with ScriptedServer() as server, openai_client(server) as client:

            @route(router=router)
            def answer(question, *, model=MINI, max_tokens=256):
                return client.chat.completions.create(
                    model=model,
                    messages=HELLO,
                    max_tokens=max_tokens,
                    stream=True,
                    stream_options={"include_usage": True},
                )

            assert list(answer("why?"))
            usage = server.billed[0].usage
        expected = cost(
            router, server.billed[0].model, usage["prompt_tokens"], usage["completion_tokens"]
        )
        assert attempts(router) == [("settled", expected)]


class TestOwnPriceFunction:
    @pytest.mark.filterwarnings("ignore")
    def test_the_cost_that_litellm_notes_is_not_read(self, router):
        """`response_cost` is None or wrong in its own callbacks; the usage is what counts."""
        from budgetroute.backends.litellm_backend import LiteLLMBackend

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm = LiteLLMBackend().load()
        response = litellm.ModelResponse(
            model=MINI,
            usage=litellm.Usage(prompt_tokens=100, completion_tokens=10, total_tokens=110),
        )
        expected = cost(router, MINI, 100, 10)
        for noted in (None, 0.0, 99.0):
            response._hidden_params = {"response_cost": noted}
            assert answered(router, response) == ("settled", expected)

    def test_cached_tokens_are_not_billed_whole(self):
        """Reads cost the cache's rate, with any provider's words for them."""
        for shape in (
            chat(10, 0, prompt_tokens_details={"cached_tokens": 8}),
            chat(10, 0, prompt_cache_hit_tokens=8),
            chat(10, 0, cached_tokens=8),
        ):
            assert bill(price(MINI), read_usage(shape)) == pico_from_usd("0.0000009")

    def test_cache_writes_are_not_billed_as_plain_input(self):
        """Writes cost more than input, and those for an hour more than those for minutes."""
        bills = [
            bill(price(CLAUDE), Usage(1000, 0, cache_write_tokens=w, cache_write_long_tokens=h))
            for w, h in ((0, 0), (1000, 0), (1000, 1000))
        ]
        assert bills == [pico_from_usd(usd) for usd in ("0.003", "0.00375", "0.006")]

    def test_cache_reads_never_make_a_cost_negative(self):
        """More cached tokens than input, or negative ones, cost no less than nothing."""
        for usage in (
            Usage(10, 0, cached_tokens=10**6),
            Usage(0, 0, cached_tokens=10**6, cache_write_tokens=10**6),
            Usage(-1000, -5, cached_tokens=-10),
        ):
            assert 0 <= bill(price(CLAUDE), usage) <= bill(price(CLAUDE), Usage(10, 0))

    def test_cached_tokens_are_not_counted_twice(self):
        """OpenAI's input includes them, Anthropic's does not: the same call, the same bill."""
        inclusive = chat(1000, 10, prompt_tokens_details={"cached_tokens": 800})
        exclusive = {"input_tokens": 200, "cache_read_input_tokens": 800, "output_tokens": 10}
        both = [bill(price(CLAUDE), read_usage(shape)) for shape in (inclusive, exclusive)]
        assert both == [pico_from_usd("0.00099")] * 2

    def test_thinking_is_part_of_the_output(self):
        """Where completion tokens leave reasoning out, it is added; where they hold it, it is not."""
        told = {"reasoning_tokens": 300}
        inside = chat(10, 400, completion_tokens_details=told)
        outside = {"usage": {"prompt_tokens": 10, "completion_tokens": 100,
                             "completion_tokens_details": told}}  # fmt: skip
        gemini = {"usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 100,
                                     "thoughts_token_count": 300}}  # fmt: skip
        assert [read_usage(shape).output_tokens for shape in (inside, outside, gemini)] == [400] * 3

    def test_a_long_context_is_priced_whole_at_its_tier(self):
        """Above 200,000 tokens every token costs the higher rate, output too."""
        below, above = (bill(price("gemini-2.5-pro"), Usage(n, 1000)) for n in (200_000, 200_001))
        assert below == pico_from_usd("0.26")
        assert above == pico_from_usd("0.5150025")

    @pytest.mark.parametrize(
        ("tier", "usd"), [(None, "0.01125"), ("flex", "0.005625"), ("priority", "0.0225"), ("batch", "0.005625")]
    )  # fmt: skip
    def test_the_service_tier_of_the_answer_is_billed(self, tier, usd):
        """Flex, priority and batch have their own rates, whatever was asked for."""
        assert bill(price("gpt-5"), Usage(1000, 1000, service_tier=tier)) == pico_from_usd(usd)

    @pytest.mark.filterwarnings("ignore")
    def test_an_answer_out_of_a_cache_of_our_own_is_free(self, router):
        """litellm repeats the usage of the first time; only a known hit costs nothing."""
        from budgetroute.backends.litellm_backend import LiteLLMBackend

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm = LiteLLMBackend().load()
        response = litellm.ModelResponse(
            model=MINI,
            usage=litellm.Usage(prompt_tokens=100, completion_tokens=10, total_tokens=110),
        )
        response._hidden_params = {"cache_hit": "maybe"}
        assert answered(router, response) == ("settled", cost(router, MINI, 100, 10))
        response._hidden_params = {"cache_hit": True}
        assert answered(router, response) == ("settled", 0)


class TestUnpricedIsNotFree:
    def test_a_model_that_is_known_without_a_price_is_not_free(self, tmp_path):
        """An entry of capabilities alone, or of $0, is an error at the look-up."""
        path = tmp_path / "map.json"
        entry = {"mode": "chat", "litellm_provider": "acme"}
        nothing = entry | {"input_cost_per_token": 0, "output_cost_per_token": 0.0}
        path.write_text(json.dumps({"m": entry, "free": nothing}))
        for key in ("m", "free"):
            with pytest.raises(UnpricedModel):
                PriceBook(path=path).price(key)

    @pytest.mark.parametrize(
        "model",
        ["openrouter/openai/gpt-5", "claude-sonnet-4-5-20991231", "ollama/llama9", "gpt-99"],
    )
    def test_a_name_that_litellm_makes_up_a_price_for_is_an_error_at_start_up(self, world, model):
        """litellm answers $0 for some of these; here the model and the line to write are named."""
        with pytest.raises(UnpricedModel, match="price = "):
            world.router(models=f'{MODELS}[models."{model}"]\nlike = "mid"\n')

    def test_a_model_that_answers_for_another_is_not_free(self, router, caplog):
        """A name without a price in the answer is billed as planned, and told."""
        decision = router.decide(asked(pins=Pins(model=MINI), baseline=None, prompt_type="math"))
        settlement = router.settle(decision, [Usage(1000, 100, model="local")])
        assert settlement.amount == cost(router, MINI, 1000, 100)
        assert "'local' (no price known)" in caplog.text

    def test_free_is_said_and_not_inferred(self):
        """Two zeros are refused with the word to write."""
        with pytest.raises(ConfigError, match='price = "free"'):
            price_from_config("m", {"input": 0, "output": 0})

    @pytest.mark.parametrize("number", [1.5e-07, 150_000])
    def test_prices_per_token_and_per_million_are_told_apart(self, number):
        """A price that is a million times off is refused before the first call."""
        with pytest.raises(ConfigError, match="per million"):
            price_from_config("m", {"input": number, "output": number})


class TestWhoIsBilled:
    @pytest.mark.parametrize(
        "answered", ["gpt-4o-mini-2024-07-18", "gpt-4o-mini", "openai/gpt-4o-mini", None]
    )
    def test_the_planned_price_holds_whatever_the_answer_calls_itself(self, router, answered):
        """A version, or the provider's name left out, makes no other model and no missing price."""
        decision = router.decide(asked(pins=Pins(model=MINI), baseline=None, prompt_type="math"))
        settlement = router.settle(decision, [Usage(1000, 100, model=answered)])
        assert (settlement.amount, settlement.billed_as) == (cost(router, MINI, 1000, 100), MINI)

    def test_a_dearer_model_that_answered_is_billed(self, router):
        """Whoever answers at a higher known price is paid it."""
        decision = router.decide(asked(pins=Pins(model=MINI), baseline=None, prompt_type="math"))
        settlement = router.settle(decision, [Usage(1000, 100, model=BIG)])
        assert (settlement.amount, settlement.billed_as) == (cost(router, BIG, 1000, 100), BIG)

    def test_each_attempt_has_a_price(self, world):
        """A failed attempt does not lose the next one's cost, nor its own."""
        router = world.router()
        first = router.decide(asked(pins=Pins(model="mid")))
        estimate = router.settle(first)
        second = router.again(first, asked(pins=Pins(model="mid")), attempt=2)
        paid = router.settle(second, [Usage(1000, 100)], attempt=2)
        assert router.status().spent_usd == pytest.approx(estimate.usd + paid.usd)
        assert estimate.amount > 0

    def test_a_chosen_model_is_billed_as_itself(self, world):
        """A routed call costs what the model that was chosen costs, not its caller's default."""
        router = world.router(more='[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n')
        decision = router.decide(asked(prompt_type="math"))
        assert decision.model == "large"
        assert router.settle(decision, [Usage(1000, 100)]).usd == pytest.approx(0.014)


class TestMoneyIsExact:
    def test_a_million_bills_do_not_drift(self):
        """Sums of integers are the product, to the last pico-dollar."""
        one = bill(price(MINI), Usage(100, 40))
        assert one == pico_from_usd("0.000039")
        assert sum([one] * 10**6) == pico_from_usd("39")

    def test_a_budget_below_nothing_is_refused(self, world):
        """A negative limit is a mistake, not a debt."""
        with pytest.raises(ConfigError, match="daily_usd"):
            world.router(budget="daily_usd = -1")

    def test_what_is_free_is_served_when_the_money_is_gone(self, world):
        """A budget of nothing holds nothing for a free model, which fits it."""
        models = f'{MODELS}[models."local"]\nlike = "small"\nprice = "free"\nmax_tokens = [256]\n'
        router = world.router(budget="daily_usd = 0", models=models)
        decision = router.decide(asked(prompt_type="math"))
        assert decision.model == "local"
        assert router.settle(decision, [Usage(1000, 100)]).amount == 0
