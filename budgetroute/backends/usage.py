"""What a response says it used, in one convention; read by shape, without the SDKs.

Providers differ in what a field includes. Here input includes cached and cache-written tokens, and
output includes reasoning:

    shape                    input                                  output
    OpenAI, litellm          prompt_tokens (all of it)              completion_tokens, or total − input
                                                                    where that is more (xAI, Gemini
                                                                    leave reasoning out)
    OpenAI Responses         input_tokens (all of it)               output_tokens
    Anthropic                input + cache read + cache creation    output_tokens
    Gemini                   prompt + tool use prompt               candidates + thoughts
    Bedrock Converse         input + cache read + cache write       output
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING

from budgetroute.backends.fields import ABSURD, UnknownError, field_of, storable, word
from budgetroute.backends.searches import searches_of
from budgetroute.backends.shapes import SHAPES
from budgetroute.records import COUNTS, Usage
from budgetroute.units import is_count

if TYPE_CHECKING:
    from budgetroute.backends.shapes import Counts

__all__ = ["read_usage"]

_log = logging.getLogger("budgetroute")

_BLOCKS = ("usage", "usage_metadata", "usageMetadata")
_FINISHES = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_use": "tool_calls",
}
_TRAFFIC = {"on_demand_priority": "priority", "on_demand_flex": "flex", "flex": "flex"}


def read_usage(response: object) -> Usage | None:
    """Return what a response reports, None when it reports nothing that can be believed.

    Takes responses and usage blocks of the shapes above as objects or dicts, `Usage`, and openai's
    raw responses. A reported 0 stays 0; a count that is negative, fractional, boolean or above 10⁸
    makes the whole usage unknown. Never raises: the call has been paid for.
    """
    try:
        return _read(response)
    except UnknownError:
        _log.warning("usage unknown: %s reports impossible token counts", type(response).__name__)
    except Exception as err:  # noqa: BLE001 - foreign objects may raise anything; the call is paid
        _log.warning("usage unknown: %s (%s)", type(response).__name__, type(err).__name__)
    return None


def _read(response: object) -> Usage | None:
    if response is None or isinstance(response, str | bytes | int | float):
        return None
    if isinstance(response, Usage):
        return _believable(response)
    answer = _unwrapped(response)
    block = next(
        (found for name in _BLOCKS if (found := field_of(answer, name)) is not None), answer
    )
    if _is_filler(answer, block):
        return None
    for shape in SHAPES:
        counts = shape(block)
        if counts is not None:
            return _usage(counts, answer, block)
    return None


def _usage(counts: Counts, answer: object, block: object) -> Usage | None:
    given, made = counts.pop("input_tokens"), counts.pop("output_tokens")
    if given is None or made is None:
        return None
    searches, map_queries, context = searches_of(answer, block)
    return _believable(
        Usage(
            input_tokens=given,
            output_tokens=made,
            model=word(answer, "model", "model_version", "modelVersion"),
            service_tier=_service_tier(answer, block),
            finish_reason=_finish_reason(answer),
            searches=searches,
            map_queries=map_queries,
            search_context=context,
            from_cache=_is_cached(answer),
            **{name: count or 0 for name, count in counts.items()},
        )
    )


def _is_cached(answer: object) -> bool:
    """Say whether litellm answered out of its own cache: it repeats the usage of the first time."""
    hidden = field_of(answer, "_hidden_params")
    return _is_litellm(answer) and field_of(hidden, "cache_hit") is True


def _is_litellm(answer: object) -> bool:
    return type(answer).__module__.startswith("litellm.")


def _is_filler(answer: object, block: object) -> bool:
    """Say whether this is the 0/0 that litellm puts where the provider reported no usage."""
    return _is_litellm(answer) and not any(
        field_of(block, name) for name in ("prompt_tokens", "completion_tokens", "input_tokens")
    )


def _unwrapped(response: object) -> object:
    """Parse the SDKs' raw responses; async ones that are not read yet stay as they are."""
    parse = getattr(response, "parse", None)
    if parse is None or not hasattr(response, "http_response"):
        return response
    if inspect.iscoroutinefunction(parse):
        return _body(response)
    try:
        return parse()
    except Exception:  # noqa: BLE001 - what the caller wants of the answer is not in it; it is paid for
        return _body(response)


def _body(raw: object) -> object:
    """Return the body of a raw response that cannot be parsed here; itself if it is not there."""
    try:
        return getattr(raw, "http_response").json()  # noqa: B009 - a foreign object's
    except (RuntimeError, ValueError):  # not read yet; no JSON
        return raw


def _believable(usage: Usage) -> Usage:
    counts = [getattr(usage, name) for name in COUNTS]
    if not all(is_count(count) and count <= ABSURD for count in counts):
        raise UnknownError
    return usage


def _service_tier(answer: object, block: object) -> str | None:
    said = (word(block, "speed"), word(block, "inference_geo"))
    special = [each for each in said if each in {"fast", "us"}]
    if special:
        return " ".join(special)
    tier = word(answer, "service_tier") or word(block, "service_tier")
    tier = tier or word(field_of(answer, "serviceTier"), "type")  # Bedrock
    return tier or _TRAFFIC.get(_traffic(answer, block))


def _traffic(answer: object, block: object) -> str:
    """Return Gemini's traffic type, which litellm keeps among its hidden parameters."""
    hidden = field_of(field_of(answer, "_hidden_params"), "provider_specific_fields")
    for place, name in ((block, "traffic_type"), (block, "trafficType"), (hidden, "traffic_type")):
        said = field_of(place, name)
        if said is not None:
            return str(getattr(said, "value", said)).lower()
    return ""


def _finish_reason(answer: object) -> str | None:
    choices = field_of(answer, "choices") or field_of(answer, "candidates")
    first = choices[0] if isinstance(choices, list | tuple) and choices else None
    incomplete = field_of(answer, "incomplete_details")
    for place, name in (
        (first, "finish_reason"),
        (first, "finishReason"),
        (incomplete, "reason"),
        (answer, "stop_reason"),
        (answer, "stopReason"),
        (answer, "status"),
    ):
        said = field_of(place, name)
        if said is not None:
            lowered = storable(str(getattr(said, "value", said)).lower())
            return _FINISHES.get(lowered, lowered)
    return None
