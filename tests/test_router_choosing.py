"""Choosing for one request: types are mixed, every candidate counts, the winner is explained."""

from __future__ import annotations

import json

import pytest
from helpers.world import MODELS, TINY, asked, cell
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.policy import choose, flip_price, surplus
from budgetroute.records import Action, InputSize, ModelCard, Price, Rates, Usage
from budgetroute.router.picks import draw_of
from budgetroute.router.slate import Sizing, Slate
from budgetroute.router.table import ModelFacts, make_row

FIXED = '[pacing]\npacer = "fixed"\ninitial_lambda = {}\n'


def mixed(router, weights):
    """Make every request of this router a mix of types."""

    class Given:
        def classify(self, request):
            return weights, "given"

    router.equipment.lane("answer").chain.parts = (Given(),)


def facts(name: str, given: float, made: float, **more) -> ModelFacts:
    rates = Rates(round(given * 1e12), round(made * 1e12))
    return ModelFacts(Price(name, rates), ModelCard(name, "custom"), **more)


@st.composite
def slates(draw):
    """A few rows with cells for two types, some of them unknown."""
    rows = []
    for i in range(draw(st.integers(1, 12))):
        known = draw(st.sampled_from([("a", "b"), ("a",), ("b",), ()]))
        cells = {
            name: cell(draw(st.floats(0, 1)), draw(st.floats(1, 500)), input_factor=1.25)
            for name in known
        }
        price = draw(st.sampled_from([0.1, 1.0, 10.0]))
        cap = draw(st.sampled_from([256, 1024]))
        rows.append(make_row(Action(f"m{i}", cap), facts(f"m{i}", price, 4 * price), cells))
    return Slate(rows, {"a": 1.0, "b": 2.0})


SIZING = Sizing(InputSize(200, 800), 0.0, 0)


@given(slates(), st.floats(0, 1), st.floats(0, 1e5))
def test_the_quick_ranking_is_the_rule(slate, part, price):
    """Winner and runner-up of the arrays are those that `policy.choose` picks from all rows."""
    weights = (("a", part), ("b", 1.0 - part))
    ranking = slate.rank(weights, SIZING, price=price, floor=None, exhaustive=True)
    every = [slate._candidate(i, _seen(slate, weights), SIZING) for i in range(len(slate.rows))]
    ruled = choose(every, price=price)
    for found, right in zip(ranking.best, ruled, strict=False):
        close = max(1.0, price * right.cost) * 1e-9
        assert surplus(found, price=price) == pytest.approx(surplus(right, price=price), abs=close)


def _seen(slate, weights):
    from budgetroute.router.slate import _Expected

    reward, gain, cost = slate._expect(weights, SIZING)
    return _Expected(reward.tolist(), gain.tolist(), cost.tolist(), [1.0] * len(slate.rows))


@given(slates(), st.floats(0, 1e5), st.integers(0, 10**12))
def test_what_fits_is_found(slate, price, headroom):
    """The first step that fits a headroom is the best row that fits it, looked at exhaustively."""
    weights = (("a", 0.5), ("b", 0.5))
    ranking = slate.rank(weights, SIZING, price=price, floor=None, exhaustive=True)
    found = next((c for c in ranking.steps if c.worst <= headroom), None)
    rows = [slate._candidate(i, _seen(slate, weights), SIZING) for i in range(len(slate.rows))]
    fitting = [c for c in rows if c.worst <= headroom]
    assert (found is None) == (not fitting)
    if found is not None and len(ranking.steps) < 10:
        best = max(surplus(c, price=price) for c in fitting)
        assert surplus(found, price=price) == pytest.approx(best, abs=max(1.0, price) * 1e-9)


def test_types_are_mixed_by_weight(world):
    """R = Σ p_k·R_k and C likewise, by hand for math 0.75 and chat 0.25."""
    router = world.router(more=FIXED.format(0.0))
    mixed(router, (("math", 0.75), ("chat", 0.25)))
    decision = router.decide(asked(tokens=200))
    assert decision.model == "large"
    assert decision.chosen.reward == pytest.approx(0.75 * 0.85 + 0.25 * 0.88)
    output = 0.75 * 420 + 0.25 * 140
    assert decision.expected_usd == pytest.approx((200 * 10 + output * 40) / 1e6)
    assert decision.types == (("math", 0.75), ("chat", 0.25))


def test_a_types_value_weighs_its_reward(world):
    """[types.math] value = 3: at the same λ math gets the dearer action, chat does not."""
    pay = FIXED.format(20.0)
    plain = world.router(more=pay)
    weighed = world.router(more=pay + "[types.math]\nvalue = 30.0\n")
    assert plain.decide(asked(prompt_type="math")).model == "mid"
    assert weighed.decide(asked(prompt_type="math")).model == "large"
    chosen = [r.decide(asked(prompt_type="chat")).action for r in (plain, weighed)]
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(("price", "label"), [(0.0, "large/1024"), (8.0, "mid/1024/cot"),
                                              (1e4, "small/256")])  # fmt: skip
def test_lambda_decides(world, price, label):
    """Free money buys the best, a middling λ the middle, a huge one the cheapest."""
    decision = world.router(more=FIXED.format(price)).decide(asked(prompt_type="math"))
    assert decision.action.label == label
    assert decision.shadow_price == price


