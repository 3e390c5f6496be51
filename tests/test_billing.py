"""Billing: exact bills and sure bounds; agreement with litellm is in test_cost_truth.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.billing import (
    bill,
    expected_input,
    expected_usd,
    has_rates_for,
    input_bound,
    is_off_peak,
    rates_at,
    search_fees,
    worst_case,
    worst_line,
)
from budgetroute.records import COUNTS, Fees, Hours, InputSize, OffPeak, Price, Rates, Terms, Usage
from budgetroute.units import pico_from_atto

MICRO = 10**12
PICO = 10**6  # pico-dollars in $1e-6
PLAIN = Price("m", Rates(MICRO, 4 * MICRO))
FULL = Price(
    "m",
    Rates(10 * MICRO, 20 * MICRO, MICRO, 12 * MICRO, 30 * MICRO, 15 * MICRO),
    tiers=((1000, Rates(100 * MICRO, 200 * MICRO)), (5000, Rates(300 * MICRO, 400 * MICRO))),
    services={"priority": Rates(40 * MICRO, 80 * MICRO)},
    service_tiers={"priority": ((1000, Rates(150 * MICRO, 250 * MICRO)),)},
    request_fee=7,
)

counts = st.integers(0, 10_000)
attos = st.integers(0, 10**15)
own = st.none() | attos
rates = st.builds(Rates, attos, attos, *[own] * 9)
tiers = st.dictionaries(st.integers(0, 10_000), rates, max_size=3).map(
    lambda found: tuple(sorted(found.items(), key=lambda item: item[0]))
)
names = st.sampled_from(["flex", "priority", "fast", "batch"])
picos = st.integers(0, 10**10)
fees = st.builds(
    Fees,
    search=st.dictionaries(st.sampled_from(["low", "medium", "high"]), picos),
    maps=picos,
    per_prompt=st.booleans(),
    always=st.booleans(),
)
minutes = st.integers(0, 1439)
weekdays = st.none() | st.frozensets(st.integers(1, 7))
off_peaks = st.builds(
    OffPeak,
    st.lists(st.builds(Hours, minutes, minutes, weekdays), max_size=3).map(tuple),
    rates,
    st.sampled_from(["UTC", "Asia/Shanghai"]),
)
prices = st.builds(
    Price,
    st.just("m"),
    rates,
    tiers=tiers,
    services=st.dictionaries(names, rates, max_size=2),
    service_tiers=st.dictionaries(names, tiers, max_size=2),
    request_fee=st.integers(0, 10**9),
    fees=fees,
    off_peak=st.none() | off_peaks,
    second=st.none() | attos,
)
services = st.sampled_from([
    None, "default", "auto", "standard", "flex", "priority", "fast", "batch", "batches", "new",
])  # fmt: skip
sizes_of_search = st.sampled_from([None, "low", "medium", "high"])
usages = st.builds(
    Usage,
    **dict.fromkeys(COUNTS, counts),
    service_tier=services,
    search_context=sizes_of_search,
)
moments = st.none() | st.datetimes(
    datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)
)
seconds_spent = st.floats(0, 1e5)


def everything(usage, seconds=1e5):
    """Terms that allow all that a usage reports."""
    return Terms(
        services=None,
        searches=usage.searches,
        map_queries=usage.map_queries,
        audio=True,
        images=True,
        seconds=seconds,
    )


@pytest.mark.parametrize(
    ("usage", "micros"),
    [
        (Usage(0, 0), 0),
        (Usage(100, 10), 1200),
        (Usage(100, 10, cached_tokens=40), 60 * 10 + 40 + 200),
        (Usage(100, 10, cache_write_tokens=40), 60 * 10 + 40 * 12 + 200),
        (Usage(100, 10, cache_write_tokens=40, cache_write_long_tokens=30), 600 + 120 + 450 + 200),
        (Usage(100, 10, reasoning_tokens=4), 1000 + 6 * 20 + 4 * 30),
        (Usage(1000, 10), 10_200),
        (Usage(1001, 10), 100_100 + 2000),
        (Usage(5001, 10, cached_tokens=5000, reasoning_tokens=10), 5001 * 300 + 4000),
        (Usage(100, 10, service_tier="priority"), 4800),
        (Usage(100, 10, service_tier="fast"), 4800),
        (Usage(1001, 10, service_tier="Priority"), 150_150 + 2500),
        (Usage(100, 10, service_tier="scale"), 1200),
    ],
)
def test_bill_by_hand(usage, micros):
    """A bill is the sum of its classes at the tier of the whole input, plus the fee."""
    assert bill(FULL, usage) == micros * PICO + 7


def test_bill_rounds_up():
    """A fraction of a pico-dollar is billed as a whole one."""
    assert bill(Price("m", Rates(1, 0)), Usage(1, 0)) == 1


def test_overlapping_cache_counts_stay_inside_the_input():
    """Cached and written tokens beyond the input are not billed; the dearer class comes first."""
    usage = Usage(100, 0, cached_tokens=80, cache_write_tokens=70, cache_write_long_tokens=90)
    assert bill(FULL, usage) == (70 * 15 + 30 * 1) * PICO + 7


def test_negative_counts_bill_nothing():
    """A negative count never lowers a bill."""
    usage = Usage(-5, -5, cached_tokens=-1, cache_write_tokens=-1, reasoning_tokens=-9)
    assert bill(FULL, usage) == 7


def test_free_stays_free():
    """A free model costs nothing and holds nothing."""
    free = Price("m", Rates(0, 0), source="free")
    assert bill(free, Usage(10**6, 10**6)) == 0
    assert worst_case(free, input_bound=10**6, cap=10**6) == 0


@given(
    prices, usages, st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 3), moments,
    seconds_spent,
)  # fmt: skip
def test_worst_case_bounds_every_bill(price, usage, spare_in, spare_out, n, at, seconds):
    """No usage within the bounds costs more than the worst case: at any tier, service and hour."""
    cap = -(-usage.output_tokens // n) + spare_out
    bound = usage.input_tokens + spare_in
    worst = worst_case(price, input_bound=bound, cap=cap, n=n, terms=everything(usage))
    assert bill(price, usage, at=at, seconds=seconds) <= worst


@given(prices, st.lists(usages, min_size=1, max_size=4))
def test_worst_case_covers_several_calls(price, several):
    """The worst case of N calls bounds the sum of N bills."""
    top = Usage(**{name: max(getattr(usage, name) for usage in several) for name in COUNTS})
    worst = worst_case(
        price,
        input_bound=top.input_tokens,
        cap=top.output_tokens,
        calls=len(several),
        terms=everything(top),
    )
    assert sum(bill(price, usage, seconds=9.0) for usage in several) <= worst


standard = st.sampled_from([None, "auto", "new"])
plain_usages = st.builds(
    Usage,
    **dict.fromkeys(set(COUNTS) - {"audio_tokens", "cached_audio_tokens", "image_tokens", "searches", "map_queries"}, counts),
    service_tier=standard,
)  # fmt: skip


@given(prices, plain_usages, moments)
def test_worst_case_of_text_alone(price, usage, at):
    """With service tiers, sound, images and searches ruled out, the bound still holds for text."""
    bound, cap = usage.input_tokens, usage.output_tokens
    worst = worst_case(price, input_bound=bound, cap=cap, terms=Terms(seconds=2.0))
    assert bill(price, usage, at=at, seconds=2.0) <= worst


def test_ruled_out_services_hold_less():
    """Naming the possible service tiers keeps a dearer one out of the hold."""
    asked = {"input_bound": 10, "cap": 10}
    assert worst_case(FULL, **asked, terms=Terms()) < worst_case(FULL, **asked)
    fast = Terms(services=frozenset({"fast"}))
    assert worst_case(FULL, **asked, terms=fast) == worst_case(FULL, **asked)


def test_ruled_out_sound_and_images_hold_less():
    """A prompt of text does not hold the dearer rates of sound and images."""
    price = Price("m", Rates(MICRO, MICRO, audio_input=5 * MICRO, image_input=3 * MICRO))
    held = [
        worst_case(price, input_bound=100, cap=0, terms=terms)
        for terms in (Terms(), Terms(images=True), Terms(audio=True))
    ]
    assert held == [100 * PICO, 300 * PICO, 500 * PICO]


def test_what_bounds_nothing_is_refused():
    """A worst case without a bound on time or searches is an error, never a small number."""
    timed = Price("ours", Rates(0, 0), source="time", second=MICRO)
    with pytest.raises(ValueError, match="no time"):
        worst_case(timed, input_bound=1, cap=1, terms=Terms())
    with pytest.raises(ValueError, match="nothing bounds"):
        worst_case(PLAIN, input_bound=1, cap=1, terms=Terms(searches=None))
    with pytest.raises(ValueError, match="no time"):
        bill(timed, Usage(1, 1))


@given(prices, counts, counts, counts)
def test_worst_case_grows_with_its_bounds(price, bound, cap, more):
    """A larger bound, cap, n or number of calls never holds less."""
    terms = Terms(services=None, searches=1, seconds=1.0)
    least = worst_case(price, input_bound=bound, cap=cap, terms=terms)
    assert worst_case(price, input_bound=bound + more, cap=cap, terms=terms) >= least
    assert worst_case(price, input_bound=bound, cap=cap + more, terms=terms) >= least
    assert worst_case(price, input_bound=bound, cap=cap, n=2, terms=terms) >= least
    assert worst_case(price, input_bound=bound, cap=cap, calls=2, terms=terms) == 2 * least
    longer = replace(terms, searches=3, seconds=5.0)
    assert worst_case(price, input_bound=bound, cap=cap, terms=longer) >= least


@given(prices, counts, counts)
def test_prepared_line_is_the_worst_case(price, bound, cap):
    """Where the worst case is a line, the prepared one is the standard service's of text."""
    line = worst_line(price)
    if line is None:
        assert price.tiers or price.off_peak or price.fees.always or price.second is not None
        return
    per_input, per_output = line
    worst = worst_case(price, input_bound=bound, cap=cap, terms=Terms())
    assert worst == pico_from_atto(bound * per_input + cap * per_output) + price.request_fee


