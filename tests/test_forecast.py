"""Forecast: shares of a window add up, with and without a past."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.budget import Window
from budgetroute.forecast import (
    BUCKETS,
    calls_to_come,
    level,
    outlook,
    persistence,
    shape_from_days,
    share_between,
    share_of_rest,
    to_come,
)
from budgetroute.router.paces import shape_of_past
from budgetroute.router.periods import period_of
from budgetroute.router.traffic import Traffic

positions = st.floats(0, 1)
days = st.lists(
    st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 5000), max_size=BUCKETS),
    max_size=10,
)


@given(days)
def test_a_shape_is_a_distribution_without_impossible_buckets(past):
    """Weights are positive and sum to 1; no request at all gives no shape."""
    shape = shape_from_days(past)
    if not any(sum(day.values()) for day in past[-7:]):
        assert shape is None
        return
    assert len(shape) == BUCKETS
    assert min(shape) > 0
    assert sum(shape) == pytest.approx(1.0, abs=1e-12)


@given(days, st.lists(positions, min_size=1, max_size=8))
def test_shares_of_a_partition_sum_to_one(past, cuts):
    """However a window is cut, its stretches' shares add up to the whole."""
    shape = shape_from_days(past)
    edges = [0.0, *sorted(cuts), 1.0]
    shares = [share_between(shape, a, b) for a, b in itertools.pairwise(edges)]
    assert min(shares) >= -1e-12
    assert sum(shares) == pytest.approx(1.0, abs=1e-9)


@given(days, st.lists(positions, min_size=1, max_size=8))
def test_spending_each_stretchs_share_of_the_rest_uses_up_exactly_everything(past, cuts):
    """Taking share_of_rest of what is left, stretch after stretch, leaves nothing and no debt."""
    shape = shape_from_days(past)
    edges = [0.0, *sorted(cuts), 1.0]
    left = 1.0
    for start, end in itertools.pairwise(edges):
        share = share_of_rest(shape, start, end)
        assert 0.0 <= share <= 1.0
        left -= left * share
    assert left == pytest.approx(0.0, abs=1e-9)


@given(st.floats(0, 0.99), st.floats(0, 1))
def test_without_a_past_time_is_all_that_counts(start, width):
    """An even spread: the share is the part of the time left."""
    end = start + (1.0 - start) * width
    assert share_of_rest(None, start, end) == pytest.approx(width, abs=1e-9)


def test_at_the_end_of_a_window_all_that_is_left_is_due():
    """There is no division by nothing at position 1."""
    assert share_of_rest(None, 1.0, 1.0) == 1.0
    assert share_of_rest(tuple([1 / BUCKETS] * BUCKETS), 1.0, 1.0) == 1.0


def test_a_busy_hour_gets_more_of_the_budget():
    """A past with ten times the traffic from 12 to 13 h plans more for it, also next to it."""
    day = dict.fromkeys(range(BUCKETS), 100) | dict.fromkeys(range(144, 156), 1000)
    shape = shape_from_days([day])
    assert share_between(shape, 12 / 24, 13 / 24) > 5 * share_between(shape, 3 / 24, 4 / 24)
    assert share_between(shape, 11.75 / 24, 12 / 24) > 3 * share_between(shape, 3 / 24, 3.25 / 24)


def test_only_the_last_seven_days_count_and_each_as_much_as_the_others():
    """A day with a thousand times the traffic weighs no more; the eighth-last is forgotten."""
    night, noon = {10: 1000}, {50: 1_000_000}
    shape = shape_from_days([noon] + [night] * 7)
    assert shape[50] < 1e-3
    two = shape_from_days([{10: 1000}, {50: 1_000_000}])
    assert two[10] == pytest.approx(two[50], rel=0.05)


@given(st.floats(1, 1e6), st.floats(0, 1))
def test_traffic_as_expected_leaves_the_rest_as_expected(daily, done):
    """Where exactly the expected calls were seen, exactly the rest is to come."""
    rest = calls_to_come(daily * done, done=done, daily=daily)
    assert rest == pytest.approx(daily * (1 - done), rel=1e-9, abs=1e-9)


