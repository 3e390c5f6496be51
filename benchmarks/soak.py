"""A soak: 200,000 routed calls by 8 processes that are killed, stopped, mis-clocked and denied the disk.

    python benchmarks/soak.py [--quick] [--json] [--calls N] [--seed N]

Whole decisions through the router, on a day's budget that bites. Each process keeps a journal of what
it was billed. In the end nothing finished may be missing or doubled, no cap crossed but by bills that
came late, λ kept, and `ledger verify` clean.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import resource
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from faultlab import Lab
from harness import Figure, at_least, at_most, exactly, report, say

from budgetroute import Router
from budgetroute.clock import WallClock
from budgetroute.errors import BudgetExceeded, StoreError
from budgetroute.records import Action, InputSize, Request, Usage
from budgetroute.router.assembly import assemble
from budgetroute.stores import DiskStore, MemoryStore
from budgetroute.stores.books import plan_version, reading, verify
from budgetroute.units import pico_from_usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.audit import Row
    from budgetroute.records import Decision
    from budgetroute.router.equipment import Equipment

PROCESSES = 8
APP = "soak"
SPEED = 600
"""The simulated clock runs so fast: a lease in 1.5 s, a day in 144, so that both run out meanwhile."""
START = datetime(2026, 11, 29, 22, tzinfo=UTC)
USD_A_CALL = 1.5e-4
"""Of the day's budget, for each of all calls: too little for what they would take."""
LEAPS = (-86_400, -3_600, 3_600, 86_400, 365 * 86_400)
"""Seconds by which the clock is wrong for a moment."""


class SharedClock:
    """A clock that all processes read, and that can be made to leap under them.

    Args:
        path: holds the leap in seconds.
        skew_s: this process's own error.
    """

    def __init__(self, path: Path, *, begun: float, skew_s: float = 0.0) -> None:
        self._path, self._begun, self._skew_s = path, begun, skew_s

    def now(self) -> datetime:
        leap = float(self._path.read_text() or 0)
        simulated = (time.time() - self._begun) * SPEED
        return START + timedelta(seconds=simulated + leap + self._skew_s)


