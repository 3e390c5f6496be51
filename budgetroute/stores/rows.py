"""The statements on `ledger.db`: records in and out. They run inside the caller's transaction."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from budgetroute.records import Attempt, AttemptState, Balance, Entry, Slot
from budgetroute.stores.messages import StrangeContentError
from budgetroute.units import is_time

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from budgetroute.records import Arrival, Ask, Bill

_log = logging.getLogger("budgetroute.store")
_EMPTY = Balance()
_LAST = "\U0010ffff"
_STATES = frozenset(get_args(AttemptState))
_BILLED = frozenset({"settled", "estimated"})

_BALANCE = (
    "SELECT settled, held, expected, calls, estimated FROM sums WHERE scope = ? AND period = ?"
)
_ADD = (
    "INSERT INTO sums (scope, period, settled, held, expected, calls, estimated)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (scope, period) DO UPDATE SET"
    " settled = settled + excluded.settled, held = held + excluded.held,"
    " expected = expected + excluded.expected, calls = calls + excluded.calls,"
    " estimated = estimated + excluded.estimated"
    " RETURNING settled, held, expected, calls, estimated"
)
_COUNT = (
    'INSERT INTO arrivals (bucket, "group", count, at) VALUES (?, ?, 1, ?)'
    ' ON CONFLICT (bucket, "group") DO UPDATE SET count = count + 1'
)
_HOLD = (
    "INSERT INTO attempts (attempt, decision, state, worst, expected, amount, lease_until, at,"
    " chosen, slots, decided) VALUES (?, ?, 'held', ?, ?, 0, ?, ?, ?, ?, ?)"
)
_ADOPT = (
    "INSERT INTO attempts (attempt, decision, state, worst, expected, amount, lease_until, at,"
    " closed_at, chosen, slots, decided, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '{}', ?)"
)
_CLOSE = "UPDATE attempts SET state = ?, amount = ?, closed_at = ?, outcome = ? WHERE seq = ?"
_ROW = "SELECT seq, slots, state, worst, expected, amount FROM attempts"
_ENTRY = (
    "SELECT attempt, decision, at, closed_at, state, worst, expected, amount, slots, chosen,"
    " decided, outcome FROM attempts"
)


class Row(NamedTuple):
    """An attempt where it lies: its row number, its slots as text, and the attempt."""

    seq: int
    slots: str
    attempt: Attempt


def balance(ledger: sqlite3.Connection, slot: Slot) -> Balance:
    """Return a slot's sums; zeros where nothing was counted yet."""
    found = ledger.execute(_BALANCE, (slot.scope, slot.period)).fetchone()
    return _balance(found) if found else _EMPTY


def add(ledger: sqlite3.Connection, slot: Slot, change: Balance) -> Balance:
    """Add to a slot's sums and return them."""
    values = (
        slot.scope,
        slot.period,
        change.settled,
        change.held,
        change.expected,
        change.calls,
        change.estimated,
    )
    return _balance(ledger.execute(_ADD, values).fetchone())


def count(ledger: sqlite3.Connection, arrival: Arrival, at: int) -> None:
    """Count one request for the forecast."""
    ledger.execute(_COUNT, (arrival.bucket, arrival.group, at))


def row(ledger: sqlite3.Connection, attempt: str) -> Row | None:
    """Return an attempt's row."""
    found = ledger.execute(f"{_ROW} WHERE attempt = ?", (attempt,)).fetchone()
    return Row(found[0], found[1], _attempt(*found[2:])) if found else None


def has_expired(ledger: sqlite3.Connection, at: int) -> bool:
    """Say whether there are holds whose lease has run out."""
    query = "SELECT EXISTS (SELECT 1 FROM attempts WHERE state = 'held' AND lease_until <= ?)"
    return bool(ledger.execute(query, (at,)).fetchone()[0])


def expired(ledger: sqlite3.Connection, at: int, limit: int) -> list[Row]:
    """Return holds whose lease has run out, longest ago first.

    One that cannot be read is closed as it is: its money stays held until its period ends.
    """
    query = f"{_ROW} WHERE state = 'held' AND lease_until <= ? ORDER BY lease_until LIMIT ?"
    found = []
    for seq, slots, *rest in ledger.execute(query, (at, limit)).fetchall():
        try:
            found.append(Row(seq, slots, _attempt(*rest)))
        except StrangeContentError as err:
            _log.warning("hold %d of the ledger is closed as it is: %s", seq, err)
            ledger.execute(
                "UPDATE attempts SET state = 'estimated', closed_at = ? WHERE seq = ?", (at, seq)
            )
    return found


def hold(
    ledger: sqlite3.Connection, ask: Ask, attempt: Attempt, *, chosen: int, slots: str
) -> None:
    """Insert the row of a reservation; sqlite3.IntegrityError if its id is taken."""
    ledger.execute(
        _HOLD,
        (
            ask.attempt,
            ask.decision,
            attempt.worst,
            attempt.expected,
            ask.lease_until,
            ask.at,
            chosen,
            slots,
            ask.record,
        ),
    )


def adopt(ledger: sqlite3.Connection, bill: Bill, after: Attempt, slots: str) -> None:
    """Insert the row of a bill whose hold is not in this ledger."""
    ledger.execute(
        _ADOPT,
        (
            bill.attempt,
            bill.decision,
            after.state,
            after.worst,
            after.expected,
            after.amount,
            bill.at,
            bill.at,
            bill.at,
            slots,
            bill.record,
        ),
    )


