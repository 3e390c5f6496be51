"""From the calls of logs to rows of one table: one model's name, one type and one scorer each.

Nothing is left out silently: what is no graded call with known usage is counted by its reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetroute.errors import ProfileError
from budgetroute.profiling.imports.coverage import Coverage, coverage_of
from budgetroute.profiling.imports.logged import CUT, Sent, reward_of
from budgetroute.profiling.imports.sources import Logs
from budgetroute.profiling.tables import outcomes_of
from budgetroute.tokens import O200k

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from budgetroute.profiling.imports.logged import Logged
    from budgetroute.profiling.tables import Outcomes

GENERAL = "general"
NOT_GRADED = "not graded"
NO_USAGE = "without usage: neither tokens nor a bill"
LONGEST_TYPE = 64
MOST_TYPES = 64
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """How logs become a table.

    Attributes:
        models: a log's name of a model → ours; others keep theirs.
        scorers: the scorers to take; may be left out where a type has one.
        scale: the grades that are worth 0 and 1; None = grades are rewards already.
        type: the type of every prompt; None = the log's task, else `general`.
        type_from: the metadata (variable, column, field of the document) that names the type.
        given: settings of calls that the logs do not tell.
        template: which wording to take where prompts stand in several, from 1.
        count_tokens: count the visible answer where usage is unknown, marked `o200k`.
        keep_prompts: keep the prompts' texts, for a classifier.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    scorers: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    type: str | None = None
    type_from: str | None = None
    given: Sent = field(default_factory=Sent)
    template: int | None = None
    count_tokens: bool = False
    keep_prompts: bool = False


@dataclass(frozen=True, slots=True)
class Imported:
    """What was made of logs.

    Attributes:
        outcomes: the rows, checked.
        rows: the rows as columns of an outcomes table, unknowns left out.
        prompts: prompt_id, type and prompt of each, where texts were to be kept.
        tools: who wrote the logs → calls in them.
        scorers: type → the scorer that was taken.
        coverage: how much of prompts × actions there is.
        left_out: reason → calls.
        counted: rows whose tokens were counted here.
    """

    outcomes: Outcomes
    rows: tuple[dict[str, Any], ...]
    prompts: tuple[dict[str, str], ...]
    tools: Mapping[str, int]
    scorers: Mapping[str, str]
    coverage: Coverage
    left_out: Mapping[str, int]
    counted: int


class _Call(NamedTuple):
    """A call with its type and our name of its model."""

    logged: Logged
    type: str
    model: str

    @property
    def prompt(self) -> str:
        """The prompt's id in the table."""
        return self.logged.prompt if self.logged.is_ours else f"{self.type}-{self.logged.prompt}"