class Denial:
    """Lets writes to files fail for the length of a block, whenever the signal came before it."""

    def __init__(self, luck: random.Random) -> None:
        self._luck, self._asked = luck, 0
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, self._ask)

    def __enter__(self) -> None:
        if self._asked:
            self._asked -= 1
            size = self._luck.choice((0, 4096, 100_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    def _ask(self, *_: object) -> None:
        self._asked = self._luck.randrange(1, 6)


@dataclass
class Soak:
    """One run: its folder, its spenders and what is done to them.

    Attributes:
        lab: the store's folder and the journals.
        equipment: what routers are made of, loaded once.
        calls: how many are to be made.
        daily_usd: what a day may cost.
        done: fault → how often it was done.
        running: process ids.
        failed: exit statuses of spenders that nobody killed.
    """

    lab: Lab
    equipment: Equipment
    calls: int
    daily_usd: float
    begun: float = field(default_factory=time.time)
    done: Counter[str] = field(default_factory=Counter)
    running: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    @property
    def leap(self) -> Path:
        return self.lab.root / "leap"

    def made(self) -> int:
        """Return how many calls were made so far; each writes a byte."""
        return sum(path.stat().st_size for path in self.lab.root.glob("*.made"))

    def start(self) -> None:
        self.running.append(self.lab.spawn(lambda _, name: spend(self, name)))

    def reap(self) -> int:
        """Return how many spenders have ended since the last time."""
        count = 0
        for pid in list(self.running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.running.remove(pid)
                count += 1
                if (code := os.waitstatus_to_exitcode(status)) not in {0, -signal.SIGKILL}:
                    self.failed.append(code)
        return count

    def harm(self) -> None:
        """Do one thing that a ledger must survive."""
        luck = self.lab.luck
        kind = luck.choice(("kill -9", "kill -9", "SIGSTOP", "clock leap", "failing writes"))
        pid = luck.choice(self.running)
        self.done[kind] += 1
        if kind == "kill -9":
            os.kill(pid, signal.SIGKILL)
        elif kind == "SIGSTOP":
            os.kill(pid, signal.SIGSTOP)
            time.sleep(luck.uniform(0.01, 0.4))
            os.kill(pid, signal.SIGCONT)
        elif kind == "clock leap":
            replace_text(self.leap, str(luck.choice(LEAPS)))
            time.sleep(luck.uniform(0.01, 0.2))
            replace_text(self.leap, "0")
        else:
            os.kill(pid, signal.SIGUSR1)

    def run(self) -> None:
        """Harm spenders and start new ones until all calls are made."""
        replace_text(self.leap, "0")
        for _ in range(PROCESSES):
            self.start()
        told = 0
        while (made := self.made()) < self.calls:
            time.sleep(self.lab.luck.uniform(0.05, 0.5))
            self.harm()
            for _ in range(self.reap()):
                self.start()
            if made - told > self.calls / 10:
                say(f"  {made:,} calls, {sum(self.done.values())} faults")
                told = made
        while self.running:
            self.reap()
            time.sleep(0.02)


def replace_text(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


def request(luck: random.Random) -> Request:
    tokens = luck.choice((20, 80, 300, 2000))
    return Request(
        luck.choice(("answer", "summary")),
        "how much flour for seventeen cakes?",
        InputSize(tokens, 4 * tokens),
        baseline=Action("gpt-4o-mini", 1024),
        sendable=frozenset({"model", "max_tokens"}),
        timeout_s=luck.choice((None, 5.0)),
    )


class Spender:
    """One process of an app: its router, its journal, its calls that wait for their bill."""

    def __init__(self, soak: Soak, name: str) -> None:
        self.luck = random.Random(f"{name} {soak.begun}")
        skew_s = self.luck.choice((0, 0, 0, -30, 30))
        clock = SharedClock(soak.leap, begun=soak.begun, skew_s=skew_s)
        self.router = Router(soak.equipment, DiskStore(soak.lab.folder, clock))
        self.journal = soak.lab.journal(name)
        self.denial = Denial(self.luck)
        self.waiting: list[Decision] = []

    def call(self) -> None:
        """Make one call: billed at once, late, twice, never, given back, or booked as unknown."""
        with self.denial:
            decision = self.router.decide(request(self.luck))
        self.journal.note("R", f"{decision.id}#1", beyond(decision))
        fate = self.luck.random()
        if fate < 0.03:
            self.journal.note("x", f"{decision.id}#1")
            self.router.release(decision)
        elif fate < 0.06:
            self.journal.note("u", f"{decision.id}#1")
            self.router.settle(decision)
        elif fate < 0.10:
            self.waiting.append(decision)
        elif fate > 0.11:  # between them, nobody ever comes back: the lease runs out
            self.settle(decision)
        if len(self.waiting) > 20:
            self.settle(self.waiting.pop(0))

    def settle(self, decision: Decision) -> None:
        """Book a bill, now and then twice; note it before, and its amount afterwards."""
        attempt = f"{decision.id}#1"
        output = self.luck.randrange(decision.max_tokens + 1)
        usage = Usage(int(decision.input_tokens), output, model=decision.model)
        self.journal.note("s", attempt)
        with self.denial:
            settlement = self.router.settle(decision, [usage])
        if settlement.balance is not None:  # else it waits in memory for the store
            self.journal.note("S", attempt, settlement.amount)
        if self.luck.random() < 0.02:
            self.router.settle(decision, [usage])


def beyond(decision: Decision) -> int:
    """Return how far its limit is crossed by what was settled and held when it was granted."""
    if decision.balance is None or decision.limit is None:
        return 0
    return max(0, decision.balance.settled + decision.balance.held - decision.limit)


def spend(soak: Soak, name: str) -> None:
    """Call until all calls are made, as one process of an app does."""
    logging.disable(logging.CRITICAL)
    spender, count = Spender(soak, name), 0
    made = os.open(soak.lab.root / f"{name}.made", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    while count % 64 or soak.made() < soak.calls:
        count += 1
        with contextlib.suppress(BudgetExceeded, StoreError):
            spender.call()
        os.write(made, b".")
    for decision in spender.waiting:
        spender.settle(decision)


def judged(soak: Soak, seconds: float) -> list[Figure]:
    """Compare journals and ledger."""
    now = max(row.at for row in rows_of(soak).values())
    audit = verify(soak.lab.ledger, now=now)
    for fault in audit.faults[:5]:
        say(f"  {fault.where}: {fault.text}")
    lost = list(lost_in(soak))
    for text in lost[:5]:
        say(f"  {text}")
    noted = list(soak.lab.noted())
    granted = sum(verb == "R" for verb, *_ in noted)
    crossed = sum(amount or 0 for verb, _, amount in noted if verb == "R")
    return [
        at_least("calls made by 8 processes", soak.made(), "", soak.calls),
        Figure("of them granted", granted, ""),
        Figure("calls in a second, faults and all", soak.made() / seconds, "/s"),
        at_most("time", seconds / 60, "min", 10),
        *[Figure(f"faults: {kind}", count, "") for kind, count in sorted(soak.done.items())],
        Figure("bills after their lease", audit.late, ""),
        exactly("finished calls lost or doubled", len(lost), "", 0),
        exactly("cap crossed when granted, sum", crossed / 1e12, "$", 0),
        exactly("days beyond their cap in the end", len(over(soak)), "", 0),
        exactly("ledger verify, differences", audit.count, "", 0),
        exactly("processes that failed unkilled", len(soak.failed), "", 0),
        at_least("λ kept, version", plan_version(soak.lab.folder, f"{APP}|all") or 0, "", 1),
    ]


def rows_of(soak: Soak) -> dict[str, Row]:
    with reading(soak.lab.ledger) as ledger:
        return {row.attempt: row for row in ledger.rows()}


def lost_in(soak: Soak) -> Iterator[str]:
    """Tell of finished steps that the ledger does not have."""
    rows = rows_of(soak)
    for verb, attempt, amount in soak.lab.noted():
        row = rows.get(attempt)
        if row is None:
            yield f"{attempt} is lost"
        elif verb == "S" and (row.state, row.amount) != ("settled", amount):
            yield f"{attempt} was billed {amount}, the ledger has {row.state} {row.amount}"


def over(soak: Soak) -> list[str]:
    limit = pico_from_usd(soak.daily_usd)
    with reading(soak.lab.ledger) as ledger:
        return [
            where.period
            for where, sums in ledger.sums().items()
            if where.scope == f"{APP}|all" and sums.settled + sums.held > limit
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="end within 50 s: 6,000 calls")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    calls = 6_000 if said.quick else said.calls
    daily_usd = calls * USD_A_CALL
    overrides = {"name": APP, "budget.daily_usd": daily_usd}
    equipment, _, _ = assemble(
        None, overrides=overrides, store=MemoryStore(WallClock()), clock=None
    )
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), luck=random.Random(said.seed))
        lab.folder.mkdir()
        soak = Soak(lab, equipment, calls, daily_usd)
        say(f"{soak.calls:,} calls by {PROCESSES} processes …")
        soak.run()
        figures = judged(soak, time.time() - soak.begun)
    report(figures, as_json=said.json)


if __name__ == "__main__":
    main()
