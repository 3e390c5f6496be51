"""The rules of a budget: windows, admission, and the life of an attempt."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute import budget
from budgetroute.budget import Window, admit, period_bounds, period_id
from budgetroute.records import Ask, Attempt, Balance, Bill, Grant, Limit, Option, Refusal, Slot

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]
MIDNIGHT_GAPS = ["Africa/Cairo", "Asia/Beirut", "America/Asuncion", "Atlantic/Azores"]
ODD_ZONES = [
    *MIDNIGHT_GAPS,
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Kathmandu",
]
KINDS = ["day", "week", "month"]

moments = st.datetimes(
    datetime(1995, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)
windows = st.builds(
    Window,
    st.sampled_from(KINDS),
    st.sampled_from(ZONES + ODD_ZONES).map(ZoneInfo),
    st.integers(0, 23),
    st.integers(0, 6),
)


def at(text, zone="UTC", fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


# windows


@pytest.mark.parametrize(
    ("kind", "name"),
    [("day", "day:2026-11-29"), ("week", "week:2026-W48"), ("month", "month:2026-11")],
)
def test_period_names(kind, name):
    """Periods are named by the calendar."""
    assert period_id(Window(kind, UTC), at("2026-11-29T15:00")) == name


def test_a_run_has_one_period_and_no_bounds():
    """A run is one period; asking when it ends is an error."""
    window = Window("run", UTC)
    assert period_id(window, at("2026-11-29T15:00")) == budget.RUN_PERIOD
    with pytest.raises(ValueError, match="a run has no bounds"):
        period_bounds(window, at("2026-11-29T15:00"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_zone_decides_the_day(kind):
    """At 23:30 UTC on the last day of a month and week, Paris is in the next period already."""
    moment = at("2026-05-31T23:30")
    paris = Window(kind, ZoneInfo("Europe/Paris"))
    assert period_id(paris, moment) > period_id(Window(kind, UTC), moment)
    assert period_bounds(paris, moment)[0] == at("2026-05-31T22:00")


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-29", 24)]
)
def test_a_day_is_as_long_as_the_calendar_says(day, hours):
    """Days on which the clocks change have 23 or 25 hours."""
    zone = "Europe/Paris"
    start, end = period_bounds(Window("day", ZoneInfo(zone)), at(f"{day}T12:00", zone))
    assert (end - start).total_seconds() == hours * 3600
    assert start == at(f"{day}T00:00", zone)
    assert start.tzinfo is UTC
    assert end.tzinfo is UTC


def test_the_hour_that_happens_twice_is_one_day():
    """Both 02:30s of the night the clocks go back fall in the same day."""
    window = Window("day", ZoneInfo("Europe/Paris"), reset_hour=3)
    first = at("2026-10-25T02:30", "Europe/Paris")
    second = at("2026-10-25T02:30", "Europe/Paris", fold=1)
    assert second.astimezone(UTC) - first.astimezone(UTC) == timedelta(hours=1)
    assert period_id(window, first) == period_id(window, second) == "day:2026-10-24"


def test_a_reset_hour_that_the_clock_skips_happens_at_the_jump():
    """With reset at 02:00, the day of 29 March starts when 02:00 becomes 03:00."""
    window = Window("day", ZoneInfo("Europe/Paris"), reset_hour=2)
    before, after = at("2026-03-29T00:59:59.999999"), at("2026-03-29T01:00")
    assert period_id(window, before) == "day:2026-03-28"
    assert period_id(window, after) == "day:2026-03-29"
    assert period_bounds(window, after)[0] == after


def test_a_reset_hour_shifts_weeks_and_months():
    """Before the reset hour, Monday and the first still belong to the period before."""
    early, late = at("2026-06-01T05:59"), at("2026-06-01T06:00")  # a Monday
    for kind, before, after in [
        ("week", "week:2026-W22", "week:2026-W23"),
        ("month", "month:2026-05", "month:2026-06"),
    ]:
        window = Window(kind, UTC, reset_hour=6)
        assert (period_id(window, early), period_id(window, late)) == (before, after)
        assert period_bounds(window, early)[1] == late


def test_weeks_around_new_year_follow_iso():
    """1 January 2027 is a Friday of week 53 of 2026."""
    window = Window("week", UTC)
    assert period_id(window, at("2027-01-01T12:00")) == "week:2026-W53"
    assert period_bounds(window, at("2027-01-01T12:00")) == (
        at("2026-12-28T00:00"),
        at("2027-01-04T00:00"),
    )


@pytest.mark.parametrize("first", range(7))
def test_a_week_begins_on_the_day_that_was_said(first):
    """Seven days from that weekday at midnight; weeks from Monday have the ISO name."""
    window = Window("week", ZoneInfo("Europe/Paris"), week_start=first)
    start, end = period_bounds(window, at("2026-03-26T12:00"))
    local = start.astimezone(ZoneInfo("Europe/Paris"))
    assert (local.weekday(), local.hour) == (first, 0)
    assert (end.astimezone(ZoneInfo("Europe/Paris")).date() - local.date()).days == 7
    name = period_id(window, at("2026-03-26T12:00"))
    assert name == (f"week:{local.date()}" if first else "week:2026-W13")


def test_a_week_over_a_change_of_the_clocks_is_an_hour_shorter_or_longer():
    """Seven calendar days: 167 hours in March, 169 in October."""
    window = Window("week", ZoneInfo("Europe/Paris"))
    hours = [
        (end - start).total_seconds() / 3600
        for start, end in (
            period_bounds(window, at(day)) for day in ("2026-03-26T12:00", "2026-10-22T12:00")
        )
    ]
    assert hours == [167, 169]


@pytest.mark.parametrize(
    ("month", "days"), [("2026-02", 28), ("2028-02", 29), ("2026-04", 30), ("2026-12", 31)]
)
def test_months_are_as_long_as_the_calendar_says(month, days):
    """February of a leap year has 29 days."""
    start, end = period_bounds(Window("month"), at(f"{month}-15T00:00"))
    assert (end - start).days == days
    assert period_id(Window("month"), end) > f"month:{month}"


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("America/Sao_Paulo", "2018-11-04"),
        ("Africa/Cairo", "2026-04-24"),
        ("Asia/Beirut", "2026-03-29"),
    ],
)
def test_a_day_whose_midnight_does_not_exist_begins_at_the_jump(zone, day):
    """00:00 became 01:00: the day has 23 hours and the day before has 24."""
    window = Window("day", ZoneInfo(zone))
    start, end = period_bounds(window, at(f"{day}T12:00", zone))
    assert start.astimezone(ZoneInfo(zone)).hour == 1
    assert (end - start).total_seconds() == 23 * 3600
    assert period_id(window, start - timedelta(microseconds=1)) < f"day:{day}"
    assert period_id(window, start) == f"day:{day}"


@pytest.mark.parametrize(("day", "hours"), [("2026-10-04", 23.5), ("2026-04-05", 24.5)])
def test_half_an_hour_counts_too(day, hours):
    """Lord Howe moves its clocks by thirty minutes; also where the reset hour is in the gap."""
    zone = ZoneInfo("Australia/Lord_Howe")
    start, end = period_bounds(Window("day", zone), at(f"{day}T12:00", "Australia/Lord_Howe"))
    assert (end - start).total_seconds() == hours * 3600
    skipped = Window("day", zone, reset_hour=2)  # 02:00 became 02:30
    begun, _ = period_bounds(skipped, at("2026-10-04T12:00", "Australia/Lord_Howe"))
    assert begun.astimezone(zone).time().isoformat() == "02:30:00"


def test_a_total_never_starts_anew():
    """It has one period and no bounds."""
    assert period_id(Window("total"), at("2026-11-29T15:00")) == "total"
    with pytest.raises(ValueError, match="a total has no bounds"):
        period_bounds(Window("total"), at("2026-11-29T15:00"))


@given(windows, moments, st.timedeltas(timedelta(0), timedelta(days=900)))
def test_only_periods_that_ended_are_outlived(window, moment, later):
    """Whatever the zone: an id in the ranges names a period that is over, and in time all are."""
    name, (_, end) = period_id(window, moment), period_bounds(window, moment)
    before = moment + later
    over = any(first <= name < last for first, last in budget.outlived(before))
    assert not over or end <= before
    assert over or before < end + timedelta(days=18)


def test_ids_do_not_go_back_where_midnight_repeats():
    """St John's put its clocks back from 00:01 to 23:01: the new day stayed the new day."""
    window = Window("day", ZoneInfo("America/St_Johns"))
    midnight = at("2006-10-29T00:00", "America/St_Johns").astimezone(UTC)
    ids = [period_id(window, midnight + timedelta(minutes=m)) for m in range(-2, 75)]
    assert ids == ["day:2006-10-28"] * 2 + ["day:2006-10-29"] * 75