def test_the_runner_up_and_the_flip_are_those_of_the_rule(world):
    """What the log shows as second is second, and above flips_at it would be first."""
    decision = world.router(more=FIXED.format(8.0)).decide(asked(prompt_type="math"))
    assert decision.runner_up.action.label == "large/1024"
    assert decision.flips_at == flip_price(decision.chosen, decision.runner_up)
    below = world.router(more=FIXED.format(decision.flips_at * 0.99))
    assert below.decide(asked(prompt_type="math")).action == decision.runner_up.action
    assert "flips below" in decision.why


def test_a_cot_action_pays_for_its_instruction(world):
    """The input factor of the cell is in C."""
    decision = world.router(more=FIXED.format(8.0)).decide(asked(prompt_type="math", tokens=1000))
    assert decision.action.cot
    assert decision.expected_usd == pytest.approx((1000 * 1.1 * 1.0 + 500 * 4.0) / 1e6)


def test_images_count_in_what_is_expected_and_what_is_held(world):
    """Two images of 1,500 tokens are 3,000 input tokens more of each."""
    models = MODELS.replace('[models."large"]', '[models."large"]\nimage_tokens = 1500')
    router = world.router(models=models, more=FIXED.format(0.0))
    bare, pictured = InputSize(200, 800), InputSize(200, 800, images=2)
    one = router.decide(asked(prompt_type="math", size=bare))
    two = router.decide(asked(prompt_type="math", size=pictured))
    assert two.model == "large"
    assert two.expected_usd - one.expected_usd == pytest.approx(3000 * 10 / 1e6)
    assert two.worst_usd - one.worst_usd == pytest.approx(3000 * 10 / 1e6)
    assert two.reasons == {} or "large" not in str(two.reasons)


def test_a_context_tier_prices_the_whole_request():
    """Above a tier's first token input and output cost the tier's rates, in C too."""
    rates, dearer = Rates(10**12, 4 * 10**12), Rates(2 * 10**12, 8 * 10**12)
    price = Price("big", rates, tiers=((100_000, dearer),))
    row = make_row(
        Action("big", 256), ModelFacts(price, ModelCard("big", "custom")), {"a": cell(0.5, 100)}
    )
    slate = Slate([row], {"a": 1.0})
    for tokens, factor in ((100_000, 1), (100_001, 2)):
        sizing = Sizing(InputSize(tokens, 4 * tokens), 0.0, 0)
        (only,) = slate.rank((("a", 1.0),), sizing, price=1.0, floor=None).best
        assert only.cost == pytest.approx(factor * (tokens + 4 * 100) / 1e6)


def test_declared_calls_multiply_everything(world):
    """calls=3 expects and holds three times as much."""
    router = world.router(more=FIXED.format(0.0))
    one = router.decide(asked(prompt_type="math"))
    three = router.decide(asked(prompt_type="math", calls=3))
    assert three.expected_usd == pytest.approx(3 * one.expected_usd)
    assert three.chosen.worst == 3 * one.chosen.worst


def test_the_record_says_what_was_seen_without_the_prompt(world):
    """The ledger keeps λ, types, candidates and gates of a decision; the text is not in it."""
    router = world.router(more='[routes.answer]\ndeny = ["large"]')
    decision = router.decide(asked(prompt_type="math", text="a secret question"))
    (entry,) = router.store.find(decision.id)
    seen = json.loads(entry.decided)
    assert seen["lambda"] == decision.shadow_price
    assert seen["types"] == [["math", 1.0]]
    assert seen["steps"][0] == decision.action.label
    assert seen["best"][0]["C"] == decision.expected_usd
    assert seen["gated"] == {"denied for this route": ["large/1024"]}
    assert "secret" not in entry.decided


def test_a_draw_is_stable_and_spread():
    """The same request id draws the same; ids spread over [0, 1)."""
    draws = [draw_of(f"request-{i}") for i in range(2000)]
    assert draws == [draw_of(f"request-{i}") for i in range(2000)]
    assert 0.45 < sum(draws) / 2000 < 0.55
    assert 0 <= min(draws) < 0.01
    assert 0.99 < max(draws) < 1


def test_a_user_id_never_merges_two_bills(world):
    """Two calls with one request id are two decisions and two charges."""
    router = world.router()
    one, two = (router.decide(asked(prompt_type="math", seed="order-7")) for _ in range(2))
    assert one.id != two.id
    for decision in (one, two):
        router.settle(decision, [Usage(100, 100)])
    assert router.status().calls == 2


def test_hidden_input_is_expected_until_it_is_seen(world):
    """A function that may add to its prompt is expected to add `input_tokens`."""
    more = FIXED.format(0.0) + "[routes.answer]\ninput_tokens = 500\n"
    router = world.router(more=more)
    seen = router.decide(asked(prompt_type="math"))
    hidden = router.decide(asked(prompt_type="math", hidden_input=True))
    assert hidden.expected_usd - seen.expected_usd == pytest.approx(500 * 10 / 1e6)


def test_a_type_the_profile_lacks_is_an_error_that_lists_the_known(world):
    """A misspelt type does not silently become general."""
    with pytest.raises(Exception, match=r"did you mean 'math'\?.*general, math, chat|known types"):
        world.router().decide(asked(prompt_type="maths"))
    assert set(TINY.types) == {"general", "math", "chat"}
