"""Shrinking of a table of types × actions towards type + action, by what its cells are known to.

Where the same prompts went to all actions, luck with prompts lifts or lowers a whole row and changes
no choice. So a cell's noise is that of its difference to the row's mean, which is far smaller than
that of the cell alone; shrinking by the latter takes real differences for luck.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.records import Action, Cell

__all__ = ["paired_noise", "shrink_families", "shrink_types"]


def paired_noise(groups: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """Return each action's variance of one prompt's difference to its mean over actions.

    Args:
        groups: for each type, its prompts; for each prompt, the reward of every action.

    >>> paired_noise([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    [0.25, 0.25]
    """
    rows = [row for group in groups for row in group]
    degrees = sum(len(group) - 1 for group in groups if group)
    if degrees < 1:
        return [_even_odds() for _ in (rows[0] if rows else ())]
    return [
        math.fsum(_scatter([row[a] - math.fsum(row) / len(row) for row in g]) for g in groups if g)
        / degrees
        for a in range(len(rows[0]))
    ]


def _even_odds() -> float:
    return 0.25


def _scatter(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def shrink_types(
    means: Mapping[str, Sequence[float]], counts: Mapping[str, float], noise: Sequence[float]
) -> dict[str, list[float]]:
    """Pull every cell towards type + action, each type by how few prompts it has.

    R̂_ka = μ_ka + w_ka (R̄_ka − μ_ka), μ_ka = R̄_k· + (R̄_·a − R̄_··), w = τ²/(τ² + v_a/n_k): τ² is
    what the cells scatter around μ beyond their noise (moments, weighted by n), one for all.

    Args:
        means: type → mean reward of every action.
        counts: type → prompts behind its row.
        noise: `paired_noise` of every action.

    >>> kept = shrink_types({"a": [0.2, 0.8], "b": [0.4, 0.6]}, {"a": 99, "b": 1}, [0.2, 0.2])
    >>> [round(value, 2) for value in kept["b"]]
    [0.2, 0.8]
    """
    total = math.fsum(counts.values())
    width = range(len(noise))
    overall = [math.fsum(counts[k] * row[a] for k, row in means.items()) / total for a in width]
    middle = math.fsum(overall) / len(overall)
    target = {
        name: [math.fsum(row) / len(row) + each - middle for each in overall]
        for name, row in means.items()
    }
    between = _between(means, counts, noise, target=target)
    return {
        name: [
            mu + (mean - mu) * between / (between + v / counts[name])
            for mean, mu, v in zip(row, target[name], noise, strict=True)
        ]
        if between > 0
        else target[name]
        for name, row in means.items()
    }


def shrink_families(
    actions: Sequence[Action], cells: Mapping[str, Sequence[Cell]], noise: Mapping[str, float]
) -> dict[str, tuple[Cell, ...]]:
    """Shrink what each family earns at its largest cap, and its other caps in proportion.

    What a cap cuts depends on how long answers are, which is known better than how good they are.

    Args:
        actions: the columns.
        cells: type → a measured cell for every action.
        noise: family → `paired_noise` of its uncut answers.
    """
    top: dict[str, int] = {}
    for place, action in enumerate(actions):
        best = top.get(action.family)
        if best is None or action.max_tokens > actions[best].max_tokens:
            top[action.family] = place
    means = {name: [row[i].reward for i in top.values()] for name, row in cells.items()}
    counts = {name: float(max(1, row[0].n)) for name, row in cells.items()}
    found = shrink_types(means, counts, [noise[family] for family in top])
    better = {name: dict(zip(top, rewards, strict=True)) for name, rewards in found.items()}
    return {
        name: tuple(
            _scaled(cell, row[top[action.family]].reward, better[name][action.family])
            for action, cell in zip(actions, row, strict=True)
        )
        for name, row in cells.items()
    }


def _scaled(cell: Cell, whole: float, better: float) -> Cell:
    ratio = cell.reward / whole if whole > 0 else 1.0
    return replace(cell, reward=min(1.0, max(0.0, better * min(1.0, ratio))))


def _between(
    means: Mapping[str, Sequence[float]],
    counts: Mapping[str, float],
    noise: Sequence[float],
    *,
    target: Mapping[str, Sequence[float]],
) -> float:
    """Return τ²; 0 where one type is all there is."""
    total = math.fsum(counts.values())
    spread = 1.0 - math.fsum((n / total) ** 2 for n in counts.values())
    if spread <= 0:
        return 0.0
    scatter = math.fsum(
        counts[name] * (mean - mu) ** 2
        for name, row in means.items()
        for mean, mu in zip(row, target[name], strict=True)
    )
    luck = math.fsum(noise) * (len(counts) - 1)
    return max(0.0, (scatter - luck) / total / len(noise) / spread)
