"""Effects that fill what nobody measured: how hard a task is, how able a model is.

On the logit scale, score(task, model) ≈ level_t + slope_t · ability_m (a two-parameter item
response model with one slope per task, shrunk to 1), fitted by alternating ridge regressions. A
judge's compressed scale gets a small slope, so that it cannot exaggerate a model's ability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

ABILITY_VARIANCE = 1.0
"""Prior: models differ by about one logit."""
SLOPE_VARIANCE = 0.09
"""Prior: slopes lie within 0.4 to 1.6."""
ROUNDS = 300
SETTLED = 1e-7
LENGTH_RIDGE = 0.01
LENGTH_ROUNDS = 3000
LEAST_SCATTER = 0.01
FREE_SHARE = 1 / 3
"""Least share of the observations that no parameter takes up: in a small matrix priors hold most."""
HIGHEST = 0.995


class Observation(NamedTuple):
    """A model's mean score on a task over n independent prompts."""

    task: str
    model: str
    mean: float
    n: float


class Prediction(NamedTuple):
    """A predicted mean score, its standard error and its logit."""

    reward: float
    reward_se: float
    logit: float

    def tempered(self, best: float) -> Prediction:
        """Return the prediction with half of what exceeds the best measured score, in logits.

        Beyond what any model was seen to reach, effects are extrapolated, and promises of that
        kind are the ones an optimiser would pick.
        """
        top = logit(min(best, HIGHEST))
        if self.logit <= top:
            return self
        value = (self.logit + top) / 2
        return Prediction(sigmoid(value), self.reward_se, value)


def logit(share: float) -> float:
    """Return log(p / (1 − p)).

    >>> logit(0.5)
    0.0
    """
    return math.log(share / (1 - share))


def sigmoid(value: float) -> float:
    """Return the share whose logit this is.

    >>> sigmoid(0.0)
    0.5
    """
    return 0.5 * (1 + math.tanh(value / 2))


@dataclass(frozen=True, slots=True)
class Effects:
    """Fitted effects.

    Attributes:
        level: task → logit of an average model's score.
        slope: task → how strongly ability shows in it.
        ability: model → logits above the average model.
        doubt: model → variance of its ability.
        unsure: task → variance of its level.
        scatter: τ², what task and model together do beyond both effects.
    """

    level: Mapping[str, float]
    slope: Mapping[str, float]
    ability: Mapping[str, float]
    doubt: Mapping[str, float]
    unsure: Mapping[str, float]
    scatter: float

    def predict(self, task: str, model: str) -> Prediction:
        """Return the score expected of a model on a task; KeyError when either is new."""
        value = self.level[task] + self.slope[task] * self.ability[model]
        variance = self.scatter + self.unsure[task] + self.slope[task] ** 2 * self.doubt[model]
        reward = sigmoid(value)
        return Prediction(reward, reward * (1 - reward) * math.sqrt(variance), value)


class _Row(NamedTuple):
    task: str
    model: str
    value: float
    variance: float


def fit_effects(observations: Sequence[Observation]) -> Effects:
    """Fit levels, slopes and abilities; deterministic, pure Python.

    Raises:
        ValueError: there is no observation.
    """
    rows = [_row(observation) for observation in observations]
    if not rows:
        raise ValueError("effects need at least one observation")
    by_task, by_model = _index(rows, lambda row: row.task), _index(rows, lambda row: row.model)
    level = dict.fromkeys(by_task, 0.0)
    slope = dict.fromkeys(by_task, 1.0)
    ability = dict.fromkeys(by_model, 0.0)
    scatter = 0.1
    for _ in range(ROUNDS):
        for task, group in by_task.items():
            level[task], slope[task] = _task(group, ability, scatter=scatter)
        before = dict(ability)
        for model, group in by_model.items():
            ability[model] = _ability(group, level, slope=slope, scatter=scatter)[0]
        expected = {row: level[row.task] + slope[row.task] * ability[row.model] for row in rows}
        fitted = 2 * len(level) + len(ability)
        scatter = _scatter(rows, expected, scatter=scatter, fitted=fitted)
        if max(abs(ability[model] - before[model]) for model in ability) < SETTLED:
            break
    return Effects(
        level=level,
        slope=slope,
        ability=ability,
        doubt={m: _ability(g, level, slope=slope, scatter=scatter)[1] for m, g in by_model.items()},
        unsure={t: 1 / sum(1 / (r.variance + scatter) for r in g) for t, g in by_task.items()},
        scatter=scatter,
    )


def _row(seen: Observation) -> _Row:
    """Return the empirical logit and its sampling variance; half an answer is added each way."""
    share = (seen.mean * seen.n + 0.5) / (seen.n + 1)
    return _Row(seen.task, seen.model, logit(share), 1 / (seen.n * share * (1 - share)))