def test_a_day_that_a_zone_skipped_has_no_time_in_it():
    """Apia had no 30 December 2011: the 29th ends where the 31st begins."""
    window = Window("day", ZoneInfo("Pacific/Apia"))
    last = at("2011-12-29T23:59", "Pacific/Apia")
    assert period_id(window, last) == "day:2011-12-29"
    assert period_id(window, last + timedelta(0)) == "day:2011-12-29"
    after = (last.astimezone(UTC) + timedelta(minutes=1)).astimezone(UTC)
    assert period_id(window, after) == "day:2011-12-31"
    assert period_bounds(window, last)[1] == after


@given(windows, moments)
def test_a_period_contains_its_moments(window, moment):
    """start ≤ moment < end, and both ends of the period carry its id or the next one's."""
    start, end = period_bounds(window, moment)
    assert start <= moment < end
    name = period_id(window, moment)
    assert period_id(window, start) == name
    assert period_id(window, end - timedelta(microseconds=1)) == name
    assert period_bounds(window, end)[0] == end


@given(windows, moments, st.timedeltas(timedelta(0), timedelta(days=40)))
def test_periods_never_go_backwards(window, moment, later):
    """As time goes forward, so do period ids."""
    assert period_id(window, moment) <= period_id(window, moment + later)


def test_a_moment_without_a_zone_is_refused():
    """A naive time is an error that says what to add."""
    with pytest.raises(ValueError, match="add tzinfo"):
        period_id(Window("day", UTC), datetime(2026, 11, 29))


