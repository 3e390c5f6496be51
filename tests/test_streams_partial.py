"""Reading a stream's items: usage in every provider's shape, text to count, and when it is final."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_support import tokens

from budgetroute.calls.partial import Tally, is_chunk, is_usage_only
from budgetroute.records import Usage


def thing(**fields):
    """Return nested objects, as SDKs give them; dicts stay for the other half of the cases."""
    made = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            made[name] = thing(**value)
        elif isinstance(value, list):
            made[name] = [thing(**v) if isinstance(v, dict) else v for v in value]
        else:
            made[name] = value
    return SimpleNamespace(**made)


def openai(delta=None, *, finish=None, index=0, **more):
    return {"choices": [{"index": index, "delta": delta or {}, "finish_reason": finish}], **more}


def usage(given, made, **details):
    return {"prompt_tokens": given, "completion_tokens": made, **details}


OPENAI = [
    openai({"role": "assistant", "content": ""}),
    openai({"content": "one "}),
    openai({"content": "two"}),
    openai(finish="stop"),
    {"choices": [], "usage": usage(10, 5, prompt_tokens_details={"cached_tokens": 8})},
]
ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "model": "claude-haiku-4-5",
            "usage": {"input_tokens": 2, "cache_read_input_tokens": 8, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one "}},
    {"type": "text", "text": "one ", "snapshot": "one "},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "two"}},
    {"type": "content_block_stop"},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
]
RESPONSES = [
    {"type": "response.created", "response": {"usage": None}},
    {"type": "response.output_text.delta", "delta": "one "},
    {"type": "response.output_text.delta", "delta": "two"},
    {
        "type": "response.completed",
        "response": {
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 8},
                "output_tokens": 5,
            }
        },
    },
]
GEMINI = [
    {
        "candidates": [{"content": {"parts": [{"text": text}]}, "finish_reason": finish}],
        "usage_metadata": {
            "prompt_token_count": 10,
            "cached_content_token_count": 8,
            "candidates_token_count": made,
        },
    }
    for text, finish, made in (("one ", None, 2), ("two", "STOP", 5))
]
BEDROCK = [
    {"contentBlockDelta": {"delta": {"text": "one two"}}},
    {
        "metadata": {
            "usage": {"inputTokens": 2, "cacheReadInputTokens": 8, "outputTokens": 5},
            "metrics": {"latencyMs": 1},
        }
    },
]
CONTINUOUS = [
    openai({"content": "one "}, usage=usage(10, 2)),
    openai({"content": "two"}, finish="stop", usage=usage(10, 5, prompt_cache_hit_tokens=8)),
]
SHAPES = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "responses": RESPONSES,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
    "continuous": CONTINUOUS,
}


def taken(items, **settings):
    tally = Tally(**settings)
    for item in items:
        tally.take(item)
    return tally


@pytest.mark.parametrize("form", [dict, thing])
@pytest.mark.parametrize("shape", SHAPES)
class TestShapes:
    def test_usage(self, shape, form):
        """Every provider's stream says what it used, cached tokens apart."""
        tally = taken(form(**item) for item in SHAPES[shape])
        tally.ended = True
        seen = tally.usage
        assert tally.is_final
        assert (seen.input_tokens, seen.cached_tokens, seen.output_tokens) == (10, 8, 5)

    def test_left_before_its_end(self, shape, form):
        """Without its last words no stream's usage counts as that of the whole answer."""
        last = 2 if shape == "anthropic" else 1
        tally = taken(form(**item) for item in SHAPES[shape][:-last])
        assert not tally.is_final
        assert tally.is_countable

    def test_text(self, shape, form):
        """What was said is counted once, whatever the provider's own counts."""
        tally = taken(form(**item) for item in SHAPES[shape])
        tally.usage = None
        assert tally.text_tokens() == tokens("one two")


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"content": "hi"}, "hi"),
        ({"content": None}, ""),
        ({"content": [{"type": "text", "text": "part"}]}, "part"),
        ({"reasoning_content": "thinking"}, "thinking"),
        ({"reasoning": "same", "reasoning_content": "same"}, "same"),
        ({"refusal": "no"}, "no"),
        ({"tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}, "look{}"),
        ({"tool_calls": None, "function_call": {"name": "f", "arguments": "[]"}}, "f[]"),
    ],
)
@pytest.mark.parametrize("form", [dict, thing])
def test_everything_that_is_billed_as_output_is_counted(delta, text, form):
    """Content, reasoning, refusals and tool calls are output."""
    assert taken([form(**openai(delta))]).text_tokens() == tokens(text)