def test_unreachable_tiers_are_not_held():
    """A tier is held from the first input that reaches it, and not before."""
    low = worst_case(FULL, input_bound=1000, cap=1, terms=Terms())
    high = worst_case(FULL, input_bound=1001, cap=1, terms=Terms())
    assert low == (1000 * 15 + 30) * PICO + 7
    assert high == bill(FULL, Usage(1001, 1))


@given(prices, usages, counts)
def test_bill_grows_with_output(price, usage, more):
    """More output never costs less."""
    longer = replace(usage, output_tokens=usage.output_tokens + more)
    assert bill(price, longer, seconds=1.0) >= bill(price, usage, seconds=1.0)


@given(prices, counts, counts)
def test_expected_is_the_bill_of_plain_tokens(price, given_tokens, made_tokens):
    """Expecting whole plain tokens gives their bill, to float and pico rounding."""
    billed = bill(price, Usage(given_tokens, made_tokens), seconds=3.0) / 1e12
    found = expected_usd(price, input_tokens=given_tokens, output_tokens=made_tokens, seconds=3.0)
    assert found == pytest.approx(billed, rel=1e-9, abs=2e-12)


def test_expected_takes_the_right_tier():
    """An expectation just above a threshold is priced at the tier, as a float."""
    assert expected_usd(FULL, input_tokens=1000.5, output_tokens=0.5) == pytest.approx(
        1000.5e-4 + 1e-4 + 7e-12
    )


