"""A slate: the rows eligible for one kind of request as arrays, so that a choice costs microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.policy import affordable_steps
from budgetroute.records import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.records import CellSource, InputSize
    from budgetroute.router.table import Row

_CERTAINTY: tuple[CellSource, ...] = ("prior", "like", "interpolated", "pooled", "measured")
_STEPS = 10  # alternatives that one reservation names; each holds less than the one before
_SHOWN = 8  # candidates kept for `explain`


@dataclass(frozen=True, slots=True)
class Sizing:
    """What is known about one request's tokens.

    Attributes:
        size: the measured prompt.
        expected_overhead: tokens the function adds, on average.
        overhead_bound: tokens the function adds, at most.
        calls: attempts that one reservation covers.
    """

    size: InputSize
    expected_overhead: float
    overhead_bound: int
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a slate answers for one request.

    Attributes:
        best: candidates by surplus, best first; only as many as are shown.
        steps: the winner, then each next best that holds less, down to the one that holds least.
        floor_missed: no candidate reached the floor; the highest rewards stand first.
        unbounded: labels of rows whose images cannot be priced.
    """

    best: tuple[Candidate, ...]
    steps: tuple[Candidate, ...]
    floor_missed: bool
    unbounded: tuple[str, ...]


class Slate:
    """Rows as arrays over (type, row).

    Args:
        rows: the eligible rows; at least one.
        values: prompt type → the user's weight on its reward.
    """

    def __init__(self, rows: Sequence[Row], values: Mapping[str, float]) -> None:
        import numpy as np

        self.rows = tuple(rows)
        self.types = tuple(values)
        self._place = {name: k for k, name in enumerate(self.types)}
        self._np: Any = np
        grid = [[row.cells.get(name) for row in self.rows] for name in self.types]
        weight = np.array([values[name] for name in self.types])[:, None]

        def table(pick: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
            return np.array([[getattr(c, pick) if c else 0.0 for c in cells] for cells in grid])

        reward = table("reward")
        known = np.array([[c is not None for c in cells] for cells in grid], dtype=float)
        self._complete = bool(known.all())
        self._stacked = np.hstack(
            [reward, reward * weight, table("output_mean"), table("input_factor"), known]
        )
        ratio = np.array([row.facts.ratio for row in self.rows])
        self._ratio = ratio
        self._in_usd = np.array([row.input_usd for row in self.rows]) * ratio
        self._out_usd = np.array([row.output_usd for row in self.rows])
        self._fee = np.array([row.fee_usd for row in self.rows])
        self._cap = np.array([float(row.action.max_tokens) for row in self.rows])
        self._sources = [_source(row) for row in self.rows]
        self._tier = min(
            (row.facts.price.tiers[0][0] for row in self.rows if row.facts.price.tiers),
            default=None,
        )

    def rank(
        self,
        weights: Sequence[tuple[str, float]],
        sizing: Sizing,
        *,
        price: float,
        floor: float | None,
        exhaustive: bool = False,
    ) -> Ranking:
        """Order the rows by value·R − λ·C, ties to the cheaper, then to the smaller cap, and name the steps a reservation may take.

        Args:
            weights: (type, weight) of the prompt, summing to 1.
            sizing: tokens of the request.
            price: λ.
            floor: least acceptable reward; if no row reaches it the highest rewards come first.
            exhaustive: bound every row exactly, so that whatever fits a budget is found.
        """
        np = self._np
        reward, gain, cost = self._expect(weights, sizing)
        order = np.lexsort((self._cap, cost, price * cost - gain)).tolist()
        known = reward.tolist()
        passed = [i for i in order if floor is None or known[i] != known[i] or known[i] >= floor]
        missed = not passed
        if missed:
            passed = sorted(order, key=lambda i: -known[i])
        looked = passed if exhaustive else self._worth_a_look(passed, sizing)
        return self._ranking(looked, (reward, gain, cost), sizing, floor_missed=missed)

    def _expect(self, weights: Sequence[tuple[str, float]], sizing: Sizing) -> tuple[Any, Any, Any]:
        """Return R, value·R and C of every row; R is NaN where no mixed type has a curve."""
        np = self._np
        mix = np.zeros(len(self.types))
        for name, weight in weights:
            mix[self._place[name]] = weight
        count = len(self.rows)
        mixed = mix @ self._stacked
        reward, gain = mixed[:count], mixed[count : 2 * count]
        output, factor = mixed[2 * count : 3 * count], mixed[3 * count : 4 * count]
        if not self._complete:
            seen = mixed[4 * count :]
            bare = seen <= 0
            seen = np.where(bare, 1.0, seen)
            reward = np.where(bare, np.nan, reward / seen)
            gain = gain / seen
            output = np.where(bare, self._cap, output / seen)
            factor = np.where(bare, 1.0, factor / seen)
        size = sizing.size
        counted = max(0.0, size.tokens + size.framing + sizing.expected_overhead)
        cost = factor * (counted * self._in_usd) + output * self._out_usd + self._fee
        if self._tier is not None:
            self._reprice_tiers(cost, counted * self._ratio * factor, output)
        return reward, gain, cost if sizing.calls == 1 else cost * sizing.calls

    def _reprice_tiers(self, cost: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        if self._tier is None or float(inputs.max()) <= self._tier:
            return
        for i, row in enumerate(self.rows):
            if row.facts.price.tiers:
                tokens = float(inputs[i])
                cost[i] = row.cost(input_tokens=tokens, output_tokens=float(output[i]))

    def _ranking(
        self,
        order: Sequence[int],
        expected: tuple[Any, Any, Any],
        sizing: Sizing,
        *,
        floor_missed: bool,
    ) -> Ranking:
        made = [(i, self._candidate(i, expected, sizing)) for i in order]
        ranked = tuple(c for _, c in made if c is not None)
        return Ranking(
            best=ranked[:_SHOWN],
            steps=_shortened(affordable_steps(ranked)),
            floor_missed=floor_missed,
            unbounded=tuple(self.rows[i].action.label for i, c in made if c is None),
        )

    def _candidate(
        self, i: int, expected: tuple[Any, Any, Any], sizing: Sizing
    ) -> Candidate | None:
        row = self.rows[i]
        worst = row.worst(sizing.size, overhead=sizing.overhead_bound, calls=sizing.calls)
        if worst is None:
            return None
        reward, gain, cost = (float(array[i]) for array in expected)
        known = reward == reward  # noqa: PLR0124 - NaN: no curve
        return Candidate(
            action=row.action,
            reward=reward if known else None,
            cost=cost,
            worst=worst,
            value=gain / reward if known and reward > 0 else 1.0,
            source=self._sources[i],
        )

    def _worth_a_look(self, order: Sequence[int], sizing: Sizing) -> list[int]:
        """Return the first few rows and, after them, those whose worst case keeps falling."""
        shown = list(order[:_SHOWN]) if not sizing.size.images else list(order)
        rest = order[len(shown) :]
        bound = sizing.size.utf8_bytes + sizing.overhead_bound
        least = min((self._rough(i, bound) for i in shown), default=float("inf"))
        for i in rest:
            rough = self._rough(i, bound)
            if rough < least:
                shown.append(i)
                least = rough
        return shown

    def _rough(self, i: int, bound: int) -> float:
        row = self.rows[i]
        return bound * row.input_usd + row.action.max_tokens * row.output_usd


def _source(row: Row) -> CellSource:
    sources = {cell.source for cell in row.cells.values()}
    return next((s for s in _CERTAINTY if s in sources), "prior")


def _shortened(steps: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Keep the best steps and, always, the one that holds least."""
    return steps if len(steps) <= _STEPS else (*steps[: _STEPS - 1], steps[-1])
