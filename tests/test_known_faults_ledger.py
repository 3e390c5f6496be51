"""Kinds of fault that ledgers elsewhere had, by public bug reports; each is tried here.

What other tests show already is not repeated: docs/known-faults.md says which test shows which kind.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.world import asked

from budgetroute import route
from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded, StoreError
from budgetroute.records import Ask, Balance, Bill, Grant, Limit, Option, Pins, Refusal, Slot, Usage
from budgetroute.stores import DiskStore, MemoryStore
from budgetroute.units import pico_from_usd

ROOT = Path(__file__).parents[1]
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SMALL = Pins(model="small", max_tokens=1024, cot=False)
DAY = Slot("test|all", "day:2026-03-04")


def usage(**more):
    return Usage(input_tokens=200, output_tokens=100, **{"model": "small"} | more)


def spent(router):
    return router.store.snapshot([DAY])[0]


class TestOneTruth:
    """Every process reads and writes the same sums, inside the transaction that admits."""

    @pytest.fixture
    def two(self, disk_world):
        """Two processes of one app, each with a store of its own on the same folder."""
        more = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0'
        stores = [DiskStore(disk_world.folder / "ledger", disk_world.clock) for _ in range(2)]
        yield [disk_world.router(store=s, budget="daily_usd = 0.001", more=more) for s in stores]
        for store in stores:
            store.close()

    def test_what_one_process_spends_the_others_next_call_sees(self, two):
        """No sums that are minutes old: the cap holds over both from one call to the next."""
        calls = []

        def call_in_turns():
            while True:
                router = two[len(calls) % 2]
                router.settle(router.decide(asked(pins=SMALL)), [usage()])
                calls.append(router)

        with pytest.raises(BudgetExceeded) as caught:
            call_in_turns()
        assert len(calls) > 4
        sums = spent(two[0])
        assert sums == spent(two[1])
        assert sums.settled <= pico_from_usd(0.001)
        assert caught.value.spent_usd == pytest.approx(sums.settled / 1e12)

    def test_nothing_stale_is_written_back(self, two):
        """A process that knew yesterday's sum does not put it over today's when it closes."""
        idle, busy = two
        idle.settle(idle.decide(asked(pins=SMALL)), [usage()])
        for _ in range(3):
            busy.settle(busy.decide(asked(pins=SMALL)), [usage()])
        after = spent(busy)
        idle.store.close()
        assert spent(busy) == after
        assert after.calls == 4

    def test_starting_again_counts_nothing_twice(self, disk_world):
        """Ten processes that start on a ledger add nothing to it."""
        first = disk_world.router()
        first.settle(first.decide(asked()), [usage()])
        before = spent(first)
        for _ in range(10):
            store = DiskStore(disk_world.folder / "ledger", disk_world.clock)
            assert spent(disk_world.router(store=store)) == before
            store.close()


class TestAdmission:
    """What cannot be held is not sent."""

    @pytest.mark.parametrize("kind", ["memory", "disk"])
    def test_a_limit_is_exact_to_the_last_digit(self, kind, tmp_path, clock):
        """Three times a tenth of a dollar fit into three tenths, and not a pico-dollar more."""
        store = MemoryStore(clock) if kind == "memory" else DiskStore(tmp_path / "s", clock)
        limit, tenth = pico_from_usd(0.3), pico_from_usd(0.1)

        def reserve(name, worst):
            ask = Ask(f"{name}#1", name, 0, 1, (Limit(DAY, limit),), (Option(worst, worst),))
            return store.reserve(ask)

        for name in "abc":
            assert isinstance(reserve(name, tenth), Grant)
            store.settle(Bill(f"{name}#1", name, 0, (DAY,), tenth, tenth, tenth))
        assert store.snapshot([DAY])[0].settled == limit
        assert isinstance(reserve("d", 1), Refusal)
        assert isinstance(reserve("e", 0), Grant)
        store.close()

    def test_a_hold_that_cannot_be_written_lets_no_call_through(self, disk_world):
        """Failing closed is not failing open: with a full disk the function is not called."""
        router = disk_world.router()
        router.settle(router.decide(asked()), [usage()])
        called = []

        @route(router=router)
        def answer(question, *, model="small", max_tokens=1024):
            called.append(model)
            return {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}

        ledger = disk_world.store._ledger
        pages = ledger.read(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        ledger.read(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())
        with pytest.raises(StoreError, match="disk is full"):
            [answer("why?") for _ in range(50)]
        before = spent(router)
        assert before.calls == len(called) + 1
        with pytest.raises(StoreError):
            answer("why?")
        assert spent(router) == before

    def test_many_at_once_do_not_all_pass_before_the_first_is_counted(self, any_world):
        """Forty threads race for money that holds a few: no more than that are granted."""
        router = any_world.router(budget="daily_usd = 0.002")
        barrier, granted = threading.Barrier(40), []

        def call():
            barrier.wait()
            with suppress(BudgetExceeded):
                granted.append(router.decide(asked(pins=SMALL)))

        threads = [threading.Thread(target=call) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        held = spent(router).held
        assert 0 < len(granted) < 40
        assert held == sum(decision.chosen.worst for decision in granted) <= pico_from_usd(0.002)


class TestBooking:
    """A bill is booked once, at once, whatever it says."""

    def test_an_event_that_comes_twice_is_booked_once(self, any_world):
        """Eight threads settle one call at the same moment; one of them books it."""
        router = any_world.router()
        decision = router.decide(asked())
        barrier, told = threading.Barrier(8), []

        def settle():
            barrier.wait()
            told.append(router.settle(decision, [usage()]).repeated)

        threads = [threading.Thread(target=settle) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [False] + [True] * 7
        assert spent(router).calls == 1

    def test_the_bill_of_a_model_without_a_price_is_booked_and_frees_its_hold(self, any_world):
        """Whoever answered: the hold is not left behind, and the call is not free."""
        router = any_world.router()
        decision = router.decide(asked(pins=SMALL))
        settlement = router.settle(decision, [usage(model="never-heard-of")])
        assert settlement.amount > 0
        assert spent(router) == Balance(settled=settlement.amount, calls=1)

    @pytest.mark.slow
    def test_a_bill_is_in_the_ledger_before_the_call_returns(self, tmp_path):
        """A process that ends without any farewell right after its calls has booked them all."""
        script = (
            "import asyncio, os, sys\n"
            "from budgetroute import Router, route\n"
            "router = Router.from_config(overrides={'name': 'app', 'store.path': sys.argv[1],\n"
            "                                       'budget.daily_usd': 100.0})\n"
            "@route(router=router)\n"
            "async def ask(question, *, model='gpt-4o-mini', max_tokens=256):\n"
            "    await asyncio.sleep(0)\n"
            "    return {'model': model, 'usage': {'prompt_tokens': 9, 'completion_tokens': 9}}\n"
            "async def main():\n"
            "    await asyncio.gather(*(ask('why?') for _ in range(100)))\n"
            "asyncio.run(main())\n"
            "os._exit(0)\n"
        )
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", script, str(tmp_path / "store")]
        subprocess.run(command, check=True, timeout=120, env=environment, cwd=tmp_path)
        store = DiskStore(tmp_path / "store", ManualClock(NOON))
        (sums,) = store.history("app|all").values()
        store.close()
        assert (sums.calls, sums.held, sums.estimated) == (100, 0, 0)
        assert sums.settled > 0


class TestLeases:
    """A lease that ends under a call that still runs changes nothing that anyone goes by."""

    def test_neither_the_cap_nor_the_pacers_money_moves(self, any_world):
        """Booked as estimated, the call weighs what it weighed; so a stream needs no renewal."""
        router = any_world.router()
        decision = router.decide(asked(timeout_s=1.0))
        before = spent(router)
        any_world.pass_time(hours=3)
        assert router.store.sweep(10**18) == 1
        after = spent(router)
        assert after.settled + after.held == before.held == decision.chosen.worst
        assert after.settled + after.expected == before.expected
        router.settle(decision, [usage()])
        assert spent(router).held == 0
        assert spent(router).estimated == 0

    def test_a_call_that_turns_out_free_after_its_lease_frees_its_money(self, any_world):
        """A provider that kept a call waiting and then refused it has cost nothing."""
        router = any_world.router()
        decision = router.decide(asked(timeout_s=1.0))
        router.store.sweep(10**18)
        router.release(decision)
        assert spent(router) == Balance()


# the table

PAGE = ROOT / "docs" / "known-faults.md"
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)


def test_every_kind_of_fault_has_an_answer():
    """The page has each of the 53, with a test or a reason why it cannot occur."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert [int(number) for number, *_ in rows] == list(range(1, 54))
    for number, _, here, test in rows:
        assert test.strip() or here.strip().endswith("(cannot occur)"), number


def test_every_test_that_the_page_names_exists():
    """No test is named that was renamed or removed."""
    named = re.findall(r"`(test_\w+|store_contract)\.py::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 50
    for module, test in named:
        text = (ROOT / "tests" / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {test}(" in text, f"{module}::{test}"