def test_rates_at_threshold():
    """A tier holds above its threshold, not at it."""
    assert rates_at(FULL, input_tokens=1000) == FULL.rates
    assert rates_at(FULL, input_tokens=1001) == FULL.tiers[0][1]


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        (InputSize(100, 1000, framing=9), 105 + 9 + 50),
        (InputSize(100, 102, framing=9), 102 + 9 + 50),
        (InputSize(100, 1000, framing=9, exact=False), 1000 + 9 + 50),
        (InputSize(100, 1000, images=2), 105 + 50 + 2 * 85),
    ],
)
def test_input_bound(size, bound):
    """The bound is the lesser of bytes and scaled count, bytes alone where the count is a guess."""
    assert input_bound(size, ratio=1.05, overhead=50, image_tokens=85) == bound


def test_unbounded_images():
    """An image of unknown size has no bound, and a prompt without images needs none."""
    pictured = InputSize(1, 1, images=1)
    assert input_bound(pictured, ratio=1.0, overhead=0, image_tokens=None) is None
    assert input_bound(InputSize(1, 1), ratio=1.0, overhead=0, image_tokens=None) == 1


sizes = st.builds(
    lambda tokens, extra, framing, images: InputSize(tokens, tokens + extra, framing, images),
    *[counts] * 4,
)


