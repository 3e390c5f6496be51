"""The day without routing: every action on every call, with the luck the routed day had."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from budgetroute.billing import bill
from budgetroute.calls.prompts import with_cot
from budgetroute.curves import hull
from budgetroute.demo.play import messages_of
from budgetroute.demo.result import Baselines, Mix, Use
from budgetroute.demo.server import input_tokens
from budgetroute.records import Usage
from budgetroute.tokens import O200k
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.demo.prompts import Task
    from budgetroute.demo.simulated import SimulatedModels
    from budgetroute.prices import PriceBook
    from budgetroute.records import Action


@dataclass(frozen=True, slots=True)
class Run:
    """One action sent for every call.

    Attributes:
        action: the action; None = every call is refused.
        usd: what the day costs.
        rewards: the grade of each call.
    """

    action: Action | None
    usd: float
    rewards: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean grade."""
        return statistics.fmean(self.rewards)


def unrouted(
    tasks: Sequence[Task],
    actions: Sequence[Action],
    models: SimulatedModels,
    prices: PriceBook,
) -> list[Run]:
    """Return each action's day: what the server would have answered and billed, call by call."""
    tokenizer = O200k()
    totals, rewards = [0] * len(actions), [[0.0] * len(tasks) for _ in actions]
    for place, task in enumerate(tasks):  # all actions of a task in a row: they share its luck
        asked = [_input(task, tokenizer, cot=cot) for cot in (False, True)]
        for i, action in enumerate(actions):
            rewards[i][place], output = models.outcome(task, action)
            totals[i] += bill(prices.price(action.model), Usage(asked[action.cot], output))
    return [
        Run(action, usd_from_pico(total), tuple(grades))
        for action, total, grades in zip(actions, totals, rewards, strict=True)
    ]


def _input(task: Task, tokenizer: O200k, *, cot: bool) -> int:
    messages = with_cot(messages_of(task)) if cot else messages_of(task)
    return input_tokens(tokenizer, [message["content"] for message in messages])


def compare(runs: Sequence[Run], rewards: Sequence[float], *, usd: float) -> Baselines:
    """Set the routed day's rewards beside the best that single actions and their mixes do.

    Args:
        runs: every action's day; at least one.
        rewards: the routed day's, for the same calls.
        usd: the routed day's dollars.
    """
    cheapest = min(runs, key=lambda run: run.usd)
    best = max(runs, key=lambda run: run.mean)
    low, high, share = best_mix(runs, usd)
    mixed = [a + (b - a) * share for a, b in zip(low.rewards, high.rewards, strict=True)]
    return Baselines(
        always_cheapest=_use(cheapest),
        always_best=_use(best),
        best_mix=Mix(
            cheap=low.action,
            dear=_action(high),
            share=share,
            usd=low.usd + (high.usd - low.usd) * share,
            mean_reward=statistics.fmean(mixed),
        ),
        lead_error=_standard_error([r - m for r, m in zip(rewards, mixed, strict=True)]),
    )


def best_mix(runs: Sequence[Run], usd: float) -> tuple[Run, Run, float]:
    """Return (cheaper, dearer, share of the dearer): the best mean reward that `usd` buys.

    The upper concave hull of (dollars, mean reward) at `usd`. Dollars beyond the best action's buy
    nothing more; below the cheapest action's, some calls are refused.
    """
    options = list(runs)
    if usd < min(run.usd for run in runs):
        options.append(Run(None, 0.0, (0.0,) * len(runs[0].rewards)))
    corners = [options[i] for i in hull([(run.usd, run.mean) for run in options])]
    for low, high in pairwise(corners):
        if usd < high.usd:
            return low, high, (usd - low.usd) / (high.usd - low.usd)
    return corners[-1], corners[-1], 1.0


def _use(run: Run) -> Use:
    return Use(_action(run), len(run.rewards), run.usd, run.mean)


def _action(run: Run) -> Action:
    if run.action is None:
        raise ValueError("refusing every call is no action")
    return run.action


def _standard_error(differences: Sequence[float]) -> float:
    if len(differences) < 2:  # noqa: PLR2004 - no spread to see
        return 0.0
    return statistics.stdev(differences) / math.sqrt(len(differences))