@pytest.mark.parametrize(("kind", "hour"), [("year", 0), ("day", 24), ("day", -1)])
def test_an_impossible_window_is_refused(kind, hour):
    """Unknown kinds and hours are errors when the window is made."""
    with pytest.raises(ValueError, match="found"):
        Window(kind, UTC, hour)


def test_fixed_offsets_work_as_zones():
    """A window needs a tzinfo, not a named zone."""
    window = Window("day", timezone(timedelta(hours=-5)))
    assert period_id(window, at("2026-11-29T04:59")) == "day:2026-11-28"


# admission

DAY, USER = Slot("app", "day:2026-11-29"), Slot("app/user", "day:2026-11-29")


DAILY = (Limit(DAY, 100),)


def ask(*options, limits=DAILY):
    return Ask("d#1", "d", 0, 1, tuple(limits), tuple(Option(*o) for o in options))


def test_the_limit_itself_may_be_reached():
    """settled + held + worst = limit is admitted, one pico-dollar more is not."""
    balance = Balance(settled=50, held=20)
    assert isinstance(admit(ask((30, 1)), [balance]), Grant)
    assert isinstance(admit(ask((31, 1)), [balance]), Refusal)


def test_the_first_option_that_fits_is_taken():
    """Options are tried in the order of preference, and the grant says which it was."""
    granted = admit(ask((60, 6), (40, 4), (10, 1)), [Balance(settled=50)])
    assert granted == Grant(1, (Balance(settled=50, held=40, expected=4, calls=1),))


def test_every_limit_must_fit():
    """The tightest of several limits decides."""
    limits = (Limit(DAY, 100), Limit(USER, 20))
    assert admit(ask((30, 1), (15, 1), limits=limits), [Balance(), Balance(settled=5)]).index == 1