def test_a_legacy_completion_is_counted():
    """Chunks of the old completions endpoint carry their text in the choice."""
    assert taken([{"choices": [{"index": 0, "text": "hello there"}]}]).text_tokens() == 2


class TestText:
    def test_plain_text(self):
        """Strings are counted as they are, together."""
        assert taken(["hel", "lo ", "world"]).text_tokens() == tokens("hello world")

    @pytest.mark.parametrize("item", ['data: {"choices": []}\n\n', "event: end", b"hello", 3, None])
    def test_what_is_no_text(self, item):
        """Events that a function has framed itself, and other things, are not counted."""
        tally = taken([item])
        assert tally.started
        assert not tally.is_countable


class TestFinal:
    def test_reported_zero(self):
        """A reported 0 is a usage, not a missing one."""
        tally = taken([openai(finish="stop"), {"choices": [], "usage": usage(0, 0)}])
        assert tally.is_final
        assert (tally.usage.input_tokens, tally.usage.output_tokens) == (0, 0)

    def test_every_choice_must_finish(self):
        """With n = 2, one finish reason is not the end."""
        tally = taken([openai({"content": "a"}, finish="stop", usage=usage(5, 1))], choices=2)
        assert not tally.is_final
        tally.take(openai({"content": "b"}, finish="length", index=1, usage=usage(5, 2)))
        assert tally.is_final

    def test_an_end_without_finish_reason(self):
        """A stream that ended was whole, though nothing said why it finished."""
        tally = taken([openai({"content": "a"}), {"choices": [], "usage": usage(5, 1)}])
        assert not tally.is_final
        tally.ended = True
        assert tally.is_final

    def test_what_is_still_to_come(self):
        """Only when every answer is over and its usage is missing is it worth waiting for."""
        tally = taken(OPENAI[:3])
        assert not tally.lacks_usage
        tally.take(OPENAI[3])
        assert tally.lacks_usage
        tally.take(OPENAI[4])
        assert not tally.lacks_usage

    def test_impossible_counts(self):
        """Counts that cannot be are passed over."""
        assert taken([{"choices": [], "usage": usage(-1, 5)}]).usage is None

    def test_the_name_of_the_model_stays(self):
        """Anthropic says the model at the start and the counts at the end."""
        assert taken(ANTHROPIC).usage.model == "claude-haiku-4-5"

    @given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 3), min_size=1))
    def test_counts_accumulate(self, counts):
        """Whatever the order of reports, the largest of each count holds, and none gets smaller."""
        tally, before = Tally(), (0, 0, 0)
        for given_, made, cached in counts:
            tally.note(Usage(given_, made, cached_tokens=cached))
            now = tally.usage
            seen = (now.input_tokens, now.output_tokens, now.cached_tokens)
            assert all(b <= n for b, n in zip(before, seen, strict=True))
            before = seen
        assert before == tuple(map(max, zip(*counts, strict=True)))


class Broken:
    """Something whose every attribute raises."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "usage", "delta", "type", "message", "content", "chunk"]
                ),
                inner,
            )
        ),
        max_leaves=8,
    )
)
def test_odd_items_do_not_break_a_stream(item):
    """Whatever an item is, reading it does not raise, and the stream goes on."""
    assert taken([item, Broken()]).started


class TestKinds:
    @pytest.mark.parametrize("item", [*OPENAI, *ANTHROPIC[:4], *RESPONSES, *CONTINUOUS])
    def test_chunks(self, item):
        """Pieces of a stream are told from whole responses."""
        assert is_chunk(item)
        assert is_chunk(thing(**item))

    @pytest.mark.parametrize(
        "item",
        [
            {"choices": [{"message": {"content": "hi"}}], "usage": usage(1, 1)},
            {"object": "response", "usage": {"input_tokens": 1, "output_tokens": 1}},
            {"type": "message", "usage": {"input_tokens": 1, "output_tokens": 1}},
            "text",
            None,
        ],
    )
    def test_responses(self, item):
        """Whole responses, text and nothing are no pieces."""
        assert not is_chunk(item)

    def test_the_chunk_that_only_reports(self):
        """OpenAI's last chunk carries only the usage; Azure's first one, without, is not that."""
        assert [is_usage_only(item) for item in OPENAI] == [False] * 4 + [True]
        assert is_usage_only({"type": "chunk", "chunk": OPENAI[-1]})
        assert not is_usage_only({"choices": [], "prompt_filter_results": []})
        assert not is_usage_only(CONTINUOUS[0])
        assert not is_usage_only("text")
