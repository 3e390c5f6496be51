"""The demo: figures that hold together, a cap that holds, an end that leaves nothing behind."""

import io
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from openai.types.chat import ChatCompletion
from rich.console import Console

from budgetroute import ConfigError
from budgetroute.clock import ManualClock
from budgetroute.demo import progress_line, render, run_demo
from budgetroute.demo.baselines import Run, best_mix, compare, messages_of, unrouted
from budgetroute.demo.day import Call, day, shares_of
from budgetroute.demo.play import MIDNIGHT, Served, play_calls, set_stage
from budgetroute.demo.prompts import write_task
from budgetroute.demo.result import Progress
from budgetroute.demo.run import add_up, readings_of, uses_of
from budgetroute.demo.server import responder
from budgetroute.demo.setting import DAY_CALLS, HOLD_SHARE, PROFILE, set_up
from budgetroute.demo.simulated import SimulatedModels
from budgetroute.loopback import Received
from budgetroute.prices import PriceBook
from budgetroute.profiles import load_profile
from budgetroute.records import Action
from budgetroute.stores import MemoryStore

CALLS = 400
SMALL, LARGE = Action("small", 64), Action("large", 64)


@pytest.fixture(scope="module")
def profile():
    return load_profile(PROFILE)


class Direct:
    """What an openai client answers, without the way over HTTP."""

    def __init__(self, profile, coming, *, seed):
        self._respond = responder(SimulatedModels(profile, seed=seed), [c.task for c in coming])
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **body):
        received = Received("POST", "/v1/chat/completions", {}, json.dumps(body).encode())
        return ChatCompletion.model_validate_json(self._respond(received).body)


def played(folder, profile, *, calls, seed, budget_usd=None, progress=lambda progress: None):
    """Play a day as the demo does, save that models and ledger are in this process's memory."""
    prices, coming = PriceBook(), day(shares_of(profile), calls=calls, seed=seed)
    setting = set_up(
        profile.actions,
        prices,
        calls=calls,
        budget_usd=budget_usd,
        prompts=[messages_of(call.task) for call in coming],
    )
    clock = ManualClock(MIDNIGHT)
    stage = set_stage(setting, prices, folder, store=MemoryStore(clock), clock=clock)
    play = play_calls(coming, Direct(profile, coming, seed=seed), stage, progress=progress)
    return play, add_up(play, setting, profile, prices, seed=seed)


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(told, tmp_path_factory):
    """Four hundred calls over HTTP, with an environment that points elsewhere."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "tmp").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder / "tmp"))
        patch.setattr("tempfile.tempdir", None)
        patch.setenv("BUDGETROUTE_STORE_PATH", str(folder / "mine"))
        patch.setenv("BUDGETROUTE_BUDGET_DAILY_USD", "1000")
        for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            patch.setenv(proxy, "http://127.0.0.1:9")
        patch.delenv("OPENAI_API_KEY", raising=False)
        patch.delenv("NO_PROXY", raising=False)
        patch.delenv("no_proxy", raising=False)
        made = run_demo(calls=CALLS, progress=told.append)
    assert [path.name for path in folder.iterdir()] == ["tmp"], "the user's store was opened"
    assert list((folder / "tmp").iterdir()) == [], "the demo left a folder behind"
    return made


class TestOverHttp:
    def test_every_dollar_is_accounted_for(self, result):
        """Ledger = what the responses billed = sum over actions = sum over half hours."""
        assert result.spent_usd == result.billed_usd
        assert sum(use.usd for use in result.uses) == pytest.approx(result.spent_usd, abs=1e-12)
        assert sum(r.spent_usd for r in result.readings) == pytest.approx(
            result.spent_usd, abs=1e-12
        )

    def test_every_call_is_accounted_for(self, result):
        """Each call is in one half hour, and was served by one action or refused."""
        assert result.calls == result.planned == CALLS
        assert sum(reading.calls for reading in result.readings) == CALLS
        assert sum(use.calls for use in result.uses) + result.rejected == CALLS
        served = sum(use.calls * use.mean_reward for use in result.uses)
        assert served / CALLS == pytest.approx(result.mean_reward)

    def test_the_budget_holds(self, result):
        """The default budget scales with the calls, whatever the environment says, and is kept."""
        assert result.limit_usd == 0.75 * CALLS / DAY_CALLS
        assert 0.9 * result.limit_usd < result.spent_usd <= result.limit_usd

    def test_what_is_held_suits_a_whole_day(self, result):
        """The largest worst case is at most 0.5 % of the budget of 4,000 calls."""
        assert 0 < result.largest_worst_usd <= HOLD_SHARE * result.limit_usd * DAY_CALLS / CALLS

    def test_progress_is_told_from_start_to_end(self, result, told):
        """Progress starts at 0 and ends at the result's figures, never going back."""
        assert [p.calls for p in told] == list(range(CALLS + 1))
        spent = [p.spent_usd for p in told]
        assert spent == sorted(spent)
        assert (spent[0], spent[-1]) == (0.0, result.spent_usd)
        assert all(a.second <= b.second for a, b in pairwise(told))

    def test_json_has_the_figures(self, result):
        """The JSON is plain, and has the figures that are asked of it under their names."""
        told = json.loads(json.dumps(result.to_json(), allow_nan=False))
        assert told["spent_usd"] == result.spent_usd
        assert told["limit_usd"] == result.limit_usd
        assert (told["calls"], told["mean_reward"]) == (CALLS, result.mean_reward)
        assert told["rejected"] == 0
        assert told["shadow_price"][0]["until"] == "00:30"
        assert told["baselines"].keys() == {"always_cheapest", "always_best", "best_mix"}
        assert all({"usd", "mean_reward"} <= row.keys() for row in told["baselines"].values())

    def test_the_way_to_models_and_ledger_changes_nothing(self, result, profile, tmp_path):
        """The same seed with models and ledger in this process's memory gives the same figures."""
        _, direct = played(tmp_path, profile, calls=CALLS, seed=0)
        same = replace(direct, seconds=result.seconds, day_seconds=result.day_seconds)
        assert same == result


