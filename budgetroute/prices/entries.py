"""One entry of litellm's price map → a Price and a ModelCard.

Numbers are Decimals (exact in atto-dollars). Not read: batch rates (nothing here is sent as a
batch), off-peak discounts (the standard rate is never lower), regional uplifts that no response
names, audio and image input rates. Models that answer in anything but text, or bill by citations,
have no price for that reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from budgetroute.records import ModelCard, Price, Rates
from budgetroute.units import atto_from_usd_per_token, pico_from_usd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from budgetroute.units import Atto, Pico

__all__ = ["Entry", "card_of", "price_of", "problem_of", "serves"]

Entry: TypeAlias = Mapping[str, Any]
_Schedule: TypeAlias = tuple[Rates, tuple[tuple[int, Rates], ...]]

_TEXT_MODES = frozenset({"chat", "responses", "completion"})
_STEMS = {
    "input": ("input_cost_per_token",),
    "output": ("output_cost_per_token",),
    "cached_input": ("cache_read_input_token_cost",),
    "cache_write": ("cache_creation_input_token_cost",),
    "reasoning": ("output_cost_per_reasoning_token",),
    "cache_write_long": (
        "cache_creation_input_token_cost_above_12hr",
        "cache_creation_input_token_cost_above_1hr",
    ),
}
_THRESHOLD = re.compile(
    rf"(?:{'|'.join(stem for stems in _STEMS.values() for stem in stems)})"
    r"_above_(?P<count>\d+)(?P<k>k?)_tokens(?:_(?P<service>\w+))?"
)
_SERVICES = ("flex", "balanced", "priority", "ultrafast")
_AT_LEAST = frozenset({"xai"})  # bills the higher tier from the threshold on, others above it
_CACHED_SHARE = {"fireworks_ai": Decimal("0.5")}  # its rule where the map names no cached rate
_ALWAYS_SEARCHES = "perplexity"
_NOT_TEXT = {
    "output_cost_per_audio_token": "audio",
    "output_cost_per_image": "images",
    "output_cost_per_image_token": "images",
    "output_cost_per_video_token": "video",
    "citation_cost_per_token": "citations",
}
_FAMILIES = {"bedrock": "bedrock_converse", "vertex_ai": "vertex_ai-"}
_FLAGS = {
    "tools": "supports_function_calling",
    "vision": "supports_vision",
    "response_schema": "supports_response_schema",
    "reasoning": "supports_reasoning",
    "sampling": "supports_sampling_params",
    "prompt_caching": "supports_prompt_caching",
}


def serves(provider: str, entry: Entry) -> bool:
    """Say whether an entry belongs to the provider that a name was prefixed with."""
    owner = entry["litellm_provider"]
    return bool(owner == provider or owner.startswith(_FAMILIES.get(provider, "\0")))


def card_of(key: str, entry: Entry) -> ModelCard:
    """Return what the entry says besides the price."""
    return ModelCard(
        key=key,
        provider=entry["litellm_provider"],
        max_input_tokens=_tokens(entry, "max_input_tokens"),
        max_output_tokens=_tokens(entry, "max_output_tokens"),
        supports={
            capability: entry[flag]
            for capability, flag in _FLAGS.items()
            if isinstance(entry.get(flag), bool)
        },
        deprecated_on=entry.get("deprecation_date"),
    )


def _tokens(entry: Entry, name: str) -> int | None:
    value = entry.get(name)
    return int(value) if isinstance(value, int | Decimal) and value > 0 else None


def problem_of(entry: Entry) -> str | None:
    """Say why an entry has no usable price; None = it has one."""
    mode = entry.get("mode")
    if mode not in _TEXT_MODES:
        return f"the price map lists it as {mode or 'no kind of model'}, not as a text model"
    for name, unit in _NOT_TEXT.items():
        if _rate(entry, name):
            return f"the price map bills it by {unit} as well as by tokens"
    schedule = _standard(entry)
    if schedule is None:
        return "the price map lists it without a price per input and output token"
    if not schedule[0].output or not (schedule[0].input or _fee(entry)):
        return "the price map lists $0, which may mean free or unknown"
    return None


def price_of(key: str, entry: Entry) -> Price:
    """Return the price of an entry; raises ValueError where `problem_of` finds one."""
    schedule = _standard(entry)
    if schedule is None:
        raise ValueError(f"{key!r}: {problem_of(entry)}")
    services = {**_service_schedules(entry, schedule), **_uplifted(entry, schedule)}
    return Price(
        key=key,
        rates=schedule[0],
        tiers=schedule[1],
        services={name: rates for name, (rates, _) in services.items()},
        request_fee=_fee(entry),
        service_tiers={name: tiers for name, (_, tiers) in services.items() if tiers},
    )


def _standard(entry: Entry) -> _Schedule | None:
    if "tiered_pricing" in entry:
        return _ranged(entry)
    least, most = _rate(entry, "input_cost_per_token"), _rate(entry, "output_cost_per_token")
    if least is None or most is None:
        return None
    base = _refined(Rates(least, most), entry, [""])
    share = _CACHED_SHARE.get(entry["litellm_provider"])
    if share is not None and base.cached_input is None:
        base = replace(base, cached_input=int(base.input * share))
    return base, _tiers(entry, base, "")


def _ranged(entry: Entry) -> _Schedule | None:
    """Read `tiered_pricing`, a list of ranges; the lowest is the base."""
    steps = []
    ranges = [step for step in entry["tiered_pricing"] if step.get("range")]
    for step in sorted(ranges, key=lambda step: step["range"][0]):
        least = _rate(step, "input_cost_per_token")
        most = _rate({**entry, **step}, "output_cost_per_token")
        if least is not None and most is not None:
            steps.append((int(step["range"][0]), _refined(Rates(least, most), step, [""])))
    return (steps[0][1], tuple(steps[1:])) if steps else None


def _service_schedules(entry: Entry, standard: _Schedule) -> dict[str, _Schedule]:
    found: dict[str, _Schedule] = {}
    for service in _SERVICES:
        end = f"_{service}"
        if not any(_own(entry, name, [end]) for name in _STEMS):
            continue
        base = _refined(standard[0], entry, [end])
        if _own(entry, "output", [end]) and not _own(entry, "reasoning", [end]):
            base = replace(base, reasoning=None)
        found[service] = (base, _tiers(entry, base, end))
    return found


def _tiers(entry: Entry, base: Rates, end: str) -> tuple[tuple[int, Rates], ...]:
    """Return the context tiers; what a tier does not name is as in the tier below.

    A service without own rates for a tier has the standard ones there.
    """
    at_least = entry["litellm_provider"] in _AT_LEAST
    tiers, rates = [], base
    for above, spelt in sorted(_thresholds(entry, end)):
        rates = _refined(rates, entry, [f"_above_{spelt}_tokens{end}", f"_above_{spelt}_tokens"])
        tiers.append((above - at_least, rates))
    return tuple(tiers)


def _thresholds(entry: Entry, end: str) -> set[tuple[int, str]]:
    found = set()
    for name in entry:
        match = _THRESHOLD.fullmatch(name)
        if match and match["service"] in {None, end.removeprefix("_")}:
            thousand = 1000 if match["k"] else 1
            found.add((int(match["count"]) * thousand, match["count"] + match["k"]))
    return found


def _uplifted(entry: Entry, standard: _Schedule) -> dict[str, _Schedule]:
    """Return Anthropic's fast mode and US-only inference, which multiply every rate."""
    factors = entry.get("provider_specific_entry")
    if entry["litellm_provider"] != "anthropic" or not isinstance(factors, Mapping):
        return {}
    known = {name: Decimal(factors[name]) for name in ("fast", "us") if name in factors}
    if len(known) == 2:  # noqa: PLR2004 - both at once
        known["fast us"] = known["fast"] * known["us"]
    return {name: _scaled(standard, factor) for name, factor in known.items()}


