"""Prices: from the bundled map, from config, and the refusal to guess."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from budgetroute.errors import ConfigError, UnpricedModel
from budgetroute.prices import PriceBook, price_from_config
from budgetroute.records import Fees, Hours, OffPeak, Price, Rates

CHAT = {"mode": "chat", "litellm_provider": "acme"}
PRICED = CHAT | {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}
MICRO = 10**12  # atto-dollars in $1e-6: one dollar per million tokens


@pytest.fixture
def book(tmp_path):
    def write(**entries: dict) -> PriceBook:
        path = tmp_path / f"map{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps({name.replace("__", "/"): e for name, e in entries.items()}))
        return PriceBook(path=path)

    return write


def test_bundled_map_is_exact():
    """A list price that no float holds exactly is read to the last atto-dollar."""
    rates = PriceBook().price("gpt-4o-mini").rates
    assert rates == Rates(150 * 10**9, 600 * 10**9, cached_input=75 * 10**9)


def test_odd_decimal_survives(book):
    """A price of 18 decimals is kept, where float arithmetic would lose digits."""
    entry = json.dumps(PRICED).replace("1e-06", "0.000000123456789123")
    path = book(m=PRICED).map_path()
    path.with_name("odd.json").write_text(f'{{"m": {entry}}}')
    rates = PriceBook(path=path.with_name("odd.json")).price("m").rates
    assert rates.input == 123456789123


def test_litellm_is_not_imported():
    """Reading prices and cards imports neither litellm nor openai."""
    script = (
        "import sys; from budgetroute.prices import PriceBook; b = PriceBook();"
        "b.price('gpt-5'); b.card('gpt-5'); assert b.map_count() > 1000;"
        "print([m for m in ('litellm', 'openai') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({**PRICED, "input_cost_per_token": 0, "output_cost_per_token": 0}, r"\$0"),
        ({**PRICED, "output_cost_per_token": 0.0}, r"\$0"),
        ({**PRICED, "input_cost_per_token": 0}, r"\$0"),
        (CHAT, "without a price"),
        ({**CHAT, "input_cost_per_token": 1e-06}, "without a price"),
        ({**PRICED, "output_cost_per_token": None}, "without a price"),
        ({**PRICED, "output_cost_per_token": True}, "without a price"),
        ({**PRICED, "output_cost_per_token": "2e-06"}, "without a price"),
        ({**PRICED, "mode": "image_generation"}, "image_generation"),
        ({**PRICED, "mode": None}, "no kind of model"),
        ({**PRICED, "output_cost_per_image": 0.04}, "by images"),
        ({**PRICED, "output_cost_per_video_token": 1e-05}, "by video"),
        ({**PRICED, "input_cost_per_video_per_second": 1e-03}, "by seconds of video"),
        ({**CHAT, "input_cost_per_character": 1e-06}, "by characters"),
        ({**CHAT, "input_cost_per_second": 1e-03}, "by seconds of committed capacity"),
        ({**PRICED, "citation_cost_per_token": 1e-05}, "by citations"),
    ],
)
def test_unpriced(book, entry, reason):
    """An entry without two prices above zero for text is unpriced and says why."""
    prices = book(m=entry)
    assert not prices.known("m")
    with pytest.raises(UnpricedModel, match=reason):
        prices.price("m")


def test_missing_model_names_the_line_to_write():
    """A model that is not in the map is named, with near keys and the line to write."""
    with pytest.raises(UnpricedModel) as caught:
        PriceBook().price("gpt-4o-minni", model="answer-model")
    text = str(caught.value)
    assert "'answer-model' (looked up as 'gpt-4o-minni')" in text
    assert "gpt-4o-mini," in text
    assert '[models."answer-model"]' in text


def test_missing_map_says_where(tmp_path):
    """Without a price map nothing is priced, and the error names the file looked for."""
    prices = PriceBook(path=tmp_path / "gone.json")
    assert prices.map_count() == 0
    with pytest.raises(UnpricedModel, match=r"gone\.json"):
        prices.price("gpt-4o-mini")


def test_broken_map_is_a_config_error(tmp_path):
    """A map that is no JSON is reported with its path."""
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"broken\.json"):
        PriceBook(path=path).known("x")


def test_override_wins():
    """The user's price is used instead of the map's; the card still comes from the map."""
    mine = Price("gpt-4o-mini", Rates(1, 2), source="config")
    prices = PriceBook({"gpt-4o-mini": mine})
    assert prices.price("gpt-4o-mini") is mine
    assert prices.card("gpt-4o-mini").max_output_tokens == 16384


def test_override_prices_an_unknown_model():
    """A model outside the map is known once it has a price, and its provider is custom."""
    prices = PriceBook({"mine": Price("mine", Rates(1, 2))})
    assert prices.known("mine")
    assert prices.provider_of("mine") == "custom"


def test_overrides_are_copied(book):
    """Looking up a price of the map does not write into the caller's mapping."""
    mine: dict[str, Price] = {}
    prices = PriceBook(mine, path=book(m=PRICED).map_path())
    prices.price("m")
    assert mine == {}


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("openai/gpt-4o-mini", "openai"),
        ("anthropic/claude-sonnet-4-5", "anthropic"),
        ("bedrock/anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock_converse"),
        ("vertex_ai/gemini-2.5-pro", "vertex_ai-language-models"),
    ],
)
def test_provider_prefix(name, provider):
    """A prefixed name finds the bare entry of the same provider."""
    assert PriceBook().provider_of(name) == provider
    assert PriceBook().known(name)


