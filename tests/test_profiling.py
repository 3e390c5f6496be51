"""The offline wing: answers to curves, effects of tasks and models, shrunk and monotone cells."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.profiling import (
    Answer,
    Observation,
    Prediction,
    cell_at,
    estimated,
    fit_effects,
    fit_lengths,
    held_out_error,
    is_sensitive,
    logit,
    measured,
    mixed_reward,
    monotone_caps,
    pulled,
    shape_of,
    shrink_cells,
    sigmoid,
    with_tail,
)
from budgetroute.records import Action, Cell


@st.composite
def graded(draw):
    length = draw(st.integers(1, 4000))
    complete = draw(st.none() | st.integers(0, length))
    score = draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
    return Answer(draw(st.sampled_from("abcde")), score, length, complete)


answers = st.lists(graded(), min_size=1, max_size=30)
caps = st.integers(1, 5000)


def replayed(group, cap):
    """Return reward and tokens under a cap, straight from the rule."""
    kept = [
        answer.score
        * (
            (answer.output_tokens if answer.complete_tokens is None else answer.complete_tokens)
            <= cap
        )
        for answer in group
    ]
    billed = [min(answer.output_tokens, cap) for answer in group]
    return sum(kept) / len(group), sum(billed) / len(group)


@given(answers, caps)
def test_a_curve_pays_and_earns_what_cutting_every_answer_would(group, cap):
    """R(m) = mean(score · complete by m) and tokens(m) = mean min(length, m)."""
    curve = measured(group)
    reward, tokens = replayed(group, cap)
    assert curve.reward_at(cap) == pytest.approx(reward, abs=1e-9)
    assert curve.tokens_at(cap) == pytest.approx(tokens)
    assert curve.cut_at(cap) == pytest.approx(
        sum(a.output_tokens > cap for a in group) / len(group)
    )


@given(answers, caps, caps)
def test_a_larger_cap_never_earns_or_costs_less(group, one, other):
    """Reward and tokens are monotone in the cap."""
    small, large = sorted((one, other))
    curve = measured(group)
    assert curve.reward_at(small) <= curve.reward_at(large) + 1e-12
    assert curve.tokens_at(small) <= curve.tokens_at(large) + 1e-9


def test_an_answer_scored_as_a_whole_is_lost_by_any_cut():
    """Without a complete length, one token less counts 0."""
    curve = measured([Answer("a", 1.0, 100)])
    assert (curve.reward_at(99), curve.reward_at(100)) == (0.0, 1.0)


def test_samples_of_one_prompt_are_not_independent():
    """Ten samples of each prompt that agree leave the error of the prompts alone."""
    single = [Answer(str(i), float(i % 2), 10) for i in range(20)]
    repeated = [replace(answer) for answer in single for _ in range(10)]
    assert measured(repeated).reward_se == pytest.approx(measured(single).reward_se)


def test_a_perfect_score_is_not_certain():
    """Five of five right keeps a standard error."""
    assert measured([Answer(str(i), 1.0, 10) for i in range(5)]).reward_se > 0


def test_no_answers_make_no_curve():
    """An empty group is refused."""
    with pytest.raises(ValueError, match="at least one"):
        measured([])


def test_a_shape_keeps_the_spread_and_takes_the_mean():
    """An estimate from a shape has the mean asked for and the donors' relative spread."""
    donors = [[Answer("a", 1.0, 50, 40), Answer("b", 1.0, 150, 120)]]
    curve = estimated(shape_of(donors), reward=0.6, reward_se=0.1, mean_tokens=400)
    assert curve.tokens_at(10**6) == pytest.approx(400)
    assert curve.lengths[-1][0] / curve.lengths[0][0] == pytest.approx(3)
    assert (curve.reward_at(10**6), curve.n) == (pytest.approx(0.6), 0)
    assert curve.reward_at(161) == pytest.approx(0.3)


def test_each_donor_model_counts_alike_in_a_shape():
    """A model with a hundred times the answers does not drown the other."""
    short = [Answer("a", 1.0, 100, 10)]
    long = [Answer("b", 1.0, 100, 90)] * 100
    completes = shape_of([short, long]).completes
    assert sum(ratio < 0.5 for ratio in completes) == pytest.approx(len(completes) / 2)


def test_a_shape_needs_a_scored_answer():
    """Wrong answers alone tell nothing of when an answer is complete."""
    with pytest.raises(ValueError, match="scored"):
        shape_of([[Answer("a", 0.0, 10)]])


def test_a_tail_makes_long_answers_possible():
    """A share of the answers comes out like the other curve's, in reward and length."""
    short, long = measured([Answer("a", 1.0, 10)]), measured([Answer("a", 0.5, 1000)])
    curve = with_tail(short, long, share=0.1)
    assert curve.reward == pytest.approx(0.95)
    assert curve.reward_at(100) == pytest.approx(0.9)
    assert curve.tokens_at(5000) == pytest.approx(109)
    assert curve.cut_at(100) == pytest.approx(0.1)
    assert curve.n == 1


