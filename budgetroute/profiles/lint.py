"""What is weak in a profile, in words a user can act on."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from budgetroute.curves import hull
from budgetroute.profiles.sending import refusals, same_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from budgetroute.records import Action, Cell, ModelCard, Profile, PromptType

CostOf: TypeAlias = "Callable[[Action, Cell, PromptType], float | None]"
"""Expected dollars of one call of an action on a type; None when its price is not known."""

FEW_SAMPLES = 50
"""Below this raw means lose over 2 % of reward (pacing study §6)."""
NARROW_SPAN = 10.0
FEW_VERTICES = 3

_Priced: TypeAlias = "Mapping[str, list[tuple[int, float, Cell]]]"


class Flaw(NamedTuple):
    """What is weak in a profile.

    Attributes:
        level: `fail` if a part of it cannot work as it stands, else `warn`.
        subject: the type, model or action.
        text: what is wrong with it.
        check: which check found it.
    """

    level: Literal["warn", "fail"]
    subject: str
    text: str
    check: str

    @property
    def line(self) -> str:
        """Return it as one line."""
        return f"{self.subject}: {self.text}"


def lint_profile(profile: Profile, cost_of: CostOf) -> list[str]:
    """Return what is weak in a profile by its numbers, one line each; empty = nothing found.

    Args:
        profile: what is judged.
        cost_of: expected dollars of (action, cell, type); None where no price is known.
    """
    return [flaw.line for flaw in judge_profile(profile, cost_of)]


def judge_profile(
    profile: Profile,
    cost_of: CostOf,
    *,
    card_of: Callable[[str], ModelCard] | None = None,
    today: str | None = None,
) -> list[Flaw]:
    """Return what is weak in a profile: by its numbers, and by what providers take.

    Args:
        profile: what is judged.
        cost_of: expected dollars of (action, cell, type); None where no price is known.
        card_of: what is known of a model; None = what can be sent is not checked.
        today: ISO date; None = retired models are not looked for.
    """
    priced = _priced(profile, cost_of)
    found = [
        *_coverage(profile),
        *_unpriced(profile, priced),
        *_samples(profile),
        *_shape(priced),
        *_dead(profile, priced),
        *_collapsed(profile),
    ]
    if card_of is not None:
        found += [*_unsendable(profile, card_of), *_same_calls(profile, card_of)]
        found += _retired(profile, card_of, today or "")
    return found


def _priced(profile: Profile, cost_of: CostOf) -> _Priced:
    return {
        name: [
            (index, cost, cell)
            for index, (action, cell) in enumerate(zip(profile.actions, row, strict=True))
            if cell is not None and (cost := cost_of(action, cell, profile.types[name])) is not None
        ]
        for name, row in profile.cells.items()
    }


def _coverage(profile: Profile) -> Iterator[Flaw]:
    for name, row in profile.cells.items():
        known = sum(cell is not None for cell in row)
        if known < len(row):
            text = f"{len(row) - known} of {len(row)} actions have no cell"
            yield Flaw("warn", name, text, "coverage")


def _unpriced(profile: Profile, priced: _Priced) -> Iterator[Flaw]:
    seen = {index for row in priced.values() for index, _, _ in row}
    models = {a.model for i, a in enumerate(profile.actions) if i not in seen}
    for model in sorted(models):
        text = "some of its actions have no cost in any type; give the model a price"
        yield Flaw("fail", model, text, "price")


def _samples(profile: Profile) -> Iterator[Flaw]:
    for name, row in profile.cells.items():
        cells = [cell for cell in row if cell is not None]
        few = sum(cell.source == "measured" and cell.n < FEW_SAMPLES for cell in cells)
        if few:
            text = f"{few} measured cells have fewer than {FEW_SAMPLES} samples"
            yield Flaw("warn", name, text, "samples")
        if cells and all(cell.source != "measured" for cell in cells):
            text = "no cell is measured; its curve is an estimate throughout"
            yield Flaw("warn", name, text, "samples")


def _shape(priced: _Priced) -> Iterator[Flaw]:
    for name, row in priced.items():
        points = [(cost, cell.reward) for _, cost, cell in row]
        if not points:
            yield Flaw("fail", name, "no action has a cell and a price", "coverage")
            continue
        vertices = hull(points)
        cheap, dear = points[vertices[0]], points[vertices[-1]]
        if len(vertices) < FEW_VERTICES:
            text = f"only {len(vertices)} actions can ever win; there is little to choose"
            yield Flaw("warn", name, text, "choice")
        elif dear[0] < NARROW_SPAN * cheap[0]:
            text = f"its useful actions span only {dear[0] / cheap[0]:.1f}× in cost"
            yield Flaw("warn", name, text, "choice")
        noise = max(row[vertices[0]][2].reward_se, row[vertices[-1]][2].reward_se)
        if len(vertices) > 1 and dear[1] - cheap[1] < 2 * noise:
            text = f"best and cheapest differ by {dear[1] - cheap[1]:.3f}, within the noise"
            yield Flaw("warn", name, text, "noise")


def _dead(profile: Profile, priced: _Priced) -> Iterator[Flaw]:
    alive: set[int] = set()
    for row in priced.values():
        vertices = hull([(cost, cell.reward) for _, cost, cell in row])
        alive.update(row[vertex][0] for vertex in vertices)
    priced_somewhere = {index for row in priced.values() for index, _, _ in row}
    for index in sorted(priced_somewhere - alive):
        text = "dead, on no type's hull at these prices"
        yield Flaw("warn", profile.actions[index].label, text, "dead")


def _collapsed(profile: Profile) -> Iterator[Flaw]:
    """Tell of caps that change nothing: same cells as the next smaller cap in every type."""

    def family(index: int) -> tuple[str, ...]:
        action = profile.actions[index]
        return tuple(action.label.split("/" + str(action.max_tokens), 1))

    order = sorted(
        range(len(profile.actions)), key=lambda i: (family(i), profile.actions[i].max_tokens)
    )
    for _, members in groupby(order, key=family):
        group = list(members)
        for small, large in pairwise(group):
            if all(row[small] == row[large] for row in profile.cells.values()):
                labels = profile.actions[large].label, profile.actions[small].label
                yield Flaw("warn", labels[0], f"never differs from {labels[1]}", "same")


def _unsendable(profile: Profile, card_of: Callable[[str], ModelCard]) -> Iterator[Flaw]:
    for action in profile.actions:
        for refusal in refusals(action, card_of(action.model)):
            yield Flaw(
                "fail" if refusal.is_sure else "warn", action.label, refusal.reason, "sendable"
            )


def _same_calls(profile: Profile, card_of: Callable[[str], ModelCard]) -> Iterator[Flaw]:
    for first, *others in same_calls([(a, card_of(a.model)) for a in profile.actions]):
        for other in others:
            yield Flaw("fail", other.label, f"the same call as {first.label}", "same")


def _retired(profile: Profile, card_of: Callable[[str], ModelCard], today: str) -> Iterator[Flaw]:
    for model in dict.fromkeys(action.model for action in profile.actions):
        day = card_of(model).deprecated_on
        if day is not None and day <= today:
            text = f"was to be retired on {day}; its provider may refuse it"
            yield Flaw("warn", model, text, "retired")
