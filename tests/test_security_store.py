"""Attacks on the store's folder: who reads it, what is planted in it, what is read back from it."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cli_support import STORE, cli_at
from helpers.world import asked

from budgetroute.clock import WallClock
from budgetroute.errors import StoreError
from budgetroute.records import Ask, Bill, Limit, Option, Slot, Usage
from budgetroute.stores import DiskStore, open_store, paths
from budgetroute.stores.messages import StrangeContentError
from budgetroute.stores.plain_disk import PlainDisk
from budgetroute.units import micros_from_time

posix = pytest.mark.skipif(os.name != "posix", reason="owners, links and pipes")
DAY = Slot("app|all", "day:2026-03-04")


def ask(store: DiskStore, decision: str = "d", scope: str = DAY.scope) -> Ask:
    at = micros_from_time(store.now())
    limits = (Limit(Slot(scope, DAY.period), 10**15),)
    return Ask(f"{decision}#1", decision, at, at + 10**9, limits, (Option(100, 10),))


def bill(store: DiskStore, decision: str = "d") -> Bill:
    return Bill(f"{decision}#1", decision, micros_from_time(store.now()), (DAY,), 5, 10, 100)


@pytest.fixture
def store(tmp_path, clock):
    store = DiskStore(tmp_path / "s", clock)
    yield store
    store.close()


def filled(store: DiskStore, database: str, sql: str, *values: object) -> DiskStore:
    """Put an attempt and a plan into a store, then change a database as a stranger would."""
    store.reserve(ask(store))
    store.save_plan("k", "v", expected_version=0)
    store.close()
    with sqlite3.connect(store.path / database) as connection:
        connection.execute(sql, values)
    connection.close()
    return DiskStore(store.path, WallClock())


def as_another_user(monkeypatch, *places: Path) -> None:
    """Let these places belong to somebody who is neither this user nor root."""
    if os.geteuid() == 0:
        for place in places:
            os.chown(place, 12345, 12345, follow_symlinks=False)
        monkeypatch.setattr(paths.os, "geteuid", lambda: 4242)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(paths.os, "geteuid", lambda: mine + 1)


# who reads it


def test_no_file_of_a_store_is_inherited_or_readable_by_others(store):
    """A child process gets no descriptor of the store, and another user no byte of it."""
    store.reserve(ask(store))
    store.save_plan("k", "v", expected_version=0)
    store.scope_key()
    mine = [(fd, _target(fd)) for fd in Path("/proc/self/fd").iterdir()] if _has_proc() else []
    opened = [int(fd.name) for fd, at in mine if at.startswith(str(store.path))]
    assert opened or not _has_proc()
    assert not any(os.get_inheritable(fd) for fd in opened)
    if os.name == "posix":
        every = [store.path, *store.path.rglob("*")]
        assert not any(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in every)


def _has_proc() -> bool:
    return Path("/proc/self/fd").is_dir()


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""


# links, owners, pipes


@posix
@pytest.mark.parametrize("name", ["ledger.db", "ledger.lock", "scopes.key"])
def test_a_link_of_another_user_is_not_followed(tmp_path, clock, monkeypatch, name):
    """In a folder that others may write, a planted link could lead to any file of this user."""
    victim = tmp_path / "victim.sqlite"
    with sqlite3.connect(victim) as connection:
        connection.execute("CREATE TABLE precious (a)")
    connection.close()
    before = victim.read_bytes()
    store = DiskStore(tmp_path / "s", clock)
    store.path.mkdir(mode=0o700)
    (store.path / name).symlink_to(victim)
    if os.geteuid() == 0:
        as_another_user(monkeypatch, store.path / name)
        monkeypatch.setattr(paths.os, "geteuid", lambda: 0)
    else:
        as_another_user(monkeypatch)
        monkeypatch.setattr(paths, "_check_folder", lambda folder: None)
    with pytest.raises(StoreError, match="belongs to user id"):
        store.scope_key() if name == "scopes.key" else store.recent(1)
    assert victim.read_bytes() == before


@posix
def test_a_folder_of_another_user_is_refused(tmp_path, clock, monkeypatch):
    """Who owns the folder can exchange every file in it: a shared /tmp/store is nobody's store."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o777)
    as_another_user(monkeypatch, folder)
    with pytest.raises(StoreError, match="folder of your own"):
        DiskStore(folder, clock).reserve(ask(DiskStore(folder, clock)))
    assert list(folder.iterdir()) == []