def import_logs(
    paths: Sequence[str | os.PathLike[str]],
    settings: ImportSettings | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Read logs of evaluations as one table of outcomes; blocks on the files.

    Args:
        paths: inspect_ai `.eval` and `.json`, promptfoo 3 `.json` and `.jsonl`,
            lm-evaluation-harness `samples_*.jsonl`, tables of outcomes; told by their content.
        settings: how.
        progress: called with the calls read so far.

    Raises:
        ProfileError: a file cannot be used, several scorers would be mixed, or nothing is left.
    """
    said = settings or ImportSettings()
    calls, tools = _read(paths, said, progress)
    origin = ", ".join(str(path) for path in paths[:3]) + (", …" if len(paths) > 3 else "")  # noqa: PLR2004 - enough to know them by
    _check_models(calls, said)
    calls = _of_one_template(calls, said)
    left: Counter[str] = Counter(call.logged.fault for call in calls if call.logged.fault)
    calls = [call for call in calls if not call.logged.fault]
    if not calls:
        raise ProfileError(_nothing(origin, left, said))
    _check_types(calls, said)
    scorers = _scorers(calls, said)
    rows, counted = list[dict[str, Any]](), 0
    for call in calls:
        row, reason = _row(call, scorers[call.type], said.scale)
        if reason:
            left[reason] += 1
            continue
        rows.append(row)
        counted += call.logged.used.basis == "o200k" and not call.logged.is_ours
    if not rows:
        raise ProfileError(_nothing(origin, left, said))
    return Imported(
        outcomes=outcomes_of(enumerate(rows, start=1), origin=origin),
        rows=tuple(rows),
        prompts=_prompts(calls, {row["prompt_id"] for row in rows}),
        tools=tools,
        scorers=scorers,
        coverage=coverage_of(rows),
        left_out=dict(left),
        counted=counted,
    )


def _read(
    paths: Sequence[str | os.PathLike[str]],
    said: ImportSettings,
    progress: Callable[[int], None] | None,
) -> tuple[list[_Call], dict[str, int]]:
    counter = O200k()
    if said.count_tokens and not counter.load():
        raise ProfileError("--count-tokens: the o200k tokenizer inside litellm cannot be loaded")
    calls: list[_Call] = []
    tools: Counter[str] = Counter()
    try:
        for tool, found in Logs(paths).opened():
            for logged in found:
                tools[tool] += 1
                calls.append(_placed(logged, said, counter))
                if progress:
                    progress(len(calls))
    except RecursionError as err:
        raise ProfileError(f"logs {', '.join(map(str, paths))}: nested too deep") from err
    if not calls:
        raise ProfileError(f"logs {', '.join(map(str, paths))}: no calls in them")
    return calls, dict(tools)


def _placed(logged: Logged, said: ImportSettings, counter: O200k) -> _Call:
    """Return a call with its type and model, gaps filled, and without the texts not needed."""
    clash = logged.sent.contradiction(said.given)
    if clash:
        raise ProfileError(
            f"{logged.place}: {clash} is {getattr(logged.sent, clash)!r}, not "
            f"{getattr(said.given, clash)!r}; options only fill what a log does not tell"
        )
    full = replace(logged, sent=logged.sent.over(said.given))
    if full.fault == CUT and full.sent.max_tokens is not None:
        full = replace(full, fault=None)
    if full.fault == CUT:
        raise ProfileError(f"{full.place}: the answer {CUT}; --max-tokens N says it")
    if said.count_tokens:
        full = _counted(full, counter)
    kept = full.question if said.keep_prompts else None
    model = next(
        (said.models[name] for name in (*full.also, full.model) if name in said.models), full.model
    )
    return _Call(replace(full, question=kept, answer=(), tags={}), _type(full, said), model)


def _type(logged: Logged, said: ImportSettings) -> str:
    name: object = said.type or logged.type or GENERAL
    if said.type_from is not None:
        name = logged.tags.get(said.type_from)
        if name is None:
            found = ", ".join(repr(tag[:30]) for tag in list(logged.tags)[:_SHOWN]) or "none"
            raise ProfileError(
                f"{logged.place}: --type-from {said.type_from!r}: found as metadata: {found}"
            )
    return re.sub(r"[^\w.-]+", "-", str(name)).strip("-")[:LONGEST_TYPE] or GENERAL


def _counted(logged: Logged, counter: O200k) -> Logged:
    """Return the call with counted tokens where its usage is unknown and nothing was hidden."""
    used = logged.used
    thinks = logged.sent.effort not in {None, "none"} or used.reasoning_tokens
    if used.output_tokens is not None or used.cost_usd is not None or thinks or not logged.answer:
        return logged
    made = sum(counter.measure(text).tokens for text in logged.answer)
    given = used.input_tokens
    if given is None and logged.question:
        given = counter.measure(logged.question).tokens
    return replace(
        logged, used=replace(used, input_tokens=given, output_tokens=made, basis="o200k")
    )


def _check_models(calls: Iterable[_Call], said: ImportSettings) -> None:
    names = {name for call in calls for name in (call.logged.model, *call.logged.also)}
    for name in said.models:
        if name not in names:
            raise ProfileError(f"--model {name}: the logs have {_listed(names)}")


def _check_types(calls: Iterable[_Call], said: ImportSettings) -> None:
    """Refuse types taken from what differs prompt by prompt; text would become names of types."""
    kinds = {call.type for call in calls}
    if said.type_from is not None and len(kinds) > MOST_TYPES:
        raise ProfileError(
            f"--type-from {said.type_from!r}: {len(kinds)} types; expected at most {MOST_TYPES}, each "
            "with some 50 prompts"
        )


def _of_one_template(calls: list[_Call], said: ImportSettings) -> list[_Call]:
    """Return the calls of one wording of each type's prompts; two would be samples of one."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        if call.logged.template and call.logged.template not in found[call.type]:
            found[call.type].append(call.logged.template)
    most = max(map(len, found.values()), default=0)
    wanted = said.template
    if wanted is None and most > 1:
        kind = next(kind for kind, templates in found.items() if len(templates) > 1)
        raise ProfileError(
            f"type {kind!r}: its prompts stand there in {len(found[kind])} wordings (templates, "
            f"system messages, examples); --template 1 to {len(found[kind])}, in the order of the "
            "logs, takes one of them"
        )
    if wanted is None or most == 0:
        return calls
    if wanted > most:
        raise ProfileError(f"--template {wanted}: the logs have {most}")
    taken = {kind: ts[min(wanted, len(ts)) - 1] for kind, ts in found.items() if ts}
    return [call for call in calls if call.logged.template in {None, taken.get(call.type)}]


def _scorers(calls: Iterable[_Call], said: ImportSettings) -> dict[str, str]:
    """Return the scorer of each type.

    Raises:
        ProfileError: a type has several, or none of those asked for.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        found[call.type].update(call.logged.scores)
    every = {name for names in found.values() for name in names}
    for name in said.scorers:
        if name not in every:
            raise ProfileError(f"--scorer {name}: the logs have {_listed(every)}")
    return {kind: _scorer(kind, names, said.scorers) for kind, names in sorted(found.items())}


def _scorer(kind: str, names: set[str], asked: Sequence[str]) -> str:
    left = names & set(asked) if asked else names
    if len(left) == 1:
        return next(iter(left))
    if not names:
        raise ProfileError(f"type {kind!r}: nothing in the logs graded it")
    if not left:
        raise ProfileError(f"type {kind!r} was graded by {_listed(names)}, not by {_listed(asked)}")
    raise ProfileError(
        f"type {kind!r} was graded by {len(left)} scorers: {_listed(left)}; --scorer NAME takes one. "
        "Grades of several are never mixed"
    )


def _row(
    call: _Call, scorer: str, scale: tuple[float, float] | None
) -> tuple[dict[str, Any], str | None]:
    """Return a call as a row, and why it is to be left out, if it is."""
    logged, used, sent = call.logged, call.logged.used, call.logged.sent
    value = logged.scores.get(scorer)
    if scorer in logged.lower and not (scale and scale[0] > scale[1]):
        raise ProfileError(
            f"{logged.place}: less is better of {scorer!r}; --scale HIGH,LOW turns it round"
        )
    try:
        reward = reward_of(value, scale)
    except ValueError as err:
        shown = f"{value!r:.20}" if isinstance(value, int | float) else f"a {type(value).__name__}"
        raise ProfileError(f"{logged.place}: {scorer!r} is {shown}; {err}") from None
    row = {
        "prompt_id": call.prompt,
        "type": call.type,
        "task": logged.task,
        "model": call.model,
        "max_tokens": sent.max_tokens,
        "cot": sent.cot or None,
        "reasoning_effort": sent.effort,
        "temperature": sent.temperature,
        "n": sent.n if sent.n != 1 else None,
        "reward": reward,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "complete_tokens": used.complete_tokens,
        "latency_s": used.latency_s,
        "cost_usd": used.cost_usd,
        "token_basis": used.basis,
    }
    known = {name: value for name, value in row.items() if value is not None}
    if reward is None:
        return known, NOT_GRADED
    return known, NO_USAGE if used.output_tokens is None and used.cost_usd is None else None


def _prompts(calls: Iterable[_Call], kept: set[str]) -> tuple[dict[str, str], ...]:
    texts = {
        call.prompt: {"prompt_id": call.prompt, "type": call.type, "prompt": call.logged.question}
        for call in calls
        if call.logged.question is not None and call.prompt in kept
    }
    return tuple(texts.values())


def _nothing(origin: str, left: Mapping[str, int], said: ImportSettings) -> str:
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in left.items())
    hint = (
        "; --count-tokens counts the visible answers instead"
        if NO_USAGE in left and not said.count_tokens
        else ""
    )
    return f"logs {origin}: no call can be used: {reasons}{hint}"


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more if ordered else "none"
