"""Judging at equal dollars: what choices by R − λ·C earn when λ makes them cost just the budget.

As the pacer does, λ is moved until what is really paid (not what was expected) meets the budget,
two neighbouring λ mixed. The rival is the best random mix of two actions, chosen with the judged
outcomes in hand: the upper hull of the actions' real means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from budgetroute.curves import hull

if TYPE_CHECKING:
    from quality_data import Matrix
    from quality_ours import Expected
    from workload import Floats

BUDGETS = 9
OVER_CHEAPEST = 1.2
PRICES = np.concatenate([[0.0], np.geomspace(1e-2, 1e7, 600)])
RESAMPLES = 1000


def budgets(judged: Matrix) -> Floats:
    """Return 9 budgets per call, 1.2 × the cheapest action's mean cost to the best action's."""
    costs, rewards = judged.costs.mean(axis=0), judged.scores.mean(axis=0)
    return np.geomspace(OVER_CHEAPEST * costs.min(), costs[rewards.argmax()], BUDGETS)


@dataclass(frozen=True)
class Verdict:
    """How a way did on one judged half.

    Attributes:
        lead: points over the mix at each budget.
        each: [prompt] what it contributes to the mean lead, at equal dollars.
    """

    lead: Floats
    each: Floats


def judge(expected: Expected, judged: Matrix) -> Verdict:
    """Compare choices with the mix at every budget."""
    limits = budgets(judged)
    paid, earned = _walk(expected, judged)
    means = paid.mean(axis=1)
    leads, each = [], np.zeros(len(judged.texts))
    for limit in limits:
        reward, cost = _held(paid, earned, means, limit)
        rival, rival_cost, slope = _mix(judged, limit)
        at_equal = reward - rival - slope * (cost - rival_cost)
        leads.append(100 * float(at_equal.mean()))
        each += 100 * at_equal / BUDGETS
    return Verdict(np.array(leads), each)


def reward_at(expected: Expected, judged: Matrix, limit: float) -> float:
    """Return the mean reward when the choices cost so many dollars per call."""
    paid, earned = _walk(expected, judged)
    return float(_held(paid, earned, paid.mean(axis=1), limit)[0].mean())


def _walk(expected: Expected, judged: Matrix) -> tuple[Floats, Floats]:
    """Return [λ][prompt] dollars paid and reward earned."""
    rows = np.arange(len(judged.texts))
    costs = judged.costs
    paid = np.empty((PRICES.size, rows.size), dtype=np.float32)
    earned = np.empty_like(paid)
    for i, price in enumerate(PRICES):
        chosen = np.argmax(expected.rewards - (price + 1e-9) * expected.costs, axis=1)
        paid[i], earned[i] = costs[rows, chosen], judged.scores[rows, chosen]
    return paid, earned


def _held(paid: Floats, earned: Floats, means: Floats, limit: float) -> tuple[Floats, Floats]:
    """Return each prompt's reward and cost at the least λ within the budget, mixed with the next."""
    within = np.flatnonzero(means <= limit)
    k = int(within[0]) if within.size else means.size - 1
    if k == 0 or means[k] > limit:
        return earned[k], paid[k]
    share = (limit - means[k]) / (means[k - 1] - means[k])
    reward: Floats = share * earned[k - 1] + (1 - share) * earned[k]
    return reward, share * paid[k - 1] + (1 - share) * paid[k]


def _mix(judged: Matrix, limit: float) -> tuple[Floats, Floats, float]:
    """Return the mix's reward and cost on each prompt, and its reward per dollar there."""
    costs, rewards = judged.costs.mean(axis=0), judged.scores.mean(axis=0)
    points = list(zip(costs.tolist(), rewards.tolist(), strict=True))
    corners = hull(points)
    places = costs[corners]
    above = int(np.clip(np.searchsorted(places, limit), 1, places.size - 1))
    low, high = corners[above - 1], corners[above]
    share = float(np.clip((limit - costs[low]) / (costs[high] - costs[low]), 0.0, 1.0))
    slope = float((rewards[high] - rewards[low]) / (costs[high] - costs[low]))
    reward = (1 - share) * judged.scores[:, low] + share * judged.scores[:, high]
    return reward, (1 - share) * judged.costs[:, low] + share * judged.costs[:, high], slope


def best_single(judged: Matrix) -> Floats:
    """Return how far the best single action within each budget lies under the mix, in points."""
    costs, rewards = judged.costs.mean(axis=0), judged.scores.mean(axis=0)
    found = []
    for limit in budgets(judged):
        alone = rewards[costs <= limit * (1 + 1e-9)].max()
        found.append(100 * float(alone - _mix(judged, limit)[0].mean()))
    return np.array(found)


def interval(parts: list[tuple[np.ndarray, Floats]], prompts: int) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean over halves, prompts resampled as wholes.

    Args:
        parts: for each half, its judged rows and what each contributes.
        prompts: how many there are in all.
    """
    rng = np.random.default_rng(0)
    means = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        weight = np.bincount(rng.integers(prompts, size=prompts), minlength=prompts)
        means[i] = np.mean([weight[rows] @ each / weight[rows].sum() for rows, each in parts])
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
