"""What a call costs, will probably cost and can cost at most: prices × tokens, no I/O.

Formulas (design: prices and the cost of a call; checked against litellm's `cost_per_token`):

    bill     = Σ_class tokens_class · rate_class + fees        at the tier of the whole input
    expected = E[input] · rate_input + E[output] · rate_output + fees
    worst    = calls · (max over reachable rates of
                        bound · dearest input class + n · cap · dearest output class, + fees)

An engine paid by time adds seconds · rate to each: measured, expected, and the timeout.
"""

from __future__ import annotations

import math
from datetime import UTC
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from budgetroute.records import Terms
from budgetroute.units import pico_from_atto, usd_from_atto, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from budgetroute.records import Fees, Hours, InputSize, OffPeak, Price, Rates, Usage
    from budgetroute.units import Atto, Pico

__all__ = [
    "bill",
    "expected_input",
    "expected_usd",
    "has_rates_for",
    "input_bound",
    "is_off_peak",
    "rates_at",
    "search_fees",
    "worst_case",
    "worst_line",
]

_STANDARD = frozenset({"default", "auto", "standard", "on_demand", "standard_only"})
_SAME_SERVICE = {"fast": "priority", "batches": "batch"}  # Anthropic's `fast` has its own rates
_BYTES_PER_TOKEN = 4  # framing is mostly the JSON of tools and schemas; o200k takes 3.6 to 4.4
_ANY = Terms(services=None, audio=True, images=True)


def bill(
    price: Price, usage: Usage, *, at: datetime | None = None, seconds: float | None = None
) -> Pico:
    """Return what a call with this usage costs, rounded up to a whole pico-dollar.

    Cached, cache-written, audio and image tokens are parts of the input and never exceed it;
    reasoning, audio and images are parts of the output. The dearer, written ones are counted
    first. A class without its own rate is billed as plain input or output, a service tier without
    rates (`has_rates_for`) at the standard ones. An answer out of a cache on this side is free.

    Args:
        price: what is applied.
        usage: what was reported.
        at: when the call ended; None = the rates of peak hours.
        seconds: engine time that the call counts for; needed where the price is by time.

    Raises:
        ValueError: the price is by time and `seconds` is None.

    >>> from budgetroute.records import Price, Rates, Usage
    >>> mini = Price("gpt-4o-mini", Rates(150 * 10**9, 600 * 10**9, cached_input=75 * 10**9))
    >>> bill(mini, Usage(100, 50, cached_tokens=80))
    39000000
    """
    if usage.from_cache:
        return 0
    total = max(usage.input_tokens, 0)
    rates = rates_at(price, input_tokens=total, service=usage.service_tier, at=at)
    atto = _input_atto(rates, total, usage) + _output_atto(rates, usage)
    if price.second is not None:
        atto += _time_atto(price, seconds)
    amount = pico_from_atto(atto) + price.request_fee
    if usage.searches or usage.map_queries or price.fees.always:
        amount += search_fees(
            price.fees,
            searches=usage.searches,
            map_queries=usage.map_queries,
            context=usage.search_context,
        )
    return amount


def expected_usd(
    price: Price,
    *,
    input_tokens: float,
    output_tokens: float,
    seconds: float = 0.0,
    searches: int = 0,
    at: datetime | None = None,
) -> float:
    """Return the expected dollars of a call at the standard service of the tier it falls in."""
    rates = rates_at(price, input_tokens=input_tokens, at=at)
    return (
        input_tokens * usd_from_atto(rates.input)
        + output_tokens * usd_from_atto(rates.output)
        + seconds * usd_from_atto(price.second or 0)
        + usd_from_pico(price.request_fee + search_fees(price.fees, searches=searches))
    )


