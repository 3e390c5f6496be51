"""RouteLLM's own response files: GPT-4 or Mixtral, which prompts need the dear one?

PGR = (accuracy − Mixtral's) / (GPT-4's − Mixtral's); APGR is its mean over the share of prompts that
go to GPT-4, from none to all; CPT(x) is the least share that reaches PGR x. Prompts go by what GPT-4
is expected to add: types and residual as this library fits them on half of the prompts, judged on
the other half. RouteLLM's routers were trained on other data (votes on chats, judged by GPT-4 and a
tenth of MMLU's kind), so that this is no contest on equal terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from harness import Figure, at_least, say
from quality_data import read_pair
from quality_ours import Fitted, classifier_arrays, residual_of

from budgetroute.classify import LinearClassifier
from budgetroute.profiling import with_residual

if TYPE_CHECKING:
    from pathlib import Path

    from quality_data import Matrix
    from workload import Floats

HALVES = 5
TARGETS = {"MMLU": 0.70, "GSM8K": 0.66}
THEIRS = {"MMLU": "0.603", "GSM8K": "0.622"}


def figures(folder: Path, *, quick: bool) -> list[Figure]:
    """Judge both sets; in a hurry only GSM8K, on one half."""
    made = []
    for name in ("GSM8K",) if quick else ("MMLU", "GSM8K"):
        matrix = read_pair(folder, name)
        found = np.array([_judged(matrix, seed) for seed in range(1 if quick else HALVES)])
        apgr, cpt50, cpt80, plain = found.mean(axis=0)
        say(
            f"{name}, {len(matrix.texts):,} prompts: APGR {apgr:.3f} ± {found[:, 0].std():.3f} "
            f"(types alone {plain:.3f}), RouteLLM's best {THEIRS[name]}, on other training data"
        )
        made.append(at_least(f"{name}, APGR", float(apgr), "", TARGETS[name]))
        made.append(Figure(f"{name}, CPT50", 100 * float(cpt50), "%"))
        made.append(Figure(f"{name}, CPT80", 100 * float(cpt80), "%"))
    return made


def _judged(matrix: Matrix, seed: int) -> tuple[float, float, float, float]:
    """Return APGR, CPT50, CPT80, and APGR with types alone."""
    fit_rows, judged_rows = matrix.split(seed)
    fit, judged = matrix.at(fit_rows), matrix.at(judged_rows)
    weak, strong = (matrix.models.index(name) for name in ("weak", "strong"))
    gains = judged.scores[:, strong] - judged.scores[:, weak]
    unnamed: list[str | None] = [None] * len(judged.texts)
    if len(fit.labels) > 1:
        arrays = classifier_arrays(fit)
    else:  # one label: any two classes carry the terms that the residual reads
        arrays = classifier_arrays(fit, [str(i % 2) for i in range(len(fit.texts))])
        unnamed = [fit.labels[0]] * len(judged.texts)
    plain = Fitted(fit, arrays).expected(judged, unnamed)
    fitted = with_residual(arrays, residual_of(fit, LinearClassifier(arrays)))
    fuller = Fitted(fit, fitted).expected(judged, unnamed)
    first = _recovered(fuller.rewards[:, strong] - fuller.rewards[:, weak], gains)
    other = _recovered(plain.rewards[:, strong] - plain.rewards[:, weak], gains)
    return _area(first), _least(first, 0.5), _least(first, 0.8), _area(other)


def _recovered(expected: Floats, gains: Floats) -> Floats:
    """Return PGR with 0, 1, … all prompts sent to the strong model; ties stand in any order."""
    order = np.argsort(-(expected + 1e-9 * np.random.default_rng(0).random(expected.size)))
    return np.concatenate([[0.0], np.cumsum(gains[order])]) / gains.sum()


def _area(recovered: Floats) -> float:
    return float(((recovered[1:] + recovered[:-1]) / 2).mean())


def _least(recovered: Floats, share: float) -> float:
    return float(np.argmax(recovered >= share)) / (recovered.size - 1)
