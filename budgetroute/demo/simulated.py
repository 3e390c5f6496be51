"""Simulated models: their answers, token counts and quality follow a profile.

Nothing here thinks. A model's answer to a task is right with the probability that the profile's cell
gives as reward, as long as the cell's lengths say, and cut at the cap that was sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from budgetroute.curves import interpolate_cap
from budgetroute.demo.filler import filler
from budgetroute.demo.lengths import NORMAL, fit_length
from budgetroute.demo.luck import uniforms
from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.demo.lengths import Length
    from budgetroute.demo.prompts import Task
    from budgetroute.demo.questions import Question
    from budgetroute.records import Action, Cell, Profile

Variant: TypeAlias = "tuple[bool, str | None]"
Caps: TypeAlias = "Mapping[int, Cell]"

GENERAL = "general"
_SHARED = 0.5
"""Share of the luck that a prompt brings to all models: what is hard for one is hard for others.
Assumed; it moves no mean."""
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a simulated model.

    Attributes:
        text: the content.
        output_tokens: what is billed.
        reasoning_tokens: the hidden part of it; None for a model that does not reason in hiding.
        cut: whether the cap ended it.
    """

    text: str
    output_tokens: int
    reasoning_tokens: int | None
    cut: bool


@dataclass(frozen=True, slots=True)
class _Draw:
    """What luck makes of one answer, before it is written.

    Attributes:
        met: parts of the grade that it meets.
        tokens: its output tokens.
        cut: whether the cap ended it.
        offset: where in the padding it begins, in (0, 1).
    """

    met: int
    tokens: int
    cut: bool
    offset: float


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a model answers one type of prompt with one action.

    Attributes:
        length: the lengths of its answers.
        whole: reward of an answer that is not cut.
        cut: reward of one that is; above 0 only where the profile leaves no other way.
    """

    length: Length
    whole: float
    cut: float


def conduct_of(cell: Cell, cap: int) -> Conduct:
    """Split a cell's reward over whole and cut answers so that the mean stays the cell's."""
    length = fit_length(cell, cap)
    cut = length.exceeds(cap)
    if cell.reward < 1.0 - cut:
        return Conduct(length, cell.reward / (1.0 - cut), 0.0)
    return Conduct(length, 1.0, (cell.reward - (1.0 - cut)) / cut if cut else 0.0)


class SimulatedModels:
    """The models of a profile; the same seed, task and action always give the same answer.

    Args:
        profile: what they follow.
        seed: of their luck.

    Attributes:
        names: the models, sorted.
    """

    def __init__(self, profile: Profile, *, seed: int = 0) -> None:
        self._variants = _variants(profile)
        self._conducts: dict[tuple[str, Action], Conduct] = {}
        self._own_luck = lru_cache(maxsize=256)(partial(uniforms, seed))
        self._shared_luck = lru_cache(maxsize=256)(
            lambda kind, number: NORMAL.inv_cdf(uniforms(seed, kind, number)[0])
        )
        self.names = sorted(self._variants)
        if not self._variants:
            raise ProfileError(f"profile {profile.name!r} has no cell that a model could follow")

    def largest_cap(self, model: str) -> int:
        """Return the largest profiled cap of a model: what counts when a request has none."""
        kinds = self._variants[model].values()
        return max(cap for caps_of in kinds for caps in caps_of.values() for cap in caps)

    def answer(self, task: Task, action: Action, *, choice: int = 0) -> Answer:
        """Draw the answer to a task; raises KeyError for a model that is not in the profile.

        Args:
            task: what is asked.
            action: what was sent with it.
            choice: which of n choices; each has luck of its own.
        """
        hidden = action.reasoning_effort not in {None, "none"}
        return _written(task.question, self._draw(task, action, choice), hidden=hidden)

    def outcome(self, task: Task, action: Action) -> tuple[float, int]:
        """Return the grade and the output tokens that `answer` would have, without writing it."""
        drawn = self._draw(task, action, 0)
        return drawn.met / task.question.parts, drawn.tokens

    def _draw(self, task: Task, action: Action, choice: int) -> _Draw:
        conduct = self.conduct(task.kind, action)
        length, rounding, success, offset = self._own_luck(
            task.kind, task.number, action.model, action.cot, action.reasoning_effort, choice
        )
        wanted = conduct.length.at(length)
        cut = wanted > action.max_tokens
        tokens = math.floor(min(wanted, action.max_tokens) + rounding)  # keeps the mean
        reward = conduct.cut if cut else conduct.whole
        met = _met(task.question.parts, reward, self._luck(task.kind, task.number, success))
        return _Draw(met, tokens, cut, offset)

    def conduct(self, kind: str, action: Action) -> Conduct:
        """Return how the action's model answers this type of prompt."""
        key = (kind, action)
        if key not in self._conducts:
            self._conducts[key] = self._find_conduct(kind, action)
        return self._conducts[key]

    def _find_conduct(self, kind: str, action: Action) -> Conduct:
        caps = self._nearest(kind, action)
        cap = max(action.max_tokens, min(caps))
        cell = interpolate_cap(caps, cap) or caps[min(caps)]
        return conduct_of(cell, min(cap, max(caps)))

    def _nearest(self, kind: str, action: Action) -> Caps:
        """Return the cells by cap: of this type if it has any, of this variant if it has any."""
        variants = self._variants[action.model]
        asked = (action.cot, action.reasoning_effort)
        others = sorted(variants, key=lambda found: (found[1] != asked[1], found[0] != asked[0]))
        for name in (kind, GENERAL):
            for variant in others:
                if name in variants[variant]:
                    return variants[variant][name]
        return next(iter(variants[others[0]].values()))

    def _luck(self, kind: str, number: int, own: float) -> float:
        """Mix a prompt's luck with the action's own; uniform again (a Gaussian copula)."""
        shared = self._shared_luck(kind, number)
        mixed = math.sqrt(_SHARED) * shared + math.sqrt(1 - _SHARED) * NORMAL.inv_cdf(own)
        return NORMAL.cdf(mixed)


