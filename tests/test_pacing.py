"""Pacing: the linear program, the textbook rule and its forms, as pure functions."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from budgetroute import forecast, pacing
from budgetroute.pacing import Group, PaceView, PacingPlan, PacingRule

HOUR = 3_600_000_000
DAY = 24 * HOUR
PERIOD = 300_000_000
USD = 10**12
RAW = PacingRule(step="raw", target="flat", eta=0.5)


def view(position: int = 0, *, settled: int = 0, before: int | None = None, **more) -> PaceView:
    """A view of the window `day:2` of 24 h with a budget of $10."""
    start = more.pop("start", 2 * DAY)
    return PaceView(
        window=more.pop("window", "day:2"),
        now=start + position,
        start=start,
        end=start + more.pop("length", DAY),
        limit=more.pop("limit", 10 * USD),
        settled=settled,
        settled_before=settled if before is None else before,
        **more,
    )


def plan(price: float = 5.0, **more) -> PacingPlan:
    """A plan at the start of `day:2`."""
    seen = {"window": "day:2", "length": DAY, "made_at": 2 * DAY, "reference": 4.0}
    return PacingPlan(price, price, **(seen | more))


@st.composite
def groups(draw):
    """Up to four groups of up to five actions, some of them with equal curves."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        points = st.tuples(st.integers(1, 1000), st.integers(0, 100))
        curve = draw(st.lists(points, min_size=1, max_size=5))
        count = draw(st.sampled_from([0, 1, 10, 250]))
        made.append(Group(count, tuple((c / 1e4, r / 100) for c, r in curve)))
    return made + made[:1] * draw(st.integers(0, 1))


def bought(group: Group, price: float) -> tuple[float, float]:
    return max(group.points, key=lambda p: (p[1] - price * p[0], -p[0]))


def totals(pool: list[Group], price: float) -> tuple[float, float]:
    """What all requests cost and are worth when each decides alone at this price."""
    chosen = [(g.count, *bought(g, price)) for g in pool]
    return math.fsum(n * c for n, c, _ in chosen), math.fsum(n * r for n, _, r in chosen)


def program(pool: list[Group], budget: float) -> tuple[float, float] | None:
    """The linear program's optimum and the price of a dollar, by HiGHS; None if infeasible."""
    pool = [g for g in pool if g.count]
    gain = [-g.count * r for g in pool for _, r in g.points]
    cost = [g.count * c * 1e4 for g in pool for c, _ in g.points]  # HiGHS errs by 1e-7 absolute
    owner = [i for i, g in enumerate(pool) for _ in g.points]
    once = [[float(i == k) for i in owner] for k in range(len(pool))]
    if not pool:
        return None
    found = linprog(gain, [cost], [budget * 1e4], once, [1.0] * len(pool), bounds=(0, None))
    return (-found.fun, -found.ineqlin.marginals[0] * 1e4) if found.success else None


@given(groups(), st.floats(0, 1.2))
def test_solve_is_the_linear_program(pool, part):
    """Mixing λ_low and λ_high by f spends the budget and earns exactly the program's optimum."""
    least, most = pacing.floor_cost(pool), totals(pool, 0.0)[0]
    budget = least + part * (most - least)
    low, high, share = pacing.solve(pool, budget)
    known = program(pool, budget * (1 + 1e-12))
    if known is None:
        return
    optimum, marginal = known
    (cheap, less), (dear, more) = totals(pool, high), totals(pool, low)
    assert low <= high
    assert share * more + (1 - share) * less == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert share * dear + (1 - share) * cheap <= budget * (1 + 1e-9) + 1e-12
    if 1e-5 < share < 1.0 - 1e-5:
        assert share * dear + (1 - share) * cheap == pytest.approx(budget, rel=1e-9)
        assert low * (1 - 1e-6) <= marginal <= high * (1 + 1e-6)


def test_equal_curves_share_the_money():
    """Two groups with one curve between them are solved like one group of both sizes."""
    curve = ((0.001, 0.5), (0.002, 0.8), (0.01, 0.9))
    two = pacing.solve([Group(60, curve), Group(40, curve)], 0.15)
    assert two == pytest.approx(pacing.solve([Group(100, curve)], 0.15))


