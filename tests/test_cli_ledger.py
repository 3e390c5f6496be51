"""`budgetroute ledger`: what was spent on what, and whether the sums are true."""

import csv
import io
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest
from cli_support import STORE, cli, cli_at
from helpers.world import Action, asked

from budgetroute.records import Usage
from budgetroute.stores import DiskStore

SMALL = Action("small", 1024)
DAY = "day:2026-03-04"


def usage(tokens=100):
    return Usage(input_tokens=tokens, output_tokens=tokens, model="small")


@pytest.fixture
def spent(disk_world):
    """A world with one settled, one estimated, one held, one released and one late call."""
    world = disk_world
    router = world.router(more=STORE)
    world.router_used = router
    router.settle(router.decide(asked("answer")), [usage()])
    world.pass_time(minutes=1)
    router.settle(router.decide(asked("answer")))
    late = router.decide(asked("slow", timeout_s=1))
    world.pass_time(minutes=5)
    router.store.sweep(at(world))
    router.settle(late, [usage(300)])
    router.release(router.decide(asked("answer")))
    router.decide(asked("other"))
    return world


def at(world):
    from budgetroute.units import micros_from_time

    return micros_from_time(world.clock.at)


def change(world, statement, *values):
    """Change the ledger behind the store's back."""
    with closing(sqlite3.connect(world.folder / "ledger" / "ledger.db")) as ledger, ledger:
        assert ledger.execute(statement, values).rowcount


class TestList:
    def test_newest_first(self, spent):
        """Attempts with time, state, route and action."""
        found = cli_at(spent, "ledger", "list", "--json").json["attempts"]
        assert [line["state"] for line in found] == [
            "hold", "released", "late", "estimated", "settled",
        ]  # fmt: skip
        assert [line["route"] for line in found] == ["other", "answer", "slow", "answer", "answer"]
        shown = cli_at(spent, "ledger", "list", width=160)
        assert shown.code == 0
        assert "5 attempts" in shown.line
        assert found[0]["attempt"] in shown.out
        assert "2026-03-04 12:06:00" in shown.line

    @pytest.mark.parametrize(
        ("options", "count"),
        [
            (["--state", "hold"], 1),
            (["--state", "late"], 1),
            (["--state", "settled"], 2),  # a late bill is a bill
            (["--state", "estimated"], 1),
            (["--state", "released"], 1),
            (["--route", "slow"], 1),
            (["--route", "nobody"], 0),
            (["--model", "nobody"], 0),
            (["--day", "today"], 5),
            (["--period", "2026-03-04"], 5),
            (["--period", DAY], 5),
            (["--period", "2026-03-05"], 0),
            (["--period", "2026-03"], 0),  # nothing counts by month here
            (["--scope", "all"], 5),
            (["--scope", "test|all"], 5),
            (["--scope", "run:x"], 0),
            (["--limit", "2"], 2),
            (["--limit", "0"], 5),
        ],
    )
    def test_filters(self, spent, options, count):
        """Each filter takes what it says and no more."""
        answer = cli_at(spent, "ledger", "list", "--json", *options)
        assert len(answer.json["attempts"]) == count
        assert answer.json["more"] is (options == ["--limit", "2"])

    def test_the_model_is_the_one_chosen(self, spent):
        """Every model's attempts together are all of them."""
        found = cli_at(spent, "ledger", "list", "--json").json["attempts"]
        models = {line["model"] for line in found}
        assert models <= {"small", "mid", "large"}
        counts = [
            len(cli_at(spent, "ledger", "list", "--json", "--model", m).json["attempts"])
            for m in models
        ]
        assert sum(counts) == 5

    def test_other_apps_are_left_out(self, spent):
        """A store may be shared; only this app's attempts are shown, unless all are asked for."""
        change(spent, "UPDATE attempts SET slots = replace(slots, 'test|', 'else|') WHERE seq = 1")
        assert len(cli_at(spent, "ledger", "list", "--json").json["attempts"]) == 4
        everything = cli_at(spent, "ledger", "list", "--json", "--all-apps").json["attempts"]
        assert len(everything) == 5

    @pytest.mark.parametrize("said", ["yesterday", "2026-13-01", "2026-W60", "day:2026", "week:x"])
    def test_what_is_no_period_is_refused(self, spent, said):
        """The error shows what can be written."""
        answer = cli_at(spent, "ledger", "list", "--period", said)
        assert answer.code == 2
        assert "2026-W48" in answer.err

    @pytest.mark.parametrize(
        "said", ["week:2026-11-29", "week:2026-W10", "2026-W10", "once", "total"]
    )
    def test_ids_of_all_windows_are_periods(self, spent, said):
        """Weeks from any day, runs and totals too."""
        assert cli_at(spent, "ledger", "list", "--period", said).code == 0

    def test_attempts_that_cannot_be_read_are_shown_all_the_same(self, spent):
        """Records and slots that a damaged disk garbled break nothing."""
        change(
            spent, "UPDATE attempts SET decided = x'ff', outcome = '{', slots = '[1]', amount = 'x'"
        )
        answer = cli_at(spent, "ledger", "list", "--all-apps")
        assert answer.code == 0
        assert "5 attempts" in answer.line


