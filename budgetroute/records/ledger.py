"""What goes into a store and comes out: reservations, settlements, balances. Integers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from budgetroute.units import Pico

AttemptState: TypeAlias = Literal["held", "settled", "estimated", "released"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One sum of the ledger: a scope in one period.

    Attributes:
        scope: the scope's key, starting with the app's name.
        period: the period's id, such as `day:2026-11-29`; a run has the one period `once`.
    """

    scope: str
    period: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A slot that a reservation counts in, with what it must stay under.

    Attributes:
        slot: where the money is counted.
        limit: the most that settled + held may reach; None = counted only.
        guard: kept free for the cheapest action's traffic still to come; not applied to the last
            option of a reservation.
    """

    slot: Slot
    limit: Pico | None
    guard: Pico = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """A limit that a call counts in, as it stood when the call was reserved.

    Attributes:
        name: as users know it: `day`, `week`, `month`, `run:ID`, or the name of its table.
        window: `day`, `week`, `month`, `total` or `run`.
        slot: where the money is counted.
        usd: the limit in pico-dollars; None = counted only.
        first: what settled + held must stay under at first; None where the limit is soft.
        last: what they must stay under once service degrades; None = never refused.
        warn: shares of `usd` that are told of, once per period.
        value: the tag's value, for a limit that is one of many; never stored nor logged.
    """

    name: str
    window: str
    slot: Slot
    usd: Pico | None
    first: Pico | None
    last: Pico | None
    warn: tuple[float, ...] = ()
    value: str | None = field(default=None, repr=False)

    @property
    def is_soft(self) -> bool:
        """Say whether the limit only tells and never refuses."""
        return self.usd is not None and self.last is None


@dataclass(frozen=True, slots=True)
class Balance:
    """The sums of one slot.

    Attributes:
        settled: billed or estimated so far.
        held: worst cases in flight, and what estimated calls still may cost beyond their estimate.
        expected: expected cost of the calls in flight.
        calls: attempts sent or in flight.
        estimated: how many of them were settled without a reported usage.
    """

    settled: Pico = 0
    held: Pico = 0
    expected: Pico = 0
    calls: int = 0
    estimated: int = 0

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            self.settled + other.settled,
            self.held + other.held,
            self.expected + other.expected,
            self.calls + other.calls,
            self.estimated + other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate's money: its worst case is held, its expected cost steers."""

    worst: Pico
    expected: Pico


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request to count for the forecast: its group and its five-minute bucket."""

    group: str
    bucket: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A reservation to make, atomically in every slot.

    Attributes:
        attempt: unique id of the attempt, `decision#1`.
        decision: the decision it belongs to.
        at: microseconds since 1970 UTC, from the store's `now`.
        lease_until: when the hold counts as abandoned, same unit.
        limits: every slot it counts in.
        options: candidates in order of preference; the first that fits is taken.
        record: what was seen when choosing, as JSON without prompt text.
        arrival: what to count for the forecast.
    """

    attempt: str
    decision: str
    at: int
    lease_until: int
    limits: tuple[Limit, ...]
    options: tuple[Option, ...]
    record: str = "{}"
    arrival: Arrival | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A reservation that was made.

    Attributes:
        index: which option fits.
        balances: the slots after it, in the order of `Ask.limits`.
    """

    index: int
    balances: tuple[Balance, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing fits; nothing was changed.

    Attributes:
        limit: the limit that the last option would cross.
        balance: its slot as it stands.
        needed: the last option's worst case.
    """

    limit: Limit
    balance: Balance
    needed: Pico


@dataclass(frozen=True, slots=True)
class Bill:
    """A settlement to book.

    Attributes:
        attempt: the attempt's id.
        decision: the decision it belongs to.
        at: microseconds since 1970 UTC.
        slots: where it was reserved, so that a bill is booked even if its hold was lost.
        billed: what it cost; None = unknown usage, `estimate` is booked as estimated and the rest
            of the worst case stays held.
        expected: the expected cost that was reserved with.
        worst: the worst case that was held.
        record: usage and how it was priced, as JSON.
        estimate: what an unknown bill probably was; None = the expected cost.
    """

    attempt: str
    decision: str
    at: int
    slots: tuple[Slot, ...]
    billed: Pico | None
    expected: Pico
    worst: Pico
    record: str = "{}"
    estimate: Pico | None = None


@dataclass(frozen=True, slots=True)
class Booked:
    """A settlement as it stands in the ledger.

    Attributes:
        amount: what counts as spent for the attempt now.
        state: `settled`, or `estimated` until usage arrives.
        repeated: the attempt had been settled before and nothing was changed.
        balances: the slots after it, in the order of `Bill.slots`.
    """

    amount: Pico
    state: AttemptState
    repeated: bool
    balances: tuple[Balance, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt's row.

    Attributes:
        state: where it stands.
        worst: what was held for it.
        expected: what it was expected to cost.
        amount: what counts as spent for it.
    """

    state: AttemptState
    worst: Pico
    expected: Pico
    amount: Pico = 0


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The pacer's plan as bytes, with the version that a compare-and-set must name (0 = none)."""

    value: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt with its decision record, as `explain` and the audit read it.

    Attributes:
        attempt: its id.
        decision: the decision's id.
        at: when it was reserved, microseconds since 1970 UTC.
        settled_at: when it was settled; None = in flight or released.
        row: the attempt.
        slots: where it counts.
        chosen: index of the option that was granted.
        decided: the decision's record (JSON).
        outcome: the settlement's record (JSON); None before.
    """

    attempt: str
    decision: str
    at: int
    settled_at: int | None
    row: Attempt
    slots: tuple[Slot, ...]
    chosen: int
    decided: str
    outcome: str | None
