"""Lines of the ledger as people ask for them: which attempts, of which period, route and model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from budgetroute.audit import is_late
from budgetroute.budget import ONE_OF_MANY, Window, period_id
from budgetroute.cli.entries import decided, outcome
from budgetroute.errors import ConfigError
from budgetroute.records import Slot
from budgetroute.units import exact_usd, is_time, micros_from_time, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.audit import Row
    from budgetroute.cli.entries import Decided, Outcome
    from budgetroute.config import BudgetConfig
    from budgetroute.stores.books import Ledger

STATES = ("hold", "settled", "estimated", "late", "released")
_STATE = {"held": "hold"}
_OPEN = frozenset({"held", "estimated"})
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTH = re.compile(r"\d{4}-\d{2}")
_WEEK = re.compile(r"\d{4}-W\d{2}")
_ENDLESS = frozenset({"once", "total"})
_LABEL = re.compile(r"(.+?)/\d+(?:/.*)?")
_SLACK = timedelta(days=2)  # a zone lies up to a day from UTC, a reset hour another
_HASH_SHOWN = 8
_LENGTH = {"day": 1, "week": 7, "month": 31}


@dataclass(frozen=True, slots=True)
class Line:
    """One attempt with its records read.

    Attributes:
        row: as it lies in the ledger.
        slots: where it counts; none where that cannot be read.
        decided: what was seen when choosing.
        outcome: how its bill came about; None before.
    """

    row: Row
    slots: tuple[Slot, ...]
    decided: Decided
    outcome: Outcome | None

    @property
    def state(self) -> str:
        """Return `hold`, `settled`, `estimated`, `released`, or `late`: billed after its lease."""
        return "late" if is_late(self.row) else _STATE.get(self.row.state, str(self.row.state))

    @property
    def route(self) -> str:
        """Return the route; nothing for a retry, which keeps no record of its own."""
        return self.decided.route

    @property
    def action(self) -> str:
        """Return the label of the action; nothing where no record has it."""
        planned = self.outcome.planned if self.outcome is not None else ""
        chosen = self.row.chosen if isinstance(self.row.chosen, int) else -1
        return planned or self.decided.label(chosen) or ""

    @property
    def model(self) -> str:
        """Return the model that was chosen."""
        found = _LABEL.fullmatch(self.action)
        return found[1] if found else self.action

    @property
    def held(self) -> int:
        """Return what it holds: its worst case in flight, what an estimate may cost beyond."""
        worst, amount = self.row.worst, self.row.amount
        if self.row.state not in _OPEN or type(worst) is not int or type(amount) is not int:
            return 0
        return max(0, worst - amount)

    @property
    def source(self) -> str:
        """Return where its cost comes from; for one without a bill, why it has none."""
        if self.row.state in {"held", "released"}:
            return self.state
        return (self.outcome.source if self.outcome is not None else "") or "unknown"

    def to_json(self) -> dict[str, Any]:
        """Return plain values for one line of an export: no prompt, no tag's value."""
        row, seen = self.row, self.outcome
        return {
            "attempt": row.attempt,
            "decision": row.decision,
            "state": self.state,
            "reserved_at": when(row.at),
            "closed_at": when(row.closed_at),
            "route": self.route,
            "action": self.action,
            "model": self.model,
            "source": self.source,
            "billed_as": "" if seen is None else seen.billed_as,
            "input_tokens": None if seen is None else seen.input,
            "cached_tokens": None if seen is None else seen.cached,
            "output_tokens": None if seen is None else seen.output,
            "reasoning_tokens": None if seen is None else seen.reasoning,
            "lambda": self.decided.price,
            "spent_pico": row.amount,
            "expected_pico": row.expected,
            "held_pico": row.worst,
            "spent_usd": exact_usd(row.amount)[1:] if type(row.amount) is int else None,
            "sums": " ".join(f"{slot.scope}@{slot.period}" for slot in self.slots),
        }


