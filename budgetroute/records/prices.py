"""Prices of models and the usage they are applied to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.units import Atto, Pico


@dataclass(frozen=True, slots=True)
class Rates:
    """Atto-dollars per token of each class; None = no own rate (input's or output's applies).

    `cache_write_long` is for entries kept an hour or longer; None = `cache_write` applies.
    """

    input: Atto
    output: Atto
    cached_input: Atto | None = None
    cache_write: Atto | None = None
    reasoning: Atto | None = None
    cache_write_long: Atto | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs.

    Attributes:
        key: the key of the price map it was read from, or the model's own name.
        rates: the standard rates.
        tiers: (input tokens above which it holds, rates), ascending; the whole request is billed
            at the highest tier it exceeds.
        services: service tier → rates (`flex`, `priority`), where the map has them.
        request_fee: per request, on top of tokens.
        source: `map`, `config`, or `free` (said to be free by the user).
        service_tiers: service tier → what `tiers` is for the standard rates.
    """

    key: str
    rates: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()
    services: Mapping[str, Rates] = field(default_factory=dict)
    request_fee: Pico = 0
    source: Literal["map", "config", "free"] = "map"
    service_tiers: Mapping[str, tuple[tuple[int, Rates], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What the price map says about a model besides its price; None = the map does not say.

    Attributes:
        key: the key in the map.
        provider: litellm's provider name, `custom` for models that are not in the map.
        max_input_tokens: context length.
        max_output_tokens: largest cap the API takes.
        supports: capability (`tools`, `vision`, `response_schema`, `reasoning`, `sampling`,
            `prompt_caching`) → what the map says.
        deprecated_on: ISO date of retirement.
    """

    key: str
    provider: str
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    supports: Mapping[str, bool] = field(default_factory=dict)
    deprecated_on: str | None = None


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


@dataclass(frozen=True, slots=True)
class InputSize:
    """How large a prompt is before it is sent.

    Attributes:
        tokens: counted with o200k, or UTF-8 bytes / 4 where that is not to be had.
        utf8_bytes: a sure upper bound of the text's tokens in any tokenizer.
        framing: tokens for roles, tools and schema, an upper bound.
        images: images in the prompt; each costs `image_tokens` of its model.
        exact: whether `tokens` was counted rather than guessed from bytes.
    """

    tokens: int
    utf8_bytes: int
    framing: int = 0
    images: int = 0
    exact: bool = True
