"""The synthetic workload of the pacing study: 5 prompt types × 8 actions, 14 days of traffic.

Costs run over 300× in each type, rewards saturate in log cost with bumps for chain of thought (some
actions lie below the hull), a day is a sine of ±75 % over which the mix of types rotates, weekends
are quieter, days differ by σ = 10 %, and every other day one type bursts. Input sizes are lognormal
and part of each cost; a cost never exceeds 3 × its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

DAY_S = 86_400.0
MINUTES = 1_440
WORST = 3.0  # no cost exceeds this many times its mean
LATENCY_S = (10.0, 60.0)

TYPES = ("chat", "extract", "summary", "code", "math")
ACTIONS = (
    "nano-256",
    "nano-cot",
    "mini-256",
    "mini-1k",
    "mini-cot",
    "large-512",
    "large-2k",
    "large-cot",
)
FAMILIES = tuple(
    name.partition("-")[0] + ("|cot" if name.endswith("-cot") else "") for name in ACTIONS
)
DEAR = (4, 5, 6, 7)  # the actions whose price doubles in the scenario `price`
MIX = (0.29, 0.21, 0.18, 0.19, 0.13)  # mean share of each type
PEAK_H = (13.0, 3.0, 18.0, 10.0, 22.0)  # hour at which a type's share is largest
SWING = 0.5  # by how much a type's share rises and falls

_LADDER = (1.0, 2.2, 4.9, 12.0, 28.0, 64.0, 140.0, 300.0)
_FLOOR_USD = (6.2e-5, 5.0e-5, 9.5e-5, 1.3e-4, 1.47e-4)
_CURVES = (  # reward at the floor, reward at the top, steepness in log cost
    (0.64, 0.80, 5.0),
    (0.66, 0.91, 5.5),
    (0.46, 0.78, 2.6),
    (0.34, 0.84, 2.0),
    (0.22, 0.84, 1.2),
)
_BUMPS = (  # what the action adds to or takes from the curve; chain of thought pays in math
    (0.0, -0.020, 0.004, 0.006, -0.015, 0.005, 0.006, -0.004),
    (0.0, -0.010, 0.008, -0.010, 0.004, -0.006, -0.004, 0.004),
    (0.0, 0.010, -0.012, 0.015, -0.020, 0.012, 0.008, 0.0),
    (0.0, -0.015, -0.010, 0.006, 0.055, -0.030, 0.008, 0.0),
    (0.0, 0.040, -0.040, -0.008, 0.110, -0.040, -0.010, 0.0),
)

_SIZE_SIGMA, _OUTPUT_SIGMA, _SIZE_SHARE = 0.8, 0.92, 0.25  # together about lognormal σ = 0.7

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Table:
    """Mean cost in dollars and mean reward, one row per type, one column per action."""

    costs: tuple[tuple[float, ...], ...]
    rewards: tuple[tuple[float, ...], ...]

    def dearer(self, factor: float, actions: tuple[int, ...]) -> Table:
        """Return the table with the costs of some actions multiplied."""
        costs = tuple(
            tuple(cost * factor if a in actions else cost for a, cost in enumerate(row))
            for row in self.costs
        )
        return Table(costs, self.rewards)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world to pace in.

    Attributes:
        name: as on the command line.
        volume: requests per weekday.
        budget: dollars per day.
        days: how many.
        scale: traffic × this from day `shock` on (`until` days).
        shock: position in days at which things change.
        until: position in days at which the traffic is as before.
        price: costs of the dear actions × this from `shock` on, the table not told.
        bias: true cost over the table's, everywhere.
        level_sigma: spread of the day level.
        weekend: traffic of a weekend day over a weekday's.
        burst_chance: chance of a burst per day.
        burst_gain: what a burst adds to one type, 3 = +300 %.
        carry_over: windows of unspent money that are kept.
        hint: announced over true volume.
    """

    name: str
    volume: float = 20_000.0
    budget: float = 20.0
    days: int = 14
    scale: float = 1.0
    shock: float = 7.0
    until: float = math.inf
    price: float = 1.0
    bias: float = 1.0
    level_sigma: float = 0.10
    weekend: float = 0.6
    burst_chance: float = 0.5
    burst_gain: float = 3.0
    carry_over: float = 0.0
    hint: float = 1.0


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("base"),
        Scenario("x3", scale=3.0),
        Scenario("x0.2", scale=0.2, days=8),
        Scenario("x3noon", scale=3.0, shock=7.5, until=8.0, days=8),
        Scenario("wild", level_sigma=0.4, weekend=0.4, burst_chance=1.0, burst_gain=10.0),
        Scenario("price", price=2.0, shock=7.5),
        Scenario("bias50", bias=1.5),
        Scenario("tight", budget=5.0),
        Scenario("loose", budget=100.0),
        Scenario("200", volume=200.0, budget=0.2),
        Scenario("5", volume=5.0, budget=0.005, days=60, carry_over=7.0),
        Scenario("hint/20", hint=0.05, days=1),
        Scenario("hint*20", hint=20.0, days=1),
        Scenario("1M", volume=1_000_000.0, budget=1_000.0, days=4),
    )
}


