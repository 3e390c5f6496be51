"""Gates: what may not serve a request, each with its reason, and what happens when nothing is left."""

from __future__ import annotations

import logging

import pytest
from helpers.world import ACTIONS, BASELINE, EVERY_AXIS, MODELS, TINY, asked, cell

from budgetroute.errors import NoEligibleAction, UnpricedModel
from budgetroute.records import Action, InputSize, Pins, Usage

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'


def reasons(router, **more) -> dict[str, str]:
    return dict(router.decide(asked(prompt_type="math", **more)).reasons)


@pytest.mark.parametrize(
    ("more", "request_more", "label", "why"),
    [
        ('[routes.answer]\ndeny = ["large"]', {}, "large/1024", "denied for this route"),
        ('[routes.answer]\nallow = ["mid"]', {}, "large/1024", "not in this route's allow list"),
        ("", {"pins": Pins(model="mid")}, "large/1024", "model is pinned to mid"),
        ("", {"pins": Pins(cot=False)}, "mid/1024/cot", "cot is pinned to False"),
        ("", {"ceiling": 512}, "large/1024", "cap above the caller's max_tokens 512"),
        ("", {"sendable": EVERY_AXIS - {"cot"}}, "mid/1024/cot", "no parameter that carries cot"),
        ('[types.math]\nmodels = ["mid"]', {}, "large/1024", "[types.math] allows models ['mid']"),
        ("[types.math]\nmax_tokens = [1024]", {}, "small/256", "allows max_tokens [1024]"),
        ("[types.math]\ncot = [true]", {}, "mid/1024", "[types.math] allows cot [True]"),
    ],
)
def test_each_gate_says_why(world, more, request_more, label, why):
    """Who is out and why is in the decision, in words that name the rule."""
    found = reasons(world.router(more=more), **request_more)
    assert why in found[label]


def test_required_tags_come_from_the_route_and_from_the_call(world):
    """Only models that carry every tag stay."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\ntags = ["eu", "zdr"]')
    models = models.replace('[models."large"]', '[models."large"]\ntags = ["eu"]')
    router = world.router(models=models, more=BEST + '[routes.answer]\nrequire = ["eu"]')
    assert router.decide(asked(prompt_type="math")).model == "large"
    decision = router.decide(asked(prompt_type="math", require=frozenset({"zdr"})))
    assert decision.model == "mid"
    assert decision.reasons["large/1024"] == "lacks required tag zdr"


def test_a_function_with_its_own_client_reaches_its_own_provider_only(world):
    """The baseline's provider is what such a function can serve; more must be said."""
    models = MODELS.replace('[models."large"]', '[models."large"]\nprovider = "elsewhere"')
    router = world.router(models=models, more=BEST)
    decision = router.decide(asked(prompt_type="math", own_client=True))
    assert "provider elsewhere is not one" in decision.reasons["large/1024"]
    assert router.decide(asked(prompt_type="math")).model == "large"
    said = frozenset({"custom", "elsewhere"})
    both = router.decide(asked(prompt_type="math", own_client=True, providers=said))
    assert both.model == "large"


def test_a_model_known_not_to_do_tools_is_out(world):
    """The price map's word counts; what it does not know is allowed by default."""
    models = MODELS + '[models."deepseek-reasoner"]\nlike = "small"\n'
    found = reasons(world.router(models=models), needs=frozenset({"tools"}))
    assert found["deepseek-reasoner/1024"] == "cannot do tools"
    assert "small/1024" not in found


def test_deny_unknown_capabilities(world):
    """With `unknown_capability = "deny"` made-up models cannot serve tools: the baseline does."""
    router = world.router(top='unknown_capability = "deny"')
    decision = router.decide(asked(prompt_type="math", needs=frozenset({"tools"})))
    assert decision.fallback
    assert "not known to do tools" in decision.why


def test_tools_and_schemas_take_no_cap_that_cuts(world):
    """A cap that cuts more than 1 % of answers is no candidate; without tools it is."""
    for needs in ({"tools"}, {"response_schema"}):
        found = reasons(world.router(), needs=frozenset(needs))
        assert found["small/256"].startswith("would cut 30% of answers")
    assert "small/256" not in reasons(world.router())


def test_reasoning_takes_no_cap_that_cuts(world):
    """An action with a reasoning effort is as fragile; effort `none` is not."""
    actions = (*ACTIONS, Action("mid", 256, reasoning_effort="low"),
               Action("mid", 256, reasoning_effort="none"))  # fmt: skip
    cells = {k: (*v, cell(0.9, 200, cut=0.2), cell(0.5, 200, cut=0.2))
             for k, v in TINY.cells.items()}  # fmt: skip
    found = reasons(world.with_profile(actions=actions, cells=cells).router())
    assert "would cut 20%" in found["mid/256/low"]
    assert "mid/256/none" not in found


