"""How much of prompts × actions a table holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ACTION = ("model", "max_tokens", "cot", "reasoning_effort", "temperature", "n")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of prompts × actions there is.

    Attributes:
        prompts: distinct prompts.
        actions: distinct actions, caps as they were sent.
        complete: the share of their pairs that was graded.
        lone: prompts that only one of several models was asked.
    """

    prompts: int
    actions: int
    complete: float
    lone: int

    def __str__(self) -> str:
        """Return it in words; a share that is not whole is never shown as 100 %."""
        share = min(99, round(100 * self.complete)) if self.complete < 1 else 100
        prompt = "prompt" if self.prompts == 1 else "prompts"
        action = "action" if self.actions == 1 else "actions"
        return f"{self.prompts:,} {prompt} × {self.actions:,} {action}, {share} % complete"


def coverage_of(rows: Iterable[Mapping[str, Any]]) -> Coverage:
    """Return the coverage of rows of an outcomes table.

    >>> rows = [{"prompt_id": "a", "model": "x"}, {"prompt_id": "a", "model": "y"}]
    >>> print(coverage_of([*rows, {"prompt_id": "b", "model": "x"}]))
    2 prompts × 2 actions, 75 % complete
    """
    asked: dict[Any, set[str]] = {}
    pairs, actions = set(), set()
    for row in rows:
        action = tuple(row.get(name) for name in _ACTION)
        asked.setdefault(row["prompt_id"], set()).add(row["model"])
        pairs.add((row["prompt_id"], action))
        actions.add(action)
    models = len(set().union(*asked.values())) if asked else 0
    return Coverage(
        prompts=len(asked),
        actions=len(actions),
        complete=len(pairs) / (len(asked) * len(actions)) if asked else 0.0,
        lone=sum(len(names) == 1 for names in asked.values()) if models > 1 else 0,
    )