class TestSum:
    def test_by_day_comes_from_the_sums_and_lasts(self, spent):
        """When the attempts are gone, the days are still there."""
        store = spent.store
        before = cli_at(spent, "ledger", "sum", "--json").json
        for days in (2, 60, 62):
            store.sweep(at(spent) + days * 86_400 * 10**6)
        assert store.recent(9) == ()
        after = cli_at(spent, "ledger", "sum", "--json").json
        assert after["from"] == before["from"] == "sums"
        assert [group["day"] for group in after["groups"]] == ["2026-03-04"]
        assert before["groups"][0]["calls"] == 4
        assert after["total"]["spent_pico"] >= before["total"]["spent_pico"] > 0

    @pytest.mark.parametrize("by", ["day", "week", "month", "model", "route", "scope", "source"])
    def test_groups_make_the_total(self, spent, by):
        """Whatever it is grouped by, the money is the ledger's."""
        found = cli_at(spent, "ledger", "sum", "--json", "--by", by).json
        settled = spent.store.history("test|all")[DAY].settled
        assert sum(group["spent_pico"] for group in found["groups"]) == settled
        assert found["total"]["spent_pico"] == settled
        assert found["total"]["calls"] == 4

    def test_sources(self, spent):
        """What was reported, estimated and is still in flight are told apart."""
        found = cli_at(spent, "ledger", "sum", "--json", "--by", "source").json["groups"]
        assert {g["source"]: g["calls"] for g in found} == {
            "reported": 2,
            "estimated": 1,
            "hold": 1,
        }

    def test_a_filter_reads_the_attempts(self, spent):
        """A day's money by route, from its attempts; the table says where from."""
        narrow = cli_at(spent, "ledger", "sum", "--json", "--route", "slow").json
        assert narrow["from"] == "attempts"
        assert narrow["total"]["calls"] == 1
        shown = cli_at(spent, "ledger", "sum", "--by", "route", "--period", "today")
        assert "kept for 35 days" in shown.line
        assert "slow" in shown.line

    def test_limits_have_their_names(self, disk_world):
        """A limit's key is a hash; here it has its name, and each of many its own line."""
        limits = '[limits.heavy]\nper = "user"\ndaily_usd = 1.0\n'
        router = disk_world.router(more=limits + STORE)
        for user in ("anna", "anna", "bo"):
            router.settle(router.decide(asked(tags={"user": user})), [usage()])
        found = cli_at(disk_world, "ledger", "sum", "--json", "--by", "scope").json["groups"]
        counts = sorted((g["scope"].partition("#")[0], g["calls"]) for g in found)
        assert counts == [("all", 3), ("heavy", 1), ("heavy", 2)]
        one = max(found, key=lambda g: (g["scope"] != "all", g["calls"]))["scope"]
        for scope, number in (("heavy", 3), (one, 2)):
            listed = cli_at(disk_world, "ledger", "list", "--json", "--scope", scope).json
            assert len(listed["attempts"]) == number

    def test_scopes_overlap(self, spent):
        """An attempt counts once in each of its scopes, and once in all."""
        change(
            spent,
            'UPDATE attempts SET slots = \'[["test|all","day:2026-03-04"],["test|all",'
            '"week:2026-W10"],["test|run:x","once"]]\' WHERE seq = 1',
        )
        found = cli_at(spent, "ledger", "sum", "--json", "--by", "scope").json
        assert {g["scope"]: g["calls"] for g in found["groups"]} == {"all": 4, "run:x": 1}
        assert found["total"]["calls"] == 4


