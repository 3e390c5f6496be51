"""Usage: one convention out of every provider's shape, and never a guess."""

from __future__ import annotations

import enum
import json
import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.backends.usage import read_usage
from budgetroute.billing import bill
from budgetroute.prices import price_from_config
from budgetroute.records import Usage

CHAT = {
    "object": "chat.completion",
    "model": "gpt-4o-mini-2024-07-18",
    "service_tier": "default",
    "choices": [{"index": 0, "finish_reason": "length", "message": {"content": "secret"}}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 80, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
}
CHAT_USAGE = Usage(
    100,
    50,
    cached_tokens=80,
    reasoning_tokens=20,
    model="gpt-4o-mini-2024-07-18",
    service_tier="default",
    finish_reason="length",
)
RESPONSE = {
    "object": "response",
    "model": "gpt-5",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "service_tier": "flex",
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": 150,
    },
}
MESSAGE = {
    "type": "message",
    "model": "claude-sonnet-4-5",
    "stop_reason": "max_tokens",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 50,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        "output_tokens": 7,
        "service_tier": "standard",
    },
}


def plain(value):
    """Turn dicts into objects with attributes, as SDKs return them."""
    return json.loads(json.dumps(value), object_hook=lambda fields: SimpleNamespace(**fields))


def chat(**usage):
    return {"choices": [], "usage": usage}


@pytest.mark.parametrize("shape", [dict, plain])
def test_openai_chat(shape):
    """OpenAI's prompt tokens include cached ones, its completion tokens include reasoning."""
    assert read_usage(shape(CHAT)) == CHAT_USAGE


@pytest.mark.parametrize("shape", [dict, plain])
def test_openai_responses(shape):
    """The Responses API counts like chat, under other names."""
    assert read_usage(shape(RESPONSE)) == Usage(
        100,
        50,
        cached_tokens=60,
        reasoning_tokens=30,
        model="gpt-5",
        service_tier="flex",
        finish_reason="length",
    )


@pytest.mark.parametrize("shape", [dict, plain])
def test_anthropic(shape):
    """Anthropic's input tokens exclude what was read from or written to a cache."""
    assert read_usage(shape(MESSAGE)) == Usage(
        160,
        7,
        cached_tokens=100,
        cache_write_tokens=50,
        cache_write_long_tokens=30,
        model="claude-sonnet-4-5",
        service_tier="standard",
        finish_reason="length",
    )


@pytest.mark.parametrize(
    ("said", "tier"),
    [
        ({"speed": "fast"}, "fast"),
        ({"inference_geo": "us"}, "us"),
        ({"speed": "fast", "inference_geo": "us"}, "fast us"),
        ({"speed": "standard", "inference_geo": "global"}, "standard"),
    ],
)
def test_anthropic_speed_and_region(said, tier):
    """What multiplies Anthropic's rates is read as the service tier."""
    message = MESSAGE | {"usage": MESSAGE["usage"] | said}
    assert read_usage(message).service_tier == tier


@pytest.mark.parametrize("shape", [dict, plain])
def test_gemini(shape):
    """Gemini's thoughts are output beside the candidates, tool prompts input beside the prompt."""
    answer = {
        "candidates": [{"finish_reason": "MAX_TOKENS"}],
        "model_version": "gemini-2.5-pro",
        "usage_metadata": {
            "prompt_token_count": 100,
            "tool_use_prompt_token_count": 5,
            "candidates_token_count": 20,
            "thoughts_token_count": 30,
            "cached_content_token_count": 60,
            "total_token_count": 155,
            "traffic_type": "ON_DEMAND_PRIORITY",
        },
    }
    assert read_usage(shape(answer)) == Usage(
        105,
        50,
        cached_tokens=60,
        reasoning_tokens=30,
        model="gemini-2.5-pro",
        service_tier="priority",
        finish_reason="length",
    )