def close(
    ledger: sqlite3.Connection, seq: int, after: Attempt, *, at: int, outcome: str | None
) -> None:
    """Write an attempt's new state."""
    ledger.execute(_CLOSE, (after.state, after.amount, at, outcome, seq))


def is_marked(ledger: sqlite3.Connection, slot: Slot, name: str) -> bool:
    """Say whether a slot has this mark."""
    query = "SELECT EXISTS (SELECT 1 FROM marks WHERE scope = ? AND period = ? AND name = ?)"
    return bool(ledger.execute(query, (slot.scope, slot.period, name)).fetchone()[0])


def has_values(ledger: sqlite3.Connection) -> bool:
    """Say whether there are sums of scopes that are one of many."""
    query = "SELECT EXISTS (SELECT 1 FROM sums WHERE scope GLOB '*#*')"
    return bool(ledger.execute(query).fetchone()[0])


def mark(ledger: sqlite3.Connection, slot: Slot, name: str) -> bool:
    """Set a mark; say whether it is new."""
    query = "INSERT OR IGNORE INTO marks (scope, period, name) VALUES (?, ?, ?)"
    return ledger.execute(query, (slot.scope, slot.period, name)).rowcount == 1


def history(ledger: sqlite3.Connection, scope: str) -> Mapping[str, Balance]:
    """Return period → sums of a scope."""
    query = "SELECT period, settled, held, expected, calls, estimated FROM sums WHERE scope = ?"
    return {period: Balance(*sums) for period, *sums in ledger.execute(query, (scope,))}


def arrivals(ledger: sqlite3.Connection, prefix: str) -> Mapping[tuple[str, str], int]:
    """Return (group, bucket) → requests for the buckets that start with `prefix`."""
    query = 'SELECT "group", bucket, count FROM arrivals WHERE bucket >= ? AND bucket < ?'
    found = ledger.execute(query, (prefix, prefix + _LAST))
    return {(group, bucket): requests for group, bucket, requests in found}


def decisions(ledger: sqlite3.Connection, prefix: str) -> list[str]:
    """Return the ids of the decisions that start with `prefix`; a few if there are many."""
    query = "SELECT DISTINCT decision FROM attempts WHERE attempt >= ? AND attempt < ? LIMIT 9"
    return [decision for (decision,) in ledger.execute(query, (prefix, prefix + _LAST))]


def attempts_of(ledger: sqlite3.Connection, decision: str) -> tuple[Entry, ...]:
    """Return a decision's attempts, `decision#1` and on, oldest first."""
    near = f"{_ENTRY} WHERE attempt >= ? AND attempt < ? ORDER BY seq"  # `$` follows `#`
    return _entries(ledger.execute(near, (f"{decision}#", f"{decision}$")))


def newest(ledger: sqlite3.Connection, limit: int) -> tuple[Entry, ...]:
    """Return the newest attempts, newest first."""
    return _entries(ledger.execute(f"{_ENTRY} ORDER BY seq DESC LIMIT ?", (limit,)))


def _entries(found: Iterable[Sequence[Any]]) -> tuple[Entry, ...]:
    return tuple([_entry(values) for values in found])


def _entry(values: Sequence[Any]) -> Entry:
    attempt, decision, at, closed_at, state, worst, expected, amount, slots, *rest = values
    if not (is_time(at) and (closed_at is None or is_time(closed_at))):
        raise _strange("a time that no calendar has")
    return Entry(
        attempt,
        decision,
        at,
        closed_at if state in _BILLED else None,
        _attempt(state, worst, expected, amount),
        slots_from(slots),
        *rest,
    )


@lru_cache(maxsize=4096)
def text_from(slots: tuple[Slot, ...]) -> str:
    """Write slots as one string.

    >>> text_from((Slot("app", "once"),))
    '[["app","once"]]'
    """
    return json.dumps([[slot.scope, slot.period] for slot in slots], separators=(",", ":"))


@lru_cache(maxsize=4096)
def slots_from(text: str) -> tuple[Slot, ...]:
    """Read what `text_from` wrote; nothing where a damaged disk left something else."""
    try:
        return tuple([Slot(f"{scope}", f"{period}") for scope, period in json.loads(text)])
    except (TypeError, ValueError, RecursionError):
        _log.warning("the ledger holds an attempt whose slots cannot be read; run ledger verify")
        return ()


def _attempt(state: Any, worst: Any, expected: Any, amount: Any) -> Attempt:  # noqa: ANN401 - whatever SQLite holds
    if state not in _STATES or not type(worst) is type(expected) is type(amount) is int:
        raise _strange(
            f"an attempt of the state {state!r:.40}, or amounts that are no whole numbers"
        )
    return Attempt(state, worst, expected, amount)


def _balance(sums: Sequence[Any]) -> Balance:
    if any(type(each) is not int for each in sums):
        raise _strange("a sum that is no whole number")
    return Balance(*sums)


def _strange(what: str) -> StrangeContentError:
    return StrangeContentError(
        f"the ledger holds what budgetroute never writes: {what}. See `budgetroute ledger verify`."
    )