class TestExport:
    def test_csv(self, spent):
        """One line for each attempt, with every amount to the last digit."""
        answer = cli_at(spent, "ledger", "export")
        rows = list(csv.DictReader(io.StringIO(answer.out)))
        assert len(rows) == 5
        assert rows[-1]["state"] == "settled"
        assert rows[-1]["input_tokens"] == "100"
        assert rows[-1]["sums"] == f"test|all@{DAY}"
        total = sum(int(row["spent_pico"]) for row in rows)
        assert total == spent.store.history("test|all")[DAY].settled
        assert rows[-1]["reserved_at"] == "2026-03-04T12:00:00+00:00"

    def test_json_lines(self, spent):
        """The same as JSON lines, filtered."""
        answer = cli_at(spent, "ledger", "export", "--format", "jsonl", "--state", "hold")
        (line,) = answer.out.splitlines()
        assert json.loads(line)["route"] == "other"

    def test_a_file_is_new_and_private(self, spent):
        """It is made for this user alone, and nothing is overwritten."""
        path = spent.folder / "out.csv"
        answer = cli_at(spent, "ledger", "export", "--output", path, "--json")
        assert answer.json["attempts"] == 5
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.read_text().splitlines()) == 6
        again = cli_at(spent, "ledger", "export", "--output", path)
        assert again.code == 2
        assert "there already" in again.err

    def test_json_needs_a_file(self, spent):
        """Lines on stdout are no JSON object."""
        answer = cli_at(spent, "ledger", "export", "--json")
        assert answer.code == 2
        assert "--output" in answer.err

    def test_a_name_of_a_hostile_server_is_no_formula(self, spent):
        """What a spreadsheet would run is quoted."""
        change(
            spent, """UPDATE attempts SET outcome = '{"billed_as": "=cmd|x", "planned": "+m/1"}'"""
        )
        rows = list(csv.DictReader(io.StringIO(cli_at(spent, "ledger", "export").out)))
        assert {row["billed_as"] for row in rows} == {"'=cmd|x"}
        assert {row["model"] for row in rows} == {"'+m"}

    def test_a_name_cannot_speak_to_the_terminal(self, spent):
        """Escape sequences are shown, not sent."""
        change(
            spent,
            "UPDATE attempts SET state = 'x' || char(27) || '[31m', attempt = char(27) || seq",
        )
        for command in ("list", "export", "verify", "sum"):
            assert "\x1b" not in cli_at(spent, "ledger", command).out

    def test_nothing_of_the_prompt_is_in_it(self, spent):
        """Neither text nor tag values."""
        text = spent.router_used.decide(asked(text="my secret", tags={"user": "anna"}))
        assert text
        out = cli_at(spent, "ledger", "export", "--format", "jsonl").out
        assert "secret" not in out
        assert "anna" not in out


