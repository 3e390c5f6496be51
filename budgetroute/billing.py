"""What a call costs, will probably cost and can cost at most: prices × tokens, no I/O.

Formulas (design: prices and the cost of a call; checked against litellm's `cost_per_token`):

    bill     = Σ_class tokens_class · rate_class + fee         at the tier of the whole input
    expected = E[input] · rate_input + E[output] · rate_output + fee
    worst    = calls · (max over reachable rates of
                        bound · dearest input class + n · cap · dearest output class, + fee)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from budgetroute.units import pico_from_atto, usd_from_atto, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from budgetroute.records import InputSize, Price, Rates, Usage
    from budgetroute.units import Atto, Pico

__all__ = [
    "bill",
    "expected_input",
    "expected_usd",
    "input_bound",
    "rates_at",
    "services_asked",
    "worst_case",
    "worst_line",
]

_STANDARD = frozenset({"default", "auto", "standard"})
_SAME_SERVICE = {"fast": "priority"}  # OpenAI's newer word; Anthropic's `fast` has its own rates
_BYTES_PER_TOKEN = 4  # framing is mostly the JSON of tools and schemas; o200k takes 3.6 to 4.4


def bill(price: Price, usage: Usage) -> Pico:
    """Return what a call with this usage costs, rounded up to a whole pico-dollar.

    Cached and cache-written tokens are parts of the input and never exceed it (the dearer, written
    ones are counted first); reasoning is part of the output. A class without its own rate is billed
    as plain input or output. An unknown service tier is billed at the standard rates.

    >>> from budgetroute.records import Price, Rates, Usage
    >>> mini = Price("gpt-4o-mini", Rates(150 * 10**9, 600 * 10**9, cached_input=75 * 10**9))
    >>> bill(mini, Usage(100, 50, cached_tokens=80))
    39000000
    """
    total = max(usage.input_tokens, 0)
    rates = rates_at(price, input_tokens=total, service=usage.service_tier)
    return pico_from_atto(_input_atto(rates, total, usage) + _output_atto(rates, usage)) + (
        price.request_fee
    )


def expected_usd(price: Price, *, input_tokens: float, output_tokens: float) -> float:
    """Return the expected dollars of a call at the standard rates of the tier it falls in."""
    rates = rates_at(price, input_tokens=input_tokens)
    return (
        input_tokens * usd_from_atto(rates.input)
        + output_tokens * usd_from_atto(rates.output)
        + usd_from_pico(price.request_fee)
    )


def worst_case(
    price: Price,
    *,
    input_bound: int,
    cap: int,
    n: int = 1,
    calls: int = 1,
    services: Collection[str] | None = None,
) -> Pico:
    """Return an upper bound of `calls` bills of at most `input_bound` in and `n` · `cap` out.

    Args:
        price: what is applied.
        input_bound: no call has more input tokens.
        cap: the cap on output tokens that is sent, per choice.
        n: choices asked for; each may use the cap.
        calls: attempts that one reservation covers.
        services: service tiers the call may be served at besides the standard one; None = any.
    """
    output = n * cap
    dearest = max(
        input_bound * _dearest_input(rates) + output * _dearest_output(rates)
        for rates in _reachable(price, input_bound, services)
    )
    return calls * (pico_from_atto(dearest) + price.request_fee)


def worst_line(price: Price) -> tuple[Atto, Atto]:
    """Return (input, output) atto-dollars per token of the standard schedule's dearest classes.

    What `worst_case` computes below the first context tier and without other services, prepared
    once.
    """
    return _dearest_input(price.rates), _dearest_output(price.rates)


def input_bound(
    size: InputSize, *, ratio: float, overhead: int, image_tokens: int | None
) -> int | None:
    """Return the most input tokens a prompt can have; None when images have no known size.

    min(UTF-8 bytes, ⌈count · ratio⌉) + framing + overhead + images · image_tokens. A guessed count
    bounds nothing, so the bytes do: no tokenizer makes more tokens than bytes.

    Args:
        size: what was measured.
        ratio: provider tokens per counted token, an upper bound (r of the design).
        overhead: tokens that the user's function adds, at most.
        image_tokens: the most one image takes; None = unknown.
    """
    if size.images and image_tokens is None:
        return None
    text = size.utf8_bytes
    if size.exact:
        text = min(text, math.ceil(size.tokens * ratio))
    return text + size.framing + overhead + size.images * (image_tokens or 0)


def expected_input(
    size: InputSize, *, ratio: float, overhead: float, image_tokens: int | None = None
) -> float:
    """Return the input tokens to expect: count · ratio + framing / 4 + overhead + images.

    `framing` is an upper bound in bytes, of which about four make a token. Images of unknown size
    count nothing here; they make an action ineligible through `input_bound`.
    """
    images = size.images * (image_tokens or 0)
    return size.tokens * ratio + size.framing / _BYTES_PER_TOKEN + overhead + images


def rates_at(price: Price, *, input_tokens: float, service: str | None = None) -> Rates:
    """Return the rates for the whole of a request with so many input tokens.

    The highest tier that the input exceeds holds, for input and output alike.
    """
    rates, tiers = _schedule(price, service)
    for above, dearer in tiers:
        if input_tokens <= above:
            break
        rates = dearer
    return rates


def services_asked(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the service tiers that a request's parameters ask for, as responses name them.

    Anthropic's speed and region are tiers too, alone and together.

    >>> sorted(services_asked({"speed": "fast", "inference_geo": "us"}))
    ['fast', 'fast us', 'us']
    """
    extra = parameters.get("extra_body")
    if isinstance(extra, Mapping):
        parameters = {**parameters, **extra}
    named = [parameters.get(name) for name in ("service_tier", "speed", "inference_geo")]
    words = [word for word in named if isinstance(word, str)]
    return frozenset(words) | ({"fast us"} if {"fast", "us"} <= set(words) else frozenset())