def test_gemini_over_rest():
    """Gemini's JSON spells names in camel case and leaves zeros out."""
    answer = {"usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 4}}
    assert read_usage(answer) == Usage(9, 4, reasoning_tokens=4)


def test_gemini_enums():
    """Enumerations are read by their value."""

    class Reason(enum.Enum):
        STOP = "STOP"

    answer = {
        "candidates": [SimpleNamespace(finish_reason=Reason.STOP)],
        "usage_metadata": SimpleNamespace(prompt_token_count=1, candidates_token_count=2),
    }
    assert read_usage(answer) == Usage(1, 2, finish_reason="stop")


def test_bedrock():
    """Bedrock's input tokens exclude cached ones."""
    answer = {
        "stopReason": "end_turn",
        "usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 100},
    }
    assert read_usage(answer) == Usage(105, 2, cached_tokens=100, finish_reason="stop")


def test_legacy_completion():
    """Legacy completions and embeddings report fewer fields."""
    legacy = {"choices": [{"text": "x", "finish_reason": "stop"}], "model": "davinci"}
    assert read_usage(legacy | {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}) == Usage(
        3, 4, model="davinci", finish_reason="stop"
    )
    assert read_usage({"usage": {"prompt_tokens": 3, "total_tokens": 3}}) == Usage(3, 0)


@pytest.mark.parametrize("block", [CHAT["usage"], MESSAGE["usage"], RESPONSE["usage"]])
def test_bare_usage_blocks(block):
    """A usage block alone is read like the response around it."""
    bare, whole = read_usage(block), read_usage({"usage": block})
    assert bare == whole
    assert bare.input_tokens >= 100


def test_hidden_reasoning_is_in_the_total():
    """Where completion tokens leave reasoning out, the total tells (xAI, Gemini's OpenAI face)."""
    usage = read_usage(chat(prompt_tokens=10, completion_tokens=5, total_tokens=45))
    assert usage == Usage(10, 35)


def test_deepseek_and_moonshot_cache_counts():
    """Cached tokens beside the details are found."""
    assert read_usage(chat(prompt_tokens=10, completion_tokens=1, cached_tokens=4)) == Usage(
        10, 1, cached_tokens=4
    )
    hit = chat(prompt_tokens=10, completion_tokens=1, prompt_cache_hit_tokens=6)
    assert read_usage(hit).cached_tokens == 6


def test_usage_passes_through():
    """A Usage that the user built is returned as it is."""
    mine = Usage(1, 2, service_tier="flex")
    assert read_usage(mine) is mine


def test_zero_is_not_missing():
    """A reported 0 is a usage of 0; a response without usage has none."""
    assert read_usage(chat(prompt_tokens=0, completion_tokens=0)) == Usage(0, 0)
    assert read_usage({"choices": [], "usage": None}) is None
    assert read_usage(chat()) is None
    assert read_usage(chat(prompt_tokens=5)) is None
    assert read_usage({"usage": {"input_tokens": 5}}) is None


@pytest.mark.parametrize(
    "nothing", [None, "text", b"text", 3, True, [], {}, object(), ("a", 1), SimpleNamespace()]
)
def test_what_is_no_response(nothing):
    """Whatever is no response has no usage, and raises nothing."""
    assert read_usage(nothing) is None


BAD = [-1, True, 1.5, "7", 10**8 + 1, 1e30, float("nan"), float("inf"), [1]]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens", "total_tokens"])
def test_impossible_counts_are_unknown(bad, name):
    """An impossible count makes the usage unknown."""
    good = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert read_usage(chat(**good)) == Usage(1, 1)
    assert read_usage(chat(**good | {name: bad})) is None


@pytest.mark.parametrize("bad", BAD)
def test_impossible_parts_are_unknown(bad):
    """An impossible part makes the usage unknown too: the rest cannot be trusted."""
    details = {"cached_tokens": bad}
    assert (
        read_usage(chat(prompt_tokens=1, completion_tokens=1, prompt_tokens_details=details))
        is None
    )
    message = MESSAGE | {"usage": MESSAGE["usage"] | {"cache_read_input_tokens": bad}}
    assert read_usage(message) is None
    assert read_usage(Usage(1, 1, reasoning_tokens=bad)) is None


def test_the_most_that_can_be_reported_fits_a_ledger():
    """10⁸ tokens in and out at the dearest price that config takes are less than int64 holds."""
    price = price_from_config(
        "m", {"input": 10_000, "output": 10_000, "request": 100, "search": 100}
    )
    usage = read_usage(
        chat(prompt_tokens=10**8, completion_tokens=10**8, num_search_queries=10_000)
    )
    assert 0 < bill(price, usage) < 2**63


def test_whole_floats_are_counts():
    """Counts that went through JSON floats are whole numbers still."""
    usage = read_usage(chat(prompt_tokens=3.0, completion_tokens=4))
    assert usage == Usage(3, 4)
    assert isinstance(usage.input_tokens, int)


class Hostile:
    """Raises at every attribute, with response text in the message."""

    def __getattr__(self, name):
        raise RuntimeError("secret text of the answer")


def test_hostile_objects_tell_nothing(caplog):
    """An object that raises has no usage, and its message is not logged."""
    caplog.set_level(logging.DEBUG)
    assert read_usage(Hostile()) is None
    assert read_usage({"usage": Hostile()}) is None
    assert "secret" not in caplog.text
    assert "Hostile" in caplog.text


class Raw:
    """openai's raw response, as `with_raw_response` returns it."""

    http_response = object()

    def __init__(self, parsed):
        self.parsed = parsed

    def parse(self):
        if isinstance(self.parsed, Exception):
            raise self.parsed
        return self.parsed


def test_raw_responses_are_parsed():
    """A raw response is read like the response inside; one that cannot be parsed is unknown."""
    assert read_usage(Raw(plain(CHAT))) == CHAT_USAGE
    assert read_usage(Raw(ValueError("secret"))) is None


def test_unread_async_raw_response_is_unknown():
    """An async response that was not read yet is unknown, and no coroutine is left behind."""

    class AsyncRaw(Raw):
        async def parse(self):
            return CHAT

    assert read_usage(AsyncRaw(None)) is None


names = st.sampled_from([
    "usage", "usage_metadata", "prompt_tokens", "completion_tokens", "input_tokens",
    "output_tokens", "total_tokens", "cached_tokens", "prompt_tokens_details", "choices",
    "cache_read_input_tokens", "prompt_token_count", "inputTokens", "model", "finish_reason",
])  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner),
    max_leaves=10,
)


