"""Choosing: the candidate with the largest value·R − λ·C.

    L(x, λ) = Σ [R_i(x_i) − λ C_i(x_i)] + λB

For a fixed shadow price every request decides alone, so one argmax is all there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from budgetroute.records import Candidate


def surplus(candidate: Candidate, *, price: float) -> float:
    """Return value·R − λ·C, in reward; a candidate without a curve (R = None) counts as R = 0."""
    return candidate.value * (candidate.reward or 0.0) - price * candidate.cost


def choose(candidates: Iterable[Candidate], *, price: float) -> tuple[Candidate, ...]:
    """Rank candidates by surplus at shadow price λ, best first.

    Ties go to the cheaper, then to the one that holds less, then by name.
    """
    return tuple(
        sorted(
            candidates,
            key=lambda c: (-surplus(c, price=price), c.cost, c.worst, c.action.label),
        )
    )


def flip_price(first: Candidate, second: Candidate) -> float | None:
    """Return the λ at which `second` draws level with `first`; None if no λ ≥ 0 does that.

    λ° = (v₁R₁ − v₂R₂) / (C₁ − C₂)
    """
    gain = first.value * (first.reward or 0.0) - second.value * (second.reward or 0.0)
    extra = first.cost - second.cost
    if extra == 0:
        return None
    level = gain / extra
    return abs(level) if level >= 0 else None  # abs: no minus before a zero


def affordable_steps(ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Keep, in order, each candidate that holds less than all before it.

    If one does not fit the budget, only a candidate with a smaller worst case can.
    """
    steps: list[Candidate] = []
    for candidate in ranked:
        if not steps or candidate.worst < steps[-1].worst:
            steps.append(candidate)
    return tuple(steps)


def reaching(ranked: Sequence[Candidate], floor: float | None) -> tuple[Candidate, ...]:
    """Keep the candidates whose predicted reward reaches the floor; no curve = not judged, kept."""
    if floor is None:
        return tuple(ranked)
    return tuple(c for c in ranked if c.reward is None or c.reward >= floor)
