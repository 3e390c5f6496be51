"""Errors: one tree, texts that say what to do, and nothing lost on the way between processes."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime

import pytest

import budgetroute
from budgetroute import errors
from budgetroute.errors import (
    BudgetExceeded,
    BudgetRouteError,
    ConfigError,
    NoEligibleAction,
    ProfileError,
    StoreError,
    UnpricedModel,
)

EXCEEDED = BudgetExceeded(
    "day",
    spent_usd=9.5,
    held_usd=0.4,
    limit_usd=10.0,
    needed_usd=0.25,
    resets_at=datetime(2026, 3, 5, tzinfo=UTC),
)
ALL = [
    EXCEEDED,
    NoEligibleAction("nothing left", {"small/256": "denied"}),
    UnpricedModel("mystery", found="not in the map", key="azure/mystery"),
    ConfigError("wrong"),
    ProfileError("unfit"),
    StoreError("locked", retryable=True),
]


@pytest.mark.parametrize("error", ALL, ids=lambda e: type(e).__name__)
def test_every_error_is_caught_by_the_one_base(error):
    """`except BudgetRouteError` catches all that is raised on purpose."""
    assert isinstance(error, BudgetRouteError)


def test_the_tree_is_whole():
    """Each error is public under its own name, and no other error is."""
    public = {name for name in budgetroute.__all__ if isinstance(getattr(errors, name, None), type)}
    assert public == set(errors.__all__)
    assert set(errors.__all__) == {type(e).__name__ for e in ALL} | {"BudgetRouteError"}


@pytest.mark.parametrize("error", ALL, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])  # noqa: S301 - our own bytes
def test_errors_travel_between_processes_whole(error, way):
    """A worker pool pickles what a job raises: type, text and fields arrive."""
    arrived = way(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_exceeded_says_what_was_asked_what_is_there_and_when_it_ends():
    """The text carries scope, spent, held, limit, need, the reset and what to do."""
    text = str(EXCEEDED)
    for part in ("'day'", "9.5", "0.4", "10.0", "0.25", "2026-03-05T00:00:00", "max_tokens"):
        assert part in text


def test_a_run_has_no_reset():
    """The text of a run's cap does not name a time."""
    error = BudgetExceeded(
        "run:x", spent_usd=0, held_usd=0, limit_usd=0, needed_usd=0.1, resets_at=None
    )
    assert "when the run ends" in str(error)


def test_only_store_errors_may_be_retryable():
    """Whether trying again can help is a field of every error, and false unless said."""
    assert [e.retryable for e in ALL] == [False] * 5 + [True]
    assert not StoreError("broken").retryable


def test_unpriced_names_the_model_and_the_line_to_write():
    """The message can be pasted into the config."""
    text = str(ALL[2])
    assert '[models."mystery"]' in text
    assert "price = { input =" in text
    assert "azure/mystery" in text


def test_reasons_are_a_copy():
    """What the caller does with its mapping later does not change the error."""
    reasons = {"a": "b"}
    error = NoEligibleAction("x", reasons)
    reasons.clear()
    assert error.reasons == {"a": "b"}
