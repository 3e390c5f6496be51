"""The stores: one contract for all, and each step of one against each step of the other."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from budgetroute.clock import ManualClock
from budgetroute.errors import StoreError
from budgetroute.records import Arrival, Balance, Limit, Slot
from budgetroute.stores import DiskStore, MemoryStore, open_store, retention
from tests.store_contract import AT, DAY, DAYS, NOON, StoreContract, ask, bill


@pytest.fixture
def clock():
    return ManualClock(NOON)


@pytest.fixture
def disk(tmp_path, clock):
    store = DiskStore(tmp_path / "store", clock)
    yield store
    store.close()


class TestMemoryStore(StoreContract):
    """The store in memory."""

    @pytest.fixture
    def store(self, clock):
        return MemoryStore(clock)


class TestDiskStore(StoreContract):
    """The store on disk."""

    @pytest.fixture
    def store(self, disk):
        return disk


def test_replay_can_bound_the_memory(clock):
    """With keep_closed only the newest closed attempts are remembered, and every hold."""
    store = MemoryStore(clock, keep_closed=2)
    for number in range(5):
        store.reserve(ask(f"d{number}#1", limits=[Limit(DAY, None)]))
    for number in (3, 0, 1, 4):
        store.settle(bill(f"d{number}#1"))
    assert {entry.attempt for entry in store.recent(9)} == {"d1#1", "d2#1", "d4#1"}
    assert store.snapshot([DAY])[0] == Balance(28, 100, 10, 5)


def test_a_correction_counts_as_newest(clock):
    """An estimate that is corrected is remembered anew, not twice."""
    store = MemoryStore(clock, keep_closed=2)
    for name in ("a#1", "b#1"):
        store.reserve(ask(name))
        store.settle(bill(name, billed=None))
    store.settle(bill("a#1"))
    store.reserve(ask("c#1"))
    store.settle(bill("c#1"))
    assert {entry.attempt for entry in store.recent(9)} == {"a#1", "c#1"}


def test_nothing_is_opened_before_it_is_used(tmp_path, clock):
    """Making a store touches no file."""
    DiskStore(tmp_path / "store", clock)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_was_never_written_makes_no_folder(disk):
    """Reading is not writing."""
    assert disk.load_plan("app").version == 0
    assert not (disk.path / "plan").exists()


def test_the_ledger_outlives_its_store(tmp_path, clock):
    """Another store at the same path carries on: sums, rows, arrivals and plan."""
    first = DiskStore(tmp_path / "store", clock)
    first.reserve(ask(arrival=Arrival("g", "b")))
    first.save_plan("app", "a", expected_version=0)
    first.close()
    second = DiskStore(str(tmp_path / "store"), clock)
    assert second.settle(bill()).balances[0] == Balance(settled=7, calls=1)
    assert second.arrivals("") == {("g", "b"): 1}
    assert second.load_plan("app").value == "a"
    second.close()


def test_the_key_of_scopes_is_private_and_shared(tmp_path, clock):
    """`scopes.key` is readable by its owner only; every store of the folder has the same key."""
    one, two = (DiskStore(tmp_path / "store", clock) for _ in range(2))
    assert one.scope_key() == two.scope_key()
    assert stat.S_IMODE((tmp_path / "store" / "scopes.key").stat().st_mode) == 0o600
    assert MemoryStore(clock).scope_key() != MemoryStore(clock).scope_key()


def test_a_lost_key_of_scopes_is_told(tmp_path, clock, caplog):
    """Where sums were counted under another key, a warning says that they start from zero."""
    store = DiskStore(tmp_path / "store", clock)
    store.scope_key()
    store.close()
    assert caplog.text == ""
    store.reserve(ask(limits=[Limit(Slot("app|limit:a#1", "total"), None)]))
    (tmp_path / "store" / "scopes.key").unlink()
    fresh = DiskStore(tmp_path / "store", clock)
    fresh.scope_key()
    assert "start from zero" in caplog.text
    fresh.close()
    store.close()


@pytest.mark.parametrize("damage", ["", "abc", "zz" * 32, "00" * 31])
def test_a_damaged_key_of_scopes_is_never_replaced(tmp_path, clock, damage):
    """Users' sums would start from zero under another key: it is an error that says so."""
    store = DiskStore(tmp_path / "store", clock)
    store.scope_key()
    store.close()
    (tmp_path / "store" / "scopes.key").write_text(damage)
    with pytest.raises(StoreError, match="start from zero"):
        DiskStore(tmp_path / "store", clock).scope_key()


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_earlier_schema_is_brought_up_to_date(tmp_path, clock, version):
    """What is in it stays, marks can be set, and attempts can be dropped."""
    first = DiskStore(tmp_path / "store", clock)
    first.reserve(ask())
    first.close()
    with closing(sqlite3.connect(tmp_path / "store" / "ledger.db")) as ledger:
        ledger.executescript("DROP TABLE carried; DROP TABLE elapsed; PRAGMA user_version = 2;")
        if version == 1:
            drop = "DROP TABLE marks; DROP INDEX sums_of_many; PRAGMA user_version = 1;"
            ledger.executescript(drop)
    second = DiskStore(tmp_path / "store", clock)
    assert second.snapshot([DAY])[0].held == 100
    assert second.mark(DAY, "warn:1")
    for days in (1, 40, 80):
        second.sweep(AT + days * DAYS)
    assert second.recent(9) == ()
    assert second.snapshot([DAY])[0].settled == 10
    second.close()


