"""The fault table: what a ledger on disk survives, how often it was tried, and what was lost.

    python benchmarks/faults.py [--quick] [--json]

Real processes, real signals; a full disk is a small tmpfs where this user may mount one, else a limit
on the size of files.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import tempfile
import time
from pathlib import Path

from faultlab import (
    APP,
    AT,
    DAY,
    LEASE,
    WORST,
    Journal,
    Lab,
    asked,
    billed,
    ended,
    kill,
    refused,
    slot,
    spend,
    stop_here,
    stopped_with,
)
from faults_disk import (
    NoRoomError,
    damaged_ledger,
    damaged_plan,
    failing_writes,
    full_disk,
    read_only,
)
from harness import Figure, exactly, options, report, say

from budgetroute.records import Balance, Grant
from budgetroute.stores.paths import locked


def kill_nine(lab: Lab, times: int) -> list[str]:
    """Kill one of three spenders at a random moment, again and again; then sweep."""
    lab.prepare()
    running = [lab.spawn() for _ in range(3)]
    for _ in range(times):
        time.sleep(lab.luck.uniform(0.001, 0.03))
        kill(running.pop(0))
        running.append(lab.spawn())
    for pid in running:
        kill(pid)
    found = lab.judge()
    with contextlib.closing(lab.store()) as store:
        store.sweep(AT + LEASE)
        left = store.snapshot([slot()])[0]
    if left.expected:
        found.append(f"{left.expected} are still in flight after the sweep")
    return found + lab.judge()


def cap_under_kills(lab: Lab, times: int) -> list[str]:
    """Kill spenders that race for the last dollars of a day."""
    lab.limit = 40 * WORST * times
    return kill_nine(lab, times)


def stopped_writer(lab: Lab, times: int) -> list[str]:
    """Stop a process inside its transaction: others are refused in time, readers are not."""
    lab.prepare()

    def work(lab: Lab, name: str) -> None:
        store = lab.store()
        store._ledger.write(lambda _: stop_here())  # noqa: SLF001
        spend(store, lab.journal(name), f"{name}#1", limit=lab.limit, luck=lab.luck)

    found = []
    for number in range(times):
        with stopped_with(lab, work), contextlib.closing(lab.store(patience_s=0.1)) as store:
            begun = time.monotonic()
            error = refused(store.reserve, asked(f"w{number}#1", at=AT, limit=lab.limit))
            if error is None or not error.retryable or time.monotonic() - begun > 2:
                found.append(f"found {error!r} after {time.monotonic() - begun:.1f} s")
            store.snapshot([slot()])
        mine = lab.journal(f"n{number}")
        if refused(spend, lab.store(), mine, f"n{number}#1", limit=lab.limit, luck=lab.luck):
            found.append("still refused afterwards")
    return found + lab.judge()


def stopped_opener(lab: Lab, times: int) -> list[str]:
    """Stop a process that opens the store, or writes the plan for the first time: nobody hangs."""
    lab.prepare()

    def opening(lab: Lab, _name: str) -> None:
        with locked(lab.folder / "ledger.lock"):
            stop_here()

    def planning(lab: Lab, _name: str) -> None:
        with contextlib.closing(sqlite3.connect(lab.folder / "plan" / "cache.db")) as cache:
            cache.execute("BEGIN IMMEDIATE")
            stop_here()
            cache.execute("ROLLBACK")

    found = []
    for number in range(times):
        for work in (opening, planning):
            with stopped_with(lab, work), contextlib.closing(lab.store(patience_s=0.1)) as store:
                begun = time.monotonic()
                if work is opening:
                    error = refused(store.snapshot, [slot()])
                else:
                    error = refused(store.save_plan, APP, "x", expected_version=9)
                if error is None or not error.retryable or time.monotonic() - begun > 5:
                    found.append(f"{work.__name__} {number}: found {error!r}")
    return found + lab.judge()


def suspended(lab: Lab, times: int) -> list[str]:
    """Suspend a process with a call in flight for longer than its lease; its bill still counts."""
    lab.prepare()

    def work(lab: Lab, name: str) -> None:
        store, journal, ask = (
            lab.store(),
            lab.journal(name),
            asked(f"{name}#1", at=AT, limit=lab.limit),
        )
        store.reserve(ask)
        stop_here()
        journal.note("s", ask.attempt, 7)
        store.settle(billed(ask, 7, at=AT + LEASE + 1))
        journal.note("S", ask.attempt, 7)

    found = []
    for number in range(times):
        with stopped_with(lab, work), contextlib.closing(lab.store()) as store:
            before = store.snapshot([slot()])[0]
            if store.sweep(AT + LEASE) != 1:
                found.append(f"{number}: not swept")
            after = store.snapshot([slot()])[0]
            if before.settled + before.held != after.settled + after.held:
                found.append(f"{number}: the sweep gave money back")
    with contextlib.closing(lab.store()) as store:
        if store.snapshot([slot()])[0] != Balance(settled=7 * times, calls=times):
            found.append(f"found {store.snapshot([slot()])[0]}")
    return found + lab.judge()


def clock_leaps(lab: Lab, times: int) -> list[str]:
    """Let the clock leap a day and a year, ahead and back, under three spenders that are killed.

    What is dated a year back is older than 35 days, and may be dropped; its sums may not.
    """
    lab.prepare()

    def work(lab: Lab, name: str) -> None:
        store, journal, luck = lab.store(), lab.journal(name), random.Random(name)
        unread = Journal(Path(os.devnull))
        for number in range(10**6):
            leap = luck.choice([0, 0, 0, DAY, -DAY, 365 * DAY, -365 * DAY])
            at = AT + leap + number
            into = journal if leap > -35 * DAY else unread
            spend(store, into, f"{name}-{number}#1", limit=lab.limit, luck=luck, at=at)
            if number % 10 == 0:
                store.sweep(at)

    running = [lab.spawn(work) for _ in range(3)]
    for _ in range(times):
        time.sleep(lab.luck.uniform(0.01, 0.05))
        kill(running.pop(0))
        running.append(lab.spawn(work))
    for pid in running:
        kill(pid)
    found = lab.judge()
    with contextlib.closing(lab.store()) as store:
        for at in (AT - 365 * DAY, AT - DAY, AT, AT + DAY, AT + 365 * DAY):
            if not isinstance(store.reserve(asked(f"at{at}#1", at=at, limit=lab.limit)), Grant):
                found.append(f"nothing fits at {at}")
    return found


def forks(lab: Lab, times: int) -> list[str]:
    """Fork after the store was used; parent and children carry on with connections of their own."""
    lab.prepare()
    store, journal = lab.store(), lab.journal("0000")
    pids = []
    for number in range(times):
        spend(store, journal, f"parent-{number}#1", limit=lab.limit, luck=lab.luck)

        def work(lab: Lab, name: str) -> None:
            mine = lab.journal(name)
            for call in range(10):
                spend(store, mine, f"{name}-{call}#1", limit=lab.limit, luck=lab.luck)

        pids.append(lab.spawn(work))
    statuses = ended(pids)
    store.close()
    return lab.judge() + ["a child failed"] * sum(status != 0 for status in statuses)


def openers(lab: Lab, times: int, *, patience_s: float = 2.0) -> list[str]:
    """Open a store that is not there yet with very many processes at once."""
    read, write = os.pipe()

    def work(lab: Lab, name: str) -> None:
        os.close(write)
        os.read(read, 1)  # returns when the parent closes its end
        store = lab.store(patience_s=patience_s)
        spend(store, lab.journal(name), f"{name}#1", limit=lab.limit, luck=random.Random(name))
        store.load_plan(APP)

    pids = [lab.spawn(work) for _ in range(times)]
    os.close(read)
    os.close(write)
    statuses = ended(pids)
    return lab.judge(plan=False) + ["an opener failed"] * sum(status != 0 for status in statuses)


FAULTS = (
    ("kill -9 at a random point", kill_nine, 300, 60),
    ("kill -9 while racing for a cap", cap_under_kills, 100, 20),
    ("disk full (tmpfs)", full_disk, 40, 8),
    ("writes that fail", failing_writes, 200, 40),
    ("read-only folder and files", read_only, 20, 5),
    ("damaged ledger.db", damaged_ledger, 100, 25),
    ("damaged plan/", damaged_plan, 60, 12),
    ("write lock held by a stopped process", stopped_writer, 20, 5),
    ("opening or plan lock held by a stopped process", stopped_opener, 10, 2),
    ("suspended for longer than the lease", suspended, 20, 5),
    ("clock ±1 day, ±1 year", clock_leaps, 60, 15),
    ("fork after open", forks, 60, 15),
    ("openers at once", openers, 200, 200),
)


def main() -> None:
    said = options(__doc__.splitlines()[0])
    figures = []
    for name, fault, full, quick in FAULTS:
        times = quick if said.quick else full
        say(f"{name} × {times} …")
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(Path(folder))
            lab.folder.mkdir()
            try:
                losses = fault(lab, times)
            except NoRoomError as err:
                say(str(err))
                figures.append(Figure(f"{name}: not tried", 0, ""))
                continue
        for loss in losses[:5]:
            say(f"  {loss}")
        figures.append(exactly(f"{name} × {times}, losses", len(losses), "", 0))
    report(figures, as_json=said.json)


if __name__ == "__main__":
    main()