@given(sizes, st.floats(1.0, 3.0), counts)
def test_expectation_stays_under_its_bound(size, ratio, overhead):
    """What is expected of a counted prompt is at most its bound at the same ratio, or its bytes."""
    bound = input_bound(size, ratio=ratio, overhead=overhead, image_tokens=99)
    expected = expected_input(size, ratio=1.0, overhead=overhead, image_tokens=99)
    assert expected <= bound


HEARD = Price(
    "m",
    Rates(
        10 * MICRO, 20 * MICRO, MICRO,
        reasoning=30 * MICRO, audio_input=40 * MICRO, audio_output=80 * MICRO,
        image_input=15 * MICRO, image_output=60 * MICRO, cached_audio=5 * MICRO,
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "micros"),
    [
        ({"audio_tokens": 30}, 70 * 10 + 30 * 40 + 200),
        ({"image_tokens": 30}, 70 * 10 + 30 * 15 + 200),
        ({"audio_tokens": 30, "cached_tokens": 50, "cached_audio_tokens": 10},
         30 * 10 + 20 * 40 + 40 + 10 * 5 + 200),
        ({"audio_output_tokens": 4}, 1000 + 6 * 20 + 4 * 80),
        ({"image_output_tokens": 4, "reasoning_tokens": 3}, 1000 + 3 * 20 + 3 * 30 + 4 * 60),
        ({"audio_tokens": 10**9, "audio_output_tokens": 10**9}, 100 * 40 + 10 * 80),
    ],
)  # fmt: skip
def test_sound_and_images_by_hand(parts, micros):
    """Sound and images have rates of their own, and never exceed the tokens they are part of."""
    assert bill(HEARD, Usage(100, 10, **parts)) == micros * PICO


def test_classes_without_rates_cost_what_text_costs():
    """Sound, images and reasoning without a rate of their own are plain input and output."""
    parts = {"audio_tokens": 30, "image_tokens": 20, "audio_output_tokens": 4}
    usage = Usage(100, 10, **parts, image_output_tokens=2, reasoning_tokens=1)
    assert bill(PLAIN, usage) == bill(PLAIN, Usage(100, 10))


DAWN = datetime(2026, 11, 30, 16, 29, tzinfo=UTC)  # a Monday
NIGHT = Price(
    "m",
    Rates(2 * MICRO, 4 * MICRO),
    tiers=((1000, Rates(9 * MICRO, 9 * MICRO)),),
    services={"priority": Rates(5 * MICRO, 5 * MICRO)},
    off_peak=OffPeak((Hours(16 * 60 + 30, 30),), Rates(MICRO, 2 * MICRO)),
)


