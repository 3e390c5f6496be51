"""What cost_truth compares: the usages, and the classes that differences may fall into."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from budgetroute.records import Usage

if TYPE_CHECKING:
    from budgetroute.records import Price

PEAK = datetime(2026, 11, 30, 2, tzinfo=UTC)  # a Monday, in no off-peak hour of the map
NIGHT = datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Saturday

SHAPES: dict[str, Usage] = {
    "nothing": Usage(0, 0),
    "one token": Usage(1, 1),
    "text": Usage(1000, 500),
    "input alone": Usage(5000, 0),
    "cached": Usage(1000, 500, cached_tokens=800),
    "all cached": Usage(1000, 500, cached_tokens=1000),
    "written": Usage(1000, 500, cache_write_tokens=300),
    "read and written": Usage(1000, 500, cached_tokens=600, cache_write_tokens=400),
    "written for an hour": Usage(1000, 500, cache_write_tokens=300, cache_write_long_tokens=200),
    "reasoning": Usage(1000, 500, reasoning_tokens=400),
    "all reasoning": Usage(1000, 500, reasoning_tokens=500),
    "at 128,000": Usage(128_000, 10),
    "at 200,000": Usage(200_000, 10),
    "above 200,000": Usage(200_001, 10, cached_tokens=100_000),
    "above 272,000": Usage(300_000, 2000, cached_tokens=5, cache_write_tokens=7),
    "above 512,000": Usage(600_000, 10, cached_tokens=1000, reasoning_tokens=5),
    "flex": Usage(1000, 500, cached_tokens=5, reasoning_tokens=9, service_tier="flex"),
    "priority": Usage(1000, 500, cached_tokens=5, reasoning_tokens=9, service_tier="priority"),
    "priority, long": Usage(300_000, 500, cached_tokens=5, service_tier="priority"),
    "flex, long": Usage(300_000, 500, cached_tokens=5, service_tier="flex"),
    "batch": Usage(1000, 500, service_tier="batch"),
    "batch, cached": Usage(1000, 500, cached_tokens=300, service_tier="batch"),
    "batch, long": Usage(300_000, 500, service_tier="batch"),
    "sound in": Usage(1000, 500, audio_tokens=400),
    "sound out": Usage(1000, 500, audio_output_tokens=400),
    "sound, cached": Usage(1000, 500, audio_tokens=400, cached_tokens=300, cached_audio_tokens=100),
    "images in": Usage(1000, 500, image_tokens=300),
    "images out": Usage(1000, 500, image_output_tokens=300),
    "one search": Usage(1000, 500, searches=1),
    "three searches": Usage(1000, 500, searches=3),
    "maps": Usage(1000, 500, map_queries=2),
    "at night": Usage(1000, 500, cached_tokens=300, reasoning_tokens=9),
    "fast": Usage(1000, 500, cached_tokens=10, service_tier="fast"),
    "US region": Usage(1000, 500, cached_tokens=10, service_tier="us"),
}
"""Name → what was used; "at night" is billed at NIGHT, the others at PEAK."""

BATCH = "batch"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Class:
    """A kind of difference: whose figure is taken to be right, and why.

    Attributes:
        says: what the two sides do.
        why: why the difference stays.
        dearer_here: ours may never be the lower one.
    """

    says: str
    why: str
    dearer_here: bool = True


CLASSES: dict[str, Class] = {
    "batch without rates": Class(
        "the map has no batch rates for the model: litellm takes half the standard rates, here the "
        "standard rates are billed and a warning names the tier",
        "half is the usual discount, and still a guess; money is not guessed downwards",
    ),
    "batch beyond its rates": Class(
        "the map has batch rates, but not for this class of tokens or this length of context: litellm "
        "takes the plain batch rate, here the standard rate of the class or tier is billed",
        "what is not listed is not guessed downwards",
    ),
    "searches in every call": Class(
        "OpenAI's search models search in every call: here each call pays one fee, in litellm only a "
        "call that reports searches",
        "the provider bills each request",
    ),
    "context size of searches": Class(
        "the fee depends on how much a search reads, and the answer does not say: litellm takes the "
        "medium fee, here the dearest",
        "a search of unknown size is not taken to be a small one",
    ),
    "Perplexity": Class(
        "litellm has a calculator of its own for it, which knows no request fees without reported "
        "searches, no context tiers and no cache writes, and multiplies the small fee by the queries",
        "Perplexity bills one fee per request by context size; the map's other rates hold as usual",
        dearer_here=False,
    ),
    "Fireworks": Class(
        "litellm's calculator for Fireworks takes no service tier; here the map's rates for it are "
        "billed",
        "the answer says at which tier it was served",
    ),
    "searches without a fee": Class(
        "the map has no fee for the model: litellm takes a list price that it knows ($0.035 for "
        "Gemini, $0.005 for xAI); here none is billed, and a warning names the line to write",
        "a fee that was not looked up is not invented: `search` in the model's `price` says it",
        dearer_here=False,
    ),
    "maps without a fee": Class(
        "the same for look-ups in maps ($0.014 or $0.025 in litellm)",
        "as above; the warning says so",
        dearer_here=False,
    ),
    "another entry": Class(
        "litellm prices the map's `provider/name` when asked for `name`, and `provider/x` for "
        "`provider/provider/x`",
        "here the entry that was named is applied",
        dearer_here=False,
    ),
}
"""In the order of the page."""


WORDS = {
    "cached_tokens": "cached",
    "cache_write_tokens": "written",
    "cache_write_long_tokens": "of them for an hour",
    "reasoning_tokens": "reasoning",
    "audio_tokens": "sound in",
    "cached_audio_tokens": "of the cached sound",
    "image_tokens": "images in",
    "audio_output_tokens": "sound out",
    "image_output_tokens": "images out",
    "searches": "searches",
    "map_queries": "look-ups in maps",
    "service_tier": "tier",
}
"""Field of Usage → its word on the page."""


def explain(key: str, usage: Usage, price: Price, *, provider: str, known: frozenset[str]) -> str:
    """Name the class of a difference, UNEXPLAINED when nothing explains it."""
    reasons = (
        (usage.map_queries > 0 and not price.fees.maps, "maps without a fee"),
        (usage.searches > 0 and not price.fees.search, "searches without a fee"),
        (usage.service_tier == BATCH and "batch" not in price.services, "batch without rates"),
        (usage.service_tier == BATCH, "batch beyond its rates"),
        (provider == "perplexity", "Perplexity"),
        (price.fees.always and not usage.searches, "searches in every call"),
        (
            usage.searches > 0 and len(set(price.fees.search.values())) > 1,
            "context size of searches",
        ),
        (provider == "fireworks_ai" and usage.service_tier in {"priority", "fast"}, "Fireworks"),
        (
            f"{provider}/{key}" in known or key.startswith(f"{provider}/{provider}/"),
            "another entry",
        ),
    )
    return next((name for holds, name in reasons if holds), UNEXPLAINED)