def _variants(profile: Profile) -> dict[str, dict[Variant, dict[str, dict[int, Cell]]]]:
    """Return model → (cot, effort) → type → cap → cell, for actions of one choice."""
    found: dict[str, dict[Variant, dict[str, dict[int, Cell]]]] = {}
    for kind, action, cell in _cells(profile):
        variant = (action.cot, action.reasoning_effort)
        kinds = found.setdefault(action.model, {}).setdefault(variant, {})
        kinds.setdefault(kind, {})[action.max_tokens] = cell
    return found


def _cells(profile: Profile) -> Iterator[tuple[str, Action, Cell]]:
    for kind, row in profile.cells.items():
        for action, cell in zip(profile.actions, row, strict=True):
            if cell is not None:
                yield kind, action, cell


def _met(parts: int, reward: float, luck: float) -> int:
    """Return how many of the parts are met: binomial with mean parts · reward, more for less luck.

    >>> [_met(1, 0.3, luck) for luck in (0.2, 0.4)], _met(4, 1.0, 0.9), _met(4, 0.0, 0.1)
    ([1, 0], 4, 0)
    """
    above = 0.0
    for met in range(parts, 0, -1):
        above += math.comb(parts, met) * reward**met * (1.0 - reward) ** (parts - met)
        if luck < above:
            return met
    return 0


def _written(question: Question, drawn: _Draw, *, hidden: bool) -> Answer:
    """Write an answer of about that many tokens; a right one that is cut says it first."""
    met, tokens, cut = drawn.met, drawn.tokens, drawn.cut
    conclusion = "" if cut and not met else question.reply(met)
    said = min(tokens, len(conclusion) // _CHARACTERS_PER_TOKEN + 1) if conclusion else 0
    if hidden:
        return Answer(conclusion, tokens, tokens - said, cut)
    padding = filler(tokens - said, drawn.offset)
    both = (conclusion, padding) if cut else (padding, conclusion)
    return Answer("\n\n".join(part for part in both if part), tokens, None, cut)
