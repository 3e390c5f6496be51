"""Reads the folder of public outcomes that profiles/broad.json is built from."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from broad_spec import EVIDENCE, MODELS, RETIRED, SAME_MODEL, SOURCES

from budgetroute.profiling import (
    Answer,
    Effects,
    Lengths,
    Observation,
    Prediction,
    fit_effects,
    fit_lengths,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

COLUMNS = (
    "source", "prompt_id", "task", "family", "model", "variant", "input_tokens", "output_tokens",
    "answer_complete_tokens", "score",
)  # fmt: skip
ROUTELLM = {"gsm8k": "gsm8k_fewshot"}

Key = tuple[str, str]


@dataclass(frozen=True)
class Data:
    """What was read.

    Attributes:
        observations: mean score by (task, model) over independent prompts.
        answers: (task, model) → graded answers whose length is known.
        prompt_tokens: task → mean tokens of its bare prompts.
        prices: model → dollars per input and output token.
        sources: rows of sources.csv.
    """

    observations: tuple[Observation, ...]
    answers: Mapping[Key, list[Answer]]
    prompt_tokens: Mapping[str, float]
    prices: Mapping[str, tuple[float, float]]
    sources: tuple[dict[str, str], ...]

    @cached_property
    def effects(self) -> Effects:
        return fit_effects(self.observations)

    @cached_property
    def lengths(self) -> Lengths:
        """Lengths of reasoned and natural answers; direct ones are short whoever gives them."""
        means = {key: mean_tokens(answers) for key, answers in self.answers.items()}
        return fit_lengths(
            {key: mean for key, mean in means.items() if mean > 40 and ":direct" not in key[0]}
        )

    @cached_property
    def frontier(self) -> dict[str, float]:
        """Best measured score per task, whatever the variant."""
        best: dict[str, float] = defaultdict(float)
        for task, _, mean, _ in self.observations:
            best[bare(task)] = max(best[bare(task)], mean)
        return best

    def predicted(self, task: str, model: str) -> Prediction:
        return self.effects.predict(task, model).tempered(self.frontier[bare(task)])

    def of_task(self, task: str) -> list[list[Answer]]:
        return [answers for (name, _), answers in sorted(self.answers.items()) if name == task]


def bare(task: str) -> str:
    return task.partition(":")[0]


def mean_tokens(answers: list[Answer]) -> float:
    return math.fsum(answer.output_tokens for answer in answers) / len(answers)


def task_name(row: Mapping[str, Any]) -> str | None:
    """Return our name of a row's task and variant; None for rows that are not used."""
    source, task, variant = row["source"], row["task"], row["variant"]
    if source == "mmlu_pro":
        return "mmlu_pro_math" if task == "mmlupro_math" else "mmlu_pro"
    if source == "renze_mcqa":
        return task if variant == "cot" else f"{task}:{variant}"
    if source == "routellm":
        if task.startswith("mmlu_"):
            return "mmlu_direct"
        return "mt_bench_chat" if row["family"] == "chat" else ROUTELLM.get(task)
    return task if source in SOURCES else None


def read(folder: Path) -> Data:
    import pyarrow.parquet as pq

    conversations = pq.read_table(folder / "traces/azure2023_conv.parquet").column("input_tokens")
    sizes = conversations.to_pylist()
    observations, answers, prompt_tokens = collect(
        pq.read_table(folder / "outcomes.parquet", columns=list(COLUMNS)).to_pylist()
    )
    return Data(
        observations=(*observations, *read_aider(folder / "aggregates_aider.csv")),
        answers=answers,
        prompt_tokens=prompt_tokens | {"wildbench": sum(sizes) / len(sizes)},
        prices=read_prices(folder / "models.csv"),
        sources=tuple(row for row in read_csv(folder / "sources.csv") if is_used(row["source"])),
    )


def is_used(source: str) -> bool:
    return source.split(maxsplit=1)[0] in {*SOURCES, "aggregates_aider"} or "azure" in source


def collect(
    rows: list[dict[str, Any]],
) -> tuple[list[Observation], dict[Key, list[Answer]], dict[str, float]]:
    """Group rows by (task, model), keeping a model's preferred snapshot per task."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        task = task_name(row)
        if task is not None:
            groups[task, *known_as(row["model"])].append(row)
    best = {(task, model): rank for task, model, rank in sorted(groups, reverse=True)}
    kept = {key: groups[*key, rank] for key, rank in sorted(best.items())}
    observations = [
        Observation(*key, mean_of(group, "score"), len({row["prompt_id"] for row in group}))
        for key, group in kept.items()
    ]
    answers = {key: as_answers(group) for key, group in kept.items()}
    sizes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (task, _), group in kept.items():
        sizes[bare(task)] += [row for row in group if is_bare_prompt(row)]
    tokens = {task: mean_of(group, "input_tokens") for task, group in sizes.items() if group}
    return observations, {key: group for key, group in answers.items() if group}, tokens


def known_as(name: str) -> tuple[str, int]:
    """Return a model's one name, and how preferred this snapshot of it is (0 = most)."""
    for model, snapshots in (MODELS | RETIRED).items():
        if name in snapshots:
            return model, snapshots.index(name)
    return SAME_MODEL.get(name, name), 0


def is_bare_prompt(row: Mapping[str, Any]) -> bool:
    direct = row["source"] != "renze_mcqa" or row["variant"] == "direct"
    return direct and row["input_tokens"] is not None


def as_answers(group: list[dict[str, Any]]) -> list[Answer]:
    return [
        Answer(
            row["prompt_id"],
            float(row["score"]),
            float(row["output_tokens"]),
            row["answer_complete_tokens"],
        )
        for row in group
        if row["output_tokens"] is not None
    ]


def mean_of(group: list[dict[str, Any]], column: str) -> float:
    return math.fsum(float(row[column]) for row in group) / len(group)


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def read_aider(path: Path) -> Iterator[Observation]:
    """Yield one observation per model and board: its first run in the file."""
    seen = set()
    for row in read_csv(path):
        name = row["model"].removesuffix(" (diff)").removesuffix(" (whole)")
        task, (model, _) = f"aider_{row['board']}", known_as(name)
        if task in EVIDENCE and (task, model) not in seen and row["pass_rate_2"]:
            seen.add((task, model))
            yield Observation(task, model, float(row["pass_rate_2"]) / 100, float(row["n"]))


def read_prices(path: Path) -> dict[str, tuple[float, float]]:
    known = {
        row["model"]: (float(row["in_usd_per_tok"]), float(row["out_usd_per_tok"]))
        for row in read_csv(path)
        if row["in_usd_per_tok"]
    }
    return {model: known[snapshots[0]] for model, snapshots in MODELS.items()}
