"""A slate: the rows eligible for one kind of request as arrays, so that a choice costs microseconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute import billing
from budgetroute.pacing import gamma_of
from budgetroute.policy import affordable_steps
from budgetroute.records import Candidate, InputSize, Terms
from budgetroute.router.crossings import NOTHING_RAISED, Raised
from budgetroute.router.leaning import Leaning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from budgetroute.records import Action, CellSource, Guess
    from budgetroute.router.table import Row
    from budgetroute.units import Pico

_CERTAINTY: tuple[CellSource, ...] = ("prior", "like", "interpolated", "pooled", "measured")
_STEPS = 10  # alternatives that one reservation names; each holds less than the one before
_SHOWN = 6  # candidates kept for `explain`


@dataclass(frozen=True, slots=True)
class Sizing:
    """What is known about one request's tokens.

    Attributes:
        size: the measured prompt.
        expected_overhead: tokens the function adds, on average.
        overhead_bound: tokens the function adds, at most.
        calls: attempts that one reservation covers.
        terms: what may be billed besides text.
        factors: γ by family of actions, billed over predicted cost.
        raised: by how much worst cases were crossed lately.
        more_calls: responses of the route lately, beyond `calls`.
        at: when, for prices that differ by the hour; None = peak hours.
    """

    size: InputSize
    expected_overhead: float
    overhead_bound: int
    calls: int = 1
    terms: Terms = field(default_factory=Terms)
    factors: Mapping[str, float] = field(default_factory=dict)
    raised: Raised = NOTHING_RAISED
    more_calls: int = 0
    at: datetime | None = None

    @property
    def counted(self) -> float:
        """Return the tokens to expect of the prompt itself, images aside."""
        return billing.expected_input(self.size, ratio=1.0, overhead=0.0)


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a slate answers for one request.

    Attributes:
        best: the winner and the runner-up.
        steps: the winner; if asked for, then each next best that holds less, down to the least.
        floor_missed: no candidate reached the floor; the highest rewards stand first.
        unbounded: labels of rows whose images cannot be priced.
        shown: the first few rows as `explain` shows them.
        least_cost: expected cost of the cheapest row that passes the floor, dollars.
        baseline: what the user's code would take, for comparison only; None where it has none.
        expected: (C, value·R) of every row of the slate, as arrays; value·R is NaN without a curve.
    """

    best: tuple[Candidate, ...]
    steps: tuple[Candidate, ...]
    floor_missed: bool
    unbounded: tuple[str, ...]
    shown: tuple[Mapping[str, Any], ...] = ()
    least_cost: float = 0.0
    baseline: Candidate | None = None
    expected: tuple[Any, Any] | None = None


