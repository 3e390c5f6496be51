"""A question with its true answer, and how a reply to it is graded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.demo.luck import Random

ANSWER = "Answer:"
"""What the line with a reply's answer starts with; without such a line the last one counts."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt whose replies can be graded.

    Attributes:
        prompt: the text that is sent.
        answer: the true answer; empty where only points count.
        wrong: a plausible wrong answer.
        points: for open requests: the things a good reply mentions.
    """

    prompt: str
    answer: str = ""
    wrong: str = ""
    points: tuple[str, ...] = ()

    @property
    def parts(self) -> int:
        """Return into how many equal parts the grade falls."""
        return len(self.points) or 1

    def grade(self, reply: str) -> float:
        """Return a quality in [0, 1]: right or wrong, or the share of points that are mentioned.

        >>> Question("2 + 2?", "4", "5").grade("I add them up. Answer: 4")
        1.0
        """
        if self.points:
            said = reply.casefold()
            return sum(point.casefold() in said for point in self.points) / len(self.points)
        return float(_holds(_conclusion(reply), self.answer))

    def reply(self, met: int) -> str:
        """Return the shortest reply that meets `met` of the parts of the grade."""
        if self.points:
            return "\n".join(f"- {point}" for point in self.points[:met])
        return f"{ANSWER} {self.answer if met else self.wrong}"


def _conclusion(reply: str) -> str:
    _, found, rest = reply.rpartition(ANSWER)
    lines = (rest if found else reply).strip().splitlines()
    if not lines:
        return ""
    return lines[0] if found else lines[-1]


def _holds(text: str, answer: str) -> bool:
    """Say whether the answer stands in the text as a whole word; 1,200 counts as 1200."""
    flags = re.IGNORECASE if len(answer) > 1 else re.NOFLAG
    plain = _THOUSANDS.sub("", text)
    return re.search(rf"(?<![\w.-]){re.escape(answer)}(?!\w|\.\d)", plain, flags) is not None


def near(rng: Random, value: int) -> int:
    """Return a whole number that a slip would make of `value`; never the same, same sign."""
    slip = rng.choice((1, 2, 3, 5, 10))
    return value + slip if value - slip < 0 or rng.random() < 0.5 else value - slip  # noqa: PLR2004


def number_question(rng: Random, prompt: str, value: int) -> Question:
    """Return a question whose answer is a whole number."""
    return Question(prompt, str(value), str(near(rng, value)))


def choice_question(rng: Random, prompt: str, answer: str, pool: Sequence[str]) -> Question:
    """Return a question whose answer is one of a pool; the wrong one comes from there too."""
    return Question(prompt, answer, rng.choice([word for word in pool if word != answer]))


def lettered(rng: Random, prompt: str, answer: str, others: Sequence[str]) -> Question:
    """Return a multiple-choice question over the answer and the others, in random order."""
    options = [answer, *others]
    rng.shuffle(options)
    letters = "ABCDEFGHIJ"[: len(options)]
    lines = [f"{letter}) {option}" for letter, option in zip(letters, options, strict=True)]
    return choice_question(
        rng, "\n".join([prompt, *lines]), letters[options.index(answer)], letters
    )