class TestVerify:
    def test_a_sound_ledger(self, spent):
        """Everything adds up; what happened to attempts is told."""
        answer = cli_at(spent, "ledger", "verify")
        assert answer.code == 0
        assert "1 sum made of 5 attempts, every one as it should be" in answer.line
        assert "1 bill came after the lease" in answer.line
        assert "λ of 'test' is kept (version 4)" in answer.line
        seen = cli_at(spent, "ledger", "verify", "--json").json
        assert seen["clean"] is True
        assert seen["attempts"] == {"settled": 2, "estimated": 1, "held": 1, "released": 1}
        assert seen["spent_pico"] == spent.store.history("test|all")[DAY].settled

    @pytest.mark.parametrize(
        ("statement", "told"),
        [
            ("UPDATE sums SET settled = settled + 1", "settled is $"),
            ("UPDATE sums SET held = -5", "held is below zero: -$0.000000000005"),
            ("UPDATE sums SET calls = 9", "calls is 9, its attempts make 4"),
            ("DELETE FROM sums", "settled is $0.00, its attempts make $"),
            ("DELETE FROM attempts WHERE state = 'held'", "held is $"),
            ("UPDATE attempts SET amount = -1 WHERE seq = 1", "its amount is -1"),
            ("UPDATE attempts SET amount = 1.5 WHERE seq = 1", "its amount is 1.5"),
            ("UPDATE attempts SET state = 'lost' WHERE seq = 1", "its state is 'lost'"),
            ("UPDATE attempts SET amount = 3 WHERE state = 'held'", "held and yet counts 3"),
            ("UPDATE attempts SET closed_at = NULL WHERE seq = 1", "it is settled, closed at None"),
            ("UPDATE attempts SET decision = 'x' WHERE seq = 1", "its decision is 'x'"),
            ("UPDATE attempts SET slots = 'x' WHERE seq = 1", "where it counts cannot be read"),
            ("UPDATE attempts SET slots = '[]' WHERE seq = 1", "where it counts cannot be read"),
            (
                'UPDATE attempts SET slots = \'[["a","b"],["a","b"]]\' WHERE seq = 1',
                "it counts twice in one sum",
            ),
            (
                "INSERT INTO sums VALUES ('test|run:x', 'once', 7, 0, 0, 1, 0)",
                "its attempts make $0.00",
            ),
        ],
    )
    def test_each_difference_is_found(self, spent, statement, told):
        """Exit code 1, and what was found next to what should be there."""
        change(spent, statement)
        answer = cli_at(spent, "ledger", "verify", width=400)
        assert answer.code == 1
        assert told in answer.line
        seen = cli_at(spent, "ledger", "verify", "--json").json
        assert seen["clean"] is False
        assert seen["differences"] == len(seen["faults"]) > 0

    def test_an_id_twice_is_found(self, spent):
        """Even where the index that forbids it was lost."""
        with closing(sqlite3.connect(spent.folder / "ledger" / "ledger.db")) as ledger, ledger:
            ledger.executescript(
                "CREATE TABLE a AS SELECT * FROM attempts; DROP TABLE attempts;"
                "ALTER TABLE a RENAME TO attempts; CREATE INDEX attempts_by_time ON attempts (at);"
                "INSERT INTO attempts SELECT * FROM attempts WHERE seq = 1;"
            )
        kinds = {f["kind"] for f in cli_at(spent, "ledger", "verify", "--json").json["faults"]}
        assert kinds == {"repeated", "sum"}

    def test_dropped_attempts_are_checked_by_their_closing_totals(self, spent):
        """After 35 days a sum is compared with what was kept of its attempts."""
        for days in (2, 60, 62):
            spent.store.sweep(at(spent) + days * 86_400 * 10**6)
        answer = cli_at(spent, "ledger", "verify")
        assert answer.code == 0
        assert "older than 35 days" in answer.line
        change(spent, "UPDATE sums SET settled = settled + 1")
        assert cli_at(spent, "ledger", "verify").code == 1

    def test_what_was_rescued_is_told(self, spent):
        """Sums out of a damaged ledger add up, and are marked as not checked."""
        spent.store.close()
        path = spent.folder / "ledger" / "ledger.db"
        wreck(path, "attempts")
        spent.store.snapshot([])
        spent.router_used.decide(asked())
        answer = cli_at(spent, "ledger", "verify")
        assert answer.code == 0
        assert "1 sum carried out of a damaged ledger" in answer.line

    def test_a_damaged_file_is_told_and_left_alone(self, spent):
        """It is evidence: an audit does not set it aside."""
        spent.store.close()
        path = spent.folder / "ledger" / "ledger.db"
        with path.open("r+b") as file:
            file.write(bytes(100))
        before = path.read_bytes()
        answer = cli_at(spent, "ledger", "verify", width=300)
        assert answer.code == 1
        assert "is damaged" in answer.line
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.glob("*corrupt*")] == []
        listed = cli_at(spent, "ledger", "list")
        assert (listed.code, "is damaged" in listed.err) == (2, True)

    def test_a_ledger_that_was_set_aside_can_be_read(self, spent):
        """--file names any ledger, or its folder."""
        spent.store.close()
        (spent.folder / "ledger" / "ledger.db").rename(spent.folder / "old.db")
        assert cli_at(spent, "ledger", "verify").code == 2
        assert cli_at(spent, "ledger", "verify", "--file", spent.folder / "old.db").code == 0
        found = cli_at(spent, "ledger", "list", "--json", "--file", spent.folder / "old.db").json
        assert len(found["attempts"]) == 5

    def test_records_of_a_later_version_are_told(self, spent):
        """They add up, but say things that this version does not know."""
        change(spent, """UPDATE attempts SET decided = '{"v":2}' WHERE seq = 1""")
        answer = cli_at(spent, "ledger", "verify")
        assert answer.code == 0
        assert "1 decision record of another version" in answer.line

    def test_overdue_holds_are_told(self, spent):
        """Nobody came back for them, and no sweep has been since."""
        spent.pass_time(hours=1)
        assert "1 hold overdue" in cli_at(spent, "ledger", "verify").line

    def test_a_missing_plan_is_told(self, spent):
        """A plan that is damaged is left where it is."""
        spent.store.close()
        (spent.folder / "ledger" / "plan" / "cache.db").write_bytes(b"x" * 4096)
        answer = cli_at(spent, "ledger", "verify")
        assert answer.code == 0
        assert "no λ is kept for 'test'" in answer.line
        assert (spent.folder / "ledger" / "plan" / "cache.db").exists()