NO_RANKING = Ranking((), (), floor_missed=False, unbounded=())
"""Nothing was ranked."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """R, value·R, C and γ of every row; R is NaN where no mixed type has a curve."""

    reward: list[float]
    gain: list[float]
    cost: list[float]
    gamma: list[float]


class Slate:
    """Rows as arrays over (type, row).

    Args:
        rows: the eligible rows; at least one.
        values: prompt type → the user's weight on its reward.
        baseline: what the user's code would take: weighed along, never chosen.
    """

    def __init__(
        self, rows: Sequence[Row], values: Mapping[str, float], *, baseline: Row | None = None
    ) -> None:
        import numpy as np

        self.eligible = tuple(rows)
        self.rows = self.eligible if baseline is None else (*rows, baseline)
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
        self._lean = Leaning(self.rows, self.types, stacked=self._stacked, values=weight)
        ratio = np.array([row.facts.ratio for row in self.rows])
        self._ratio = ratio
        self._in_usd = np.array([row.input_usd for row in self.rows])
        self._out_usd = np.array([row.output_usd for row in self.rows])
        self._image = np.array([float(row.facts.image_tokens or 0) for row in self.rows])
        self._image_usd = self._image * np.array([row.input_usd for row in self.rows])
        self._fee = np.array([row.fee_usd for row in self.rows])
        self._cap = np.array([float(row.action.max_tokens) for row in self.rows])
        self._labels = [row.action.label for row in self.rows]
        self._sources = [_source(row) for row in self.rows]
        self._gamma: tuple[Mapping[str, float], Any, list[float]] | None = None
        self._ones = [1.0] * len(self.rows)
        self._twin = None if baseline is None else _place_of(baseline.action, self.eligible)
        self._search = np.array([row.search_usd for row in self.rows])
        self._odd = [i for i, row in enumerate(self.rows) if not row.is_plain]
        self._is_timed = any(row.second_usd for row in self.rows)

    def rank(
        self,
        weights: Sequence[tuple[str, float]],
        sizing: Sizing,
        *,
        price: float,
        floor: float | None,
        exhaustive: bool = False,
        guess: Guess | None = None,
    ) -> Ranking:
        """Order the rows by value·R − λ·C; bound the winner, or all, by what they may cost.

        Ties go to the cheaper, then to the smaller cap.

        Args:
            weights: (type, weight) of the prompt, summing to 1.
            sizing: tokens of the request.
            price: λ.
            floor: least acceptable reward; if no row reaches it the highest rewards come first.
            exhaustive: bound every row, so that whatever fits a budget is found; else `steps` is
                the winner alone.
            guess: how this prompt differs from its type; None = not at all.
        """
        reward, gain, cost = self._expect(weights, sizing, guess)
        count = len(self.eligible)
        lack = price * cost - gain
        order: list[int] = self._np.lexsort(
            (self._cap[:count], cost[:count], lack[:count])
        ).tolist()
        gammas = self._gammas(sizing.factors)[1] if sizing.factors else self._ones
        seen = _Expected(reward.tolist(), gain.tolist(), cost.tolist(), gammas)
        passed = order if floor is None else [i for i in order if not seen.reward[i] < floor]
        missed = not passed
        if missed:
            passed = sorted(order, key=lambda i: -seen.reward[i])
        unbounded = self._is_timed and sizing.terms.seconds is None
        every = exhaustive or sizing.size.images > 0 or unbounded
        looked = passed if every else passed[:2]
        made = [(i, self._candidate(i, seen, sizing)) for i in looked]
        ranked = tuple([c for _, c in made if c is not None])
        return Ranking(
            best=ranked[:2],
            steps=_shortened(affordable_steps(ranked)) if exhaustive else ranked[:1],
            floor_missed=missed,
            unbounded=tuple([self._labels[i] for i, c in made if c is None]),
            shown=tuple([self._shown(i, seen, price) for i in passed[:_SHOWN]]),
            least_cost=min([seen.cost[i] for i in passed]),
            baseline=self._usual(made, seen, sizing),
            expected=(cost, gain if self._complete else gain + 0.0 * reward),
        )

    def _expect(
        self,
        weights: Sequence[tuple[str, float]],
        sizing: Sizing,
        guess: Guess | None = None,
    ) -> tuple[Any, Any, Any]:
        """Return R, value·R and C of every row; R is NaN where no mixed type has a curve."""
        np = self._np
        mix = np.zeros(len(self.types))
        for name, weight in weights:
            mix[self._place[name]] = weight
        count = len(self.rows)
        mixed = mix @ self._stacked if guess is None else self._lean.mixed(mix, guess.length)
        reward, gain = mixed[:count], mixed[count : 2 * count]
        output, factor = mixed[2 * count : 3 * count], mixed[3 * count : 4 * count]
        if not self._complete:
            seen = mixed[4 * count :]
            bare = seen <= 0
            seen = np.where(bare, 1.0, seen)
            reward = np.where(bare, np.nan, reward / seen)
            gain = np.where(bare, 0.0, gain / seen)
            output = np.where(bare, self._cap, output / seen)
            factor = np.where(bare, 1.0, factor / seen)
        if guess is not None:
            reward, gain = self._lean.moved(mix, reward, gain, guess=guess)
        # the overhead was learnt from reports, so it is in the model's own tokens already
        tokens = np.maximum(sizing.counted * self._ratio + sizing.expected_overhead, 0.0)
        images = sizing.size.images
        cost = factor * (tokens * self._in_usd) + output * self._out_usd + self._fee
        if images:
            cost += images * self._image_usd
        if self._odd:
            inputs = tokens * factor + images * self._image
            self._reprice(cost, inputs, output, weights, sizing)
        if sizing.terms.searches:
            cost = cost + self._search
        if sizing.factors:
            cost = cost * self._gammas(sizing.factors)[0]
        return reward, gain, cost if sizing.calls == 1 else cost * sizing.calls

    def _gammas(self, factors: Mapping[str, float]) -> tuple[Any, list[float]]:
        """Return γ of every row, as an array and as a list."""
        kept = self._gamma
        if kept is None or kept[0] is not factors:
            row = [gamma_of(factors, row.action.family) for row in self.rows]
            kept = self._gamma = (factors, self._np.array(row), row)
        return kept[1:]

    def _usual(
        self, made: Sequence[tuple[int, Candidate | None]], seen: _Expected, sizing: Sizing
    ) -> Candidate | None:
        """Return the baseline as a candidate; it is one already where it is among the best."""
        count = len(self.eligible)
        if count == len(self.rows):
            return None
        for i, candidate in made:
            if i == self._twin:
                return candidate
        return self._candidate(count, seen, sizing)

    def curve(self, prompt_type: str, tokens: float) -> tuple[tuple[str, float, float], ...]:
        """Return (family, dollars at γ = 1, value·R) of each row for prompts of a type and size."""
        sizing = Sizing(InputSize(round(tokens), 0), 0.0, 0)
        _, gain, cost = self._expect(((prompt_type, 1.0),), sizing)
        families = [row.action.family for row in self.eligible]
        return tuple(zip(families, cost.tolist(), gain.tolist(), strict=False))

    def _reprice(
        self,
        cost: Any,  # noqa: ANN401 - an array
        inputs: Any,  # noqa: ANN401 - an array
        output: Any,  # noqa: ANN401 - an array
        weights: Sequence[tuple[str, float]],
        sizing: Sizing,
    ) -> None:
        """Price the rows again whose cost is no line in the tokens."""
        for i in self._odd:
            row = self.rows[i]
            cost[i] = row.cost(
                input_tokens=float(inputs[i]),
                output_tokens=float(output[i]),
                seconds=_seconds(row, weights, sizing) if row.second_usd else 0.0,
                at=sizing.at,
            )

    def _candidate(self, i: int, seen: _Expected, sizing: Sizing) -> Candidate | None:
        row = self.rows[i]
        worst = declared = _worst(row, sizing)
        if declared is None or worst is None:
            return None
        raised = raised_by(row.action, sizing) if sizing.raised else ""
        if raised:
            worst = max(declared, _raised_worst(row, sizing) or 0)
        reward, gain = seen.reward[i], seen.gain[i]
        known = not math.isnan(reward)
        return Candidate(
            action=row.action,
            reward=reward if known else None,
            cost=seen.cost[i],
            worst=worst,
            value=gain / reward if known and reward > 0 else 1.0,
            source=self._sources[i],
            gamma=seen.gamma[i],
            declared=declared if raised else None,
            raised=raised,
        )

    def _shown(self, i: int, seen: _Expected, price: float) -> Mapping[str, Any]:
        reward = seen.reward[i]
        return {
            "action": self._labels[i],
            "R": None if math.isnan(reward) else reward,
            "C": seen.cost[i],
            "surplus": (0.0 if math.isnan(reward) else seen.gain[i]) - price * seen.cost[i],
            "source": self._sources[i],
        }


def _place_of(action: Action, rows: Sequence[Row]) -> int | None:
    return next((i for i, row in enumerate(rows) if row.action == action), None)


def _worst(row: Row, sizing: Sizing) -> Pico | None:
    return row.worst(
        sizing.size,
        overhead=sizing.overhead_bound,
        calls=sizing.calls,
        terms=sizing.terms,
    )


def _raised_worst(row: Row, sizing: Sizing) -> Pico | None:
    """Return what is held where reports crossed a declared bound of the action lately."""
    action, raised = row.action, sizing.raised
    worst = row.worst(
        sizing.size,
        overhead=sizing.overhead_bound,
        calls=sizing.calls + sizing.more_calls,
        terms=sizing.terms,
        beyond=raised.beyond.get(action.family, 0),
    )
    return None if worst is None else math.ceil(worst * raised.dearer.get(action.model, 1.0))


def raised_by(action: Action, sizing: Sizing) -> str:
    """Say in words why more than the declared worst case of an action is held; "" = it is not."""
    beyond = sizing.raised.beyond.get(action.family, 0)
    dearer = sizing.raised.dearer.get(action.model, 1.0)
    parts = [
        f"{beyond:,} output tokens beyond the cap" if beyond else "",
        f"a price ×{dearer:.3g}" if dearer > 1 else "",
        f"{sizing.more_calls} more responses" if sizing.more_calls else "",
    ]
    return ", ".join(part for part in parts if part)


def _seconds(row: Row, weights: Sequence[tuple[str, float]], sizing: Sizing) -> float:
    """Return the engine time to expect; without a curve that of the cap, at last the timeout."""
    known = [
        (row.seconds(row.cells[name]), weight) for name, weight in weights if name in row.cells
    ]
    total = sum(weight for seconds, weight in known if seconds is not None)
    if total > 0:
        return sum(seconds * weight for seconds, weight in known if seconds is not None) / total
    speed = row.facts.price.tokens_per_second
    if speed is not None:
        return row.action.max_tokens * row.action.n / speed
    return sizing.terms.seconds or 0.0


def _source(row: Row) -> CellSource:
    sources = {cell.source for cell in row.cells.values()}
    return next((s for s in _CERTAINTY if s in sources), "prior")


def _shortened(steps: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Keep the best steps and, always, the one that holds least."""
    return steps if len(steps) <= _STEPS else (*steps[: _STEPS - 1], steps[-1])
