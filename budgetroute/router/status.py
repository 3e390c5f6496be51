"""Where the budget stands, for `router.status()` and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Status:
    """Where the paced budget stands; reads as attributes, as `status["spent_usd"]` and as `dict`.

    Attributes:
        name: the app.
        spent_usd: settled in the window, estimates included.
        held_usd: worst cases of calls in flight and what estimated calls may still cost.
        limit_usd: the budget.
        remaining_usd: limit − spent − held, never below 0.
        shadow_price: λ, reward per dollar; None before the first call.
        window: id of the budget window.
        resets_at: when the next window begins, in the budget's time zone.
        calls: attempts sent or in flight in the window.
        estimated: how many of them were settled without a reported usage.
        planned_usd: what an even spend would have reached by now.
        uncounted: calls let through without a ledger since this process began.
    """

    name: str
    spent_usd: float
    held_usd: float
    limit_usd: float
    remaining_usd: float
    shadow_price: float | None
    window: str
    resets_at: datetime
    calls: int
    estimated: int
    planned_usd: float
    uncounted: int = 0

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> Iterator[str]:
        """Return the names of the fields, so that `dict(status)` works."""
        return iter(self.__slots__)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, times as ISO strings."""
        return asdict(self) | {"resets_at": self.resets_at.isoformat()}
