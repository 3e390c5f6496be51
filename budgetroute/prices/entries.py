"""One entry of litellm's price map → a Price and a ModelCard.

Not read: regional uplifts that no response names. Models that make video, images at a price each,
or bill by characters, citations, seconds of video or hours of commitment have no price for that
reason: no usage says how much of it there was.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from budgetroute.prices.schedules import Entry, is_amount, off_peak, rate, services, standard
from budgetroute.records import Fees, ModelCard, Price
from budgetroute.units import pico_from_usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.units import Pico

__all__ = ["Entry", "card_of", "is_text", "price_of", "problem_of", "serves"]

_TEXT_MODES = frozenset({"chat", "responses", "completion"})
_SEARCHES_ONCE = "perplexity"  # in every call, at one fee a call
_ALWAYS_SEARCH = ("-search-preview", "-search-api")  # OpenAI's, in every call
_BY_PROMPT = ("gemini", "vertex_ai")  # one fee a call, unless the entry says per_query
_SIZES = ("low", "medium", "high")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_UNCOUNTED = {
    "output_cost_per_video_token": "video",
    "input_cost_per_video_per_second": "seconds of video",
    "citation_cost_per_token": "citations",
}
_OTHER_UNITS = {
    "input_cost_per_character": "characters",
    "output_cost_per_character": "characters",
    "input_cost_per_second": "seconds of committed capacity",
    "cost_per_second": "seconds of committed capacity",
    "input_cost_per_image": "images",
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
        efforts=_efforts(entry),
    )


def _efforts(entry: Entry) -> dict[str, bool]:
    """Return effort → whether the map says that it is taken; the list of levels wins over flags."""
    levels = entry.get("reasoning_effort_levels")
    if isinstance(levels, list) and levels:
        return {effort: effort in levels for effort in _EFFORTS}
    said = {effort: entry.get(f"supports_{effort}_reasoning_effort") for effort in _EFFORTS}
    return {effort: flag for effort, flag in said.items() if isinstance(flag, bool)}


def _tokens(entry: Entry, name: str) -> int | None:
    value = entry.get(name)
    return int(value) if isinstance(value, int | Decimal) and value > 0 else None


def is_text(entry: Entry) -> bool:
    """Say whether an entry is of a text model."""
    return entry.get("mode") in _TEXT_MODES


def problem_of(entry: Entry) -> str | None:
    """Say why an entry has no usable price; None = it has one."""
    mode = entry.get("mode")
    if mode not in _TEXT_MODES:
        return f"the price map lists it as {mode or 'no kind of model'}, not as a text model"
    unit = next(_uncounted(entry), None)
    if unit is not None:
        return f"the price map bills it by {unit} as well as by tokens, which no usage counts"
    schedule = standard(entry)
    if schedule is None:
        units = [unit for name, unit in _OTHER_UNITS.items() if rate(entry, name)]
        instead = f": it bills by {units[0]}" if units else ""
        return f"the price map lists it without a price per input and output token{instead}"
    if not schedule[0].output or not (schedule[0].input or _request_fee(entry)):
        return "the price map lists $0, which may mean free or unknown"
    return None


def price_of(key: str, entry: Entry) -> Price:
    """Return the price of an entry; raises ValueError where `problem_of` finds one."""
    usual = standard(entry)
    if usual is None:
        raise ValueError(f"{key!r}: {problem_of(entry)}")
    others = services(entry, usual)
    return Price(
        key=key,
        rates=usual[0],
        tiers=usual[1],
        services={name: rates for name, (rates, _) in others.items()},
        request_fee=_request_fee(entry),
        service_tiers={name: tiers for name, (_, tiers) in others.items() if tiers},
        fees=_fees(key, entry),
        off_peak=off_peak(entry, usual[0]),
    )


def _uncounted(entry: Entry) -> Iterator[str]:
    """Yield what an entry bills by that usage does not count."""
    for name, unit in _UNCOUNTED.items():
        if rate(entry, name):
            yield unit
    makes = entry.get("supported_output_modalities") or ["image"]
    if (
        "image" in makes
        and rate(entry, "output_cost_per_image")
        and not rate(entry, "output_cost_per_image_token")
    ):
        yield "images"


def _request_fee(entry: Entry) -> Pico:
    fee = entry.get("input_cost_per_request")
    return pico_from_usd(fee) if is_amount(fee) else 0


def _fees(key: str, entry: Entry) -> Fees:
    sizes, maps = (
        entry.get("search_context_cost_per_query"),
        entry.get("google_maps_grounding_cost_per_query"),
    )
    known = sizes if isinstance(sizes, Mapping) else {}
    owner = entry["litellm_provider"]
    once = owner == _SEARCHES_ONCE
    by_prompt = owner.startswith(_BY_PROMPT) and "anthropic" not in owner
    return Fees(
        search={
            size: pico_from_usd(fee)
            for size in _SIZES
            if is_amount(fee := known.get(f"search_context_size_{size}"))
        },
        maps=pico_from_usd(maps) if is_amount(maps) else 0,
        per_prompt=once or (by_prompt and entry.get("web_search_billing_unit") != "per_query"),
        always=bool(known) and (once or any(word in key for word in _ALWAYS_SEARCH)),
    )