def worst_case(
    price: Price,
    *,
    input_bound: int,
    cap: int,
    n: int = 1,
    calls: int = 1,
    terms: Terms = _ANY,
) -> Pico:
    """Return an upper bound of `calls` bills of at most `input_bound` in and `n` · `cap` out.

    Args:
        price: what is applied.
        input_bound: no call has more input tokens.
        cap: the cap on output tokens that is sent, per choice.
        n: choices asked for; each may use the cap.
        calls: attempts that one reservation covers.
        terms: what else may be billed: service tiers, searches, sound, time.

    Raises:
        ValueError: the price is by time and the terms bound no time, or they bound no searches.
    """
    output = n * cap
    dearest = max(
        input_bound * _dearest_input(rates, terms) + output * _dearest_output(rates)
        for rates in _reachable(price, input_bound, terms)
    )
    if terms.searches is None:
        raise ValueError(f"{price.key!r}: searches are asked for, and nothing bounds them")
    fees = search_fees(
        price.fees,
        searches=terms.searches,
        map_queries=terms.map_queries,
        context=terms.context,
    )
    timed = _time_atto(price, terms.seconds)
    return calls * (pico_from_atto(dearest + timed) + price.request_fee + fees)


def worst_line(price: Price) -> tuple[Atto, Atto] | None:
    """Return (input, output) atto-dollars per token of the dearest classes, prepared once.

    With them `worst_case` of text at the standard service is a line. None where it is not: with
    context tiers, hours, searches in every call or a price by time.
    """
    if price.tiers or price.off_peak or price.fees.always or price.second is not None:
        return None
    return _dearest_input(price.rates, Terms()), _dearest_output(price.rates)


def input_bound(
    size: InputSize,
    *,
    ratio: float,
    overhead: int,
    image_tokens: int | None,
    foreign: bool = False,
) -> int | None:
    """Return the most input tokens a prompt can have; None when images have no known size.

    min(UTF-8 bytes, ⌈count · ratio⌉ + odd) + framing + overhead + images · image_tokens. A guessed
    count bounds nothing, so the bytes do: no tokenizer makes more tokens than bytes. `odd` counts
    for a foreign tokenizer only.

    Args:
        size: what was measured.
        ratio: provider tokens per counted token, an upper bound (r of the design).
        overhead: tokens that the user's function adds, at most.
        image_tokens: the most one image takes; None = unknown.
        foreign: the model's tokenizer is another one than the prompt was counted with.
    """
    if size.images and image_tokens is None:
        return None
    text = size.utf8_bytes
    if size.exact:
        text = min(text, math.ceil(size.tokens * ratio) + size.odd * foreign)
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


def rates_at(
    price: Price, *, input_tokens: float, service: str | None = None, at: datetime | None = None
) -> Rates:
    """Return the rates for the whole of a request with so many input tokens, ended at `at`.

    The highest tier that the input exceeds holds, for input and output alike.
    """
    rates, tiers = _schedule(price, service, at)
    for above, dearer in tiers:
        if input_tokens <= above:
            break
        rates = dearer
    return rates


def is_off_peak(off_peak: OffPeak, at: datetime) -> bool:
    """Say whether an aware time lies in the off-peak hours."""
    day = at.astimezone(ZoneInfo(off_peak.zone)).isoweekday()
    now = at.astimezone(UTC)
    minute = now.hour * 60 + now.minute
    return any(_lies_in(span, minute, day) for span in off_peak.hours)


def search_fees(
    fees: Fees, *, searches: int = 0, map_queries: int = 0, context: str | None = None
) -> Pico:
    """Return the fees of so many searches; of an unknown context size, the dearest's."""
    sought, mapped = max(searches, int(fees.always), 0), max(map_queries, 0)
    if fees.per_prompt:
        sought, mapped = min(sought, 1), min(mapped, 1)
    if not sought:
        return mapped * fees.maps
    known = fees.search.get(context or "")
    each = max(fees.search.values(), default=0) if known is None else known
    return sought * each + mapped * fees.maps


def has_rates_for(price: Price, service: str | None) -> bool:
    """Say whether a service tier is the standard one or has rates of its own."""
    return service is None or service.lower() in _STANDARD or _named(price, service) is not None


def _named(price: Price, service: str) -> str | None:
    name = service.lower()
    if name not in price.services:
        name = _SAME_SERVICE.get(name, name)
    return name if name in price.services else None


