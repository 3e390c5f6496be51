"""Cold start: configured models without curves, from start-up to `explain`, and borrowed curves."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest
from cli_support import STORE, cli_at
from helpers.world import ACTIONS, BASELINE, CELLS, MODELS, TINY, asked, cell

from budgetroute.errors import ConfigError
from budgetroute.profiles import save_profile
from budgetroute.records import Action, Pins
from budgetroute.telemetry import decided_fields

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
"""λ = 0: the highest predicted reward wins."""
NEW = "[models.new]\nprice = { input = 3.0, output = 12.0 }\n"
"""Nobody measured it; its price lies between mid's and large's."""
HIGH = Action("mid", 8192, reasoning_effort="high")
THINKING = {
    "actions": (*ACTIONS, HIGH),
    "cells": {name: (*row, cell(0.9, 2000, cut=0.0)) for name, row in CELLS.items()},
}
"""TINY with one reasoning action."""


def opened(world, extra="", **more):
    return world.router(models=MODELS + NEW + extra, more=more.pop("more", BEST), **more)


def rows(router, model="new"):
    table = router.equipment.table()
    return {row.action.label: row for row in table.rows if row.action.model == model}


def alone(router, model="new", **more):
    """A decision in which one model alone may be chosen."""
    return router.decide(asked(prompt_type="math", pins=Pins(model=model), **more))


def test_a_model_without_curves_serves(world):
    """It starts on a prior, in both classes that the profile has, and can be chosen."""
    router = opened(world)
    assert rows(router).keys() == {"new/1024", "new/1024/cot"}
    decision = alone(router)
    assert (decision.model, decision.chosen.source) == ("new", "prior")
    assert not decision.fallback


@pytest.mark.parametrize("kind", list(TINY.types))
def test_the_best_known_model_wins_where_money_is_not_scarce(world, kind):
    """A prior's promise stays below the best measured one of every type."""
    router = opened(world)
    assert router.decide(asked(prompt_type=kind)).model == "large"
    known = {**rows(router, "small"), **rows(router, "mid"), **rows(router, "large")}
    best = max(row.cells[kind].reward for row in known.values())
    assert all(0 < row.cells[kind].reward < best for row in rows(router).values())


def test_dollars_are_its_own(world):
    """A prior borrows tokens, never money: C is its tokens at the model's own price."""
    decision = alone(opened(world))
    guessed = rows(opened(world))[decision.action.label].cells["math"]
    tokens = decision.input_tokens * guessed.input_factor
    assert decision.chosen.cost == pytest.approx((3 * tokens + 12 * guessed.output_mean) / 1e6)


def test_disabled_models_are_evidence_too(world):
    """`enabled = false` takes a model out of the choice, not out of what is known."""
    models = MODELS.replace('[models."large"]', '[models."large"]\nenabled = false')
    router = world.router(models=models + NEW, more=BEST)
    assert rows(router, "large") == {}
    assert rows(router)["new/1024"].cells == rows(opened(world))["new/1024"].cells


def test_priors_are_no_evidence(world):
    """Cells that a profile file itself marks as priors teach nothing of other models."""
    shaky = {name: tuple(replace(c, source="prior") for c in row) for name, row in CELLS.items()}
    with pytest.raises(ConfigError, match="none of a priced model of its kind"):
        opened(world.with_profile(cells=shaky))


def test_a_free_model_has_no_tier(world):
    """A price of 0 says nothing of quality: the error asks for `like` and names what there is."""
    models = f'{MODELS}[models.own]\nprice = "free"\n'
    with pytest.raises(ConfigError, match="a price of 0 says nothing") as caught:
        world.router(models=models)
    assert 'like = "…"' in str(caught.value)
    assert "large, mid, small" in str(caught.value)


def test_a_profile_without_priced_models_teaches_nothing(world):
    """Where no model of the profile has a price, the error says so."""
    with pytest.raises(ConfigError, match=r"models\.\"new\".*none of a priced model") as caught:
        world.router(models=NEW)
    assert "Its priced models: none" in str(caught.value)


def test_like_must_name_a_model_of_the_profile(world):
    """A `like` that the profile lacks is an error, not a prior."""
    with pytest.raises(ConfigError, match='like = "huge", for which the profile has no curves'):
        opened(world, 'like = "huge"\n')


