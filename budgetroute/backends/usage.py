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
from collections.abc import Mapping
from typing import TypeAlias

from budgetroute.records import Usage
from budgetroute.units import is_count

__all__ = ["read_usage"]

_log = logging.getLogger("budgetroute")

_Counts: TypeAlias = "dict[str, int | None]"

_ABSURD = 10**9
_PARTS = ("cached_tokens", "cache_write_tokens", "cache_write_long_tokens", "reasoning_tokens")
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


class _UnknownError(Exception):
    """A count is there but cannot be one."""


def read_usage(response: object) -> Usage | None:
    """Return what a response reports, None when it reports nothing that can be believed.

    Takes responses and usage blocks of the shapes above as objects or dicts, `Usage`, and openai's
    raw responses. A reported 0 stays 0; a count that is negative, fractional, boolean or above 10⁹
    makes the whole usage unknown. Never raises: the call has been paid for.
    """
    try:
        return _read(response)
    except _UnknownError:
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
    block = next((found for name in _BLOCKS if (found := _get(answer, name)) is not None), answer)
    if _is_filler(answer, block):
        return None
    for shape in (_openai, _responses, _anthropic, _gemini, _bedrock):
        counts = shape(block)
        if counts is not None:
            return _usage(counts, answer, block)
    return None


def _usage(counts: _Counts, answer: object, block: object) -> Usage | None:
    given, made = counts.pop("input_tokens"), counts.pop("output_tokens")
    if given is None or made is None:
        return None
    return _believable(
        Usage(
            input_tokens=given,
            output_tokens=made,
            model=_text(answer, "model", "model_version", "modelVersion"),
            service_tier=_service_tier(answer, block),
            finish_reason=_finish_reason(answer),
            **{name: count or 0 for name, count in counts.items()},
        )
    )


def _openai(block: object) -> _Counts | None:
    given, total = _count(block, "prompt_tokens"), _count(block, "total_tokens")
    if given is None:
        return None
    made = _count(block, "completion_tokens")
    if total is not None:
        made = max(made or 0, total - given)
    details, made_of = (
        _get(block, "prompt_tokens_details"),
        _get(block, "completion_tokens_details"),
    )
    kept = _get(details, "cache_creation_token_details")
    return {
        "input_tokens": given,
        "output_tokens": made,
        "cached_tokens": _first(
            (details, "cached_tokens"),
            (block, "prompt_cache_hit_tokens"),  # DeepSeek
            (block, "cached_tokens"),  # Moonshot
            (block, "cache_read_input_tokens"),
        ),
        "cache_write_tokens": _first(
            (details, "cache_write_tokens"),
            (details, "cache_creation_tokens"),
            (block, "cache_creation_input_tokens"),
        ),
        "cache_write_long_tokens": _kept_long(kept),
        "reasoning_tokens": _first((made_of, "reasoning_tokens"), (block, "reasoning_tokens")),
    }


def _responses(block: object) -> _Counts | None:
    details = _get(block, "input_tokens_details")
    if details is None:
        return None
    return {
        "input_tokens": _count(block, "input_tokens"),
        "output_tokens": _count(block, "output_tokens"),
        "cached_tokens": _count(details, "cached_tokens"),
        "cache_write_tokens": _count(details, "cache_write_tokens"),
        "cache_write_long_tokens": _kept_long(_get(details, "cache_write_tokens_details")),
        "reasoning_tokens": _count(_get(block, "output_tokens_details"), "reasoning_tokens"),
    }


def _anthropic(block: object) -> _Counts | None:
    plain = _count(block, "input_tokens")
    if plain is None:
        return None
    read = _count(block, "cache_read_input_tokens") or 0
    written = _count(block, "cache_creation_input_tokens") or 0
    return {
        "input_tokens": plain + read + written,
        "output_tokens": _count(block, "output_tokens"),
        "cached_tokens": read,
        "cache_write_tokens": written,
        "cache_write_long_tokens": _kept_long(_get(block, "cache_creation")),
    }


def _gemini(block: object) -> _Counts | None:
    """Read `usage_metadata`; Gemini leaves out what is zero."""
    given = _either(block, "prompt_token_count", "promptTokenCount")
    if given is None:
        return None
    tools = _either(block, "tool_use_prompt_token_count", "toolUsePromptTokenCount") or 0
    thoughts = _either(block, "thoughts_token_count", "thoughtsTokenCount") or 0
    return {
        "input_tokens": given + tools,
        "output_tokens": (_either(block, "candidates_token_count", "candidatesTokenCount") or 0)
        + thoughts,
        "cached_tokens": _either(block, "cached_content_token_count", "cachedContentTokenCount"),
        "reasoning_tokens": thoughts,
    }


