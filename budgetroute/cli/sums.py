"""`budgetroute ledger sum`: what was spent, by day, model, route, scope or source."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from budgetroute.cli.lines import lines
from budgetroute.router.shadow import KEY_PREFIX
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterable

    from budgetroute.cli.lines import Line, Wanted
    from budgetroute.records import Balance, Slot
    from budgetroute.stores.books import Ledger

By: TypeAlias = Literal["day", "week", "month", "model", "route", "scope", "source"]
GROUPINGS: tuple[str, ...] = get_args(By)
_CALENDAR = frozenset({"day", "week", "month"})
_NOWHERE = "–"


@dataclass(slots=True)
class Group:
    """What attempts come to together; amounts in pico-dollars.

    Attributes:
        calls: attempts that were sent or are in flight.
        spent: what counts as spent.
        held: what is held for those in flight, and what estimated ones may cost beyond.
        estimated: how many were booked without a reported usage.
    """

    calls: int = 0
    spent: int = 0
    held: int = 0
    estimated: int = 0

    def add(self, *, calls: int, spent: int, held: int, estimated: int) -> None:
        """Count more."""
        self.calls += calls
        self.spent += spent
        self.held += held
        self.estimated += estimated

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "calls": self.calls,
            "spent_usd": usd_from_pico(self.spent),
            "held_usd": usd_from_pico(self.held),
            "estimated": self.estimated,
            "spent_pico": self.spent,
            "held_pico": self.held,
        }


@dataclass(frozen=True, slots=True)
class Summed:
    """Groups by name, and where they come from.

    Attributes:
        groups: name → what it comes to; days first to last, others by what they cost.
        total: all attempts together, each once.
        from_sums: from the period sums, which are kept for ever; else from the attempts, which are
            kept for 35 days.
    """

    groups: dict[str, Group]
    total: Group
    from_sums: bool


def summed(ledger: Ledger, wanted: Wanted, by: By) -> Summed:
    """Add up what was asked for; of all apps together what was really spent, no virtual money."""
    if by in _CALENDAR and not wanted.is_narrow and wanted.app is not None:
        return _from_sums(ledger.sums(), app=wanted.app, by=by)
    groups, total = defaultdict[str, Group](Group), Group()
    for line in lines(ledger, wanted):
        if line.row.state == "released" or not _is_sound(line):
            continue
        if wanted.app is None and _is_virtual(line):
            continue
        for name in _names(line, by, wanted):
            _count(groups[name], line)
        _count(total, line)
    return Summed(_sorted(groups, by), total, from_sums=False)


def _from_sums(sums: dict[Slot, Balance], *, app: str, by: By) -> Summed:
    groups, total = defaultdict[str, Group](Group), Group()
    for slot, balance in sums.items():
        if slot.scope != f"{app}|all" or not slot.period.startswith("day:"):
            continue
        for group in (groups[_calendar_name(slot.period, by)], total):
            group.add(
                calls=balance.calls,
                spent=balance.settled,
                held=balance.held,
                estimated=balance.estimated,
            )
    return Summed(_sorted(groups, by), total, from_sums=True)


def _names(line: Line, by: By, wanted: Wanted) -> Iterable[str]:
    if by in _CALENDAR:
        days = [slot.period for slot in line.slots if slot.period.startswith("day:")]
        return [_calendar_name(days[0], by) if days else _NOWHERE]
    if by == "scope":
        return dict.fromkeys(wanted.name_of(slot.scope) for slot in line.slots)
    said = {"model": line.model, "route": line.route, "source": line.source}
    return [said[by] or _NOWHERE]


def _calendar_name(day: str, by: By) -> str:
    said = day.removeprefix("day:")
    if by == "month":
        return said[:7]
    if by == "week":
        year, week, _ = date.fromisoformat(said).isocalendar()
        return f"{year:04d}-W{week:02d}"
    return said


def _count(group: Group, line: Line) -> None:
    row = line.row
    group.add(
        calls=1,
        spent=row.amount,
        held=line.held,
        estimated=row.state == "estimated",
    )


def _is_sound(line: Line) -> bool:
    """Say whether an attempt's amounts can be added up; `verify` tells of those that cannot."""
    return type(line.row.amount) is int


def _is_virtual(line: Line) -> bool:
    """Say whether an attempt is what mode `on` would have made, beside the real one."""
    return bool(line.slots) and line.slots[0].scope.startswith(KEY_PREFIX)


def _sorted(groups: dict[str, Group], by: By) -> dict[str, Group]:
    if by in _CALENDAR:
        return dict(sorted(groups.items()))
    return dict(sorted(groups.items(), key=lambda item: (-item[1].spent, item[0])))
