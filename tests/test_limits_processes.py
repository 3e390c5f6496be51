"""Real processes on one disk store: no scope's cap is crossed, each warning comes to one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.limits_worker import NOON, TEAMS, USERS
from helpers.world import World

from budgetroute.clock import ManualClock
from budgetroute.stores import DiskStore

WORKER = Path(__file__).parent / "helpers" / "limits_worker.py"
MODELS = """
[models.small]
price = { input = 0.1, output = 0.4 }
[models.mid]
price = { input = 1.0, output = 4.0 }
"""
LIMITS = """
[limits.users]
per = "user"
daily_usd = 0.004
monthly_usd = 0.003
warn = [0.5, 0.8, 1.0]
[limits.ads]
match = { team = "ads" }
weekly_usd = 0.003
warn = [0.5, 1.0]
[limits.told]
match = { team = "hr" }
daily_usd = 0.001
soft = true
warn = 0.5
"""


def opened(folder):
    """A router on the folder's store, as a process that has just started has."""
    clock = ManualClock(NOON)
    world = World(folder, clock, DiskStore(folder / "s", clock))
    budget = "daily_usd = 0.012\ncalls_per_day = 2000\nwarn = [0.5, 0.8, 1.0]"
    return world.router(budget=budget, models=MODELS, more=LIMITS)


def run_workers(folder, count, *, seeds):
    """Start a worker per seed and return what each told."""
    pipe = subprocess.PIPE
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), str(count), str(seed)],
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for seed in seeds
    ]
    told = [worker.communicate(timeout=120) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(seeds), told
    return [json.loads(out) for out, _ in told]


@pytest.mark.slow
def test_eight_processes_cross_no_scope_and_warn_once(tmp_path):
    """Every cap holds in every scope, to the pico-dollar; every warning comes once, restarts or not."""
    opened(tmp_path).store.close()
    seen = run_workers(tmp_path, 45, seeds=range(8))
    seen += run_workers(tmp_path, 60, seeds=[8, 9])
    billed, refused = Counter(), Counter()
    for worker in seen:
        billed.update(worker["billed"])
        refused.update(worker["refused"])
    router = opened(tmp_path)
    for user in USERS:
        for limit in router.limits(tags={"user": user}):
            if limit.name == "users":
                assert round(limit.spent_usd * 1e12) == billed[user]
                assert limit.spent_usd + limit.held_usd <= limit.limit_usd
    for team in TEAMS:
        limit = next(x for x in router.limits(tags={"team": team}) if x.name in {"ads", "told"})
        assert round(limit.spent_usd * 1e12) == billed[team]
        assert limit.is_soft or limit.spent_usd <= limit.limit_usd
    assert billed["all"] <= 0.012e12
    assert refused["users"] > 0 < refused["ads"]
    warned = Counter(tuple(warning) for worker in seen for warning in worker["warned"])
    assert set(warned.values()) == {1}
    for user in USERS:
        assert warned["users", "month", 0.5, user] == warned["users", "month", 0.8, user] == 1
    assert warned["told", "day", 0.5, None] == warned["told", "day", 1.0, None] == 1
    assert warned["day", "day", 0.5, None] == 1
    router.store.close()
