"""How a slate leans to one prompt: its answers longer or shorter, its rewards higher or lower."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.records import Guess
    from budgetroute.router.table import Row

_STRIDE = 0.25
"""Of log length, between two tables of curves; in between they are mixed."""


class Leaning:
    """A slate's curves for prompts that differ from their type; tables are made when first asked for.

    Args:
        rows: the slate's rows.
        types: the prompt types, in the order of its tables.
        stacked: its table (types × blocks of rows): R, value·R, output tokens, and what stays.
        values: (types × 1) the user's weights on rewards.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        types: Sequence[str],
        *,
        stacked: Any,  # noqa: ANN401 - an array
        values: Any,  # noqa: ANN401 - an array
    ) -> None:
        import numpy as np

        self._np: Any = np
        self._rows, self._types, self._values = rows, types, values
        self._tables: dict[int, Any] = {0: stacked}
        self._parts: Any = None
        self._places: tuple[tuple[str, ...], Any] | None = None

    def mixed(self, mix: Any, length: float) -> Any:  # noqa: ANN401 - arrays
        """Return the mixed curves of answers exp(length) times as long."""
        step = math.floor(length / _STRIDE)
        share = length / _STRIDE - step
        below = mix @ self._table(step)
        return below + share * (mix @ self._table(step + 1) - below) if share else below

    def moved(self, mix: Any, reward: Any, gain: Any, *, guess: Guess) -> tuple[Any, Any]:  # noqa: ANN401 - arrays
        """Return R and value·R with what the prompt adds, as far as each cap lets it show.

        A family that the guess does not know moves by the mean of the others.
        """
        np = self._np
        mean = sum(guess.rewards) / max(1, len(guess.rewards))
        added = np.array([*guess.rewards, mean])[self._place(guess.families)]
        moved = reward + added * (mix @ self._part())
        change = np.minimum(np.maximum(moved, 0.0), 1.0) - reward
        return reward + change, gain + np.nan_to_num(change) * float((mix @ self._values)[0])

    def _table(self, step: int) -> Any:  # noqa: ANN401 - an array
        found = self._tables.get(step)
        if found is None:
            np, by = self._np, step * _STRIDE
            grid = [[row.stretched(name, by) for row in self._rows] for name in self._types]
            reward = np.array([[c.reward if c else 0.0 for c in cells] for cells in grid])
            output = np.array([[c.output_mean if c else 0.0 for c in cells] for cells in grid])
            rest = self._tables[0][:, 3 * len(self._rows) :]
            found = np.hstack([reward, reward * self._values, output, rest])
            self._tables[step] = found
        return found

    def _part(self) -> Any:  # noqa: ANN401 - an array
        if self._parts is None:
            parts = [[row.part(name) for row in self._rows] for name in self._types]
            self._parts = self._np.array(parts)
        return self._parts

    def _place(self, families: tuple[str, ...]) -> Any:  # noqa: ANN401 - an array
        kept = self._places
        if kept is None or kept[0] is not families:
            known = {name: place for place, name in enumerate(families)}
            places = [known.get(row.action.family, len(known)) for row in self._rows]
            kept = self._places = (families, self._np.array(places))
        return kept[1]
