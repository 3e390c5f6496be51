"""The command line as a whole: help, version, errors, exit codes, streams, a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cli_support import STORE, cli, cli_at, project
from helpers.world import asked

import budgetroute
from budgetroute.cli.console import bar, complain, plain
from budgetroute.records import Usage


def test_version_is_the_packages(tmp_path):
    """--version prints the package's version."""
    answer = cli("--version")
    assert (answer.code, answer.out) == (0, f"budgetroute {budgetroute.__version__}\n")


def test_help_lists_every_command():
    """--help names the commands and what the exit codes mean."""
    answer = cli("--help")
    assert answer.code == 0
    for name in ("init", "doctor", "status", "explain", "demo", "--version"):
        assert name in answer.out
    assert "3 budget exhausted" in answer.line


@pytest.mark.parametrize("name", ["init", "doctor", "status", "explain", "demo"])
def test_every_command_has_help_and_json(name):
    """Each command explains itself and offers --json."""
    answer = cli(name, "--help")
    assert answer.code == 0
    assert "--json" in answer.out


def test_without_a_command_the_help_is_shown():
    """`budgetroute` alone shows the help."""
    assert "Commands" in cli().out + cli().err


@pytest.mark.parametrize(
    "args", [["nope"], ["status", "--nope"], ["explain"], ["init", "--daily", "x"]]
)
def test_wrong_usage_is_exit_code_2(args):
    """Unknown commands and options, missing and malformed arguments: stderr, exit code 2."""
    answer = cli(*args)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err


@pytest.mark.parametrize("command", [["status"], ["explain", "x"], ["status", "--json"]])
def test_errors_are_one_line_without_a_traceback(tmp_path, command):
    """An error of the package is its text on stderr, nothing on stdout, exit code 2."""
    path = project(tmp_path, "[budget]\ndaily_usd = -1\n")
    answer = cli(*command, "--config", path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert "daily_usd" in answer.err
    assert "Traceback" not in answer.err


def test_errors_are_red_on_a_terminal_and_plain_elsewhere(tmp_path, monkeypatch, capsys):
    """Colour goes to terminals only, and never with NO_COLOR."""
    complain("wrong")
    assert capsys.readouterr().err == "wrong\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    complain("wrong")
    assert "\x1b[31m" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    complain("wrong")
    assert "\x1b[31m" not in capsys.readouterr().err


def test_texts_are_not_taken_for_markup(capsys):
    """Square brackets in an error are printed as they are."""
    complain('[models."x"] [red]is missing[/red]')
    assert capsys.readouterr().err == '[models."x"] [red]is missing[/red]\n'


def test_control_characters_are_escaped():
    """Nothing in a text can move the cursor or change colours; new lines stay."""
    assert plain("a\x1b[2Jb\x07\r\nc") == "a\\x1b[2Jb\\x07\\r\nc"


def test_the_packages_warnings_are_shown(disk_world):
    """What the package warns of while a command runs appears on stderr."""
    folder = disk_world.folder / "ledger"
    folder.mkdir(mode=0o700)
    (folder / "ledger.db").write_text("no database")
    disk_world.router(more=STORE)
    answer = cli_at(disk_world, "status", "--json")
    assert answer.code == 0
    assert "was set aside" in answer.err
    assert answer.json["spent_usd"] == 0.0


@pytest.mark.parametrize(
    ("solid", "light", "drawn"),
    [(0, 0, "....."), (0.4, 0.2, "##+.."), (1, 0, "#####"), (2, 1, "#####"), (0.5, 0.9, "##+++")],
)
def test_bars_fill_their_width(monkeypatch, solid, light, drawn):
    """A bar has its width whatever the parts, in ASCII where the encoding has no more."""
    monkeypatch.setattr("budgetroute.cli.console.is_unicode", lambda: False)
    assert bar(solid=solid, light=light, width=5) == drawn


def run(*args: str, cwd, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "budgetroute.cli", *args],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_real_process_from_init_to_explain(tmp_path, monkeypatch):
    """init, a call, status, explain and doctor work as processes that share one ledger on disk."""
    (tmp_path / ".git").mkdir()
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    made = run("init", "--daily", "2", "--json", cwd=tmp_path, **state)
    assert made.returncode == 0, made.stderr
    monkeypatch.setenv("XDG_STATE_HOME", state["XDG_STATE_HOME"])
    router = budgetroute.Router.from_config(tmp_path / "budgetroute.toml")
    decision = router.decide(asked(baseline=None))
    router.settle(decision, [Usage(200, 30)])
    router.store.close()
    status = run("status", "--json", cwd=tmp_path, **state)
    assert (status.returncode, status.stderr) == (0, b"")
    assert json.loads(status.stdout)["calls"] == 1
    explained = run("explain", "last", cwd=tmp_path, **state)
    assert explained.returncode == 0
    assert f"Decision {decision.id}".encode() in explained.stdout
    assert b"\x1b" not in explained.stdout


def test_a_poor_encoding_is_survived(tmp_path):
    """Where stdout is ASCII, marks become ASCII and nothing crashes."""
    project(tmp_path)
    answer = run("doctor", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.isascii()
    assert b"ok ready to run" in answer.stdout


def test_importing_the_package_loads_neither_typer_nor_rich():
    """Only the command line pays for typer and rich."""
    code = (
        "import sys, budgetroute, budgetroute.cli; budgetroute.route; "
        "print([m for m in ('typer', 'rich', 'litellm', 'sklearn', 'openai') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=60
    )
    assert answer.stdout == b"[]\n"