@pytest.mark.parametrize(
    "name", ["openrouter/gpt-4o-mini", "azure/gpt-4o-mini-nope", "openai/claude-sonnet-4-5"]
)
def test_foreign_prefix_finds_nothing(name):
    """Another provider's entry is never taken for a prefixed name: its price may differ."""
    assert not PriceBook().known(name)


def test_alias(book):
    """An alias has the price of the entry it names; an alias of an alias has none."""
    prices = book(m=PRICED, a={"alias_of": "m"}, b={"alias_of": "a"}, c={"alias_of": "gone"})
    assert prices.price("a").rates == prices.price("m").rates
    assert not prices.known("b")
    assert not prices.known("c")


def test_rule_tables_are_no_models():
    """Rule tables and samples that stand among the models are not priced."""
    prices = PriceBook()
    assert not prices.known("fallback_generalizations")
    assert not prices.known("sample_spec")


def test_context_tiers(book):
    """Tiers come ascending and complete: what a tier does not name is as in the one below."""
    entry = PRICED | {
        "cache_read_input_token_cost": 1e-07,
        "input_cost_per_token_above_256k_tokens": 5e-06,
        "input_cost_per_token_above_32k_tokens": 3e-06,
        "output_cost_per_token_above_32k_tokens": 4e-06,
    }
    assert book(m=entry).price("m").tiers == (
        (32_000, Rates(3 * MICRO, 4 * MICRO, cached_input=MICRO // 10)),
        (256_000, Rates(5 * MICRO, 4 * MICRO, cached_input=MICRO // 10)),
    )


def test_tier_from_the_threshold_on(book):
    """xAI bills the higher tier at the threshold itself, others only above it."""
    tier = {"input_cost_per_token_above_200k_tokens": 3e-06}
    prices = book(grok=PRICED | tier | {"litellm_provider": "xai"}, m=PRICED | tier)
    assert prices.price("grok").tiers[0][0] == 199_999
    assert prices.price("m").tiers[0][0] == 200_000


def test_ranges(book):
    """`tiered_pricing` gives a base and tiers, with the entry's output price where a range has none."""
    steps = [
        {"range": [128e3, 256e3], "input_cost_per_token": 3e-06, "output_cost_per_token": 6e-06},
        {"range": [0, 128e3], "input_cost_per_token": 1e-06},
    ]
    price = book(m=CHAT | {"output_cost_per_token": 2e-06, "tiered_pricing": steps}).price("m")
    assert price.rates == Rates(MICRO, 2 * MICRO)
    assert price.tiers == ((128_000, Rates(3 * MICRO, 6 * MICRO)),)


def test_services(book):
    """A service tier has its own rates, standard ones where it names none, and its own tiers."""
    entry = PRICED | {
        "cache_read_input_token_cost": 1e-07,
        "output_cost_per_reasoning_token": 3e-06,
        "input_cost_per_token_above_200k_tokens": 2e-06,
        "input_cost_per_token_priority": 2e-06,
        "output_cost_per_token_priority": 4e-06,
        "input_cost_per_token_above_200k_tokens_priority": 5e-06,
        "input_cost_per_token_flex": 5e-07,
        "input_cost_per_token_batches": 1e-07,
    }
    price = book(m=entry).price("m")
    assert set(price.services) == {"priority", "flex", "batch"}
    assert price.services["batch"] == replace(price.rates, input=MICRO // 10, reasoning=3 * MICRO)
    fast = Rates(2 * MICRO, 4 * MICRO, cached_input=MICRO // 10)
    assert price.services["priority"] == fast
    assert price.service_tiers["priority"][0][1].input == 5 * MICRO
    assert price.service_tiers["flex"][0][1].input == 2 * MICRO
    assert price.services["flex"].reasoning == 3 * MICRO


def test_anthropic_uplifts():
    """Fast mode and US-only inference multiply every rate, alone and together."""
    price = PriceBook().price("claude-opus-5-5")
    base = price.rates
    assert price.services["fast"].output == 2 * base.output
    assert price.services["us"].input == base.input * 11 // 10
    assert price.services["fast us"].cache_write_long == base.cache_write_long * 22 // 10


def test_hour_long_cache_writes(book):
    """The dearer rate of long-lived cache entries is read, from either of its names."""
    hour = PRICED | {"cache_creation_input_token_cost_above_1hr": 3e-06}
    half_day = PRICED | {"cache_creation_input_token_cost_above_12hr": 4e-06}
    prices = book(a=hour, b=half_day)
    assert prices.price("a").rates.cache_write_long == 3 * MICRO
    assert prices.price("b").rates.cache_write_long == 4 * MICRO


def test_fees(book):
    """Fees per request and per search are read; some providers search in every call."""
    sizes = {"search_context_size_low": 0.005, "search_context_size_high": 0.012}
    search = PRICED | {"search_context_cost_per_query": sizes}
    google = {"litellm_provider": "gemini", "google_maps_grounding_cost_per_query": 0.025}
    prices = book(
        fee=PRICED | {"input_cost_per_token": 0, "input_cost_per_request": 0.005},
        sonar=search | {"litellm_provider": "perplexity"},
        other=search,
        prompt=search | google,
        query=search | google | {"web_search_billing_unit": "per_query"},
        **{"gpt-9-search-preview": search},
    )
    assert prices.price("fee").request_fee == 5 * 10**9
    known = {"low": 5 * 10**9, "high": 12 * 10**9}
    fees = {name: prices.price(name).fees for name in ("sonar", "other", "prompt", "query")}
    assert fees["sonar"] == Fees(known, per_prompt=True, always=True)
    assert fees["other"] == Fees(known)
    assert fees["prompt"] == Fees(known, maps=25 * 10**9, per_prompt=True)
    assert fees["query"] == Fees(known, maps=25 * 10**9)
    assert prices.price("gpt-9-search-preview").fees.always


def test_sound_and_images(book):
    """Rates of sound and images are read, with those of their caches, tiers and services."""
    entry = PRICED | {
        "input_cost_per_audio_token": 3e-06,
        "input_cost_per_audio_token_above_200k_tokens": 4e-06,
        "input_cost_per_audio_token_priority": 5e-06,
        "output_cost_per_audio_token": 6e-06,
        "input_cost_per_image_token": 7e-06,
        "output_cost_per_image_token": 8e-06,
        "cache_read_input_audio_token_cost": 1e-06,
    }
    price = book(m=entry).price("m")
    assert price.rates == Rates(
        MICRO,
        2 * MICRO,
        audio_input=3 * MICRO,
        audio_output=6 * MICRO,
        image_input=7 * MICRO,
        image_output=8 * MICRO,
        cached_audio=MICRO,
    )
    assert price.tiers == ((200_000, replace(price.rates, audio_input=4 * MICRO)),)
    assert price.services["priority"] == replace(price.rates, audio_input=5 * MICRO)


def test_images_at_a_price_each_are_unpriced_only_where_they_can_come(book):
    """A model that answers in text alone makes no image, whatever the map says one costs."""
    each = PRICED | {"output_cost_per_image": 0.04}
    prices = book(
        drawing=each | {"supported_output_modalities": ["text", "image"]},
        writing=each | {"supported_output_modalities": ["text"]},
        counted=each | {"output_cost_per_image_token": 1e-05},
    )
    assert [prices.known(name) for name in ("drawing", "writing", "counted")] == [False, True, True]


def test_off_peak_hours(book):
    """Spans of the day and of weekdays are read, with the rates that hold in them."""
    block = {
        "input_cost_per_token": 5e-07,
        "hours_utc": "16:30-00:30",
        "weekday_timezone": "Asia/Shanghai",
        "windows": [{"hours_utc": ["04:00-06:00", "odd"], "weekdays": [6, 7]}],
    }
    off = book(m=PRICED | {"off_peak_pricing": block}).price("m").off_peak
    assert off == OffPeak(
        (Hours(990, 30), Hours(240, 360, frozenset({6, 7}))),
        Rates(MICRO // 2, 2 * MICRO),
        "Asia/Shanghai",
    )


@pytest.mark.parametrize("change", [{"weekday_timezone": "Mars/Olympus"}, {"hours_utc": "always"}])
def test_off_peak_hours_that_cannot_be_read_give_no_discount(book, change):
    """Then the standard rates hold at all hours: they are never the lower ones."""
    block = {"input_cost_per_token": 5e-07, "hours_utc": "16:30-00:30"} | change
    assert book(m=PRICED | {"off_peak_pricing": block}).price("m").off_peak is None


def test_fireworks_half_price_cache(book):
    """Fireworks reads caches at half price where the map is silent."""
    prices = book(f=PRICED | {"litellm_provider": "fireworks_ai"}, m=PRICED)
    assert prices.price("f").rates.cached_input == MICRO // 2
    assert prices.price("m").rates.cached_input is None


def test_card(book):
    """A card repeats what the map says and leaves out what it does not."""
    entry = PRICED | {
        "max_input_tokens": 1000,
        "max_output_tokens": 0,
        "supports_function_calling": True,
        "supports_sampling_params": False,
        "deprecation_date": "2027-01-01",
    }
    card = book(m=entry).card("m")
    assert (card.provider, card.max_input_tokens, card.max_output_tokens) == ("acme", 1000, None)
    assert card.supports == {"tools": True, "sampling": False}
    assert card.deprecated_on == "2027-01-01"


def test_doctor_sees_the_map():
    """Path, version and size of the bundled map are there for doctor."""
    prices = PriceBook()
    assert isinstance(prices.map_path(), Path)
    assert prices.map_version().count(".") == 2
    assert prices.map_count() > 4000


def test_own_map_has_no_version(book):
    """Another map is not passed off as litellm's."""
    assert book(m=PRICED).map_version() is None


def test_price_from_config():
    """A written price is per million tokens and complete."""
    value = {"input": 0.15, "output": 0.60, "cached_input": 0.075, "reasoning": 1, "request": 0.005}
    price = price_from_config("m", value | {"cache_write": None})
    rates = Rates(15 * MICRO // 100, 6 * MICRO // 10, 75 * MICRO // 1000, None, MICRO)
    assert price == Price("m", rates, request_fee=5 * 10**9, source="config")


def test_free_must_be_said():
    """ "free" is a price of zero; two zeros are refused with the word to write."""
    assert price_from_config("m", "free") == Price("m", Rates(0, 0), source="free")
    with pytest.raises(ConfigError, match='"free"'):
        price_from_config("m", {"input": 0, "output": 0.0})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"input": 1.5e-07, "output": 1}, r"per token.*Write 0\.15"),
        ({"input": 150_000, "output": 1}, "none is above"),
        ({"input": -1, "output": 1}, "from 0 up"),
        ({"input": float("nan"), "output": 1}, "from 0 up"),
        ({"input": float("inf"), "output": 1}, "from 0 up"),
        ({"input": True, "output": 1}, "expected a number"),
        ({"input": "0.1", "output": 1}, "expected a number"),
        ({"input": 1}, "output is missing"),
        ({"input": 1, "output": 1, "cached": 1}, "cached_input"),
        ({"input": 1, "output": 1, "request": 500}, "per request"),
        ({"input": 1, "output": 1, "search": 500}, "per search"),
        ({"gpu_hour": 0}, "more than 0"),
        ({"gpu_hour": 2.5, "watts": 700}, "two prices"),
        ({"watts": 700}, "together"),
        ({"gpu_hour": 2.5, "input": 1}, "unknown key"),
        ({"tokens_per_second": 50}, "gpu_hour"),
        (0.5, "expected"),
        ("gratis", "expected"),
        (None, "expected"),
    ],
)
def test_config_refuses(value, reason):
    """What is no sane price is refused, naming the model and what to write."""
    with pytest.raises(ConfigError, match=reason) as caught:
        price_from_config("mine", value)
    assert '[models."mine"]' in str(caught.value)


@pytest.mark.parametrize("number", [Decimal("0.0001"), 10_000])
def test_config_limits_are_prices(number):
    """The ends of the sane range are allowed."""
    assert price_from_config("m", {"input": number, "output": 1}).rates.input > 0
