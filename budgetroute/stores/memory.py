"""The ledger in memory: for tests and replay. It ends with the process."""

from __future__ import annotations

import math
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute import budget
from budgetroute.records import Attempt, Balance, Booked, Entry, Grant, StoredPlan
from budgetroute.stores.messages import reserved_twice, sole_decision
from budgetroute.units import time_from_micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from budgetroute.protocols import Clock
    from budgetroute.records import Ask, Bill, Refusal, Slot

_EMPTY = Balance()
_NO_PLAN = StoredPlan(None, 0)
_PRUNED_EVERY = 3_600 * 10**6  # microseconds


@dataclass(slots=True)
class _Row:
    attempt: str
    decision: str
    at: int
    lease_until: int
    slots: tuple[Slot, ...]
    row: Attempt
    chosen: int = 0
    decided: str = "{}"
    closed_at: int | None = None
    outcome: str | None = None


class MemoryStore:
    """A Store in this process's memory; safe to share between threads.

    Args:
        clock: the time that periods and leases go by.
        keep_closed: how many settled, estimated or released attempts are remembered, the newest;
            None remembers all for 35 days. Replay passes a small number to stay flat: a second
            bill for a forgotten attempt would be booked once more.
    """

    def __init__(self, clock: Clock, *, keep_closed: int | None = None) -> None:
        self._clock = clock
        self._keep_closed = keep_closed
        self._lock = threading.Lock()
        self._sums: dict[Slot, Balance] = {}
        self._rows: dict[str, _Row] = {}
        self._held: dict[str, int] = {}
        self._closed: dict[str, None] = {}
        self._arrivals: dict[str, dict[str, tuple[int, int]]] = {}
        self._plans: dict[str, StoredPlan] = {}
        self._marks: set[tuple[Slot, str]] = set()
        self._key = secrets.token_bytes(32)
        self._pruned = 0
        self._elapsed = budget.Elapsed()
        self._oldest: float = math.inf

    def now(self) -> datetime:
        """Return the clock's time."""
        return self._clock.now()

    def reserve(self, ask: Ask) -> Grant | Refusal:
        """Hold the first option that fits every limit, or change nothing."""
        with self._lock:
            if ask.attempt in self._rows:
                raise reserved_twice(ask, self._rows[ask.attempt].row.state)
            sums = self._sums
            before = [sums.get(limit.slot, _EMPTY) for limit in ask.limits]
            answer = budget.admit(ask, before)
            if isinstance(answer, Grant):
                self._hold(ask, answer)
            return answer

    def settle(self, bill: Bill) -> Booked:
        """Replace a hold by its bill; a bill whose hold is unknown is booked all the same."""
        with self._lock:
            row = self._rows.get(bill.attempt)
            before = None if row is None else row.row
            after, change = budget.settle(before, bill)
            if after is not before:
                row = row or self._adopt(bill, after)
                self._apply(row.slots, change)
                self._close(row, after, bill.at, bill.record)
            return Booked(
                after.amount,
                after.state,
                after is before,
                tuple([self._sums.get(slot, _EMPTY) for slot in bill.slots]),
            )

    def release(self, attempt: str, at: int) -> bool:
        """Give back what a call that costs nothing holds; False if there is nothing."""
        with self._lock:
            row = self._rows.get(attempt)
            released = None if row is None else budget.release(row.row)
            if row is None or released is None:
                return False
            after, change = released
            self._apply(row.slots, change)
            self._close(row, after, at, None)
            return True

    def sweep(self, at: int) -> int:
        """Settle holds whose lease ran out as estimated; return how many. Drop what is too old."""
        with self._lock:
            expired = [attempt for attempt, lease in self._held.items() if lease <= at]
            for attempt in expired:
                row = self._rows[attempt]
                after, change = budget.expire(row.row)
                self._apply(row.slots, change)
                self._close(row, after, at, budget.EXPIRED_RECORD)
            self._elapsed = budget.elapsed(self._elapsed, at)
            self._forget(self._elapsed.sure - budget.RETENTION)
            if at - self._pruned >= _PRUNED_EVERY:
                self._prune(at)
            return len(expired)

    def snapshot(self, slots: Sequence[Slot]) -> tuple[Balance, ...]:
        """Return the sums of these slots as they stand."""
        with self._lock:
            return tuple([self._sums.get(slot, _EMPTY) for slot in slots])

    def load_plan(self, key: str) -> StoredPlan:
        """Return the plan kept under `key`; version 0 and value None when there is none."""
        return self._plans.get(key, _NO_PLAN)

    def save_plan(self, key: str, value: str, *, expected_version: int) -> bool:
        """Write the plan if its version is still `expected_version`; say whether it was."""
        with self._lock:
            if self._plans.get(key, _NO_PLAN).version != expected_version:
                return False
            self._plans[key] = StoredPlan(value, expected_version + 1)
            return True

    def mark(self, slot: Slot, name: str) -> bool:
        """Set a mark on a slot; say whether it is new, to exactly one of all that ask."""
        with self._lock:
            is_new = (slot, name) not in self._marks
            self._marks.add((slot, name))
            return is_new

    def scope_key(self) -> bytes:
        """Return the secret that tag values are hashed with; it ends with the store."""
        return self._key

    def history(self, scope: str) -> Mapping[str, Balance]:
        """Return period id → sums of every period this scope has."""
        with self._lock:
            return {slot.period: sums for slot, sums in self._sums.items() if slot.scope == scope}

    def arrivals(self, prefix: str) -> Mapping[tuple[str, str], int]:
        """Return (group, bucket) → requests counted, for buckets starting with `prefix`."""
        with self._lock:
            whole = prefix in self._arrivals
            near = [prefix] if whole else [b for b in self._arrivals if b.startswith(prefix)]
            return {
                (group, bucket): count
                for bucket in near
                for group, (count, _) in self._arrivals[bucket].items()
            }

    def find(self, decision: str) -> tuple[Entry, ...]:
        """Return the attempts of the decision whose id starts with `decision`, oldest first."""
        with self._lock:
            near = [row for row in self._rows.values() if row.decision.startswith(decision)]
            sole = sole_decision(decision, list({row.decision: None for row in near}))
            return tuple([_entry(row) for row in near if row.decision == sole])

    def recent(self, count: int) -> tuple[Entry, ...]:
        """Return the newest attempts, newest first."""
        with self._lock:
            newest = zip(reversed(self._rows.values()), range(count), strict=False)
            return tuple([_entry(row) for row, _ in newest])

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _hold(self, ask: Ask, grant: Grant) -> None:
        attempt, _ = budget.reserve(ask.options[grant.index])
        self._rows[ask.attempt] = _Row(
            ask.attempt,
            ask.decision,
            ask.at,
            ask.lease_until,
            budget.slots_of(ask),
            attempt,
            grant.index,
            ask.record,
        )
        self._held[ask.attempt] = ask.lease_until
        self._oldest = min(self._oldest, ask.at)
        for limit, balance in zip(ask.limits, grant.balances, strict=True):
            self._sums[limit.slot] = balance
        if ask.arrival is not None:
            bucket = self._arrivals.setdefault(ask.arrival.bucket, {})
            counted, first = bucket.get(ask.arrival.group, (0, ask.at))
            bucket[ask.arrival.group] = (counted + 1, first)

    def _adopt(self, bill: Bill, attempt: Attempt) -> _Row:
        slots = tuple(dict.fromkeys(bill.slots))
        row = _Row(bill.attempt, bill.decision, bill.at, bill.at, slots, attempt)
        self._rows[bill.attempt] = row
        self._oldest = min(self._oldest, bill.at)
        return row

    def _apply(self, slots: Iterable[Slot], change: Balance) -> None:
        sums = self._sums
        for slot in slots:
            sums[slot] = sums.get(slot, _EMPTY) + change

    def _close(self, row: _Row, after: Attempt, at: int, outcome: str | None) -> None:
        row.row, row.closed_at, row.outcome = after, at, outcome
        self._held.pop(row.attempt, None)
        if self._keep_closed is None:
            return
        self._closed.pop(row.attempt, None)
        self._closed[row.attempt] = None
        while len(self._closed) > self._keep_closed:
            oldest = next(iter(self._closed))
            del self._closed[oldest], self._rows[oldest]

    def _forget(self, before: int) -> None:
        if self._oldest >= before:
            return
        for name in [name for name, row in self._rows.items() if row.at < before]:
            if name not in self._held:
                del self._rows[name]
                self._closed.pop(name, None)
        for bucket in self._arrivals.values():
            for group in [group for group, (_, first) in bucket.items() if first < before]:
                del bucket[group]
        self._arrivals = {name: bucket for name, bucket in self._arrivals.items() if bucket}
        rows = (row.at for row in self._rows.values())
        arrivals = (first for b in self._arrivals.values() for _, first in b.values())
        self._oldest = min(min(rows, default=math.inf), min(arrivals, default=math.inf))

    def _prune(self, at: int) -> None:
        """Drop sums and marks of periods long over, of scopes that are one of many."""
        self._pruned = at
        over = budget.outlived(time_from_micros(self._elapsed.sure - budget.RETENTION))

        def is_kept(slot: Slot) -> bool:
            lasts = not any(first <= slot.period < last for first, last in over)
            return lasts or budget.ONE_OF_MANY not in slot.scope

        self._sums = {slot: sums for slot, sums in self._sums.items() if is_kept(slot)}
        self._marks = {(slot, name) for slot, name in self._marks if is_kept(slot)}


def _entry(row: _Row) -> Entry:
    billed = row.row.state in {"settled", "estimated"}
    return Entry(
        row.attempt,
        row.decision,
        row.at,
        row.closed_at if billed else None,
        row.row,
        row.slots,
        row.chosen,
        row.decided,
        row.outcome,
    )
