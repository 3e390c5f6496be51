"""Samples of lm-evaluation-harness: one call per document; the model stands in the results file.

These logs have no token counts. A metric under a filter (`exact_match,strict-match`) is a scorer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from budgetroute.profiling.imports.logged import (
    CUT,
    ID_DIGITS,
    Logged,
    Sent,
    digest,
    mapping,
    number,
    part,
    refuse,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_CAPS = ("max_gen_toks", "max_tokens", "max_completion_tokens", "max_new_tokens")
_WORDING = ("doc_to_text", "description", "num_fewshot", "fewshot_as_multiturn")
_MODELS = ("model", "pretrained", "path", "engine")


class Run(NamedTuple):
    """What is the same for all lines of a file.

    Attributes:
        path: the file.
        model: who answered.
        task: what was asked.
        args: the model's arguments.
        lower: metrics of which less is better.
        template: what tells one wording of the prompts from another.
    """

    path: Path
    model: str
    task: str
    args: Mapping[str, Any]
    lower: frozenset[str]
    template: str


def is_lm_eval(row: Mapping[str, Any]) -> bool:
    """Say whether an object is a line of a samples file."""
    return "doc_id" in row and "resps" in row


def is_results(content: Mapping[str, Any]) -> bool:
    """Say whether an object is a results file."""
    return isinstance(content.get("configs"), dict) and isinstance(content.get("results"), dict)


def lm_eval_calls(
    rows: Iterable[Mapping[str, Any]], results: Mapping[str, Any], path: Path
) -> Iterator[Logged]:
    """Yield the calls of a samples file.

    Args:
        rows: its lines.
        results: the results file of the same run.
        path: the samples file.

    Raises:
        ProfileError: the results file names no model.
    """
    args = part(results, "config", "model_args")
    told = _args(args)
    name = next((told[key] for key in _MODELS if told.get(key)), None)
    model = name or part(results, "config", "model") or results.get("model_name")
    if not isinstance(model, str):
        raise refuse(path, "its results file names no model")
    task = task_of(path)
    worded = (part(results, "configs", task, key) for key in _WORDING)
    template = digest(*worded, results.get("system_instruction_sha"))
    run = Run(path, model, task, told, _lower_is_better(results, task), template)
    for group in _documents(rows):
        yield _call(group, run)


def task_of(path: Path) -> str:
    """Return the task that a samples file is named after.

    >>> from pathlib import Path
    >>> task_of(Path("samples_gsm8k_cot_2026-11-29T20-26-29.151252.jsonl"))
    'gsm8k_cot'
    """
    return path.stem.removeprefix("samples_").rpartition("_20")[0] or path.stem


def _lower_is_better(results: Mapping[str, Any], task: str) -> frozenset[str]:
    """Return the task's metrics of which less is better."""
    said = mapping(part(results, "higher_is_better", task))
    return frozenset(metric for metric, higher in said.items() if higher is False)


def _args(said: object) -> dict[str, Any]:
    """Return the model's arguments, which older versions write as `a=b,c=d`."""
    if isinstance(said, str):
        pairs = (pair.partition("=") for pair in said.split(","))
        return {key.strip(): value.strip() for key, _, value in pairs}
    return mapping(said)


def _documents(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the lines of each document: one per filter."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"{row.get('doc_id')!r}", []).append(row)
    yield from groups.values()


def _call(group: list[Mapping[str, Any]], run: Run) -> Logged:
    first = group[0]
    arguments = part(first, "arguments", "gen_args_0")
    answers = _answers(first.get("resps"))
    question = part(arguments, "arg_0")
    sent = _sent(mapping(part(arguments, "arg_1")), run.args, n=len(answers))
    scores = {key: value for row in group for key, value in _scores(row).items()}
    return Logged(
        place=f"{run.path.name}: doc_id {first.get('doc_id')!r:.20}",
        prompt=_identity(first),
        model=run.model,
        scores=scores,
        type=run.task,
        sent=sent,
        question=question if isinstance(question, str) else None,
        answer=answers,
        tags=mapping(first.get("doc")),
        template=run.template,
        lower=frozenset(name for name in scores if name.partition(",")[0] in run.lower),
        fault=_fault(answers, sent),
    )


def _fault(answers: tuple[str, ...], sent: Sent) -> str | None:
    if not answers:
        return "was judged by likelihood: no answer was generated"
    return CUT if sent.max_tokens is None else None


def _identity(row: Mapping[str, Any]) -> str:
    known = row.get("doc_hash")
    return known[:ID_DIGITS] if isinstance(known, str) else digest(row.get("doc"))


def _answers(resps: object) -> tuple[str, ...]:
    listed = resps[0] if isinstance(resps, list) and resps else ()
    if isinstance(listed, str):
        return (listed,)
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return ()
    return tuple(listed)


def _sent(asked: Mapping[str, Any], told: Mapping[str, Any], *, n: int) -> Sent:
    cap = next((whole(asked[key]) for key in _CAPS if key in asked), whole(told.get(_CAPS[0])))
    effort = asked.get("reasoning_effort", told.get("reasoning_effort"))
    return Sent(
        max_tokens=cap,
        effort=effort if isinstance(effort, str) else None,
        temperature=number(asked.get("temperature")),
        n=n or None,
    )


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = row.get("metrics")
    names = [name for name in metrics if isinstance(name, str)] if isinstance(metrics, list) else []
    return {f"{name},{row.get('filter', 'none')}": row.get(name) for name in names if name in row}
