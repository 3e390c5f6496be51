"""Billing: exact bills, sure bounds, and agreement with litellm's `cost_per_token`.

Classes of disagreement with litellm that are meant (every other one fails the test):

off-peak       the map has off-peak hours; litellm looks at the clock, `bill` takes the standard
               rate at all hours (it is pure, and the standard rate is never the lower one)
other key      litellm prices another entry than the one that was named: the map's `provider/name`
               before `name`, and `provider/x` for `provider/provider/x`
perplexity     litellm's own calculator for it knows no request fee, tiers or cache writes
fireworks      litellm's calculator for it ignores the service tier that the map prices
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.billing import (
    bill,
    expected_input,
    expected_usd,
    input_bound,
    rates_at,
    worst_case,
    worst_line,
)
from budgetroute.prices import PriceBook
from budgetroute.records import InputSize, Price, Rates, Usage
from budgetroute.units import pico_from_atto

MICRO = 10**12
PICO = 10**6  # pico-dollars in $1e-6
PLAIN = Price("m", Rates(MICRO, 4 * MICRO))
FULL = Price(
    "m",
    Rates(10 * MICRO, 20 * MICRO, MICRO, 12 * MICRO, 30 * MICRO, 15 * MICRO),
    tiers=((1000, Rates(100 * MICRO, 200 * MICRO)), (5000, Rates(300 * MICRO, 400 * MICRO))),
    services={"priority": Rates(40 * MICRO, 80 * MICRO)},
    service_tiers={"priority": ((1000, Rates(150 * MICRO, 250 * MICRO)),)},
    request_fee=7,
)

counts = st.integers(0, 10_000)
attos = st.integers(0, 10**15)
own = st.none() | attos
rates = st.builds(Rates, attos, attos, own, own, own, own)
tiers = st.dictionaries(st.integers(0, 10_000), rates, max_size=3).map(
    lambda found: tuple(sorted(found.items(), key=lambda item: item[0]))
)
names = st.sampled_from(["flex", "priority", "fast"])
prices = st.builds(
    Price,
    st.just("m"),
    rates,
    tiers=tiers,
    services=st.dictionaries(names, rates, max_size=2),
    service_tiers=st.dictionaries(names, tiers, max_size=2),
    request_fee=st.integers(0, 10**9),
)
services = st.sampled_from([None, "default", "auto", "standard", "flex", "priority", "fast", "new"])
usages = st.builds(
    Usage,
    counts,
    counts,
    cached_tokens=counts,
    cache_write_tokens=counts,
    reasoning_tokens=counts,
    cache_write_long_tokens=counts,
    service_tier=services,
)


@pytest.mark.parametrize(
    ("usage", "micros"),
    [
        (Usage(0, 0), 0),
        (Usage(100, 10), 1200),
        (Usage(100, 10, cached_tokens=40), 60 * 10 + 40 + 200),
        (Usage(100, 10, cache_write_tokens=40), 60 * 10 + 40 * 12 + 200),
        (Usage(100, 10, cache_write_tokens=40, cache_write_long_tokens=30), 600 + 120 + 450 + 200),
        (Usage(100, 10, reasoning_tokens=4), 1000 + 6 * 20 + 4 * 30),
        (Usage(1000, 10), 10_200),
        (Usage(1001, 10), 100_100 + 2000),
        (Usage(5001, 10, cached_tokens=5000, reasoning_tokens=10), 5001 * 300 + 4000),
        (Usage(100, 10, service_tier="priority"), 4800),
        (Usage(100, 10, service_tier="fast"), 4800),
        (Usage(1001, 10, service_tier="Priority"), 150_150 + 2500),
        (Usage(100, 10, service_tier="scale"), 1200),
    ],
)
def test_bill_by_hand(usage, micros):
    """A bill is the sum of its classes at the tier of the whole input, plus the fee."""
    assert bill(FULL, usage) == micros * PICO + 7


def test_bill_rounds_up():
    """A fraction of a pico-dollar is billed as a whole one."""
    assert bill(Price("m", Rates(1, 0)), Usage(1, 0)) == 1


def test_overlapping_cache_counts_stay_inside_the_input():
    """Cached and written tokens beyond the input are not billed; the dearer class comes first."""
    usage = Usage(100, 0, cached_tokens=80, cache_write_tokens=70, cache_write_long_tokens=90)
    assert bill(FULL, usage) == (70 * 15 + 30 * 1) * PICO + 7


def test_negative_counts_bill_nothing():
    """A negative count never lowers a bill."""
    usage = Usage(-5, -5, cached_tokens=-1, cache_write_tokens=-1, reasoning_tokens=-9)
    assert bill(FULL, usage) == 7


def test_free_stays_free():
    """A free model costs nothing and holds nothing."""
    free = Price("m", Rates(0, 0), source="free")
    assert bill(free, Usage(10**6, 10**6)) == 0
    assert worst_case(free, input_bound=10**6, cap=10**6) == 0


@given(prices, usages, st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 3))
def test_worst_case_bounds_every_bill(price, usage, spare_in, spare_out, n):
    """No usage within the bounds costs more than the worst case, at any tier or service."""
    cap = -(-usage.output_tokens // n) + spare_out
    worst = worst_case(price, input_bound=usage.input_tokens + spare_in, cap=cap, n=n)
    assert bill(price, usage) <= worst


@given(prices, st.lists(usages, min_size=1, max_size=4))
def test_worst_case_covers_several_calls(price, several):
    """The worst case of N calls bounds the sum of N bills."""
    bound = max(usage.input_tokens for usage in several)
    cap = max(usage.output_tokens for usage in several)
    worst = worst_case(price, input_bound=bound, cap=cap, calls=len(several))
    assert sum(bill(price, usage) for usage in several) <= worst


@given(prices, usages.filter(lambda usage: usage.service_tier in {None, "auto", "new"}))
def test_worst_case_without_services(price, usage):
    """With the service tiers ruled out, the bound still holds for standard calls."""
    bound, cap = usage.input_tokens, usage.output_tokens
    assert bill(price, usage) <= worst_case(price, input_bound=bound, cap=cap, services=())


def test_ruled_out_services_hold_less():
    """Naming the possible service tiers keeps a dearer one out of the hold."""
    asked = {"input_bound": 10, "cap": 10}
    assert worst_case(FULL, **asked, services=()) < worst_case(FULL, **asked)
    assert worst_case(FULL, **asked, services=("fast",)) == worst_case(FULL, **asked)


@given(prices, counts, counts, counts)
def test_worst_case_grows_with_its_bounds(price, bound, cap, more):
    """A larger bound, cap, n or number of calls never holds less."""
    least = worst_case(price, input_bound=bound, cap=cap)
    assert worst_case(price, input_bound=bound + more, cap=cap) >= least
    assert worst_case(price, input_bound=bound, cap=cap + more) >= least
    assert worst_case(price, input_bound=bound, cap=cap, n=2) >= least
    assert worst_case(price, input_bound=bound, cap=cap, calls=2) == 2 * least


@given(prices.map(lambda price: replace(price, tiers=())), counts, counts)
def test_prepared_line_is_the_worst_case(price, bound, cap):
    """Where there are no context tiers, the prepared line is the standard service's worst case."""
    per_input, per_output = worst_line(price)
    worst = worst_case(price, input_bound=bound, cap=cap, services=())
    assert worst == pico_from_atto(bound * per_input + cap * per_output) + price.request_fee


