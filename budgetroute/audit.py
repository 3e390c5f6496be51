"""The audit of a ledger: every sum computed anew from its attempts, every attempt looked at.

Pure: the ledger's rows are handed in as they lie, whatever a damaged disk or another hand left
there, so nothing about them is taken for granted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from budgetroute import budget
from budgetroute.records import Attempt, Balance, Slot
from budgetroute.units import exact_usd, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["RECORD_VERSION", "Books", "Carried", "Fault", "Report", "Row", "audit", "is_late"]

RECORD_VERSION = 1
"""The version of decision records that this package writes and reads."""
_STATES = frozenset({"held", "settled", "estimated", "released"})
_MONEY = ("settled", "held", "expected")
_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """An attempt as it lies in the ledger, unchecked; times in microseconds since 1970 UTC.

    Attributes:
        attempt: its id.
        decision: the decision's id.
        state: where it stands.
        worst: what was held for it, pico-dollars.
        expected: what it was expected to cost.
        amount: what counts as spent for it.
        lease_until: when its hold counts as abandoned.
        at: when it was reserved.
        closed_at: when it was settled, estimated or released; None = in flight.
        chosen: index of the option that was granted.
        slots: where it counts, as JSON.
        decided: the decision's record, as JSON.
        outcome: the settlement's record, as JSON; None before.
    """

    attempt: Any
    decision: Any
    state: Any
    worst: Any
    expected: Any
    amount: Any
    lease_until: Any
    at: Any
    closed_at: Any
    chosen: Any
    slots: Any
    decided: Any
    outcome: Any


@dataclass(frozen=True, slots=True)
class Carried:
    """What counts in a sum though its attempts are gone.

    Attributes:
        slot: the sum.
        why: `dropped` after 35 days, or `rescued` from a damaged ledger.
        total: what it counts.
    """

    slot: Slot
    why: str
    total: Balance


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        kind: `sum`, `attempt`, `repeated` or `file`.
        where: the sum, the attempt or the file.
        text: what was found, and what should be there.
    """

    kind: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit found.

    Attributes:
        attempts: state → attempts seen.
        late: attempts whose bill came after their lease had run out.
        overdue: holds whose lease has run out and that the next sweep books as estimated.
        spent: what the attempts seen count as spent, each once, pico-dollars.
        held: what they hold.
        slots: sums compared.
        carried: why → sums that contain attempts which are gone.
        since: when the oldest attempt was reserved; None without attempts.
        unread: decision records of an unknown version or that cannot be read.
        faults: what is wrong, the first thousand.
        count: how many faults there are.
    """

    attempts: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    overdue: int = 0
    spent: int = 0
    held: int = 0
    slots: int = 0
    carried: Mapping[str, int] = field(default_factory=dict)
    since: int | None = None
    unread: int = 0
    faults: tuple[Fault, ...] = ()
    count: int = 0

    @property
    def is_clean(self) -> bool:
        """Say whether nothing is wrong."""
        return not self.count


@dataclass(frozen=True, slots=True)
class Books:
    """A whole ledger, as one moment shows it.

    Attributes:
        rows: every attempt, as it lies; read once.
        sums: the sums that limits go by.
        carried: what counts in them though its attempts are gone.
        repeated: ids that more than one attempt has.
        damage: what the database says about its own file.
        sure: `Elapsed.sure`: sums of one of many that ended long before it may be gone.
    """

    rows: Iterable[Row]
    sums: Mapping[Slot, Balance]
    carried: Iterable[Carried] = ()
    repeated: Iterable[str] = ()
    damage: Iterable[str] = ()
    sure: int = 0


def audit(books: Books, *, now: int) -> Report:
    """Compute every sum from its attempts and tell what differs; `now` in microseconds since 1970.

    >>> day = Slot("app|all", "day:2026-11-29")
    >>> row = Row("d#1", "d", "settled", 9, 4, 7, 60, 0, 5, 0, '[["app|all","day:2026-11-29"]]',
    ...           "{}", "{}")
    >>> audit(Books([row], {day: Balance(settled=7, calls=1)}), now=0).is_clean
    True
    >>> audit(Books([row], {day: Balance(settled=5, calls=1)}), now=0).faults[0].text
    'settled is $0.000000000005, its attempts make $0.000000000007'
    """
    seen, totals = _Seen(now), defaultdict[Slot, Balance](Balance)
    for row in books.rows:
        seen.take(row)
        change, slots = _counted(row)
        seen.count(change)
        for slot in slots:
            totals[slot] += change
    carried: Counter[str] = Counter()
    for each in books.carried:
        totals[each.slot] += each.total
        carried[each.why] += 1
    seen.blame(Fault("file", "ledger.db", text) for text in books.damage)
    seen.blame(Fault("repeated", name, "attempts share this id") for name in books.repeated)
    over = budget.outlived(time_from_micros(books.sure - budget.RETENTION))
    compared = [slot for slot in {**books.sums, **totals} if not _is_dropped(slot, over)]
    for slot in compared:
        seen.blame(_differences(slot, books.sums.get(slot), totals.get(slot, Balance())))
    return seen.report(slots=len(compared), carried=dict(carried))


class _Seen:
    """What the rows have shown so far."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.attempts: Counter[str] = Counter()
        self.late = self.overdue = self.spent = self.held = self.unread = 0
        self.since: int | None = None
        self.faults: list[Fault] = []
        self.found = 0

    def take(self, row: Row) -> None:
        self.attempts[str(row.state)] += 1
        if _is_count(row.at):
            self.since = row.at if self.since is None else min(self.since, row.at)
        self.late += is_late(row)
        self.overdue += _is_overdue(row, self.now)
        self.unread += not _is_read(row.decided)
        self.blame(Fault("attempt", str(row.attempt), text) for text in _flaws(row))

    def count(self, change: Balance) -> None:
        self.spent += change.settled
        self.held += change.held

    def blame(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.found += 1
            if self.found <= _KEPT:
                self.faults.append(fault)

    def report(self, *, slots: int, carried: Mapping[str, int]) -> Report:
        return Report(
            attempts=dict(self.attempts),
            late=self.late,
            overdue=self.overdue,
            spent=self.spent,
            held=self.held,
            slots=slots,
            carried=carried,
            since=self.since,
            unread=self.unread,
            faults=tuple(self.faults),
            count=self.found,
        )


def is_late(row: Row) -> bool:
    """Say whether an attempt's bill came after its lease had run out."""
    if row.state != "settled" or not (_is_count(row.lease_until) and _is_count(row.closed_at)):
        return False
    return bool(row.closed_at > row.lease_until)


def _is_overdue(row: Row, now: int) -> bool:
    return row.state == "held" and _is_count(row.lease_until) and row.lease_until <= now


def _counted(row: Row) -> tuple[Balance, tuple[Slot, ...]]:
    """Return what an attempt counts and where; nothing of one that cannot be read."""
    amounts = (row.worst, row.expected, row.amount)
    if row.state not in _STATES or not all(map(_is_count, amounts)):
        return Balance(), ()
    return budget.counted(Attempt(row.state, *amounts)), _slots(row.slots) or ()


def _flaws(row: Row) -> Iterator[str]:
    if not isinstance(row.decision, str) or not str(row.attempt).startswith(f"{row.decision}#"):
        yield f"its decision is {row.decision!r}"
    for name in ("worst", "expected", "amount", "at", "lease_until"):
        if not _is_count(getattr(row, name)):
            yield f"its {name} is {getattr(row, name)!r}"
    yield from _flaws_of_state(row)
    if not (slots := _slots(row.slots)):
        yield "where it counts cannot be read"
    elif len(set(slots)) != len(slots):
        yield "it counts twice in one sum"


def _flaws_of_state(row: Row) -> Iterator[str]:
    if row.state not in _STATES:
        yield f"its state is {row.state!r}"
    elif row.state in {"held", "released"} and row.amount != 0:
        yield f"it is {row.state} and yet counts {row.amount!r} as spent"
    elif (row.state == "held") != (row.closed_at is None):
        yield f"it is {row.state}, closed at {row.closed_at!r}"


def _differences(slot: Slot, found: Balance | None, computed: Balance) -> Iterator[Fault]:
    where = f"{slot.scope} {slot.period}"
    for each in fields(Balance):
        name, right = each.name, getattr(computed, each.name)
        kept = 0 if found is None else getattr(found, name)
        if kept != right:
            text = f"{name} is {_amount(name, kept)}, its attempts make {_amount(name, right)}"
            yield Fault("sum", where, text)
        if kept < 0:
            yield Fault("sum", where, f"{name} is below zero: {_amount(name, kept)}")


def _is_dropped(slot: Slot, over: Iterable[tuple[str, str]]) -> bool:
    """Say whether the sums of a slot may be gone: one of many, in a period long over."""
    many = budget.ONE_OF_MANY in slot.scope
    return many and any(first <= slot.period < last for first, last in over)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_read(record: object) -> bool:
    try:
        said = json.loads(record) if isinstance(record, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("v", RECORD_VERSION) == RECORD_VERSION


@lru_cache(maxsize=4096)
def _slots(text: object) -> tuple[Slot, ...] | None:
    try:
        read = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    pairs = read if isinstance(read, list) else []
    if not all(
        isinstance(pair, list) and [type(part) for part in pair] == [str, str] for pair in pairs
    ):
        return None
    return tuple([Slot(*pair) for pair in pairs])


def _amount(name: str, value: int) -> str:
    return exact_usd(value) if name in _MONEY else str(value)