def test_what_outlived_its_use_is_found_by_an_index(disk):
    """A million users' sums are not read to find those that can go."""
    disk.reserve(ask())
    disk.close()
    with closing(sqlite3.connect(disk.path / "ledger.db")) as ledger:
        tables = ("sums", "marks", "carried")
        drops = [retention._DROP_OUTLIVED.format(table=table) for table in tables]
        for query in (retention._OUTLIVED, *drops):
            values = ("day:", "day:2026-11-01", 5)[: query.count("?")]
            plan = " ".join(row[3] for row in ledger.execute(f"EXPLAIN QUERY PLAN {query}", values))
            assert "_of_many (period>? AND period<?)" in plan, plan


def test_two_stores_in_one_process_see_each_other(tmp_path, clock):
    """What one writes the other reads at once."""
    one, two = (DiskStore(tmp_path / "store", clock) for _ in range(2))
    one.reserve(ask())
    assert two.snapshot([DAY])[0].held == 100
    two.save_plan("app", "a", expected_version=0)
    assert one.load_plan("app").version == 1
    assert not one.save_plan("app", "b", expected_version=0)
    one.close()
    two.close()


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.parametrize("umask", [0o000, 0o277])
def test_files_are_private_whatever_the_umask(tmp_path, clock, umask):
    """Folders are 0700 and files 0600, the write-ahead logs too."""
    before = os.umask(umask)
    try:
        store = DiskStore(tmp_path / "deep" / "store", clock) if umask == 0 else None
        store = store or DiskStore(tmp_path / "store", clock)
        store.reserve(ask())
        store.save_plan("app", "a", expected_version=0)
        store.load_plan("app")
    finally:
        os.umask(before)
    found = {
        str(path.relative_to(store.path)): stat.S_IMODE(path.stat().st_mode)
        for path in [store.path, *store.path.rglob("*")]
    }
    store.close()
    folders = {".", "plan"}
    assert {"ledger.db", "ledger.db-wal", "plan/cache.db", "plan/cache.db-wal"} <= found.keys()
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}


def test_open_store_knows_paths_and_memory(tmp_path, clock):
    """A path is a folder on disk, `memory:` is memory."""
    assert isinstance(open_store("memory:", clock), MemoryStore)
    store = open_store(str(tmp_path / "store"), clock)
    assert isinstance(store, DiskStore)
    assert store.path == tmp_path / "store"


def test_open_store_expands_home(monkeypatch, tmp_path, clock):
    """`~` is the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert open_store("~/state", clock).path == tmp_path / "state"


@pytest.mark.parametrize("where", ["redis://localhost:6379/0", "", "  "])
def test_open_store_says_what_to_write(where, clock):
    """A store that does not exist is an error with the line to write instead."""
    with pytest.raises(StoreError, match=r"Write \[store\] path = "):
        open_store(where, clock)


def test_the_log_is_checkpointed(disk, monkeypatch):
    """The write-ahead log does not grow for ever; nothing is lost when it is emptied."""
    monkeypatch.setattr("budgetroute.stores.checkpoints.CHECKPOINT_BYTES", 64 * 1024)
    wal = disk.path / "ledger.db-wal"
    sizes = []
    for number in range(200):
        disk.reserve(ask(f"d{number}#1", (1, 1), record="x" * 1000))
        sizes.append(wal.stat().st_size)
    assert max(sizes) == sizes[-1] < 64 * 1024 + 16 * 40 * 1024 < 200 * 10_000
    assert sizes.count(sizes[-1]) > 20  # it keeps its size and starts over
    assert disk.snapshot([DAY])[0].held == 200
    assert len(disk.recent(999)) == 200