@posix
def test_roots_folder_is_as_good_as_ones_own(tmp_path, clock, monkeypatch):
    """A volume that belongs to root, as in a container, can hold a store."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o777)
    real = os.stat_result

    def rooted(self: Path, **more: object) -> os.stat_result:
        known = list(os.stat(self, **more))  # noqa: PTH116 - below Path.stat
        known[stat.ST_UID] = 0
        return real(known)

    monkeypatch.setattr(Path, "lstat", lambda self: rooted(self, follow_symlinks=False))
    monkeypatch.setattr(Path, "stat", rooted)
    monkeypatch.setattr(paths.os, "geteuid", lambda: 4242)
    paths.check_ours(folder)


@posix
def test_a_key_that_is_a_device_is_not_read_without_end(store):
    """`scopes.key` is read bounded, whatever its name leads to."""
    store.path.mkdir(mode=0o700)
    (store.path / "scopes.key").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="not a regular file"):
        store.scope_key()


def test_a_place_that_no_file_can_have_is_refused():
    """A NUL in the path is an error in words."""
    with pytest.raises(StoreError, match="needs a place"):
        open_store("a\0b", WallClock())


# texts that no file can carry


@pytest.mark.parametrize("text", ["\ud800", "app|run:\udcff"])
def test_half_a_surrogate_pair_is_a_store_error(store, text):
    """JSON and command lines can carry one; SQLite cannot, and says so through us."""
    for attack in (
        lambda: store.reserve(ask(store, scope=text)),
        lambda: store.find(text),
        lambda: store.save_plan(text, "v", expected_version=0),
        lambda: store.arrivals(text),
    ):
        with pytest.raises(StoreError, match="surrogate"):
            attack()
    assert store.history(DAY.scope) == {}


# a ledger that somebody has written

LEDGERS = {
    "slots that are no JSON": ("UPDATE attempts SET slots = 'nope'", ()),
    "slots nested deep": ("UPDATE attempts SET slots = ?", ("[" * 100_000,)),
    "slots of another shape": ("UPDATE attempts SET slots = '[[1]]'", ()),
    "slots that are bytes": ("UPDATE attempts SET slots = x'ff'", ()),
    "a state of its own": ("UPDATE attempts SET state = 'evil'", ()),
    "amounts in words": ("UPDATE attempts SET amount = 'x', worst = 'y'", ()),
    "records that are bytes": ("UPDATE attempts SET decided = x'ff00', outcome = x'ff'", ()),
    "records nested deep": ("UPDATE attempts SET decided = ?", ('{"a":' + "[" * 100_000,)),
    "text that is none": ("UPDATE attempts SET decided = CAST(x'ff' AS TEXT)", ()),
    "times in words": ("UPDATE attempts SET at = 'x', lease_until = 'y'", ()),
    "counts in words": ("UPDATE sums SET calls = 'x'", ()),
    "no table": ("DROP TABLE attempts", ()),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON attempts BEGIN SELECT load_extension('x'); END",
        (),
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_a_planted_ledger_is_a_store_error_at_worst(store, name):
    """Whatever stands in its rows, nothing is run, and every operation answers or says StoreError."""
    sql, values = LEDGERS[name]
    poisoned = filled(store, "ledger.db", sql, *values)
    at = micros_from_time(poisoned.now())
    for operation in (
        lambda: poisoned.reserve(ask(poisoned, "n")),
        lambda: poisoned.settle(bill(poisoned)),
        lambda: poisoned.sweep(at + 10**10),
        lambda: poisoned.find("d"),
        lambda: poisoned.recent(5),
        lambda: poisoned.history(DAY.scope),
        lambda: poisoned.snapshot([DAY]),
        lambda: poisoned.release("d#1", at),
    ):
        with suppress(StoreError):
            operation()
    poisoned.close()


def test_a_hold_that_cannot_be_read_does_not_stop_the_sweep(store, caplog):
    """It is closed as it is, its money stays held, and the holds behind it are swept."""
    store.reserve(ask(store, "good"))
    poisoned = filled(store, "ledger.db", "UPDATE attempts SET worst = 'x' WHERE decision = 'd'")
    assert poisoned.sweep(micros_from_time(poisoned.now()) + 10**10) == 1
    assert (
        poisoned.snapshot([DAY])[0].held == 190
    )  # all of the bad one's, the rest of the good one's
    assert "closed as it is" in caplog.text
    poisoned.close()


def test_a_planted_record_is_no_crash_of_the_command_line(disk_world):
    """status and explain read records that anybody may have written."""
    router = disk_world.router(more=STORE)
    router.settle(router.decide(asked()), [Usage(10, 10)])
    router.decide(asked())
    for deep in ('{"a":' * 50_000, '{"why":"\x9b31m\\u001b]0;x\\u0007","best":[]', "[", "1e999"):
        with sqlite3.connect(disk_world.store.path / "ledger.db") as connection:
            connection.execute("UPDATE attempts SET decided = ?, outcome = ?", (deep, deep))
        connection.close()
        assert cli_at(disk_world, "status").code == 0
        assert cli_at(disk_world, "explain", "last").code == 0
        assert cli_at(disk_world, "ledger", "list").code == 0
        assert cli_at(disk_world, "ledger", "export").code == 0
        assert cli_at(disk_world, "ledger", "verify").code in {0, 1}


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), "soon", b"x", 1.5])
def test_a_planted_time_is_no_crash_of_the_command_line(disk_world, time):
    """Nor do times that no calendar has: they are not shown, or refused in words."""
    router = disk_world.router(more=STORE)
    router.settle(router.decide(asked()), [Usage(10, 10)])
    with sqlite3.connect(disk_world.store.path / "ledger.db") as connection:
        connection.execute(
            "UPDATE attempts SET at = ?, closed_at = ?, lease_until = ?", (time,) * 3
        )
    connection.close()
    for command in (
        ("status",),
        ("explain", "last"),
        ("ledger", "list"),
        ("ledger", "export"),
        ("ledger", "verify"),
        ("ledger", "sum"),
        ("doctor",),
    ):
        assert cli_at(disk_world, *command).code in {0, 1, 2}


# a plan that somebody has written

SETTINGS = {
    "an argument": ("disk_evil", 1),
    "SQL": ("sqlite_mmap_size", "1; DROP TABLE Cache"),
    "a mode that locks": ("sqlite_journal_mode", "delete"),
    "bytes": ("sqlite_cache_size", b"\x80"),
    "a method": ("get", "evil"),
    "a private attribute": ("_timeout", "evil"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_planted_settings_are_not_taken(store, name, caplog):
    """diskcache makes attributes and SQL of its settings: a folder with strange ones is set aside."""
    poisoned = filled(
        store, "plan/cache.db", "INSERT OR REPLACE INTO Settings VALUES (?, ?)", *SETTINGS[name]
    )
    assert poisoned.load_plan("k").value == "v"
    assert poisoned.save_plan("k", "w", expected_version=1) is False
    assert "set aside" in caplog.text
    assert poisoned.save_plan("k", "w", expected_version=0)
    poisoned.close()


@pytest.mark.parametrize("value", [b"\xff", "9" * 5000 + "\nv", "x", 7, None])
def test_a_planted_value_costs_the_plan_alone(store, value):
    """Text that is none, a version without end, other kinds: no plan, never an exception."""
    poisoned = filled(store, "plan/cache.db", "UPDATE Cache SET value = CAST(? AS TEXT)", value)
    assert poisoned.load_plan("k").value is None
    poisoned.close()


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "ab/../../secret.val", "..\\x"])
def test_a_cache_reads_and_removes_no_file_of_others(tmp_path, name):
    """A planted row names a file outside: it is neither read nor deleted."""
    (tmp_path / "secret").write_text("mine")
    disk = PlainDisk(str(tmp_path / "cache" / "plan"))
    with pytest.raises(StrangeContentError):
        disk.fetch(3, name, None, read=False)
    with pytest.raises(StrangeContentError):
        disk.remove(name)
    assert (tmp_path / "secret").read_text() == "mine"


NUMBERS = re.compile(r"(?<=[:,\[])-?\d+(\.\d+)?(e-?\d+)?")
PLANS = ["", "[", "[" * 100_000, '{"a":' * 100_000, "null", "1", "[]", "{}", '"x"', "1e999", "NaN"]


@pytest.mark.parametrize(
    "number", [f"1{'0' * 400}", "-1", "1e308", "-1e308", "9223372036854775807", "null", '"x"', "[]"]
)
def test_no_plan_breaks_a_call(world, number):
    """Every kept text with all of its numbers replaced, and with each alone: calls are routed and the status is JSON."""
    router = world.router(budget="daily_usd = 1000000.0")
    for tokens in (10, 10, 10**6, 10, 10):  # one bill crosses what was held, and is remembered
        router.settle(router.decide(asked()), [Usage(tokens, tokens)])
    router.status()
    kept = {key: world.store.load_plan(key).value for key in world.store._plans}
    assert len(kept) >= 4
    for key, text in kept.items():
        for planted in [*PLANS, NUMBERS.sub(number, text), *_each_replaced(text, number)]:
            version = world.store.load_plan(key).version
            world.store.save_plan(key, planted, expected_version=version)
            fresh = world.router(budget="daily_usd = 1000000.0")
            decision = fresh.decide(asked())
            assert not decision.fallback
            fresh.settle(decision, [Usage(10, 10)])
            json.dumps(fresh.status().to_json(), allow_nan=False)


def _each_replaced(text: str, number: str) -> list[str]:
    """Return the text with each of its first numbers replaced alone."""
    found = list(NUMBERS.finditer(text))[:20]
    return [f"{text[: one.start()]}{number}{text[one.end() :]}" for one in found]


def test_a_warning_names_no_content_of_a_plan(world, caplog):
    """What was planted does not reach the log."""
    router = world.router()
    router.decide(asked())
    plan = next(key for key in world.store._plans if key.endswith("|all"))
    planted = '{"low": "s3cret\\n2026 forged"}'
    world.store.save_plan(plan, planted, expected_version=world.store.load_plan(plan).version)
    with caplog.at_level(logging.WARNING):
        world.router().decide(asked())
    assert "cannot be read" in caplog.text
    assert "s3cret" not in caplog.text
