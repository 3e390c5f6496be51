"""Makes profiles/broad.json: six types on exact-match tasks and one judged, ten models."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broad_data import Data, mean_tokens, read
from broad_spec import (
    CLASSIFIER,
    COT_CAPS,
    CREATED,
    EVIDENCE,
    GOOD_FOR,
    INSTRUCTION_TOKENS,
    MODELS,
    NATURAL,
    NOT_FOR,
    NOTES,
    OPENAI,
    PLAIN_CAPS,
    RETIRED,
    TASKS,
    THINKING,
    THINKING_CAP,
)

from budgetroute.profiling import (
    Curve,
    Evidence,
    Heading,
    Prediction,
    assemble,
    cell_at,
    estimated,
    held_out_error,
    logit,
    measured,
    pulled,
    shape_of,
    sigmoid,
    with_tail,
)
from budgetroute.records import Action, Cell, ClassifierRef, Profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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

    def adjust(self, kind: str, row: list[Cell | None]) -> list[Cell | None]:
        """Return a type's cells, cot no better than without where it was not measured."""
        cells = [cell for cell in row if cell is not None]
        if kind in NATURAL:
            return [self.no_better(i, cells) for i in range(len(cells))]
        return row

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

    def profile(self, classifier: ClassifierRef | None) -> Profile:
        evidence = Evidence(
            actions=self.actions,
            shares=self.shares,
            inputs=self.inputs,
            cell=self.cell,
            parts=self.parts_of,
            rates=self.data.prices.get,
            adjust=self.adjust,
            is_pooled=True,
        )
        return assemble(evidence, Heading("broad", CREATED, classifier, provenance(self.data)))


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
        "good_for": GOOD_FOR,
        "not_for": NOT_FOR,
        "snapshots": {model: names[0] for model, names in MODELS.items()},
        "retired_evidence": sorted(RETIRED),
        "notes": list(NOTES),
    }


def graded(data: Data, task: str) -> dict[str, int]:
    """Return model → graded answers to a task, direct and reasoned together."""
    variants = task, f"{task}:direct"
    counted = {
        model: sum(len(data.answers.get((variant, model), ())) for variant in variants)
        for model in (*MODELS, *RETIRED)
    }
    return {model: count for model, count in counted.items() if count}


def classifier_beside(folder: Path) -> ClassifierRef | None:
    """Return a reference to the classifier file in a folder; None when there is none."""
    path = folder / CLASSIFIER
    if not path.is_file():
        return None
    return ClassifierRef(CLASSIFIER, hashlib.sha256(path.read_bytes()).hexdigest())


def built(folder: Path, classifier: ClassifierRef | None) -> Profile:
    """Return profile broad."""
    return Build(read(folder)).profile(classifier)
