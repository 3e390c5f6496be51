"""Makes profiles/cot.json: the same models asked the same exams with and without chain of thought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broad_data import read_csv
from broad_spec import CREATED

from budgetroute.profiling import FitSettings, fit_profile, outcomes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from budgetroute.records import ClassifierRef, Profile

SOURCE = "renze_mcqa (direct/concise/cot)"
MODELS = ("gpt-3.5-turbo", "gpt-4")
VARIANTS = ("direct", "cot")
TYPES = {"knowledge_mcq": "knowledge"}
CAPS = (16, 64, 256, 1024)
COLUMNS = [
    "source", "prompt_id", "task", "family", "model", "variant", "cot", "input_tokens",
    "output_tokens", "answer_complete_tokens", "score",
]  # fmt: skip
PROVENANCE = {
    "built_by": "profiles/build_cot.py",
    "good_for": (
        "what chain of thought is worth by type, measured on the same models and questions: "
        "multiple-choice exams"
    ),
    "not_for": (
        'choosing models: both were retired in 2026. Borrow their curves with like = "gpt-4"; '
        "newer models reason unasked, and gain less"
    ),
    "grader": "exact match, 10 samples per prompt",
    "notes": [
        (
            "The source's cot prompt shows a worked example; the router adds an instruction of 14 tokens "
            "instead, which is what input_factor counts."
        ),
        "Tokens are the provider's (sums match its totals to 0.2 %).",
    ],
}


def built(folder: Path, classifier: ClassifierRef | None) -> Profile:
    table = outcomes_of(enumerate(rows(folder), start=1), origin="outcomes.parquet")
    settings = FitSettings(
        "cot",
        created=CREATED,
        caps=CAPS,
        provenance=PROVENANCE | {"sources": sources(folder, SOURCE)},
        classifier=classifier,
    )
    return fit_profile(table, settings).profile


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for row in pq.read_table(folder / "outcomes.parquet", columns=COLUMNS).to_pylist():
        if row["source"] == "renze_mcqa" and row["model"] in MODELS and row["variant"] in VARIANTS:
            yield {
                "prompt_id": row["prompt_id"],
                "type": TYPES.get(row["family"], row["family"]),
                "task": row["task"],
                "model": row["model"],
                "cot": row["cot"],
                "reward": row["score"],
                "input_tokens": row["input_tokens"],
                "output_tokens": row["output_tokens"],
                "complete_tokens": row["answer_complete_tokens"],
            }


def sources(folder: Path, *names: str) -> list[dict[str, str]]:
    return [
        {key: row[key] for key in ("source", "repo", "commit", "licence", "score", "dates")}
        for row in read_csv(folder / "sources.csv")
        if row["source"] in names
    ]