@given(anything)
def test_any_shape_gives_believable_usage_or_none(value):
    """Whatever comes in, what comes out is whole, not negative and not absurd, or None."""
    usage = read_usage(value)
    if usage is not None:
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        assert all(type(count) is int and 0 <= count <= 10**8 for count in counts)


@pytest.mark.parametrize("shape", [dict, plain])
def test_sound_and_images_of_openai(shape):
    """Sound and images are parts of both sides; cached sound is told apart."""
    block = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {
            "audio_tokens": 30,
            "image_tokens": 20,
            "cached_tokens": 12,
            "cached_tokens_details": {"audio_tokens": 5},
        },
        "completion_tokens_details": {"audio_tokens": 40, "image_tokens": 3},
    }
    assert read_usage(shape({"choices": [], "usage": block})) == Usage(
        100,
        50,
        cached_tokens=12,
        audio_tokens=30,
        cached_audio_tokens=5,
        image_tokens=20,
        audio_output_tokens=40,
        image_output_tokens=3,
    )


@pytest.mark.parametrize("shape", [dict, plain])
def test_sound_and_images_of_gemini(shape):
    """Gemini lists tokens by modality, in the prompt, the cache and the answer."""
    answer = {
        "usageMetadata": {
            "promptTokenCount": 100,
            "candidatesTokenCount": 60,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 50},
                {"modality": "AUDIO", "tokenCount": 30},
                {"modality": "IMAGE", "tokenCount": 20},
            ],
            "cachedContentTokenCount": 10,
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}],
            "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 60}],
        }
    }
    assert read_usage(shape(answer)) == Usage(
        100,
        60,
        cached_tokens=10,
        audio_tokens=30,
        cached_audio_tokens=10,
        image_tokens=20,
        image_output_tokens=60,
    )


def searched(**usage):
    return {"usage": {"prompt_tokens": 1, "completion_tokens": 1} | usage}


GROUNDED = {
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
    "candidates": [
        {
            "groundingMetadata": {
                "webSearchQueries": ["a", "b", ""],
                "groundingChunks": [{"web": {}}],
            }
        },
        {"groundingMetadata": {"webSearchQueries": ["b", "c"]}},
    ],
}
WEB, PAGE = ({"type": "web_search_call", "action": {"type": t}} for t in ("search", "open_page"))


@pytest.mark.parametrize("shape", [dict, plain])
@pytest.mark.parametrize(
    ("answer", "searches"),
    [
        (
            MESSAGE | {"usage": MESSAGE["usage"] | {"server_tool_use": {"web_search_requests": 3}}},
            3,
        ),
        (searched(prompt_tokens_details={"web_search_requests": 2}), 2),
        (searched(server_side_tool_usage_details={"web_search_calls": 4}), 4),
        (searched(num_search_queries=5), 5),
        (RESPONSE | {"output": [WEB, PAGE, {"type": "message"}, WEB]}, 2),
        (RESPONSE | {"output": [WEB, WEB], "tool_usage": {"web_search": {"num_requests": 1}}}, 1),
        (GROUNDED, 3),
        (searched() | {"choices": [{"message": {"annotations": [{"type": "url_citation"}]}}]}, 1),
        (searched() | {"choices": [{"message": {"annotations": [{"type": "file_citation"}]}}]}, 0),
        (CHAT, 0),
    ],
)
def test_searches(shape, answer, searches):
    """Every provider's count of searches is found; opening a page and repeating a query are free."""
    assert read_usage(shape(answer)).searches == searches