def test_no_limit_only_counts():
    """A slot without a limit admits everything and is counted all the same."""
    granted = admit(ask((10**15, 1), limits=[Limit(DAY, None)]), [Balance(settled=7)])
    assert granted.balances == (Balance(7, 10**15, 1, 1),)


def test_the_guard_spares_the_last_option():
    """Money kept for the cheapest action's traffic is open to the cheapest action only."""
    guarded = [Limit(DAY, 100, guard=50)]
    assert admit(ask((60, 1), (60, 1), limits=guarded), [Balance()]).index == 1
    assert admit(ask((60, 1), limits=guarded), [Balance()]).index == 0
    assert admit(ask((50, 1), (1, 1), limits=guarded), [Balance()]).index == 0


def test_a_negative_guard_is_none():
    """A guard never opens more than the limit."""
    refused = admit(ask((101, 1), (101, 1), limits=[Limit(DAY, 100, guard=-50)]), [Balance()])
    assert isinstance(refused, Refusal)


def test_a_refusal_names_the_tightest_limit_it_crossed():
    """Of the limits the last option crosses, the one with the least headroom is named."""
    limits = (Limit(DAY, 100), Limit(USER, 20), Limit(Slot("run", "once"), None))
    balances = [Balance(settled=95), Balance(settled=19), Balance(settled=9999)]
    refused = admit(ask((90, 1), (10, 1), limits=limits), balances)
    assert refused == Refusal(limits[1], balances[1], needed=10)


