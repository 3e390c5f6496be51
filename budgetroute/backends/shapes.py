"""The usage blocks of each provider's shape, as counts of one convention.

Each reader returns None for a block of another shape. Input includes cached and cache-written tokens,
output includes reasoning.
"""

from __future__ import annotations

from typing import TypeAlias

from budgetroute.backends.fields import count, either, field_of, items_of

__all__ = ["SHAPES", "Counts"]

Counts: TypeAlias = "dict[str, int | None]"


def _openai(block: object) -> Counts | None:
    given, total = count(block, "prompt_tokens"), count(block, "total_tokens")
    if given is None:
        return None
    sent, made_of = (
        field_of(block, "prompt_tokens_details"),
        field_of(block, "completion_tokens_details"),
    )
    read = _first(
        (sent, "cached_tokens"),
        (block, "prompt_cache_hit_tokens"),  # DeepSeek
        (block, "cached_tokens"),  # Moonshot
        (block, "cache_read_input_tokens"),
    )
    written = _first(
        (sent, "cache_write_tokens"),
        (sent, "cache_creation_tokens"),
        (block, "cache_creation_input_tokens"),
    )
    thought = _first((made_of, "reasoning_tokens"), (block, "reasoning_tokens"))
    return {
        "input_tokens": _whole(given, read, written),
        "output_tokens": _made(count(block, "completion_tokens"), total, given, thought),
        "cached_tokens": read,
        "cache_write_tokens": written,
        "cache_write_long_tokens": _kept_long(field_of(sent, "cache_creation_token_details")),
        "reasoning_tokens": thought,
        "audio_tokens": count(sent, "audio_tokens"),
        "cached_audio_tokens": count(field_of(sent, "cached_tokens_details"), "audio_tokens"),
        "image_tokens": count(sent, "image_tokens"),
        "audio_output_tokens": count(made_of, "audio_tokens"),
        "image_output_tokens": count(made_of, "image_tokens"),
    }


def _whole(given: int, read: int | None, written: int | None) -> int:
    """Return all input tokens: parts that exceed the whole were left out of it."""
    parts = (read or 0) + (written or 0)
    return given + parts if max(read or 0, written or 0) > given else given


def _made(made: int | None, total: int | None, given: int, thought: int | None) -> int | None:
    """Return all output tokens: some leave hidden reasoning out, and only the total tells."""
    if total is not None:
        made = max(made or 0, total - given)
    if made is not None and thought is not None and thought > made:
        made += thought
    return made


def _responses(block: object) -> Counts | None:
    sent, made_of = (
        field_of(block, "input_tokens_details"),
        field_of(block, "output_tokens_details"),
    )
    if sent is None and made_of is None:
        return None
    return {
        "input_tokens": count(block, "input_tokens"),
        "output_tokens": count(block, "output_tokens"),
        "cached_tokens": count(sent, "cached_tokens"),
        "cache_write_tokens": count(sent, "cache_write_tokens"),
        "cache_write_long_tokens": _kept_long(field_of(sent, "cache_write_tokens_details")),
        "reasoning_tokens": count(made_of, "reasoning_tokens"),
        "audio_tokens": count(sent, "audio_tokens"),
        "image_tokens": count(sent, "image_tokens"),
        "audio_output_tokens": count(made_of, "audio_tokens"),
        "image_output_tokens": count(made_of, "image_tokens"),
    }


def _anthropic(block: object) -> Counts | None:
    plain = count(block, "input_tokens")
    if plain is None:
        return None
    read = count(block, "cache_read_input_tokens") or 0
    kept = field_of(block, "cache_creation")
    long = _kept_long(kept)
    by_age = long + _sum(kept, "ephemeral_5m_input_tokens")
    written = max(count(block, "cache_creation_input_tokens") or 0, by_age)
    return {
        "input_tokens": plain + read + written,
        "output_tokens": count(block, "output_tokens"),
        "cached_tokens": read,
        "cache_write_tokens": written,
        "cache_write_long_tokens": long,
    }


def _gemini(block: object) -> Counts | None:
    """Read `usage_metadata`; Gemini leaves out what is zero."""
    given = either(block, "prompt_token_count", "promptTokenCount")
    if given is None:
        return None
    tools = either(block, "tool_use_prompt_token_count", "toolUsePromptTokenCount") or 0
    thoughts = either(block, "thoughts_token_count", "thoughtsTokenCount") or 0
    made = either(block, "candidates_token_count", "candidatesTokenCount") or 0
    sent = ("prompt_tokens_details", "promptTokensDetails")
    answered = ("candidates_tokens_details", "candidatesTokensDetails")
    read = ("cache_tokens_details", "cacheTokensDetails")
    return {
        "input_tokens": given + tools,
        "output_tokens": made + thoughts,
        "cached_tokens": either(block, "cached_content_token_count", "cachedContentTokenCount"),
        "reasoning_tokens": thoughts,
        "audio_tokens": _modal(block, sent, "AUDIO"),
        "cached_audio_tokens": _modal(block, read, "AUDIO"),
        "image_tokens": _modal(block, sent, "IMAGE"),
        "audio_output_tokens": _modal(block, answered, "AUDIO"),
        "image_output_tokens": _modal(block, answered, "IMAGE"),
    }


def _bedrock(block: object) -> Counts | None:
    plain = count(block, "inputTokens")
    if plain is None:
        return None
    read, written = count(block, "cacheReadInputTokens"), count(block, "cacheWriteInputTokens")
    long = [
        count(part, "inputTokens") or 0
        for part in items_of(block, "cacheDetails")
        if field_of(part, "ttl") == "1h"
    ]
    return {
        "input_tokens": plain + (read or 0) + (written or 0),
        "output_tokens": count(block, "outputTokens"),
        "cached_tokens": read,
        "cache_write_tokens": written,
        "cache_write_long_tokens": sum(long),
    }


def _kept_long(details: object) -> int:
    return _sum(details, "ephemeral_1h_input_tokens", "ephemeral_12h_input_tokens")


def _sum(place: object, *names: str) -> int:
    return sum(count(place, name) or 0 for name in names)


def _first(*places: tuple[object, str]) -> int | None:
    """Return the first count above zero, else 0 or None."""
    counts = [count(place, name) for place, name in places]
    return next(filter(None, counts), None)


def _modal(place: object, names: tuple[str, str], modality: str) -> int:
    """Return the tokens of one modality in Gemini's list of details."""
    total = 0
    for part in items_of(place, *names):
        kind = field_of(part, "modality")
        if str(getattr(kind, "value", kind)).upper() == modality:
            total += either(part, "token_count", "tokenCount") or 0
    return total


SHAPES = (_openai, _responses, _anthropic, _gemini, _bedrock)
