"""How large a call is before it is sent, what it may be billed for, and what it used in the end."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider reported, in one convention.

    Attributes:
        input_tokens: all input tokens, cached and cache-written ones included.
        output_tokens: all output tokens of all choices, reasoning included.
        cached_tokens: part of the input that was read from a cache.
        cache_write_tokens: part of the input that was written to a cache.
        reasoning_tokens: part of the output that was hidden reasoning.
        model: the model the response names; None when it names none.
        service_tier: the tier the response names; Anthropic's speed and region are folded in
            (`fast`, `us`, `fast us`).
        finish_reason: of the first choice, in OpenAI's words (`stop`, `length`, `tool_calls`).
        cache_write_long_tokens: part of the cache-written tokens that is kept an hour or longer.
        audio_tokens: part of the input that was sound.
        cached_audio_tokens: part of the cached tokens that was sound.
        image_tokens: part of the input that was images.
        audio_output_tokens: part of the output that is sound.
        image_output_tokens: part of the output that is images.
        searches: searches that the provider ran for the call.
        map_queries: look-ups in maps that the provider ran for the call.
        search_context: how much the searches read (`low`, `medium`, `high`); None = not said.
        from_cache: the answer came out of a cache on this side: no provider was asked.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    model: str | None = None
    service_tier: str | None = None
    finish_reason: str | None = None
    cache_write_long_tokens: int = 0
    audio_tokens: int = 0
    cached_audio_tokens: int = 0
    image_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    searches: int = 0
    map_queries: int = 0
    search_context: str | None = None
    from_cache: bool = False


COUNTS = tuple(each.name for each in fields(Usage) if each.type == "int")
"""The fields of `Usage` that are counts, and add up over several calls."""


@dataclass(frozen=True, slots=True)
class InputSize:
    """How large a prompt is before it is sent.

    Attributes:
        tokens: counted with o200k, or UTF-8 bytes / 4 where that is not to be had.
        utf8_bytes: a sure upper bound of the text's tokens in any tokenizer.
        framing: tokens for roles, tools and schema, an upper bound.
        images: images in the prompt; each costs `image_tokens` of its model.
        exact: whether `tokens` was counted rather than guessed from bytes.
        audio: whether anything in it may be billed as sound.
        odd: bytes that another tokenizer may take for a token each: other scripts, digits, runs.
    """

    tokens: int
    utf8_bytes: int
    framing: int = 0
    images: int = 0
    exact: bool = True
    audio: bool = False
    odd: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """What a call may be billed for besides its text.

    Attributes:
        services: service tiers it may be served at besides the standard one; None = any.
        searches: searches that the provider may run for it, at most; None = nothing bounds them.
        map_queries: look-ups in maps that the provider may run for it, at most.
        context: how much searches may read (`low`, `medium`, `high`); None = not said.
        audio: its input may be billed as sound.
        images: its input may be billed as images.
        seconds: how long it may take; None = nothing bounds it.
    """

    services: frozenset[str] | None = frozenset()
    searches: int | None = 0
    map_queries: int = 0
    context: str | None = None
    audio: bool = False
    images: bool = False
    seconds: float | None = None
