"""`budgetroute status`: what it says of a budget, and its exit code."""

from __future__ import annotations

import io

import pytest
import time_machine
from cli_support import STORE, cli, cli_at, project
from helpers.world import asked
from rich.console import Console

from budgetroute.cli.status import watched
from budgetroute.errors import ConfigError
from budgetroute.records import Usage


def spend(router, count, *, route="answer", tokens=200):
    """Make calls whose usage is reported."""
    for _ in range(count):
        decision = router.decide(asked(route, tokens=tokens))
        router.settle(decision, [Usage(tokens, 100, model=decision.model, finish_reason="stop")])


def opened(world, budget="daily_usd = 10.0", top=""):
    return world.router(budget=budget, more=STORE, top=top)


def test_it_agrees_with_the_router(disk_world):
    """Spend, limit, calls and λ are those of `router.status()`."""
    router = opened(disk_world)
    spend(router, 3)
    said, mine = cli_at(disk_world, "status", "--json").json, router.status()
    for field in ("name", "spent_usd", "held_usd", "limit_usd", "calls", "shadow_price", "window"):
        assert said[field] == mine[field]
    assert said["usd_per_correct_answer"] == pytest.approx(1 / mine.shadow_price)


def test_actions_add_up_to_the_spend(disk_world):
    """The table of actions accounts for every call and every dollar of the day."""
    router = opened(disk_world)
    spend(router, 5)
    spend(router, 2, route="other", tokens=900)
    router.settle(router.decide(asked()))
    said = cli_at(disk_world, "status", "--json").json
    assert sum(line["calls"] for line in said["actions"]) == said["calls"] == 8
    total = sum(line["spent_usd"] for line in said["actions"])
    assert total == pytest.approx(said["spent_usd"])
    assert said["estimated"] == 1
    assert all(0 < line["predicted_reward"] < 1 for line in said["actions"])
    assert said["actions_from_attempts"] == 8
    assert said["actions_are_partial"] is False


def test_retries_count_for_the_action_they_repeat(disk_world):
    """A second attempt of a decision is booked under the same action."""
    router = opened(disk_world)
    request = asked()
    decision = router.decide(request)
    router.settle(decision)
    router.settle(router.again(decision, request, attempt=2), [Usage(200, 50)], attempt=2)
    (line,) = cli_at(disk_world, "status", "--json").json["actions"]
    assert (line["action"], line["calls"]) == (decision.action.label, 2)


def test_released_calls_are_no_spend(disk_world):
    """A call that was not sent appears in no row."""
    router = opened(disk_world)
    router.release(router.decide(asked()))
    assert cli_at(disk_world, "status", "--json").json["actions"] == []


def test_other_apps_in_the_same_store_are_left_out(disk_world):
    """Two apps that share a store do not see each other's calls."""
    spend(opened(disk_world), 2)
    other = opened(disk_world).config.source
    other.write_text(other.read_text().replace('name = "test"', 'name = "second"'))
    said = cli_at(disk_world, "status", "--json").json
    assert (said["name"], said["calls"], said["actions"]) == ("second", 0, [])


def test_yesterday_is_left_out(disk_world):
    """After the reset the day begins with nothing spent and no actions."""
    router = opened(disk_world)
    spend(router, 2)
    disk_world.pass_time(days=1)
    said = cli_at(disk_world, "status", "--json").json
    assert (said["spent_usd"], said["actions"]) == (0.0, [])


def test_exhausted_is_exit_code_3(disk_world):
    """When the cheapest call does not fit any more, the exit code says so, and the text why."""
    router = opened(disk_world, "daily_usd = 0.002")
    decision = router.decide(asked())
    router.settle(decision, given=1_999_999_000)
    answer = cli_at(disk_world, "status")
    assert answer.code == 3
    assert "exhausted" in answer.line
    assert "raise the limit" in answer.line
    assert cli_at(disk_world, "status", "--json").json["exhausted"] is True


def test_an_open_budget_is_exit_code_0(disk_world):
    """While calls fit, the exit code is 0."""
    router = opened(disk_world)
    spend(router, 1)
    assert cli_at(disk_world, "status").code == 0


def test_a_budget_of_zero_is_exhausted(disk_world):
    """Nothing fits a budget of 0, before the first call already."""
    opened(disk_world, "daily_usd = 0")
    assert cli_at(disk_world, "status").code == 3


def test_a_wider_cap_can_exhaust(disk_world):
    """A spent week refuses calls although the day has money left."""
    router = opened(disk_world, "daily_usd = 1.0\nweekly_usd = 1.5\nmonthly_usd = 9.0")
    router.settle(router.decide(asked()), given=999_999_000_000)
    disk_world.pass_time(days=1)
    router.settle(router.decide(asked()), given=500_000_900_000)
    answer = cli_at(disk_world, "status", "--json")
    assert answer.code == 3
    assert [cap["window"] for cap in answer.json["limits"]] == ["day", "week", "month"]
    assert "week's budget" in cli_at(disk_world, "status").line


def test_degraded_service_goes_on_to_the_hard_cap(disk_world):
    """Above daily_usd but below hard_usd the budget is not exhausted, and both are shown."""
    text = 'daily_usd = 1.0\non_exhausted = "degrade"\nhard_usd = 1.5'
    router = opened(disk_world, text)
    router.settle(router.decide(asked()), given=1_000_000_000_000)
    answer = cli_at(disk_world, "status")
    assert answer.code == 0
    assert "of $1.00" in answer.line
    assert "degrades up to $1.50" in answer.line


