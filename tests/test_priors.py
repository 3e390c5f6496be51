"""Price-tier priors: monotone, cautious, never above the best known model."""

from __future__ import annotations

import math

import pytest
from helpers.world import cell
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.priors import (
    DOUBT,
    PER_RUNG,
    REASONING_FACTOR,
    Peer,
    blended_price,
    isotonic,
    nearest,
    prior_curves,
    prior_kinds,
)
from budgetroute.records import Cell, Price, Rates

prices = st.floats(0.01, 200)
shares = st.floats(0, 1)
values = st.lists(st.tuples(prices, shares), min_size=1, max_size=9)
CAPS = (256, 1024)


@st.composite
def crowds(draw, least=1):
    """Peers with rewards and tokens that grow with the cap, as a profile's do."""
    found = []
    for _ in range(draw(st.integers(least, 8))):
        low, high = sorted([draw(shares), draw(shares)])
        short = draw(st.floats(1, 256))
        long = draw(st.floats(short, 1024))
        cells = {256: cell(low, short, cut=0.2), 1024: cell(high, long, cut=0.0)}
        found.append(Peer(draw(prices), {"math": cells}))
    return found


def peer(price, reward, output=100.0, **more):
    return Peer(price, {"math": {1024: cell(reward, output, **more)}})


def at(peers, price, cap=1024, **more):
    return prior_curves(peers, price, **more)["math"][cap]


@given(values)
def test_isotonic_values_never_fall(pairs):
    """Sorted by place, isotonic values rise or stay."""
    places = [place for place, _ in pairs]
    found = isotonic(places, [value for _, value in pairs])
    ordered = [value for _, value in sorted(zip(places, found, strict=True))]
    assert ordered == sorted(ordered)


@given(values)
def test_isotonic_keeps_the_mean(pairs):
    """Pooling moves values between neighbours and adds nothing."""
    found = isotonic([place for place, _ in pairs], [value for _, value in pairs])
    assert math.fsum(found) == pytest.approx(math.fsum(value for _, value in pairs))


@given(st.lists(shares, min_size=1, max_size=9))
def test_isotonic_leaves_what_rises_already(rewards):
    """Values without a violation stay as they are."""
    assert isotonic(list(range(len(rewards))), sorted(rewards)) == pytest.approx(sorted(rewards))


def test_isotonic_gives_equal_places_equal_values():
    """Two models of one price are one tier, in whichever order they come."""
    assert isotonic([2, 1, 1], [0.9, 0.6, 0.2]) == pytest.approx([0.9, 0.4, 0.4])


@given(crowds(least=2), st.data())
def test_a_dearer_prior_never_promises_less(crowd, data):
    """Between the cheapest and the dearest peer rewards rise with the price, at every cap."""
    known = [each.price for each in crowd]
    inside = st.floats(min(known), max(known))
    low, high = sorted([data.draw(inside), data.draw(inside)])
    for cap in CAPS:
        assert at(crowd, low, cap).reward <= at(crowd, high, cap).reward + 1e-9


@given(crowds(), prices)
def test_a_larger_cap_never_promises_less(crowd, price):
    """Rewards and tokens keep the order of caps that every peer has."""
    small, large = (at(crowd, price, cap) for cap in CAPS)
    assert small.reward <= large.reward + 1e-9
    assert small.output_mean <= large.output_mean + 1e-9


@given(crowds(), prices)
def test_a_prior_stays_below_the_best_peer(crowd, price):
    """At no cap does a guess promise what the best known model reaches (the optimiser's curse)."""
    for cap in CAPS:
        best = max(each.curves["math"][cap].reward for each in crowd)
        reward = at(crowd, price, cap).reward
        assert reward < best or reward <= best < 1e-300  # no float lies between


@given(crowds(), prices)
def test_a_prior_is_a_cell_that_can_be(crowd, price):
    """Rewards are shares, tokens lie among the peers' and under the cap, nothing was measured."""
    for cap in CAPS:
        found = at(crowd, price, cap)
        tokens = [each.curves["math"][cap].output_mean for each in crowd]
        assert 0 <= found.reward <= 1
        assert min(tokens) - 1e-9 <= found.output_mean <= max(tokens) + 1e-9
        assert (found.n, found.source) == (0, "prior")


@given(st.permutations([peer(1, 0.3), peer(1, 0.5), peer(4, 0.4, 90), peer(9, 0.8, 70)]), prices)
def test_the_order_of_peers_is_nothing(crowd, price):
    """A profile's order of models does not move a prior."""
    usual = sorted(crowd, key=lambda each: (each.price, each.curves["math"][1024].reward))
    assert at(crowd, price).reward == pytest.approx(at(usual, price).reward)


def test_it_lies_one_standard_deviation_below_the_tier():
    """With one peer the tier is its reward, and the doubt is the usual one."""
    found = at([peer(3, 0.7)], 3)
    assert found.reward == pytest.approx(0.7 - DOUBT)
    assert found.reward_se == pytest.approx(DOUBT)


