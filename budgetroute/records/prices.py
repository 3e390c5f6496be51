"""Prices of models, and what the price map says besides."""

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
    `cached_audio` is for sound that is read from a cache; None = `cached_input` applies.
    """

    input: Atto
    output: Atto
    cached_input: Atto | None = None
    cache_write: Atto | None = None
    reasoning: Atto | None = None
    cache_write_long: Atto | None = None
    audio_input: Atto | None = None
    audio_output: Atto | None = None
    image_input: Atto | None = None
    image_output: Atto | None = None
    cached_audio: Atto | None = None


@dataclass(frozen=True, slots=True)
class Fees:
    """What searches on the provider's side cost, per search; nothing known = nothing billed.

    Attributes:
        search: context size (`low`, `medium`, `high`) → fee.
        maps: fee of a look-up in maps.
        per_prompt: one fee for a call that searches, however often it does.
        always: the model searches in every call, asked or not.
    """

    search: Mapping[str, Pico] = field(default_factory=dict)
    maps: Pico = 0
    per_prompt: bool = False
    always: bool = False


@dataclass(frozen=True, slots=True)
class Hours:
    """A span of every day in UTC, from `start` up to `end` (minutes since midnight).

    An end at or before the start lies in the next day; `weekdays` (1 = Monday) is None for all.
    """

    start: int
    end: int
    weekdays: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class OffPeak:
    """Rates that hold instead of the standard ones during some hours.

    Attributes:
        hours: when; any of them.
        rates: what holds then, whatever the context.
        zone: IANA zone by whose calendar weekdays are told.
    """

    hours: tuple[Hours, ...]
    rates: Rates
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs.

    Attributes:
        key: the key of the price map it was read from, or the model's own name.
        rates: the standard rates.
        tiers: (input tokens above which it holds, rates), ascending; the whole request is billed
            at the highest tier it exceeds.
        services: service tier → rates (`flex`, `priority`, `batch`), where the map has them.
        request_fee: per request, on top of tokens.
        source: `map`, `config`, `free` (said to be free by the user) or `time` (by the second).
        service_tiers: service tier → what `tiers` is for the standard rates.
        fees: what searches cost.
        off_peak: what holds at some hours instead of the standard service's rates.
        second: atto-dollars per second of an engine that is paid by time; None = by tokens.
        tokens_per_second: what such an engine is said to make; None = not said.
    """

    key: str
    rates: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()
    services: Mapping[str, Rates] = field(default_factory=dict)
    request_fee: Pico = 0
    source: Literal["map", "config", "free", "time"] = "map"
    service_tiers: Mapping[str, tuple[tuple[int, Rates], ...]] = field(default_factory=dict)
    fees: Fees = field(default_factory=Fees)
    off_peak: OffPeak | None = None
    second: Atto | None = None
    tokens_per_second: float | None = None


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
        efforts: reasoning effort → whether the API takes it.
    """

    key: str
    provider: str
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    supports: Mapping[str, bool] = field(default_factory=dict)
    deprecated_on: str | None = None
    efforts: Mapping[str, bool] = field(default_factory=dict)