@pytest.mark.parametrize("line", ["cot = [true]\nmax_tokens = [64]", 'reasoning_effort = ["low"]'])
def test_a_combination_without_a_curve_stays_an_error(world, line):
    """A model that has curves gets no prior for what it lacks; nor do caps below all."""
    models = MODELS.replace('[models."large"]', f'[models."large"]\n{line}')
    with pytest.raises(ConfigError, match="none of which has a curve"):
        world.router(models=models)


def test_a_prior_obeys_the_axes_of_config(world):
    """Caps and cot that config names hold for inferred curves as for measured ones."""
    router = opened(world, "cot = [false]\nmax_tokens = [2048]\n")
    assert rows(router).keys() == {"new/2048"}
    with pytest.raises(ConfigError, match="none of which has a curve"):
        opened(world, "max_tokens = [64]\n")


def test_no_prior_below_the_baselines_cap(world):
    """Answer lengths of an unknown model are a guess: below the baseline's cap it is out."""
    router = opened(world, "max_tokens = [1024, 2048]\n")
    decision = router.decide(asked(prompt_type="math", baseline=replace(BASELINE, max_tokens=1500)))
    assert "below the baseline's 1500" in decision.reasons["new/1024"]
    assert "price-tier prior" in decision.reasons["new/1024"]
    assert "new/2048" not in decision.reasons
    assert "large/1024" not in decision.reasons


def test_without_a_baseline_or_with_a_pinned_cap_that_gate_is_open(world):
    """There is nothing to stay above where code says no cap, and a pin is the user's word."""
    router = opened(world)
    assert "new/1024" not in router.decide(asked(prompt_type="math", baseline=None)).reasons
    pins = Pins(model="new", max_tokens=1200)
    decision = router.decide(
        asked(prompt_type="math", pins=pins, baseline=replace(BASELINE, max_tokens=4000))
    )
    assert (decision.action.label, decision.chosen.source) == ("new/1200/cot", "prior")


def test_a_baselines_larger_cap_is_taken(world):
    """Code without a cap has its model's own, above every profiled one: the prior follows it."""
    decision = alone(opened(world), baseline=replace(BASELINE, max_tokens=16_384))
    assert decision.max_tokens == 16_384
    assert not decision.fallback
    assert "below the baseline's 16384" in decision.reasons["new/1024"]


def test_configured_caps_are_not_exceeded(world):
    """Where config names the caps, a larger baseline puts the prior out and the baseline serves."""
    router = opened(world, "max_tokens = [1024]\n")
    decision = router.decide(asked(prompt_type="math", baseline=replace(BASELINE, max_tokens=2000)))
    assert {"new/1024", "new/1024/cot"} <= decision.reasons.keys()
    table = router.equipment.table()
    assert table.reaching(2000) == table.rows


def test_a_reasoning_model_takes_the_reasoning_class(world):
    """By its card: the profile's efforts, and none sent at all, from reasoning models alone."""
    router = world.with_profile(**THINKING).router(models=MODELS + "[models.o3-mini]\n", more=BEST)
    assert rows(router, "o3-mini").keys() == {"o3-mini/8192/high", "o3-mini/8192"}
    assert router.equipment.table().priors["o3-mini"].nearest == ("mid",)


def test_claude_thinks_only_when_asked(world):
    """Its card says that it can reason; without a configured effort it is plain all the same."""
    name = "claude-sonnet-4-5"
    models = MODELS + f"[models.{name}]\n"
    router = world.with_profile(**THINKING).router(models=models, more=BEST)
    assert rows(router, name).keys() == {f"{name}/1024", f"{name}/1024/cot"}


def test_configured_efforts_say_that_a_model_reasons(world):
    """A model that the price map does not know reasons if config names an effort for it."""
    router = opened(world.with_profile(**THINKING), 'reasoning_effort = ["low", "high"]\n')
    assert rows(router).keys() == {"new/8192/low", "new/8192/high"}
    low, high = (rows(router)[f"new/8192/{effort}"].cells["math"] for effort in ("low", "high"))
    assert low.reward < high.reward < 0.9
    assert low.output_mean == high.output_mean


def test_a_reasoning_model_told_not_to_is_plain(world):
    """With effort `none` it takes the plain classes, and is compared with plain models."""
    models = MODELS + '[models.o3-mini]\nreasoning_effort = ["none"]\n'
    router = world.with_profile(**THINKING).router(models=models, more=BEST)
    assert rows(router, "o3-mini").keys() == {"o3-mini/1024/none", "o3-mini/1024/cot/none"}
    assert router.equipment.table().priors["o3-mini"].nearest == ("mid", "large")