@pytest.mark.parametrize("seed", [0, 3])
def test_a_whole_day(seed, profile, tmp_path):
    """4,000 calls end within 1 % under the budget, refuse none and beat the best random mix."""
    play, result = played(tmp_path, profile, calls=DAY_CALLS, seed=seed)
    assert 0.99 * result.limit_usd <= result.spent_usd <= result.limit_usd
    assert result.spent_usd == result.billed_usd
    assert result.largest_worst_usd <= 0.005 * result.limit_usd
    assert result.rejected == 0
    assert len(play.served) == DAY_CALLS
    assert result.lead > 2 * result.baselines.lead_error


def test_too_little_money_is_refused_and_never_overspent(profile, tmp_path):
    """A budget below the cheapest day refuses calls, counts them, and is still not crossed."""
    play, result = played(tmp_path, profile, calls=100, seed=1, budget_usd=0.0016)
    assert result.rejected > 0
    assert result.spent_usd <= 0.0016
    refused = [one for one in play.served if one.decision is None]
    assert len(refused) == result.rejected
    assert {(one.reward, one.settled, one.billed) for one in refused} == {(0.0, 0, 0)}
    assert result.baselines.best_mix.cheap is None


def test_an_interrupt_ends_the_day_early(profile, tmp_path):
    """After Ctrl-C the result covers the calls made, baselines included."""

    def stop(progress):
        if progress.calls == 30:
            raise KeyboardInterrupt

    play, result = played(tmp_path, profile, calls=CALLS, seed=0, progress=stop)
    assert play.interrupted
    assert (result.interrupted, result.calls, result.planned) == (True, 30, CALLS)
    assert result.baselines.always_best.calls == 30
    assert f"30 of {CALLS} calls" in text_of(render(result))


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """SIGINT to the whole process group: a partial result, no folder left, the server ends too."""
    code = """
        import os, signal
        from budgetroute.demo import run_demo
        def stop(progress):
            if progress.calls == 20:
                os.killpg(os.getpgrp(), signal.SIGINT)
        result = run_demo(calls=60, progress=stop)
        print(result.calls, result.interrupted)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        start_new_session=True,
        capture_output=True,  # ends when the last holder of standard error is gone: the server
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
    )
    calls, interrupted = done.stdout.split()
    assert interrupted == "True"
    assert int(calls) in {20, 21}
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


class TestWishes:
    @pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_senseless_budget_is_told(self, budget):
        """A budget must be a finite number of dollars above 0."""
        with pytest.raises(ConfigError, match="write one above 0"):
            run_demo(calls=10, budget_usd=budget)

    def test_no_calls_are_told(self):
        """A day without calls is refused."""
        with pytest.raises(ConfigError, match="asked for 0 calls; it needs 1 or more"):
            run_demo(calls=0)

    def test_a_tiny_budget_says_what_would_do(self, profile, tmp_path):
        """If no action suits the budget, the error names one that an action suits."""
        with pytest.raises(ConfigError, match=r"give it at least \$") as caught:
            run_demo(calls=DAY_CALLS, budget_usd=0.001)
        enough = float(str(caught.value).partition("at least $")[2].partition(",")[0])
        _, result = played(tmp_path, profile, calls=40, seed=0, budget_usd=enough * 1.1 / 100)
        assert result.calls == 40

    def test_a_larger_budget_opens_dearer_actions(self, profile):
        """What may be held follows the budget, so more money means more models."""
        coming = day(shares_of(profile), calls=40)
        prompts = [messages_of(call.task) for call in coming]

        def models(budget):
            book = PriceBook()
            wish = {"calls": 40, "budget_usd": budget, "prompts": prompts}
            return set(set_up(profile.actions, book, **wish).models)

        assert models(0.002) < models(0.0075) < models(0.6)

    def test_being_turned_off_is_told(self, monkeypatch):
        """With BUDGETROUTE_DISABLE the demo says so instead of measuring nothing."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")
        with pytest.raises(ConfigError, match="unset BUDGETROUTE_DISABLE"):
            run_demo(calls=10)


