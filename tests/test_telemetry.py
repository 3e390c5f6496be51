"""The debug log: one line per event that answers, in fields that cannot be forged."""

from __future__ import annotations

import logging
import re
import shlex

import pytest
from helpers.world import MODELS, asked
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.context import pin
from budgetroute.errors import ConfigError
from budgetroute.records import Usage
from budgetroute.telemetry import enable_from_env, logfmt


def lines(caplog, name: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == f"budgetroute.{name}"]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG, logger="budgetroute")
    return caplog


def test_a_decision_line_answers_what_why_what_was_second_where_it_flips_and_the_day(world, log):
    """One line per decision, with every answer the design asks for."""
    router = world.router()
    decision = router.decide(asked(prompt_type="math"))
    (line,) = lines(log, "decide")
    fields = dict(part.split("=", 1) for part in shlex.split(line))
    assert fields["id"] == decision.id
    assert fields["pick"] == decision.action.label
    assert fields["type"] == "math(1.00)"
    assert fields["next"].startswith(decision.runner_up.action.label)
    assert fields["lambda"] == f"{decision.shadow_price:.4g}"
    assert f"λ {decision.flips_at:.4g}" in fields["why"]
    assert fields["day"] == "$0.0000/10.00"
    assert "held" in fields


def test_a_settlement_line_shows_tokens_cost_and_where_the_cost_is_from(world, log):
    """One line per settlement."""
    router = world.router()
    decision = router.decide(asked(prompt_type="math"))
    usage = Usage(210, 300, cached_tokens=10, reasoning_tokens=5, finish_reason="stop")
    router.settle(decision, [usage])
    (line,) = lines(log, "spend")
    for part in ("in=210", "out=300", "cached=10", "reasoning=5", "finish=stop"):
        assert part in line
    assert "source=reported" in line


def test_the_same_fields_are_in_extra(world, log):
    """Structured handlers get the fields as a mapping."""
    decision = world.router().decide(asked(prompt_type="math"))
    record = next(r for r in log.records if r.name == "budgetroute.decide")
    assert record.budgetroute["id"] == decision.id


def test_a_price_line_says_from_where_to_where(world, log):
    """λ's first value and its steps are told at INFO, without the word budget explained away."""
    router = world.router()
    router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 900)])
    world.pass_time(minutes=5)
    router.decide(asked(prompt_type="math"))
    first, second = lines(log, "pace")
    assert first.startswith("from=start to=")
    assert re.match(r"from=[\d.e+-]+ to=[\d.e+-]+ window=day:2026-03-04 spent=", second)
    assert "worth=" in second


def test_a_price_at_its_bound_is_told_once(world, log):
    """The plan that reaches `lambda_max` says so; plans that stay there say nothing."""
    router = world.router(more='[pacing]\npacer = "dual"\nlambda_max = 2.0\nwarmup_periods = 0\n')
    for _ in range(4):
        router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 900)])
        world.pass_time(minutes=5)
    told = [line for line in lines(log, "pace") if "bound=lambda_max" in line]
    assert len(told) == 1
    assert router.pace.known().steps >= 2


def test_a_budget_that_traffic_cannot_use_up_is_told(world, log):
    """λ at its lower bound says so in words, once for each λ."""
    router = world.router(budget="daily_usd = 100000", more='[pacing]\npacer = "solve"\n')
    for _ in range(6):
        router.settle(router.decide(asked(prompt_type="math")), [Usage(200, 900)])
        world.pass_time(minutes=5)
    told = [line for line in lines(log, "pace") if "bound=" in line]
    assert "more money than the traffic can use" in told[0]
    prices = [re.search(r"to=(\S+)", line)[1] for line in told]
    assert len(set(prices)) == len(prices) < 6


def test_nothing_is_computed_for_a_log_nobody_reads(world, caplog):
    """At WARNING no decision line is made."""
    caplog.set_level(logging.WARNING, logger="budgetroute")
    world.router().decide(asked(prompt_type="math"))
    assert not caplog.records


def test_a_model_name_with_line_breaks_cannot_forge_a_line(world, log):
    """Control characters of a pinned model or route are escaped wherever they are logged."""
    evil = "small\nWARNING forged=1\x1b[31m\u202e\u2028x"
    models = f'[models."{evil.encode("unicode_escape").decode()}"]\nprice = "free"\n'.replace(
        "\\x1b", "\\u001b"
    )
    router = world.router(models=MODELS + models.replace("price", 'like = "small"\nprice'))
    with pin(model=evil):
        from budgetroute.context import current_pins

        decision = router.decide(asked("ro\nute", prompt_type="math", pins=current_pins()))
    router.settle(decision, [Usage(1, 1, model="other\nmodel", finish_reason="a\nb")])
    assert decision.model == evil
    assert len(log.records) >= 3
    for record in log.records:
        assert record.getMessage().isprintable(), record.getMessage()


def test_gates_and_fallbacks_cannot_forge_a_line_either(world, log):
    """Texts of errors that are logged keep to one line."""
    router = world.router(more='[routes.answer]\nrequire = ["eu\\nforged=1"]')
    with pytest.raises(Exception, match="no action"):
        router.decide(asked(prompt_type="math"))
    ghost = '[models."ghost\\nforged=1"]\nprice = "free"\nlike = "small"\n'
    more = (
        '[types.math]\nmodels = ["ghost\\nforged=1"]\n[routes.answer]\ndeny = ["ghost\\nforged=1"]'
    )
    router = world.router(models=MODELS + ghost, more=more)
    router.decide(asked(prompt_type="math"))
    assert any("baseline is taken" in r.getMessage() for r in log.records)
    for record in log.records:
        assert record.getMessage().isprintable(), record.getMessage()


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(), max_size=2))
def test_logfmt_is_one_printable_line_that_can_be_read_back(fields):
    """Whatever the values, the line has no control characters and splits into its fields."""
    line = logfmt(fields)
    assert line.isprintable()
    assert re.fullmatch(r'(?:[ab]=(?:"(?:[^"\\]|\\.)*"|[^\s"=\\]+) ?)*', line)
    names = re.findall(r'([ab])=(?:"(?:[^"\\]|\\.)*"|[^\s"=\\]+)', line)
    assert names == list(fields)


def test_the_environment_turns_it_on(monkeypatch, capsys, world):
    """`BUDGETROUTE_LOG=debug` prints to stderr, once however many routers there are."""
    monkeypatch.setenv("BUDGETROUTE_LOG", "Debug")
    world.router()
    router = world.router()
    router.decide(asked(prompt_type="math"))
    assert capsys.readouterr().err.count("budgetroute.decide") == 1


def test_an_unknown_level_is_an_error(monkeypatch):
    """The text names the variable, the value and the levels."""
    monkeypatch.setenv("BUDGETROUTE_LOG", "loud")
    with pytest.raises(ConfigError, match=r"BUDGETROUTE_LOG='loud'.*debug, info, warning"):
        enable_from_env()