def test_an_ask_without_options_is_refused():
    """Nothing to hold is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least one option"):
        admit(ask(), [Balance()])


money = st.integers(0, 1000)


@given(st.lists(st.tuples(money, money), min_size=1, max_size=4), money, money, money, money)
def test_a_grant_never_crosses_and_a_refusal_would(options, limit, guard, settled, held):
    """A grant leaves settled + held ≤ limit; a refusal means that even the last option crosses."""
    answer = admit(ask(*options, limits=[Limit(DAY, limit, guard)]), [Balance(settled, held)])
    if isinstance(answer, Grant):
        after = answer.balances[0]
        assert after.settled + after.held <= limit
        assert after.held - held == options[answer.index][0]
    else:
        assert settled + held + options[-1][0] > limit
        assert answer.needed == options[-1][0]


def test_a_slot_with_two_limits_is_one_slot():
    """An attempt counts once in a slot, however many limits look at it."""
    twice = ask((1, 1), limits=(Limit(DAY, 100), Limit(USER, 50), Limit(DAY, 90)))
    assert budget.slots_of(twice) == (DAY, USER)


# an attempt's life

HELD = Attempt("held", worst=9, expected=4)


def bill(billed, *, expected=4, worst=9):
    return Bill("d#1", "d", 0, (DAY,), billed, expected, worst)


def test_a_hold_is_replaced_by_its_bill():
    """The worst case is given back, the bill is counted."""
    after, change = budget.settle(HELD, bill(3))
    assert after == Attempt("settled", 9, 4, 3)
    assert change == Balance(settled=3, held=-9, expected=-4)


def test_unknown_usage_books_the_expected_cost_and_keeps_the_rest_held():
    """λ sees the expected cost, the cap still sees the worst case."""
    after, change = budget.settle(HELD, bill(None))
    assert after == Attempt("estimated", 9, 4, 4)
    assert change == Balance(settled=4, held=-4, expected=-4, estimated=1)


@pytest.mark.parametrize("estimate", [0, 6, 9, 12])
def test_an_unknown_bill_may_bring_its_own_estimate(estimate):
    """What was counted of a stream is booked; settled and held together stay the worst case."""
    after, change = budget.settle(HELD, replace(bill(None), estimate=estimate))
    assert after == Attempt("estimated", 9, 4, estimate)
    assert change == Balance(estimate, max(0, 9 - estimate) - 9, -4, 0, 1)


def test_an_expired_hold_is_an_unknown_usage():
    """A lease that ran out is settled like a call whose usage never came."""
    assert budget.expire(HELD) == budget.settle(HELD, bill(None))


@pytest.mark.parametrize("billed", [0, 3, 40])
def test_a_late_bill_corrects_an_estimate(billed):
    """When usage arrives, estimate and residue give way to it, also when it is zero."""
    estimated, first = budget.settle(HELD, bill(None))
    after, second = budget.settle(estimated, bill(billed))
    assert after == Attempt("settled", 9, 4, billed)
    assert first + second == budget.settle(HELD, bill(billed))[1]


def test_a_settled_attempt_stays_as_it_is():
    """Neither another bill nor an unknown one changes what was settled."""
    settled, _ = budget.settle(HELD, bill(3))
    for again in (bill(3), bill(5), bill(None)):
        after, change = budget.settle(settled, again)
        assert after is settled
        assert change == budget.NO_CHANGE


def test_an_estimate_stays_until_a_bill_comes():
    """A second unknown usage changes nothing."""
    estimated, _ = budget.settle(HELD, bill(None))
    assert budget.settle(estimated, bill(None)) == (estimated, budget.NO_CHANGE)
    assert budget.expire(estimated) == (estimated, budget.NO_CHANGE)


def test_a_release_undoes_a_reservation():
    """Reserve and release add up to nothing."""
    held, taken = budget.reserve(Option(worst=9, expected=4))
    released, given = budget.release(held)
    assert released.state == "released"
    assert taken + given == budget.NO_CHANGE


@pytest.mark.parametrize("state", ["settled", "released"])
def test_only_what_is_held_can_be_released(state):
    """There is nothing to give back of what was billed, given back, or not known."""
    assert budget.release(Attempt(state, 9, 4, 4)) is None
    assert budget.release(None) is None


@pytest.mark.parametrize("billed", [3, None])
def test_a_bill_after_release_or_without_hold_is_booked_in_full(billed):
    """A call that turned out to be billed counts like one that was never released."""
    released, _ = budget.release(HELD)
    _, held = budget.reserve(Option(worst=9, expected=4))
    expected = held + budget.settle(HELD, bill(billed))[1]
    assert budget.settle(released, bill(billed))[1] == expected
    assert budget.settle(None, bill(billed))[1] == expected


def test_an_estimate_above_the_worst_case_holds_nothing_more():
    """The residue is never negative."""
    _, change = budget.settle(Attempt("held", worst=4, expected=9), bill(None))
    assert change == Balance(settled=9, held=-4, expected=-9, estimated=1)


def test_negative_money_is_refused():
    """Neither a bill nor a hold can be below zero."""
    with pytest.raises(ValueError, match="below zero"):
        budget.settle(HELD, bill(-1))
    with pytest.raises(ValueError, match="below zero"):
        budget.settle(None, bill(None, expected=-1))
    with pytest.raises(ValueError, match="less than nothing"):
        budget.reserve(Option(worst=-1, expected=0))


steps = st.lists(
    st.one_of(st.just("release"), st.just("expire"), st.integers(0, 50), st.none()),
    max_size=8,
)


@given(money, money, steps)
def test_changes_always_add_up_to_the_state(worst, expected, path):
    """However an attempt gets somewhere, its changes sum to what its final state counts as."""
    attempt, total = budget.reserve(Option(worst, expected))
    for step in path:
        attempt, change = step_once(attempt, step)
        total += change
        assert min(total.settled, total.held, total.expected, total.calls, total.estimated) >= 0
    assert total.settled == attempt.amount
    assert total.calls == (attempt.state != "released")
    assert total.estimated == (attempt.state == "estimated")
    residue = max(0, worst - expected) if attempt.state == "estimated" else 0
    assert total.held == (worst if attempt.state == "held" else residue)
    assert total.expected == (expected if attempt.state == "held" else 0)


def step_once(attempt, step):
    if step == "expire":
        return budget.expire(attempt)
    if step == "release":
        return budget.release(attempt) or (attempt, budget.NO_CHANGE)
    return budget.settle(attempt, bill(step))
