"""Runs the demo and adds up what it measured."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from budgetroute.demo.baselines import compare, unrouted
from budgetroute.demo.day import day, shares_of
from budgetroute.demo.play import messages_of, play_day
from budgetroute.demo.result import DAY_SECONDS, DemoResult, Reading, Use
from budgetroute.demo.setting import PROFILE, set_up
from budgetroute.demo.simulated import SimulatedModels
from budgetroute.prices import PriceBook
from budgetroute.profiles import load_profile
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.demo.play import Play, Served
    from budgetroute.demo.result import Baselines, Progress
    from budgetroute.demo.setting import Setting
    from budgetroute.records import Action, Profile

SLICES = 48
"""Half hours: the slices of the day in which λ and spend are reported."""
NOTABLE = 0.2
"""A prompt type is named beside an action if it makes up at least this part of its calls."""


def run_demo(
    *,
    calls: int = 4000,
    budget_usd: float | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> DemoResult:
    """Route a simulated day and compare it with the same day without routing.

    Needs no key and no network: the models, served by a process of their own on 127.0.0.1, follow
    the shipped profile; prices are real. Blocks; prints nothing. A KeyboardInterrupt during the
    calls ends the day early, and the result covers what was made.

    Args:
        calls: calls of the day.
        budget_usd: the day's budget; None = $0.75 for each 4,000 calls.
        seed: of the prompts, their times and the models' luck.
        progress: told after each call.

    Raises:
        ConfigError: the budget or the number of calls cannot be used, or budgetroute is turned off.
    """
    begun = time.perf_counter()
    profile, prices = load_profile(PROFILE), PriceBook()
    coming = day(shares_of(profile), calls=calls, seed=seed)
    setting = set_up(
        profile.actions,
        prices,
        calls=calls,
        budget_usd=budget_usd,
        prompts=[messages_of(call.task) for call in coming],
    )
    play = play_day(coming, setting, prices, seed=seed, progress=progress or _no_one)
    result = add_up(play, setting, profile, prices, seed=seed)
    return replace(result, seconds=time.perf_counter() - begun)


def add_up(
    play: Play, setting: Setting, profile: Profile, prices: PriceBook, *, seed: int
) -> DemoResult:
    """Return what a played day came to, beside the same calls without routing."""
    served = play.served
    return DemoResult(
        profile=profile.name,
        seed=seed,
        planned=setting.calls,
        calls=len(served),
        models=setting.models,
        actions=len(setting.actions),
        limit_usd=setting.budget_usd,
        spent_usd=play.spent_usd,
        billed_usd=usd_from_pico(sum(one.billed for one in served)),
        mean_reward=_mean([one.reward for one in served]),
        rejected=sum(one.decision is None for one in served),
        largest_worst_usd=max(
            (one.decision.worst_usd for one in served if one.decision), default=0.0
        ),
        typed_right=_mean([float(_typed_right(one)) for one in served if one.decision]),
        readings=readings_of(served),
        uses=uses_of(served),
        baselines=_baselines(play, setting, profile, prices, seed=seed),
        day_seconds=play.seconds,
        seconds=play.seconds,
        interrupted=play.interrupted,
    )


def _no_one(progress: Progress) -> None:
    """Take progress that nobody asked for."""


def _baselines(
    play: Play, setting: Setting, profile: Profile, prices: PriceBook, *, seed: int
) -> Baselines | None:
    if not play.served:
        return None
    tasks = [one.call.task for one in play.served]
    models = SimulatedModels(profile, seed=seed)
    runs = unrouted(tasks, setting.actions, models, prices)
    return compare(runs, [one.reward for one in play.served], usd=play.spent_usd)


def readings_of(served: Sequence[Served]) -> tuple[Reading, ...]:
    """Return the day in half hours, up to the one of the last call."""
    width = DAY_SECONDS // SLICES
    by_slice = {
        place: list(ones)
        for place, ones in groupby(served, lambda one: int(one.call.second // width))
    }
    made: list[Reading] = []
    price: float | None = None
    for place in range(max(by_slice, default=-1) + 1):
        ones = by_slice.get(place, [])
        price = next((o.decision.shadow_price for o in reversed(ones) if o.decision), price)
        spent = usd_from_pico(sum(one.settled for one in ones))
        made.append(Reading((place + 1) * width, len(ones), spent, price))
    return tuple(made)


def uses_of(served: Sequence[Served]) -> tuple[Use, ...]:
    """Return what became of each action that was chosen, most calls first."""
    by_action: dict[Action, list[Served]] = {}
    for one in served:
        if one.decision is not None:
            by_action.setdefault(one.decision.action, []).append(one)
    uses = (_use(action, ones) for action, ones in by_action.items())
    return tuple(sorted(uses, key=lambda use: (-use.calls, use.action.label)))


def _use(action: Action, ones: Sequence[Served]) -> Use:
    kinds = Counter(one.call.task.kind for one in ones)
    return Use(
        action,
        calls=len(ones),
        usd=usd_from_pico(sum(one.settled for one in ones)),
        mean_reward=_mean([one.reward for one in ones]),
        kinds=tuple(k for k, n in kinds.most_common() if n >= NOTABLE * len(ones)),
    )


def _typed_right(one: Served) -> bool:
    return one.decision is not None and one.decision.prompt_type == one.call.task.kind


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