def test_a_tail_on_what_never_scores_is_still_a_curve():
    """Nought and nought is nought."""
    nothing = measured([Answer("a", 0.0, 10)])
    assert with_tail(nothing, nothing, share=0.5).reward_at(99) == 0


def test_a_cell_mixes_tasks_by_weight():
    """Reward, tokens and cut of a type are the weighted means of its tasks'."""
    one, two = measured([Answer("a", 1.0, 10)] * 60), measured([Answer("b", 0.5, 200)] * 60)
    cell = cell_at([(0.75, one), (0.25, two)], 100, input_factor=1.1, basis="provider")
    assert cell.reward == pytest.approx(0.75)
    assert cell.output_mean == pytest.approx(0.75 * 10 + 0.25 * 100)
    assert cell.cut == pytest.approx(0.25)
    assert (cell.output_p95, cell.input_factor, cell.n, cell.source) == (100, 1.1, 120, "measured")


def test_a_cell_mostly_estimated_says_so():
    """With less than half of the weight measured the cell is pooled and n = 0."""
    seen = measured([Answer("a", 1.0, 10)] * 60)
    guess = replace(seen, n=0)
    cell = cell_at([(0.4, seen), (0.6, guess)], 100, input_factor=1.0, basis="o200k")
    assert (cell.source, cell.n) == ("pooled", 0)


@given(answers, caps)
def test_quantiles_of_a_cell_are_billed_lengths(group, cap):
    """p95 ≤ p99 ≤ cap, and at most a twentieth of the answers is longer than p95."""
    cell = cell_at([(1.0, measured(group))], cap, input_factor=1.0, basis="o200k")
    billed = [min(answer.output_tokens, cap) for answer in group]
    assert cell.output_p95 <= cell.output_p99 <= cap
    assert sum(tokens > cell.output_p95 for tokens in billed) <= 0.05 * len(group) + 1e-6


def made_up(tasks=8, models=12, n=400, seed=3):
    """Return observations drawn from known effects, and the truth of each."""
    luck = random.Random(seed)
    hard = [luck.gauss(0.5, 1) for _ in range(tasks)]
    able = [luck.gauss(0, 0.8) for _ in range(models)]
    truth = {
        (f"t{t}", f"m{m}"): sigmoid(level + ability)
        for t, level in enumerate(hard)
        for m, ability in enumerate(able)
    }
    seen = [
        Observation(task, model, sum(luck.random() < p for _ in range(n)) / n, n)
        for (task, model), p in truth.items()
    ]
    return seen, truth


def test_effects_predict_what_was_left_out():
    """Of a matrix with a third missing, the missing scores come within three points."""
    seen, truth = made_up()
    kept = [row for i, row in enumerate(seen) if (i + i // 12) % 3]
    effects = fit_effects(kept)
    missing = set(truth) - {(row.task, row.model) for row in kept}
    errors = [effects.predict(*key).reward - truth[key] for key in missing]
    assert (sum(error**2 for error in errors) / len(errors)) ** 0.5 < 0.03


def test_a_compressed_scale_gets_a_small_slope():
    """A judge that grades everyone alike shows less of an ability than an exam does."""
    seen, _ = made_up()
    flat = [
        row._replace(mean=sigmoid(1 + 0.3 * logit(min(0.99, max(0.01, row.mean)))))
        if row.task == "t0"
        else row
        for row in seen
    ]
    slopes = fit_effects(flat).slope
    assert slopes["t0"] < 0.6 * min(slope for task, slope in slopes.items() if task != "t0")


def test_a_model_seen_once_is_doubted_more():
    """The error of a prediction grows as the evidence on the model shrinks."""
    seen, _ = made_up()
    kept = [row for row in seen if row.model != "m0" or row.task == "t1"]
    effects = fit_effects(kept)
    assert effects.predict("t5", "m0").reward_se > 1.5 * effects.predict("t5", "m1").reward_se


def test_a_model_seen_once_is_drawn_to_the_average():
    """One poor score on few prompts does not make the worst model."""
    seen, _ = made_up()
    kept = [row for row in seen if row.model != "m0"] + [Observation("t1", "m0", 0.0, 5)]
    effects = fit_effects(kept)
    alone = logit(0.5 / 6) - effects.level["t1"]
    assert alone < effects.ability["m0"] < 0


def test_effects_do_not_depend_on_the_order_of_rows():
    """The same observations shuffled give the same fit."""
    seen, _ = made_up(tasks=4, models=6)
    shuffled = random.Random(1).sample(seen, len(seen))
    one, other = fit_effects(seen), fit_effects(shuffled)
    assert one.ability == pytest.approx(other.ability, abs=1e-5)


def test_effects_need_an_observation():
    """Nothing seen is an error, not an average."""
    with pytest.raises(ValueError, match="at least one"):
        fit_effects([])


def test_an_unknown_model_is_not_predicted():
    """Effects never make up a model."""
    seen, _ = made_up(tasks=2, models=3)
    with pytest.raises(KeyError):
        fit_effects(seen).predict("t0", "new")


def test_held_out_error_is_near_the_sampling_error_when_effects_are_true():
    """On data of the model's own kind, leaving out costs little beyond noise."""
    seen, _ = made_up()
    assert 0.01 < held_out_error(seen, {row.model for row in seen}) < 0.04


def test_nothing_to_hold_out_is_an_error():
    """A model nobody measured cannot be judged."""
    seen, _ = made_up(tasks=2, models=3)
    with pytest.raises(ValueError, match="no observation"):
        held_out_error(seen, {"absent"})


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98))
def test_beyond_the_best_measured_score_only_half_counts(promised, best):
    """A prediction under the frontier stays; above it, it lies between frontier and promise."""
    prediction = Prediction(promised, 0.1, logit(promised))
    reward = prediction.tempered(best).reward
    if promised <= best:
        assert reward == promised
    else:
        assert best - 1e-9 <= reward <= promised + 1e-9


