"""A model as judge: a score by rubric, or a comparison with the reference in both orders.

Its calls go through the backend that it is given, which is where a budget can hold them; what they
were billed is in each grade. An unknown bill is None, never 0.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.billing import bill
from budgetroute.errors import BudgetRouteError, ConfigError, UnpricedModel
from budgetroute.graders.panel import costs
from budgetroute.graders.verdicts import (
    PAIR,
    RUBRIC,
    pairwise_prompt,
    read_score,
    read_side,
    rubric_prompt,
)
from budgetroute.records import Grade, Pick, Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.graders.verdicts import Side
    from budgetroute.protocols import ChatBackend, PriceSource
    from budgetroute.records import Response, Usage
    from budgetroute.units import Pico

__all__ = ["Bench", "JudgeVerifier", "PairwiseJudge", "RubricJudge"]

_POINTS: dict[Side, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}


@dataclass(frozen=True, slots=True)
class Bench:
    """What a judge needs of the world.

    Attributes:
        backend: sends the calls.
        usage: what a response reports (`backends.usage.read_usage`); None = it does not say.
        prices: what they cost.
        seconds: a running clock, for engines paid by time.
    """

    backend: ChatBackend
    usage: Callable[[object], Usage | None]
    prices: PriceSource
    seconds: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    problem: str
    cost: Pico | None


class _Judge:
    """One model, asked one question at a time."""

    def __init__(
        self, model: str, bench: Bench, *, max_tokens: int, price_as: str | None = None
    ) -> None:
        self.model = model
        self.bench = bench
        self.max_tokens = max_tokens
        self.price_is_said = price_as is not None
        self.price = bench.prices.price(price_as or model)
        card = bench.prices.card(price_as or model)
        self.sampling: dict[str, Any] = (
            {} if card.supports.get("sampling") is False else {"temperature": 0}
        )

    def ask(self, message: str) -> _Said:
        """Return what the judge said and what it cost; only our own errors are raised."""
        started = self.bench.seconds()
        try:
            response = self.bench.backend.complete(
                model=self.model,
                messages=[{"role": "user", "content": message}],
                max_tokens=self.max_tokens,
                **self.sampling,
            )
        except BudgetRouteError:
            raise
        except Exception as err:  # noqa: BLE001 - backends raise anything; the grade must say that a bill may be missing
            return _Said("", f"the judge's call failed: {type(err).__name__}", None)
        return self._heard(response, self.bench.seconds() - started)

    def _heard(self, response: object, seconds: float) -> _Said:
        usage = self.bench.usage(response)
        cost = None if usage is None else self._billed(usage, seconds)
        text = _text_of(response)
        cut = usage is not None and usage.finish_reason == "length"
        problem = (
            f"the judge was cut at {self.max_tokens} tokens" if cut else "the judge gave no verdict"
        )
        return _Said(text, problem, cost)

    def _billed(self, usage: Usage, seconds: float) -> Pico:
        """Return the bill; another model that answered is billed at its price if that is higher."""
        planned = bill(self.price, usage, seconds=seconds)
        if self.price_is_said or usage.model in {None, self.model}:
            return planned
        try:
            other = self.bench.prices.price(str(usage.model))
        except UnpricedModel:
            return planned
        return max(planned, bill(other, usage, seconds=seconds))


class RubricJudge:
    """A model gives 1 to 10 points by a rubric; the reward is (points − 1)/9.

    It sees the prompt, the response, and the reference's answers where there are any.

    Args:
        model: name that the backend takes.
        bench: backend, usage reader and prices.
        rubric: what earns points; None = correct, complete and to the point.
        max_tokens: cap of one verdict.
        price_as: key of its price; None = its name.

    Raises:
        UnpricedModel: its price is not known.
    """

    def __init__(
        self,
        model: str,
        bench: Bench,
        *,
        rubric: str | None = None,
        max_tokens: int = 1024,
        price_as: str | None = None,
    ) -> None:
        self.rubric = RUBRIC if rubric is None else rubric
        self._judge = _Judge(model, bench, max_tokens=max_tokens, price_as=price_as)

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return the grade with the judge's cost; blocks for one call."""
        message = rubric_prompt(
            reference.prompt, response.text or "", reference.answers, rubric=self.rubric
        )
        said = self._judge.ask(message)
        points = read_score(said.text)
        if points is None:
            return Grade(None, said.problem, cost=said.cost)
        return Grade((points - 1) / 9, f"{points:g} of 10 from {self._judge.model}", cost=said.cost)


