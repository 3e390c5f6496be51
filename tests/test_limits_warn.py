"""Warnings of limits: each share once per period, to a function and to the log; never in the way."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from helpers.fakes import FlakyStore, Witness
from helpers.spending import SMALL, spend
from helpers.world import asked

import budgetroute
from budgetroute import BudgetExceeded, telemetry
from budgetroute.errors import ConfigError

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
USERS = '[limits.users]\nper = "user"\ndaily_usd = 0.1\nwarn = [0.5, 0.8, 1.0]\n'


@pytest.fixture
def warned(monkeypatch):
    """The warnings that come to a registered function."""
    monkeypatch.setattr(telemetry, "_listeners", [])
    told = []
    budgetroute.on_warning(told.append)
    return told


def limited(world, limits=USERS, *, budget="daily_usd = 10.0", **more):
    return world.router(budget=budget, more=f"{BEST}{limits}", **more)


def test_each_share_is_told_once_per_user_and_day(any_world, warned):
    """At half, at four fifths; not again, not after a restart; again for another user, and tomorrow."""
    router = limited(any_world)
    ann, ben = {"tags": {"user": "ann"}}, {"tags": {"user": "ben"}}
    for usd in (0.03, 0.03, 0.01, 0.02):
        spend(router, usd, **ann)
    assert [(w.share, w.value) for w in warned] == [(0.5, "ann"), (0.8, "ann")]
    spend(limited(any_world), 0.001, **ann)
    assert len(warned) == 2
    spend(router, 0.06, **ben)
    any_world.pass_time(days=1)
    spend(router, 0.06, **ann)
    assert [(w.share, w.value) for w in warned[2:]] == [(0.5, "ben"), (0.5, "ann")]


def test_a_warning_says_everything(any_world, warned):
    """Which limit, which share, where it stands, when it starts anew, and whose it is."""
    budget = 'daily_usd = 10\ntimezone = "Europe/Paris"'
    router = limited(any_world, budget=budget)
    spend(router, 0.06, tags={"user": "ann"})
    (seen,) = warned
    assert (seen.app, seen.limit, seen.window, seen.period) == (
        "test", "users", "day", "day:2026-03-04",
    )  # fmt: skip
    assert (seen.share, seen.spent_usd, seen.limit_usd, seen.is_soft) == (0.5, 0.06, 0.1, False)
    assert seen.resets_at == datetime(2026, 3, 4, 23, tzinfo=UTC)
    assert seen.value == "ann"
    assert "ann" not in repr(seen)


def test_a_bill_that_crosses_several_tells_of_each(any_world, warned):
    """One call from a tenth to nine tenths crosses two."""
    router = limited(any_world)
    spend(router, 0.09, tags={"user": "ann"})
    assert [w.share for w in warned] == [0.5, 0.8]


def test_the_last_share_is_told_when_the_limit_refuses(any_world, warned):
    """Spending under a hard limit seldom reaches it: 1.0 comes with the first refusal, once."""
    router = limited(any_world)
    spend(router, 0.0999, tags={"user": "ann"})
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            spend(router, 0.01, tags={"user": "ann"})
    assert [w.share for w in warned] == [0.5, 0.8, 1.0]


def test_the_last_share_is_told_when_service_degrades(any_world, warned):
    """Entering degraded service is a warning too, and passing hard_usd is none more."""
    budget = 'daily_usd = 0.1\non_exhausted = "degrade"\nhard_usd = 0.11\nwarn = 1.0'
    router = limited(any_world, "", budget=budget)
    spend(router, 0.0999)
    assert warned == []
    assert router.decide(asked(prompt_type="math")).degraded
    assert router.decide(asked(prompt_type="math")).degraded
    assert [(w.limit, w.share) for w in warned] == [("day", 1.0)]


def test_stepping_down_is_no_exhaustion(any_world, warned):
    """Where a lesser action still fits, nobody is told that the limit is used up."""
    router = limited(any_world, USERS.replace("0.1", "0.02"))
    assert router.decide(asked(prompt_type="math", tags={"user": "ann"})).bound_by == "users"
    assert warned == []


def test_the_budget_warns_in_each_of_its_windows(any_world, warned):
    """`[budget] warn` is for day, week and month."""
    budget = "daily_usd = 1\nweekly_usd = 0.2\nmonthly_usd = 0.1\nwarn = [0.5]"
    router = limited(any_world, "", budget=budget)
    spend(router, 0.06)
    any_world.pass_time(days=1)
    spend(router, 0.03)
    spend(router, 0.0095)
    assert [(w.limit, w.window) for w in warned] == [("month", "month")]
    budget = budget.replace("weekly_usd = 0.2", "weekly_usd = 0.19")
    spend(limited(any_world, "", budget=budget), 0.0)
    assert [(w.limit, w.window) for w in warned[1:]] == [("week", "week")]


def test_a_soft_limit_is_told_when_it_is_passed(any_world, warned, caplog):
    """At 1.0 in any case, and at shares beyond where they were asked for."""
    limits = '[limits.users]\nper = "user"\ndaily_usd = 0.01\nsoft = true\nwarn = 2.0\n'
    router = limited(any_world, limits)
    with caplog.at_level(logging.WARNING, "budgetroute.spend"):
        for _ in range(3):
            spend(router, 0.009, tags={"user": "ann"})
    assert [(w.share, w.is_soft) for w in warned] == [(1.0, True), (2.0, True)]
    first, second = caplog.records
    assert "limit=users crossed=100% " in first.getMessage()
    assert "the limit is soft" in first.getMessage()
    assert "crossed=200%" in second.getMessage()
    assert "ann" not in caplog.text


def test_a_spent_estimate_that_is_corrected_does_not_warn_again(any_world, warned):
    """Spending that falls below a share and crosses it anew is the same period's same warning."""
    limits = USERS.replace("0.1", "0.0001")
    router = limited(any_world, limits.replace("[limits.users]", "[limits.users]\nsoft = true"))
    decision = router.decide(asked(**SMALL, tags={"user": "ann"}))
    router.settle(decision)
    told = len(warned)
    assert told > 0
    router.settle(decision, given=0)
    spend(router, 0.0001, tags={"user": "ann"})
    shares = [w.share for w in warned]
    assert len(shares) == len(set(shares))


