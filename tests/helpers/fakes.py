"""Stand-ins with behaviour: a store that can be down, an observer that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.protocols import Store
    from budgetroute.records import Decision, Settlement


class FlakyStore:
    """A store whose named operations fail while they are in `down`.

    Args:
        inner: the real one.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.down: frozenset[str] = frozenset()
        self.asked: list[str] = []

    EVERYTHING = frozenset({
        "reserve", "settle", "release", "sweep", "snapshot", "load_plan", "save_plan", "history",
        "arrivals",
    })  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.inner, name)

        def tried(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(name)
            if name in self.down:
                raise StoreError(f"{name}: the store is down", retryable=True)
            return operation(*args, **kwargs)

        return tried


@dataclass
class Witness:
    """An observer that remembers what it was told."""

    decisions: list[Decision] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    steps: list[Mapping[str, object]] = field(default_factory=list)

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def settled(self, decision: Decision, settlement: Settlement) -> None:
        self.settlements.append(settlement)

    def stepped(self, fields: Mapping[str, object]) -> None:
        self.steps.append(fields)
