"""What the disk store does when files, disks and neighbours misbehave."""

import logging
import os
import pickle
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from budgetroute.clock import ManualClock
from budgetroute.errors import StoreError
from budgetroute.records import Balance, Limit, Refusal, StoredPlan
from budgetroute.stores import DiskStore, filesystem_of, paths, wal_reset_bug
from tests.store_contract import DAY, NOON, USER, ask, bill

SETTLED = Balance(settled=7, calls=1)


@pytest.fixture
def clock():
    return ManualClock(NOON)


@pytest.fixture
def store(tmp_path, clock):
    opened = DiskStore(tmp_path / "store", clock, patience_s=0.05)
    yield opened
    opened.close()


@pytest.fixture
def spent(store):
    """A closed store with one settled and one held call."""
    store.reserve(ask("d#1"))
    store.settle(bill("d#1"))
    store.reserve(ask("e#1"))
    store.close()
    return store


def overwrite(path, offset, content):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def warnings_in(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


# a damaged ledger


def test_a_ledger_without_its_header_is_set_aside(spent, caplog):
    """The file is kept under another name, the message says what is lost, and work goes on."""
    overwrite(spent.path / "ledger.db", 0, bytes(100))
    assert isinstance(spent.reserve(ask("f#1")).index, int)
    (message,) = warnings_in(caplog)
    moved = spent.path / "ledger.db.corrupt-20261129T120000Z"
    assert moved.exists()
    assert str(moved) in message
    assert "Lost too: all sums" in message
    assert spent.snapshot([DAY]) == (Balance(held=100, expected=10, calls=1),)


def test_the_bill_of_a_lost_hold_is_booked(spent):
    """A call in flight while its ledger was lost counts in the new one."""
    overwrite(spent.path / "ledger.db", 0, bytes(100))
    assert spent.settle(bill("e#1")).balances == (SETTLED, SETTLED)


def test_sums_are_carried_out_of_a_damaged_ledger(spent, caplog):
    """When only attempts are damaged, what was spent and held still counts against the limits."""
    damage_table(spent.path / "ledger.db", "attempts")
    assert spent.settle(bill("new#1")).balances[0] == Balance(14, 100, 0, 3, 0)
    (message,) = warnings_in(caplog)
    assert "Kept: 2 sums" in message
    assert isinstance(spent.reserve(ask("f#1", (900, 1))), Refusal)


def damage_table(path, table):
    with closing(sqlite3.connect(path)) as ledger:
        (size,) = ledger.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = ?"
        roots = [root for (root,) in ledger.execute(query, (table,))]
    for root in roots:
        overwrite(path, (root - 1) * size, b"\xff" * size)


def test_damaged_sums_are_not_believed(spent, caplog):
    """Sums that cannot be read are reported as lost."""
    damage_table(spent.path / "ledger.db", "sums")
    assert spent.snapshot([DAY]) == (Balance(),)
    assert "Lost too: all sums" in warnings_in(caplog)[0]


def test_the_logs_move_with_their_ledger(spent, clock):
    """A write-ahead log that others still have open must not be replayed into the new file."""
    other = DiskStore(spent.path, clock)
    other.reserve(ask("f#1"))
    overwrite(spent.path / "ledger.db", 0, bytes(100))
    spent.reserve(ask("g#1"))
    assert len(spent.recent(9)) == 1
    moved = spent.path / "ledger.db.corrupt-20261129T120000Z"
    assert moved.with_name(moved.name + "-wal").stat().st_size > 0
    assert [entry.attempt for entry in other.recent(9)] == ["g#1"]
    other.close()


def test_two_damaged_ledgers_in_one_second_are_both_kept(spent):
    """Nothing that was set aside is ever overwritten."""
    for _ in range(2):
        overwrite(spent.path / "ledger.db", 0, bytes(100))
        spent.reserve(ask())
        spent.close()
    kept = sorted(path.name for path in spent.path.glob("ledger.db.corrupt-*"))
    mark = "ledger.db.corrupt-20261129T120000Z"
    assert [name for name in kept if not name.endswith(("-wal", "-shm"))] == [mark, f"{mark}-2"]


def test_who_has_the_old_ledger_open_moves_to_the_new_one(spent, clock, caplog):
    """Another process that set the file aside is followed at the next operation."""
    other = DiskStore(spent.path, clock)
    other.snapshot([DAY])
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (spent.path / name).rename(spent.path / f"aside-{name}")
    spent.reserve(ask("new#1"))
    assert [entry.attempt for entry in other.recent(9)] == ["new#1"]
    assert "removed or replaced" in warnings_in(caplog)[0]
    other.close()
    assert [entry.attempt for entry in spent.recent(9)] == ["new#1"]


def test_a_folder_that_was_deleted_is_made_again(store):
    """rm -rf while the store is open starts a new ledger and plan."""
    store.reserve(ask())
    store.save_plan("app", "a", expected_version=0)
    store.load_plan("app")
    shutil.rmtree(store.path)
    assert store.load_plan("app") == StoredPlan(None, 0)
    assert store.snapshot([DAY]) == (Balance(),)
    assert store.save_plan("app", "b", expected_version=0)
    assert store.load_plan("app") == StoredPlan("b", 1)


# a ledger that is not ours to touch


def test_a_later_schema_is_refused(spent):
    """A ledger of a later version stays where it is; the error says what to do."""
    with closing(sqlite3.connect(spent.path / "ledger.db")) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"ledger\.db has schema 99.*Upgrade") as caught:
        spent.reserve(ask("f#1"))
    assert not caught.value.retryable
    assert not list(spent.path.glob("*corrupt*"))


