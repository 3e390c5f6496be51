"""What a ledger on disk survives: the faults of `benchmarks/faults.py`, each tried a few times.

`python benchmarks/faults.py` tries each hundreds of times.
"""

import os
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from helpers.world import asked

from budgetroute.records import Usage

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

BENCHMARKS = str(Path(__file__).resolve().parents[1] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import faultlab
    import faults
finally:
    sys.path.remove(BENCHMARKS)


@pytest.fixture
def lab(tmp_path):
    made = faultlab.Lab(tmp_path, luck=random.Random(7))
    made.folder.mkdir()
    return made


def openers(lab, times):
    """Wait as long as a busy machine needs: how long that is says the benchmark."""
    return faults.openers(lab, times, patience_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (faults.kill_nine, 25),
        (faults.cap_under_kills, 10),
        (faults.failing_writes, 10),
        (faults.read_only, 2),
        (faults.damaged_ledger, 10),
        (faults.damaged_plan, 6),
        (faults.stopped_writer, 1),
        (faults.stopped_opener, 1),
        (faults.suspended, 2),
        (faults.clock_leaps, 6),
        (faults.forks, 8),
        (openers, 200),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nothing_is_lost(lab, fault, times):
    """Every finished call is in the ledger once, sums are true, caps hold, λ is there."""
    assert fault(lab, times) == []


@pytest.mark.slow
def test_a_full_disk_loses_nothing(lab):
    """Refused calls leave no trace, and work goes on when there is room again."""
    try:
        assert faults.full_disk(lab, 3) == []
    except faults.NoRoomError as err:
        pytest.skip(str(err))


class TestTheJudge:
    """A judge that finds nothing proves nothing: each kind of loss is found when it is there."""

    @pytest.fixture
    def judged(self, lab):
        lab.prepare()
        store, journal = lab.store(), lab.journal("0000")
        for number in range(20):
            faultlab.spend(store, journal, f"n{number}#1", limit=lab.limit, luck=lab.luck)
        store.close()
        assert lab.judge() == []
        return lab

    @pytest.mark.parametrize(
        ("statement", "found"),
        [
            ("DELETE FROM attempts WHERE seq = 20", "is lost"),
            ("UPDATE attempts SET amount = 3 WHERE state = 'settled'", "was billed"),
            ("UPDATE sums SET settled = settled * 2", "its attempts make"),
            ("UPDATE sums SET settled = 1000000000000001", "its limit is"),
            (
                "UPDATE attempts SET state = 'held', closed_at = NULL, amount = 0",
                "the ledger has held",
            ),
        ],
    )
    def test_a_loss_is_found(self, judged, statement, found):
        """What was done and is not there, or counts otherwise."""
        with closing(sqlite3.connect(judged.ledger)) as ledger, ledger:
            assert ledger.execute(statement).rowcount
        assert any(found in text for text in judged.judge())

    def test_a_lost_plan_is_found(self, judged):
        """λ must outlive every fault that spares its folder."""
        (judged.folder / "plan" / "cache.db").unlink()
        assert judged.judge() == ["λ is lost"]


def test_a_bill_during_a_full_disk_is_kept_and_booked(disk_world):
    """The till keeps what the disk refuses, and books it when there is room again."""
    router = disk_world.router()
    decision = router.decide(asked())
    ledger = disk_world.store._ledger
    pages = ledger.read(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
    ledger.read(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    ledger.write(lambda db: db.execute("DELETE FROM arrivals"))
    usage = Usage(input_tokens=9, output_tokens=9, model="small" + "x" * 100_000)
    router.settle(decision, [usage])
    (slot,) = decision.slots
    assert disk_world.store.snapshot([slot])[0].held == decision.chosen.worst
    disk_world.store.close()  # forgets the limit on pages: there is room again
    router.till.book_pending()
    booked = disk_world.store.snapshot([slot])[0]
    assert (booked.held, booked.calls, booked.estimated) == (0, 1, 0)
    assert booked.settled > 0
