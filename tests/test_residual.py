"""The per-prompt residual: fitted, saved, served in the slate, seen in `explain`."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from budgetroute.classify import Chain, LinearClassifier
from budgetroute.classify.residual import LONGEST, RESIDUAL_ARRAYS, WIDEST
from budgetroute.classify.shapes import SHAPES, shape_of_text
from budgetroute.classify.train import save_npz, train
from budgetroute.curves import stretched
from budgetroute.errors import ProfileError
from budgetroute.profiling import Graded, fit_residual, with_residual
from budgetroute.records import Cell, Guess, InputSize, Request

EASY, HARD = "add two small numbers", "prove integral theorem manifold"


def corpus(size: int = 240, seed: int = 3) -> tuple[list[str], list[str], np.ndarray]:
    """Return prompts of two types, their labels, and which are hard: that is in their words."""
    draw = random.Random(seed)
    texts, labels, hard = [], [], []
    for i in range(size):
        label = "math" if i % 2 else "code"
        is_hard = draw.random() < 0.5
        own = ("python list " if label == "code" else "sum price ") + (HARD if is_hard else EASY)
        texts.append(" ".join(draw.choices(own.split(), k=12)))
        labels.append(label)
        hard.append(is_hard)
    return texts, labels, np.array(hard)


def graded(*, helps: bool = True, size: int = 240) -> Graded:
    """Hard prompts need the big model and long answers, if `helps`; else nothing is in the words."""
    texts, labels, hard = corpus(size)
    if not helps:
        hard = np.random.default_rng(5).permutation(hard)
    small, big = np.where(hard, 0.0, 1.0), np.ones(size)
    tokens = np.where(hard, 400.0, 100.0)[:, None] * np.ones((1, 2))
    return Graded(
        texts, labels, ("small", "big"), np.stack([small, big], axis=1),
        tokens * [1e-6, 1e-5], tokens,
    )  # fmt: skip


@pytest.fixture(scope="module")
def arrays():
    texts, labels, _ = corpus()
    return train(texts, labels)


@pytest.fixture(scope="module")
def served(arrays) -> LinearClassifier:
    return LinearClassifier(with_residual(arrays, fit_residual(LinearClassifier(arrays), graded())))


def request(text: str) -> Request:
    return Request(route="r", text=text, size=InputSize(9, 36))


def test_a_hard_prompt_moves_the_small_model_down_and_answers_get_longer(served) -> None:
    """What words say about difficulty and length reaches the guess, with the right signs."""
    easy = served.guess(request(f"sum price {EASY} {EASY}"))
    hard = served.guess(request(f"sum price {HARD} {HARD}"))
    assert easy is not None
    assert hard is not None
    assert hard.length > 0.3 > -0.3 > easy.length
    assert hard.rewards[0] < -0.1
    assert easy.rewards[0] > 0.1
    assert abs(hard.rewards[1]) < abs(hard.rewards[0])
    assert hard.families == ("small", "big")


def test_where_words_say_nothing_the_residual_is_off(arrays) -> None:
    """Rewards and lengths drawn without regard to the words leave no arrays behind."""
    fit = fit_residual(LinearClassifier(arrays), graded(helps=False))
    assert not fit.arrays
    assert with_residual(arrays, fit).keys() == arrays.keys()


def test_the_gain_is_judged_on_other_folds(arrays) -> None:
    """A residual that earns more than types alone says so by more than its error."""
    fit = fit_residual(LinearClassifier(arrays), graded())
    assert fit.gain > 2 * fit.gain_se > 0
    assert fit.length_explained > 0.5
    assert fit.prompts == 240


def test_few_prompts_make_no_residual(arrays) -> None:
    """Below a hundred prompts nothing is fitted."""
    assert not fit_residual(LinearClassifier(arrays), graded(size=60)).arrays


def test_types_are_the_same_with_a_residual(arrays, served) -> None:
    """A residual changes no probability."""
    plain = LinearClassifier(arrays)
    for text in corpus(20, seed=9)[0]:
        assert served.probabilities(text) == plain.probabilities(text)


def test_a_saved_residual_guesses_the_same(tmp_path, arrays) -> None:
    """The file holds all of it: what is loaded guesses to the bit what was fitted."""
    made = with_residual(arrays, fit_residual(LinearClassifier(arrays), graded()))
    save_npz(tmp_path / "types.npz", made)
    loaded = LinearClassifier.load(tmp_path / "types.npz")
    text = f"python {HARD}"
    assert loaded.guess(request(text)) == LinearClassifier(made).guess(request(text))
    assert loaded.meta["residual"]["version"] == 1


def test_a_file_without_a_residual_guesses_nothing(arrays) -> None:
    """Old files work as before."""
    assert LinearClassifier(arrays).guess(request(EASY)) is None


def test_a_foreign_text_is_not_guessed(served) -> None:
    """A text of which less than half the words are known gets its type's curves."""
    assert served.guess(request("zażółć gęślą jaźń wśród nocnej ciszy")) is None


