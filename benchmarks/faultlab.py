"""Processes that spend on one ledger and come to harm, and the judge of what they leave behind.

Each spender writes what it is about to do and what it has done into a journal of its own; the judge
compares the journals with the ledger. A loss is what was done and is not there, or is there twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from budgetroute.clock import ManualClock
from budgetroute.errors import StoreError
from budgetroute.records import Arrival, Ask, Bill, Grant, Limit, Option, Slot
from budgetroute.stores import DiskStore
from budgetroute.stores.books import reading, verify
from budgetroute.units import micros_from_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
AT = micros_from_time(NOON)
MINUTE = 60 * 10**6
DAY = 86_400 * 10**6
LEASE = 15 * MINUTE
WORST, EXPECTED = 1000, 400
PLAN = '{"high": 12.5}'
STATES = {"R": ("held", "estimated"), "S": ("settled",), "U": ("estimated",), "X": ("released",)}
APP = "lab|all"
RECORD = '{"v":1,"route":"answer","steps":["gpt-4o-mini/256"]}'


def slot(at: int = AT) -> Slot:
    day = datetime.fromtimestamp(at / 1e6, UTC)
    return Slot(APP, f"day:{day:%Y-%m-%d}")


def asked(attempt: str, *, at: int, limit: int, lease: int = LEASE) -> Ask:
    limits = (Limit(slot(at), limit), Limit(Slot(f"lab|run:{attempt[:4]}", "once"), None))
    decision = attempt.partition("#")[0]
    return Ask(attempt, decision, at, at + lease, limits, (Option(WORST, EXPECTED),), RECORD,
               Arrival("answer", f"{slot(at).period}#100"))  # fmt: skip


def billed(ask: Ask, amount: int | None, *, at: int | None = None) -> Bill:
    slots = tuple(limit.slot for limit in ask.limits)
    return Bill(ask.attempt, ask.decision, ask.at if at is None else at, slots, amount, EXPECTED,
                WORST, '{"source":"reported"}')  # fmt: skip


class Journal:
    """One spender's journal: `verb attempt amount` lines that a kill cannot tear."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def note(self, verb: str, attempt: str, amount: int | None = None) -> None:
        os.write(self._file, f"{verb} {attempt} {'-' if amount is None else amount}\n".encode())


@dataclass
class Lab:
    """A store's folder, its spenders and their journals.

    Attributes:
        root: holds the folder `store` and the journals.
        limit: pico-dollars that each day may cost.
        luck: decides when harm comes.
    """

    root: Path
    limit: int = 10**15
    luck: random.Random = field(default_factory=lambda: random.Random(1))
    spawned: int = 0

    @property
    def folder(self) -> Path:
        return self.root / "store"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def store(self, *, patience_s: float = 30.0, at: datetime = NOON) -> DiskStore:
        return DiskStore(self.folder, ManualClock(at), patience_s=patience_s)

    def prepare(self) -> None:
        """Make the ledger, with a plan in it that no fault may cost."""
        with contextlib.closing(self.store()) as store:
            store.snapshot([slot()])
            store.save_plan(APP, PLAN, expected_version=0)

    def spawn(self, work: Callable[[Lab, str], None] | None = None) -> int:
        """Fork a spender that works until it is done or killed; return its process id."""
        self.spawned += 1
        name = f"{self.spawned:04d}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads: on purpose
            pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            signal.alarm(600)
            (work or spend_for_ever)(self, name)
            status = 0
        except BaseException as err:  # noqa: BLE001 - told, and shown by the exit status
            sys.stderr.write(f"spender {name}: {type(err).__name__}: {err}\n")
        finally:
            os._exit(status)

    def journal(self, name: str) -> Journal:
        return Journal(self.root / f"{name}.journal")

    def noted(self) -> Iterator[tuple[str, str, int | None]]:
        for path in sorted(self.root.glob("*.journal")):
            for line in path.read_text().splitlines():
                verb, attempt, amount = line.split()
                yield verb, attempt, None if amount == "-" else int(amount)

    def judge(self, *, plan: bool = True, at: int = AT) -> list[str]:
        """Return what was lost or doubled, in words; nothing is as it should be."""
        with reading(self.ledger) as ledger:
            rows = {row.attempt: row for row in ledger.rows()}
            sums = ledger.sums()
        found = [f"{fault.where}: {fault.text}" for fault in verify(self.ledger, now=at).faults]
        found += _lost(self.noted(), rows)
        found += [
            f"{where.period} is at {balance.settled + balance.held}, its limit is {self.limit}"
            for where, balance in sums.items()
            if where.scope == APP and balance.settled + balance.held > self.limit
        ]
        with contextlib.closing(self.store()) as store:
            if plan and store.load_plan(APP).value != PLAN:
                found.append("λ is lost")
        return found