def test_a_pinned_cap_is_the_users_own_risk(world):
    """Who pins a cap with tools gets it."""
    decision = world.router().decide(
        asked(prompt_type="math", needs=frozenset({"tools"}), pins=Pins(max_tokens=256))
    )
    assert decision.max_tokens == 256
    assert not decision.fallback


def test_a_prompt_beyond_the_context_is_no_candidate(world):
    """The price map's context length gates, and so does its largest output."""
    models = MODELS + '[models."gpt-4"]\nlike = "large"\nmax_tokens = [1024]\n'
    router = world.router(models=models)
    found = reasons(router, size=InputSize(9000, 36_000))
    assert found["gpt-4/1024"] == "prompt exceeds the model's 8192 input tokens"
    assert "gpt-4/1024" not in reasons(router)


def test_code_without_a_baseline_gets_nothing_it_cannot_send(world):
    """Without defaults there is no baseline to differ from, but a parameter is still needed."""
    sendable = frozenset({"model", "max_tokens"})
    found = reasons(world.router(), baseline=None, sendable=sendable)
    assert found == {"mid/1024/cot": "this function has no parameter that carries cot"}


def test_a_fixed_model_keeps_its_baselines_part(world):
    """A function that can only carry a cap keeps its own model."""
    router = world.router(more=BEST)
    baseline = Action("small", 1024)
    decision = router.decide(
        asked(prompt_type="math", baseline=baseline, sendable=frozenset({"max_tokens"}))
    )
    assert decision.model == "small"
    assert decision.reasons["large/1024"].endswith("carries model")


def test_a_sampling_default_is_kept_not_gated(world):
    """The baseline's temperature and n go with every candidate; n multiplies the cost."""
    router = world.router(more=BEST)
    plain = router.decide(asked(prompt_type="math"))
    base = Action("mid", 1024, temperature=0.3, n=3)
    decision = router.decide(
        asked(prompt_type="math", baseline=base, sendable=frozenset({"model"}))
    )
    assert (decision.action.temperature, decision.action.n) == (0.3, 3)
    assert decision.expected_usd == pytest.approx(plain.expected_usd + 2 * 420 * 40 / 1e6)


def test_nothing_left_raises_with_every_reason(world):
    """Without a baseline the error names each action's reason and what to run."""
    router = world.router(more='[routes.answer]\nrequire = ["mars"]')
    with pytest.raises(NoEligibleAction, match=r"lacks required tag mars.*doctor") as caught:
        router.decide(asked(prompt_type="math", baseline=None))
    assert set(caught.value.reasons) == {a.label for a in ACTIONS}
    assert router.status().calls == 0


@pytest.mark.parametrize(
    "more",
    ['[routes.answer]\nrequire = ["eu"]', '[routes.answer]\ndeny = ["small", "mid", "large"]'],
)
def test_the_fallback_never_breaks_a_rule(world, more):
    """A baseline that is denied or lacks a tag is not taken: the error is raised."""
    with pytest.raises(NoEligibleAction):
        world.router(more=more).decide(asked(prompt_type="math"))


def test_the_fallback_keeps_what_was_pinned(world, caplog):
    """With nothing left by type, the baseline is taken with the pinned model, not its own."""
    router = world.router(more='[types.math]\nmodels = ["mid"]')
    decision = router.decide(asked(prompt_type="math", pins=Pins(model="small")))
    assert decision.fallback
    assert decision.action == Action("small", 1024)
    assert "baseline is taken" in caplog.text


def test_a_pin_that_cannot_be_sent_is_not_pretended(world):
    """A function without a model parameter cannot honour a pinned model; it must not be billed so."""
    request = asked(
        prompt_type="math", pins=Pins(model="large"), sendable=frozenset({"max_tokens"})
    )
    with pytest.raises(NoEligibleAction, match="carries model"):
        world.router().decide(request)


def test_floors_keep_only_what_reaches_them(world):
    """At a price that would take the cheapest, the floor takes the cheapest that reaches it."""
    pay = '[pacing]\npacer = "fixed"\ninitial_lambda = 1e6\n'
    router = world.router(more=pay)
    assert router.decide(asked(prompt_type="math")).action.label == "small/256"
    assert router.decide(asked(prompt_type="math", floor=0.7)).action.label == "mid/1024/cot"
    routed = world.router(more=pay + "[routes.answer]\nfloor = 0.8")
    assert routed.decide(asked(prompt_type="math")).model == "large"


