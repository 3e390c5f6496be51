"""Graders that compare text: exact, numeric, choice, contains, regex, and a function of the user's.

They follow one seam, `Scorer`: one response in, a grade out. Those whose responses can be counted as
votes are `Voter`s and say what a response answers, without seeing the reference.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.graders.extraction import final_answer, without_thoughts
from budgetroute.graders.normal import LABELS, choice_of, normalised, number_of
from budgetroute.graders.numbers import only_number
from budgetroute.records import Grade

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from budgetroute.graders.numbers import Number
    from budgetroute.records import Reference, Response

_HELD = re.compile(r'\*\*([^*\n]{1,200})\*\*|"([^"\n]{1,200})"|“([^”\n]{1,200})”')
_SENTENCE_END = re.compile(r"(?<=[^\W_]{3})[.!?]\s")

__all__ = ["CallableScorer", "Choice", "Contains", "Exact", "Numeric", "Regex", "verdict"]


def verdict(holds: bool, answer: str | None = None) -> Grade:  # noqa: FBT001 - the verdict itself
    """Return a grade of 1 or 0."""
    return Grade(float(holds), "matches" if holds else "does not match", answer)


@dataclass(frozen=True, slots=True)
class Exact:
    """The final answer, or the whole response, is one of the reference's after normalisation."""

    def answer(self, response: Response, reference: Reference) -> str | None:  # noqa: ARG002
        """Return the final answer, normalised."""
        found = final_answer(response.text or "", cut=_is_cut(response))
        if found is None:
            return None
        return normalised(_named(found.text) if found.marked else found.text) or None

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 for a match, else 0."""
        if not reference.answers:
            return Grade(None, "no reference answer")
        answer = self.answer(response, reference)
        if answer is None:
            return Grade(0.0, "no answer found")
        said = {answer, normalised(without_thoughts(response.text or ""))}
        return verdict(any(normalised(each) in said for each in reference.answers), answer)


@dataclass(frozen=True, slots=True)
class Numeric:
    """The final number is one of the reference's, up to a relative tolerance.

    Attributes:
        tolerance: |a − b| ≤ tolerance · |b|, or ≤ tolerance where b is 0.
    """

    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and 0 <= self.tolerance < 1):
            raise ConfigError(
                f"numeric: the tolerance must lie in [0, 1), found {self.tolerance!r}; write numeric:1e-3."
            )

    def answer(self, response: Response, reference: Reference) -> str | None:  # noqa: ARG002
        """Return the final number in one spelling (a fraction)."""
        number = number_of(response.text or "", cut=_is_cut(response))
        return None if number is None else number.key()

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 when the number is close enough, else 0."""
        wanted = [number for each in reference.answers if (number := _of_reference(each))]
        if not wanted:
            return Grade(None, "the reference has no number")
        number = number_of(response.text or "", cut=_is_cut(response))
        if number is None:
            return Grade(0.0, "no number found")
        return verdict(any(self._is_close(number, each) for each in wanted), number.key())

    def _is_close(self, number: Number, wanted: Number) -> bool:
        """Compare; where only one says percent, both readings of it count."""
        if number.percent == wanted.percent:
            return self._near(number.value, wanted.value)
        other = number.value * 100 if wanted.percent else number.value / 100
        return self._near(number.value, wanted.value) or self._near(other, wanted.value)

    def _near(self, value: Fraction, wanted: Fraction) -> bool:
        return abs(value - wanted) <= self.tolerance * (abs(wanted) or 1)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen label of a multiple-choice question is the reference's.

    Attributes:
        labels: the labels there are, one character each.
    """

    labels: str = LABELS

    def __post_init__(self) -> None:
        if not 1 < len(set(self.labels)) == len(self.labels) or not self.labels.isalnum():
            raise ConfigError(
                f"choice: labels must be different letters or digits such as ABCD, found {self.labels!r}."
            )

    def answer(self, response: Response, reference: Reference) -> str | None:
        """Return the label chosen."""
        return choice_of(
            response.text or "",
            labels=self.labels,
            options=reference.options,
            cut=_is_cut(response),
        )

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 for the right label, else 0."""
        wanted = {
            each for answer in reference.answers if (each := self._of_reference(answer, reference))
        }
        if not wanted:
            return Grade(None, f"the reference is none of {self.labels}")
        answer = self.answer(response, reference)
        return (
            Grade(0.0, "no single choice found")
            if answer is None
            else verdict(answer in wanted, answer)
        )

    def _of_reference(self, answer: str, reference: Reference) -> str | None:
        return choice_of(answer.strip(), labels=self.labels, options=reference.options)


@dataclass(frozen=True, slots=True)
class Contains:
    """The response holds the reference as whole words; case and spacing do not matter.

    Attributes:
        all: every reference answer must occur; False = any of them.
    """

    all: bool = False

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 when it does, else 0."""
        wanted = [words for each in reference.answers if (words := normalised(each))]
        if not wanted:
            return Grade(None, "no reference answer")
        said = " ".join(
            normalised(line) for line in without_thoughts(response.text or "").splitlines()
        )
        return verdict((all if self.all else any)(_occurs(words, said) for words in wanted))


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern occurs in the response.

    Attributes:
        pattern: what to search; None = the reference's answers are patterns, any will do.
    """

    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None:
            _compiled(self.pattern)

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 when it does, else 0."""
        patterns = reference.answers if self.pattern is None else (self.pattern,)
        if not patterns:
            return Grade(None, "no pattern, neither in the grader nor in the reference")
        text = without_thoughts(response.text or "")
        return verdict(any(_compiled(each).search(text) for each in patterns))


@dataclass(frozen=True, slots=True)
class CallableScorer:
    """A function of the user's: (text, reference) → True, False, a number in [0, 1], None or a Grade.

    What it raises is not caught.
    """

    function: Callable[[str, Reference], object]

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return what the function says.

        Raises:
            ConfigError: it returned something else.
        """
        said = self.function(response.text or "", reference)
        if isinstance(said, Grade):
            _check_range(said.reward)
            return said
        if said is None:
            return Grade(None, "the function gave no grade")
        _check_range(said)
        return Grade(float(said), "graded by a function")  # type: ignore[arg-type]  # checked above


def _is_cut(response: Response) -> bool:
    return response.finish_reason == "length"


def _named(text: str) -> str:
    """Return what an announced answer names: what is bold or quoted at its start, else one sentence.

    Stops after words of one or two letters (St. Petersburg, E. T. A. Hoffmann) end no sentence.
    """
    if text.count("**") % 2:  # the opening marks were taken for the marker's
        return text.partition("**")[0]
    held = _HELD.match(text)
    if held:
        return next(group for group in held.groups() if group is not None)
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def _check_range(reward: object) -> None:
    if reward is not None and not (isinstance(reward, int | float) and 0 <= reward <= 1):
        raise ConfigError(
            f"a grading function returned {type(reward).__name__} {str(reward)[:40]!r}; it must return True, False, a "
            "number from 0 to 1, None or a Grade."
        )


def _of_reference(text: str) -> Number | None:
    """Return the number of a reference: the text is one, or it ends on one (GSM8K's `#### 42`)."""
    return only_number(text) or number_of(text)


def _occurs(words: str, said: str) -> bool:
    before = r"(?<!\w)" if words[0].isalnum() else ""
    after = r"(?!\w)" if words[-1].isalnum() else ""
    return re.search(before + re.escape(words) + after, said) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as err:
        raise ConfigError(f"regex: {pattern!r} is no regular expression: {err}.") from err
