"""Results of promptfoo, version 3: one call per test and provider.

Its own cache answers without tokens, cost or time; a provider that reports nothing is written as
zeros. Both are unknown here. Settings stand in the configuration, by provider.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetroute.profiling.imports.logged import (
    CUT,
    SEVERAL,
    Logged,
    Sent,
    Used,
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

VERSION = 3
ERROR = 2
"""`failureReason`: 0 passed, 1 failed an assertion, 2 an error."""
TOTAL = "score"
_CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_PASSING = frozenset({"_conversation", "sessionId"})
"""Variables that promptfoo sets anew for every run of the same test."""


class Table(NamedTuple):
    """What a file says of all its rows: where it is, and provider → its settings."""

    path: Path
    settings: Mapping[str, Mapping[str, Any]]


def is_promptfoo(content: Mapping[str, Any]) -> bool:
    """Say whether an object is a file of results, or one line of them."""
    return isinstance(part(content, "results", "results"), list) or (
        "testIdx" in content and "provider" in content
    )


def promptfoo_calls(content: Mapping[str, Any], path: Path) -> Iterator[Logged]:
    """Yield the calls of a file of results.

    Raises:
        ProfileError: the version is not 3, or two providers of one name have different settings.
    """
    version = part(content, "results", "version")
    if version != VERSION:
        raise refuse(path, f"promptfoo results of version {version!r:.20}; version 3 is read")
    table = Table(path, _settings(content.get("config"), path))
    yield from promptfoo_rows(part(content, "results", "results"), table)


def promptfoo_rows(rows: Iterable[object], table: Table) -> Iterator[Logged]:
    """Yield the calls of single results."""
    for row in rows:
        if isinstance(row, dict):
            yield _call(row, table)


def _settings(config: object, path: Path) -> dict[str, dict[str, Any]]:
    """Return provider (its label, else its id) → its settings."""
    found: dict[str, dict[str, Any]] = {}
    providers = part(config, "providers")
    for entry in providers if isinstance(providers, list) else [providers]:
        for name, said in _entries(entry):
            if found.setdefault(name, said) != said:
                raise refuse(
                    path, f"provider {name!r:.80} stands there twice with different settings; give "
                    "each a label and run it again"
                )  # fmt: skip
    return found


def _entries(entry: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(entry, str):
        yield entry, {}
    elif isinstance(entry, dict) and isinstance(entry.get("id"), str):
        yield str(entry.get("label") or entry["id"]), mapping(entry.get("config"))
    else:
        for name, said in mapping(entry).items():
            yield str(part(said, "label") or name), mapping(part(said, "config"))


def _call(row: Mapping[str, Any], table: Table) -> Logged:
    provider = row.get("provider")
    identity = provider if isinstance(provider, str) else part(provider, "id")
    label = part(provider, "label")
    named = label or identity
    response = mapping(row.get("response"))
    tests = {k: v for k, v in mapping(row.get("vars")).items() if k not in _PASSING}
    raw, answer = part(row, "prompt", "raw"), response.get("output")
    config = mapping(table.settings.get(str(named))) | mapping(part(row, "prompt", "config"))
    sent = _sent(config)
    return Logged(
        place=f"{table.path.name}: test {row.get('testIdx')!r:.20} of {named!r:.60}",
        prompt=digest(tests or raw),
        model=str(identity),
        scores={TOTAL: row.get("score")} | mapping(row.get("namedScores")),
        also=(str(label),) if label else (),
        sent=sent,
        used=_used(row, response),
        question=raw if isinstance(raw, str) else None,
        answer=(answer,) if isinstance(answer, str) else (),
        tags=mapping(part(row, "testCase", "metadata")) | tests,
        template=str(row.get("promptId") or part(row, "prompt", "label")),
        fault=_fault(row, response, sent),
    )


def _fault(row: Mapping[str, Any], response: Mapping[str, Any], sent: Sent) -> str | None:
    if row.get("failureReason") == ERROR or response.get("error"):
        return "ended in an error"
    if not isinstance(part(row, "provider", "id") or row.get("provider"), str):
        return "names no provider"
    if (whole(part(row, "tokenUsage", "numRequests")) or 1) > 1:
        return SEVERAL
    is_cut = str(response.get("finishReason")) in {"length", "max_tokens"}
    return CUT if is_cut and sent.max_tokens is None else None


def _sent(config: Mapping[str, Any]) -> Sent:
    cap = next((whole(config[key]) for key in _CAPS if key in config), None)
    effort = config.get("reasoning_effort") or part(config, "reasoning", "effort")
    return Sent(
        max_tokens=cap,
        effort=effort if isinstance(effort, str) else None,
        temperature=number(config.get("temperature")),
        n=whole(config.get("n")),
    )


def _used(row: Mapping[str, Any], response: Mapping[str, Any]) -> Used:
    usage = mapping(row.get("tokenUsage")) or mapping(response.get("tokenUsage"))
    counts = usage.get("prompt"), usage.get("completion"), usage.get("total")
    if response.get("cached") or not any(map(number, counts)):
        return Used()
    more = mapping(usage.get("completionDetails"))
    read, written = (
        number(more.get(f"cache{kind}InputTokens")) or 0.0 for kind in ("Read", "Creation")
    )
    used = whole_usage(counts, cached=read + written, reasoning=number(more.get("reasoning")))
    waited = number(row.get("latencyMs"))
    return replace(
        used,
        latency_s=None if waited is None else waited / 1000,
        cost_usd=number(row.get("cost")) or None,
    )
