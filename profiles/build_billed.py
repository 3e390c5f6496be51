"""Makes profiles/billed.json: models of 2025–26, judged, with the dollars that were billed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broad_spec import CREATED
from build_cot import sources

from budgetroute.profiling import FitSettings, fit_profile, outcomes_of
from budgetroute.tokens import O200k

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from budgetroute.records import ClassifierRef, Profile

SOURCE = "paretobandit"
MODELS = {
    "meta-llama/llama-3.1-8b-instruct": "novita/meta-llama/llama-3.1-8b-instruct",
    "mistralai/mistral-large-2512": "mistral/mistral-large-2512",
    "google/gemini-2.5-flash": "gemini/gemini-2.5-flash",
    "google/gemini-2.5-pro": "gemini/gemini-2.5-pro",
}
"""Names in the data → keys of the price map with the prices that were billed."""
TYPES = {
    "gsm8k": "math",
    "mmlu": "knowledge",
    "openbookqa": "knowledge",
    "arc_challenge": "knowledge",
    "truthful_qa": "knowledge",
    "hellaswag": "reasoning",
    "winogrande": "reasoning",
    "bbh": "reasoning",
    "mbpp": "code",
}
COLUMNS = ["source", "prompt_id", "task", "model", "score", "cost_usd"]
PROVENANCE = {
    "built_by": "profiles/build_billed.py",
    "good_for": (
        "models of 2025–26 at billed dollars: a cheap open model, a middle one, one that may "
        "reason, one that always does"
    ),
    "not_for": (
        "comparing with exact match: the rewards are one judge's grades in [0, 1], which favour "
        "long answers and lie close together; caps other than those that ran"
    ),
    "grader": "a language model as judge, grades in [0, 1]",
    "notes": [
        (
            "output tokens are told from the bill: (dollars − o200k tokens of the prompt · input price) / "
            "output price; so today's price gives what was billed, if prices stay."
        ),
        "Every model has one action, at the cap that holds its longest answer: no cap was varied.",
        "code has 48 prompts.",
    ],
}


def built(folder: Path, classifier: ClassifierRef | None) -> Profile:
    table = outcomes_of(enumerate(rows(folder), start=1), origin="outcomes.parquet")
    settings = FitSettings(
        "billed",
        created=CREATED,
        provenance=PROVENANCE | {"sources": sources(folder, SOURCE)},
        classifier=classifier,
    )
    return fit_profile(table, settings).profile


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    sizes = prompt_tokens(folder)
    for row in pq.read_table(folder / "outcomes.parquet", columns=COLUMNS).to_pylist():
        if row["source"] == SOURCE:
            task = row["task"].partition("/")[0]
            yield {
                "prompt_id": row["prompt_id"],
                "type": TYPES[task],
                "task": task,
                "model": MODELS[row["model"]],
                "reward": min(1.0, row["score"]),
                "cost_usd": row["cost_usd"],
                "input_tokens": sizes[row["prompt_id"]],
                "token_basis": "o200k",
                "hard_cut": False,
            }


def prompt_tokens(folder: Path) -> dict[str, int]:
    """Return prompt → its tokens; the texts are counted and dropped."""
    import pyarrow.parquet as pq

    tokenizer = O200k()
    tokenizer.load()
    table = pq.read_table(folder / "prompts.parquet", columns=["source", "prompt_id", "prompt"])
    return {
        row["prompt_id"]: tokenizer.measure(row["prompt"]).tokens
        for row in table.to_pylist()
        if row["source"] == SOURCE
    }
