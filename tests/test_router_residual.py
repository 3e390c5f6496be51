"""The residual in the router: curves lean to the prompt, decisions and `explain` show it."""

from __future__ import annotations

import math

import pytest
from cli_support import STORE, cli_at
from helpers.world import TINY, asked, cell
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.classify import Centroids
from budgetroute.records import Action, Guess, InputSize, ModelCard, Price, Rates
from budgetroute.router import Router
from budgetroute.router.slate import Sizing, Slate
from budgetroute.router.table import ModelFacts, make_row

SIZING = Sizing(InputSize(200, 800), 0.0, 0)
FIXED = '[pacing]\npacer = "fixed"\ninitial_lambda = 40.0\n'
CURVES = {
    "a": {256: cell(0.3, 150, cut=0.4), 1024: cell(0.6, 300, cut=0.1)},
    "b": {256: cell(0.7, 50, cut=0.02), 1024: cell(0.8, 60, cut=0.0)},
}
FAMILIES = ("m", "other")


def row(model: str, cap: int, rate: float = 1.0, curves=None):
    price = Price(model, Rates(round(rate * 1e12), round(4e12 * rate)))
    facts = ModelFacts(price, ModelCard(model, "custom"))
    curve = CURVES if curves is None else curves
    return make_row(
        Action(model, cap), facts, {name: caps[cap] for name, caps in curve.items()}, curve=curve
    )


def slate() -> Slate:
    return Slate([row("m", 256), row("m", 1024), row("other", 1024, 9.0)], {"a": 1.0, "b": 2.0})


def expected(guess: Guess | None, weights=(("a", 1.0),)):
    """Return (C, value·R) of every row."""
    found = slate().rank(weights, SIZING, price=0.0, floor=None, guess=guess).expected
    assert found is not None
    return found[0].tolist(), found[1].tolist()


def test_a_guess_of_nothing_changes_nothing() -> None:
    """A prompt like its type has its type's R and C, to the last digit that matters."""
    plain, leant = expected(None), expected(Guess(0.0, FAMILIES, (0.0, 0.0)))
    assert leant[0] == pytest.approx(plain[0])
    assert leant[1] == pytest.approx(plain[1])


def test_longer_answers_cost_more_and_lose_to_caps() -> None:
    """Twice as long: the cap of 1024 earns what 512 did, and pays for twice as many tokens."""
    plain, leant = expected(None), expected(Guess(math.log(2), FAMILIES, (0.0, 0.0)))
    assert leant[1][1] == pytest.approx(0.45, abs=0.01)
    assert leant[0][1] > plain[0][1] * 1.4
    assert leant[1][0] < plain[1][0]


def test_a_reward_moves_as_far_as_the_cap_lets_it_show() -> None:
    """At a cap that leaves half of the reward, half of the addition shows; families differ."""
    _, gains = expected(Guess(0.0, FAMILIES, (0.2, -0.2)))
    assert gains == pytest.approx([0.3 + 0.1, 0.6 + 0.2, 0.6 - 0.2])


def test_a_type_s_value_counts_in_what_is_added() -> None:
    """With value 2, an addition of 0.1 is worth 0.2."""
    _, plain = expected(None, (("b", 1.0),))
    _, leant = expected(Guess(0.0, FAMILIES, (0.1, 0.1)), (("b", 1.0),))
    assert leant[1] - plain[1] == pytest.approx(0.2)


def test_families_that_the_guess_does_not_know_move_by_the_mean() -> None:
    """A model of the user's own is not left behind when a prompt is hard for all others."""
    _, gains = expected(Guess(0.0, ("m", "x"), (-0.1, -0.3)))
    assert gains[2] == pytest.approx(0.6 - 0.2)


@given(st.floats(-1, 1), st.tuples(st.floats(-0.35, 0.35), st.floats(-0.35, 0.35)))
def test_whatever_is_guessed_rewards_stay_rewards(length, rewards) -> None:
    """R stays in [0, 1] and C stays positive."""
    costs, gains = expected(Guess(length, FAMILIES, rewards))
    assert all(0.0 <= gain <= 1.0 for gain in gains)
    assert all(cost > 0 for cost in costs)


@given(st.floats(-1, 0.99))
def test_longer_is_never_cheaper(length) -> None:
    """Expected cost does not fall as answers get longer."""
    less, more = (expected(Guess(x, FAMILIES, (0.0, 0.0)))[0] for x in (length, length + 0.01))
    assert all(b >= a * (1 - 1e-9) for a, b in zip(less, more, strict=True))


class Guesser:
    """A classifier whose guess is given."""

    def __init__(self, guess: Guess) -> None:
        self._guess = guess

    def classify(self, _request):
        return (("math", 0.7), ("chat", 0.3)), "given"

    def guess(self, _request):
        return self._guess


def test_the_decision_is_made_with_the_guess(world) -> None:
    """Where only the large model is guessed to be right, it is taken; else a cheap one is."""
    chosen = {}
    for name, rewards in (
        ("needed", (-0.3, -0.3, -0.3, 0.15)),
        ("wasted", (0.3, 0.0, -0.3, -0.35)),
    ):
        router = world.router(more=FIXED.replace("40", "10"))
        guess = Guess(0.0, ("small", "mid", "mid|cot", "large"), rewards)
        router.equipment.lane("answer").chain.parts = (Guesser(guess),)
        chosen[name] = router.decide(asked()).action.model
    assert chosen == {"needed": "large", "wasted": "small"}


def test_explain_shows_the_residual(disk_world) -> None:
    """The line says how much longer and how far R moves; JSON has the numbers; without, neither."""
    router = disk_world.router(more=FIXED + STORE)
    plain = router.decide(asked())
    guess = Guess(math.log(1.5), ("small", "mid|cot"), (-0.02, 0.04))
    router.equipment.lane("answer").chain.parts = (Guesser(guess),)
    moved = router.decide(asked())
    said = cli_at(disk_world, "explain", moved.id, "--json").json
    assert said["guess"] == {"times_as_long": 1.5, "reward_least": -0.02, "reward_most": 0.04}
    assert (
        "×1.50 as long; R moves by -0.020 to +0.040" in cli_at(disk_world, "explain", moved.id).line
    )
    assert cli_at(disk_world, "explain", plain.id, "--json").json["guess"] is None


def test_a_user_s_classifier_is_asked_before_the_profile_s(world) -> None:
    """`classifiers=` takes what the user made; the chain says that it answered."""
    world.router(more=FIXED)
    mine = Centroids(
        {"math": ["sum"], "chat": ["hello"]}, embed=lambda text: [text.count("sum"), 0.1]
    )
    file = world.folder / "budgetroute.toml"
    other = Router.from_config(file, store=world.store, classifiers=[mine])
    assert other.equipment.lane("answer").chain.parts[1] is mine
    decision = other.decide(asked(text="sum of sums"))
    assert (decision.classified_by, decision.types[0][0]) == ("centroid", "math")
    assert decision.types[0][0] in TINY.types