@given(st.floats(1, 1e4), st.floats(0.05, 0.95), st.sampled_from([0.05, 0.2, 5.0, 20.0]))
def test_a_wrong_hint_fades_within_an_hour(real, done, factor):
    """With 5 % of a day behind, a hint 20 times too large counts less than threefold."""
    found = calls_to_come(real * done, done=done, daily=real * factor) / (real * (1 - done))
    assert 0.66 < found < 3.0


def test_without_any_expectation_todays_rate_goes_on():
    """Ten calls in half the day are nearly ten more; none so far promises none."""
    assert 9 < calls_to_come(10, done=0.5, daily=None) < 10
    assert calls_to_come(0, done=0.0, daily=None) == 0.0


def counts(day: str, buckets: dict[int, int], app: str = "app") -> dict[tuple[str, str], int]:
    return {(f"{app}|r|math|3", f"{day}#{b:02d}"): n for b, n in buckets.items()}


FULL = dict.fromkeys(range(BUCKETS), 10)


def test_the_past_is_what_lies_before_the_window():
    """The running day and days ahead (a clock that was set back) are left out."""
    seen = counts("day:2026-03-03", FULL)
    other = counts("day:2026-03-04", {50: 9999}) | counts("day:2027-03-04", {50: 9999})
    assert shape_of_past(seen | other, "day:2026-03-04", app="app") == shape_from_days([FULL])


def test_another_apps_traffic_is_not_mine():
    """Apps share a store but no forecast, not even where one name begins like the other."""
    mine, theirs = counts("day:2026-03-03", FULL), counts("day:2026-03-03", {5: 10**6}, "app2")
    assert shape_of_past(mine | theirs, "day:2026-03-04", app="app") == shape_from_days([FULL])


def test_a_first_day_that_began_at_noon_says_nothing_of_mornings():
    """The day an app was installed is no past; from the second day on there is one."""
    evening = dict.fromkeys(range(48, BUCKETS), 100)
    first = counts("day:2026-03-02", evening)
    assert shape_of_past(first, "day:2026-03-03", app="app") is None
    both = first | counts("day:2026-03-03", FULL)
    assert shape_of_past(both, "day:2026-03-04", app="app") == shape_from_days([FULL])


def test_the_extra_hour_of_a_long_day_is_left_out():
    """A day of 25 hours has 100 quarter hours; the shape has 96."""
    long = dict.fromkeys(range(100), 10)
    assert shape_of_past(counts("day:2026-10-25", long), "day:2026-10-26", app="app") is not None


