"""Units: money and time are whole numbers, and conversions lose nothing that matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.units import (
    atto_from_usd_per_million,
    atto_from_usd_per_token,
    format_usd,
    is_amount,
    is_count,
    is_whole,
    micros_from_time,
    pico_estimate,
    pico_from_atto,
    pico_from_usd,
    time_from_micros,
    usd_from_atto,
    usd_from_pico,
)

INT64 = 2**63 - 1


@given(st.integers(0, INT64))
def test_pico_dollars_survive_a_way_through_decimal_dollars(pico):
    """Dollars written as a decimal give back exactly the pico-dollars they were made from."""
    assert pico_from_usd(Decimal(pico) / 10**12) == pico


@given(st.integers(0, 10**15))
def test_pico_dollars_survive_a_way_through_floats(pico):
    """Up to $1,000 a float shows every pico-dollar."""
    assert pico_from_usd(usd_from_pico(pico)) == pico


@pytest.mark.parametrize(
    ("usd", "pico"),
    [
        (0.1, 10**11),
        ("0.1", 10**11),
        (25, 25 * 10**12),
        (0, 0),
        ("0.0000000000005", 0),
        ("0.0000000000015", 2),
        (0.1 + 0.2, 300_000_000_000),
    ],
)
def test_dollars_round_half_to_even_through_their_shortest_decimal(usd, pico):
    """A float counts as the decimal it prints as; ties go to even."""
    assert pico_from_usd(usd) == pico


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "-Infinity"])
def test_money_is_finite(bad):
    """NaN and infinity are no amounts."""
    with pytest.raises(ValueError, match="finite"):
        pico_from_usd(bad)


def test_prices_below_a_pico_dollar_per_token_are_exact():
    """$0.0375 per million tokens is 37.5 nano-dollars per thousand: whole atto-dollars."""
    assert atto_from_usd_per_million(0.0375) == 37_500_000_000
    assert atto_from_usd_per_token("3.75e-8") == 37_500_000_000
    assert usd_from_atto(37_500_000_000) == 3.75e-8


@given(st.integers(0, 10**24))
def test_a_bill_is_never_understated_and_overstated_by_less_than_a_pico_dollar(atto):
    """Rounding goes up, by less than one unit."""
    pico = pico_from_atto(atto)
    assert pico * 10**6 >= atto > (pico - 1) * 10**6


@pytest.mark.parametrize(
    ("pico", "shown"),
    [
        (0, "$0.00"),
        (999_999_999_999, "$1.000000"),
        (10**12, "$1.00"),
        (123_456_000_000, "$0.123456"),
        (100_000_000, "$0.000100"),
        (99_000_000, "$9.900e-05"),
        (-(10**12), "$-1.00"),
    ],
)
def test_money_is_shown_with_as_many_digits_as_it_needs(pico, shown):
    """Cents from a dollar up, six places below, then powers of ten: never $0.00 for something."""
    assert format_usd(pico) == shown


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_survive_a_way_through_microseconds(at):
    """Whole microseconds are exact in both directions, before 1970 too."""
    assert time_from_micros(micros_from_time(at)) == at


def test_a_time_means_the_same_in_every_zone():
    """Microseconds count from 1970 UTC whatever the zone."""
    at = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
    assert micros_from_time(at.astimezone(timezone(timedelta(hours=5.5)))) == micros_from_time(at)


@pytest.mark.parametrize(
    ("value", "count", "whole", "amount"),
    [
        (3, True, True, True),
        (0, True, False, True),
        (-1, False, False, False),
        (2.0, True, False, True),
        (2.5, False, False, True),
        (True, False, False, False),
        (float("nan"), False, False, False),
        (float("inf"), False, False, False),
        ("3", False, False, False),
        (None, False, False, False),
    ],
)
def test_counts_whole_numbers_and_amounts_are_told_apart(value, count, whole, amount):
    """Booleans, NaN, infinity, text and nothing are no numbers of anything."""
    assert (is_count(value), is_whole(value), is_amount(value)) == (count, whole, amount)


@given(st.floats(0, 1e6, allow_nan=False))
def test_an_estimate_is_off_by_less_than_a_millionth(usd):
    """The quick conversion for forecasts agrees with the exact one to float precision."""
    assert abs(pico_estimate(usd) - pico_from_usd(usd)) <= 1 + usd * 1e12 * 1e-15
