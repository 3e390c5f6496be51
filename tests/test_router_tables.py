"""The table of a profile: what config makes of the profile's actions, and what it complains about."""

from __future__ import annotations

import pytest
from helpers.world import ACTIONS, MODELS, TINY, asked, cell

from budgetroute.errors import ConfigError, UnpricedModel
from budgetroute.records import Action, Pins

FREE = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'


def labels(router) -> list[str]:
    return [row.action.label for row in router.equipment.table().rows]


def pinned(router, model: str, **more):
    return router.decide(asked(prompt_type="math", pins=Pins(model=model, **more)))


def test_without_models_the_profiles_priced_ones_are_candidates(world):
    """Unpriced models of the profile are suggestions; priced ones stand with all their caps."""
    actions = (*ACTIONS, Action("gpt-4o-mini", 512))
    cells = {k: (*v, cell(0.4, 100)) for k, v in TINY.cells.items()}
    router = world.with_profile(actions=actions, cells=cells).router(models="")
    assert labels(router) == ["gpt-4o-mini/512"]


def test_models_name_who_takes_part(world):
    """Only configured models are candidates; a disabled one is not."""
    models = MODELS.replace('[models."large"]', '[models."large"]\nenabled = false')
    assert {label.split("/")[0] for label in labels(world.router(models=models))} == {
        "small",
        "mid",
    }


def test_configured_caps_replace_the_profiles(world):
    """Caps in between are interpolated, the profiled ones are not added."""
    models = MODELS.replace('[models."small"]', '[models."small"]\nmax_tokens = [512, 1024]')
    router = world.router(models=models, more=FREE)
    assert [label for label in labels(router) if "small" in label] == ["small/512", "small/1024"]
    assert pinned(router, "small", max_tokens=512).chosen.source == "interpolated"


def test_configured_axes_narrow_the_profile(world):
    """cot = [true] keeps the actions that ask for reasoning in the prompt."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\ncot = [true]')
    assert [label for label in labels(world.router(models=models)) if "mid" in label] == [
        "mid/1024/cot"
    ]


def test_samplings_multiply(world):
    """Every temperature with every n, and the params as they stand."""
    models = MODELS.replace(
        '[models."mid"]',
        '[models."mid"]\ntemperature = [0.0, 0.7]\nn = [1, 2]\ncot = [false]\n'
        "params = { top_p = 0.9 }",
    )
    found = [label for label in labels(world.router(models=models)) if "mid" in label]
    assert found == [
        "mid/1024/t0/top_p=0.9",
        "mid/1024/t0/n2/top_p=0.9",
        "mid/1024/t0.7/top_p=0.9",
        "mid/1024/t0.7/n2/top_p=0.9",
    ]


def test_like_borrows_the_curve_at_its_own_price(world):
    """Rewards and tokens are the lender's, dollars its own, and it is marked wherever it shows."""
    twin = MODELS + '[models."tuned"]\nlike = "mid"\nprice = { input = 3.0, output = 5.0 }\n'
    router = world.router(models=twin, more=FREE)
    decision = pinned(router, "tuned", cot=False)
    assert decision.chosen.reward == pytest.approx(0.45)
    assert decision.expected_usd == pytest.approx((200 * 3.0 + 320 * 5.0) / 1e6)
    assert decision.chosen.source == "like"


def test_price_as_is_the_maps_price_under_another_name(world):
    """A deployment is billed as its twin in the price map."""
    models = '[models."our-4o"]\nlike = "mid"\nprice_as = "gpt-4o-mini"\n'
    decision = pinned(world.router(models=models, more=FREE), "our-4o", cot=False)
    assert decision.expected_usd == pytest.approx((200 * 0.15 + 320 * 0.60) / 1e6)
    facts = world.router(models=models).equipment.facts("our-4o")
    assert (facts.price.key, facts.card.provider) == ("gpt-4o-mini", "openai")