def _lost(noted, rows) -> Iterator[str]:  # noqa: ANN001
    """Compare each attempt's last finished step with its row."""
    last, pending = {}, set()
    for verb, attempt, amount in noted:
        if verb.isupper():
            last[attempt] = (verb, amount)
            pending.discard(attempt)
        else:
            pending.add(attempt)
    for attempt, (verb, amount) in last.items():
        row = rows.get(attempt)
        if row is None:
            yield f"{attempt} is lost"
        elif verb == "S" and (row.state, row.amount) != ("settled", amount):
            yield f"{attempt} was billed {amount}, the ledger has {row.state} {row.amount}"
        elif attempt not in pending and row.state not in STATES[verb]:
            yield f"{attempt} is to be {STATES[verb][0]}, the ledger has it {row.state}"


def spend_for_ever(lab: Lab, name: str) -> None:
    store, journal = lab.store(), lab.journal(name)
    luck, number = random.Random(f"{lab.luck.random()}{name}"), 0
    while True:
        spend(store, journal, f"{name}-{number}#1", limit=lab.limit, luck=luck)
        number += 1


def spend(store: DiskStore, journal: Journal, attempt: str, *, limit: int, luck: random.Random,
          at: int = AT) -> bool:  # fmt: skip
    """Reserve, and settle, estimate, correct or release; say whether it was granted."""
    ask = asked(attempt, at=at, limit=limit)
    answer = store.reserve(ask)
    if not isinstance(answer, Grant):
        return False
    if answer.balances[0].settled + answer.balances[0].held > limit:
        raise AssertionError(f"{attempt} crossed the limit: {answer.balances[0]}")
    journal.note("R", attempt)
    fate, amount = luck.random(), luck.randrange(WORST + 1)
    if fate < 0.05:
        journal.note("x", attempt)
        store.release(attempt, at)
        journal.note("X", attempt)
        return True
    if fate < 0.15:
        journal.note("u", attempt)
        store.settle(billed(ask, None))
        journal.note("U", attempt)
        if fate < 0.10:
            return True
    journal.note("s", attempt, amount)
    store.settle(billed(ask, amount))
    journal.note("S", attempt, amount)
    if fate > 0.95:
        store.settle(billed(ask, WORST))  # a bill that comes twice, and different
    return True


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def ended(pids: list[int]) -> list[int]:
    """Wait for spenders; return their exit statuses."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@contextlib.contextmanager
def stopped_with(lab: Lab, work: Callable[[Lab, str], None]) -> Iterator[int]:
    """Run `work` in a process that stops itself in the middle; let it go on and end afterwards."""
    pid = lab.spawn(work)
    os.waitpid(pid, os.WUNTRACED)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)
        if ended([pid]) != [0]:
            raise AssertionError("the stopped process did not end well")


def stop_here() -> None:
    """Stop this process, as a debugger or a suspended machine does, until it is told to go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def refused(work: Callable[..., object], *args: object, **more: object) -> StoreError | None:
    """Return the StoreError that `work(*args, **more)` raises; None if it raises none."""
    try:
        work(*args, **more)
    except StoreError as err:
        return err
    return None