COLUMNS = (
    "attempt", "decision", "state", "reserved_at", "closed_at", "route", "action", "model",
    "source", "billed_as", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens",
    "lambda", "spent_pico", "expected_pico", "held_pico", "spent_usd", "sums",
)  # fmt: skip
"""The keys of `Line.to_json`, in order."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which attempts were asked for; None = all.

    Attributes:
        app: those of this app.
        period: those that count in this period, by its id.
        scope: those that count in this scope: `all`, `run:ID`, or a limit's name.
        route: those of this route.
        model: those for which this model was chosen.
        state: those in this state, one of `STATES`.
        names: key of a limit → its name in the configuration.
    """

    app: str | None = None
    period: str | None = None
    scope: str | None = None
    route: str | None = None
    model: str | None = None
    state: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_narrow(self) -> bool:
        """Say whether it asks for less than everything of an app."""
        return any((self.period, self.scope, self.route, self.model, self.state))

    def takes(self, line: Line) -> bool:
        """Say whether a line was asked for."""
        asked = (
            (self.route, line.route),
            (self.model, line.model),
            (self.state, "settled" if self.state == "settled" == line.row.state else line.state),
        )
        if any(wish is not None and wish != found for wish, found in asked):
            return False
        return any(map(self._counts_in, line.slots)) or not (self.app or self.period or self.scope)

    def _counts_in(self, slot: Slot) -> bool:
        named = self.name_of(slot.scope)
        return (
            self.app in {None, slot.scope.partition("|")[0]}
            and self.period in {None, slot.period}
            and self.scope in {None, named, named.partition(ONE_OF_MANY)[0], slot.scope}
        )

    def name_of(self, scope: str) -> str:
        """Return a scope as users know it; of one of many, the beginning of its value's hash."""
        key, many, value = scope.partition(ONE_OF_MANY)
        app, _, rest = key.partition("|")
        name = self.names.get(key, rest if self.app == app else key)
        return f"{name}{many}{value[:_HASH_SHOWN]}"


def lines(ledger: Ledger, wanted: Wanted) -> Iterator[Line]:
    """Yield what was asked for, newest first."""
    for row in ledger.rows(*_around(wanted.period)):
        line = Line(row, _slots(row.slots), decided(row), outcome(row))
        if wanted.takes(line):
            yield line


def period_from(said: str, budget: BudgetConfig, now: datetime) -> str:
    """Return a period's id from what was typed: an id, a date, a month, a week or `today`.

    Raises:
        ConfigError: it is none of them.
    """
    if said == "today":
        return period_id(Window("day", budget.zone, budget.reset_hour), now)
    kind, _, rest = said.rpartition(":")
    for name, shape in (("day", _DAY), ("week", _WEEK), ("month", _MONTH)):
        if kind in {"", name} and shape.fullmatch(rest) and _is_calendar(rest):
            return f"{name}:{rest}"
    if said in _ENDLESS or (kind == "week" and _DAY.fullmatch(rest) and _is_calendar(rest)):
        return said
    raise ConfigError(
        f"{said!r} is no period: write today, 2026-11-29, 2026-11, 2026-W48, or an id as "
        f"`ledger list` shows it."
    )


def _is_calendar(said: str) -> bool:
    try:
        _first_day(said)
    except ValueError:
        return False
    return True


def _first_day(said: str) -> date:
    if "W" in said:
        return date.fromisoformat(f"{said}-1")
    return date.fromisoformat(said if _DAY.fullmatch(said) else f"{said}-01")


def _around(period: str | None) -> tuple[int | None, int | None]:
    """Return a span of time that holds all of a period in every zone; open where it is endless."""
    if period is None or period in _ENDLESS:
        return None, None
    kind, _, said = period.partition(":")
    start = datetime.combine(_first_day(said), time(), tzinfo=UTC)
    end = start + timedelta(days=_LENGTH[kind])
    return micros_from_time(start - _SLACK), micros_from_time(end + _SLACK)


@lru_cache(maxsize=4096)
def _slots(text: object) -> tuple[Slot, ...]:
    try:
        return tuple([Slot(scope, period) for scope, period in json.loads(str(text))])
    except (TypeError, ValueError, RecursionError):
        return ()


def when(micros: object) -> str | None:
    """Return a time of the ledger as ISO text; None where there is none, or none that can be."""
    if isinstance(micros, int) and is_time(micros):
        return time_from_micros(micros).isoformat()
    return None