@dataclass(frozen=True, slots=True)
class Day:
    """One day of requests in order of arrival.

    Attributes:
        number: 0 = the first day, a Monday.
        times: arrival, seconds into the day.
        types: index of the prompt type.
        settles: when the bill comes, seconds into the day (may lie past its end).
        noise: realised cost over mean cost, mean 1, at most `WORST`.
        sizes: input tokens over their mean.
        draws: uniform draws in [0, 1) for mixing.
        truth: the tables in force, each with the time it holds from.
    """

    number: int
    times: Floats
    types: Ints
    settles: Floats
    noise: Floats
    sizes: Floats
    draws: Floats
    truth: tuple[tuple[float, Table], ...]

    def phases(self) -> Ints:
        """Return for each request which of the day's tables holds."""
        starts = np.array([start for start, _ in self.truth])
        return np.searchsorted(starts, self.times, side="right") - 1


def table() -> Table:
    """Return the curves as profiled: what a pacer believes."""
    costs = tuple(tuple(floor * step for step in _LADDER) for floor in _FLOOR_USD)
    rewards = tuple(
        tuple(_reward(curve, step) + bump for step, bump in zip(_LADDER, bumps, strict=True))
        for curve, bumps in zip(_CURVES, _BUMPS, strict=True)
    )
    return Table(costs, rewards)


def _reward(curve: tuple[float, float, float], step: float) -> float:
    low, high, steepness = curve
    place = math.log(step) / math.log(_LADDER[-1])
    return low + (high - low) * math.expm1(-steepness * place) / math.expm1(-steepness)


def days(scenario: Scenario, seed: int) -> list[Day]:
    """Draw the days of a scenario; a seed gives the same luck in every scenario of one volume."""
    return [_day(scenario, seed, number) for number in range(scenario.days)]


def _day(scenario: Scenario, seed: int, number: int) -> Day:
    rng = np.random.default_rng([seed, number])
    rates = _rates(scenario, rng, number)
    counts = rng.poisson(rates)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    minutes, types = np.divmod(cells, len(TYPES))
    times = (minutes + rng.random(cells.size)) * 60.0
    order = np.argsort(times, kind="stable")
    times, types = times[order], types[order]
    sizes, noise = _noise(rng, times.size)
    return Day(
        number=number,
        times=times,
        types=types,
        settles=times + rng.uniform(*LATENCY_S, size=times.size),
        noise=noise,
        sizes=sizes,
        draws=rng.random(times.size),
        truth=_truth(scenario, number),
    )


def _rates(scenario: Scenario, rng: np.random.Generator, number: int) -> Floats:
    """Return expected requests per minute and type."""
    hours = (np.arange(MINUTES) + 0.5) / 60.0
    cycle = 1.0 + 0.75 * np.sin(2 * math.pi * (hours - 9.0) / 24.0)
    turns = np.cos(2 * math.pi * (hours[:, None] - np.array(PEAK_H)) / 24.0)
    mix = np.array(MIX) * (1.0 + SWING * turns)
    mix /= mix.sum(axis=1, keepdims=True)
    level = math.exp(scenario.level_sigma * rng.standard_normal() - scenario.level_sigma**2 / 2)
    weekday = scenario.weekend if number % 7 in {5, 6} else 1.0
    rates = scenario.volume * weekday * level / MINUTES * cycle[:, None] * mix
    _burst(scenario, rng, rates)
    place = number + np.arange(MINUTES) / MINUTES
    shocked = (place >= scenario.shock) & (place < scenario.until)
    return rates * np.where(shocked, scenario.scale, 1.0)[:, None]


def _burst(scenario: Scenario, rng: np.random.Generator, rates: Floats) -> None:
    """Add a burst of one type to the rates."""
    chance, kind = rng.random(), int(rng.integers(len(TYPES)))
    length, begin = int(rng.integers(20, 91)), rng.random()
    if chance < scenario.burst_chance:
        start = int(begin * (MINUTES - length))
        rates[start : start + length, kind] *= 1.0 + scenario.burst_gain


def _noise(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Return (input sizes, realised cost over mean cost)."""
    sizes = np.exp(_SIZE_SIGMA * rng.standard_normal(count) - _SIZE_SIGMA**2 / 2)
    outputs = np.exp(_OUTPUT_SIGMA * rng.standard_normal(count) - _OUTPUT_SIGMA**2 / 2)
    raw = _SIZE_SHARE * sizes + (1 - _SIZE_SHARE) * outputs
    return sizes, np.minimum(WORST, raw * _restored())


@cache
def _restored() -> float:
    """Return the factor that brings the mean back to 1 after truncation."""
    rng = np.random.default_rng(0)
    sizes = np.exp(_SIZE_SIGMA * rng.standard_normal(1_000_000) - _SIZE_SIGMA**2 / 2)
    outputs = np.exp(_OUTPUT_SIGMA * rng.standard_normal(1_000_000) - _OUTPUT_SIGMA**2 / 2)
    raw = _SIZE_SHARE * sizes + (1 - _SIZE_SHARE) * outputs
    factor = 1.0
    for _ in range(20):
        factor /= float(np.minimum(WORST, raw * factor).mean())
    return factor


def _truth(scenario: Scenario, number: int) -> tuple[tuple[float, Table], ...]:
    usual = table().dearer(scenario.bias, tuple(range(len(ACTIONS))))
    dear = usual.dearer(scenario.price, DEAR)
    if scenario.price == 1.0 or number + 1 <= scenario.shock:
        return ((0.0, usual),)
    if number >= scenario.shock:
        return ((0.0, dear),)
    return ((0.0, usual), ((scenario.shock - number) * DAY_S, dear))