@pytest.mark.parametrize("name", RESIDUAL_ARRAYS)
def test_damaged_arrays_are_refused(arrays, name) -> None:
    """A missing, misshapen or infinite array is an error that names it."""
    made = with_residual(arrays, fit_residual(LinearClassifier(arrays), graded()))
    for bad in (None, made[name][:-1], np.full_like(made[name], np.nan)):
        broken = {key: value for key, value in {**made, name: bad}.items() if value is not None}
        with pytest.raises(ProfileError, match=r"residual"):
            LinearClassifier(broken)


def test_a_newer_version_is_refused(arrays) -> None:
    """A residual of another version is not read as if it were this one."""
    made = with_residual(arrays, fit_residual(LinearClassifier(arrays), graded()))
    meta = json.loads(made["meta"].tobytes())
    meta["residual"]["version"] = 2
    made["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with pytest.raises(ProfileError, match="version 2"):
        LinearClassifier(made)


def test_guesses_are_bounded(served) -> None:
    """However odd a prompt, a guess moves rewards and lengths by no more than its bounds."""
    odd = served.guess(request(f"{HARD} " * 500 + "9" * 5000))
    assert odd is not None
    assert abs(odd.length) <= LONGEST
    assert all(abs(reward) <= WIDEST for reward in odd.rewards)


def test_tables_of_other_sizes_are_refused(arrays) -> None:
    """Scores for fewer prompts than texts are an error, not a fit of the wrong pairs."""
    good = graded()
    bad = Graded(good.texts, good.labels, good.families, good.scores[:-1], good.costs)
    with pytest.raises(ProfileError, match="finite scores"):
        fit_residual(LinearClassifier(arrays), bad)


def test_the_chain_asks_the_part_that_can_guess(served) -> None:
    """Parts without guesses are passed over; without any there is no guess."""
    chain = Chain(["math", "code"], [served])
    assert chain.guess(request(f"python {HARD}")) == served.guess(request(f"python {HARD}"))
    assert Chain(["math"], []).guess(request("x")) is None


def test_a_shape_has_as_many_numbers_as_it_says() -> None:
    """Empty, short and very long texts have shapes of one length, finite."""
    for text in ("", "a", "12 + 3 = ?", "x" * 100_000):
        shape = shape_of_text(text)
        assert len(shape) == SHAPES
        assert all(map(math.isfinite, shape))


CURVE = {
    256: Cell(50, 0.4, 0.07, 200.0, cut=0.5),
    1024: Cell(50, 0.6, 0.07, 300.0, cut=0.1),
}


def test_longer_answers_lose_more_to_a_cap_and_cost_more() -> None:
    """Twice as long: what a cap of 1024 gives is what half of it gave, at twice the tokens."""
    longer, shorter = stretched(CURVE, 1024, math.log(2)), stretched(CURVE, 256, -math.log(2))
    assert longer is not None
    assert shorter is not None
    assert (round(longer.reward, 3), longer.output_mean) == (0.5, 500.0)
    assert (round(shorter.reward, 3), shorter.output_mean) == (0.5, 125.0)


def test_below_the_smallest_cap_the_reward_fades_unless_nothing_is_cut() -> None:
    """A cap that cuts is not enough for longer answers; one that never cut stays as good."""
    faded = stretched(CURVE, 256, 1.0)
    assert faded is not None
    assert 0 < faded.reward < 0.4
    assert faded.output_mean == 256
    uncut = {4096: Cell(50, 0.4, 0.07, 200.0, cut=0.0)}
    kept = stretched(uncut, 4096, 0.5)
    assert kept is not None
    assert kept.reward == 0.4
    assert stretched({}, 64, 0.1) is None


def test_a_guess_tells_its_spread() -> None:
    """`explain` shows the least and the largest move; without families there is none."""
    assert Guess(0.0, ("a", "b"), (0.02, -0.01)).spread == (-0.01, 0.02)
    assert Guess(0.0, (), ()).spread == (0.0, 0.0)