class TestBaselines:
    def test_they_are_what_the_server_would_have_done(self, profile):
        """An action's day is, call by call, the grade and the bill of the server's own answers."""
        coming = day(shares_of(profile), calls=60, seed=5)
        client, prices = Direct(profile, coming, seed=5), PriceBook()
        actions = [a for a in profile.actions if a.model == "gpt-4.1-mini"]
        tasks = [call.task for call in coming]
        for run in unrouted(tasks, actions, SimulatedModels(profile, seed=5), prices):
            rewards, usd = replayed(client, tasks, run.action)
            assert run.rewards == rewards
            assert run.usd == pytest.approx(usd, rel=1e-9)

    def test_the_best_mix_is_the_hull_at_these_dollars(self):
        """Two actions at 1 and 3 dollars mix at 1.5 dollars with a quarter of the dearer."""
        cheap, dear = Run(SMALL, 1.0, (0.0, 1.0)), Run(LARGE, 3.0, (1.0, 1.0))
        assert best_mix([dear, cheap], 1.5) == (cheap, dear, 0.25)

    def test_a_dominated_action_is_no_part_of_the_mix(self):
        """An action under the line between two others is left out."""
        cheap, dear = Run(SMALL, 1.0, (0.0,)), Run(LARGE, 3.0, (1.0,))
        poor = Run(Action("poor", 64), 2.0, (0.3,))
        assert best_mix([cheap, poor, dear], 2.0) == (cheap, dear, 0.5)

    def test_below_the_cheapest_some_calls_are_refused(self):
        """Half of the cheapest action's dollars serve half of the calls."""
        low, high, share = best_mix([Run(SMALL, 2.0, (1.0,))], 1.0)
        assert (low.action, high.action, share) == (None, SMALL, 0.5)

    def test_beyond_the_best_more_dollars_buy_nothing(self):
        """With money for the best action everywhere, the mix is that action."""
        cheap, dear = Run(SMALL, 1.0, (0.0,)), Run(LARGE, 3.0, (1.0,))
        assert best_mix([cheap, dear], 5.0) == (dear, dear, 1.0)

    def test_the_lead_has_a_paired_error(self):
        """The standard error is of the differences call by call: 0 if they are all the same."""
        runs = [Run(SMALL, 1.0, (0.0, 0.5)), Run(LARGE, 3.0, (0.5, 1.0))]
        same = compare(runs, [0.5, 1.0], usd=2.0)
        assert same.best_mix.mean_reward == 0.5
        assert same.lead_error == 0.0
        assert compare(runs, [1.0, 0.5], usd=2.0).lead_error == pytest.approx(0.5)


