"""Logs of inspect_ai, `.eval` and `.json`: one call per sample and epoch.

There `input_tokens` leaves cached input out. A sample that took several calls of the model (tools, agents,
critique) is no outcome of one call, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetroute.profiling.imports.logged import (
    CUT,
    SEVERAL,
    Logged,
    Sent,
    digest,
    mapping,
    number,
    part,
    refuse,
    whole,
    whole_usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from budgetroute.profiling.imports.logged import Used

COT_SOLVER = "chain_of_thought"


class Run(NamedTuple):
    """What a log says of all its samples."""

    path: Path
    model: str
    task: str
    sent: Sent
    template: str


def is_inspect(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is a log of inspect_ai."""
    return isinstance(content.get("eval"), dict) and "plan" in content


def inspect_calls(
    header: Mapping[str, Any], samples: Iterable[object], path: Path
) -> Iterator[Logged]:
    """Yield the calls of a log.

    Args:
        header: the log without its samples.
        samples: its samples.
        path: the file.

    Raises:
        ProfileError: the log names no model.
    """
    model = part(header, "eval", "model")
    if not isinstance(model, str):
        raise refuse(path, "no model in it: eval.model is missing")
    task = str(part(header, "eval", "task") or "general")
    run = Run(path, model, task, _sent(header), _template(header))
    for index, sample in enumerate(samples, start=1):
        if isinstance(sample, dict):
            yield _call(sample, run, index=index)


def _sent(header: Mapping[str, Any]) -> Sent:
    """Return the run's settings: the task's over the model's."""
    steps = part(header, "plan", "steps")
    solvers = {str(part(step, "solver")) for step in steps} if isinstance(steps, list) else set()
    of_model = _config(part(header, "eval", "model_generate_config"))
    sent = _config(part(header, "plan", "config")).over(of_model)
    is_cot = any(name.rpartition("/")[2] == COT_SOLVER for name in solvers)
    return Sent(cot=is_cot or None).over(sent)


def _template(header: Mapping[str, Any]) -> str:
    """Return what tells one way of wording the prompts from another: the solvers before the call."""
    steps = part(header, "plan", "steps")
    listed = steps if isinstance(steps, list) else []
    told = [(str(part(step, "solver")).rpartition("/")[2], part(step, "params")) for step in listed]
    return digest(*(step for step in told if step[0] not in {COT_SOLVER, "generate"}))


def _config(said: object) -> Sent:
    config = mapping(said)
    effort = config.get("reasoning_effort")
    return Sent(
        max_tokens=whole(config.get("max_tokens")),
        effort=effort if isinstance(effort, str) else None,
        temperature=number(config.get("temperature")),
        n=whole(config.get("num_choices")),
    )


def _call(sample: Mapping[str, Any], run: Run, *, index: int) -> Logged:
    output = mapping(sample.get("output"))
    question = _text(sample.get("input"))
    choices = output.get("choices")
    listed = choices if isinstance(choices, list) else []
    calls = [event for event in _model_events(sample) if event.get("role") is None]
    sent = _config(calls[0].get("config") if calls else None).over(run.sent)
    return Logged(
        place=f"{run.path.name}: sample {index}",
        prompt=digest(question, sample.get("choices"), sample.get("target")),
        model=run.model,
        scores=_scores(sample.get("scores")),
        type=run.task,
        sent=sent,
        used=_used(output),
        question=question,
        answer=tuple(_text(part(choice, "message", "content")) for choice in listed),
        tags=mapping(sample.get("metadata")),
        template=run.template,
        fault=_fault(sample, calls=len(calls)) or _cut(listed, sent),
    )


def _model_events(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    events = sample.get("events")
    listed = events if isinstance(events, list) else []
    return [event for event in listed if isinstance(event, dict) and event.get("event") == "model"]


def _fault(sample: Mapping[str, Any], *, calls: int) -> str | None:
    if sample.get("error"):
        return "ended in an error"
    if sample.get("limit"):
        return "stopped by a limit of the run"
    messages = sample.get("messages")
    said = [
        message
        for message in (messages if isinstance(messages, list) else [])
        if part(message, "role") == "assistant" and part(message, "source") == "generate"
    ]
    if max(calls, len(said)) > 1:
        return SEVERAL
    return None if sample.get("output") else "has no output"


def _cut(choices: list[Any], sent: Sent) -> str | None:
    is_cut = any(part(choice, "stop_reason") == "max_tokens" for choice in choices)
    return CUT if is_cut and sent.max_tokens is None else None


def _used(output: Mapping[str, Any]) -> Used:
    usage = mapping(output.get("usage"))
    read, written = (
        number(usage.get(f"input_tokens_cache_{kind}")) or 0.0 for kind in ("read", "write")
    )
    told = usage.get("input_tokens"), usage.get("output_tokens"), usage.get("total_tokens") or None
    used = whole_usage(
        told,
        cached=read + written,
        reasoning=number(usage.get("reasoning_tokens")),
        cached_outside=True,
    )
    return replace(
        used,
        latency_s=number(output.get("time")),
        cost_usd=number(usage.get("total_cost")),
    )


def _scores(said: object) -> dict[str, Any]:
    """Return scorer → value; a scorer with several values gives `scorer.name` for each."""
    scores: dict[str, Any] = {}
    for name, score in mapping(said).items():
        value = part(score, "value")
        if isinstance(value, dict):
            scores |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            scores[name] = value
    return scores


def _text(content: object) -> str:
    """Return the text of a prompt, message or list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, dict):
        return _text(content.get("content", content.get("text", content.get("image"))))
    return ""