def test_unreachable_tiers_are_not_held():
    """A tier is held from the first input that reaches it, and not before."""
    low = worst_case(FULL, input_bound=1000, cap=1, services=())
    high = worst_case(FULL, input_bound=1001, cap=1, services=())
    assert low == (1000 * 15 + 30) * PICO + 7
    assert high == bill(FULL, Usage(1001, 1))


@given(prices, usages, counts)
def test_bill_grows_with_output(price, usage, more):
    """More output never costs less."""
    longer = replace(usage, output_tokens=usage.output_tokens + more)
    assert bill(price, longer) >= bill(price, usage)


@given(prices, counts, counts)
def test_expected_is_the_bill_of_plain_tokens(price, given_tokens, made_tokens):
    """Expecting whole plain tokens gives their bill, to float and pico rounding."""
    plain = replace(price, rates=replace(price.rates, reasoning=None))
    billed = bill(plain, Usage(given_tokens, made_tokens)) / 1e12
    found = expected_usd(plain, input_tokens=given_tokens, output_tokens=made_tokens)
    assert found == pytest.approx(billed, rel=1e-9, abs=2e-12)


def test_expected_takes_the_right_tier():
    """An expectation just above a threshold is priced at the tier, as a float."""
    assert expected_usd(FULL, input_tokens=1000.5, output_tokens=0.5) == pytest.approx(
        1000.5e-4 + 1e-4 + 7e-12
    )


def test_rates_at_threshold():
    """A tier holds above its threshold, not at it."""
    assert rates_at(FULL, input_tokens=1000) == FULL.rates
    assert rates_at(FULL, input_tokens=1001) == FULL.tiers[0][1]


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        (InputSize(100, 1000, framing=9), 105 + 9 + 50),
        (InputSize(100, 102, framing=9), 102 + 9 + 50),
        (InputSize(100, 1000, framing=9, exact=False), 1000 + 9 + 50),
        (InputSize(100, 1000, images=2), 105 + 50 + 2 * 85),
    ],
)
def test_input_bound(size, bound):
    """The bound is the lesser of bytes and scaled count, bytes alone where the count is a guess."""
    assert input_bound(size, ratio=1.05, overhead=50, image_tokens=85) == bound


def test_unbounded_images():
    """An image of unknown size has no bound, and a prompt without images needs none."""
    pictured = InputSize(1, 1, images=1)
    assert input_bound(pictured, ratio=1.0, overhead=0, image_tokens=None) is None
    assert input_bound(InputSize(1, 1), ratio=1.0, overhead=0, image_tokens=None) == 1


sizes = st.builds(
    lambda tokens, extra, framing, images: InputSize(tokens, tokens + extra, framing, images),
    *[counts] * 4,
)


