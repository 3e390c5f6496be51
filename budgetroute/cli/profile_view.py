"""A profile as the command line looks at it: priced as calls are, type by type."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded, so that a table stays the same
from typing import TYPE_CHECKING, Any

from budgetroute.cli.quotes import config_for_prices
from budgetroute.cli.supply import expected_cost
from budgetroute.clock import WallClock
from budgetroute.curves import hull
from budgetroute.errors import BudgetRouteError, ProfileError
from budgetroute.profiles import judge_profile, load_profile
from budgetroute.profiling import hull_shares, interval, rates_of
from budgetroute.router.assembly import price_book
from budgetroute.router.equipment import Equipment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from budgetroute.profiles import Flaw
    from budgetroute.records import Action, Cell, ModelCard, Profile, PromptType


class View:
    """Reads profiles and prices their cells.

    Args:
        config: path of a configuration, or None for the one that is found, if any.
    """

    def __init__(self, config: Path | None) -> None:
        self.config = config_for_prices(config)
        self._equipment = Equipment(self.config, price_book(self.config))

    def profile(self, name: str | None) -> Profile:
        """Return a profile by name or path as seen from here; None = the configured one."""
        return self._equipment.profile() if name is None else load_profile(name)

    def cost(self, action: Action, cell: Cell, kind: PromptType) -> float | None:
        """Return the expected dollars of one call; None where no price is known."""
        return expected_cost(self._equipment, action, cell, kind)

    def card(self, model: str) -> ModelCard:
        """Return what the price map knows of a model."""
        said = self.config.models.get(model)
        return self._equipment.prices.card((said and said.price_as) or model)

    def judged(self, profile: Profile) -> list[Flaw]:
        """Return what is weak in a profile today, by its numbers and by what providers take."""
        today = WallClock().now().date().isoformat()
        return judge_profile(profile, self.cost, card_of=self.card, today=today)

    def rates(self, model: str) -> tuple[float, float] | None:
        """Return dollars per input and output token; None where they are not known."""
        try:
            return rates_of(self._equipment.facts(model).price)
        except BudgetRouteError:
            return None


@dataclass(frozen=True, slots=True)
class Line:
    """An action on a type.

    Attributes:
        action: the action.
        cell: what it does there.
        cost: dollars of a call; None = no price.
        on_hull: it can win at some shadow price.
        certainty: how often it is on the hull when rewards vary within their errors.
    """

    action: Action
    cell: Cell
    cost: float | None
    on_hull: bool
    certainty: float | None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        low, high = interval(self.cell)
        cell = self.cell
        return {
            "action": self.action.label,
            "model": self.action.model,
            "max_tokens": self.action.max_tokens,
            "cot": self.action.cot,
            "reasoning_effort": self.action.reasoning_effort,
            "cost_usd": self.cost,
            "reward": cell.reward,
            "interval": [low, high],
            "n": cell.n,
            "source": cell.source,
            "output_mean": cell.output_mean,
            "output_p95": cell.output_p95,
            "output_p99": cell.output_p99,
            "cut": cell.cut,
            "latency_mean": cell.latency_mean,
            "latency_p95": cell.latency_p95,
            "on_hull": self.on_hull,
            "on_hull_share": self.certainty,
        }


def lines_of(view: View, profile: Profile, kind: str) -> list[Line]:
    """Return a type's actions, cheapest first, those without a price last."""
    pairs = [
        (action, cell, view.cost(action, cell, profile.types[kind]))
        for action, cell in zip(profile.actions, profile.cells[kind], strict=True)
        if cell is not None
    ]
    pairs.sort(key=lambda pair: (pair[2] is None, pair[2] or 0.0, -pair[1].reward))
    priced = [(a, c, cost) for a, c, cost in pairs if cost is not None]
    vertices = set(hull([(cost, cell.reward) for _, cell, cost in priced]))
    shares = hull_shares(
        [action for action, _, _ in priced],
        [cell for _, cell, _ in priced],
        [cost for _, _, cost in priced],
        luck=Random(0),  # noqa: S311 - a picture that stays the same, nothing secret
    )
    lines = [
        Line(*row, on_hull=i in vertices, certainty=share)
        for i, (row, share) in enumerate(zip(priced, shares, strict=True))
    ]
    unpriced = (
        Line(a, c, None, on_hull=False, certainty=None) for a, c, cost in pairs if cost is None
    )
    return [*lines, *unpriced]


def types_of(profile: Profile, asked: Sequence[str]) -> Iterator[str]:
    """Yield the types to show: those asked for, else all, `general` last.

    Raises:
        ProfileError: the profile lacks one.
    """
    for kind in asked:
        if kind not in profile.types:
            raise ProfileError(
                f"profile {profile.name!r} has no type {kind!r}; it has "
                f"{', '.join(sorted(profile.types))}"
            )
    yield from asked or sorted(profile.types, key=lambda kind: (kind == "general", kind))
