"""The `paretobandit` package on its own data, in one run with this library's types and residual.

It needs an environment of its own that can import `pareto_bandit`; `PARETOBANDIT_PYTHON` names its
interpreter, without which this part is skipped. Its sentence embeddings would need torch, so that both
read prompts by TF-IDF: it gets 25 principal components, as many as its own default, and a bias.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from harness import Figure, say
from quality_data import read_matrix
from quality_judge import budgets, reward_at
from quality_rows import ours, vectorizer

VARIABLE = "PARETOBANDIT_PYTHON"
COMPONENTS = 25
HALVES = 3
TIMEOUT_S = 300


def figures(folder: Path, *, quick: bool) -> list[Figure]:
    """Compare rewards at the dollars that it really spends; none without its interpreter."""
    python = os.environ.get(VARIABLE)
    if quick or not python:
        say(f"paretobandit: skipped, {'--quick' if quick else f'{VARIABLE} names no interpreter'}")
        return []
    rows = np.array([row for seed in range(HALVES) for row in _half(folder, python, seed)])
    say(
        "paretobandit: ceiling, spent / ceiling, its reward, ours at the same dollars, its us, our us"
    )
    for part in rows.reshape(HALVES, -1, 6).mean(axis=0):
        say("  " + " ".join(f"{value:>10.5g}" for value in part))
    lead = 100 * float((rows[:, 3] - rows[:, 2]).mean())
    return [
        Figure("paretobandit stream, ours over the package at equal dollars", lead, "points"),
        Figure(
            "paretobandit stream, its worst spend over its ceiling", float(rows[:, 1].max()), "×"
        ),
        Figure(
            "paretobandit stream, its decision, features given", float(np.median(rows[:, 4])), "us"
        ),
        Figure(
            "paretobandit stream, our decision, from the text", float(np.median(rows[:, 5])), "us"
        ),
    ]


def _half(folder: Path, python: str, seed: int) -> list[list[float]]:
    from sklearn.decomposition import PCA

    matrix = read_matrix(folder, "paretobandit")
    fit_rows, judged_rows = matrix.split(seed)
    fit = matrix.at(fit_rows)
    judged = matrix.at(np.random.default_rng(seed).permutation(judged_rows))
    words = vectorizer()
    pca = PCA(COMPONENTS, whiten=True, random_state=0)
    warm = _with_bias(pca.fit_transform(words.fit_transform(fit.texts).toarray()))
    asked = _with_bias(pca.transform(words.transform(judged.texts).toarray()))
    limits = budgets(judged)
    with tempfile.TemporaryDirectory() as home:
        given, made = Path(home) / "in.npz", Path(home) / "out.json"
        np.savez(
            given, warm=warm, warm_scores=fit.scores, warm_costs=fit.costs, asked=asked,
            scores=judged.scores, costs=judged.costs, ceilings=limits,
        )  # fmt: skip
        script = Path(__file__).parent / "paretobandit_run.py"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run(
            [python, str(script), str(given), str(made)],
            check=True, timeout=TIMEOUT_S, env=environment,
        )  # fmt: skip
        theirs = json.loads(made.read_text(encoding="utf-8"))
    _, expected, _ = ours(fit, judged)
    found = []
    for limit, it in zip(limits.tolist(), theirs, strict=True):
        reward = reward_at(expected, judged, it["spent"])
        found.append([limit, it["spent"] / limit, it["earned"], reward, it["us"], expected.micros])
    return found


def _with_bias(table: np.ndarray) -> np.ndarray:
    size = np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    return np.hstack([table / size, np.ones((len(table), 1))])
