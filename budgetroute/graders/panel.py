"""From one response to several: what is empty is worth nothing, n > 1 is a vote or a verifier's pick."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from budgetroute.records import Grade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from budgetroute.protocols import Verifier
    from budgetroute.records import Reference, Response
    from budgetroute.units import Pico

__all__ = ["Panel", "Scorer", "Voter", "costs"]


class Scorer(Protocol):
    """Grades one response that has text."""

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return what one response is worth."""
        ...


@runtime_checkable
class Voter(Protocol):
    """A scorer whose answers can be counted."""

    def answer(self, response: Response, reference: Reference) -> str | None:
        """Return the normalised answer, found without the reference's answers; None = none."""
        ...


class Panel:
    """A grader made of a scorer: the face that everything else uses.

    An empty response is worth 0, whoever grades, and costs nothing to grade: with finish reason
    `length` the cap ate the answer. A response without text (None) cannot be graded.

    With several responses the verifier's pick is graded if there is a verifier; else the answer with
    the most votes. A tie is worth the mean of the tied answers, so order plays no part.
    """

    def __init__(self, scorer: Scorer, *, verifier: Verifier | None = None) -> None:
        self.scorer = scorer
        self.verifier = verifier

    def grade(self, responses: Sequence[Response], reference: Reference) -> Grade:
        """Return the grade of all choices of one call together."""
        spoken = [each for each in responses if (each.text or "").strip()]
        if not spoken:
            return _silent(responses)
        if len(responses) == 1:
            return self.scorer.score(spoken[0], reference)
        if self.verifier is not None:
            return self._picked(self.verifier, spoken, reference)
        if isinstance(self.scorer, Voter):
            return _elected(self.scorer.answer, self.scorer.score, spoken, reference)
        name = type(self.scorer).__name__
        return Grade(
            None, f"{len(responses)} responses: {name} cannot count votes, give a verifier"
        )

    def _picked(
        self, verifier: Verifier, spoken: Sequence[Response], reference: Reference
    ) -> Grade:
        pick = verifier.pick(spoken, reference.prompt)
        if pick.index is None:
            return Grade(None, pick.reason, cost=pick.cost)
        grade = self.scorer.score(spoken[pick.index], reference)
        return Grade(grade.reward, grade.reason, grade.answer, costs((pick.cost, grade.cost)))


def costs(parts: Iterable[Pico | None]) -> Pico | None:
    """Add costs up; one that is not known makes the sum unknown.

    >>> costs([1, 2]), costs([1, None]), costs([])
    (3, None, 0)
    """
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _silent(responses: Sequence[Response]) -> Grade:
    """Return the grade where no response says anything."""
    empty = [each for each in responses if each.text is not None]
    if not empty:
        return Grade(None, "no text to grade")
    if any(each.finish_reason == "length" for each in empty):
        return Grade(0.0, "empty: the cap cut it before the answer")
    return Grade(0.0, "empty")


def _elected(
    answer: Callable[[Response, Reference], str | None],
    score: Callable[[Response, Reference], Grade],
    spoken: Sequence[Response],
    reference: Reference,
) -> Grade:
    votes: dict[str, list[Response]] = defaultdict(list)
    for response in spoken:
        said = answer(response, reference)
        if said is not None:
            votes[said].append(response)
    if not votes:
        return Grade(0.0, f"no answer in {len(spoken)} responses")
    most = max(map(len, votes.values()))
    winners = sorted(said for said, voters in votes.items() if len(voters) == most)
    grades = [score(voter, reference) for said in winners for voter in votes[said]]
    rewards = [grade.reward for grade in grades if grade.reward is not None]
    if len(rewards) < len(grades):
        return next(grade for grade in grades if grade.reward is None)
    reason = f"{most} of {len(spoken)} votes" + (
        f", {len(winners)} answers tied" if len(winners) > 1 else ""
    )
    return Grade(
        math.fsum(rewards) / len(rewards),
        reason,
        winners[0] if len(winners) == 1 else None,
        costs(g.cost for g in grades),
    )