def test_without_reasoning_in_the_profile_it_is_stretched(world):
    """From chains of thought: eight times the cap and the tokens, sent without an effort."""
    router = world.router(models=MODELS + "[models.o3-mini]\n", more=BEST)
    (label,) = rows(router, "o3-mini")
    assert label == "o3-mini/8192"
    guessed = rows(router, "o3-mini")[label].cells["math"]
    assert guessed.output_mean == pytest.approx(8 * CELLS["math"][3].output_mean)


def said_at_start(caplog):
    return [r.getMessage() for r in caplog.records if "price-tier prior" in r.getMessage()]


def test_start_up_warns_once_by_name(world, caplog):
    """One line per model, with what to borrow; calls repeat nothing."""
    with caplog.at_level(logging.WARNING, "budgetroute"):
        router = opened(world, more=f"{BEST}[routes.answer]\nfloor = 0.1\n")
        alone(router)
    (line,) = said_at_start(caplog)
    assert line.startswith("new: profile 'tiny' has no curve for it")
    assert 'write like = "mid" or like = "large" (nearest in price) under [models."new"]' in line


def test_known_and_borrowed_curves_warn_of_nothing(world, caplog):
    """With `like` the user has said what is to be known."""
    with caplog.at_level(logging.WARNING, "budgetroute"):
        opened(world, 'like = "mid"\n')
    assert said_at_start(caplog) == []


def test_a_warning_cannot_forge_a_line(world, caplog):
    """A model's name with a line break stays in its line."""
    odd = '[models."a\\nb"]\nprice = { input = 3.0, output = 12.0 }\n'
    with caplog.at_level(logging.WARNING, "budgetroute"):
        world.router(models=MODELS + odd, more=BEST)
    (line,) = said_at_start(caplog)
    assert "\n" not in line


def test_the_decisions_line_says_prior(world):
    """curve=prior stands in the debug line, whatever else is chosen by it."""
    assert decided_fields(alone(opened(world)))["curve"] == "prior"


@pytest.mark.parametrize(
    ("extra", "pins", "source"),
    [
        ("", Pins(model="new"), "prior"),
        ('like = "mid"\n', Pins(model="new"), "like"),
        ('like = "mid"\n', Pins(model="new", cot=True), "like"),
        ("", Pins(model="small", max_tokens=512), "interpolated"),
        ("", Pins(model="small", max_tokens=1024), "measured"),
        ('like = "small"\n', Pins(model="new", max_tokens=512), "like"),
    ],
)
def test_explain_says_where_a_curve_is_from(disk_world, extra, pins, source):
    """prior, like, interpolated and measured each stand beside the action, in words and in JSON."""
    router = opened(disk_world, extra, more=BEST + STORE)
    decision = router.decide(asked(prompt_type="math", pins=pins))
    said = cli_at(disk_world, "explain", decision.id, "--json").json
    (chosen,) = [row for row in said["ranked"] if row["chosen"]]
    assert chosen["source"] == source
    assert source in cli_at(disk_world, "explain", decision.id).line


def test_explain_tells_the_gate_of_priors(disk_world):
    """An action that its prior puts out stands there with the reason."""
    router = opened(disk_world, more=BEST + STORE)
    decision = router.decide(asked(prompt_type="math", baseline=replace(BASELINE, max_tokens=2000)))
    assert "price-tier prior, and its cap is below the baseline's 2000" in (
        cli_at(disk_world, "explain", decision.id).line
    )


def test_doctor_advises(disk_world):
    """Each model on a prior is a warning with the nearest models; it is nothing to mend."""
    opened(disk_world, more=BEST + STORE)
    answer = cli_at(disk_world, "doctor", "--json")
    said = json.loads(answer.out)["sendable"]
    assert answer.code == 0
    assert said["priors"] == {"new": ["mid", "large"]}
    (warning,) = [check["text"] for check in said["checks"] if "prior" in check["text"]]
    assert 'write like = "mid" or like = "large"' in warning


def test_doctor_knows_the_profiles_of_routes(disk_world):
    """A route's own profile may lack a model that the common one has."""
    few = {name: row[2:] for name, row in CELLS.items()}
    bare = replace(TINY, name="bare", actions=ACTIONS[2:], cells=few)
    save_profile(bare, disk_world.folder / "bare.json")
    disk_world.router(more=BEST + STORE + '\n[routes.other]\nprofile = "bare.json"\n')
    said = cli_at(disk_world, "doctor", "--json").json["sendable"]
    (warning,) = [check["text"] for check in said["checks"] if "prior" in check["text"]]
    assert warning.startswith("small: profile 'bare' has no curve for it")
