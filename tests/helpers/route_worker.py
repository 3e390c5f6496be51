"""A process that makes routed calls; `test_router_processes` starts several and kills some.

    python route_worker.py FOLDER COUNT SEED START MODE

MODE `count` prints one JSON object at the end, `lines` each bill as it is settled, `hang` stops in
the body of its last call and says so.
"""

from __future__ import annotations

import json
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from budgetroute import BudgetExceeded, last_decision, route
from budgetroute.router import Router
from budgetroute.stores import DiskStore

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SPEED = 120
PICO_PER_TOKEN = {"small": (100_000, 400_000), "mid": (1_000_000, 4_000_000)}


class QuickClock:
    """Two minutes a second from noon on, the same in all processes of a machine."""

    def __init__(self, start: float) -> None:
        self.start = start

    def now(self) -> datetime:
        return NOON + timedelta(seconds=(time.monotonic() - self.start) * SPEED)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Worker:
    """One process's app and what its calls were billed by its own arithmetic."""

    def __init__(self, folder: Path, seed: int, start: float, mode: str) -> None:
        self.luck = random.Random(seed)
        self.mode = mode
        self.billed = self.made = self.refused = 0
        self.worst_seen = 0.0
        clock = QuickClock(start)
        self.router = Router.from_config(
            folder / "budgetroute.toml", store=DiskStore(folder / "s", clock)
        )

        @route(router=self.router)
        def answer(question: str, *, model: str = "small", max_tokens: int = 1024):
            return self.body(model, max_tokens)

        self.answer = answer
        self.last = False

    def body(self, model: str, cap: int) -> dict:
        if self.last and self.mode == "hang":
            say("in call " + last_decision().id)
            time.sleep(600)
        given, made = self.luck.randrange(1, 200), self.luck.randrange(cap)
        per_in, per_out = PICO_PER_TOKEN[model]
        self.bill = given * per_in + made * per_out
        return {"usage": {"prompt_tokens": given, "completion_tokens": made}}

    def call(self) -> None:
        try:
            self.answer("what is it? " * 40)
        except BudgetExceeded:
            self.refused += 1
            return
        self.billed += self.bill
        self.made += 1
        if self.mode == "lines":
            say(str(self.bill))

    def run(self, count: int) -> None:
        for number in range(count):
            self.last = number == count - 1
            self.call()
            if number % 50 == 0:
                status = self.router.status()
                self.worst_seen = max(self.worst_seen, status.spent_usd + status.held_usd)
        say(json.dumps({k: getattr(self, k) for k in ("billed", "made", "refused", "worst_seen")}))


if __name__ == "__main__":
    where, calls, seed, start, mode = sys.argv[1:]
    Worker(Path(where), int(seed), float(start), mode).run(int(calls))