def test_lengths_multiply_task_and_model():
    """A terse task by a wordy model: the missing cell is filled on the log scale."""
    means = {("t", "a"): 100.0, ("t", "b"): 200.0, ("u", "a"): 50.0}
    lengths = fit_lengths(means)
    assert lengths.predict("u", "b") == pytest.approx(100, rel=0.05)


def test_a_model_of_unknown_verbosity_is_average():
    """Lengths are needed even where none was measured."""
    lengths = fit_lengths({("t", "a"): 100.0, ("t", "b"): 100.0})
    assert lengths.predict("t", "new") == pytest.approx(100, rel=0.05)


def test_few_answers_are_pulled_further_than_many():
    """Empirical Bayes: the noisier mean moves more towards its prediction."""
    prediction = Prediction(0.5, 0.1, 0.0)
    few = measured([Answer(str(i), 1.0 * (i % 10 > 0), 10) for i in range(20)])
    many = measured([Answer(str(i), 1.0 * (i % 10 > 0), 10) for i in range(2000)])
    near, far = (pulled(curve, prediction, scatter=0.1).reward for curve in (few, many))
    assert 0.5 < near < far < 0.9


def test_shrinking_leaves_estimates_alone():
    """Only measured cells have sampling error to shrink."""
    cells = [Cell(40, r, 0.08, 10.0) for r in (0.1, 0.5, 0.3, 0.7, 0.6)]
    cells.append(Cell(0, 0.9, 0.1, 10.0, source="pooled"))
    shrunk = shrink_cells(cells, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert shrunk[-1] == cells[-1]
    assert any(a.reward != b.reward for a, b in zip(cells[:-1], shrunk, strict=False))


def test_nothing_measured_is_nothing_to_shrink():
    """A row of estimates passes through."""
    cells = [Cell(0, 0.9, 0.1, 10.0, source="pooled")]
    assert shrink_cells(cells, [1.0]) == cells


@given(
    st.lists(
        st.tuples(st.sampled_from([64, 256, 1024]), st.booleans(), st.floats(0, 1)), max_size=6
    )
)
def test_caps_are_monotone_after_lifting(rows):
    """Within one model and instruction, more room never promises less; nothing is lowered."""
    actions = [Action("m", cap, cot=cot) for cap, cot, _ in rows]
    cells = [Cell(9, reward, 0.1, 9.0) for *_, reward in rows]
    lifted = monotone_caps(actions, cells)
    for a, cell, before in zip(actions, lifted, cells, strict=True):
        assert cell.reward >= before.reward
        assert all(
            cell.reward >= other.reward
            for b, other in zip(actions, lifted, strict=True)
            if b.cot == a.cot and b.max_tokens < a.max_tokens
        )


def test_a_mixture_weighs_rewards_by_traffic():
    """General is what the shares say, with an error smaller than its parts'."""
    cells = {"a": Cell(9, 0.2, 0.1, 9.0), "b": Cell(9, 0.8, 0.1, 9.0)}
    reward, error = mixed_reward(cells, {"a": 0.25, "b": 0.75})
    assert reward == pytest.approx(0.65)
    assert error < 0.1


def test_a_curve_that_is_flat_at_once_is_insensitive():
    """Ten times the money for one point is not sensitive; for forty it is."""
    assert not is_sensitive([(1.0, 0.90), (100.0, 0.91)])
    assert is_sensitive([(1.0, 0.5), (100.0, 0.91)])
    assert not is_sensitive([])