def wreck(path, table):
    with closing(sqlite3.connect(path)) as ledger:
        (size,) = ledger.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = ?"
        roots = [root for (root,) in ledger.execute(query, (table,))]
    with path.open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * size)
            file.write(b"\xff" * size)


COMMANDS = ["list", "sum", "export", "verify"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_ledger_yet_is_said(disk_world, command):
    """Nothing is made by looking."""
    disk_world.router(more=STORE)
    answer = cli_at(disk_world, "ledger", command)
    assert answer.code == 2
    assert "there is no ledger at" in answer.err
    assert not (disk_world.folder / "ledger").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_in_memory_has_nothing_to_read(world, command):
    """The error says what to write."""
    world.router(more='[store]\nurl = "memory:"')
    answer = cli_at(world, "ledger", command)
    assert answer.code == 2
    assert "Write [store] path" in answer.err


@pytest.mark.parametrize("command", COMMANDS)
def test_writers_are_not_kept_waiting(spent, command):
    """While one process holds the write lock another reads, and the other way round."""
    with closing(
        sqlite3.connect(spent.folder / "ledger" / "ledger.db", isolation_level=None)
    ) as db:
        db.execute("BEGIN IMMEDIATE")
        assert cli_at(spent, "ledger", command).code == 0


def test_a_long_read_keeps_nobody_waiting(spent):
    """Calls are booked while an audit reads, and the audit sees one moment."""
    from budgetroute.stores.books import reading

    impatient = DiskStore(spent.folder / "ledger", spent.clock, patience_s=0)
    with reading(spent.folder / "ledger" / "ledger.db") as ledger:
        rows = ledger.rows()
        next(rows)
        impatient.sweep(at(spent) + 3_600 * 10**6)
        assert impatient.snapshot([]) == ()
        assert len(list(rows)) == 4
        assert sum(row.state == "held" for row in ledger.rows()) == 1
    impatient.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written_can_be_read(spent):
    """A copy on a read-only disk is audited too."""
    spent.store.close()
    folder = spent.folder / "ledger"
    folder.chmod(0o500)
    try:
        assert cli("ledger", "verify", "--file", folder).code == 0
    finally:
        folder.chmod(0o700)


@pytest.mark.slow
def test_an_interrupted_export_leaves_nothing(spent):
    """Ctrl-C in the middle: no half file under the name, no scrap beside it."""
    spent.store.close()
    change(
        spent,
        "INSERT INTO attempts SELECT NULL, x.value || attempt, decision, state, worst, expected,"
        " amount, lease_until, at, closed_at, chosen, slots, decided, outcome FROM attempts,"
        " (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 40000)"
        " SELECT value FROM n) x",
    )
    out = spent.folder / "out.csv"
    process = subprocess.Popen(
        [sys.executable, "-m", "budgetroute.cli", "ledger", "export", "--output", str(out),
         "--config", str(spent.folder / "budgetroute.toml")],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    part = out.with_name("out.csv.part")
    deadline = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        assert process.poll() is None, "it was done before it could be interrupted"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert list(spent.folder.glob("out.csv*")) == []


def test_a_reader_that_goes_away_is_no_traceback(spent):
    """`ledger export | head` ends quietly."""
    config = str(spent.folder / "budgetroute.toml")
    process = subprocess.Popen(
        [sys.executable, "-m", "budgetroute.cli", "ledger", "export", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
