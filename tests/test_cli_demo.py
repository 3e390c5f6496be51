"""`budgetroute demo`: the command around the simulated day."""

from __future__ import annotations

import pytest
from cli_support import cli

from budgetroute.cli import demo


@pytest.mark.slow
def test_the_demo_runs_and_reports(tmp_path, monkeypatch):
    """A short day ends with one JSON object: spend below the limit, calls, reward."""
    monkeypatch.chdir(tmp_path)
    answer = cli("demo", "--json", "--calls", "60", "--seed", "3")
    assert answer.code == 0, answer.err
    said = answer.json
    assert said["calls"] == 60
    assert 0 < said["spent_usd"] <= said["limit_usd"]
    assert 0 < said["mean_reward"] < 1
    assert list(tmp_path.iterdir()) == []


def test_a_budget_that_cannot_be_used_is_refused():
    """A budget of 0 or less is one line on stderr and exit code 2."""
    answer = cli("demo", "--budget", "-1")
    assert (answer.code, answer.out) == (2, "")


def test_no_calls_are_refused():
    """A day without calls is wrong usage."""
    assert cli("demo", "--calls", "0").code == 2


def test_an_interrupted_day_is_exit_code_130(monkeypatch, capsys):
    """What was made is printed, and the exit code says that the day was cut short."""

    class Cut:
        interrupted = True

        def to_json(self):
            return {"calls": 7}

    monkeypatch.setattr(demo, "run_demo", lambda **wishes: Cut())
    assert demo.demo_command(calls=9, budget_usd=None, seed=0, as_json=True) == 130
    assert '"calls": 7' in capsys.readouterr().out
