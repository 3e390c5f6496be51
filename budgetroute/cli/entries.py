"""The ledger's attempts as `status` and `explain` read them: their JSON records decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from budgetroute.oneline import one_line

if TYPE_CHECKING:
    from budgetroute.audit import Row
    from budgetroute.records import Entry


class Ranked(Struct, frozen=True):
    """One candidate of a decision, as it was ranked.

    Attributes:
        action: its label.
        reward: R; None without a curve.
        cost: C, expected dollars.
        surplus: value·R − λ·C.
        source: where its curve comes from.
    """

    action: str
    reward: float | None = field(name="R", default=None)
    cost: float = field(name="C", default=0.0)
    surplus: float = 0.0
    source: str = ""


class Other(Struct, frozen=True):
    """What `on` would have taken of a call in shadow mode, or the baseline of one that was routed.

    Attributes:
        action: its label; empty where `on` would have raised.
        reward: R; None without a curve.
        cost: C, expected dollars.
        decision: id of the virtual decision.
        refused: why `on` would have raised.
    """

    action: str = ""
    reward: float | None = field(name="R", default=None)
    cost: float | None = field(name="C", default=None)
    decision: str = ""
    refused: str = ""


class Bound(Struct, frozen=True):
    """Which limit the best candidate did not fit, in dollars as it stood.

    Attributes:
        limit: its name.
        window: its window.
        left: what it had left.
        needed: what the candidate could cost at most.
        guard: the money was there, kept free for the cheapest action of calls still to come.
    """

    limit: str
    window: str = "day"
    left: float = 0.0
    needed: float = 0.0
    guard: bool = False


class Decided(Struct, frozen=True):
    """What was seen when choosing; empty for a retry, or where the ledger was lost."""

    retry: bool = False
    route: str = ""
    types: tuple[tuple[str, float], ...] = ()
    by: str = ""
    input_tokens: float | None = None
    price: float | None = field(name="lambda", default=None)
    propensity: float = 1.0
    plan: tuple[float, float, float] | None = None
    guess: tuple[float, float, float] | None = None
    floor: float | None = None
    fallback: str = ""
    after: str = ""
    best: tuple[Ranked, ...] = ()
    steps: tuple[str, ...] = ()
    worst: tuple[float, ...] = ()
    raised: dict[str, tuple[float, str]] = {}
    gamma: dict[str, float] = {}
    gated: dict[str, tuple[str, ...]] = {}
    bound: Bound | None = None
    priced_by: str = "day"
    degraded: bool = False
    why: str = ""
    baseline: Other | None = None
    shadow: Other | None = None

    def gain(self, row: Ranked) -> float:
        """Return value·R of a candidate."""
        return row.surplus + (self.price or 0.0) * row.cost

    def held(self, label: str) -> float | None:
        """Return the dollars that an action would hold; None where that was not asked."""
        return next(
            (usd for step, usd in zip(self.steps, self.worst, strict=False) if step == label), None
        )

    def label(self, chosen: int) -> str | None:
        """Return the label of the option that was granted; None where the record lacks it."""
        return self.steps[chosen] if 0 <= chosen < len(self.steps) else None

    def row(self, label: str | None) -> Ranked | None:
        """Return the ranked candidate of a label; None if it was not among those kept."""
        return next((row for row in self.best if row.action == label), None)


class Outcome(Struct, frozen=True):
    """How a bill came about; token counts are None where no usage was reported."""

    source: str = ""
    billed_as: str = ""
    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    model: str | None = None
    service_tier: str | None = None
    finish: str | None = None
    overshoot_usd: float = 0.0
    planned: str = ""
    why: str = ""


_DECIDED = msgspec.json.Decoder(Decided)
_OUTCOME = msgspec.json.Decoder(Outcome)


def _on_one_line(record: str) -> bytes | str:
    """Return a record whose names have no line breaks, with which they could forge lines of a table."""
    if "\\" not in record:
        return record
    return msgspec.json.encode(_escaped(msgspec.json.decode(record)))


def _escaped(value: object) -> object:
    if isinstance(value, dict):
        return {one_line(name): _escaped(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    return one_line(value) if isinstance(value, str) else value


def decided(entry: Entry | Row) -> Decided:
    """Return an attempt's decision record; an empty one where it cannot be read."""
    try:
        return _DECIDED.decode(_on_one_line(entry.decided))
    except (msgspec.DecodeError, TypeError, RecursionError):
        return Decided()


def outcome(entry: Entry | Row) -> Outcome | None:
    """Return an attempt's settlement record; None before there is one or where it is unreadable."""
    if entry.outcome is None:
        return None
    try:
        return _OUTCOME.decode(_on_one_line(entry.outcome))
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None