def test_peers_that_contradict_the_price_add_doubt():
    """Where rewards follow prices the doubt falls below the usual one, where not it rises."""
    ordered = [peer(2.0**i, 0.5 + 0.01 * i) for i in range(6)]
    scattered = [peer(2.0**i, 0.8 if i % 2 else 0.2) for i in range(6)]
    assert at(ordered, 4).reward_se < DOUBT < at(scattered, 4).reward_se


def test_a_price_outside_all_known_ones_is_trusted_less():
    """The further below the cheapest, the less is promised; above the dearest likewise."""
    crowd = [peer(1, 0.6), peer(4, 0.7)]
    below = [at(crowd, price).reward for price in (1, 0.3, 0.03)]
    above = [at(crowd, price).reward for price in (4, 12, 120)]
    assert below == sorted(below, reverse=True)
    assert above == sorted(above, reverse=True)
    assert below[0] > below[2]
    assert above[0] > above[2]


def test_the_nearest_prices_count_most():
    """A prior at one peer's price is that peer's but for what far ones add."""
    crowd = [peer(1, 0.5, 100), peer(1000, 0.9, 300)]
    assert at(crowd, 1).output_mean == pytest.approx(100, abs=1)
    assert at(crowd, 1000).output_mean == pytest.approx(300, abs=1)
    assert at(crowd, 1000).reward - at(crowd, 1).reward == pytest.approx(0.4, abs=0.01)


def test_outside_all_known_prices_the_last_tier_holds():
    """Nothing is extrapolated: tokens beyond the dearest are those at the dearest."""
    crowd = [peer(1, 0.6, 100), peer(4, 0.7, 200)]
    assert at(crowd, 400).output_mean == pytest.approx(at(crowd, 4).output_mean)
    assert at(crowd, 0.01).output_mean == pytest.approx(at(crowd, 1).output_mean)


def test_doubt_larger_than_the_reward_promises_nothing():
    """A hopeless task far outside the known prices has reward 0, not less."""
    assert at([peer(1, 0.02)], 0.001).reward == 0


def test_tails_are_the_worst_peers():
    """Means are averaged; what can break a caller is not."""
    crowd = [peer(1, 0.6, 80, output_p99=300.0, cut=0.02), peer(4, 0.7, 120, cut=0.001)]
    found = at(crowd, 2)
    assert (found.output_p99, found.cut) == (300.0, 0.02)
    assert found.output_p95 is None
    assert 80 < found.output_mean < 120


def test_caps_start_where_every_peer_is_known():
    """A cap that one of the peers was never measured at has no prior; larger ones have."""
    crowd = [
        Peer(1, {"math": {64: cell(0.1, 60), 1024: cell(0.4, 100)}}),
        Peer(4, {"math": {256: cell(0.5, 90), 4096: cell(0.7, 200)}}),
    ]
    assert sorted(prior_curves(crowd, 2)["math"]) == [256, 1024, 4096]


def test_types_are_inferred_each_from_its_own_peers():
    """A type that only one peer has is that peer's; a type that none has is absent."""
    crowd = [Peer(1, {"math": {1024: cell(0.4, 50)}, "code": {}}),
             Peer(4, {"chat": {1024: cell(0.9, 70)}})]  # fmt: skip
    found = prior_curves(crowd, 2)
    assert sorted(found) == ["chat", "math"]
    assert found["chat"][1024].output_mean == pytest.approx(70)


def test_tokens_are_of_a_provider_only_where_all_are():
    """One peer counted with o200k makes the mean an o200k one."""
    crowd = [peer(1, 0.5), peer(2, 0.5, token_basis="o200k")]
    assert at(crowd[:1], 1).token_basis == "provider"
    assert at(crowd, 1).token_basis == "o200k"


PLAIN = [peer(1, 0.5, 100), peer(8, 0.7, 100)]
COT = [peer(1, 0.6, 300), peer(8, 0.8, 300)]
HIGH = [Peer(4, {"math": {8192: cell(0.9, 2000, output_p99=6000.0)}})]
BY_KIND = {(False, None): PLAIN, (True, None): COT, (False, "high"): HIGH}


def test_a_plain_model_takes_the_plain_classes():
    """Without reasoning: with and without chain of thought, each from its own class."""
    found = prior_kinds(BY_KIND, 2, reasons=False)
    assert found == {(False, None): prior_curves(PLAIN, 2), (True, None): prior_curves(COT, 2)}


def test_a_reasoning_model_takes_the_reasoning_class():
    """Efforts that the profile has are inferred from reasoning models alone; none sent is medium."""
    found = prior_kinds(BY_KIND, 2, reasons=True)
    assert found.keys() == {(False, "high"), (False, None)}
    assert found[False, "high"] == prior_curves(HIGH, 2)
    medium = prior_kinds(BY_KIND, 2, reasons=True, efforts=("medium",))
    assert found[False, None] == medium[False, "medium"]