def test_a_written_price_beats_price_as(world):
    """Both written: the numbers count, the key gives provider and capabilities."""
    models = (
        '[models."our-4o"]\nlike = "mid"\nprice_as = "gpt-4o-mini"\n'
        "price = { input = 1.0, output = 1.0 }\n"
    )
    facts = world.router(models=models).equipment.facts("our-4o")
    assert (facts.price.source, facts.card.provider) == ("config", "openai")


def test_a_token_ratio_scales_the_prompt(world):
    """A tokenizer that makes 1.5 tokens of one: C and the bound follow."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\ntoken_ratio = 2.0')
    decision = pinned(world.router(models=models, more=FREE), "mid", cot=False)
    assert decision.expected_usd == pytest.approx((400 * 1.0 + 320 * 4.0) / 1e6)
    bound = (200 * 2.0 * 1.1 * 1.0 + 1024 * 4.0) / 1e6  # rounded up to a whole token
    assert decision.worst_usd == pytest.approx(bound, abs=1.1e-6)


def test_openai_models_are_bounded_tighter_than_others(world):
    """r = 1.05 where o200k is nearly the provider's tokenizer, 1.6 elsewhere."""
    models = MODELS.replace('[models."mid"]', '[models."mid"]\nprovider = "openai"')
    close = pinned(world.router(models=models), "mid", cot=False)
    far = pinned(world.router(), "mid", cot=False)
    assert far.worst_usd - close.worst_usd == pytest.approx(200 * 0.55 / 1e6)


def test_images_without_a_known_size_make_a_model_ineligible(world):
    """Only models that say how many tokens an image takes can be held for."""
    from budgetroute.records import InputSize

    models = MODELS.replace('[models."mid"]', '[models."mid"]\nimage_tokens = 800')
    size = InputSize(200, 800, images=1)
    router = world.router(models=models, more=FREE)
    assert router.decide(asked(prompt_type="math", size=size)).model == "mid"
    with pytest.raises(Exception, match="image_tokens"):
        world.router().decide(asked(prompt_type="math", size=size, baseline=None))


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ('[models."ghost"]\nprice = "free"\n', "no curves for 'ghost'"),
        (MODELS.replace('[models."small"]', '[models."small"]\nmax_tokens = [100]'),
         "Caps between profiled ones are interpolated, smaller ones are not"),
        (MODELS.replace('[models."small"]', '[models."small"]\nreasoning_effort = ["high"]'),
         "none of which has a curve"),
    ],
)  # fmt: skip
def test_a_model_without_a_usable_curve_is_an_error_that_says_what_there_is(world, models, found):
    """At start-up, not at the first call."""
    with pytest.raises(ConfigError, match=found):
        world.router(models=models)


def test_an_unpriced_model_stops_the_start(world):
    """Unknown is never $0: the line to write is in the text."""
    with pytest.raises(UnpricedModel, match=r'\[models."tuned"\]\n  price ='):
        world.router(models='[models."tuned"]\nlike = "mid"\n')


def test_nothing_left_to_choose_from_is_an_error(world):
    """A profile of models that nobody prices, and no [models]."""
    with pytest.raises(ConfigError, match="nothing to choose from"):
        world.router(models="")


def test_a_route_can_have_a_profile_of_its_own(world):
    """Its types, curves and start are its own; the others keep the common one."""
    from budgetroute.profiles import dump_profile

    own = world.with_profile(
        name="own", cells={k: tuple(cell(0.9, 50) for _ in v) for k, v in TINY.cells.items()}
    ).profile
    (world.folder / "own.json").write_text(dump_profile(own), encoding="utf-8")
    router = world.router(more=FREE + '[routes.special]\nprofile = "own.json"')
    assert router.decide(asked("special", prompt_type="math")).chosen.reward == 0.9
    assert router.decide(asked("answer", prompt_type="math")).chosen.reward == 0.85
