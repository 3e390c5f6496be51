from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.classify import Chain, Rule, Rules
from budgetroute.classify.chain import LEAST_WEIGHT, SURE, tempered
from budgetroute.errors import ConfigError
from budgetroute.records import InputSize, Request

TYPES = ("math", "code", "chat", "general")


class Says:
    """A part that always gives the same answer and counts how often it is asked."""

    def __init__(self, *weights: tuple[str, float]) -> None:
        self.answer = (weights, "says") if weights else None
        self.asked = 0

    def classify(self, request):
        self.asked += 1
        return self.answer


def ask(*, route: str = "main", prompt_type: str | None = None) -> Request:
    return Request(route, "text", InputSize(1, 4), prompt_type=prompt_type)


def test_the_call_wins_over_the_route_and_both_over_parts():
    """An explicit type comes first, then the route's, and no part is asked in either case."""
    part = Says(("chat", 1.0))
    chain = Chain(TYPES, [part], routes={"main": "code"})
    assert chain.classify(ask(prompt_type="math")) == ((("math", 1.0),), "explicit")
    assert chain.classify(ask()) == ((("code", 1.0),), "route")
    assert part.asked == 0
    assert chain.classify(ask(route="other")) == ((("chat", 1.0),), "says")


def test_the_first_part_with_an_answer_wins():
    """A part that passes hands on to the next; later parts are not asked."""
    silent, first, second = Says(), Says(("math", 1.0)), Says(("chat", 1.0))
    assert Chain(TYPES, [silent, first, second]).classify(ask()) == ((("math", 1.0),), "says")
    assert (silent.asked, first.asked, second.asked) == (1, 1, 0)


def test_without_any_answer_it_is_general():
    """When nobody answers, `general` takes it all, even if the profile forgot to list it."""
    assert Chain(["math"], [Says()]).classify(ask()) == ((("general", 1.0),), "general")


def test_an_unknown_explicit_type_is_refused():
    """A type the profile lacks raises ConfigError with the nearest and all known types."""
    chain = Chain(TYPES)
    with pytest.raises(ConfigError, match=r"the call .*'coed'.*did you mean 'code'.*math, code"):
        chain.classify(ask(prompt_type="coed"))


def test_an_unknown_type_in_routes_or_rules_is_refused_at_once():
    """Routes and rules are checked when the chain is built, not at the first request."""
    with pytest.raises(ConfigError, match="the route 'main' names the prompt type 'law'"):
        Chain(TYPES, routes={"main": "law"})
    with pytest.raises(ConfigError, match=r"the rule rules\[4\] names the prompt type 'law'"):
        Chain(TYPES, [Rules([Rule("law", routes=("x",), name="rules[4]")])])


def test_weight_of_unknown_types_goes_to_general():
    """What a text model gives to a type the profile lacks is unknown, so `general` gets it."""
    weights, _ = Chain(["math"], [Says(("law", 0.7), ("math", 0.3))]).classify(ask())
    assert dict(weights) == pytest.approx({"general": 0.7, "math": 0.3})


def test_an_answer_with_general_is_taken_as_it_is():
    """A part that weighs `general` itself is not pulled towards it a second time."""
    weights, _ = Chain(TYPES, [Says(("math", 0.3), ("general", 0.7))]).classify(ask())
    assert weights == (("general", 0.7), ("math", 0.3))


def test_chance_is_all_general():
    """An answer no better than chance is worth nothing."""
    weights, _ = Chain(TYPES, [Says(("math", 0.5), ("code", 0.5))]).classify(ask())
    assert weights == (("general", 1.0),)


def test_half_sure_is_half_general():
    """Half-way between chance and the sure threshold, `general` gets half."""
    top = (1 / 2 + SURE) / 2
    (_, _, (name, weight)) = tempered((("math", top), ("code", 1 - top)))
    assert name == "general"
    assert weight == pytest.approx(0.5)


def test_small_weights_are_dropped_and_the_rest_sums_to_one():
    """A type below the least weight is not looked up."""
    weights, _ = Chain(TYPES, [Says(("math", 0.985), ("code", 0.015))]).classify(ask())
    assert weights == (("math", 1.0),)


def test_hard_types_keep_the_heaviest():
    """`hard_types` gives one type the whole weight, `general` where the answer was unsure."""
    sure = Chain(TYPES, [Says(("code", 0.8), ("math", 0.2))], hard_types=True)
    unsure = Chain(TYPES, [Says(("code", 0.51), ("math", 0.49))], hard_types=True)
    assert sure.classify(ask()) == ((("code", 1.0),), "says")
    assert unsure.classify(ask()) == ((("general", 1.0),), "says")


answers = st.dictionaries(
    st.sampled_from(["math", "code", "chat", "law", "art", "general"]),
    st.floats(0.001, 1.0),
    min_size=1,
).map(lambda raw: tuple((name, x / sum(raw.values())) for name, x in raw.items()))


@given(answers)
def test_weights_are_a_distribution_over_known_types(answer):
    """Whatever a part says, the weights are known types, heaviest first, and sum to 1."""
    weights, _ = Chain(TYPES, [Says(*answer)]).classify(ask())
    shares = [weight for _, weight in weights]
    assert {name for name, _ in weights} <= set(TYPES)
    assert math.isclose(sum(shares), 1.0, abs_tol=1e-9)
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= LEAST_WEIGHT


@given(st.floats(0.5, 1.0), st.floats(0.5, 1.0))
def test_a_surer_answer_leaves_less_to_general(one, other):
    """The pull never grows with the largest probability."""

    def left(top: float) -> float:
        return tempered((("math", top), ("code", 1.0 - top)))[2][1]

    low, high = sorted((one, other))
    assert left(high) <= left(low)