def test_a_floor_that_nothing_reaches_takes_the_best_and_warns(world, caplog):
    """The highest reward is taken whatever λ; `strict` raises instead."""
    pay = '[pacing]\npacer = "fixed"\ninitial_lambda = 1e6\n'
    decision = world.router(more=pay).decide(asked(prompt_type="math", floor=0.99))
    assert decision.model == "large"
    assert "reaches the floor 0.99" in caplog.text
    with pytest.raises(NoEligibleAction, match=r"floor 0.99; the best is large/1024 at 0.850"):
        world.router(more=pay, top="strict = true").decide(asked(prompt_type="math", floor=0.99))


def test_a_floor_that_cannot_be_afforded_takes_the_best_that_can(world, caplog):
    """The highest affordable reward is taken and said; under `strict` nothing below is."""
    from budgetroute.errors import BudgetExceeded

    tight = "daily_usd = 0.02"  # large may cost 0.044
    decision = world.router(budget=tight).decide(asked(prompt_type="math", floor=0.8))
    assert decision.action.label == "mid/1024/cot"
    assert "no affordable action reaches the floor 0.8" in caplog.text
    with pytest.raises(BudgetExceeded):
        world.router(budget=tight, top="strict = true").decide(asked(prompt_type="math", floor=0.8))


def test_warm_up_keeps_the_floor(world):
    """A floor holds from the first call on, whatever warm-up may buy."""
    router = world.router(budget="daily_usd = 10\ncalls_per_day = 20000")
    for _ in range(5):
        decision = router.decide(asked(prompt_type="math", floor=0.8))
        assert decision.model == "large"
        router.settle(decision, [Usage(200, 400)])


def test_an_unpriced_pin_is_refused_by_name(world, caplog):
    """A pinned model needs a price; the text has the line to write and nothing is held."""
    router = world.router()
    with pytest.raises(UnpricedModel, match=r'\[models."mystery"\]'):
        router.decide(asked(prompt_type="math", pins=Pins(model="mystery", max_tokens=100)))
    assert router.status().calls == 0
    assert caplog.records == [] or caplog.records[-1].levelno < logging.WARNING


def test_a_pinned_model_without_a_curve_runs_as_the_baseline_would(world):
    """R is unknown; cap, temperature and n are the baseline's where they are not pinned."""
    models = (
        MODELS
        + '[models."extra"]\nlike = "small"\nprice = { input = 1.0, output = 2.0 }\nenabled = false\n'
    )
    base = Action("mid", 700, temperature=0.2, n=2, reasoning_effort="low")
    decision = world.router(models=models).decide(
        asked(prompt_type="math", baseline=base, pins=Pins(model="extra"))
    )
    assert decision.action == Action("extra", 700, temperature=0.2, n=2, reasoning_effort="low")
    assert decision.chosen.reward is None
    assert decision.expected_usd == pytest.approx((200 * 1.0 + 2 * 700 * 2.0) / 1e6)


def test_a_pinned_model_without_any_cap_is_an_error_that_says_pin_one(world):
    """Without a baseline nothing bounds the call."""
    models = MODELS + '[models."extra"]\nlike = "small"\nprice = "free"\nenabled = false\n'
    with pytest.raises(Exception, match=r"pin\(model='extra', max_tokens=512\)"):
        world.router(models=models).decide(
            asked(prompt_type="math", baseline=None, pins=Pins(model="extra"))
        )


def test_a_pinned_cap_between_two_profiled_ones_is_interpolated(world):
    """512 lies half way between 256 and 1024 in log; a cap beyond the largest counts as it."""
    router = world.router(more=BEST)
    half = router.decide(asked(prompt_type="math", pins=Pins(model="small", max_tokens=512)))
    assert half.chosen.reward == pytest.approx((0.15 + 0.30) / 2)
    assert half.chosen.source == "interpolated"
    above = router.decide(asked(prompt_type="math", pins=Pins(model="small", max_tokens=5000)))
    assert above.chosen.reward == pytest.approx(0.30)
    assert above.max_tokens == 5000
    below = router.decide(asked(prompt_type="math", pins=Pins(model="small", max_tokens=100)))
    assert (below.max_tokens, below.chosen.reward) == (100, None)


def test_the_baseline_is_only_used_when_routing_fails(world):
    """It is a candidate like any other: in the table it may win, outside it does not."""
    assert BASELINE.model == "mid"
    decision = world.router(more=BEST).decide(asked(prompt_type="math"))
    assert decision.model == "large"
    assert not decision.fallback
