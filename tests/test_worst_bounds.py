"""Whatever a provider may legally report within what a request declares was held before the call."""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.world import MODELS, World, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute.billing import input_bound
from budgetroute.calls.prompts import read_prompt
from budgetroute.clock import ManualClock
from budgetroute.records import COUNTS, Action, InputSize, Pins, Terms, Usage
from budgetroute.router.table import make_row
from budgetroute.stores import MemoryStore
from budgetroute.terms import terms_asked
from budgetroute.tokens import O200k, measure_messages

SCRIPTS = [
    "The quick brown fox. ", "THE LOUD FOX ", "यह एक परीक्षण है। ", "இது ஒரு சோதனை. ", "这是一个测试。",
    "Это проверка. ", "هذا اختبار. ", "😀🎉🚀", "3141592653", "    ", "\n\n\n\n", "=" * 40, "-" * 7,
    "deadbeef01", "aGVsbG8gd29ybGQ=", "def f(x):\n        return x**2\n", "12.5,67.9\n", "\t\t\t\t",
    "ŧëšţ", "ꦗꦮ", "\x00\x01", "......", '{"a": [1, 2]}',
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(SCRIPTS), max_size=30).map("".join),
    st.lists(st.sampled_from(SCRIPTS), min_size=1, max_size=1).map(lambda one: one[0] * 60),
    st.text(max_size=200),
)
O200K = O200k()


@pytest.fixture(scope="module")
def tokenizers():
    """Name → a real tokenizer's count, from the files inside litellm."""
    import importlib.util

    import tiktoken

    foreign = pytest.importorskip("tokenizers")
    package = importlib.util.find_spec("litellm")
    folder = Path(package.origin).parent / "litellm_core_utils" / "tokenizers"
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        encodings = [tiktoken.get_encoding(name) for name in ("cl100k_base",)]
    finally:
        os.environ.pop("TIKTOKEN_CACHE_DIR")
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    loaded = {
        name: foreign.Tokenizer.from_file(str(folder / f"{name}_tokenizer.json"))
        for name in ("anthropic", "deepseek")
    }
    return {e.name: lambda text, e=e: len(e.encode_ordinary(text)) for e in encodings} | {
        name: lambda text, t=t: len(t.encode(text, add_special_tokens=False).ids)
        for name, t in loaded.items()
    }


@settings(max_examples=150, deadline=None)
@given(text=texts)
def test_no_tokenizer_makes_more_tokens_than_the_bound(tokenizers, text):
    """Scripts, digits, runs and code: other tokenizers stay under the bound of one message.

    Claude's old tokenizer normalises first (NFKC), which can lengthen a text: not tried on those.
    """
    size = measure_messages([{"role": "user", "content": text}], tokenizer=O200K)
    bound = input_bound(size, ratio=1.6, overhead=0, image_tokens=None, foreign=True)
    for name, count in tokenizers.items():
        if name != "anthropic" or unicodedata.normalize("NFKC", text) == text:
            assert count(text) <= bound, name


def test_hindi_is_not_bounded_by_its_count(tokenizers):
    """Three times as many tokens as o200k's: 1.6 × the count would hold too little."""
    text = "यह एक परीक्षण वाक्य है जो बताता है कि शब्द कैसे काटे जाते हैं। " * 20
    size = O200K.measure(text)
    assert tokenizers["cl100k_base"](text) > 3 * size.tokens
    assert size.odd > 0


def test_english_is_not_held_threefold(tokenizers):
    """The bound stays near the count where tokenizers agree."""
    size = O200K.measure("The quick brown fox jumps over the lazy dog. " * 20)
    bound = input_bound(size, ratio=1.6, overhead=0, image_tokens=None, foreign=True)
    assert bound <= 1.75 * size.tokens


OTHERS = {
    "gpt-4": "openai",
    "gpt-5": "openai",
    "gemini-2.5-pro": "vertex_ai-language-models",
    "claude-sonnet-4-5": "anthropic",
    "deepseek-flash": "deepseek",
    "dashscope/qwen-plus-2025-04-28": "dashscope",
    "perplexity/sonar": "perplexity",
}
CONFIG = MODELS + "".join(
    f'[models."{name}"]\nlike = "mid"\nmax_tokens = [1024]\nimage_tokens = 1500\n'
    for name in OTHERS
)
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "पता करो 123", "parameters": {}},
}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA" * 50, "format": "wav"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bounds")


def fresh(folder):
    """Return a router that has learnt nothing, and its clock."""
    clock = ManualClock(datetime(2026, 11, 30, 2, tzinfo=UTC))
    world = World(folder, clock, MemoryStore(clock))
    return world.router(budget="daily_usd = 100000.0", models=CONFIG), clock


parts = st.lists(
    st.one_of(texts.map(lambda t: {"type": "text", "text": t}), st.sampled_from([IMAGE, SOUND])),
    min_size=1,
    max_size=3,
)
shares = st.floats(0, 1)


