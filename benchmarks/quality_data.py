"""Real outcomes as matrices: what every action would have earned and cost on every prompt.

`outcomes.parquet`, `prompts.parquet` and `models.csv` of the folder that `--data` names. An action
is a model and a token cap (a model does not see its cap, so that an answer counts if it is complete
within it and is billed up to it), a way of asking, a number of votes, or a model alone.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from workload import Floats, Ints

FILES = ("outcomes.parquet", "prompts.parquet", "models.csv")
CAPS = (64, 128, 256, 512, 1024, 4096)
ZEROEVAL_TASKS = ("crux", "gsm", "math-l5")
ZEROEVAL_MODELS = (
    "gemini-1.5-flash-exp-0827",
    "gpt-4o-mini-2024-07-18",
    "deepseek-v2.5-0908",
    "Meta-Llama-3.1-8B-Instruct",
    "Meta-Llama-3.1-70B-Instruct",
    "claude-3-haiku-20240307",
    "claude-3-5-sonnet-20241022",
    "gpt-4o-2024-08-06",
)
MMLU_SHARE = 0.95
"""Of the prompts that a model must have answered; it leaves out the one with 86 %."""
RENZE_MODELS = ("gpt-3.5-turbo", "gpt-4")
RENZE_WAYS = ("direct", "concise_cot", "cot")
UNCAPPED = 1_000_000
VOTES = (1, 3, 5)
SAMPLES = 10
SETS = ("zeroeval", "mmlu_pro", "renze_mcqa", "paretobandit")


@dataclass(frozen=True)
class Matrix:
    """Prompts × actions.

    Attributes:
        name: the source.
        texts: [prompt] what was asked; never printed.
        kinds: [prompt] index of the labelled type.
        labels: the types' names.
        actions: (what answers, its cap); what answers shares prices, and its caps share an answer.
        inputs: [prompt] input tokens; 0 where only dollars are known.
        scores: [prompt][action] reward in [0, 1].
        outputs: [prompt][action] billed output tokens; where only dollars are known, millionths.
        prices: [action] dollars per (input token, output token).
    """

    name: str
    texts: tuple[str, ...]
    kinds: Ints
    labels: tuple[str, ...]
    actions: tuple[tuple[str, int], ...]
    inputs: Floats
    scores: Floats
    outputs: Floats
    prices: Floats

    @property
    def models(self) -> tuple[str, ...]:
        """Return what answers, each once, in the order of the actions."""
        return tuple(dict.fromkeys(name for name, _ in self.actions))

    @property
    def widest(self) -> Ints:
        """Return, for each of `models`, its action with the largest cap."""
        return np.array(
            [max(i for i, a in enumerate(self.actions) if a[0] == m) for m in self.models]
        )

    @property
    def costs(self) -> Floats:
        """Return [prompt][action] dollars."""
        return self.inputs[:, None] * self.prices[:, 0] + self.outputs * self.prices[:, 1]

    def at(self, rows: Ints) -> Matrix:
        """Return some of its prompts."""
        return Matrix(
            self.name,
            tuple(self.texts[row] for row in rows),
            self.kinds[rows],
            self.labels,
            self.actions,
            self.inputs[rows],
            self.scores[rows],
            self.outputs[rows],
            self.prices,
        )

    def split(self, seed: int) -> tuple[Ints, Ints]:
        """Return the rows (to fit, to judge), every type split evenly; a lone prompt is judged."""
        rng = np.random.default_rng(seed)
        first = np.zeros(self.kinds.size, dtype=bool)
        for kind in range(len(self.labels)):
            chosen = rng.permutation(np.flatnonzero(self.kinds == kind))
            first[chosen[: chosen.size // 2]] = True
        return np.flatnonzero(first), np.flatnonzero(~first)


def read_matrix(folder: Path, name: str) -> Matrix:
    """Read one of SETS."""
    makers = {
        "zeroeval": _zeroeval,
        "mmlu_pro": _mmlu_pro,
        "renze_mcqa": _renze,
        "paretobandit": _dollars,
    }
    rows = _rows(folder, name)
    return makers[name](rows, _texts(folder, name), _prices(folder))


PAIR = {"Mixtral-8x7B-Instruct-v0.1": "weak", "gpt-4-1106-preview": "strong"}
PAIR_PRICES = {"weak": (0.0, 1e-6), "strong": (0.0, 4e-5)}


def read_pair(folder: Path, name: str) -> Matrix:
    """Read RouteLLM's responses to MMLU or GSM8K; a call costs 1 or 40, whatever it says."""
    begins = {"MMLU": "mmlu_", "GSM8K": "gsm8k"}[name]
    rows = [
        row | {"model": PAIR[row["model"]], "output_tokens": 1}
        for row in _rows(folder, "routellm")
        if row["task"].startswith(begins)
    ]
    return _whole(name, rows, _texts(folder, "routellm"), PAIR_PRICES)


Row = dict[str, Any]
Prices = dict[str, tuple[float, float]]


