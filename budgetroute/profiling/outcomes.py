"""From graded answers to cells: what every cap would have paid and earned.

One run without a tight cap yields every smaller cap (design: the model does not see its cap):
R(m) = mean(score · [answer complete by m]) and tokens(m) = mean min(length, m). That holds only
where the cap is a hard cut: not for hidden reasoning, and not where a half answer has some value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from budgetroute.records import Cell

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID = 400
"""Points that stand for a length distribution: enough for a 99th percentile."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One graded answer.

    Attributes:
        prompt: id of the prompt; several samples of one prompt are not independent.
        score: quality in [0, 1].
        output_tokens: billable output tokens of the whole answer.
        complete_tokens: length of the prefix that already holds the scored answer; None when the
            score is for the whole only, so that any cut loses it.
    """

    prompt: str
    score: float
    output_tokens: float
    complete_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """What one way of answering does at every cap, measured or estimated.

    Attributes:
        reward: mean score without a cap.
        reward_se: its standard error.
        lengths: (output tokens, probability), ascending.
        completes: (tokens by which the answer is complete, share of the reward), ascending.
        n: graded answers behind it; 0 for an estimate.
    """

    reward: float
    reward_se: float
    lengths: tuple[tuple[float, float], ...]
    completes: tuple[tuple[float, float], ...]
    n: int

    def reward_at(self, cap: float) -> float:
        """Return the mean score when every answer is cut after `cap` tokens."""
        return self.reward * math.fsum(share for tokens, share in self.completes if tokens <= cap)

    def tokens_at(self, cap: float) -> float:
        """Return the mean billed output tokens under the cap."""
        return math.fsum(min(tokens, cap) * chance for tokens, chance in self.lengths)

    def cut_at(self, cap: float) -> float:
        """Return the share of answers longer than the cap."""
        return math.fsum(chance for tokens, chance in self.lengths if tokens > cap)


def measured(answers: Sequence[Answer]) -> Curve:
    """Return the curve of graded answers; the standard error counts prompts, not samples.

    Raises:
        ValueError: there is no answer.

    >>> curve = measured([Answer("a", 1.0, 80, 60), Answer("b", 0.0, 300, 290)])
    >>> curve.reward, curve.reward_at(64), curve.reward_at(32), curve.tokens_at(100)
    (0.5, 0.5, 0.0, 90.0)
    """
    if not answers:
        raise ValueError("a curve needs at least one graded answer")
    total = math.fsum(answer.score for answer in answers)
    earned = [
        (_complete(answer), answer.score / total) for answer in answers if answer.score > 0 < total
    ]
    return Curve(
        reward=total / len(answers),
        reward_se=clustered_error(answers),
        lengths=_even(sorted(float(answer.output_tokens) for answer in answers)),
        completes=tuple(sorted(earned)),
        n=len(answers),
    )


def _even(ordered: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((value, 1 / len(ordered)) for value in ordered)


def _complete(answer: Answer) -> float:
    known = answer.complete_tokens
    return float(answer.output_tokens if known is None else known)


def clustered_error(answers: Sequence[Answer]) -> float:
    """Return the standard error of the mean score, prompts as the independent units.

    A score that never varies keeps the error of one answer in a hundred (`VARIANCE_FLOOR`'s
    spirit): 5 of 5 right is not certain.
    """
    ordered = sorted(answers, key=attrgetter("prompt"))
    groups = [list(group) for _, group in groupby(ordered, key=attrgetter("prompt"))]
    mean = math.fsum(answer.score for answer in answers) / len(answers)
    squares = math.fsum(math.fsum(a.score - mean for a in group) ** 2 for group in groups)
    floor = 0.01 / math.sqrt(len(groups))
    return max(floor, math.sqrt(squares) / len(answers))


@dataclass(frozen=True, slots=True)
class Shape:
    """How lengths spread around their mean, whatever the mean: ratios, ascending.

    Attributes:
        lengths: output tokens over their mean.
        completes: tokens to the complete answer over mean output tokens, of scored answers.
    """

    lengths: tuple[float, ...]
    completes: tuple[float, ...]


def shape_of(groups: Sequence[Sequence[Answer]]) -> Shape:
    """Return the shape that several models' answers to one task share, each model alike.

    Raises:
        ValueError: no group has a scored answer of some length.
    """
    lengths: list[float] = []
    completes: list[float] = []
    for group in groups:
        mean = math.fsum(answer.output_tokens for answer in group) / max(1, len(group))
        scored = sorted(_complete(answer) / mean for answer in group if mean and answer.score > 0)
        if scored:
            lengths += _grid(sorted(answer.output_tokens / mean for answer in group))
            completes += _grid(scored)
    if not lengths:
        raise ValueError("a shape needs at least one scored answer that is not empty")
    return Shape(_grid(sorted(lengths)), _grid(sorted(completes)))


def _grid(ordered: Sequence[float]) -> tuple[float, ...]:
    return tuple(ordered[int((i + 0.5) / GRID * len(ordered))] for i in range(GRID))


def estimated(shape: Shape, *, reward: float, reward_se: float, mean_tokens: float) -> Curve:
    """Return the curve of a reward and a mean length that were predicted, not measured."""
    scale = mean_tokens * len(shape.lengths) / math.fsum(shape.lengths)
    return Curve(
        reward=reward,
        reward_se=reward_se,
        lengths=_even([ratio * scale for ratio in shape.lengths]),
        completes=_even([ratio * scale for ratio in shape.completes]),
        n=0,
    )


def with_tail(curve: Curve, tail: Curve, *, share: float) -> Curve:
    """Return the curve where a share of the answers comes out like another curve's.

    What was never seen in n answers is not impossible: half an answer in n + 1 (Jeffreys) is the
    share to give to longer answers than any that was seen.
    """
    kept, lost = (1 - share) * curve.reward, share * tail.reward
    reward = kept + lost
    worth = ((curve.completes, kept / reward), (tail.completes, lost / reward)) if reward else ()
    return replace(
        curve,
        reward=reward,
        lengths=_merged((curve.lengths, 1 - share), (tail.lengths, share)),
        completes=_merged(*worth),
    )


def _merged(
    *parts: tuple[Sequence[tuple[float, float]], float],
) -> tuple[tuple[float, float], ...]:
    return tuple(sorted((value, mass * weight) for rows, weight in parts for value, mass in rows))


Weighted = tuple[float, Curve]


def cell_at(parts: Sequence[Weighted], cap: int, *, input_factor: float, basis: str) -> Cell:
    """Return the cell of a weighted mixture of curves (a type's tasks) under one cap.

    It is `measured` when at least half of the weight is, else `pooled` with n = 0.

    Args:
        parts: (weight, curve); the weights sum to 1.
        cap: max_tokens.
        input_factor: input tokens sent over the prompt's own.
        basis: whose tokens the lengths are, `provider` or `o200k`.
    """
    by_length = sorted(
        (min(length, cap), weight * chance)
        for weight, curve in parts
        for length, chance in curve.lengths
    )
    mostly = sum(weight for weight, curve in parts if curve.n) >= 0.5 - 1e-9
    variance = math.fsum((weight * curve.reward_se) ** 2 for weight, curve in parts)
    return Cell(
        n=sum(curve.n for _, curve in parts) if mostly else 0,
        reward=math.fsum(weight * curve.reward_at(cap) for weight, curve in parts),
        reward_se=math.sqrt(variance),
        output_mean=math.fsum(weight * curve.tokens_at(cap) for weight, curve in parts),
        output_p95=weighted_quantile(by_length, 0.95),
        output_p99=weighted_quantile(by_length, 0.99),
        cut=max(0.0, math.fsum(weight * curve.cut_at(cap) for weight, curve in parts)),
        input_factor=input_factor,
        token_basis=basis,
        source="measured" if mostly else "pooled",
    )


def weighted_quantile(ordered: Sequence[tuple[float, float]], share: float) -> float:
    """Return the least value with at least `share` of the weight at or below it.

    >>> weighted_quantile([(1.0, 0.5), (2.0, 0.3), (9.0, 0.2)], 0.8)
    2.0
    """
    total, reached = math.fsum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= share * total * (1 - 1e-9):
            return value
    return ordered[-1][0]


def with_reward(curve: Curve, reward: float, *, reward_se: float | None = None) -> Curve:
    """Return the curve with another mean score, its lengths as they were."""
    return replace(
        curve, reward=reward, reward_se=curve.reward_se if reward_se is None else reward_se
    )
