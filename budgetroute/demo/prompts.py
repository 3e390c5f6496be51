"""Everyday prompts by type, each with what a right reply says; the same seed gives the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.demo import chatting, coding, knowledge, maths, reading, reasoning
from budgetroute.demo.luck import seeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question

WRITERS: Mapping[str, Callable[[Random], Question]] = {
    "chat": chatting.write,
    "code": coding.write,
    "knowledge": knowledge.write,
    "math": maths.write,
    "reading": reading.write,
    "reasoning": reasoning.write,
}
"""Prompt type → who writes its questions."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question of the demo.

    Attributes:
        kind: its prompt type.
        number: its number within the type; type and number name it.
        question: the prompt, and how replies to it are graded.
    """

    kind: str
    number: int
    question: Question

    @property
    def name(self) -> str:
        """Return the task's name, `math-17`."""
        return f"{self.kind}-{self.number}"

    @property
    def prompt(self) -> str:
        """Return the text that is sent."""
        return self.question.prompt


def write_task(kind: str, *, seed: int, number: int) -> Task:
    """Write the task that type, seed and number determine.

    >>> write_task("math", seed=0, number=3) == write_task("math", seed=0, number=3)
    True
    """
    return Task(kind, number, WRITERS[kind](seeded("prompt", seed, kind, number)))