@pytest.mark.parametrize(
    ("minutes", "micros"), [(0, 240), (1, 120), (8 * 60, 120), (8 * 60 + 1, 240)]
)
def test_off_peak_is_billed_by_the_hour(minutes, micros):
    """From the first minute to the last of the span, which lies over midnight, the discount holds."""
    at = DAWN + timedelta(minutes=minutes)
    assert bill(NIGHT, Usage(100, 10), at=at) == micros * PICO
    assert bill(NIGHT, Usage(100, 10), at=at.astimezone(ZoneInfo("Asia/Tokyo"))) == micros * PICO
    found = expected_usd(NIGHT, input_tokens=100, output_tokens=10, at=at)
    assert found == pytest.approx(micros / 1e6)


def test_off_peak_is_not_for_other_services_and_has_no_tiers():
    """A service tier keeps its rates at all hours; off-peak rates hold for any length."""
    at = DAWN + timedelta(hours=1)
    assert bill(NIGHT, Usage(100, 10, service_tier="priority"), at=at) == 550 * PICO
    assert bill(NIGHT, Usage(2000, 10), at=at) == 2020 * PICO
    assert bill(NIGHT, Usage(2000, 10)) == 2010 * 9 * PICO


def test_weekdays_are_those_of_the_zone():
    """Friday evening in UTC is Saturday in Shanghai; a whole day has its end at its start."""
    weekend = OffPeak((Hours(0, 0, frozenset({6, 7})),), Rates(0, 0), "Asia/Shanghai")
    friday = datetime(2026, 11, 27, 15, 59, tzinfo=UTC)
    assert not is_off_peak(weekend, friday)
    assert is_off_peak(weekend, friday + timedelta(minutes=1))


SIZES = {"low": 5, "medium": 8, "high": 12}


@pytest.mark.parametrize(
    ("fees", "asked", "fee"),
    [
        (Fees(SIZES), {"searches": 3, "context": "low"}, 15),
        (Fees(SIZES), {"searches": 3}, 36),
        (Fees(SIZES), {"searches": 3, "context": "odd"}, 36),
        (Fees(SIZES), {}, 0),
        (Fees(SIZES), {"searches": -3}, 0),
        (Fees(SIZES, per_prompt=True), {"searches": 3}, 12),
        (Fees(SIZES, per_prompt=True, always=True), {"context": "medium"}, 8),
        (Fees(SIZES, maps=25), {"map_queries": 2}, 50),
        (Fees(SIZES, maps=25, per_prompt=True), {"map_queries": 2, "searches": 1}, 37),
        (Fees(), {"searches": 3, "map_queries": 3}, 0),
    ],
)
def test_search_fees_by_hand(fees, asked, fee):
    """Searches cost what their context size does, once a call where the provider bills so."""
    assert search_fees(fees, **asked) == fee
    usage = Usage(
        0,
        0,
        searches=asked.get("searches", 0),
        map_queries=asked.get("map_queries", 0),
        search_context=asked.get("context"),
    )
    assert bill(replace(PLAIN, fees=fees, request_fee=7), usage) == fee + 7


def test_time_is_billed_by_the_second():
    """$3.60 an hour is a tenth of a cent a second, whatever the tokens."""
    ours = Price("ours", Rates(0, 0), source="time", second=10**15, request_fee=7)
    assert bill(ours, Usage(10**6, 10**6), seconds=2.5) == 2_500_000_000 + 7
    assert bill(ours, Usage(1, 1), seconds=-5.0) == 7
    assert expected_usd(ours, input_tokens=9, output_tokens=9, seconds=2.0) == pytest.approx(0.002)
    terms = Terms(seconds=60.0)
    assert worst_case(ours, input_bound=1, cap=1, calls=2, terms=terms) == 2 * (60 * 10**9 + 7)


@pytest.mark.parametrize(
    ("service", "known"),
    [
        (None, True),
        ("auto", True),
        ("Default", True),
        ("fast", True),
        ("flex", False),
        ("x", False),
    ],
)
def test_a_service_tier_without_rates_is_told(service, known):
    """A tier that the price does not know is billed at the standard rates, and can be told."""
    assert has_rates_for(FULL, service) is known
    if not known:
        assert bill(FULL, Usage(100, 10, service_tier=service)) == bill(FULL, Usage(100, 10))