def _index(rows: Sequence[_Row], key: Callable[[_Row], str]) -> dict[str, list[_Row]]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def _task(
    group: Sequence[_Row], ability: Mapping[str, float], *, scatter: float
) -> tuple[float, float]:
    """Return level and slope of one task; the slope is pulled to 1 by its prior."""
    weights = [1 / (row.variance + scatter) for row in group]
    total = math.fsum(weights)
    rows = list(zip(weights, group, strict=True))
    mid_x = math.fsum(w * ability[row.model] for w, row in rows) / total
    mid_y = math.fsum(w * row.value for w, row in rows) / total
    spread = math.fsum(w * (ability[row.model] - mid_x) ** 2 for w, row in rows)
    joint = math.fsum(w * (ability[row.model] - mid_x) * (row.value - mid_y) for w, row in rows)
    slope = (joint + 1 / SLOPE_VARIANCE) / (spread + 1 / SLOPE_VARIANCE)
    return mid_y - slope * mid_x, slope


def _ability(
    group: Sequence[_Row],
    level: Mapping[str, float],
    *,
    slope: Mapping[str, float],
    scatter: float,
) -> tuple[float, float]:
    """Return a model's ability and its variance; without data it would be 0, an average model."""
    precision, pull = 1 / ABILITY_VARIANCE, 0.0
    for row in group:
        weight = slope[row.task] / (row.variance + scatter)
        precision += weight * slope[row.task]
        pull += weight * (row.value - level[row.task])
    return pull / precision, 1 / precision


def _scatter(
    rows: Sequence[_Row],
    effects: Mapping[_Row, float],
    *,
    scatter: float,
    fitted: int,
) -> float:
    """Return the next τ², such that residuals are as large as they should be (Paule and Mandel)."""
    square = math.fsum((row.value - effects[row]) ** 2 / (row.variance + scatter) for row in rows)
    free = max(len(rows) - fitted, len(rows) * FREE_SHARE)
    return max(LEAST_SCATTER, scatter * square / free)


def held_out_error(
    observations: Sequence[Observation], models: Collection[str], *, folds: int = 10
) -> float:
    """Return the root mean square error of predicting `models`' means from the other folds.

    Observations that alone carry their task or their model are not predictable and do not count.

    Raises:
        ValueError: nothing could be left out.
    """
    errors = []
    for fold in range(folds):
        rest = [seen for i, seen in enumerate(observations) if i % folds != fold]
        fitted = fit_effects(rest)
        errors += [
            fitted.predict(seen.task, seen.model).reward - seen.mean
            for seen in observations[fold::folds]
            if seen.model in models and seen.model in fitted.ability and seen.task in fitted.level
        ]
    if not errors:
        raise ValueError(f"no observation of {sorted(models)} can be predicted from the others")
    return math.sqrt(math.fsum(error**2 for error in errors) / len(errors))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Answer lengths: log tokens(task, model) ≈ level_t + verbosity_m.

    Attributes:
        level: task → log tokens of an average model.
        verbosity: model → log of how much longer its answers are.
    """

    level: Mapping[str, float]
    verbosity: Mapping[str, float]

    def predict(self, task: str, model: str) -> float:
        """Return expected output tokens; a model never measured is an average one."""
        return math.exp(self.level[task] + self.verbosity.get(model, 0.0))


def fit_lengths(means: Mapping[tuple[str, str], float]) -> Lengths:
    """Fit log mean output tokens by (task, model), verbosity lightly shrunk.

    Models seen on one task only tell nothing of how tasks differ and are left out of the levels.
    """
    logs = {key: math.log(mean) for key, mean in sorted(means.items())}
    by_task, by_model = _keys(logs, 0), _keys(logs, 1)
    linked = {model for model, keys in by_model.items() if len(keys) > 1} or set(by_model)
    level, verbosity = dict.fromkeys(by_task, 0.0), dict.fromkeys(by_model, 0.0)
    for _ in range(LENGTH_ROUNDS):
        for task, keys in by_task.items():
            left = [logs[k] - verbosity[k[1]] for k in keys if k[1] in linked]
            left = left or [logs[k] for k in keys]
            level[task] = math.fsum(left) / len(left)
        for model, keys in by_model.items():
            left = [logs[k] - level[k[0]] for k in keys]
            verbosity[model] = math.fsum(left) / (len(left) + LENGTH_RIDGE)
    return Lengths(level, verbosity)


def _keys(logs: Mapping[tuple[str, str], float], part: int) -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for key in logs:
        groups.setdefault(key[part], []).append(key)
    return groups
