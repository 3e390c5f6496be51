"""Choosing: one argmax of value·R − λ·C, and what follows from it."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from budgetroute.policy import affordable_steps, choose, flip_price, reaching, surplus
from budgetroute.records import Action, Candidate

prices = st.floats(0, 1e6, allow_nan=False)


@st.composite
def candidates(draw, least=1):
    """Distinct actions with costs over six orders of magnitude, some without a curve."""
    count = draw(st.integers(least, 8))
    return [
        Candidate(
            Action(f"m{i}", 100 + i),
            reward=draw(st.none() | st.floats(0, 1)),
            cost=draw(st.floats(1e-6, 1.0)),
            worst=draw(st.integers(0, 10**12)),
            value=draw(st.sampled_from([1.0, 0.5, 2.0])),
        )
        for i in range(count)
    ]


def made(label: str, reward: float | None, cost: float, worst: int = 10, value: float = 1.0):
    return Candidate(Action(label, 100), reward, cost, worst, value)


@given(candidates(), prices, prices)
def test_a_higher_price_never_buys_a_dearer_candidate(pool, one, other):
    """The cost of the winner never rises with λ."""
    low, high = sorted((one, other))
    assert choose(pool, price=high)[0].cost <= choose(pool, price=low)[0].cost + 1e-15


@given(candidates(), prices)
def test_the_winner_is_the_argmax_over_all(pool, price):
    """No candidate has a larger surplus than the first, and none is lost or made up."""
    ranked = choose(pool, price=price)
    assert surplus(ranked[0], price=price) == max(surplus(c, price=price) for c in pool)
    assert sorted(c.action.label for c in ranked) == sorted(c.action.label for c in pool)


@given(candidates(), prices)
def test_the_order_does_not_depend_on_the_order_of_the_input(pool, price):
    """Choosing is deterministic."""
    assert choose(pool, price=price) == choose(list(reversed(pool)), price=price)


def test_ties_go_to_the_cheaper_then_to_the_smaller_hold_then_to_the_name():
    """Equal surplus: less cost, then less held, then the label."""
    dear, cheap = made("dear", 0.6, 0.2), made("cheap", 0.5, 0.1)
    assert choose([dear, cheap], price=1.0)[0] is cheap
    more, less = made("x", 0.5, 0.1, worst=20), made("y", 0.5, 0.1, worst=10)
    assert choose([more, less], price=1.0)[0] is less
    b, a = made("b", 0.5, 0.1), made("a", 0.5, 0.1)
    assert choose([b, a], price=1.0)[0] is a


def test_at_price_zero_only_reward_counts_and_at_a_huge_one_only_cost():
    """The two ends of the scale."""
    pool = [made("a", 0.9, 1.0), made("b", 0.5, 0.01), made("c", 0.1, 0.001)]
    assert choose(pool, price=0.0)[0].action.model == "a"
    assert choose(pool, price=1e15)[0].action.model == "c"


def test_a_value_doubles_what_reward_may_cost():
    """value·R − λ·C: with value 2 the dear one wins at the price where it lost."""
    cheap, dear = made("cheap", 0.5, 0.0), made("dear", 0.7, 0.3)
    assert choose([cheap, dear], price=1.0)[0] is cheap
    twice = [made("cheap", 0.5, 0.0, value=2.0), made("dear", 0.7, 0.3, value=2.0)]
    assert choose(twice, price=1.0)[0].action.model == "dear"


def test_without_a_curve_the_reward_counts_as_nothing():
    """R = None is ranked by its cost alone."""
    assert surplus(made("pinned", None, 0.25), price=2.0) == -0.5


@given(candidates(least=2), prices)
def test_the_order_flips_at_the_flip_price(pool, price):
    """Just below λ° one of two is ahead, just above it the other."""
    first, second = choose(pool[:2], price=price)
    level = flip_price(first, second)
    assume(level is not None and 1e-3 < level < 1e9)
    assume(abs(first.cost - second.cost) * level > 1e-9)
    below = surplus(first, price=level * 0.999) - surplus(second, price=level * 0.999)
    above = surplus(first, price=level * 1.001) - surplus(second, price=level * 1.001)
    assert below * above < 0
    assert math.isclose(
        surplus(first, price=level), surplus(second, price=level), rel_tol=1e-6, abs_tol=1e-9
    )


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        (made("a", 0.9, 0.3), made("b", 0.5, 0.1), 2.0),  # dearer and better: flips above 2
        (made("b", 0.5, 0.1), made("a", 0.9, 0.3), 2.0),  # the other way round: flips below 2
        (made("a", 0.9, 0.1), made("b", 0.5, 0.3), None),  # better and cheaper: never
        (made("a", 0.9, 0.1), made("b", 0.5, 0.1), None),  # equal cost: no price decides
        (made("a", 0.5, 0.1), made("b", 0.5, 0.3), 0.0),  # only a price of nothing makes a draw
    ],
)
def test_a_flip_price_exists_only_where_a_price_can_decide(first, second, level):
    """None where no λ ≥ 0 makes the two draw level; zero carries no minus sign."""
    found = flip_price(first, second)
    assert found == (None if level is None else pytest.approx(level))
    assert found is None or math.copysign(1.0, found) == 1.0


@given(candidates(), prices)
def test_steps_hold_less_and_less_and_nothing_that_could_fit_is_left_out(pool, price):
    """For every headroom the first step that fits is the best candidate that fits."""
    ranked = choose(pool, price=price)
    steps = affordable_steps(ranked)
    assert steps[0] is ranked[0]
    assert [c.worst for c in steps] == sorted({c.worst for c in steps}, reverse=True)
    for headroom in {c.worst for c in pool} | {0, 10**13}:
        best = next((c for c in ranked if c.worst <= headroom), None)
        assert next((c for c in steps if c.worst <= headroom), None) is best


def test_no_candidates_no_steps():
    """An empty ranking stays empty."""
    assert choose([], price=1.0) == () == affordable_steps(())


def test_a_floor_keeps_what_reaches_it_and_what_has_no_curve():
    """Predicted rewards below the floor are out; a pinned model is not judged."""
    pool = [made("a", 0.9, 1), made("b", 0.8, 1), made("c", 0.79, 1), made("pin", None, 1)]
    assert [c.action.model for c in reaching(pool, 0.8)] == ["a", "b", "pin"]
    assert reaching(pool, None) == tuple(pool)