def replayed(client, tasks, action):
    """Return the rewards and dollars of one action sent for every task."""
    from budgetroute.calls.prompts import with_cot

    rates = PriceBook().price(action.model).rates
    rewards, atto = [], 0
    for task in tasks:
        messages = messages_of(task)
        sent = with_cot(messages) if action.cot else messages
        response = client.create(model=action.model, messages=sent, max_tokens=action.max_tokens)
        rewards.append(task.question.grade(response.choices[0].message.content))
        usage = response.usage
        atto += usage.prompt_tokens * rates.input + usage.completion_tokens * rates.output
    return tuple(rewards), atto / 1e18


def test_a_half_hour_without_calls_keeps_its_price():
    """λ of a half hour without a decision is the one before's; unknown before the first."""
    task = write_task("math", seed=0, number=0)
    decided = SimpleNamespace(shadow_price=40.0)
    served = [
        Served(Call(10.0, task)),
        Served(Call(1900.0, task), decided, settled=2 * 10**12),
        Served(Call(5500.0, task), SimpleNamespace(shadow_price=50.0)),
    ]
    seen = [(r.second, r.calls, r.spent_usd, r.shadow_price) for r in readings_of(served)]
    assert seen == [
        (1800, 1, 0.0, None),
        (3600, 1, 2.0, 40.0),
        (5400, 0, 0.0, 40.0),
        (7200, 1, 0.0, 50.0),
    ]


def test_an_action_names_the_types_it_mostly_served():
    """A type counts if it makes up a fifth of an action's calls; most calls come first."""
    math, code, chat = (write_task(k, seed=0, number=0) for k in ("math", "code", "chat"))
    decision = SimpleNamespace(action=SMALL)
    tasks = [math] * 3 + [code] * 6 + [chat]
    served = [Served(Call(0.0, task), decision, reward=0.5, settled=10**12) for task in tasks]
    (use,) = uses_of(served)
    assert use.kinds == ("code", "math")
    assert (use.calls, use.usd, use.mean_reward) == (10, 10.0, 0.5)


def text_of(renderable, *, width=80, encoding="utf-8"):
    """Return what a terminal of that width and encoding shows."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, errors="replace") as file:
        Console(file=file, width=width, markup=False, highlight=False).print(renderable)
        file.flush()
        return raw.getvalue().decode(encoding)


class TestScreen:
    @pytest.mark.parametrize("width", [80, 100])
    def test_the_page_fits(self, result, width):
        """No table is cut short at the usual widths."""
        shown = text_of(render(result), width=width)
        assert max(map(len, shown.splitlines())) <= width
        assert "…" not in shown

    def test_the_page_says_what_was_measured(self, result):
        """Budget, spend, refusals, each baseline and the simulation are on the page."""
        shown = text_of(render(result), width=100)
        for said in (
            "The models are simulated",
            f"${result.spent_usd:.4f}",
            f"{result.spent_usd / result.limit_usd:.2%} of it",
            "calls with BudgetExceeded",
            f"{result.mean_reward:.4f}",
            f"{result.baselines.best_mix.mean_reward:.4f}",
            f"{result.baselines.always_best.mean_reward:.4f}",
            "which flatters it",
            "The ledger equals what the responses billed",
        ):
            assert said in shown

    def test_a_loss_is_shown_as_one(self, result):
        """If the mix did better, the page says by how much."""
        poor = replace(result, mean_reward=result.baselines.best_mix.mean_reward - 0.02)
        assert "-2.0 points" in text_of(render(poor))

    def test_an_ascii_terminal_gets_ascii_bars(self, result):
        """Where only ASCII can be shown, bars are drawn with it."""
        shown = text_of(render(result), encoding="ascii")
        assert "lambda" in shown
        spend = next(line for line in shown.splitlines() if line.startswith("  spend  "))
        assert "?" not in spend

    def test_the_progress_line_is_one_line(self):
        """At its longest the progress line fits 80 columns."""
        line = progress_line(Progress(4000, 4000, 86_399.0, 0.7499, 0.75, 1234.5))
        shown = text_of(line).rstrip("\n")
        assert "\n" not in shown.rstrip()
        assert "23:59" in shown
        assert "4,000 of 4,000 calls" in shown
        assert "λ 1,234" in shown