def hours(rates: list[int]) -> list[tuple[int, ...]]:
    """A day of one group, by requests per bucket in each hour."""
    return [(rate,) for rate in rates for _ in range(BUCKETS // 24)]


EVEN = hours([20] * 24)


def still_to_come(past, today, hour: int, **more: float) -> float:
    """What is forecast at an hour of a day."""
    view = outlook(past, usual=1.0, groups=1, **more)
    totals = [row[0] for row in today[: hour * BUCKETS // 24]]
    place = hour / 24
    return to_come(view, level(view, totals, place), place)[0]


def test_traffic_that_stood_still_comes_back_as_it_was():
    """Four hours without a request lower what is expected after them by less than a fifth."""
    stopped = hours([20] * 11 + [0] * 4 + [20] * 9)
    usual = still_to_come([EVEN] * 7, EVEN, 15)
    for hour in (13, 15):
        rest = usual * (24 - hour) / 9
        assert still_to_come([EVEN] * 7, stopped, hour) > 0.8 * rest


def test_a_trickle_is_a_standstill_and_a_quarter_is_less_traffic():
    """2 % of the usual are left out; a quarter of the usual lowers the forecast to under a half."""
    usual = still_to_come([EVEN] * 7, EVEN, 15)
    trickle = hours([20] * 12 + [0] * 12)
    trickle[150:180:3] = [(1,)] * 10
    assert still_to_come([EVEN] * 7, trickle, 15) > 0.75 * usual
    quarter = hours([20] * 10 + [5] * 14)
    assert still_to_come([EVEN] * 7, quarter, 15) < 0.5 * usual


@pytest.mark.parametrize("factor", [0.02, 0.05, 0.2, 5])
def test_a_day_that_is_another_size_from_the_start_is_no_standstill(factor):
    """Where all of today is a fiftieth of the past, or of a wrong hint, that is what goes on."""
    size = 200 * BUCKETS
    today = [int(factor * 200 * (b + 1)) - int(factor * 200 * b) for b in range(BUCKETS)]
    usual = hours([200] * 24)
    for past in ([], [usual] * 7):
        view = outlook(past, usual=size, groups=1)
        assert 0.7 * factor < level(view, today[:144], 0.5) < 1.2 * factor + 0.1


def busy(day: int, first: int, last: int) -> list[tuple[int, ...]]:
    return hours([60 if first <= hour < last else 20 for hour in range(24)])


def test_what_passes_by_itself_is_not_carried_into_the_evening():
    """Where past days had rises that ended after hours, at other times each, today's counts less."""
    passing = [busy(day, start, start + 4) for day, start in enumerate((2, 9, 16, 5, 13, 19, 7))]
    learnt = persistence(passing)
    assert learnt <= 0.5
    today = busy(0, 8, 12)
    believed = still_to_come(passing, today, 12)
    faded_out = still_to_come(passing, today, 12, persistence=learnt)
    truth = sum(row[0] for row in today[144:])
    assert abs(faded_out - truth) < 0.5 * abs(believed - truth)


def test_days_that_are_busy_as_a_whole_stay_so():
    """Days of different size but one shape: a busy morning is a busy day."""
    sizes = (20, 34, 15, 40, 22, 30, 12)
    days_of = [[(size * (1 + (b // 72) % 2),) for b in range(BUCKETS)] for size in sizes]
    assert persistence(days_of) == math.inf


@pytest.mark.parametrize("past", [[], [EVEN], [EVEN, hours([0] * 24), EVEN]])
def test_less_than_three_days_say_nothing_about_what_lasts(past):
    """Without evidence a level is taken to last, also where a day was empty."""
    assert persistence(past) == math.inf


@given(st.lists(st.lists(st.integers(0, 300), min_size=24, max_size=24), max_size=9))
def test_persistence_is_found_for_any_past(past):
    """Whatever the days, the answer is one of the choices and the forecast is a number ≥ 0."""
    seen = [hours(day) for day in past]
    found = persistence(seen)
    assert found > 0
    for hour in (0, 7, 24):
        assert 0.0 <= still_to_come(seen, EVEN, hour, persistence=found) < 1e9


@given(st.floats(0.01, 10), st.floats(0, 1))
def test_a_fading_deviation_is_smaller_than_one_that_lasts(windows, place):
    """Of twice the usual traffic less is carried on the faster it fades, never less than usual."""
    totals = [40] * int(place * BUCKETS) + [0]
    lasting = outlook([EVEN], usual=1.0, groups=1)
    fading = outlook([EVEN], usual=1.0, groups=1, persistence=windows)
    assert level(fading, totals, place) <= level(lasting, totals, place) + 1e-9
    assert level(fading, totals, place) >= 1.0 - 1e-9


class Arrivals:
    """The part of a store that counts arrivals, for one group."""

    def __init__(self, first: datetime, past: list[list[tuple[int, ...]]]) -> None:
        self.counts = {
            ("app|math", f"day:{(first + timedelta(days=d)).date()}#{b:03d}"): row[0]
            for d, day in enumerate(past)
            for b, row in enumerate(day)
        }

    def arrivals(self, prefix: str) -> dict[tuple[str, str], int]:
        return {key: n for key, n in self.counts.items() if key[1].startswith(prefix) and n}


def test_the_router_forecasts_with_what_past_days_taught_it():
    """Counts read from the store give what the pure functions say with the persistence learnt."""
    first = datetime(2026, 3, 2, tzinfo=UTC)
    past = [busy(day, start, start + 4) for day, start in enumerate((2, 9, 16, 5, 13, 19, 7))]
    today = busy(0, 8, 12)[: 12 * 12] + [(0,)] * 144
    store = Arrivals(first, [*past, today])
    traffic = Traffic(store, app="app", usual=1.0)
    at = first + timedelta(days=7, hours=12)
    found = traffic.to_come(period_of(Window("day"), at), round(at.timestamp() * 1e6))
    learnt = persistence(past)
    assert learnt < math.inf
    assert found["app|math"] == pytest.approx(still_to_come(past, today, 12, persistence=learnt))