def test_another_programs_database_is_refused(store):
    """A SQLite file that is no ledger is left alone."""
    store.path.mkdir()
    with closing(sqlite3.connect(store.path / "ledger.db")) as other:
        other.execute("CREATE TABLE songs (title)")
    with pytest.raises(StoreError, match="not a ledger"):
        store.reserve(ask())


# places that cannot hold a store


def test_a_path_that_is_a_file_is_refused(tmp_path, clock):
    """The error names the path and what was found."""
    (tmp_path / "store").write_text("x")
    with pytest.raises(StoreError, match=r"store is a file, not a folder"):
        DiskStore(tmp_path / "store", clock).reserve(ask())


def test_a_ledger_that_is_a_folder_is_refused(store):
    """So is something else where the ledger should be."""
    (store.path / "ledger.db").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"ledger\.db: it cannot be opened"):
        store.reserve(ask())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody can write")
def test_a_folder_that_cannot_be_made_is_refused(clock):
    """The error says what the system said."""
    with pytest.raises(StoreError, match=r"/proc/budgetroute cannot be made: .*Set \[store\] path"):
        DiskStore("/proc/budgetroute", clock).reserve(ask())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="changes the user of a forked child")
@pytest.mark.parametrize("rights", [0o555, 0o000])
def test_a_folder_without_rights_is_refused(clock, rights):
    """A folder or ledger that this user may not write is an error, not a crash."""
    parent = Path(tempfile.mkdtemp())
    try:
        parent.chmod(0o755)
        folder = parent / "store"
        folder.mkdir()
        folder.chmod(rights)
        assert as_nobody(lambda: DiskStore(folder, clock).reserve(ask())) == "StoreError False"
    finally:
        shutil.rmtree(parent)


def test_a_ledger_of_another_user_is_refused(clock):
    """A ledger that may be read but not written is an error that names it."""
    parent = Path(tempfile.mkdtemp())
    try:
        parent.chmod(0o777)
        store = DiskStore(parent / "store", clock)
        store.reserve(ask())
        store.close()
        (parent / "store").chmod(0o777)
        (parent / "store" / "ledger.lock").chmod(0o666)
        (parent / "store" / "ledger.db").chmod(0o444)
        assert as_nobody(lambda: store.reserve(ask("e#1"))) == "StoreError False"
    finally:
        shutil.rmtree(parent)