def test_lambda_is_told_in_words(disk_world):
    """λ is shown with what a correct answer is worth at it."""
    router = opened(disk_world)
    spend(router, 1)
    answer = cli_at(disk_world, "status").line
    assert "per $: a correct answer is worth up to $" in answer


def test_a_first_look_leaves_no_file(disk_world):
    """Before the first call nothing is made on disk, and λ is said to be open."""
    opened(disk_world)
    answer = cli_at(disk_world, "status")
    assert "not set yet" in answer.line
    assert "nothing was recorded yet" in answer.line
    assert not (disk_world.folder / "ledger").exists()


def test_a_store_in_memory_is_said_to_be_out_of_sight(disk_world):
    """With `memory:` another process' spend cannot be seen, and status says so."""
    disk_world.router(more='[store]\nurl = "memory:"')
    assert "lives inside each process" in cli_at(disk_world, "status").line


def test_mode_off_is_never_exhausted(disk_world):
    """With routing off, status says that nothing is counted and exits with 0."""
    opened(disk_world, "daily_usd = 0")
    answer = cli_at(disk_world, "status", BUDGETROUTE_DISABLE="1")
    assert answer.code == 0
    assert "mode is off" in answer.line


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_width(disk_world, width):
    """No line is wider than the screen."""
    router = opened(disk_world, "daily_usd = 10.0\nweekly_usd = 50.0")
    spend(router, 3)
    lines = cli_at(disk_world, "status", width=width).out.splitlines()
    assert max(map(len, lines)) <= width


def test_without_a_configuration_it_says_how_to_start(tmp_path, monkeypatch):
    """A folder without configuration is told of `budgetroute init`, on stderr, with exit code 2."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    answer = cli("status")
    assert (answer.code, answer.out) == (2, "")
    assert "budgetroute init" in answer.err


def test_watch_and_json_exclude_each_other(tmp_path):
    """--watch with --json is wrong usage."""
    answer = cli("status", "--watch", "--json", "--config", project(tmp_path))
    assert answer.code == 2


def test_watch_needs_a_terminal(tmp_path):
    """Into a pipe, --watch is refused with what to call instead."""
    answer = cli("status", "--watch", "--config", project(tmp_path))
    assert answer.code == 2
    assert "status --json" in answer.err


def test_watch_refreshes_until_ctrl_c(disk_world):
    """Each refresh reads the ledger anew; Ctrl-C ends it without an error."""
    router = opened(disk_world)
    path = disk_world.folder / "budgetroute.toml"
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        router.settle(router.decide(asked()), given=4_000_000_000_000)

    with time_machine.travel(disk_world.clock.at, tick=False):
        watched(path, screen, pause=pause)
    drawn = screen.file.getvalue()
    assert "$0.00 of $10.00" in drawn
    assert "$4.00 of $10.00" in drawn


def test_watch_on_no_terminal_raises(disk_world):
    """The function behind --watch refuses a console that is no terminal."""
    opened(disk_world)
    with pytest.raises(ConfigError, match="no terminal"):
        watched(disk_world.folder / "budgetroute.toml", Console(file=io.StringIO()))


def test_shadow_mode_says_what_turning_on_would_do(disk_world):
    """The real spend, what `on` would have spent and refused, and both arms' predictions."""
    router = disk_world.router(budget="daily_usd = 0.02", more=STORE, top='mode = "shadow"')
    spend(router, 20)
    router.comparing.flush()
    said = cli_at(disk_world, "status", "--json").json
    assert said["mode"] == "shadow"
    assert said["spent_usd"] == pytest.approx(20 * 0.0006)
    assert said["virtual"]["calls"] + said["virtual"]["refused"] == 20
    assert said["virtual"]["spent_usd"] <= 0.02
    assert said["savings"]["compared"] == said["virtual"]["calls"]
    assert said["savings"]["baseline_usd"] > 0
    text = cli_at(disk_world, "status").out
    assert "mode shadow" in text
    assert "$0.012 was really spent, no call was changed or refused" in text
    assert "On would" in text


def test_on_reports_savings_against_baseline_and_single_actions(disk_world):
    """The sums of the arms are those of the decisions, and both comparisons are printed."""
    router = opened(disk_world)
    decisions = []
    for tokens in (100, 200, 900):
        for kind in ("math", "chat"):
            decision = router.decide(asked(tokens=tokens, prompt_type=kind))
            router.settle(decision, [Usage(tokens, 100)])
            decisions.append(decision)
    router.comparing.flush()
    said = cli_at(disk_world, "status", "--json").json["savings"]
    assert said["calls"] == said["compared"] == 6
    assert said["usd"] == pytest.approx(sum(d.chosen.cost for d in decisions))
    assert said["baseline_usd"] == pytest.approx(sum(d.baseline.cost for d in decisions))
    assert said["reward"] == pytest.approx(sum(d.chosen.reward for d in decisions) / 6)
    text = cli_at(disk_world, "status").out
    assert "Savings" in text
    assert "than the baseline's" in text
