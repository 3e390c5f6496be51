"""A second look: which prompts went to the wrong action, and what that lost.

At each budget's λ the best action in hindsight is that with the most R − λ·C as both came out. What a
choice lost against it is put under one cause. Counted are labels, actions and points; no text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from quality_judge import PRICES, budgets

if TYPE_CHECKING:
    from quality_data import Matrix
    from quality_ours import Expected
    from workload import Floats, Ints

CAUSES = (
    "cut: a larger cap of the same model was right",
    "too cheap: only a dearer model was right",
    "other model: one as cheap was right",
    "too dear: a cheaper action was as good",
    "hopeless: nothing was worth its price",
)


def causes(expected: Expected, judged: Matrix) -> tuple[Floats, Floats]:
    """Return each cause's share of prompts and points of surplus lost, mean over the budgets."""
    rows = np.arange(len(judged.texts))
    shares, lost = np.zeros(len(CAUSES)), np.zeros(len(CAUSES))
    limits = budgets(judged)
    for limit in limits:
        price = _price(expected, judged, float(limit))
        surplus = judged.scores - price * judged.costs
        chosen = np.argmax(expected.rewards - (price + 1e-9) * expected.costs, axis=1)
        best = surplus.argmax(axis=1)
        short = surplus[rows, best] - surplus[rows, chosen]
        kind = _cause(judged, chosen, best)
        for cause in range(len(CAUSES)):
            of_cause = (kind == cause) & (short > 1e-9)
            shares[cause] += 100 * of_cause.mean() / limits.size
            lost[cause] += 100 * short[of_cause].sum() / rows.size / limits.size
    return shares, lost


def _price(expected: Expected, judged: Matrix, limit: float) -> float:
    rows = np.arange(len(judged.texts))
    for price in PRICES:
        chosen = np.argmax(expected.rewards - (price + 1e-9) * expected.costs, axis=1)
        if judged.costs[rows, chosen].mean() <= limit:
            return float(price)
    return float(PRICES[-1])


def _cause(judged: Matrix, chosen: Ints, best: Ints) -> Ints:
    rows = np.arange(chosen.size)
    names = np.array([judged.models.index(name) for name, _ in judged.actions])
    better = judged.scores[rows, best] > judged.scores[rows, chosen] + 1e-9
    dearer = judged.costs[rows, best] > judged.costs[rows, chosen]
    hopeless = judged.scores[rows, best] <= 0
    same = names[best] == names[chosen]
    kinds = [better & same & dearer, better & dearer, better, ~hopeless]
    return np.select(kinds, range(len(kinds)), default=len(kinds))


def lines(before: Expected, after: Expected, judged: Matrix) -> list[str]:
    """Return the table of causes, types alone and with the residual."""
    (share, lost), (share2, lost2) = causes(before, judged), causes(after, judged)
    head = (
        f"{judged.name}, misses by cause: % of prompts and points lost; types alone | with residual"
    )
    return [
        head,
        *[
            f"  {cause:<48}{share[i]:>6.1f} {lost[i]:>6.2f} | {share2[i]:>6.1f} {lost2[i]:>6.2f}"
            for i, cause in enumerate(CAUSES)
        ],
    ]