class PairwiseJudge:
    """A model compares the response with the reference's first answer, once in each order.

    Win 1, tie ½, loss 0, the mean of both orders: a judge that always takes the first gives ½.

    Args:
        model: name that the backend takes.
        bench: backend, usage reader and prices.
        rubric: by what to compare; None = correct, complete and to the point.
        max_tokens: cap of one verdict.
        price_as: key of its price; None = its name.

    Raises:
        UnpricedModel: its price is not known.
    """

    def __init__(
        self,
        model: str,
        bench: Bench,
        *,
        rubric: str | None = None,
        max_tokens: int = 1024,
        price_as: str | None = None,
    ) -> None:
        self.rubric = PAIR if rubric is None else rubric
        self._judge = _Judge(model, bench, max_tokens=max_tokens, price_as=price_as)

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return the grade with the judge's cost; blocks for two calls, one if the first fails."""
        if not reference.answers:
            return Grade(None, "no reference answer to compare with")
        ours, theirs = response.text or "", reference.answers[0]
        first, points, cost = self._points(reference.prompt, ours, theirs)
        if points is None:
            return Grade(None, first, cost=cost)
        second, swapped, more = self._points(reference.prompt, theirs, ours)
        total = costs((cost, more))
        if swapped is None:
            return Grade(None, second, cost=total)
        reward = (points + 1 - swapped) / 2
        agree = "" if points == 1 - swapped else "; its orders disagree"
        return Grade(
            reward, f"{reward:g} against the reference by {self._judge.model}{agree}", cost=total
        )

    def _points(
        self, prompt: str | None, first: str, second: str
    ) -> tuple[str, float | None, Pico | None]:
        """Return (problem, points of the first response, cost)."""
        said = self._judge.ask(pairwise_prompt(prompt, first, second, rubric=self.rubric))
        side = read_side(said.text)
        return said.problem, None if side is None else _POINTS[side], said.cost


class JudgeVerifier:
    """Picks the response that a rubric judge likes best, the first of equals; it sees no reference."""

    def __init__(self, judge: RubricJudge) -> None:
        self.judge = judge

    def pick(self, responses: Sequence[Response], prompt: str | None) -> Pick:
        """Return the best response; blocks for one call each."""
        grades = [self.judge.score(response, Reference(prompt=prompt)) for response in responses]
        cost = costs(grade.cost for grade in grades)
        rewards = [-math.inf if grade.reward is None else grade.reward for grade in grades]
        best = max(rewards, default=-math.inf)
        if best == -math.inf:
            return Pick(None, "the verifier graded none of the responses", cost)
        return Pick(rewards.index(best), f"best of {len(grades)}", cost)


def _text_of(response: object) -> str:
    """Return the text of a chat completion, an object or a dict; empty when there is none."""
    choices = _field(response, "choices")
    first = choices[0] if isinstance(choices, list | tuple) and choices else None
    content = _field(_field(first, "message"), "content")
    return content if isinstance(content, str) else ""


def _field(place: object, name: str) -> object:
    return place.get(name) if isinstance(place, dict) else getattr(place, name, None)


def check_tokens(max_tokens: object) -> int:
    """Return a judge's cap; raises ConfigError unless it is a whole number above 0."""
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigError(
            f"judge: max_tokens must be a whole number above 0, found {max_tokens!r}."
        )
    return max_tokens
