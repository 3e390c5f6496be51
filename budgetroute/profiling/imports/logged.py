"""A graded call as a log tells it, in one convention whichever tool wrote the log."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Mapping

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partly, incorrect, no answer: inspect_ai's grades."""
ID_DIGITS = 16
SEVERAL = "took several calls, so that neither grade nor tokens are of one"
CUT = "may have been cut by a cap that the log does not name"
"""A fault that is not left out: without the answers that were cut, short ones would be favoured."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a call asked for; None = the log does not say."""

    max_tokens: int | None = None
    cot: bool | None = None
    effort: str | None = None
    temperature: float | None = None
    n: int | None = None

    def over(self, other: Sent) -> Sent:
        """Return these settings, the other's where this has none."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(other, **{name: value for name, value in said.items() if value is not None})

    def contradiction(self, other: Sent) -> str | None:
        """Return the first setting that both have and that differs, None if there is none."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if mine is not None and theirs is not None and mine != theirs:
                return each.name
        return None


@dataclass(frozen=True, slots=True)
class Used:
    """What a call took; None = the log does not say, never zero.

    Attributes:
        input_tokens: all of them, cached ones included.
        output_tokens: all that is billed, hidden reasoning included.
        reasoning_tokens: hidden ones among them.
        complete_tokens: the prefix that already holds what was graded.
        latency_s: seconds.
        cost_usd: dollars.
        basis: whose tokens these are.
    """

    input_tokens: float | None = None
    output_tokens: float | None = None
    reasoning_tokens: float | None = None
    complete_tokens: float | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    basis: str | None = None


@dataclass(frozen=True, slots=True)
class Logged:
    """One call of a log.

    Attributes:
        place: file and entry, for errors.
        prompt: what identifies the prompt within its type: a digest, or the id of an own table.
        model: the log's name for the model.
        scores: scorer → what it said.
        also: other names that the model goes by.
        type: the prompt type that the log implies; None = it implies none.
        task: a part of the type.
        sent: what was asked for.
        used: what it took.
        question: the prompt's text, which goes into no table.
        answer: the visible answers, to count their tokens.
        tags: metadata of the prompt, by which types may be set.
        template: which wording of the prompt this is.
        is_ours: the prompt's id is the user's own and stays as it is.
        lower: scorers of which less is better.
        fault: why it is no graded call; None = it is one.
    """

    place: str
    prompt: str
    model: str
    scores: Mapping[str, Any]
    also: tuple[str, ...] = ()
    type: str | None = None
    task: str | None = None
    sent: Sent = field(default_factory=Sent)
    used: Used = field(default_factory=Used)
    question: str | None = None
    answer: tuple[str, ...] = ()
    tags: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    is_ours: bool = False
    lower: frozenset[str] = frozenset()
    fault: str | None = None


def digest(*parts: object) -> str:
    """Return what identifies a prompt without telling its text.

    >>> digest("What is 2 + 2?") == digest("What is 2 + 2?") != digest("What is 2 + 3?")
    True
    """
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def number(value: object) -> float | None:
    """Return a finite number of 0 or more as told, None for anything else.

    >>> number("12"), number(-1), number(True), number(3)
    (None, None, None, 3.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) and known >= 0 else None


def whole(value: object) -> int | None:
    """Return a whole number of 1 or more as told, None for anything else."""
    known = number(value)
    return int(known) if known is not None and known >= 1 and known.is_integer() else None


def part(value: object, *names: str) -> Any:  # noqa: ANN401 - what a log holds
    """Return what stands under these names one inside the other, None where one is missing.

    >>> part({"a": {"b": 3}}, "a", "b"), part({"a": 1}, "a", "b")
    (3, None)
    """
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def mapping(value: object) -> dict[str, Any]:
    """Return an object's fields, none for anything else."""
    return value if isinstance(value, dict) else {}


def whole_usage(
    told: tuple[object, object, object],
    *,
    cached: float = 0.0,
    reasoning: float | None = None,
    cached_outside: bool = False,
) -> Used:
    """Return token counts in our convention: cached input inside input, reasoning inside output.

    Tools and providers differ in what they count inside; the total says it, where there is one. A
    part that is larger than its whole stood outside whatever the total says.

    Args:
        told: input, output and total tokens as told.
        cached: input tokens read from or written to a provider's cache.
        reasoning: hidden tokens.
        cached_outside: whether the tool counts cached input beside the input, if no total tells.

    >>> whole_usage((10, 20, 130), cached=100.0).input_tokens
    110.0
    >>> whole_usage((110, 20, 130), cached=100.0).input_tokens
    110.0
    >>> whole_usage((10, 20, 80), reasoning=50.0).output_tokens
    70.0
    """
    given, made, total = map(number, told)
    hidden = reasoning or 0.0
    beside = cached_outside
    apart = False
    if given is not None and made is not None and total is not None:
        extra = total - given - made
        ways = [(False, False), (True, False), (False, True), (True, True)]
        fits = [way for way in ways if way[0] * cached + way[1] * hidden == extra]
        beside, apart = fits[0] if fits else (beside, apart)
    if given is not None and (beside or cached > given):
        given += cached
    if made is not None and (apart or hidden > made):
        made += hidden
    return Used(given, made, reasoning)


def reward_of(value: object, scale: tuple[float, float] | None) -> float | None:
    """Return a grade as a reward, None for a call that was not graded.

    Args:
        value: what a scorer said.
        scale: the grades that are worth 0 and 1; None = grades are rewards already.

    Raises:
        ValueError: it is no grade; the text says what is allowed.

    >>> reward_of("C", None), reward_of(True, None), reward_of(4, (1, 10)), reward_of(None, None)
    (1.0, 1.0, 0.3333333333333333, None)
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in LETTERS:
            return LETTERS[value]
        value = _told(value)
    if not isinstance(value, int | float):
        raise ValueError("allowed is a number, true or false, or C, P, I or N")  # noqa: TRY004 - as for all values
    low, high = scale or (0.0, 1.0)
    known = number(abs(value))
    reward = -1.0 if known is None else (value - low) / (high - low)
    if not 0 <= reward <= 1:
        raise ValueError(
            f"allowed is {low:g} to {high:g}; --scale LOW,HIGH says which grades are worth 0 and 1"
        )
    return float(reward)


def _told(text: str) -> object:
    words = {"true": True, "yes": True, "false": False, "no": False}
    try:
        return float(words.get(text.strip().lower(), text))
    except ValueError:
        return text


def refuse(path: object, said: str) -> ProfileError:
    """Return the error of a log that cannot be used."""
    return ProfileError(f"log {path}: {said}")
