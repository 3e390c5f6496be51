"""Lengths of answers: a lognormal that is cut at a cap, fitted to what a cell says about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgetroute.records import Cell

NORMAL = NormalDist()
_P95 = NORMAL.inv_cdf(0.95)
_USUAL_SPREAD = 0.5
"""σ where a cell tells neither its cut share nor a usable p95: about what chain-of-thought answers of
one model to one kind of question show."""
_NARROW, _WIDE = 0.05, 1.5
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Length:
    """An answer has 1 + X tokens, X lognormal.

    Attributes:
        centre: μ, mean of ln X; infinite for answers that any cap cuts, minus infinite for X = 0.
        spread: σ, standard deviation of ln X.
    """

    centre: float
    spread: float

    def exceeds(self, cap: int) -> float:
        """Return the probability that an answer is longer than the cap."""
        if math.isinf(self.centre) or cap <= 1:
            return float(self.centre > 0 or not math.isinf(self.centre))
        return 1.0 - NORMAL.cdf((math.log(cap - 1) - self.centre) / self.spread)

    def at(self, u: float) -> float:
        """Return the length that a share `u` of the answers does not exceed."""
        if math.isinf(self.centre):
            return math.inf if self.centre > 0 else 1.0
        return 1.0 + math.exp(self.centre + self.spread * NORMAL.inv_cdf(u))


def fit_length(cell: Cell, cap: int) -> Length:
    """Return the lengths whose mean under the cap is the cell's `output_mean`, exactly.

    The spread follows the cell's cut share, else its p95, else the usual one.
    """
    mean, room = cell.output_mean - 1.0, cap - 1.0
    if mean <= 0:
        return Length(-math.inf, 1.0)
    if mean >= room * (1 - 1e-9):
        return Length(math.inf, 1.0)
    spread = _spread(cell, mean, room)
    return Length(_centre(mean, spread, room), spread)


def capped_mean(centre: float, spread: float, room: float) -> float:
    """Return E[min(X, room)] of a lognormal X.

    >>> round(capped_mean(0.0, 0.5, 1e9), 6) == round(math.exp(0.125), 6)
    True
    """
    edge = (math.log(room) - centre) / spread
    below = math.exp(centre + spread**2 / 2) * NORMAL.cdf(edge - spread)
    return below + room * (1.0 - NORMAL.cdf(edge))


def _centre(mean: float, spread: float, room: float) -> float:
    """Solve capped_mean(μ) = mean, which rises with μ, by halving."""
    low, high = math.log(mean) - spread**2 / 2, math.log(room) + 8 * spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if capped_mean(middle, spread, room) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _spread(cell: Cell, mean: float, room: float) -> float:
    if cell.cut is not None and 0.002 < cell.cut < 0.998:  # noqa: PLR2004 - a handful of samples decides outside
        return _spread_of_cut(cell.cut, mean, room)
    if cell.output_p95 is not None and cell.output_p95 - 1 < room:
        return _spread_of_p95((cell.output_p95 - 1) / mean)
    return _USUAL_SPREAD


def _spread_of_cut(cut: float, mean: float, room: float) -> float:
    """Solve for σ with the centre tied to the cut share; the capped mean falls as σ grows."""
    edge = NORMAL.inv_cdf(1.0 - cut)
    low, high = _NARROW, _WIDE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if capped_mean(math.log(room) - edge * middle, middle, room) > mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _spread_of_p95(ratio: float) -> float:
    """Solve ln(p95 / mean) = 1.645 σ − σ²/2 for its smaller root."""
    if ratio <= 1 or math.log(ratio) >= _P95**2 / 2:
        return _USUAL_SPREAD
    root = _P95 - math.sqrt(_P95**2 - 2 * math.log(ratio))
    return min(max(root, _NARROW), _WIDE)