def _scaled(schedule: _Schedule, factor: Decimal) -> _Schedule:
    rates, tiers = schedule
    return _times(rates, factor), tuple((above, _times(tier, factor)) for above, tier in tiers)


def _times(rates: Rates, factor: Decimal) -> Rates:
    own = ((name, getattr(rates, name)) for name in _STEMS)
    return replace(rates, **{name: int(rate * factor) for name, rate in own if rate is not None})


def _fee(entry: Entry) -> Pico:
    """Return the fee per request; Perplexity's search fee is taken at its dearest context size."""
    fees = [entry.get("input_cost_per_request")]
    sizes = entry.get("search_context_cost_per_query")
    if entry["litellm_provider"] == _ALWAYS_SEARCHES and isinstance(sizes, Mapping):
        fees += sizes.values()
    return max((pico_from_usd(fee) for fee in fees if _is_amount(fee)), default=0)


def _refined(rates: Rates, entry: Entry, ends: Iterable[str]) -> Rates:
    own = {name: _own(entry, name, ends) for name in _STEMS}
    return replace(rates, **{name: rate for name, rate in own.items() if rate is not None})


def _own(entry: Entry, name: str, ends: Iterable[str]) -> Atto | None:
    for end in ends:
        for stem in _STEMS[name]:
            rate = _rate(entry, stem + end)
            if rate is not None:
                return rate
    return None


def _rate(entry: Entry, name: str) -> Atto | None:
    value = entry.get(name)
    return atto_from_usd_per_token(value) if _is_amount(value) else None


def _is_amount(value: object) -> TypeGuard[int | Decimal]:
    return isinstance(value, int | Decimal) and not isinstance(value, bool) and value >= 0
