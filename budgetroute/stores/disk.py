"""The ledger on a local disk, shared by all processes of a host: the default store."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from budgetroute import budget
from budgetroute.records import Balance, Booked, Grant
from budgetroute.stores import rows
from budgetroute.stores.ledger import LedgerFile
from budgetroute.stores.messages import reserved_twice, sole_decision
from budgetroute.stores.plans import PlanFolder
from budgetroute.stores.retention import forget
from budgetroute.stores.secrecy import secret

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from budgetroute.protocols import Clock
    from budgetroute.records import Ask, Attempt, Bill, Entry, Refusal, Slot, StoredPlan

Connection: TypeAlias = sqlite3.Connection

_log = logging.getLogger("budgetroute.store")

_SWEPT_AT_ONCE = 256


class DiskStore:
    """A Store in a folder: `ledger.db` for money, `plan/` for the pacer's plan.

    Safe to share between threads, processes and forks. Nothing is opened before the first
    operation. Operations block: about 0.1 ms, longer while other processes write. A crash of the
    process loses nothing; a crash of the machine at most the last moments.

    Args:
        path: the folder; made with mode 0700 when missing. `~` is expanded.
        clock: the time that periods and leases go by.
        patience_s: how long an operation waits for other processes before it raises a retryable
            StoreError.
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: Clock, *, patience_s: float = 2.0
    ) -> None:
        self.path = Path(path).expanduser().absolute()
        self._clock = clock
        self._ledger = LedgerFile(self.path, clock, patience_s=patience_s)
        self._key: bytes | None = None
        self._plans = PlanFolder(self.path / "plan", clock, patience_s=patience_s)

    def now(self) -> datetime:
        """Return the clock's time."""
        return self._clock.now()

    def reserve(self, ask: Ask) -> Grant | Refusal:
        """Hold the first option that fits every limit, or change nothing."""
        return self._ledger.write(lambda ledger: _reserve(ledger, ask))

    def settle(self, bill: Bill) -> Booked:
        """Replace a hold by its bill; a bill whose hold is unknown is booked all the same."""
        return self._ledger.write(lambda ledger: _settle(ledger, bill))

    def release(self, attempt: str, at: int) -> bool:
        """Give back what a call that costs nothing holds; False if there is nothing."""
        return self._ledger.write(lambda ledger: _release(ledger, attempt, at))

    def sweep(self, at: int) -> int:
        """Settle holds whose lease ran out as estimated; return how many. Drop what is too old.

        Works in batches, each one transaction, so that others get their turn.
        """
        swept = 0
        while self._ledger.read(lambda ledger: rows.has_expired(ledger, at)):
            swept += self._ledger.write(lambda ledger: _expire(ledger, at))
        forget(self._ledger, at)
        return swept

    def snapshot(self, slots: Sequence[Slot]) -> tuple[Balance, ...]:
        """Return the sums of these slots as they stand."""
        return self._ledger.read(lambda ledger: _balances(ledger, slots))

    def load_plan(self, key: str) -> StoredPlan:
        """Return the plan kept under `key`; version 0 and value None when there is none."""
        return self._plans.load(key)

    def save_plan(self, key: str, value: str, *, expected_version: int) -> bool:
        """Write the plan if its version is still `expected_version`; say whether it was."""
        return self._plans.save(key, value, expected_version=expected_version)

    def mark(self, slot: Slot, name: str) -> bool:
        """Set a mark on a slot; say whether it is new, to exactly one of all that ask."""
        if self._ledger.read(lambda ledger: rows.is_marked(ledger, slot, name)):
            return False
        return self._ledger.write(lambda ledger: rows.mark(ledger, slot, name))

    def scope_key(self) -> bytes:
        """Return the secret that tag values are hashed with, from `scopes.key` in the folder."""
        if self._key is None:
            path = self.path / "scopes.key"
            is_new = not path.exists()
            self._key = secret(path)
            if is_new and self._ledger.read(rows.has_values):
                _log.warning(
                    "%s was not there and was made anew: sums of limits with `per` that were counted "
                    "under the old one start from zero. Put it back from a copy if there is one.",
                    path,
                )
        return self._key

    def history(self, scope: str) -> Mapping[str, Balance]:
        """Return period id → sums of every period this scope has."""
        return self._ledger.read(lambda ledger: rows.history(ledger, scope))

    def arrivals(self, prefix: str) -> Mapping[tuple[str, str], int]:
        """Return (group, bucket) → requests counted, for buckets starting with `prefix`."""
        return self._ledger.read(lambda ledger: rows.arrivals(ledger, prefix))

    def find(self, decision: str) -> tuple[Entry, ...]:
        """Return the attempts of the decision whose id starts with `decision`, oldest first."""
        return self._ledger.read(lambda ledger: _find(ledger, decision))

    def recent(self, count: int) -> tuple[Entry, ...]:
        """Return the newest attempts, newest first."""
        return self._ledger.read(lambda ledger: rows.newest(ledger, count))

    def close(self) -> None:
        """Close the files; the next operation opens them again."""
        self._ledger.close()
        self._plans.close()