def test_a_lower_effort_borrows_with_more_doubt():
    """Two rungs below: the same tokens, a lower promise."""
    low = prior_kinds(BY_KIND, 4, reasons=True, efforts=("low",))[False, "low"]["math"][8192]
    high = prior_curves(HIGH, 4)["math"][8192]
    assert low.output_mean == high.output_mean
    assert low.reward == pytest.approx(0.9 - DOUBT * math.sqrt(1 + 2**2))


def test_a_higher_effort_takes_more_tokens_too():
    """One rung above: tokens and cap grow by what efforts differ by, and the doubt grows."""
    found = prior_kinds(BY_KIND, 4, reasons=True, efforts=("xhigh",))[False, "xhigh"]["math"]
    cap = round(8192 * PER_RUNG)
    assert found[cap].output_mean == pytest.approx(2000 * PER_RUNG)
    assert found[cap].output_p99 == pytest.approx(6000 * PER_RUNG)
    assert found[cap].reward < prior_curves(HIGH, 4)["math"][8192].reward


def test_the_nearest_effort_lends():
    """Of several profiled efforts the one with the fewest rungs between is borrowed from."""
    low = [Peer(4, {"math": {8192: cell(0.5, 400)}})]
    both = {(False, "minimal"): low, (False, "high"): HIGH}
    found = prior_kinds(both, 4, reasons=True, efforts=("low", "medium"))
    assert found[False, "low"]["math"].keys() == {8192 * PER_RUNG}
    assert found[False, "medium"]["math"][8192].output_mean == pytest.approx(2000)


def test_of_two_equally_near_efforts_the_higher_lends():
    """Medium between low and high takes high's tokens, which are rather too many."""
    low = [Peer(4, {"math": {8192: cell(0.5, 400)}})]
    both = {(False, "low"): low, (False, "high"): HIGH}
    found = prior_kinds(both, 4, reasons=True, efforts=("medium",))
    assert found[False, "medium"]["math"][8192].output_mean == pytest.approx(2000)


def test_an_unknown_effort_counts_as_medium():
    """A word that only one provider knows is as far from high as medium is."""
    found = prior_kinds(BY_KIND, 4, reasons=True, efforts=("turbo", "medium"))
    assert found[False, "turbo"] == found[False, "medium"]


def test_an_effort_of_none_is_a_plain_model():
    """A reasoning model told not to reason takes the plain classes, sent as `none`."""
    found = prior_kinds(BY_KIND, 2, reasons=True, efforts=("none",))
    assert found == {
        (False, "none"): prior_curves(PLAIN, 2),
        (True, "none"): prior_curves(COT, 2),
    }


def test_without_a_reasoning_class_chains_of_thought_are_stretched():
    """Hidden reasoning is longer than written: tokens and caps × REASONING_FACTOR, reward alike."""
    found = prior_kinds({(False, None): PLAIN, (True, None): COT}, 2, reasons=True)
    (kind,) = found
    written = prior_curves(COT, 2)["math"][1024]
    hidden = found[kind]["math"][round(1024 * REASONING_FACTOR)]
    assert kind == (False, None)
    assert hidden.reward == written.reward
    assert hidden.output_mean == pytest.approx(written.output_mean * REASONING_FACTOR)


def test_without_any_chain_of_thought_plain_answers_are_stretched():
    """The last resort is the plain class, which knows least of what reasoning earns."""
    found = prior_kinds({(False, None): PLAIN}, 2, reasons=True)
    assert list(found[False, None]["math"]) == [round(1024 * REASONING_FACTOR)]


def test_a_profile_of_nothing_of_the_kind_gives_nothing():
    """No peers, no curves: the caller must say so."""
    assert prior_kinds({(False, "high"): HIGH}, 2, reasons=False) == {}
    assert prior_kinds({}, 2, reasons=True) == {}


def test_nearest_is_by_ratio_of_prices():
    """0.2 is nearer to 0.1 than to 1: a price is far when it is many times larger."""
    assert nearest({"a": 1.0, "b": 0.1, "c": 9.0}, 0.2) == ("b", "a")


def test_a_blend_is_three_in_for_one_out():
    """The usual convention of price lists, in dollars per million."""
    price = Price("m", Rates(input=2 * 10**12, output=10 * 10**12))
    assert blended_price(price) == pytest.approx(4.0)


def test_no_prior_says_less_than_a_cell():
    """Every field that a cell can say of answers is filled where peers say it."""
    whole = Cell(9, 0.5, 0.1, 90.0, 200.0, 300.0, 0.1, 1.2, 2.0, 5.0)
    found = at([Peer(1, {"math": {1024: whole}})], 1)
    assert (found.output_p95, found.output_p99, found.cut) == (200.0, 300.0, 0.1)
    assert (found.latency_mean, found.latency_p95) == (2.0, 5.0)
    assert found.input_factor == pytest.approx(1.2)