def as_nobody(work):
    """Run `work` in a child without root's rights; return the error it raised and `retryable`."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
            os.write(write, b"nothing was raised")
        except Exception as err:  # noqa: BLE001 - reported to the parent
            os.write(write, f"{type(err).__name__} {getattr(err, 'retryable', err)}".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    answer = os.read(read, 9999).decode()
    os.close(read)
    return answer


def test_a_full_disk_is_an_error_and_changes_nothing(spent):
    """The operation fails as a whole; when there is room again, the ledger is as it was."""
    ledger = spent._ledger
    (pages,) = ledger.read(lambda db: db.execute("PRAGMA page_count").fetchone())
    ledger.read(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    before = spent.snapshot([DAY, USER])
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        spent.reserve(ask("big#1", record="x" * 100_000))
    assert spent.snapshot([DAY, USER]) == before
    spent.close()
    assert spent.reserve(ask("big#1", record="x" * 100_000)).index == 0


def test_a_folder_others_can_write_is_reported(tmp_path, clock, caplog):
    """A shared folder works, with a warning that says how to close it."""
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o777)
    store = DiskStore(folder, clock)
    store.reserve(ask())
    store.close()
    assert "chmod 700" in warnings_in(caplog)[0]


# file systems

MOUNTS = """\
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
30 22 0:44 / {folder} rw,relatime shared:7 - {kind} server:/export rw
31 22 0:45 / /with\\040space rw - tmpfs tmpfs rw
32 30 0:46 / {folder}/local rw - xfs /dev/vdb rw
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    """Pretend that tmp_path is a mount of some kind."""

    def pretend(kind):
        table = tmp_path / "mountinfo"
        table.write_text(MOUNTS.format(folder=os.path.realpath(tmp_path), kind=kind))
        monkeypatch.setattr(paths, "_MOUNTS", table)

    return pretend


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_network_file_systems_are_refused(mounts, store, kind):
    """No file is touched where SQLite's locks do not hold."""
    mounts(kind)
    with pytest.raises(StoreError, match=rf"network file system \({kind}\)"):
        store.reserve(ask())
    with pytest.raises(StoreError, match="network file system"):
        store.save_plan("app", "a", expected_version=0)
    assert not store.path.exists()


def test_the_innermost_mount_counts(mounts, tmp_path):
    """A local disk mounted below a network one is local, and the other way round."""
    mounts("nfs4")
    assert filesystem_of(tmp_path / "a" / "b") == "nfs4"
    assert filesystem_of(tmp_path / "local" / "b") == "xfs"
    assert filesystem_of(f"{tmp_path}-sibling") == "ext4"
    assert filesystem_of("/with space/x") == "tmpfs"


def test_a_system_without_a_mount_table_is_unknown(monkeypatch, tmp_path, store):
    """Where the file system cannot be told, the store works."""
    monkeypatch.setattr(paths, "_MOUNTS", tmp_path / "none")
    assert filesystem_of(tmp_path) is None
    assert store.reserve(ask()).index == 0


# neighbours


