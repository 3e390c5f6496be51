"""Real processes on one disk store: nothing is lost, nothing counted twice, the cap holds.

Some are killed with SIGKILL in the middle of a call or between two.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from helpers.route_worker import NOON
from helpers.world import World

from budgetroute.clock import ManualClock
from budgetroute.stores import DiskStore

WORKER = Path(__file__).parent / "helpers" / "route_worker.py"
MODELS = """
[models.small]
price = { input = 0.1, output = 0.4 }
[models.mid]
price = { input = 1.0, output = 4.0 }
"""
TIGHT, AMPLE = 0.12, 40.0


@pytest.fixture
def app(tmp_path):
    """A folder whose store the workers share."""
    clock = ManualClock(NOON)
    world = World(tmp_path, clock, DiskStore(tmp_path / "s", clock))
    yield world
    world.store.close()


def opened(world: World, limit: float):
    """Write the config, and return a router of a process that has just started."""
    store = DiskStore(world.folder / "s", world.clock)
    budget = f"daily_usd = {limit}\ncalls_per_day = 4000"
    return world.router(budget=budget, models=MODELS, store=store)


def started(world: World, count: int, *, seed: int, mode: str, start: float) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(world.folder), str(count), str(seed), str(start), mode],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def pico(usd: float) -> int:
    return round(usd * 10**12)


@pytest.mark.slow
def test_eight_processes_of_five_hundred_calls_share_one_budget(app):
    """Σ ledger = Σ billed to the pico-dollar, the cap is never crossed, every attempt is one row."""
    opened(app, TIGHT)
    start = time.monotonic()
    workers = [started(app, 500, seed=n, mode="count", start=start) for n in range(8)]
    seen = [told(worker) for worker in workers]
    app.clock.at = NOON + timedelta(hours=2)
    router = opened(app, TIGHT)
    status, entries = router.status(), router.store.recent(10_000)
    made = sum(worker["made"] for worker in seen)
    assert pico(status.spent_usd) == sum(worker["billed"] for worker in seen)
    assert sum(e.row.amount for e in entries) == pico(status.spent_usd)
    assert status.calls == made == len(entries) == len({e.attempt for e in entries})
    assert {e.row.state for e in entries} == {"settled"}
    assert status.held_usd == 0.0
    assert max(worker["worst_seen"] for worker in seen) <= TIGHT
    assert status.spent_usd <= TIGHT
    assert made + sum(worker["refused"] for worker in seen) == 4000
    assert sum(worker["refused"] for worker in seen) > 0
    router.store.close()


@pytest.mark.slow
def test_killed_in_mid_call(app):
    """λ and spend are there; each hold becomes an unknown-usage charge when its lease is over."""
    opened(app, AMPLE)
    start = time.monotonic()
    workers = [started(app, 21, seed=n, mode="hang", start=start) for n in range(3)]
    hanging = [worker.stdout.readline().split()[-1] for worker in workers]
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    kept = json.loads(app.store.load_plan("test|all").value)["high"]
    app.clock.at = NOON + timedelta(seconds=(time.monotonic() - start) * 120)
    router = opened(app, AMPLE)
    before = router.status()
    assert (before.calls, before.estimated) == (63, 0)
    assert before.held_usd > 0
    assert json.loads(router.store.load_plan("test|all").value)["high"] > 0.1 * kept
    app.pass_time(minutes=16)
    after = router.status()
    charges = [router.store.find(decision)[0] for decision in hanging]
    assert {entry.row.state for entry in charges} == {"estimated"}
    extra = sum(entry.row.expected for entry in charges)
    assert pico(after.spent_usd) == pico(before.spent_usd) + extra
    assert after.spent_usd + after.held_usd == pytest.approx(before.spent_usd + before.held_usd)
    assert after.estimated == 3
    router.store.close()


@pytest.mark.slow
def test_killed_between_two_operations(app):
    """Every bill that the process saw settled is in the ledger; at most one call is unknown."""
    opened(app, AMPLE)
    start = time.monotonic()
    reported = 0
    for round_number in range(4):
        worker = started(app, 10_000, seed=round_number, mode="lines", start=start)
        lines = [int(worker.stdout.readline()) for _ in range(37)]
        worker.send_signal(signal.SIGKILL)
        rest, _ = worker.communicate()
        complete = rest.rsplit("\n", 1)[0].split()
        reported += sum(lines) + sum(map(int, complete))
    app.clock.at = NOON + timedelta(hours=6)
    router = opened(app, AMPLE)
    entries = router.store.recent(10_000)
    settled = sum(e.row.amount for e in entries if e.row.state == "settled")
    status = router.status()
    largest = 1024 * 4_000_000 + 200 * 1_000_000
    assert reported <= settled <= reported + 4 * largest
    unknown = [e for e in router.store.recent(10_000) if e.row.state != "settled"]
    assert len(unknown) <= 4
    assert pico(status.spent_usd) == sum(e.row.amount for e in router.store.recent(10_000))
    assert status.shadow_price > 0
    router.store.close()
