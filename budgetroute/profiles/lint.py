"""What is weak in a profile, in words a user can act on."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeAlias

from budgetroute.curves import hull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from budgetroute.records import Action, Cell, Profile, PromptType

CostOf: TypeAlias = "Callable[[Action, Cell, PromptType], float | None]"
"""Expected dollars of one call of an action on a type; None when its price is not known."""

FEW_SAMPLES = 50
"""Below this raw means lose over 2 % of reward (pacing study §6)."""
NARROW_SPAN = 10.0
FEW_VERTICES = 3

_Priced: TypeAlias = "Mapping[str, list[tuple[int, float, Cell]]]"


def lint_profile(profile: Profile, cost_of: CostOf) -> list[str]:
    """Return what is weak in a profile, one line each; empty = nothing found.

    Args:
        profile: what is judged.
        cost_of: expected dollars of (action, cell, type); None where no price is known.
    """
    priced = _priced(profile, cost_of)
    return [
        *_coverage(profile),
        *_unpriced(profile, priced),
        *_samples(profile),
        *_shape(priced),
        *_dead(profile, priced),
        *_collapsed(profile),
    ]


def _priced(profile: Profile, cost_of: CostOf) -> _Priced:
    return {
        name: [
            (index, cost, cell)
            for index, (action, cell) in enumerate(zip(profile.actions, row, strict=True))
            if cell is not None and (cost := cost_of(action, cell, profile.types[name])) is not None
        ]
        for name, row in profile.cells.items()
    }


def _coverage(profile: Profile) -> Iterator[str]:
    for name, row in profile.cells.items():
        known = sum(cell is not None for cell in row)
        if known < len(row):
            yield f"{name}: {len(row) - known} of {len(row)} actions have no cell"


def _unpriced(profile: Profile, priced: _Priced) -> Iterator[str]:
    seen = {index for row in priced.values() for index, _, _ in row}
    models = {a.model for i, a in enumerate(profile.actions) if i not in seen}
    for model in sorted(models):
        yield f"{model}: some of its actions have no cost in any type; give the model a price"


def _samples(profile: Profile) -> Iterator[str]:
    for name, row in profile.cells.items():
        cells = [cell for cell in row if cell is not None]
        few = sum(cell.source == "measured" and cell.n < FEW_SAMPLES for cell in cells)
        if few:
            yield f"{name}: {few} measured cells have fewer than {FEW_SAMPLES} samples"
        if cells and all(cell.source != "measured" for cell in cells):
            yield f"{name}: no cell is measured; its curve is an estimate throughout"


def _shape(priced: _Priced) -> Iterator[str]:
    for name, row in priced.items():
        points = [(cost, cell.reward) for _, cost, cell in row]
        if not points:
            continue
        vertices = hull(points)
        cheap, dear = points[vertices[0]], points[vertices[-1]]
        if len(vertices) < FEW_VERTICES:
            yield f"{name}: only {len(vertices)} actions can ever win; there is little to choose"
        elif dear[0] < NARROW_SPAN * cheap[0]:
            yield f"{name}: its useful actions span only {dear[0] / cheap[0]:.1f}× in cost"
        noise = max(row[vertices[0]][2].reward_se, row[vertices[-1]][2].reward_se)
        if len(vertices) > 1 and dear[1] - cheap[1] < 2 * noise:
            yield f"{name}: best and cheapest differ by {dear[1] - cheap[1]:.3f}, within the noise"


def _dead(profile: Profile, priced: _Priced) -> Iterator[str]:
    alive: set[int] = set()
    for row in priced.values():
        vertices = hull([(cost, cell.reward) for _, cost, cell in row])
        alive.update(row[vertex][0] for vertex in vertices)
    priced_somewhere = {index for row in priced.values() for index, _, _ in row}
    for index in sorted(priced_somewhere - alive):
        yield f"{profile.actions[index].label}: dead, on no type's hull at these prices"


def _collapsed(profile: Profile) -> Iterator[str]:
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
                yield f"{labels[0]}: never differs from {labels[1]}"
