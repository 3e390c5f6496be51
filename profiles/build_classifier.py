"""Train the shipped text classifier: benchmark and everyday prompts → prompt types.

    python profiles/build_classifier.py --data DIR [--out profiles/broad-types.npz] [--fast]

DIR holds `prompts.parquet` (source, task, family, qhash, prompt) and `sources.csv`. What the file
keeps of the prompts are tokens and pairs of tokens that three or more of them share, and weights.

A benchmark is recognised by its frame ("Options: A. …", "Let's think step by step"), an everyday
prompt has none. So frames are taken off, every second multiple-choice question loses its options,
and half of all prompts get a frame drawn without regard to their type. Each (source, task) counts
with the square root of its size, all types count the same, and half of each type's weight is
everyday prompts (`everyday.txt`, written for this project). `--fast` skips leave-one-source-out.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.classify.linear import LinearClassifier
from budgetroute.classify.train import Evaluation, evaluate, save_npz, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
CREATED = "2026-11-29"
EVERYDAY = "everyday"
EVERYDAY_SHARE = 0.5
COPIES = 6
"""Prompts made of one line of everyday.txt that draws on lists; 3 where it only draws passages."""
TYPE_OF_FAMILY = {
    "math": "math",
    "knowledge_mcq": "knowledge",
    "knowledge_open": "knowledge",
    "reasoning": "reasoning",
    "reading": "reading",
    "code": "code",
    "chat": "chat",
    "translation": "chat",
}
TYPE_OF_TASK: dict[str, str | None] = {
    # MMLU subjects that are computed or deduced rather than known
    "abstract_algebra": "math",
    "college_mathematics": "math",
    "elementary_mathematics": "math",
    "high_school_mathematics": "math",
    "high_school_statistics": "math",
    "MMLUPro_math": "math",
    "formal_logic": "reasoning",
    "MMLU_formal_logic": "reasoning",
    "mtbench_extraction": "reading",
    # open questions, judged like chat but asked like knowledge: either label would mislead
    "mtbench_humanities": None,
    "mtbench_stem": None,
    # this source names no families
    "arc_challenge": "knowledge",
    "openbookqa": "knowledge",
    "mmlu": "knowledge",
    "truthful_qa": "knowledge",
    "gsm8k": "math",
    "mbpp": "code",
    "hellaswag": "reasoning",
    "winogrande": "reasoning",
    "bbh/multistep_arithmetic_two": "math",
    # taste, trivia and translation errors are none of the types
    "bbh/movie_recommendation": None,
    "bbh/ruin_names": None,
    "bbh/snarks": None,
    "bbh/sports_understanding": None,
    "bbh/salient_translation_error_detection": None,
}
FRAMES = [
    re.compile(pattern, re.MULTILINE if pattern.startswith("^(Question") else re.DOTALL)
    for pattern in (
        r"^(Please|You are given a question about chess|You are a reading|You are a Natural)[^\n]*\n",
        r"^(Generate an exec|You are given a Python function and)[^\n]*?(?=Question:|\n)",
        r"\n\s*(Provide|- Keep|Keep) (your|the) [^\n]*",
        r"Context: None\b",
        r"^Topic: [^\n]*\n",
        r"^\[[\w \-]{3,40}\]\n",
        r"Answer: Let's think step by step\.\s*$",
        r"\nAnswer:\s*$",
        r"\nAnswer with the correct [^\n]*$",
        r"\nWhich option (is the best|correctly)[^\n]*$",
        r"\[The Start of Reference Answer\].*",
        r"^(Question|Context|Options|Choices|Passage):",
    )
]
OPTIONS = re.compile(r"\n\s*(Options|Choices):.*|\n\s*\(?(A|1)[.):] .*", re.DOTALL)
OPEN_TASKS = ("gsm", "math-l5", "mtbench")
WRAPS = [
    *["{}"] * 8,
    "Question: {}\nAnswer:",
    "Question:\n{}\nAnswer: Let's think step by step.",
    "You are a helpful assistant.\n\n{}",
    (
        "Please read the following question and provide the correct answer.\n\nContext: None\n\n"
        "Question: {}\n\nKeep the explanation within 3 sentences."
    ),
    (
        "Read the following multiple-choice question and provide the most likely correct answer based "
        "on the options given.\n\n{}\n\nProvide the correct letter choice."
    ),
    "Answer the following question.\n\n{}\n\nExplain your reasoning step by step.",
    "Topic: General\nContext: {}\nChoices:",
    "{}\nProvide your final answer in \\boxed{{}} format. Keep your explanation clear and concise.",
    "{}\nAnswer with the correct option and explain why.",
]
SECTION = re.compile(r"\[(\w+)\]")
SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Sample:
    source: str
    task: str
    type: str
    key: str
    raw: str
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE / "broad-types.npz")
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    bench = benchmark_samples(arguments.data / "prompts.parquet")
    own = everyday_samples(HERE / "everyday.txt")
    held = judge_held_out(bench, own)
    lines = judge_everyday(bench, own)
    if not arguments.fast:
        judge_sources(bench, own)
    meta = provenance(bench, own, licences=licences(arguments.data / "sources.csv"))
    meta["held_out"] = {**held, "everyday_lines_accuracy": lines}
    arrays = trained(bench + own, meta=meta)
    save_npz(arguments.out, arrays)
    raw = arguments.out.read_bytes()
    print(f"{arguments.out}: {len(arrays['idf'])} terms, {len(raw):,} bytes")
    print(f"sha256 {hashlib.sha256(raw).hexdigest()}")


# prompts


def benchmark_samples(path: Path) -> list[Sample]:
    """Read one prompt per question (`qhash`) whose type is clear."""
    import pyarrow.parquet as pq

    samples: dict[str, Sample] = {}
    for row in pq.read_table(path).to_pylist():
        kind = type_of(row["family"], row["task"])
        if kind is None or not row["prompt"] or row["qhash"] in samples:
            continue
        sample = Sample(row["source"], row["task"], kind, row["qhash"], row["prompt"], "")
        samples[sample.key] = replace(sample, text=wrapped(unframed(sample)))
    return list(samples.values())


def type_of(family: str | None, task: str) -> str | None:
    if task in TYPE_OF_TASK:
        return TYPE_OF_TASK[task]
    return "reasoning" if task.startswith("bbh/") else TYPE_OF_FAMILY.get(family or "")


def unframed(sample: Sample) -> str:
    text = sample.raw
    chosen = sample.type not in {"code", "chat"} and not sample.task.startswith(OPEN_TASKS)
    if chosen and digest(sample.key) % 2:
        text = OPTIONS.sub("", text)
    for frame in FRAMES:
        text = frame.sub("", text)
    return text.strip()


def wrapped(text: str) -> str:
    return WRAPS[digest(text) % len(WRAPS)].format(text)


def digest(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def everyday_samples(path: Path) -> list[Sample]:
    """Make prompts of the lines of everyday.txt; those of one line share a key."""
    sections: dict[str, list[str]] = defaultdict(list)
    name = ""
    for line in path.read_text("utf-8").splitlines():
        if found := SECTION.fullmatch(line.strip()):
            name = found[1]
        elif line.strip() and not line.startswith("#"):
            sections[name].append(line.strip())
    lists: dict[str, Iterator[str]] = {"passage": cycle(sections.pop("passages"))}
    for line in sections.pop("lists"):
        head, _, entries = line.partition(" = ")
        lists[head] = cycle(entries.split("|"))
    return [
        Sample(EVERYDAY, kind, kind, f"{kind} {line}", text, wrapped(text))
        for kind, lines in sections.items()
        for line in lines
        for text in dict.fromkeys(filled(line, lists))
    ]


def filled(line: str, lists: dict[str, Iterator[str]]) -> list[str]:
    slots = [slot for slot in SLOT.findall(line) if slot in lists or "|" in slot]
    made = [
        3 if slot == "passage" else COPIES if slot in lists else slot.count("|") + 1
        for slot in slots
    ]
    return [expanded(line, lists, turn=turn) for turn in range(max(made, default=1))]


def expanded(line: str, lists: dict[str, Iterator[str]], *, turn: int) -> str:
    def fill(slot: re.Match[str]) -> str:
        if slot[1] in lists:
            return expanded(next(lists[slot[1]]), lists, turn=turn)
        choices = slot[1].split("|")
        return choices[turn % len(choices)] if len(choices) > 1 else slot[0]

    return SLOT.sub(fill, line)


# training and judging


def trained(samples: Sequence[Sample], *, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    texts, labels = [sample.text for sample in samples], [sample.type for sample in samples]
    return train(texts, labels, weights=balanced(samples), meta=meta)


def balanced(samples: Sequence[Sample]) -> list[float]:
    """Weigh prompts as the head of this file says; the mean weight is 1."""
    size = Counter((sample.source, sample.task) for sample in samples)
    raw = [size[sample.source, sample.task] ** -0.5 for sample in samples]
    total: dict[tuple[str, bool], float] = defaultdict(float)
    for sample, weight in zip(samples, raw, strict=True):
        total[sample.type, sample.source == EVERYDAY] += weight
    each = len(samples) / len({sample.type for sample in samples})
    return [
        each * weight * share(sample, total) / total[sample.type, sample.source == EVERYDAY]
        for sample, weight in zip(samples, raw, strict=True)
    ]


def share(sample: Sample, total: dict[tuple[str, bool], float]) -> float:
    own = sample.source == EVERYDAY
    if (sample.type, not own) not in total:
        return 1.0
    return EVERYDAY_SHARE if own else 1 - EVERYDAY_SHARE


def judged(fit: Sequence[Sample], held: Sequence[Sample]) -> tuple[Evaluation, Evaluation]:
    """Train on some and judge on others, on prompts as users send them: as they are, balanced."""
    model = LinearClassifier(trained(fit))
    texts, labels = [sample.raw for sample in held], [sample.type for sample in held]
    return evaluate(model, texts, labels), evaluate(model, texts, labels, weights=balanced(held))


def judge_held_out(bench: Sequence[Sample], own: Sequence[Sample]) -> dict[str, float]:
    held = [sample for sample in bench if digest(sample.key) % 5 == 0]
    fit = [sample for sample in bench if digest(sample.key) % 5]
    plain, even = judged([*fit, *own], held)
    print(f"held-out fifth of the questions, {len(held)} prompts as they are")
    print(
        f"  accuracy {plain.accuracy:.3f}, macro-F1 {plain.macro_f1:.3f}; types balanced: accuracy {even.accuracy:.3f}, macro-F1 {even.macro_f1:.3f}"
    )
    for kind, score in even.f1.items():
        print(f"  {kind:<10} F1 {plain.f1[kind]:.3f}, balanced {score:.3f}")
    figures = {
        "accuracy": plain.accuracy,
        "macro_f1": plain.macro_f1,
        "macro_f1_balanced": even.macro_f1,
    }
    return {name: round(value, 3) for name, value in figures.items()}


def judge_everyday(bench: Sequence[Sample], own: Sequence[Sample]) -> float:
    """Judge prompts of lines that were not trained on, in three folds."""
    right = 0.0
    for fold in range(3):
        held = [sample for sample in own if digest(sample.key) % 3 == fold]
        fit = [sample for sample in own if digest(sample.key) % 3 != fold]
        right += judged([*bench, *fit], held)[0].accuracy * len(held)
    print(f"everyday lines not trained on, {len(own)} prompts: accuracy {right / len(own):.3f}")
    return round(right / len(own), 3)


def judge_sources(bench: Sequence[Sample], own: Sequence[Sample]) -> None:
    print("leave one source out")
    for source, count in Counter(sample.source for sample in bench).most_common():
        held = [sample for sample in bench if sample.source == source]
        fit = [sample for sample in bench if sample.source != source]
        plain, even = judged([*fit, *own], held)
        print(
            f"  {source:<20} {count:>6} prompts, {len(plain.f1)} types: accuracy {plain.accuracy:.3f}, macro-F1 {plain.macro_f1:.3f}, balanced {even.macro_f1:.3f}"
        )


def licences(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["source"].split(" (")[0]: f"{row['repo']}, {row['licence']}"
            for row in csv.DictReader(file)
        }


def provenance(
    bench: Sequence[Sample], own: Sequence[Sample], *, licences: dict[str, str]
) -> dict[str, Any]:
    import sklearn

    counts: dict[str, dict[str, int]] = defaultdict(Counter)
    for sample in bench:
        counts[sample.source][sample.type] += 1
    return {
        "name": "broad-types",
        "created": CREATED,
        "scikit_learn": sklearn.__version__,
        "sources": {
            source: {"from": licences[source], "prompts": dict(types)}
            for source, types in counts.items()
        },
        "everyday": f"{len(own)} prompts made from everyday.txt, written for this project; half of the weight",
        "kept": "tokens and pairs of tokens that three or more prompts share; digits folded to 0",
    }


if __name__ == "__main__":
    main()
