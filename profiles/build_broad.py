"""Rebuild profiles/broad.json from a folder of public outcomes.

    python profiles/build_broad.py --data DIR [--out profiles/broad.json]
    python profiles/build_broad.py --relink       # after broad-types.npz was retrained

DIR holds outcomes.parquet, models.csv, sources.csv, aggregates_aider.csv and
traces/azure2023_conv.parquet. The result depends on these files and nothing else; what it rests on
is written into its provenance and explained in profiles/README.md.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broad_data import Data, mean_tokens, read
from broad_spec import (
    CLASSIFIER,
    COT_CAPS,
    CREATED,
    EVIDENCE,
    INSTRUCTION_TOKENS,
    MODELS,
    NATURAL,
    NOTES,
    OPENAI,
    PLAIN_CAPS,
    TASKS,
    THINKING,
    THINKING_CAP,
)

from budgetroute.profiles import load_profile, save_profile
from budgetroute.profiling import (
    Curve,
    Prediction,
    cell_at,
    estimated,
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
from budgetroute.records import Action, Cell, ClassifierRef, Profile, PromptType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def curve(data: Data, task: str, model: str) -> Curve:
    """Return what a model does on a task as it stands: measured, pulled to its prediction."""
    prediction = data.predicted(task, model)
    answers = data.answers.get((task, model))
    if answers:
        return pulled(measured(answers), prediction, scatter=data.effects.scatter)
    own = data.answers.get(("misguided", model), []) if model in THINKING else []
    return estimated(
        shape_of([own] if own else data.of_task(task)),
        reward=prediction.reward,
        reward_se=prediction.reward_se,
        mean_tokens=data.lengths.predict(task, model),
    )


def direct_curve(data: Data, kind: str, task: str, model: str) -> Curve:
    """Return what a model does when asked for the answer alone."""
    paired = [name for name in TASKS[kind] if f"{name}:direct" in data.effects.level]
    donors = [task] if task in paired else paired
    groups = [group for name in donors for group in data.of_task(f"{name}:direct")]
    reasoned = curve(data, task, model)
    prompts = min(len({answer.prompt for answer in group}) for group in groups)
    if task in paired and (f"{task}:direct", model) in data.answers:
        direct = curve(data, f"{task}:direct", model)
    else:
        direct = unseen(data, reasoned, donors, task=task, model=model)
    return with_tail(direct, reasoned, share=0.5 / (prompts + 1))


def unseen(data: Data, reasoned: Curve, donors: list[str], *, task: str, model: str) -> Curve:
    """Return an estimate of direct answers from the model's reasoned ones."""
    groups = [group for name in donors for group in data.of_task(f"{name}:direct")]
    value = logit(reasoned.reward) + effect_of_direct(data, donors, model)
    reward = Prediction(sigmoid(value), 0.0, value).tempered(data.frontier[task]).reward
    doubt = reward * (1 - reward) * math.sqrt(data.effects.scatter)
    return estimated(
        shape_of(groups),
        reward=reward,
        reward_se=math.hypot(reasoned.reward_se, doubt),
        mean_tokens=math.fsum(map(mean_tokens, groups)) / len(groups),
    )


def effect_of_direct(data: Data, tasks: list[str], model: str) -> float:
    """Return how many logits a model gains by answering directly, from the paired tasks."""
    gains = [
        data.effects.predict(f"{task}:direct", model).logit
        - data.effects.predict(task, model).logit
        for task in tasks
    ]
    return math.fsum(gains) / len(gains)


def actions() -> Iterator[Action]:
    for model in MODELS:
        if model in THINKING:
            yield Action(model, THINKING_CAP, reasoning_effort=THINKING[model])
            continue
        yield from (Action(model, cap) for cap in PLAIN_CAPS)
        yield from (Action(model, cap, cot=True) for cap in COT_CAPS)


