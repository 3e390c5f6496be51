"""Puts a profile together: rows of cells shrunk over cost, the mixture `general`, what is worth keeping.

Every profile, shipped or a user's, comes through here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from budgetroute.curves import hull
from budgetroute.profiling.fit import is_sensitive, mixed_reward, monotone_caps, shrink_cells
from budgetroute.profiling.outcomes import cell_at
from budgetroute.records import Profile, PromptType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from budgetroute.profiling.outcomes import Weighted
    from budgetroute.records import Action, Cell, ClassifierRef

GENERAL = "general"
USEFUL_SHARE = 0.5
"""Of its way's best reward: what a cap must earn in some type to be worth an action."""
Row: TypeAlias = "list[Cell | None]"
Rates: TypeAlias = "Callable[[str], tuple[float, float] | None]"
"""A model's dollars per input and output token; None = not known."""
Adjust: TypeAlias = "Callable[[str, Row], Row]"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a profile is made of.

    Attributes:
        actions: the actions.
        shares: type → its part of the traffic; they sum to 1.
        inputs: type → mean prompt tokens.
        cell: the cell of (type, action), None = nothing is known.
        parts: weighted curves behind it, empty where there are none.
        rates: dollars per token; they weigh cost while fitting, nothing else.
        adjust: a last word on a type's shrunk cells.
        is_pooled: the curves were pulled to effects of task and way; if not, cells are pulled to a
            concave fit over log cost.
    """

    actions: tuple[Action, ...]
    shares: Mapping[str, float]
    inputs: Mapping[str, float]
    cell: Callable[[str, Action], Cell | None]
    parts: Callable[[str, Action], Sequence[Weighted]]
    rates: Rates
    adjust: Adjust = field(default=lambda _, row: row)
    is_pooled: bool = False

    def costs(self, row: Row, input_tokens: float) -> list[float | None]:
        """Return dollars of one call of each action; None without a cell or a price."""
        return [
            None if cell is None else self._cost(action.model, cell, input_tokens)
            for action, cell in zip(self.actions, row, strict=True)
        ]

    def _cost(self, model: str, cell: Cell, input_tokens: float) -> float | None:
        rates = self.rates(model)
        if rates is None:
            return None
        cost = input_tokens * cell.input_factor * rates[0] + cell.output_mean * rates[1]
        return cost if cost > 0 else None


@dataclass(frozen=True, slots=True)
class Heading:
    """What a profile says of itself."""

    name: str
    created: str
    classifier: ClassifierRef | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


def assemble(
    evidence: Evidence,
    heading: Heading,
    *,
    prune: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Profile:
    """Return the profile.

    Args:
        evidence: what is known of each cell.
        heading: its name, date and provenance.
        prune: leave out what cannot win even where its model is the only one.
        progress: called with (types done, types).
    """
    rows: dict[str, Row] = {}
    for done, kind in enumerate(evidence.shares):
        if progress:
            progress(done, len(evidence.shares))
        rows[kind] = shrunk_row(evidence, kind)
    inputs = dict(evidence.inputs)
    if GENERAL not in rows:
        total = math.fsum(evidence.shares.values())
        inputs[GENERAL] = math.fsum(s * inputs[k] for k, s in evidence.shares.items()) / total
        rows[GENERAL] = [_mixture(evidence, i, rows) for i in range(len(evidence.actions))]
    costs = {kind: evidence.costs(row, inputs[kind]) for kind, row in rows.items()}
    kept = worth_keeping(evidence.actions, rows, costs) if prune else range(len(evidence.actions))
    if progress:
        progress(len(evidence.shares), len(evidence.shares))
    return Profile(
        name=heading.name,
        created=heading.created,
        types={
            kind: PromptType(
                share=evidence.shares.get(kind, 0.0),
                input_tokens=inputs[kind],
                sensitive=_sensitive(row, costs[kind]),
            )
            for kind, row in rows.items()
        },
        actions=tuple(evidence.actions[i] for i in kept),
        cells={kind: tuple(row[i] for i in kept) for kind, row in rows.items()},
        classifier=heading.classifier,
        provenance=heading.provenance,
    )


def shrunk_row(evidence: Evidence, kind: str) -> Row:
    """Return a type's cells: shrunk over cost unless they were pooled, monotone in the cap.

    Not both: on public matrices of models the fit over cost undoes what pooling gains, for a
    model's price says less of its quality than its other answers do.
    """
    raw = [evidence.cell(kind, action) for action in evidence.actions]
    row = list(raw) if evidence.is_pooled else _shrunk_over_cost(evidence, kind, raw)
    row = evidence.adjust(kind, row)
    known = [i for i, cell in enumerate(row) if cell is not None]
    lifted = monotone_caps([evidence.actions[i] for i in known], [c for c in row if c is not None])
    for i, cell in zip(known, lifted, strict=True):
        row[i] = cell
    return row


def _shrunk_over_cost(evidence: Evidence, kind: str, raw: Row) -> Row:
    costs = evidence.costs(raw, evidence.inputs[kind])
    row = list(raw)
    priced = [i for i, cost in enumerate(costs) if cost is not None]
    better = shrink_cells(
        [cell for i in priced if (cell := raw[i]) is not None],
        [cost for cost in costs if cost is not None],
    )
    for i, cell in zip(priced, better, strict=True):
        row[i] = cell
    return row


def _mixture(evidence: Evidence, index: int, rows: Mapping[str, Row]) -> Cell | None:
    """Return the share-weighted mixture of one action over the types; None where one is unknown."""
    action = evidence.actions[index]
    cells = {kind: cell for kind, row in rows.items() if (cell := row[index]) is not None}
    if len(cells) < len(rows):
        return None
    shares = evidence.shares
    total = math.fsum(shares.values())
    parts = [
        (shares[kind] / total * weight, curve)
        for kind in cells
        for weight, curve in evidence.parts(kind, action)
    ]
    sent = {kind: shares[kind] * evidence.inputs[kind] for kind in cells}
    factor = math.fsum(sent[k] * c.input_factor for k, c in cells.items()) / sum(sent.values())
    reward, error = mixed_reward(cells, shares)
    seen = [kind for kind, cell in cells.items() if cell.source == "measured"]
    mostly = math.fsum(shares[kind] for kind in seen) >= total / 2 - 1e-9
    waits = [cell.latency_mean for cell in cells.values()]
    mixed = cell_at(
        parts,
        action.max_tokens,
        input_factor=factor,
        basis=max(cell.token_basis for cell in cells.values()),
    )
    return replace(
        mixed,
        reward=reward,
        reward_se=error,
        n=sum(cells[kind].n for kind in seen) if mostly else 0,
        source="measured" if mostly else "pooled",
        latency_mean=_mean(waits, [shares[kind] / total for kind in cells]),
    )


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return math.fsum(w * v for w, v in zip(weights, known, strict=True))


def worth_keeping(
    actions: Sequence[Action],
    rows: Mapping[str, Row],
    costs: Mapping[str, Sequence[float | None]],
) -> list[int]:
    """Return the indices of actions that some type could choose, were their model the only one.

    A way of answering stays if one of its caps could win, or if its model has no price; of its caps,
    those that earn at least half of what its best earns in some type. So the caps of a
    configuration find neighbours to be interpolated from, and those that cut nearly all go.
    """
    ways: dict[Action, list[int]] = {}
    for index, action in enumerate(actions):
        ways.setdefault(replace(action, max_tokens=1), []).append(index)
    alive = {i for row, cost in _pairs(rows, costs) for i in _winners(actions, row, cost)}
    return sorted(
        index
        for indices in ways.values()
        if not alive.isdisjoint(indices)
        for index in indices
        if any(_earns(row, index, indices) for row in rows.values())
    )


def _pairs(
    rows: Mapping[str, Row], costs: Mapping[str, Sequence[float | None]]
) -> list[tuple[Row, Sequence[float | None]]]:
    return [(row, costs[kind]) for kind, row in rows.items()]


def _winners(actions: Sequence[Action], row: Row, costs: Sequence[float | None]) -> Iterator[int]:
    """Yield what is on the hull of its own model's actions, and what has no price."""
    for model in {action.model for action in actions}:
        own = [i for i, action in enumerate(actions) if action.model == model and row[i]]
        points = [
            (i, (cost, cell.reward))
            for i in own
            if (cost := costs[i]) is not None and (cell := row[i]) is not None
        ]
        yield from (points[v][0] for v in hull([point for _, point in points]))
        yield from (i for i in own if costs[i] is None)


def _earns(row: Row, index: int, indices: Sequence[int]) -> bool:
    cell = row[index]
    best = max((other.reward for i in indices if (other := row[i]) is not None), default=0.0)
    return cell is not None and cell.reward >= USEFUL_SHARE * best


def _sensitive(row: Row, costs: Sequence[float | None]) -> bool | None:
    points = [
        (cost, cell.reward)
        for cost, cell in zip(costs, row, strict=True)
        if cost is not None and cell is not None
    ]
    return is_sensitive(points) if points else None
