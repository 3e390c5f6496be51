"""What is graded, against what, and the grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgetroute.units import Pico


@dataclass(frozen=True, slots=True)
class Response:
    """One choice of a model.

    Attributes:
        text: what it wrote; None = there is no text (the call failed, or it called a tool).
        finish_reason: in OpenAI's words (`stop`, `length`); None = not said.
    """

    text: str | None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """What a response is held against.

    Attributes:
        answers: acceptable answers, any of which will do; for code the tests, for a JSON schema
            the schema, for a pairwise judge the response to beat.
        prompt: what was asked, for a judge; None = not known.
        options: texts of the options of a multiple-choice question, first letter first.
    """

    answers: tuple[str, ...] = ()
    prompt: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grade:
    """What responses are worth.

    Attributes:
        reward: quality in [0, 1]; None = could not be graded, which is not a 0.
        reason: why, in a few words; never text of a prompt or a response.
        answer: the answer that was found, normalised; None = none was found or looked for.
        cost: what grading itself was billed; None = a part of it is not known.
    """

    reward: float | None
    reason: str
    answer: str | None = None
    cost: Pico | None = 0


@dataclass(frozen=True, slots=True)
class Pick:
    """Which of several responses a verifier takes.

    Attributes:
        index: of the response; None = it could not tell.
        reason: why, in a few words.
        cost: what picking was billed; None = a part of it is not known.
    """

    index: int | None
    reason: str
    cost: Pico | None = 0