def test_a_function_that_fails_does_not_reach_the_call(any_world, warned, caplog):
    """It is logged; the other functions and the call go on."""

    @budgetroute.on_warning
    def broken(_):
        raise RuntimeError("pager is down")

    budgetroute.on_warning(later := [].append)
    budgetroute.on_warning(later)
    router = limited(any_world)
    spend(router, 0.06, tags={"user": "ann"})
    assert len(warned) == 1
    assert "pager is down" in caplog.text
    assert router.status().spent_usd == 0.06


async def _coroutine(warning):
    del warning


@pytest.mark.parametrize("given", [None, "print", _coroutine])
def test_only_a_plain_function_is_taken(given, warned):
    """A coroutine would never be awaited; an error says so at once."""
    with pytest.raises(ConfigError, match="plain function"):
        budgetroute.on_warning(given)


def test_observers_that_know_nothing_of_warnings_stay_as_they_are(any_world, warned):
    """An observer of the three methods works on."""
    witness = Witness()
    router = limited(any_world, observers=[witness])
    spend(router, 0.06, tags={"user": "ann"})
    assert (len(witness.settlements), len(warned)) == (1, 1)


def test_a_store_that_cannot_mark_warns_later(world, warned, caplog):
    """The mark comes before the warning; while it cannot be set, the call goes on and the next tells."""
    store = FlakyStore(world.store)
    router = limited(world, store=store)
    store.down = frozenset({"mark"})
    spend(router, 0.06, tags={"user": "ann"})
    assert warned == []
    store.down = frozenset()
    spend(router, 0.001, tags={"user": "ann"})
    assert [w.share for w in warned] == [0.5]
    spend(router, 0.001, tags={"user": "ann"})
    assert store.asked.count("mark") == 2