def _schedule(price: Price, service: str | None) -> tuple[Rates, tuple[tuple[int, Rates], ...]]:
    if service is None or service in _STANDARD or not price.services:
        return price.rates, price.tiers
    name = service.lower()
    if name not in price.services:
        name = _SAME_SERVICE.get(name, name)
    if name not in price.services:
        return price.rates, price.tiers
    return price.services[name], price.service_tiers.get(name, ())


def _input_atto(rates: Rates, total: int, usage: Usage) -> Atto:
    written = _within(usage.cache_write_tokens, total)
    long = _within(usage.cache_write_long_tokens, written)
    cached = _within(usage.cached_tokens, total - written)
    write = rates.input if rates.cache_write is None else rates.cache_write
    return (
        (total - written - cached) * rates.input
        + cached * (rates.input if rates.cached_input is None else rates.cached_input)
        + (written - long) * write
        + long * (write if rates.cache_write_long is None else rates.cache_write_long)
    )


def _output_atto(rates: Rates, usage: Usage) -> Atto:
    total = max(usage.output_tokens, 0)
    reasoning = _within(usage.reasoning_tokens, total)
    thought = rates.output if rates.reasoning is None else rates.reasoning
    return (total - reasoning) * rates.output + reasoning * thought


def _within(count: int, limit: int) -> int:
    return min(max(count, 0), limit)


def _reachable(price: Price, bound: int, services: Collection[str] | None) -> Iterator[Rates]:
    for service in (None, *(price.services if services is None else services)):
        rates, tiers = _schedule(price, service)
        yield rates
        yield from (dearer for above, dearer in tiers if bound > above)


def _dearest_input(rates: Rates) -> Atto:
    return max(
        rates.input,
        rates.cached_input or 0,
        rates.cache_write or 0,
        rates.cache_write_long or 0,
    )


def _dearest_output(rates: Rates) -> Atto:
    return max(rates.output, rates.reasoning or 0)