@given(sizes, st.floats(1.0, 3.0), counts)
def test_expectation_stays_under_its_bound(size, ratio, overhead):
    """What is expected of a counted prompt is at most its bound at the same ratio, or its bytes."""
    bound = input_bound(size, ratio=ratio, overhead=overhead, image_tokens=99)
    expected = expected_input(size, ratio=1.0, overhead=overhead, image_tokens=99)
    assert expected <= bound


SHAPES = [
    Usage(0, 0),
    Usage(1, 1),
    Usage(1000, 500),
    Usage(1000, 500, cached_tokens=800),
    Usage(1000, 500, cache_write_tokens=300),
    Usage(1000, 500, cached_tokens=600, cache_write_tokens=400),
    Usage(1000, 500, cache_write_tokens=300, cache_write_long_tokens=200),
    Usage(1000, 500, reasoning_tokens=400),
    Usage(128_000, 10),
    Usage(200_000, 10),
    Usage(200_001, 10, cached_tokens=100_000),
    Usage(300_000, 2000, cached_tokens=5, cache_write_tokens=7),
    Usage(600_000, 10, cached_tokens=1000, reasoning_tokens=5),
    Usage(1000, 500, cached_tokens=5, reasoning_tokens=9, service_tier="flex"),
    Usage(1000, 500, cached_tokens=5, reasoning_tokens=9, service_tier="priority"),
    Usage(300_000, 500, cached_tokens=5, service_tier="priority"),
    Usage(300_000, 500, cached_tokens=5, service_tier="flex"),
]


@pytest.fixture(scope="module")
def litellm():
    """litellm with its bundled price map, imported once."""
    from budgetroute.backends.litellm_backend import LiteLLMBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LiteLLMBackend().load()


def theirs(litellm, key: str, provider: str, usage: Usage) -> float:
    from litellm.types.utils import Usage as Reported

    long = usage.cache_write_long_tokens
    kept = (
        "12h" if "cache_creation_input_token_cost_above_12hr" in litellm.model_cost[key] else "1h"
    )
    written = {
        "ephemeral_5m_input_tokens": usage.cache_write_tokens - long,
        f"ephemeral_{kept}_input_tokens": long,
    }
    details = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    reported = Reported(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=details | ({"cache_creation_token_details": written} if long else {}),
        completion_tokens_details={"reasoning_tokens": usage.reasoning_tokens},
        **({"speed": "fast"} if "fast" in (usage.service_tier or "") else {}),
        **({"inference_geo": "us"} if "us" in (usage.service_tier or "") else {}),
    )
    return sum(
        litellm.cost_per_token(
            model=key,
            custom_llm_provider=provider,
            usage_object=reported,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            service_tier=usage.service_tier if usage.service_tier in {"flex", "priority"} else None,
        )
    )


def reason(litellm, key: str, provider: str, usage: Usage) -> str | None:
    """Name the class that explains a disagreement, None when nothing does."""
    if litellm.model_cost[key].get("off_peak_pricing"):
        return "off-peak"
    if f"{provider}/{key}" in litellm.model_cost or key.startswith(f"{provider}/{provider}/"):
        return "other key"
    if provider == "perplexity":
        return "perplexity"
    if provider == "fireworks_ai" and usage.service_tier == "priority":
        return "fireworks"
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_agreement_with_litellm(litellm, record_property):
    """Every text model × 17 usages costs what litellm says, or differs for a stated reason.

    Where both price the same entry and differ, ours is the dearer.
    """
    book = PriceBook()
    seen: Counter[str] = Counter()
    wrong = []
    for key in litellm.model_cost:
        # Pricing a github_copilot model makes litellm log in over the network.
        if key.startswith("github_copilot/") or not book.known(key):
            continue
        price, provider = book.price(key), book.provider_of(key)
        seen["models"] += 1
        for usage in SHAPES:
            mine, other = bill(price, usage) / 1e12, theirs(litellm, key, provider, usage)
            if math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-12):
                seen["equal"] += 1
                continue
            why = reason(litellm, key, provider, usage)
            seen[why or "unexplained"] += 1
            if why is None or (mine < other and why != "other key"):
                wrong.append((key, usage, mine, other))
    record_property("agreement", json.dumps(seen))
    assert not wrong
    assert seen["models"] >= 200
    assert seen["equal"] >= 0.98 * len(SHAPES) * seen["models"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("service", ["fast", "us", "fast us"])
def test_anthropic_uplifts_agree_with_litellm(litellm, service):
    """Fast mode and US-only inference cost what litellm says, wherever the map has them."""
    book, compared = PriceBook(), 0
    for key in litellm.model_cost:
        if book.provider_of(key) != "anthropic" or not book.known(key):
            continue
        price, usage = book.price(key), Usage(1000, 500, cached_tokens=10, service_tier=service)
        if service not in price.services:
            continue
        compared += 1
        assert bill(price, usage) / 1e12 == pytest.approx(
            theirs(litellm, key, "anthropic", usage), rel=1e-9
        ), key
    assert compared >= 3
