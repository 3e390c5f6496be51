"""The disk store under real processes: many at once, killed at any point, forked."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from budgetroute.clock import ManualClock
from budgetroute.records import Balance, Slot
from budgetroute.stores import DiskStore
from tests.ledger_worker import AT, DAY, EXPECTED, WORST, spend

WORKER = Path(__file__).with_name("ledger_worker.py")
NO_LIMIT = 10**15

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(folder):
    opened = DiskStore(folder, ManualClock(datetime(2026, 11, 29, tzinfo=UTC)), patience_s=30)
    yield opened
    opened.close()


@pytest.fixture
def start(folder):
    """Start a worker process; whatever still runs in the end is killed."""
    started = []

    def start_one(name, count, limit=NO_LIMIT):
        process = subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), name, str(count), str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def go(workers):
    """Let workers begin together, once all have opened the store."""
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()


def reports(worker):
    """Wait for a worker's end and return its (billed, seen) lines."""
    out, _ = worker.communicate(timeout=120)
    assert worker.returncode == 0
    return [tuple(map(int, line.split())) for line in out.splitlines()]


def assert_sound(store):
    """The file is whole, and every sum is what its attempts add up to."""
    with closing(sqlite3.connect(store.path / "ledger.db")) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    totals = {}
    for entry in store.recent(10**6):
        residue = max(0, entry.row.worst - entry.row.amount)
        held = {"held": entry.row.worst, "estimated": residue}.get(entry.row.state, 0)
        expected = entry.row.expected if entry.row.state == "held" else 0
        estimated = int(entry.row.state == "estimated")
        for slot in entry.slots:
            change = Balance(entry.row.amount, held, expected, 1, estimated)
            totals[slot] = totals.get(slot, Balance()) + change
    assert totals
    assert store.snapshot(list(totals)) == tuple(totals.values())
    return totals


@pytest.mark.slow
def test_eight_processes_lose_nothing_and_double_nothing(start, store):
    """8 × 500 calls: the ledger holds exactly what the processes were billed."""
    workers = [start(f"w{number}", 500) for number in range(8)]
    go(workers)
    billed = [reports(worker) for worker in workers]
    assert [len(lines) for lines in billed] == [500] * 8
    total = sum(amount for lines in billed for amount, _ in lines)
    assert store.snapshot([DAY]) == (Balance(settled=total, calls=4000),)
    assert len({entry.attempt for entry in store.recent(10**6)}) == 4000
    assert_sound(store)


@pytest.mark.slow
def test_processes_never_cross_the_cap(start, store):
    """Whatever they race for, settled + held stays under the limit and fills it."""
    limit = 150_000
    workers = [start(f"w{number}", 150, limit) for number in range(4)]
    go(workers)
    seen = [line for worker in workers for line in reports(worker)]
    sums = store.snapshot([DAY])[0]
    assert max(at_once for _, at_once in seen) <= limit
    assert limit - WORST < sums.settled + sums.held <= limit
    assert sums.settled == sum(amount for amount, _ in seen)


@pytest.mark.slow
def test_kill_nine_loses_at_most_the_call_in_flight(start, store):
    """Killed again and again in mid-work, each process's finished calls are all there."""
    store.save_plan("app", "λ", expected_version=0)
    done = {}
    for number in range(6):
        workers = [start(f"kill{number}-{side}", 10**6) for side in "ab"]
        go(workers)
        for side, worker in zip("ab", workers, strict=True):
            lines = [worker.stdout.readline() for _ in range(20 + 7 * number)]
            worker.send_signal(signal.SIGKILL)
            lines += worker.stdout.read().splitlines(keepends=True)
            worker.wait()
            whole = [line.split() for line in lines if line.endswith("\n")]
            done[f"kill{number}-{side}"] = [int(amount) for amount, _ in whole]
    totals = assert_sound(store)
    for name, amounts in done.items():
        sums = totals[Slot(f"app/{name}", "once")]
        assert sums.settled >= sum(amounts)
        assert len(amounts) <= sums.calls <= len(amounts) + 2  # settled unsaid, and one in flight
    assert store.load_plan("app").value == "λ"