def provider_input(messages, tools, schema, count):
    """Return the most input tokens that a provider with this tokenizer counts for a prompt."""
    total = 3
    for message in messages:
        total += 4
        for part in message["content"]:
            if part is IMAGE:
                total += 1500
            elif part is SOUND:
                total += 100
            else:
                total += count(part["text"])
    total += sum(count(str(tool)) + 400 for tool in tools[:1]) + sum(
        count(str(t)) for t in tools[1:]
    )
    return total + (count(str(schema)) if schema else 0)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_legal_report_costs_more_than_was_held(folder, tokenizers, data):
    """Tools, schema, images, sound, choices, calls, tiers, hours, searches, thinking beside the cap."""
    opened, clock = fresh(folder)
    draw = data.draw
    model = draw(st.sampled_from(sorted(OTHERS)))
    messages = [
        {"role": "user", "content": content} for content in draw(st.lists(parts, max_size=3))
    ]
    tools = draw(st.lists(st.sampled_from([TOOL, SEARCH]), max_size=2))
    schema = draw(st.none() | st.just({"type": "json_schema", "json_schema": {"name": "x"}}))
    asked_for = draw(st.sampled_from([{}, {"service_tier": "priority"}, {"service_tier": "flex"}]))
    arguments = {"tools": tools, "response_format": schema} | asked_for
    prompt = read_prompt(messages, arguments)
    n, calls = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    clock.at = datetime(2026, 11, 30, tzinfo=UTC) + timedelta(minutes=draw(st.integers(0, 10_000)))
    decision = opened.decide(
        asked(
            size=prompt.size,
            pins=Pins(model=model, max_tokens=1024, cot=False, n=n),
            baseline=None,
            calls=calls,
            terms=terms_asked(arguments),
            prompt_type="math",
        )
    )
    clock.at += timedelta(minutes=draw(st.integers(0, 600)))
    openai = OTHERS[model] == "openai"
    count = (
        tokenizers["cl100k_base"] if openai or model == "deepseek-flash" else tokenizers["deepseek"]
    )
    if model == "gpt-5":

        def count(text):
            return O200K.measure(text).tokens

    given_tokens = provider_input(messages, tools, schema, count)
    made = n * 1024 + (n * 16_000 if "qwen" in model else 0)
    usages = [legal(draw, given_tokens, made, tools, asked_for) for _ in range(calls)]
    settlement = opened.settle(decision, usages)
    assert settlement.overshoot == 0, (usages, decision.worst_usd, settlement.usd)


@pytest.mark.parametrize(
    "text", [SCRIPTS[2] * 200, SCRIPTS[3] * 200, SCRIPTS[5] * 200, SCRIPTS[14] * 200]
)
def test_a_long_prompt_of_another_script_is_held(folder, tokenizers, text):
    """A prompt that GPT-4's tokenizer cuts much finer than o200k fits what was held for it."""
    opened, _ = fresh(folder)
    messages = [{"role": "user", "content": text}]
    pins = Pins(model="gpt-4", max_tokens=1024, cot=False)
    decision = opened.decide(asked(size=read_prompt(messages, {}).size, pins=pins, baseline=None))
    usage = Usage(tokenizers["cl100k_base"](text) + 7, 1024)
    assert opened.settle(decision, [usage]).overshoot == 0


def legal(draw, given_tokens, made, tools, asked_for):
    """Return a usage within the bounds, its parts drawn at will."""
    parts = {name: int(draw(shares) * given_tokens) for name in COUNTS}
    return Usage(
        **parts
        | {
            "input_tokens": given_tokens,
            "output_tokens": made,
            "audio_tokens": 100 if draw(st.booleans()) else 0,
            "image_tokens": 0,
            "cached_audio_tokens": 0,
            "audio_output_tokens": 0,
            "image_output_tokens": 0,
            "reasoning_tokens": int(draw(shares) * made),
            "searches": 2 * tools.count(SEARCH),
            "map_queries": 0,
        },
        service_tier=draw(st.sampled_from([None, *asked_for.values()])),
        search_context=draw(st.sampled_from([None, "low", "high"])),
    )


class TestThinkingBesideTheCap:
    QWEN = "dashscope/qwen-plus-2025-04-28"

    def worst(self, folder, **params):
        opened, _ = fresh(folder)
        facts = opened.equipment.facts(self.QWEN)
        row = make_row(Action(self.QWEN, 100, params=tuple(params.items())), facts, {})
        return row.worst(InputSize(0, 0), overhead=0, calls=1, terms=Terms())

    def test_its_budget_bounds_it(self, folder):
        """`thinking_budget` is held beside the cap; without one the longest answer is."""
        rate = 4 * 10**6  # pico-dollars per token of its dearest output
        assert self.worst(folder, thinking_budget=500) == 600 * rate
        assert self.worst(folder, extra_body={"thinking_budget": 500}) == 600 * rate
        assert self.worst(folder, enable_thinking=False) == 100 * rate
        assert self.worst(folder) > 10_000 * rate