def test_a_locked_ledger_is_retryable(spent, clock):
    """Who holds the ledger for too long causes a retryable error; later all is well."""
    spent.snapshot([DAY])
    with closing(sqlite3.connect(spent.path / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(StoreError, match="another process for 0\\.05 s") as caught:
            spent.reserve(ask("f#1"))
        assert 0.05 <= time.monotonic() - began < 1
        assert caught.value.retryable
        assert spent.snapshot([DAY])[0].calls == 2  # readers are not kept waiting
        other.execute("ROLLBACK")
    assert spent.reserve(ask("f#1")).index == 0


def test_a_locked_plan_is_retryable(store):
    """So is a plan that cannot be written; it can be read meanwhile."""
    store.save_plan("app", "a", expected_version=0)
    path = store.path / "plan" / "cache.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another process") as caught:
            store.save_plan("app", "b", expected_version=1)
        assert caught.value.retryable
        assert store.load_plan("app").value == "a"
        other.execute("ROLLBACK")
    assert store.save_plan("app", "b", expected_version=1)


@pytest.mark.parametrize("worst", [2**63, 10**30])
def test_an_amount_beyond_64_bits_is_refused(store, worst):
    """It is an error, never a float."""
    with pytest.raises(StoreError, match="does not fit 64 bits"):
        store.reserve(ask("d#1", (worst, 1), limits=[Limit(DAY, None)]))
    assert store.recent(9) == ()


def test_a_sum_beyond_64_bits_is_refused(store):
    """The operation that would overflow changes nothing."""
    limits = [Limit(DAY, None)]
    store.reserve(ask("d#1", (2**62, 1), limits=limits))
    before = store.snapshot([DAY])
    with pytest.raises(StoreError, match="does not fit 64 bits"):
        store.reserve(ask("e#1", (2**62, 1), limits=limits))
    assert store.snapshot([DAY]) == before
    assert len(store.recent(9)) == 1


def test_an_interrupt_rolls_back(store, monkeypatch):
    """Ctrl-C in the middle of an operation leaves nothing half done, and no lock."""

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("budgetroute.stores.rows.add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.reserve(ask())
    assert store.recent(9) == ()
    assert store.reserve(ask()).index == 0


def test_a_connection_from_before_an_unseen_fork_is_left_alone(store):
    """A server that forks in C inherits the connection: it is neither used nor closed."""
    store.reserve(ask("d#1"))
    shared = store._ledger._shared
    inherited, shared._pid = shared.ready(), -1
    assert store.reserve(ask("e#1")).balances[0].calls == 2
    assert shared.ready() is not inherited
    assert inherited.execute("SELECT count(*) FROM attempts").fetchone() == (2,)
    inherited.close()


def test_a_ledger_that_another_process_set_aside_first_is_set_aside_once(spent, monkeypatch):
    """Of two processes that find the damage, the second one finds the new ledger."""
    overwrite(spent.path / "ledger.db", 0, bytes(100))
    locked, uses = paths.locked, []

    def neighbour_is_first(path, **patience):
        uses.append(path)
        if len(uses) == 2:  # the first use opens the damaged file, the second wants to move it
            (spent.path / "ledger.db").rename(spent.path / "ledger.db.corrupt-neighbour")
        return locked(path, **patience)

    monkeypatch.setattr("budgetroute.stores.ledger.locked", neighbour_is_first)
    assert spent.reserve(ask("f#1")).index == 0
    names = [path.name for path in spent.path.glob("*corrupt*")]
    assert names == ["ledger.db.corrupt-neighbour"]


def test_an_old_sqlite_is_refused(store, monkeypatch):
    """The error names the version that is needed and the one that was found."""
    monkeypatch.setattr("budgetroute.stores.ledger._OLDEST_SQLITE", (99, 0, 0))
    with pytest.raises(StoreError, match=rf"3\.35 or later.*{sqlite3.sqlite_version}"):
        store.reserve(ask())


def test_a_transaction_that_an_interrupt_left_open_is_undone(store):
    """Even an interrupt between two statements of ours does not block the next operation."""
    store.reserve(ask("d#1"))
    store._ledger._shared.ready().execute("BEGIN IMMEDIATE")
    assert store.snapshot([DAY])[0].calls == 1
    store._ledger._shared.ready().execute("BEGIN")
    assert store.reserve(ask("e#1")).index == 0


# SQLite itself


@pytest.mark.parametrize(
    ("version", "bad"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
    ],
)
def test_versions_with_the_wal_reset_bug(version, bad):
    """3.7.0 to 3.51.2, without the patched branches."""
    assert wal_reset_bug(version) is bad


def test_this_sqlite_is_judged_by_its_version():
    """Without an argument the running SQLite is meant."""
    assert wal_reset_bug() is wal_reset_bug(sqlite3.sqlite_version_info)


def test_no_writer_runs_beside_a_checkpoint(store, monkeypatch):
    """While a log is copied the write lock is held, so that the log cannot restart under it."""
    seen = []

    def watch(path):
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as err:
                seen.append(str(err))

    monkeypatch.setattr("budgetroute.stores.checkpoints.CHECKPOINT_BYTES", 0)
    monkeypatch.setattr("budgetroute.stores.checkpoints.checkpoint", watch)
    for number in range(16):
        store.reserve(ask(f"d{number}#1", (1, 1)))
    assert seen == ["database is locked"]


def test_sqlite_never_checkpoints_by_itself(store):
    """Its own checkpoints would run without the lock."""
    read = store._ledger.read
    assert read(lambda db: db.execute("PRAGMA wal_autocheckpoint").fetchone()) == (0,)
    store.save_plan("app", "a", expected_version=0)
    cache = store._plans._opened_cache()
    assert cache.sqlite_wal_autocheckpoint == 0
    cache.close()


def test_a_checkpoint_that_fails_costs_nothing(store, monkeypatch, caplog):
    """The commit before it stands, and the failure is logged."""

    def fail(path):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("budgetroute.stores.checkpoints.CHECKPOINT_BYTES", 0)
    monkeypatch.setattr("budgetroute.stores.checkpoints.checkpoint", fail)
    for number in range(16):
        store.reserve(ask(f"d{number}#1", (1, 1)))
    assert len(store.recent(99)) == 16
    assert "could not be checkpointed" in warnings_in(caplog)[0]


# the plan


class Trap:
    """A pickle that would leave a mark when read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def plant(store, **columns):
    """Change the row of a plan behind the store's back."""
    with closing(sqlite3.connect(store.path / "plan" / "cache.db")) as cache, cache:
        for name, value in columns.items():
            cache.execute(f"UPDATE Cache SET {name} = ?", (value,))  # noqa: S608 - a test's own


@pytest.mark.parametrize("operation", ["load", "save"])
def test_a_planted_pickle_is_never_run(store, tmp_path, caplog, operation):
    """The plan folder is set aside, and nothing in it is executed."""
    store.save_plan("app", "a", expected_version=0)
    mark = tmp_path / "was-here"
    plant(store, mode=4, value=pickle.dumps(Trap(mark)))
    if operation == "load":
        assert store.load_plan("app") == StoredPlan(None, 0)
    else:
        assert not store.save_plan("app", "b", expected_version=1)
    assert not mark.exists()
    assert (store.path / "plan.corrupt-20261129T120000Z").is_dir()
    assert "the shadow price" in warnings_in(caplog)[0]
    assert store.save_plan("app", "c", expected_version=0)
    assert store.load_plan("app") == StoredPlan("c", 1)


@pytest.mark.parametrize("value", ["no version", "x\nplan", 7, b"1\nbytes"])
def test_a_plan_that_is_none_is_set_aside(store, value):
    """Content that budgetroute never writes is not interpreted."""
    store.save_plan("app", "a", expected_version=0)
    plant(store, value=value)
    assert store.load_plan("app") == StoredPlan(None, 0)
    assert list(store.path.glob("plan.corrupt-*"))


@pytest.mark.parametrize("operation", ["load", "save"])
def test_a_damaged_plan_is_set_aside(store, caplog, operation):
    """A broken file costs the plan, never the call."""
    store.save_plan("app", "a", expected_version=0)
    store.close()
    overwrite(store.path / "plan" / "cache.db", 0, bytes(100))
    if operation == "load":
        assert store.load_plan("app") == StoredPlan(None, 0)
    else:
        assert not store.save_plan("app", "b", expected_version=1)
    assert len(warnings_in(caplog)) == 1
    assert store.save_plan("app", "c", expected_version=0)
    store.close()
    assert store.load_plan("app") == StoredPlan("c", 1)


def test_a_damaged_plan_that_cannot_be_moved_is_no_plan(store, monkeypatch, caplog):
    """Not even that costs the call."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    store.save_plan("app", "a", expected_version=0)
    store.close()
    overwrite(store.path / "plan" / "cache.db", 0, bytes(100))
    monkeypatch.setattr("budgetroute.stores.plans.set_aside", refuse)
    assert store.load_plan("app") == StoredPlan(None, 0)
    assert not store.save_plan("app", "b", expected_version=0)
    assert "and stays: " in warnings_in(caplog)[0]


def test_a_plan_file_that_is_still_empty_is_no_plan(store):
    """Between making the file and its tables another process reads nothing, and may write."""
    (store.path / "plan").mkdir(parents=True)
    (store.path / "plan" / "cache.db").touch()
    assert store.load_plan("app") == StoredPlan(None, 0)
    assert store.save_plan("app", "b", expected_version=0)
    assert store.load_plan("app") == StoredPlan("b", 1)


def test_a_plan_whose_table_is_just_being_made_is_no_plan(store, monkeypatch):
    """Between a failed look and the question why, another process may have made the table."""
    store.save_plan("k", "v", expected_version=0)
    plans = store._plans
    real = plans._shared.ready

    class Early:
        def execute(self, *_):
            raise sqlite3.OperationalError("no such table: Cache")

    looks = iter([Early()])
    monkeypatch.setattr(plans._shared, "ready", lambda: next(looks, None) or real())
    assert store.load_plan("k").version == 0
    assert store.load_plan("k").value == "v"


def test_the_plan_is_not_evicted(store):
    """Eviction is off: a cache that drops λ when it is full is no place for it."""
    store.save_plan("app", "a", expected_version=0)
    cache = store._plans._opened_cache()
    assert (cache.eviction_policy, cache.cull_limit) == ("none", 0)
    assert cache.size_limit > 10**15
    cache.close()


def test_the_plans_log_is_checkpointed(store, monkeypatch):
    """It does not grow for ever either."""
    monkeypatch.setattr("budgetroute.stores.checkpoints.CHECKPOINT_BYTES", 64 * 1024)
    store.load_plan("app")
    for version in range(60):
        store.save_plan("app", "x" * 8000, expected_version=version)
        store.load_plan("app")
    assert (store.path / "plan" / "cache.db-wal").stat().st_size < 512 * 1024


@pytest.mark.parametrize("value", [{"a": 1}, (1,), None, True, 2**63, [1.5]])
def test_plain_disk_writes_no_pickles(tmp_path, value):
    """Only int, float, str and bytes are kept; anything else is an error that says so."""
    with plain_cache(tmp_path) as cache:
        with pytest.raises(StoreError, match="Encode it first"):
            cache["key"] = value
        with pytest.raises(StoreError, match="Encode it first"):
            cache[value] = "value"


@pytest.mark.parametrize("value", [1, -(2**62), 0.5, "text", b"bytes", "x" * 100_000])
def test_plain_disk_keeps_plain_values(tmp_path, value):
    """What is plain comes back as it was."""
    with plain_cache(tmp_path) as cache:
        cache["key"] = value
        cache[value] = "value"
        assert cache["key"] == value
        assert sorted(map(repr, cache)) == sorted(map(repr, ["key", value]))


def test_plain_disk_reads_no_pickled_keys(tmp_path):
    """A planted key is not unpickled when the cache is listed."""
    with plain_cache(tmp_path) as cache:
        cache["key"] = "value"
        with closing(sqlite3.connect(tmp_path / "cache.db")) as database, database:
            planted = pickle.dumps(Trap(tmp_path / "was-here"))
            database.execute("UPDATE Cache SET raw = 0, key = ?", (planted,))
        with pytest.raises(StoreError, match="never writes"):
            list(cache)
    assert not (tmp_path / "was-here").exists()


def plain_cache(folder):
    from diskcache import Cache

    from budgetroute.stores.plain_disk import PlainDisk

    return Cache(str(folder), disk=PlainDisk)