@pytest.mark.slow
def test_a_killed_process_leaves_holds_for_the_sweep(start, store):
    """Its call in flight becomes an estimate; nothing stays in flight."""
    killed = 0
    while not killed:
        worker = start(f"gone-{len(store.recent(10**6))}", 10**6)
        go([worker])
        worker.stdout.readline()
        worker.kill()
        worker.communicate()
        killed = sum(entry.row.state == "held" for entry in store.recent(10**6))
    assert store.sweep(AT + 1) == killed
    sums = store.snapshot([DAY])[0]
    assert (sums.expected, sums.estimated) == (0, killed)
    assert sums.held == killed * (WORST - EXPECTED)
    assert_sound(store)


@pytest.mark.slow
def test_plans_of_many_processes_are_never_lost(folder, store):
    """4 processes add to one plan by compare-and-set; every addition counts."""
    script = (
        "import sys\n"
        "from budgetroute.clock import WallClock\n"
        "from budgetroute.stores import DiskStore\n"
        "store = DiskStore(sys.argv[1], WallClock(), patience_s=30)\n"
        "for _ in range(25):\n"
        "    done = False\n"
        "    while not done:\n"
        "        plan = store.load_plan('app')\n"
        "        value = str(int(plan.value or 0) + 1)\n"
        "        done = store.save_plan('app', value, expected_version=plan.version)\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    workers = [subprocess.Popen(command) for _ in range(4)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 4
    plan = store.load_plan("app")
    assert (plan.value, plan.version) == ("100", 100)


def in_child(work):
    """Run `work` in a forked child; return its exit status, 0 if it did not raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads: on purpose
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(60)
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def ended(pids):
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@needs_fork
def test_fifty_openers_at_once(folder, store):
    """Whoever comes first makes the files; nobody fails, nothing is lost."""
    read, write = os.pipe()

    def work(number):
        os.close(write)
        os.read(read, 1)  # returns when the parent closes its end
        assert spend(store, f"n{number}", 1, NO_LIMIT)
        assert store.load_plan("app").version >= 0

    pids = [in_child(lambda number=number: work(number)) for number in range(50)]
    os.close(read)
    os.close(write)
    assert ended(pids) == [0] * 50
    assert store.snapshot([DAY])[0].calls == 50
    assert_sound(store)


@needs_fork
def test_a_fork_after_use_is_safe(folder, store):
    """Child and parent both carry on, each with connections of its own."""
    spend(store, "parent", 1, NO_LIMIT)
    store.save_plan("app", "a", expected_version=0)
    store.load_plan("app")

    def work():
        if Path("/proc/self/fd").exists():
            links = Path("/proc/self/fd").iterdir()
            assert not [link for link in links if ".db" in os.path.realpath(link)]
        assert store.load_plan("app").version == 1
        assert store.save_plan("app", "b", expected_version=1)
        for number in range(50):
            spend(store, "child", number, NO_LIMIT)

    pid = in_child(work)
    for number in range(2, 50):
        spend(store, "parent", number, NO_LIMIT)
    assert ended([pid]) == [0]
    assert store.snapshot([DAY])[0].calls == 99
    assert store.load_plan("app").version == 2
    assert_sound(store)


@needs_fork
def test_forks_beside_busy_threads_do_not_hang(folder, store):
    """A fork waits for the operation in progress, so no child inherits a lock or a transaction."""
    stop = threading.Event()
    spent = []

    def work():
        while not stop.is_set():
            spend(store, "thread", len(spent), NO_LIMIT)
            spent.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    pids = [
        in_child(lambda number=number: spend(store, f"c{number}", 1, NO_LIMIT))
        for number in range(10)
    ]
    statuses = ended(pids)
    stop.set()
    thread.join()
    assert statuses == [0] * 10
    assert store.snapshot([DAY])[0].calls == len(spent) + 10
    assert_sound(store)


@needs_fork
def test_the_parent_may_go_before_the_child(folder, store):
    """A child's commits survive the parent's last close, which empties and deletes the log."""
    spend(store, "parent", 1, NO_LIMIT)
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()

    def work():
        spend(store, "child", 1, NO_LIMIT)
        os.write(from_child, b"1")
        os.read(to_child, 1)
        spend(store, "child", 2, NO_LIMIT)

    pid = in_child(work)
    os.read(to_parent, 1)
    store.close()
    os.write(from_parent, b"1")
    assert ended([pid]) == [0]
    for descriptor in (to_child, from_parent, to_parent, from_child):
        os.close(descriptor)
    assert store.snapshot([DAY])[0].calls == 3
    assert_sound(store)