class Build:
    """Makes the profile out of what was read."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.actions = tuple(actions())
        self.shares = dict.fromkeys(TASKS, 1 / len(TASKS))
        self.inputs = {
            kind: math.fsum(w * data.prompt_tokens[task] for task, w in tasks.items())
            for kind, tasks in TASKS.items()
        }
        self.parts: dict[tuple[str, str, bool], list[tuple[float, Curve]]] = {}

    def parts_of(self, kind: str, action: Action) -> list[tuple[float, Curve]]:
        """Return (weight, curve) of a type's tasks; actions that differ in their cap share it."""
        plain = not action.cot and kind not in NATURAL and action.model not in THINKING
        key = kind, action.model, plain
        if key not in self.parts:
            self.parts[key] = [
                (
                    weight,
                    direct_curve(self.data, kind, task, action.model)
                    if plain
                    else curve(self.data, task, action.model),
                )
                for task, weight in TASKS[kind].items()
            ]
        return self.parts[key]

    def cell(self, kind: str, action: Action) -> Cell:
        factor = 1 + INSTRUCTION_TOKENS / self.inputs[kind] if action.cot else 1.0
        basis = "provider" if action.model in OPENAI else "o200k"
        parts = self.parts_of(kind, action)
        cell = cell_at(parts, action.max_tokens, input_factor=factor, basis=basis)
        unknown = kind in NATURAL and action.cot
        unfair = kind == "chat" and (cell.cut or 0) > 0.05
        return replace(cell, n=0, source="pooled") if unknown or unfair else cell

    def row(self, kind: str) -> tuple[Cell, ...]:
        cells = [self.cell(kind, action) for action in self.actions]
        costs = [self.cost(kind, *pair) for pair in zip(self.actions, cells, strict=True)]
        shrunk = shrink_cells(cells, costs)
        if kind in NATURAL:
            shrunk = [self.no_better(i, shrunk) for i in range(len(shrunk))]
        return tuple(monotone_caps(self.actions, shrunk))

    def no_better(self, index: int, cells: list[Cell]) -> Cell:
        """Return a cell with cot whose reward is at most what the same cap earns without it."""
        mine = self.actions[index]
        plain = [
            (other.max_tokens, cells[i].reward)
            for i, other in enumerate(self.actions)
            if other.model == mine.model and not other.cot and other.max_tokens >= mine.max_tokens
        ]
        reward = min(cells[index].reward, min(plain)[1]) if mine.cot else cells[index].reward
        return replace(cells[index], reward=reward)

    def cost(self, kind: str, action: Action, cell: Cell) -> float:
        per_input, per_output = self.data.prices[action.model]
        sent = self.inputs[kind] * cell.input_factor
        return sent * per_input + cell.output_mean * per_output

    def general(self, rows: Mapping[str, tuple[Cell, ...]]) -> tuple[Cell, ...]:
        return tuple(
            self.mixture(action, {kind: row[i] for kind, row in rows.items()})
            for i, action in enumerate(self.actions)
        )

    def mixture(self, action: Action, cells: Mapping[str, Cell]) -> Cell:
        """Return the share-weighted mixture of one action over the types."""
        parts = [
            (self.shares[kind] * weight, curve)
            for kind in cells
            for weight, curve in self.parts_of(kind, action)
        ]
        sent = {kind: self.shares[kind] * self.inputs[kind] for kind in cells}
        factor = math.fsum(sent[k] * c.input_factor for k, c in cells.items()) / sum(sent.values())
        basis = next(iter(cells.values())).token_basis
        reward, error = mixed_reward(cells, self.shares)
        seen = [kind for kind, cell in cells.items() if cell.source == "measured"]
        mostly = math.fsum(self.shares[kind] for kind in seen) >= 0.5 - 1e-9
        return replace(
            cell_at(parts, action.max_tokens, input_factor=factor, basis=basis),
            reward=reward,
            reward_se=error,
            n=sum(cells[kind].n for kind in seen) if mostly else 0,
            source="measured" if mostly else "pooled",
        )

    def profile(self, classifier: ClassifierRef | None) -> Profile:
        rows = {kind: self.row(kind) for kind in TASKS}
        self.inputs["general"] = math.fsum(self.shares[k] * self.inputs[k] for k in TASKS)
        rows["general"] = self.general(rows)
        return Profile(
            name="broad",
            created=CREATED,
            types={kind: self.type(kind, row) for kind, row in rows.items()},
            actions=self.actions,
            cells=rows,
            classifier=classifier,
            provenance=provenance(self.data),
        )

    def type(self, kind: str, row: tuple[Cell, ...]) -> PromptType:
        points = [
            (self.cost(kind, action, cell), cell.reward)
            for action, cell in zip(self.actions, row, strict=True)
        ]
        return PromptType(
            share=self.shares.get(kind, 0.0),
            input_tokens=self.inputs[kind],
            sensitive=is_sensitive(points),
        )


def provenance(data: Data) -> dict[str, Any]:
    """Return sources, licences, graders, counts and what the estimates are good for."""
    counts = {
        kind: {
            task: {"weight": weight, "answers": graded(data, task)}
            for task, weight in tasks.items()
        }
        for kind, tasks in TASKS.items()
    }
    return {
        "built_by": "profiles/build_broad.py",
        "sources": [
            {key: row[key] for key in ("source", "repo", "commit", "licence", "score")}
            for row in data.sources
        ],
        "tasks": counts,
        "evidence": sorted(EVIDENCE),
        "estimates": {
            "observations": len(data.observations),
            "held_out_rmse": round(held_out_error(data.observations, MODELS), 3),
            "scatter_logit": round(math.sqrt(data.effects.scatter), 3),
        },
        "snapshots": {model: names[0] for model, names in MODELS.items()},
        "notes": list(NOTES),
    }


def graded(data: Data, task: str) -> dict[str, int]:
    """Return model → graded answers to a task, direct and reasoned together."""
    variants = task, f"{task}:direct"
    counted = {
        model: sum(len(data.answers.get((variant, model), ())) for variant in variants)
        for model in MODELS
    }
    return {model: count for model, count in counted.items() if count}


def classifier_beside(out: Path) -> ClassifierRef | None:
    """Return a reference to the classifier file in the same folder; None when there is none."""
    path = out.parent / CLASSIFIER
    if not path.is_file():
        return None
    return ClassifierRef(CLASSIFIER, hashlib.sha256(path.read_bytes()).hexdigest())


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", type=Path, help="folder of public outcomes")
    what.add_argument("--relink", action="store_true", help="only refer to a retrained classifier")
    parser.add_argument("--out", type=Path, default=here / "broad.json")
    args = parser.parse_args()
    classifier = classifier_beside(args.out)
    if args.relink:
        profile = replace(load_profile(args.out), classifier=classifier)
    else:
        profile = Build(read(args.data)).profile(classifier)
    save_profile(profile, args.out)
    print(f"{args.out}: {len(profile.actions)} actions, {len(profile.types)} types")


if __name__ == "__main__":
    main()
