"""What few samples per cell cost: regret of choices on curves from n prompts per type.

Curves are fitted to n prompts per type of zeroeval's and mmlu_pro's fitted halves, as they are (raw
means) and shrunk (`shrink_families`: towards type + model, by paired noise; `shrink_ways`: towards a
concave fit over log cost, as `profile fit` does without a table of other types). Types are the labelled
ones. Regret is what curves from the whole judged half itself would have earned more, at equal dollars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from harness import Figure, say
from quality_data import read_matrix
from quality_judge import judge
from quality_ours import Expected, profile_of

from budgetroute.profiling import shrink_ways

if TYPE_CHECKING:
    from pathlib import Path

    from quality_data import Matrix
    from workload import Floats

    from budgetroute.records import Cell, Profile

SIZES = (20, 50, 100, 200)
DRAWS = 6
WAYS = ("raw means", "concave over log cost", "type + model, paired")


def figures(folder: Path, *, quick: bool) -> list[Figure]:
    """Judge every size; in a hurry one drawing of zeroeval."""
    made = []
    for name in ("zeroeval",) if quick else ("zeroeval", "mmlu_pro", "renze_mcqa"):
        matrix = read_matrix(folder, name)
        table = np.array([_regrets(matrix, seed) for seed in range(1 if quick else DRAWS)])
        sizes = [size for size in SIZES if size <= _least(matrix)]
        say(f"{name}: regret in points of reward, by prompts per type " + str(sizes))
        for way, row in zip(WAYS, table.mean(axis=0).T, strict=True):
            say(f"  {way:<24}" + "".join(f"{value:>7.2f}" for value in row))
        shrunk, raw = table.mean(axis=0)[:, 2], table.mean(axis=0)[:, 0]
        what = f"{name}, regret at {sizes[0]} per type, shrunk less raw"
        made.append(Figure(what, float(shrunk[0] - raw[0]), "points"))
    return made


def _least(matrix: Matrix) -> int:
    """Return the prompts that the smallest type's fitted half has."""
    return int(np.bincount(matrix.kinds).min() // 2)


def _regrets(matrix: Matrix, seed: int) -> list[list[float]]:
    """Return [size][way] points of regret on one half."""
    fit_rows, judged_rows = matrix.split(seed)
    fit, judged = matrix.at(fit_rows), matrix.at(judged_rows)
    names = list(matrix.labels)
    best = _lead(profile_of(judged, judged.kinds, names, shrunk=False), judged)
    made = []
    for size in [size for size in SIZES if size <= _least(matrix)]:
        few = fit.at(_few(fit, size, seed))
        raw = profile_of(few, few.kinds, names, shrunk=False)
        concave = _concave(raw, few)
        both = (raw, concave, profile_of(few, few.kinds, names))
        made.append([best - _lead(profile, judged) for profile in both])
    return made


def _few(fit: Matrix, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    of_kind = [np.flatnonzero(fit.kinds == kind) for kind in range(len(fit.labels))]
    return np.concatenate([rng.permutation(rows)[:size] for rows in of_kind])


def _concave(raw: Profile, few: Matrix) -> Profile:
    from dataclasses import replace

    cells: dict[str, tuple[Cell | None, ...]] = dict(raw.cells)
    for kind, name in enumerate(few.labels):
        row = [cell for cell in raw.cells[name] if cell is not None]
        costs = few.costs[few.kinds == kind].mean(axis=0).tolist()
        cells[name] = tuple(shrink_ways(raw.actions, row, costs))
    return replace(raw, cells=cells)


def _lead(profile: Profile, judged: Matrix) -> float:
    """Return the mean lead over the mix, types as labelled."""
    rows = {name: [cell for cell in row if cell] for name, row in profile.cells.items()}
    rewards = _table(judged, {name: [c.reward for c in row] for name, row in rows.items()})
    outputs = _table(judged, {name: [c.output_mean for c in row] for name, row in rows.items()})
    costs = judged.inputs[:, None] * judged.prices[:, 0] + outputs * judged.prices[:, 1]
    return float(judge(Expected(rewards, costs, 0.0), judged).lead.mean())


def _table(judged: Matrix, by_type: dict[str, list[float]]) -> Floats:
    return np.array([by_type[name] for name in judged.labels])[judged.kinds]