def _reserve(ledger: Connection, ask: Ask) -> Grant | Refusal:
    answer = budget.admit(ask, [rows.balance(ledger, limit.slot) for limit in ask.limits])
    if not isinstance(answer, Grant):
        _refuse_taken_id(ledger, ask)
        return answer
    attempt, change = budget.reserve(ask.options[answer.index])
    slots = budget.slots_of(ask)
    try:
        rows.hold(ledger, ask, attempt, chosen=answer.index, slots=rows.text_from(slots))
    except sqlite3.IntegrityError:
        _refuse_taken_id(ledger, ask)
        raise
    for slot in slots:
        rows.add(ledger, slot, change)
    if ask.arrival is not None:
        rows.count(ledger, ask.arrival, ask.at)
    return answer


def _refuse_taken_id(ledger: Connection, ask: Ask) -> None:
    found = rows.row(ledger, ask.attempt)
    if found is not None:
        raise reserved_twice(ask, found.attempt.state)


def _settle(ledger: Connection, bill: Bill) -> Booked:
    found = rows.row(ledger, bill.attempt)
    before = None if found is None else found.attempt
    after, change = budget.settle(before, bill)
    if after is before:
        return Booked(after.amount, after.state, True, _balances(ledger, bill.slots))  # noqa: FBT003
    if found is None:
        slots = tuple(dict.fromkeys(bill.slots))
        rows.adopt(ledger, bill, after, rows.text_from(slots))
    else:
        slots = rows.slots_from(found.slots) or tuple(dict.fromkeys(bill.slots))
        rows.close(ledger, found.seq, after, at=bill.at, outcome=bill.record)
    balances = tuple([rows.add(ledger, slot, change) for slot in slots])
    if slots != bill.slots:
        balances = _balances(ledger, bill.slots)
    return Booked(after.amount, after.state, False, balances)  # noqa: FBT003 - a record's field


def _release(ledger: Connection, attempt: str, at: int) -> bool:
    found = rows.row(ledger, attempt)
    released = None if found is None else budget.release(found.attempt)
    if found is None or released is None:
        return False
    _move(ledger, found, released, at=at, outcome=None)
    return True


def _expire(ledger: Connection, at: int) -> int:
    found = rows.expired(ledger, at, _SWEPT_AT_ONCE)
    for row in found:
        _move(ledger, row, budget.expire(row.attempt), at=at, outcome=budget.EXPIRED_RECORD)
    return len(found)


def _move(
    ledger: Connection,
    row: rows.Row,
    transition: tuple[Attempt, Balance],
    *,
    at: int,
    outcome: str | None,
) -> None:
    after, change = transition
    rows.close(ledger, row.seq, after, at=at, outcome=outcome)
    for slot in rows.slots_from(row.slots):
        rows.add(ledger, slot, change)


def _balances(ledger: Connection, slots: Sequence[Slot]) -> tuple[Balance, ...]:
    return tuple([rows.balance(ledger, slot) for slot in slots])


def _find(ledger: Connection, prefix: str) -> tuple[Entry, ...]:
    sole = sole_decision(prefix, rows.decisions(ledger, prefix))
    return () if sole is None else rows.attempts_of(ledger, sole)