def test_budgets_beyond_the_curves_ends():
    """No money at all: a λ that buys nothing extra; more than everything costs: one that buys all."""
    pool = [Group(100, ((0.001, 0.5), (0.002, 0.8), (0.01, 0.9)))]
    _, high, share = pacing.solve(pool, 0.0)
    assert share == 0.0
    assert totals(pool, high)[0] == pytest.approx(0.1)
    low, high, share = pacing.solve(pool, 99.0)
    assert (share, low) == (1.0, high)
    assert totals(pool, low)[0] == pytest.approx(1.0)


@given(groups(), st.integers(0, 10 * USD), st.integers(0, DAY - 1), st.integers(0, 20 * USD))
def test_a_start_is_never_free(pool, limit, position, settled):
    """λ is above zero at start whatever the curves, the budget, the hour and what was spent."""
    seen = view(position, settled=settled, limit=limit)
    for step in ("raw", "relative", "multiplicative"):
        assert pacing.start(PacingRule(step=step), pool, seen).high > 0


@given(groups(), st.floats(0.01, 1.0), st.integers(0, DAY - 1))
def test_a_start_is_conservative(pool, part, position):
    """At the first λ the expected spend keeps within the day's budget, at any hour."""
    least, most = pacing.floor_cost(pool), totals(pool, 0.0)[0]
    budget = least + part * (most - least)
    limit = math.ceil(budget * USD)
    made = pacing.start(PacingRule(), pool, view(position, limit=limit))
    assert totals(pool, made.high)[0] <= budget * (1 + 1e-9) + 1e-9


def test_a_written_lambda_is_the_first_one():
    """`initial_lambda` is taken as it is, 0 included where the rule allows it."""
    pool = [Group(100, ((0.001, 0.5), (0.002, 0.8)))]
    assert pacing.start(PacingRule(initial_lambda=7.5, step="raw"), pool, view()).high == 7.5
    assert pacing.start(PacingRule(initial_lambda=0.0, step="raw"), pool, view()).high == 0.0


@given(
    st.lists(st.integers(0, USD), min_size=1, max_size=20),
    st.sampled_from([23 * HOUR, DAY, 25 * HOUR]),
    st.sampled_from([1.0, 60.0, 300.0, 3600.0]),
)
def test_raw_and_flat_is_the_textbook_rule(spends, length, period_s):
    """λ′ = max(0, λ + η·(C_total − B/T)) after each period with spend, to 1e-12."""
    rule = replace(RAW, period_s=period_s)
    kept = plan(length=length)
    by_hand, settled = kept.high, 0
    periods = length / (period_s * 1_000_000)
    for number, spend in enumerate(spends, start=1):
        settled += spend
        kept = pacing.step(
            rule, kept, view(round(number * period_s * 1e6), settled=settled, length=length)
        )
        if spend:
            by_hand = max(0.0, by_hand + 0.5 * (spend / USD - 10.0 / periods))
        assert abs(kept.high - by_hand) <= 1e-12


@pytest.mark.parametrize(("spend", "price"), [(2.0, 6.4), (1.0, 5.0), (0.25, 3.95)])
def test_relative_by_hand(spend, price):
    """λ + η·λ_ref·(spend/share − 1): η 0.35, λ_ref 4, a share of $1."""
    rule = PacingRule(step="relative", target="flat", eta=0.35, period_s=8640.0)
    seen = view(8640 * 10**6, settled=int(spend * USD))
    assert pacing.step(rule, plan(), seen).high == pytest.approx(price, abs=1e-12)


@pytest.mark.parametrize("spend", [2.0, 1.0, 0.25])
def test_multiplicative_by_hand(spend):
    """λ·exp(η·(spend/share − 1))."""
    rule = PacingRule(step="multiplicative", target="flat", eta=0.35, period_s=8640.0)
    seen = view(8640 * 10**6, settled=int(spend * USD))
    expected = 5.0 * math.exp(0.35 * (spend - 1.0))
    assert pacing.step(rule, plan(), seen).high == pytest.approx(expected, rel=1e-12)


