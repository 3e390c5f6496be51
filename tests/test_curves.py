"""Curves: hull, segments, concave fit, shrinkage, intervals, caps between caps."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.curves import (
    fit_concave,
    hull,
    interpolate_cap,
    segments,
    shrink,
    wilson,
)
from budgetroute.records import Cell

costs = st.integers(1, 10_000).map(lambda n: n / 100)
shares = st.integers(0, 1000).map(lambda n: n / 1000)
curves = st.lists(st.tuples(costs, shares), min_size=1, max_size=30)


@given(curves)
def test_hull_rises_in_cost_and_reward(points):
    """Along the hull cost and reward strictly increase."""
    vertices = [points[i] for i in hull(points)]
    for (cost, reward), (next_cost, next_reward) in itertools.pairwise(vertices):
        assert next_cost > cost
        assert next_reward > reward


@given(curves)
def test_hull_is_concave(points):
    """Efficiency falls from segment to segment."""
    steps = segments([points[i] for i in hull(points)])
    efficiencies = [step.efficiency for step in steps]
    assert efficiencies == sorted(efficiencies, reverse=True)


@given(curves)
def test_no_point_lies_above_the_hull(points):
    """At its cost, every point earns at most what mixing hull vertices earns."""
    vertices = [points[i] for i in hull(points)]
    for cost, reward in points:
        assert reward <= mixed(vertices, cost) + 1e-9


def mixed(vertices, cost):
    below = [point for point in vertices if point[0] <= cost][-1]
    above = [point for point in vertices if point[0] > cost][:1]
    if not above:
        return below[1]
    share = (cost - below[0]) / (above[0][0] - below[0])
    return below[1] + share * (above[0][1] - below[1])


@given(curves)
def test_hull_starts_at_the_best_of_the_cheapest_points(points):
    """The first vertex has the least cost and, among those, the most reward."""
    first = points[hull(points)[0]]
    cheapest = min(cost for cost, _ in points)
    assert first == (cheapest, max(reward for cost, reward in points if cost == cheapest))


@given(curves, st.integers(0, 2000).map(lambda n: n / 10))
def test_the_hull_holds_the_winner_at_every_price(points, price):
    """For any λ no point has more surplus R − λC than the best hull vertex."""
    best = max(reward - price * cost for cost, reward in points)
    on_hull = max(points[i][1] - price * points[i][0] for i in hull(points))
    assert on_hull == pytest.approx(best, abs=1e-9)


def test_the_middle_of_a_straight_line_is_left_out():
    """A point on the line between two vertices is no vertex."""
    assert hull([(1.0, 0.25), (2.0, 0.5), (3.0, 0.75)]) == [0, 2]


def test_no_points_have_no_hull():
    """An empty curve has no vertices and no segments."""
    assert hull([]) == []
    assert segments([]) == []


def test_a_point_that_is_not_a_number_is_refused_by_index():
    """NaN is an error that names the point."""
    with pytest.raises(ValueError, match="point 1"):
        hull([(1.0, 0.5), (2.0, math.nan)])


@given(curves)
def test_fit_is_monotone_and_saturating_in_log_cost(points):
    """Fitted reward never falls with cost, and each doubling adds no more than the last."""
    fit = fit_concave([cost for cost, _ in points], [reward for _, reward in points])
    grid = [fit.cheapest * (fit.dearest / fit.cheapest) ** (step / 20) for step in range(21)]
    line = [fit.at(cost) for cost in grid]
    gains = [after - before for before, after in itertools.pairwise(line)]
    assert all(gain >= -1e-9 for gain in gains)
    if all(0 < value < 1 for value in line):
        assert all(b <= a + 1e-9 for a, b in itertools.pairwise(gains))


@given(curves)
def test_fit_stays_between_nought_and_one(points):
    """Fitted rewards are rewards."""
    fit = fit_concave([cost for cost, _ in points], [reward for _, reward in points])
    assert all(0 <= fit.at(cost) <= 1 for cost in (0.001, 1.0, 50.0, 1e6))


def test_fit_recovers_a_curve_of_its_own_family():
    """Noiseless points of a + b(1 − exp(−s·x)) with s on the grid are met exactly."""
    cost = [1.0, 2.0, 4.0, 8.0, 16.0]
    truth = [0.3 + 0.5 * -math.expm1(-4.0 * step / 4) for step in range(5)]
    fit = fit_concave(cost, truth)
    assert [fit.at(c) for c in cost] == pytest.approx(truth, abs=1e-9)


def test_fit_of_falling_rewards_is_flat():
    """b is never negative: dearer actions that are worse give a constant."""
    fit = fit_concave([1.0, 2.0, 4.0], [0.9, 0.6, 0.3])
    assert fit.b == 0
    assert fit.at(1.0) == pytest.approx(0.6)


def test_fit_listens_to_weights():
    """A point without samples does not pull."""
    fit = fit_concave([1.0, 2.0, 4.0, 8.0], [0.2, 0.5, 0.6, 0.0], [50, 50, 50, 0])
    assert fit.at(4.0) == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("bad", [([], []), ([0.0, 1.0], [0.5, 0.5]), ([-1.0], [0.5])])
def test_fit_refuses_what_has_no_log_cost(bad):
    """No points, a cost of 0 or less: there is no curve over log cost."""
    with pytest.raises(ValueError, match="positive costs"):
        fit_concave(*bad)


def test_fit_refuses_no_weight_at_all():
    """Weights that are all 0 leave nothing to fit."""
    with pytest.raises(ValueError, match="some weight"):
        fit_concave([1.0, 2.0], [0.1, 0.2], [0, 0])


@given(st.lists(st.tuples(shares, st.integers(0, 500), shares), min_size=1, max_size=12))
def test_a_shrunk_mean_lies_between_mean_and_fit(rows):
    """Shrinking never leaves the interval from the mean to the fit."""
    means, counts, fitted = zip(*rows, strict=True)
    for shrunk, mean, mu in zip(shrink(means, counts, fitted), means, fitted, strict=True):
        assert min(mean, mu) - 1e-9 <= shrunk <= max(mean, mu) + 1e-9


def test_more_samples_shrink_less():
    """Of equal means the one with more samples stays nearer to itself."""
    few, many, *_ = shrink([0.9, 0.9, 0.2, 0.5, 0.1], [5, 500, 50, 50, 50], [0.5] * 5)
    assert 0.5 < few < many < 0.9


def test_a_cell_without_samples_takes_the_fit():
    """n = 0 means w = 0."""
    assert shrink([0.9, 0.1, 0.5, 0.7, 0.3], [0, 9, 9, 9, 9], [0.4] * 5)[0] == 0.4


def test_three_cells_are_too_few_to_judge_scatter():
    """With as many cells as the fit has parameters the means stay."""
    assert shrink([0.9, 0.5, 0.1], [9, 9, 9], [0.5, 0.5, 0.5]) == [0.9, 0.5, 0.1]


def test_shrinkage_comes_nearer_to_the_truth_than_raw_means():
    """On noisy cells of a concave truth the shrunk squared error is less than half the raw one."""
    luck = random.Random(7)
    cost = [2.0**step for step in range(8)]
    truth = [0.3 + 0.5 * -math.expm1(-3.0 * step / 7) for step in range(8)]
    raw = better = 0.0
    for _ in range(60):
        means = [sum(luck.random() < p for _ in range(20)) / 20 for p in truth]
        fit = fit_concave(cost, means, [20] * 8)
        shrunk = shrink(means, [20] * 8, [fit.at(c) for c in cost])
        raw += sum((m - p) ** 2 for m, p in zip(means, truth, strict=True))
        better += sum((m - p) ** 2 for m, p in zip(shrunk, truth, strict=True))
    assert better < 0.5 * raw


@given(shares, st.integers(1, 10_000))
def test_wilson_holds_the_mean(mean, n):
    """The interval contains the observed share and lies in [0, 1]."""
    low, high = wilson(mean, n)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


def test_wilson_without_samples_knows_nothing():
    """n = 0 gives the whole range."""
    assert wilson(0.5, 0) == (0.0, 1.0)


def cell(reward, tokens, **more):
    return Cell(50, reward, 0.05, tokens, **more)


def test_a_profiled_cap_is_returned_as_it_is():
    """No interpolation at a cap that was measured."""
    curve = {64: cell(0.2, 60.0), 256: cell(0.6, 150.0)}
    assert interpolate_cap(curve, 256) is curve[256]


def test_above_the_largest_cap_the_largest_counts():
    """A cap beyond the profile changes nothing."""
    curve = {64: cell(0.2, 60.0), 256: cell(0.6, 150.0)}
    assert interpolate_cap(curve, 9999) is curve[256]


@pytest.mark.parametrize("curve", [{}, {64: cell(0.2, 60.0)}])
def test_below_the_smallest_cap_nothing_is_known(curve):
    """A cap under the profile has no cell."""
    assert interpolate_cap(curve, 63) is None


@given(st.integers(65, 1023), st.integers(65, 1023))
def test_interpolation_is_monotone_in_the_cap(one, other):
    """A larger cap never has less reward or fewer expected tokens."""
    curve = {64: cell(0.2, 60.0, cut=0.8), 1024: cell(0.6, 150.0, cut=0.1)}
    small, large = (interpolate_cap(curve, cap) for cap in sorted((one, other)))
    assert small.reward <= large.reward
    assert small.output_mean <= large.output_mean
    assert small.cut >= large.cut


@given(st.integers(64, 4096))
def test_interpolated_tokens_never_exceed_the_cap(cap):
    """Where both neighbours are cut throughout, the cap itself bounds the tokens."""
    curve = {
        64: cell(0.0, 64.0, output_p95=64.0, output_p99=64.0),
        4096: cell(0.0, 4096.0, output_p95=4096.0, output_p99=4096.0),
    }
    between = interpolate_cap(curve, cap)
    assert max(between.output_mean, between.output_p95, between.output_p99) <= cap


def test_unknown_stays_unknown_between_caps():
    """None in either neighbour is None in between, never 0."""
    curve = {64: cell(0.2, 60.0), 256: cell(0.6, 150.0, latency_mean=2.0, cut=0.1)}
    between = interpolate_cap(curve, 128)
    assert between.latency_mean is None
    assert between.cut is None


def test_an_interpolated_cell_is_no_surer_than_its_neighbours():
    """Its source is the least certain of both, its n the smaller, its error the larger."""
    low = Cell(10, 0.2, 0.2, 60.0, source="prior")
    between = interpolate_cap({64: low, 256: cell(0.6, 150.0)}, 128)
    assert (between.source, between.n, between.reward_se) == ("prior", 10, 0.2)
    assert interpolate_cap({64: cell(0.2, 9.0), 256: cell(0.6, 9.0)}, 99).source == "interpolated"