def _schedule(
    price: Price, service: str | None, at: datetime | None = None
) -> tuple[Rates, tuple[tuple[int, Rates], ...]]:
    if price.services and service is not None and service.lower() not in _STANDARD:
        name = _named(price, service)
        if name is not None:
            return price.services[name], price.service_tiers.get(name, ())
    if price.off_peak is not None and at is not None and is_off_peak(price.off_peak, at):
        return price.off_peak.rates, ()
    return price.rates, price.tiers


def _lies_in(span: Hours, minute: int, day: int) -> bool:
    if span.weekdays is not None and day not in span.weekdays:
        return False
    if span.start < span.end:
        return span.start <= minute < span.end
    return minute >= span.start or minute < span.end


def _input_atto(rates: Rates, total: int, usage: Usage) -> Atto:
    written = _within(usage.cache_write_tokens, total)
    long = _within(usage.cache_write_long_tokens, written)
    cached = _within(usage.cached_tokens, total - written)
    plain = total - written - cached
    write = rates.input if rates.cache_write is None else rates.cache_write
    atto = (
        plain * rates.input
        + cached * (rates.input if rates.cached_input is None else rates.cached_input)
        + (written - long) * write
        + long * (write if rates.cache_write_long is None else rates.cache_write_long)
    )
    if usage.audio_tokens > 0 or usage.image_tokens > 0 or usage.cached_audio_tokens > 0:
        atto += _modal_atto(rates, plain, cached, usage)
    return atto


def _modal_atto(rates: Rates, plain: int, cached: int, usage: Usage) -> int:
    """Return what sound and images cost beyond what the same tokens of text do."""
    read = _or(rates.cached_input, rates.input)
    heard = _within(usage.cached_audio_tokens, cached)
    audio = _within(usage.audio_tokens - heard, plain)
    images = _within(usage.image_tokens, plain - audio)
    return (
        audio * (_or(rates.audio_input, rates.input) - rates.input)
        + images * (_or(rates.image_input, rates.input) - rates.input)
        + heard * (_or(rates.cached_audio, read) - read)
    )


def _output_atto(rates: Rates, usage: Usage) -> Atto:
    total = max(usage.output_tokens, 0)
    reasoning = _within(usage.reasoning_tokens, total)
    atto = (total - reasoning) * rates.output + reasoning * _or(rates.reasoning, rates.output)
    if usage.audio_output_tokens > 0 or usage.image_output_tokens > 0:
        audio = _within(usage.audio_output_tokens, total - reasoning)
        images = _within(usage.image_output_tokens, total - reasoning - audio)
        atto += audio * (_or(rates.audio_output, rates.output) - rates.output)
        atto += images * (_or(rates.image_output, rates.output) - rates.output)
    return atto


def _time_atto(price: Price, seconds: float | None) -> Atto:
    if price.second is None:
        return 0
    if seconds is None:
        raise ValueError(f"{price.key!r} is priced by time, and no time is given")
    return math.ceil(max(0.0, seconds) * price.second)


def _or(own: Atto | None, usual: Atto) -> Atto:
    return usual if own is None else own


def _within(count: int, limit: int) -> int:
    return min(max(count, 0), limit)


def _reachable(price: Price, bound: int, terms: Terms) -> Iterator[Rates]:
    if price.off_peak is not None:
        yield price.off_peak.rates
    services = price.services if terms.services is None else terms.services
    for service in (None, *services):
        rates, tiers = _schedule(price, service)
        yield rates
        yield from (dearer for above, dearer in tiers if bound > above)


def _dearest_input(rates: Rates, terms: Terms) -> Atto:
    classes = [
        rates.input,
        rates.cached_input or 0,
        rates.cache_write or 0,
        rates.cache_write_long or 0,
    ]
    if terms.audio:
        classes += [rates.audio_input or 0, rates.cached_audio or 0]
    if terms.images:
        classes.append(rates.image_input or 0)
    return max(classes)


def _dearest_output(rates: Rates) -> Atto:
    return max(rates.output, rates.reasoning or 0, rates.audio_output or 0, rates.image_output or 0)