def test_forecast_plans_what_is_left_of_money_over_what_is_left_of_traffic():
    """Half the day and $6 left: the next period's share is 6 · (its part of the rest)."""
    shape = forecast.shape_from_days([dict.fromkeys(range(96), 10) | {48: 100, 49: 100}])
    rest = partial(forecast.share_of_rest, shape)
    kept = plan(begun=DAY // 2, mark=4 * USD)
    seen = view(DAY // 2 + PERIOD, settled=4 * USD + 1, share_of_rest=rest)
    share = 6 * USD * rest(0.5, 0.5 + PERIOD / DAY)
    assert pacing.planned_share(PacingRule(), kept, seen) == pytest.approx(share)


@pytest.mark.parametrize("length", [23 * HOUR, DAY, 25 * HOUR])
def test_flat_shares_sum_to_the_budget(length):
    """Over the periods of a day the flat shares add up to the limit, whatever the day's length."""
    count = length // PERIOD
    for step in ("raw", "relative"):
        rule = PacingRule(step=step, target="flat")
        shares = [
            pacing.planned_share(
                rule,
                plan(begun=i * PERIOD, length=length),
                view((i + 1) * PERIOD, length=length) if i + 1 < count else view(window="day:3"),
            )
            for i in range(count)
        ]
        assert math.fsum(shares) == pytest.approx(10 * USD, rel=1e-12)


@given(st.dictionaries(st.integers(0, 95), st.integers(0, 1000)), st.sampled_from([300.0, 420.0]))
def test_spending_every_forecast_share_ends_at_the_budget(day, period_s):
    """Following the plan to the last period spends the limit, neither more nor less."""
    rest = partial(forecast.share_of_rest, forecast.shape_from_days([day]))
    rule, period = PacingRule(period_s=period_s), round(period_s * 1e6)
    spent = 0.0
    for begun in range(0, DAY, period):
        kept = plan(begun=begun, mark=int(spent))
        after = begun + period
        seen = view(after, share_of_rest=rest) if after < DAY else view(window="day:3")
        seen = replace(seen, share_of_rest=rest)
        spent += pacing.planned_share(rule, kept, seen)
    assert spent == pytest.approx(10 * USD, rel=1e-6)


@given(st.floats(0.0, 0.99), st.floats(0.01, 2.0), st.integers(1, USD), st.floats(0.1, 50.0))
def test_the_ema_form_only_rescales_eta(alpha, eta, spend, price):
    """max(0, αλ + (1−α)(λ + ηe)) is the plain rule with (1−α)η."""
    error = spend / USD - 10.0 * PERIOD / DAY
    ema = max(0.0, alpha * price + (1 - alpha) * (price + eta * error))
    rule = replace(RAW, eta=(1 - alpha) * eta)
    stepped = pacing.step(rule, plan(price), view(PERIOD, settled=spend))
    assert stepped.high == pytest.approx(ema, abs=1e-9)


def test_alpha_smooths_the_error():
    """The step is made from ē′ = αē + (1−α)e, which is kept for the next one."""
    rule = replace(RAW, alpha=0.75, eta=1.0)
    share = 10.0 * PERIOD / DAY
    first = pacing.step(rule, plan(), view(PERIOD, settled=USD))
    average = 0.25 * (1.0 - share)
    assert first.high == pytest.approx(5.0 + average, abs=1e-12)
    second = pacing.step(rule, first, view(2 * PERIOD, settled=USD + USD // 2))
    average = 0.75 * average + 0.25 * (0.5 - share)
    assert second.high == pytest.approx(first.high + average, abs=1e-12)


@given(st.sampled_from(["raw", "relative", "multiplicative"]), st.integers(1, 200))
def test_an_empty_period_moves_nothing(step, periods):
    """Without spend λ, its error and the count of steps stay, however long nothing came."""
    kept = plan(error=0.3, steps=2)
    moved = pacing.step(PacingRule(step=step), kept, view(periods * PERIOD))
    assert (moved.high, moved.error, moved.steps) == (kept.high, 0.3, 2)


def test_thin_traffic_is_not_taken_for_overspending():
    """One call in ten periods that costs their ten shares leaves λ where it is."""
    rule = PacingRule(step="multiplicative", target="flat")
    ten = int(10 * USD * 10 * PERIOD / DAY)
    assert pacing.step(rule, plan(), view(10 * PERIOD, settled=ten)).high == pytest.approx(5.0)


def test_one_wild_period_does_not_end_the_day():
    """A thousand times the share counts as eleven times."""
    rule = PacingRule(step="multiplicative", target="flat", eta=0.1)
    wild = pacing.step(rule, plan(), view(PERIOD, settled=9 * USD))
    assert wild.high == pytest.approx(5.0 * math.exp(0.1 * 10))


def test_a_long_days_last_period_is_judged_by_its_own_length():
    """At the midnight after a day of 25 hours, B/T is that day's, not the next one's."""
    kept = plan(length=25 * HOUR, begun=25 * HOUR - PERIOD, mark=9 * USD)
    seen = view(settled=0, before=10 * USD, window="day:3")
    share = 10.0 * PERIOD / (25 * HOUR)
    assert pacing.step(RAW, kept, seen).high == pytest.approx(5.0 + 0.5 * (1.0 - share), abs=1e-12)


@pytest.mark.parametrize(
    ("position", "window", "is_due"),
    [
        (PERIOD - 1, "day:2", False),
        (PERIOD, "day:2", True),
        (0, "day:3", True),
        (-1, "day:1", False),  # a process that read the clock just before midnight
        (-59_000_000, "day:1", False),
        (-61_000_000, "day:1", True),  # the clock was set back
        (-2 * DAY, "day:0", True),
    ],
)
def test_due_when_a_period_ended_or_the_clock_was_set_back(position, window, is_due):
    """A new period, a new window, or a clock more than a minute behind the plan."""
    start = {"day:0": 0, "day:1": DAY, "day:2": 2 * DAY, "day:3": 3 * DAY}[window]
    now = (3 * DAY if window == "day:3" else 2 * DAY) + position
    assert pacing.due(RAW, plan(), window=window, start=start, now=now) is is_due


def test_due_after_the_period_was_changed():
    """A plan kept under 5-minute periods goes on under 1-hour ones at the next full hour."""
    kept = plan(begun=200 * PERIOD, made_at=2 * DAY + 200 * PERIOD)
    hourly = PacingRule(period_s=3600.0)
    at = partial(pacing.due, hourly, kept, window="day:2", start=2 * DAY)
    assert not at(now=2 * DAY + 16 * HOUR + 59 * 60_000_000)
    assert at(now=2 * DAY + 17 * HOUR)


@pytest.mark.parametrize("window", ["day:0", "day:2"])
def test_a_clock_set_back_moves_the_mark_and_never_the_price(window):
    """λ is kept, and what is settled where the clock now stands is no one's spend."""
    kept = plan(begun=DAY // 2, mark=4 * USD, made_at=2 * DAY + DAY // 2)
    start = 0 if window == "day:0" else 2 * DAY
    seen = view(HOUR, start=start, window=window, settled=7 * USD, before=9 * USD)
    back = pacing.step(RAW, kept, seen)
    assert (back.high, back.mark, back.window) == (5.0, 7 * USD, window)


def test_coming_back_to_a_day_does_not_count_its_spend_again():
    """A day that already holds money when the clock returns to it starts from that mark."""
    elsewhere = plan(window="day:1", mark=0, made_at=DAY + HOUR)
    returned = pacing.step(RAW, elsewhere, view(HOUR, settled=8 * USD, before=0))
    assert (returned.high, returned.mark) == (5.0, 8 * USD)


@pytest.mark.parametrize("step", ["raw", "relative", "multiplicative"])
@given(spend=st.integers(0, 20 * USD), price=st.floats(0, 1e6))
def test_lambda_stays_in_its_bounds(step, spend, price):
    """Half the flattest to twice the steepest segment; `raw` only above zero."""
    kept = plan(price, e_min=2.0, e_max=50.0)
    rule = PacingRule(step=step, target="flat", eta=3.0)
    moved = pacing.step(rule, kept, view(PERIOD, settled=spend)).high
    assert 0.0 <= moved < math.inf
    if step != "raw" and spend:
        assert 1.0 <= moved <= 100.0


@pytest.mark.parametrize(
    ("low", "high", "price", "bounded"),
    [
        (3.0, None, 1.0, 3.0),
        (None, 9.0, 20.0, 9.0),
        (500.0, None, 20.0, 500.0),  # above the curves' own ceiling of 100
        (None, 0.25, 20.0, 0.25),  # below their floor of 1
    ],
)
def test_the_users_bounds_win(low, high, price, bounded):
    """`lambda_min` and `lambda_max` hold for a kept plan at once, against the curves' bounds too."""
    rule = PacingRule(lambda_min=low, lambda_max=high)
    assert pacing.in_force(rule, plan(price, e_min=2.0, e_max=50.0)).high == bounded


@pytest.mark.parametrize(
    ("rule", "low", "high", "bound"),
    [
        (PacingRule(), 5.0, 5.0, None),
        (PacingRule(), 60.0, 100.0, "2·e_max"),
        (PacingRule(), 1.0, 5.0, "e_min/2"),
        (PacingRule(), 1.0, 100.0, "2·e_max"),
        (PacingRule(lambda_max=9.0), 4.0, 9.0, "lambda_max"),
        (PacingRule(lambda_min=3.0), 3.0, 9.0, "lambda_min"),
        (PacingRule(lambda_min=500.0), 500.0, 500.0, "lambda_min"),
        (PacingRule(step="raw"), 0.0, 0.0, "0"),
        (PacingRule(step="raw"), 1e9, 1e9, None),
        (PacingRule(pacer="fixed"), 0.0, 0.0, None),
    ],
)
def test_a_price_at_its_bound_is_told_by_the_bounds_name(rule, low, high, bound):
    """Half the flattest and twice the steepest segment, the user's, and zero."""
    kept = replace(plan(high, e_min=2.0, e_max=50.0), low=low)
    assert pacing.touched(rule, kept) == bound


def test_a_solved_plan_is_bounded_by_what_it_was_solved_for():
    """Large prompts cost ten times the mean ones: with enough money they are bought all the same."""
    curve = ((0.01, 0.5), (0.02, 0.8), (0.1, 0.9))
    dear = tuple((10 * cost, reward) for cost, reward in curve)
    program = pacing.prepare([curve, dear])
    kept = plan(5.0, e_min=1.25, e_max=30.0)
    solved = pacing.resolved(
        PacingRule(pacer="solve"), kept, view(limit=100 * USD), program, [5, 5]
    )
    assert solved.high == solved.low == pytest.approx(0.125 / 2)
    assert (solved.e_min, solved.e_max) == (pytest.approx(0.125), pytest.approx(30.0))
    poor = pacing.resolved(PacingRule(pacer="solve"), kept, view(limit=0), program, [5, 5])
    assert pacing.touched(PacingRule(pacer="solve"), poor) == "2·e_max"


def test_fixed_keeps_its_lambda_and_follows_the_config():
    """No spend moves it; another `initial_lambda` in the config holds at once."""
    rule = PacingRule(pacer="fixed")
    assert pacing.step(rule, plan(), view(PERIOD, settled=9 * USD)).high == 5.0
    assert pacing.in_force(rule, plan()).high == 5.0
    assert pacing.in_force(replace(rule, initial_lambda=30.0), plan()).high == 30.0
    assert not pacing.warming_up(rule, plan(), now=0)


def test_warm_up_allows_half_more_than_planned_and_ends_after_its_periods():
    """1.5 · what is left · the running period's part of the rest, for the first periods with spend."""
    rule = PacingRule(warmup_periods=2)
    kept = plan(begun=DAY // 2, mark=4 * USD)
    allowance = pacing.warmup_allowance(rule, kept, view(DAY // 2))
    assert allowance == pytest.approx(1.5 * 6 * USD * PERIOD / (DAY / 2))
    assert [pacing.warming_up(rule, replace(kept, steps=n), now=0) for n in (0, 1, 2)] == [
        True,
        True,
        False,
    ]


def test_a_plan_of_two_prices_is_drawn_from():
    """Below f the lower price, else the higher, each with its probability."""
    two = replace(plan(), low=2.0, high=8.0, share=0.25)
    assert (two.price(0.2), two.price(0.25)) == ((2.0, 0.25), (8.0, 0.75))
    assert plan().price(0.99) == (5.0, 1.0)
