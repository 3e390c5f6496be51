"""Fixtures for all tests: a private environment, a clock, and worlds to route in."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import `helpers`

from helpers.world import World

from budgetroute.calls import set_default_router
from budgetroute.clock import ManualClock
from budgetroute.stores import DiskStore, MemoryStore

collect_ignore = ["helpers/inspect_run.py"]  # runs a tool that need not be installed

settings.register_profile(  # the same on every machine, however busy it is
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def pytest_configure():
    """Let asserts in shared contracts explain themselves."""
    pytest.register_assert_rewrite("tests.store_contract")


@pytest.fixture(autouse=True)
def _private_environment(tmp_path_factory, monkeypatch):
    """Keep the user's home, settings and default router out of the tests."""
    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("BUDGETROUTE")]:
        monkeypatch.delenv(name)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    yield
    set_default_router(None)
    root = logging.getLogger("budgetroute")
    root.setLevel(logging.NOTSET)
    for handler in [h for h in root.handlers if getattr(h, "budgetroute", False)]:
        root.removeHandler(handler)


@pytest.fixture
def clock():
    """A clock that stands at noon UTC until it is moved."""
    return ManualClock(NOON)


@pytest.fixture
def world(tmp_path, clock):
    """A folder with a tiny profile and made-up prices, over a store in memory."""
    return World(tmp_path, clock, MemoryStore(clock))


@pytest.fixture(params=["memory", "disk"])
def any_world(request, tmp_path, clock):
    """The same over each kind of store."""
    store = MemoryStore(clock) if request.param == "memory" else DiskStore(tmp_path / "s", clock)
    yield World(tmp_path, clock, store)
    store.close()


@pytest.fixture
def disk_world(tmp_path, clock):
    """The same over a store on disk, in the folder `ledger`."""
    store = DiskStore(tmp_path / "ledger", clock)
    yield World(tmp_path, clock, store)
    store.close()