def test_look_ups_in_maps_are_no_searches():
    """Queries that only maps answered count as look-ups, at least one where maps were used."""
    about = {"webSearchQueries": ["a", "b"], "groundingChunks": [{"maps": {}}]}
    usage = read_usage(GROUNDED | {"candidates": [{"groundingMetadata": about}]})
    assert (usage.searches, usage.map_queries) == (0, 2)
    about = {"groundingChunks": [{"maps": {}}]}
    usage = read_usage(GROUNDED | {"candidates": [{"groundingMetadata": about}]})
    assert (usage.searches, usage.map_queries) == (0, 1)


def test_context_size_of_searches():
    """Perplexity says how much its searches read; a size that is none is not believed."""
    assert read_usage(searched(search_context_size="medium")).search_context == "medium"
    assert read_usage(searched(search_context_size="huge")).search_context is None


@pytest.mark.parametrize("bad", [*BAD, 10_001])
def test_impossible_searches_are_unknown(bad):
    """A number of searches that cannot be one makes the usage unknown like any other count."""
    assert read_usage(searched(num_search_queries=bad)) is None


def test_hidden_reasoning_without_a_total():
    """More reasoning than output means that the output leaves reasoning out."""
    details = {"reasoning_tokens": 30}
    usage = read_usage(
        chat(prompt_tokens=10, completion_tokens=5, completion_tokens_details=details)
    )
    assert (usage.output_tokens, usage.reasoning_tokens) == (35, 30)


def test_cached_tokens_beyond_the_prompt_were_left_out_of_it():
    """A part larger than the whole was not counted in it: the whole is both together."""
    usage = read_usage(chat(prompt_tokens=10, completion_tokens=1, cached_tokens=100))
    assert (usage.input_tokens, usage.cached_tokens) == (110, 100)


def test_cache_writes_that_only_the_details_count():
    """Anthropic's writes by age count, though their sum is missing."""
    block = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
    }
    usage = read_usage({"usage": block})
    assert (usage.input_tokens, usage.cache_write_tokens) == (60, 50)
    assert usage.cache_write_long_tokens == 30


def test_bedrock_says_service_and_age():
    """Bedrock's service tier and its hour-long writes are read."""
    answer = {
        "serviceTier": {"type": "priority"},
        "usage": {
            "inputTokens": 5,
            "outputTokens": 2,
            "cacheWriteInputTokens": 9,
            "cacheDetails": [{"ttl": "5m", "inputTokens": 4}, {"ttl": "1h", "inputTokens": 5}],
        },
    }
    assert read_usage(answer) == Usage(
        14, 2, cache_write_tokens=9, cache_write_long_tokens=5, service_tier="priority"
    )


@pytest.mark.filterwarnings("ignore")
class TestLitellm:
    """litellm's own response objects."""

    def response(self, **usage):
        from budgetroute.backends.litellm_backend import LiteLLMBackend

        litellm = LiteLLMBackend().load()
        return litellm.ModelResponse(
            model="claude-x",
            choices=[{"finish_reason": "stop", "message": {"content": "x"}}],
            usage=litellm.Usage(**usage),
        )

    def test_anthropic_through_litellm(self):
        """litellm's prompt tokens include cached ones for Anthropic too."""
        usage = self.response(
            prompt_tokens=160,
            completion_tokens=5,
            total_tokens=165,
            prompt_tokens_details={
                "cached_tokens": 100,
                "cache_write_tokens": 50,
                "cache_creation_token_details": {"ephemeral_1h_input_tokens": 30},
            },
            cache_read_input_tokens=100,
            cache_creation_input_tokens=50,
            speed="fast",
        )
        assert read_usage(usage) == Usage(
            160,
            5,
            cached_tokens=100,
            cache_write_tokens=50,
            cache_write_long_tokens=30,
            model="claude-x",
            service_tier="fast",
            finish_reason="stop",
        )

    def test_no_usage_through_litellm(self):
        """Where the provider reported nothing litellm writes 0/0; that is unknown, not free."""
        assert read_usage(self.response()) is None

    def test_output_only(self):
        """A response with some tokens is a report, even if the prompt counts 0."""
        assert read_usage(self.response(completion_tokens=5)).output_tokens == 5
