"""What differs between two profiles, and where it changes what is chosen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from budgetroute.curves import hull

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.profiles import CostOf
    from budgetroute.records import Action, Cell, Profile

PRICES = tuple(10 ** (step / 4) for step in range(-4, 25))
"""λ from 0.1 to 1,000,000 in reward per dollar: from money no object to the cheapest."""
SIGNIFICANT = 2.0


class Change(NamedTuple):
    """One cell that differs; None = that profile lacks it.

    Attributes:
        type: the prompt type.
        action: the action.
        before: its cell in the first profile.
        after: its cell in the second.
    """

    type: str
    action: Action
    before: Cell | None
    after: Cell | None

    @property
    def errors(self) -> float | None:
        """Return the change of reward in standard errors of both; None where one is missing."""
        if self.before is None or self.after is None:
            return None
        noise = math.hypot(self.before.reward_se, self.after.reward_se)
        return (self.after.reward - self.before.reward) / noise if noise > 0 else None

    @property
    def is_significant(self) -> bool:
        """Say whether the reward changed by more than two standard errors."""
        return self.errors is not None and abs(self.errors) > SIGNIFICANT


class Switch(NamedTuple):
    """At these shadow prices a type is answered by another action.

    Attributes:
        type: the prompt type.
        before: what the first profile takes.
        after: what the second takes.
        low: least λ of the switch, in reward per dollar.
        high: greatest λ of it.
    """

    type: str
    before: Action
    after: Action
    low: float
    high: float


def changes(one: Profile, other: Profile) -> Iterator[Change]:
    """Yield every cell that is not the same in both, types sorted."""
    for kind in sorted({*one.types, *other.types}):
        first, second = _cells(one, kind), _cells(other, kind)
        for action in dict.fromkeys((*first, *second)):
            before, after = first.get(action), second.get(action)
            if before != after:
                yield Change(kind, action, before, after)


def switches(one: Profile, other: Profile, cost_of: CostOf) -> Iterator[Switch]:
    """Yield where argmax R − λ·C differs, over a grid of λ, neighbouring λ joined.

    Costs are those of each profile's mean prompt.
    """
    for kind in sorted(one.types.keys() & other.types.keys()):
        before, after = _choices(one, kind, cost_of), _choices(other, kind, cost_of)
        open_: Switch | None = None
        for price in PRICES:
            pair = _chosen(before, price), _chosen(after, price)
            if open_ and pair == (open_.before, open_.after):
                open_ = open_._replace(high=price)
                continue
            if open_:
                yield open_
            first, second = pair
            is_switch = first is not None and second is not None and first != second
            open_ = Switch(kind, first, second, price, price) if is_switch else None  # type: ignore[arg-type]
        if open_:
            yield open_


def _cells(profile: Profile, kind: str) -> dict[Action, Cell]:
    row = profile.cells.get(kind, ())
    pairs = zip(profile.actions, row, strict=False)
    return {action: cell for action, cell in pairs if cell is not None}


def _choices(profile: Profile, kind: str, cost_of: CostOf) -> Mapping[Action, tuple[float, float]]:
    """Return hull vertices as action → (cost, reward)."""
    found = [
        (action, cost, cell.reward)
        for action, cell in _cells(profile, kind).items()
        if (cost := cost_of(action, cell, profile.types[kind])) is not None
    ]
    return {found[i][0]: found[i][1:] for i in hull([point[1:] for point in found])}


def _chosen(choices: Mapping[Action, tuple[float, float]], price: float) -> Action | None:
    return max(choices, key=lambda a: choices[a][1] - price * choices[a][0], default=None)