def _zeroeval(rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    kept = [
        row for row in rows if row["task"] in ZEROEVAL_TASKS and row["model"] in ZEROEVAL_MODELS
    ]
    return _capped("zeroeval", kept, texts, prices)


def _mmlu_pro(rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    counts = Counter(row["model"] for row in rows)
    full = {m for m, n in counts.items() if m in prices and n > MMLU_SHARE * max(counts.values())}
    return _capped("mmlu_pro", [row for row in rows if row["model"] in full], texts, prices)


def _capped(name: str, rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    """Return models × caps over the prompts that all models answered."""
    models, prompts, table = _complete(rows, "model")

    def column(key: str) -> Floats:
        return np.array([[row[key] for row in line] for line in table], dtype=float)

    lengths = np.repeat(np.maximum(column("output_tokens"), 1), len(CAPS), axis=1)
    completes = column("answer_complete_tokens")
    completes = np.repeat(np.where(np.isnan(completes), np.inf, completes), len(CAPS), axis=1)
    caps = np.tile(CAPS, len(models))
    return Matrix(
        name,
        tuple(texts[prompt] for prompt in prompts),
        *_kinds([line[0]["task"] for line in table]),
        actions=tuple((model, cap) for model in models for cap in CAPS),
        inputs=column("input_tokens")[:, 0],
        scores=np.where(completes <= caps, np.repeat(column("score"), len(CAPS), axis=1), 0.0),
        outputs=np.minimum(lengths, caps),
        prices=np.repeat([prices[model] for model in models], len(CAPS), axis=0),
    )


def _renze(rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    """Return models × ways of asking × votes: 1, or the majority of 3 or 5 of the 10 samples.

    A vote counts as right when more than half of its answers are, the least that a vote of that
    size earns; it is the mean over the samples in order, n at a time.
    """
    cells: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["model"] in RENZE_MODELS and row["variant"] in RENZE_WAYS:
            cells[f"{row['model']} {row['variant']}"][row["prompt_id"]].append(row)
    names = [f"{model} {way}" for model in RENZE_MODELS for way in RENZE_WAYS]
    prompts = [
        prompt
        for prompt in sorted(cells[names[0]])
        if all(len(cells[name].get(prompt, ())) == SAMPLES for name in names)
    ]
    table = [[sorted(cells[n][p], key=lambda r: r["sample"]) for n in names] for p in prompts]
    right = np.array([[[r["score"] for r in rs] for rs in line] for line in table])
    length = np.array([[[r["output_tokens"] for r in rs] for rs in line] for line in table])
    scores = [right[:, :, : SAMPLES // n * n].reshape(*right.shape[:2], -1, n) for n in VOTES]
    votes = np.stack([(s.mean(axis=3) > 0.5).mean(axis=2) for s in scores], axis=2)
    outputs = np.stack([n * length.mean(axis=2) for n in VOTES], axis=2)
    given = np.array([[rs[0]["input_tokens"] for rs in line] for line in table], dtype=float)
    paid = np.array([prices[name.split(" ", maxsplit=1)[0]] for name in names])
    extra = (given - given[:, :1]) * paid[:, 0] / paid[:, 1]  # a way's own instruction, as output
    count = len(names) * len(VOTES)
    return Matrix(
        "renze_mcqa",
        tuple(texts[prompt] for prompt in prompts),
        *_kinds([line[0][0]["task"] for line in table]),
        actions=tuple((f"{name} n={n}", UNCAPPED) for name in names for n in VOTES),
        inputs=given[:, 0],
        scores=votes.reshape(-1, count),
        outputs=(outputs + extra[:, :, None]).reshape(-1, count),
        prices=np.repeat(paid, len(VOTES), axis=0),
    )


def _dollars(rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    """Return models, with billed dollars and a judge's reward."""
    dollars = [row | {"output_tokens": 1e6 * row["cost_usd"]} for row in rows]
    return _whole("paretobandit", dollars, texts, dict.fromkeys(prices, (0.0, 1e-6)))


def _whole(name: str, rows: Sequence[Row], texts: Mapping[str, str], prices: Prices) -> Matrix:
    """Return models without caps; input tokens are free or inside the rest."""
    models, prompts, table = _complete(rows, "model")
    return Matrix(
        name,
        tuple(texts[prompt] for prompt in prompts),
        *_kinds([line[0]["task"] for line in table]),
        actions=tuple((model, UNCAPPED) for model in models),
        inputs=np.zeros(len(prompts)),
        scores=np.array([[row["score"] for row in line] for line in table], dtype=float),
        outputs=np.array([[row["output_tokens"] for row in line] for line in table], dtype=float),
        prices=np.array([prices.get(model, (0.0, 1e-6)) for model in models]),
    )


def _complete(rows: Sequence[Row], key: str) -> tuple[list[str], list[str], list[list[Row]]]:
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row[key]][row["prompt_id"]] = row
    names = sorted(found)
    prompts = [
        prompt for prompt in sorted(found[names[0]]) if all(prompt in found[n] for n in names)
    ]
    return names, prompts, [[found[name][prompt] for name in names] for prompt in prompts]


def _kinds(tasks: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    named = [re.sub(r"[^\w.-]", "-", task) for task in tasks]
    labels = tuple(sorted(set(named)))
    return np.array([labels.index(task) for task in named]), labels


def _rows(folder: Path, source: str) -> list[Row]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    return pq.read_table(  # type: ignore[no-any-return]
        folder / "outcomes.parquet",
        columns=[
            "prompt_id", "task", "model", "variant", "sample", "input_tokens", "output_tokens",
            "answer_complete_tokens", "score", "cost_usd",
        ],
        filters=pc.field("source") == source,
    ).to_pylist()  # fmt: skip


def _texts(folder: Path, source: str) -> dict[str, str]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = pq.read_table(
        folder / "prompts.parquet",
        columns=["prompt_id", "prompt"],
        filters=pc.field("source") == source,
    ).to_pylist()
    return {row["prompt_id"]: row["prompt"] or "" for row in rows}


def _prices(folder: Path) -> Prices:
    with (folder / "models.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["model"]: (float(row["in_usd_per_tok"]), float(row["out_usd_per_tok"]))
            for row in csv.DictReader(file)
            if row["in_usd_per_tok"] and row["out_usd_per_tok"]
        }
