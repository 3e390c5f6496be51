"""Outcomes as evidence: curves by task and way, pooled where too little was seen."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from budgetroute.profiling.fit import pulled
from budgetroute.profiling.outcomes import (
    Answer,
    cell_at,
    estimated,
    measured,
    shape_of,
    weighted_quantile,
)
from budgetroute.profiling.pooling import Observation, fit_effects, fit_lengths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from budgetroute.profiling.columns import Outcome, Way
    from budgetroute.profiling.outcomes import Curve, Weighted
    from budgetroute.profiling.pooling import Effects, Lengths, Prediction
    from budgetroute.records import Action, Cell

CAP_GRID = tuple(64 * 4**step for step in range(9))
"""Caps replayed from uncapped runs unless others are asked for: 64, 256, 1024, …, 4,194,304."""
POOLED_TASKS = 3
POOLED_WAYS = 3
"""Fewer than three tasks or ways tell nothing of effects: then every cell stands for itself."""
INSTRUCTION_TOKENS = 14
"""Tokens of the chain-of-thought instruction that an action with cot adds to the prompt."""
UNCUT_SHARE = 0.99


class Spot(NamedTuple):
    """A task of a type, answered one way."""

    type: str
    task: str
    way: Way


class Answers:
    """A table's evidence.

    Args:
        rows: outcomes, every one with output tokens.
        caps: caps to replay from uncapped runs; none = `CAP_GRID` up to the longest answer.
    """

    def __init__(self, rows: Sequence[Outcome], caps: Sequence[int] = ()) -> None:
        self.rows = rows
        self.grid = tuple(sorted(caps)) or CAP_GRID
        self.spots: dict[Spot, list[Outcome]] = defaultdict(list)
        for row in rows:
            self.spots[Spot(row.type, row.task, row.way)].append(row)
        self.ways = tuple(sorted({spot.way for spot in self.spots}, key=_order))
        self.hidden = frozenset(row.way for row in rows if row.is_hidden)
        self.by_way: dict[Way, list[Outcome]] = defaultdict(list)
        for row in rows:
            self.by_way[row.way].append(row)
        self._curves: dict[tuple[Spot, int], Curve | None] = {}

    @cached_property
    def tasks(self) -> dict[str, dict[str, float]]:
        """Type → task → its weight: its share of the type's prompts."""
        prompts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for row in self.rows:
            prompts[row.type][row.task].add(row.prompt)
        return {
            kind: {
                task: len(names) / sum(map(len, tasks.values()))
                for task, names in sorted(tasks.items())
            }
            for kind, tasks in sorted(prompts.items())
        }

    @cached_property
    def prompts(self) -> dict[str, int]:
        """Type → distinct prompts."""
        return {
            kind: len({row.prompt for row in self.rows if row.type == kind}) for kind in self.tasks
        }

    @cached_property
    def inputs(self) -> dict[str, float]:
        """Type → mean input tokens of a bare prompt: without cot where that was asked."""
        return {kind: self._input(kind) for kind in self.tasks}

    def _input(self, kind: str) -> float:
        own = [row for row in self.rows if row.type == kind and row.input_tokens is not None]
        bare = [row for row in own if not row.way.cot] or own
        return _mean([row.input_tokens or 0.0 for row in bare]) if bare else 0.0

    def actions(self) -> tuple[Action, ...]:
        """Return every action that there is a cell for."""
        return tuple(way.at(cap) for way in self.ways for cap in self.caps[way])

    @cached_property
    def caps(self) -> dict[Way, list[int]]:
        """Way → its caps."""
        return {way: self._caps(way) for way in self.ways}

    def _caps(self, way: Way) -> list[int]:
        """Return a way's caps: those that were sent and, where a cap only cuts, those replayed."""
        own = self.by_way[way]
        sent = {row.cap for row in own if row.cap is not None}
        free = [row.output_tokens or 0.0 for row in own if row.cap is None]
        if way in self.hidden:
            return sorted(sent | ({self._as_run[way]} if free else set()))
        above = [cap for cap in self.grid if cap >= max(free, default=0.0)]
        longest = max([*sent, *(above[:1] if free else ())], default=max(self.grid))
        return sorted(sent | {cap for cap in self.grid if cap <= longest})

    def usable(self, spot: Spot, cap: int) -> list[Outcome]:
        """Return the answers that tell what a cap would do.

        Where it only cuts: those that were sent a larger one, or a smaller one that cut none of
        them (leaving out only what was cut would favour short answers). Where tokens are spent out
        of sight: those that were sent this very cap, or none.
        """
        rows = self.spots.get(spot, [])
        if spot.way in self.hidden:
            return [row for row in rows if (row.cap or self._as_run[spot.way]) == cap]
        cutting = {row.cap for row in rows if row.cap and (row.output_tokens or 0.0) >= row.cap}
        return [row for row in rows if not row.cap or row.cap >= cap or row.cap not in cutting]

    @cached_property
    def _as_run(self) -> dict[Way, int]:
        """Hidden way → the cap that stands for none: room for the longest answer."""
        return {
            way: _room(max((r.output_tokens or 0.0 for r in self.by_way[way]), default=1.0))
            for way in self.hidden
        }

    @cached_property
    def observations(self) -> tuple[Observation, ...]:
        """Mean rewards by task and way; where tokens are hidden, by cap too."""
        made = []
        for spot in sorted(self.spots, key=lambda s: (s.type, s.task, _order(s.way))):
            for cap in self._levels(spot.way):
                rows = self.usable(spot, cap)
                if rows:
                    mean = _mean([row.reward for row in rows])
                    n = len({row.prompt for row in rows})
                    made.append(Observation(_task(spot), self._model(spot.way, cap), mean, n))
        return tuple(made)

    def _levels(self, way: Way) -> list[int]:
        caps = self.caps[way]
        return caps if way in self.hidden else caps[-1:]

    def _model(self, way: Way, cap: int) -> str:
        return way.at(cap).label if way in self.hidden else way.label

    @cached_property
    def effects(self) -> Effects | None:
        """Task and way effects; None with too few of either."""
        seen = self.observations
        tasks, models = {row.task for row in seen}, {row.model for row in seen}
        if len(tasks) < POOLED_TASKS or len(models) < POOLED_WAYS:
            return None
        return fit_effects(seen)

    @cached_property
    def lengths(self) -> Lengths:
        """Answer lengths by task and way."""
        means = {
            (f"{spot.type}/{spot.task}", spot.way.label): _mean(
                [row.output_tokens or 0.0 for row in rows]
            )
            for spot, rows in self.spots.items()
        }
        return fit_lengths({key: mean for key, mean in means.items() if mean > 0})

    @cached_property
    def frontier(self) -> dict[str, float]:
        """Best measured mean reward of each task."""
        best: dict[str, float] = defaultdict(float)
        for row in self.observations:
            best[row.task] = max(best[row.task], row.mean)
        return dict(best)

    def _prediction(self, spot: Spot, cap: int) -> Prediction | None:
        effects, task = self.effects, _task(spot)
        model = self._model(spot.way, cap)
        if effects is None or task not in effects.level or model not in effects.ability:
            return None
        return effects.predict(task, model).tempered(self.frontier[task])

    def curve(self, spot: Spot, cap: int) -> Curve | None:
        """Return what a way does on a task under a cap: measured, pulled to its prediction, or that."""
        key = spot, cap
        if key not in self._curves:
            self._curves[key] = self._fitted(spot, cap)
        return self._curves[key]

    def _fitted(self, spot: Spot, cap: int) -> Curve | None:
        rows, prediction = self.usable(spot, cap), self._prediction(spot, cap)
        if rows:
            seen = measured([_answer(row) for row in rows])
            if prediction is None or self.effects is None:
                return seen
            return pulled(seen, prediction, scatter=self.effects.scatter)
        donors = self._donors(spot)
        if prediction is None or not donors:
            return None
        return estimated(
            shape_of(donors),
            reward=prediction.reward,
            reward_se=prediction.reward_se,
            mean_tokens=self.lengths.predict(f"{spot.type}/{spot.task}", spot.way.label),
        )

    def _donors(self, spot: Spot) -> list[list[Answer]]:
        """Return others' scored answers to the task, of those who think alike if there are any."""
        same = [
            (other.way.cot == spot.way.cot, [_answer(row) for row in rows])
            for other, rows in self.spots.items()
            if (other.type, other.task) == (spot.type, spot.task)
            and any(row.reward > 0 and row.output_tokens for row in rows)
        ]
        alike = [answers for is_alike, answers in same if is_alike]
        return alike or [answers for _, answers in same]

    def parts(self, kind: str, action: Action) -> list[Weighted]:
        """Return the weighted curves of a type's tasks; empty unless all are known."""
        way = _way(action, self.ways)
        curves = [
            (weight, self.curve(Spot(kind, task, way), action.max_tokens))
            for task, weight in self.tasks[kind].items()
        ]
        known = [(weight, curve) for weight, curve in curves if curve is not None]
        return known if len(known) == len(curves) else []

    def cell(self, kind: str, action: Action) -> Cell | None:
        """Return the cell of a type and an action."""
        parts = self.parts(kind, action)
        if not parts:
            return None
        way, cap = _way(action, self.ways), action.max_tokens
        rows = [row for task in self.tasks[kind] for row in self.usable(Spot(kind, task, way), cap)]
        cell = cell_at(
            parts, cap * action.n, input_factor=self._factor(kind, way), basis=self._basis(way)
        )
        mean, p95 = _latency(rows, cap)
        return replace(cell, latency_mean=mean, latency_p95=p95)

    def _basis(self, way: Way) -> str:
        known = {row.basis for row in self.by_way[way]}
        return "o200k" if "o200k" in known else "provider"

    def _factor(self, kind: str, way: Way) -> float:
        """Return input tokens sent over the bare prompt's: what the router's instruction adds."""
        tokens = self.inputs[kind]
        return 1 + INSTRUCTION_TOKENS / tokens if way.cot and tokens > 0 else 1.0

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know of how the cells came about."""
        if self.effects is None:
            yield (
                f"Nothing was pooled over types: that takes {POOLED_TASKS} types or tasks and "
                f"{POOLED_WAYS} ways of answering."
            )
        for kind in self.tasks:
            yield from self._on_pairs(kind)
        for way in self.ways:
            if way in self.hidden:
                yield f"{way.label}: tokens are spent out of sight or in several choices; caps as run."

    def _on_pairs(self, kind: str) -> Iterator[str]:
        asked: dict[Way, set[str]] = defaultdict(set)
        for row in self.rows:
            if row.type == kind:
                asked[row.way].add(row.prompt)
        shared = set.intersection(*asked.values())
        union = set.union(*asked.values())
        if len(shared) < 0.8 * len(union):
            yield (
                f"{kind}: only {len(shared)} of {len(union)} prompts were answered every way; "
                "differences are partly those of the prompts."
            )


def _order(way: Way) -> tuple[str, bool, str, float, int]:
    temperature = -1.0 if way.temperature is None else way.temperature
    return way.model, way.cot, way.effort or "", temperature, way.n


def _task(spot: Spot) -> str:
    return f"{spot.type}/{spot.task}"


def _way(action: Action, ways: Sequence[Way]) -> Way:
    return next(way for way in ways if way.at(action.max_tokens) == action)


def _room(tokens: float) -> int:
    """Return the power of two that holds an answer of so many tokens."""
    return 1 << math.ceil(math.log2(max(tokens, 1.0)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _answer(row: Outcome) -> Answer:
    """Return a row as an answer; hidden tokens cannot be cut, so it is complete at once."""
    complete = 0.0 if row.is_hidden else row.complete_tokens
    return Answer(row.prompt, row.reward, row.output_tokens or 0.0, complete)


def _latency(rows: Sequence[Outcome], cap: int) -> tuple[float | None, float | None]:
    """Return mean and p95 seconds, where the rows ran as they would under this cap."""
    timed = sorted(
        row.latency_s
        for row in rows
        if row.latency_s is not None and (row.cap == cap or (row.output_tokens or 0.0) <= cap)
    )
    if not timed or len(timed) < UNCUT_SHARE * len(rows):
        return None, None
    return _mean(timed), weighted_quantile([(value, 1.0) for value in timed], 0.95)


def counts_of(rows: Sequence[Outcome]) -> Mapping[str, Mapping[str, int]]:
    """Return type → way → graded answers."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in sorted(rows, key=lambda row: (row.type, _order(row.way))):
        counts[row.type][row.way.label] += 1
    return {kind: dict(ways) for kind, ways in counts.items()}
