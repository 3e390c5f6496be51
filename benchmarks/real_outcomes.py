"""Real answers of many models to the same prompts: what each action would have earned and cost.

`outcomes.parquet` and `models.csv` of the folder that `--data` names, as profiles/README.md describes
them; no text is read. Used are ZeroEval's reasoned answers to three tasks, of every
model that answered all prompts and has a list price. An action is a model and a token cap: a model
does not see its cap, so an answer counts if it is complete within it and is billed up to it.

Half of the prompts (drawn per task) are for curves, the other half is judged: no prompt is in both.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from budgetroute.profiling import Answer, cell_at, measured, monotone_caps, shrink_cells
from budgetroute.records import Action, Cell, Profile, PromptType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from workload import Floats, Ints

SOURCE = "zeroeval"
TASKS = ("crux", "gsm", "math-l5")
CAPS = (256, 512, 1024, 4096)
FILES = ("outcomes.parquet", "models.csv")


@dataclass(frozen=True, slots=True)
class Half:
    """Some prompts, with what each action does on them.

    Attributes:
        prompts: their rows in the matrix.
        kinds: [prompt] index of the task.
        inputs: [prompt] input tokens.
        outputs: [prompt][action] billed output tokens.
        scores: [prompt][action] reward in [0, 1].
        costs: [prompt][action] dollars.
    """

    prompts: Ints
    kinds: Ints
    inputs: Ints
    outputs: Ints
    scores: Floats
    costs: Floats

    def means(self, values: Floats) -> Floats:
        """Return [task][action] means of one of its tables."""
        return np.array([values[self.kinds == kind].mean(axis=0) for kind in range(len(TASKS))])


@dataclass(frozen=True)
class Outcomes:
    """The matrix.

    Attributes:
        models: name → dollars per input and output token.
        kinds: [prompt] index of the task.
        inputs: [prompt] input tokens.
        lengths: [prompt][model] output tokens of the whole answer.
        completes: [prompt][model] tokens by which it is complete; inf = it never is.
        scores: [prompt][model] in [0, 1].
    """

    models: Mapping[str, tuple[float, float]]
    kinds: Ints
    inputs: Ints
    lengths: Ints
    completes: Floats
    scores: Floats

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(Action(model, cap) for model in self.models for cap in CAPS)

    def halves(self, seed: int) -> tuple[Half, Half]:
        """Return (for curves, to be judged), every task split evenly."""
        rng = np.random.default_rng(seed)
        first = np.zeros(self.kinds.size, dtype=bool)
        for kind in range(len(TASKS)):
            chosen = rng.permutation(np.flatnonzero(self.kinds == kind))
            first[chosen[: chosen.size // 2]] = True
        return self.half(first), self.half(~first)

    def half(self, kept: np.ndarray) -> Half:
        """Return what every action does on some prompts."""
        caps = np.tile(CAPS, len(self.models))
        lengths, completes, scores = (
            np.repeat(table[kept], len(CAPS), axis=1)
            for table in (self.lengths, self.completes, self.scores)
        )
        outputs = np.minimum(lengths, caps)
        given, made = np.repeat(list(self.models.values()), len(CAPS), axis=0).T
        return Half(
            np.flatnonzero(kept),
            self.kinds[kept],
            self.inputs[kept],
            outputs,
            np.where(completes <= caps, scores, 0.0),
            self.inputs[kept][:, None] * given + outputs * made,
        )

    def profile(self, half: Half) -> Profile:
        """Estimate curves as the shipped profile's are: caps replayed, cells shrunk."""
        kinds = range(len(TASKS))
        shares = (np.bincount(half.kinds, minlength=len(TASKS)) / half.kinds.size).tolist()
        inputs = [float(half.inputs[half.kinds == kind].mean()) for kind in kinds]
        costs = half.means(half.costs)
        alone = [tuple(float(kind == other) for other in kinds) for kind in kinds]
        rows = {name: self._row(half, alone[k], costs[k]) for k, name in enumerate(TASKS)}
        rows["general"] = self._row(half, shares, np.array(shares) @ costs)
        whole = round(float(half.inputs.mean()))
        types = {n: PromptType(shares[k], round(inputs[k])) for k, n in enumerate(TASKS)}
        return Profile(
            name=f"half of {SOURCE}",
            created="2026-11-29",
            types={**types, "general": PromptType(0.0, whole)},
            actions=self.actions,
            cells=rows,
        )

    def _row(self, half: Half, shares: Sequence[float], costs: Floats) -> tuple[Cell, ...]:
        """Return every action's cell for a mixture of tasks."""
        cells = []
        for model in range(len(self.models)):
            parts = [
                (share, measured(self._answers(half, kind, model)))
                for kind, share in enumerate(shares)
                if share
            ]
            cells += [cell_at(parts, cap, input_factor=1.0, basis="o200k") for cap in CAPS]
        return tuple(monotone_caps(self.actions, shrink_cells(cells, costs.tolist())))

    def _answers(self, half: Half, kind: int, model: int) -> list[Answer]:
        rows = half.prompts[half.kinds == kind]
        return [
            Answer(
                str(row),
                float(self.scores[row, model]),
                float(self.lengths[row, model]),
                float(self.completes[row, model]),
            )
            for row in rows.tolist()
        ]


def has_outcomes(folder: Path | None) -> bool:
    """Say whether a folder holds what `read_outcomes` reads."""
    return folder is not None and all((folder / name).is_file() for name in FILES)


def read_outcomes(folder: Path) -> Outcomes:
    """Read the matrix of complete, priced models."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    of_source = pc.field("source") == SOURCE
    rows = pq.read_table(
        folder / "outcomes.parquet",
        columns=[
            "prompt_id", "task", "model", "input_tokens", "output_tokens",
            "answer_complete_tokens", "score",
        ],
        filters=of_source & pc.field("task").isin(TASKS),
    ).to_pylist()  # fmt: skip
    return _matrix(rows, _prices(folder / "models.csv"))


def _prices(path: Path) -> dict[str, tuple[float, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["model"]: (float(row["in_usd_per_tok"]), float(row["out_usd_per_tok"]))
            for row in csv.DictReader(file)
            if row["in_usd_per_tok"] and row["out_usd_per_tok"]
        }


def _matrix(
    rows: Sequence[Mapping[str, Any]], prices: Mapping[str, tuple[float, float]]
) -> Outcomes:
    prompts = {row["prompt_id"]: row for row in rows}
    found: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        if row["output_tokens"] is not None:
            found[row["model"]][row["prompt_id"]] = row
    models = sorted(name for name in found if name in prices and len(found[name]) == len(prompts))
    table = [[found[model][prompt] for model in models] for prompt in prompts]

    def column(key: str) -> Floats:
        return np.array([[row[key] for row in line] for line in table], dtype=float)

    completes = column("answer_complete_tokens")
    return Outcomes(
        models={name: prices[name] for name in models},
        kinds=np.array([TASKS.index(row["task"]) for row in prompts.values()]),
        inputs=np.array([row["input_tokens"] for row in prompts.values()]),
        lengths=np.maximum(column("output_tokens"), 1).astype(int),
        completes=np.where(np.isnan(completes), np.inf, completes),
        scores=column("score"),
    )
