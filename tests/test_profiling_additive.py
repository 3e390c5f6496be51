"""Shrinking types towards type + action, by the noise of differences on the same prompts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.profiling import paired_noise, shrink_families, shrink_types
from budgetroute.records import Action, Cell

ACTIONS = [Action("a", 64), Action("a", 256), Action("b", 256)]
NOISE = {"a": 0.2, "b": 0.2}


def row(*rewards: float, n: int = 100) -> list[Cell]:
    return [Cell(n, reward, 0.05, 50.0) for reward in rewards]


def test_luck_shared_by_all_actions_is_no_noise() -> None:
    """Prompts that all actions fail or pass together say exactly how actions differ."""
    assert paired_noise([[[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]]) == [0.0, 0.0]


def test_a_type_of_one_prompt_tells_no_noise() -> None:
    """Without two prompts of a type the noise is that of a coin."""
    assert paired_noise([[[1.0, 0.0]], [[0.0, 1.0]]]) == [0.25, 0.25]


def test_types_of_few_prompts_follow_the_others() -> None:
    """A row of 4 prompts moves nearly all the way, one of 400 hardly."""
    means = {"many": [0.2, 0.8], "few": [0.8, 0.2], "more": [0.3, 0.7]}
    kept = shrink_types(means, {"many": 400, "few": 4, "more": 400}, [0.2, 0.2])
    assert abs(kept["many"][0] - 0.2) < 0.01
    assert kept["few"][0] < kept["few"][1]


def test_the_truth_is_nearer_after_shrinking() -> None:
    """On drawn tables, whose types differ little, errors of differences fall by a third or more."""
    luck = np.random.default_rng(4)
    before = after = 0.0
    for _ in range(20):
        truth = (
            luck.uniform(0.4, 0.6, (6, 1))
            + np.array([-0.2, 0.0, 0.2])
            + luck.normal(0, 0.03, (6, 3))
        )
        drawn = (luck.random((6, 30, 3)) < truth[:, None, :]).astype(float)
        means = {str(k): drawn[k].mean(axis=0).tolist() for k in range(6)}
        kept = shrink_types(means, dict.fromkeys(means, 30.0), paired_noise(drawn.tolist()))
        for k in range(6):
            real = truth[k] - truth[k].mean()
            before += float(((np.array(means[str(k)]) - np.mean(means[str(k)]) - real) ** 2).sum())
            after += float(((np.array(kept[str(k)]) - np.mean(kept[str(k)]) - real) ** 2).sum())
    assert after < 0.67 * before


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=4))
def test_one_type_alone_stays_and_rows_keep_their_mean(rows) -> None:
    """Shrinking moves differences between actions, never how hard a type is (equal counts)."""
    means = {str(k): row for k, row in enumerate(rows)}
    kept = shrink_types(means, dict.fromkeys(means, 10.0), [0.1, 0.1])
    for name, rewards in means.items():
        assert sum(kept[name]) == pytest.approx(sum(rewards), abs=1e-9)
    if len(rows) == 1:
        assert kept["0"] == pytest.approx(rows[0])


def test_smaller_caps_keep_their_part() -> None:
    """A family's largest cap is shrunk, and what a smaller one leaves of it stays in proportion."""
    cells = {"x": row(0.3, 0.6, 0.9), "y": row(0.1, 0.5, 0.5, n=3)}
    kept = shrink_families(ACTIONS, cells, NOISE)
    for name, before in cells.items():
        assert kept[name][0].reward / kept[name][1].reward == pytest.approx(
            before[0].reward / before[1].reward
        )
    assert kept["y"][2].reward > kept["y"][1].reward
