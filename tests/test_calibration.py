"""γ: billed over predicted cost, by model and thinking, drawn to what is known above it."""

from __future__ import annotations

import msgspec
import pytest
from helpers.world import asked
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.pacing import Calibration, gamma_of, moved
from budgetroute.records import Pins, Usage
from budgetroute.units import pico_from_usd

CENT = 0.01  # dollars of a mean request


def test_thinking_is_calibrated_on_its_own():
    """A family that costs twice its curve is told from the same model's that costs what it should."""
    known = Calibration().after({"m": (10.0, 10.0), "m|cot": (10.0, 20.0)}, calls=100)
    factors = known.factors(CENT)
    assert gamma_of(factors, "m") == pytest.approx(1.0, abs=0.01)
    assert gamma_of(factors, "m|cot") == pytest.approx(2.0, abs=0.01)


def test_what_was_never_called_takes_what_stands_above_it():
    """An unseen family its model's γ, an unseen model that over all calls, and nothing at first 1."""
    known = Calibration().after({"a": (10.0, 20.0), "b": (10.0, 10.0)}, calls=100)
    factors = known.factors(CENT)
    assert gamma_of(factors, "a|high") == pytest.approx(2.0, abs=0.02)
    assert gamma_of(factors, "c") == pytest.approx(1.5, abs=0.01)
    assert gamma_of({}, "a|high") == 1.0


def test_a_few_calls_do_not_jump():
    """One mean call at three times its prediction moves γ by a fifth, a hundred by nearly all."""
    one = Calibration().after({"m": (CENT, 3 * CENT)}, calls=1).factors(CENT)
    assert 1.0 < gamma_of(one, "m") < 1.5
    many = Calibration().after({"m": (100 * CENT, 300 * CENT)}, calls=100).factors(CENT)
    assert 2.7 < gamma_of(many, "m") < 3.0


def test_sums_kept_by_model_are_still_read():
    """A calibration that an older version wrote counts, for its models' other families too."""
    old = msgspec.json.decode(b'{"sums":{"m":[10.0,15.0]}}', type=Calibration)
    factors = old.factors(CENT)
    assert gamma_of(factors, "m") == pytest.approx(1.5, abs=0.01)
    assert gamma_of(factors, "m|low") == pytest.approx(1.5, abs=0.01)


def test_small_moves_make_no_new_curves():
    """2 % is noticed, less is not; a family that appears at its model's γ is no news."""
    before = {"*": 1.0, "m|*": 1.5, "m": 1.5}
    assert not moved(before, before | {"m": 1.52, "m|cot": 1.5})
    assert moved(before, before | {"m": 1.54})
    assert moved(before, before | {"m|cot": 1.6})


@given(
    sums=st.dictionaries(
        st.sampled_from(["a", "a|cot", "a|low", "b", "c|cot|high", "d/x|cot"]),
        st.tuples(st.floats(0, 100), st.floats(0, 1000)),
    ),
    per_request=st.floats(0.0, 1.0),
)
def test_gamma_is_never_beyond_what_was_seen(sums, per_request):
    """Every γ lies between the least and the greatest of 1 and the ratios that were billed."""
    sums = {family: (p, p * min(b, 1000.0)) for family, (p, b) in sums.items()}
    factors = Calibration().after(sums, calls=0).factors(per_request)
    ratios = [1.0, *(b / p for p, b in sums.values() if p > 0)]
    for gamma in factors.values():
        assert min(ratios) * (1 - 1e-9) <= gamma <= max(ratios) * (1 + 1e-9)


def test_one_nonsensical_bill_does_not_price_a_model_out(world):
    """A bill of millions counts as ten times what was held, so γ stays within reach."""
    router = world.router(budget="daily_usd = 1.0")
    pins = Pins(model="mid", cot=False)
    settle_many(router, pins, 1.0)
    router.settle(router.decide(asked(prompt_type="math", pins=pins)), [Usage(200, 10**12)])
    world.pass_time(days=2)
    router.release(router.decide(asked(prompt_type="math", pins=pins)))  # plans with the new γ
    decision = router.decide(asked(prompt_type="math", pins=pins))
    assert 1.0 < decision.chosen.gamma < 3.0


def settle_many(router, pins, factor, *, given=False):
    for _ in range(30):
        decision = router.decide(asked(prompt_type="math", pins=pins))
        usage = Usage(200, round(factor * (500 if pins.cot else 320)))
        bill = pico_from_usd(f"{factor * decision.chosen.cost / decision.chosen.gamma:.9f}")
        router.settle(decision, [usage], **({"given": bill} if given else {}))


@pytest.mark.parametrize("given", [False, True])
def test_the_router_learns_it_by_family(world, given):
    """Thinking that costs twice as much is priced so, the same model without it is not."""
    router = world.router(budget="daily_usd = 1.0")
    settle_many(router, Pins(model="mid", cot=True), 2.0, given=given)
    settle_many(router, Pins(model="mid", cot=False), 1.0, given=given)
    world.pass_time(minutes=2)
    router.decide(asked(prompt_type="math"))
    factors = router.pace.factors
    assert gamma_of(factors, "mid|cot") > 1.4 * gamma_of(factors, "mid")
    thinking = router.decide(asked(prompt_type="math", pins=Pins(model="mid", cot=True)))
    assert thinking.chosen.gamma == gamma_of(factors, "mid|cot")