def _bedrock(block: object) -> _Counts | None:
    plain = _count(block, "inputTokens")
    if plain is None:
        return None
    read, written = _count(block, "cacheReadInputTokens"), _count(block, "cacheWriteInputTokens")
    return {
        "input_tokens": plain + (read or 0) + (written or 0),
        "output_tokens": _count(block, "outputTokens"),
        "cached_tokens": read,
        "cache_write_tokens": written,
    }


def _is_filler(answer: object, block: object) -> bool:
    """Say whether this is the 0/0 that litellm puts where the provider reported no usage."""
    return type(answer).__module__.startswith("litellm.") and not any(
        _get(block, name) for name in ("prompt_tokens", "completion_tokens", "input_tokens")
    )


def _unwrapped(response: object) -> object:
    """Parse openai's raw responses; async ones that are not read yet stay as they are."""
    parse = getattr(response, "parse", None)
    if parse is None or not hasattr(response, "http_response"):
        return response
    return response if inspect.iscoroutinefunction(parse) else parse()


def _believable(usage: Usage) -> Usage:
    counts = [getattr(usage, name) for name in ("input_tokens", "output_tokens", *_PARTS)]
    if not all(is_count(count) and count <= _ABSURD for count in counts):
        raise _UnknownError
    return usage


def _service_tier(answer: object, block: object) -> str | None:
    special = [
        word
        for word in (_text(block, "speed"), _text(block, "inference_geo"))
        if word in {"fast", "us"}
    ]
    if special:
        return " ".join(special)
    tier = _text(answer, "service_tier") or _text(block, "service_tier")
    return tier or _TRAFFIC.get(_traffic(answer, block))


def _traffic(answer: object, block: object) -> str:
    """Return Gemini's traffic type, which litellm keeps among its hidden parameters."""
    hidden = _get(_get(answer, "_hidden_params"), "provider_specific_fields")
    for place, name in ((block, "traffic_type"), (block, "trafficType"), (hidden, "traffic_type")):
        word = _get(place, name)
        if word is not None:
            return str(getattr(word, "value", word)).lower()
    return ""


def _finish_reason(answer: object) -> str | None:
    choices = _get(answer, "choices") or _get(answer, "candidates")
    first = choices[0] if isinstance(choices, list | tuple) and choices else None
    incomplete = _get(answer, "incomplete_details")
    for place, name in (
        (first, "finish_reason"),
        (first, "finishReason"),
        (incomplete, "reason"),
        (answer, "stop_reason"),
        (answer, "stopReason"),
        (answer, "status"),
    ):
        word = _get(place, name)
        if word is not None:
            lowered = _storable(str(getattr(word, "value", word)).lower())
            return _FINISHES.get(lowered, lowered)
    return None


def _kept_long(details: object) -> int | None:
    return _sum(details, "ephemeral_1h_input_tokens", "ephemeral_12h_input_tokens")


def _sum(place: object, *names: str) -> int:
    return sum(_count(place, name) or 0 for name in names)


def _first(*places: tuple[object, str]) -> int | None:
    """Return the first count above zero, else 0 or None."""
    counts = [_count(place, name) for place, name in places]
    return next(filter(None, counts), None)


def _either(place: object, *names: str) -> int | None:
    return next((count for name in names if (count := _count(place, name)) is not None), None)


def _count(place: object, name: str) -> int | None:
    value = _get(place, name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not is_count(value) or value > _ABSURD:
        raise _UnknownError
    return int(value)


def _text(place: object, *names: str) -> str | None:
    found = (_get(place, name) for name in names)
    return next((_storable(value) for value in found if isinstance(value, str) and value), None)


def _storable(word: str) -> str:
    """Return a word that UTF-8 can carry: half a surrogate pair would keep a bill out of the ledger."""
    return word if word.isascii() else word.encode(errors="replace").decode()


def _get(place: object, name: str) -> object:
    if place is None:
        return None
    if isinstance(place, Mapping):
        return place.get(name)
    return getattr(place, name, None)
