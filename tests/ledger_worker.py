"""A process that spends: `python ledger_worker.py FOLDER NAME COUNT LIMIT`, run by tests.

It prints a line per settled call, `amount seen`: what was billed, and settled + held at the time
of its reservation.
"""

import sys
from datetime import UTC, datetime

from budgetroute.clock import ManualClock
from budgetroute.records import Ask, Bill, Grant, Limit, Option, Slot
from budgetroute.stores import DiskStore

DAY = Slot("app", "day:2026-11-29")
AT = 1_796_000_000_000_000
WORST, EXPECTED = 1000, 500


def spend(store, name, number, limit):
    """Reserve and settle one call; return what was billed and seen, None if it was refused."""
    attempt = f"{name}-{number}#1"
    decision = attempt[:-2]
    limits = (Limit(DAY, limit), Limit(Slot(f"app/{name}", "once"), None))
    answer = store.reserve(
        Ask(attempt, decision, AT, AT + 1, limits, (Option(WORST, EXPECTED),), '{"n": 1}')
    )
    if not isinstance(answer, Grant):
        return None
    billed = (number * 7919 + len(name) * 31) % (WORST + 1)
    slots = tuple(limit.slot for limit in limits)
    store.settle(Bill(attempt, decision, AT, slots, billed, EXPECTED, WORST, '{"o": 1}'))
    return billed, answer.balances[0].settled + answer.balances[0].held


def main(folder, name, count, limit):
    """Spend `count` times; wait for a line on stdin first, so that all start together."""
    store = DiskStore(folder, ManualClock(datetime(2026, 11, 29, tzinfo=UTC)), patience_s=30)
    store.snapshot([DAY])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        spent = spend(store, name, number, int(limit))
        if spent is not None:
            print(*spent, flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
