"""The simulator: requests in order of time, bills that come later, a cap held before each call.

Every request is admitted by the ledger's one comparison, settled + held + worst ≤ limit (− guard for
anything but the cheapest action), one after the other; nothing is approximated. What is fixed
between two plans is looked up from tables, which makes about 400,000 requests a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from workload import DAY_S, TYPES, WORST, Day, Scenario, Table

from budgetroute.curves import hull

BUCKET_S = 300.0
BUCKETS = int(DAY_S / BUCKET_S)
GUARD = 1.5
HOUR_S = 3_600.0

Counts = Sequence[Sequence[int]]  # [bucket][type]


@dataclass(frozen=True, slots=True)
class View:
    """What a pacer may know when it plans.

    Attributes:
        day: number of the day; 0 is a Monday.
        now: seconds into the day.
        budget: dollars that each day brings.
        limit: dollars that this day may spend (budget and bank).
        settled: dollars billed to this day.
        held: worst case of the calls in flight.
        table: the curves it believes.
        history: arrivals of the past days per bucket and type, oldest first.
        today: arrivals so far.
        sent: predicted dollars of all calls sent since the first day, per action.
        done: predicted dollars of those billed since.
        billed: what they were billed.
        settlements: calls billed since the first day.
        usual: requests per weekday that the user has announced.
        carry_over: windows of unspent money that are kept.
        yesterday: dollars billed to the day before.
    """

    day: int
    now: float
    budget: float
    limit: float
    settled: float
    held: float
    table: Table
    history: Sequence[Counts]
    today: Counts
    sent: Sequence[float]
    done: Sequence[float]
    billed: Sequence[float]
    settlements: int
    usual: float
    carry_over: float
    yesterday: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What a plan lets each type do until the next plan.

    Attributes:
        low: action per type at λ_low, drawn with probability `share`.
        high: action per type at λ_high.
        share: f.
        guard: dollars kept for the cheapest action of requests still to come.
        ladder: [type][action] → what to try, in order, when the action does not fit.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    share: float = 0.0
    guard: float = 0.0
    ladder: tuple[tuple[tuple[int, ...], ...], ...] = ()


class Policy(Protocol):
    """A pacer: plans every `every_s` seconds, or `every_share` of the limit billed, if sooner."""

    every_s: float
    every_share: float

    def plan(self, view: View) -> Choice: ...


class PerRequest(Policy, Protocol):
    """A pacer that decides and learns request by request."""

    def decide(self, kind: int) -> int: ...

    def billed(self, dollars: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a day came to.

    Attributes:
        spend: dollars billed to it.
        limit: what it might spend.
        reward: sum of mean rewards.
        requests: that arrived.
        rejected: that no action's bound fitted.
        floor: at their type's cheapest action.
        early: dollars of the first hour's calls.
    """

    spend: float
    limit: float
    reward: float
    requests: int
    rejected: int
    floor: int
    early: float


@dataclass(slots=True)
class Books:
    """What lasts from day to day."""

    bank: float = 0.0
    history: list[Counts] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    billed: list[float] = field(default_factory=list)
    settlements: int = 0
    yesterday: float = 0.0
    worst: list[list[float]] = field(default_factory=list)


def run(
    scenario: Scenario, days: Sequence[Day], policy: Policy, *, table: Table, hard: bool = True
) -> list[Outcome]:
    """Run a policy over the days of a scenario.

    Args:
        scenario: budget and carry-over.
        days: the traffic.
        policy: the pacer; it keeps its state from day to day.
        table: the curves that it believes.
        hard: whether the cap holds.
    """
    width = len(table.costs[0])
    books = Books(sent=[0.0] * width, done=[0.0] * width, billed=[0.0] * width)
    outcomes = []
    for day in days:
        outcome = _run_day(scenario, day, policy, table=table, books=books, hard=hard)
        outcomes.append(outcome)
        books.yesterday = outcome.spend
        left = books.bank + scenario.budget - outcome.spend
        books.bank = min(left, scenario.carry_over * scenario.budget) if hard else 0.0
    return outcomes


def ladders(table: Table) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return for each type and action the cheaper hull actions, dearest first."""
    return tuple(
        tuple(
            tuple(a for a in reversed(_hull(table, kind)) if cost[a] < cost[action])
            for action in range(len(cost))
        )
        for kind, cost in enumerate(table.costs)
    )


def _hull(table: Table, kind: int) -> list[int]:
    return hull(list(zip(table.costs[kind], table.rewards[kind], strict=True)))


def bounds(day: Day, table: Table) -> list[list[float]]:
    """Return the worst case that is held: 3 × the mean by length and listed price.

    A biased curve does not bend the bound (it comes from the token cap); a price that nobody told
    does: those are held at the listed price until a bill crosses its hold, then at what was seen.
    """
    first = day.truth[0][1]
    bias = first.costs[0][0] / table.costs[0][0]
    return [[WORST * bias * cost for cost in row] for row in table.costs]


def _events(day: Day) -> tuple[list[int], list[float]]:
    """Return (i for an arrival, ~i for a bill; time) in order of time."""
    count = day.times.size
    times = np.concatenate([day.times, day.settles])
    codes = np.concatenate([np.arange(count), ~np.arange(count)])
    order = np.argsort(times, kind="stable")
    return codes[order].tolist(), times[order].tolist()


def _run_day(  # noqa: C901, PLR0912, PLR0915 - one loop, for speed
    scenario: Scenario, day: Day, policy: Policy, *, table: Table, books: Books, hard: bool
) -> Outcome:
    codes, moments = _events(day)
    kinds, draws, noise = day.types.tolist(), day.draws.tolist(), day.noise.tolist()
    rows = (day.types + len(TYPES) * day.phases()).tolist()
    truth = [row for _, now in day.truth for row in now.costs]
    buckets = np.minimum(day.times // BUCKET_S, BUCKETS - 1).astype(int).tolist()
    books.worst = worst = books.worst or bounds(day, table)
    believed = table.costs
    today = [[0] * len(TYPES) for _ in range(BUCKETS)]
    tally = [[0] * len(believed[0]) for _ in truth]
    sent, done, billed = books.sent, books.done, books.billed
    actions, costs, holds = [-1] * len(kinds), [0.0] * len(kinds), [0.0] * len(kinds)
    limit = scenario.budget + books.bank
    settled = held = 0.0
    rejected = settlements = 0
    due, mark = -1.0, -1.0
    room = limit if hard else math.inf
    decide: Callable[[int], int] | None = getattr(policy, "decide", None)
    learn: Callable[[float], None] | None = getattr(policy, "billed", None)
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    share, guarded = 0.0, room
    floors = [_hull(table, kind)[0] for kind in range(len(TYPES))]
    ladder = ladders(table)
    for code, now in zip(codes, moments, strict=True):
        if code < 0:
            action = actions[code := ~code]
            if action >= 0:
                cost, hold = costs[code], holds[code]
                settled += cost
                held -= hold
                if cost > hold:
                    for row in worst:
                        row[action] *= cost / hold
                done[action] += believed[kinds[code]][action]
                billed[action] += cost
                settlements += 1
                if learn is not None:
                    learn(cost)
            continue
        if now >= due or settled >= mark:
            choice = policy.plan(
                View(
                    day.number, now, scenario.budget, limit, settled, held, table, books.history,
                    today, sent, done, billed, books.settlements + settlements, scenario.volume * scenario.hint,
                    scenario.carry_over,
                    books.yesterday,
                )
            )  # fmt: skip
            low, high, share = choice.low, choice.high, choice.share
            guarded = room - choice.guard
            ladder = choice.ladder or ladder
            due, mark = now + policy.every_s, settled + policy.every_share * limit
        kind = kinds[code]
        today[buckets[code]][kind] += 1
        if decide is not None:
            action = decide(kind)
        else:
            action = low[kind] if draws[code] < share else high[kind]
        hold = worst[kind][action]
        committed = settled + held
        if committed + hold > guarded and (action != floors[kind] or committed + hold > room):
            for cheaper in ladder[kind][action]:
                hold = worst[kind][cheaper]
                if committed + hold <= (room if cheaper == floors[kind] else guarded):
                    action = cheaper
                    break
            else:
                rejected += 1
                continue
        place = rows[code]
        actions[code] = action
        costs[code] = truth[place][action] * noise[code]
        holds[code] = hold
        held += hold
        sent[action] += believed[kind][action]
        tally[place][action] += 1
    books.settlements += settlements
    books.history.append(today)
    rewards = [row for _, now in day.truth for row in now.rewards]
    reward = sum(
        n * r for ns, rs in zip(tally, rewards, strict=True) for n, r in zip(ns, rs, strict=True)
    )
    floor = sum(counts[floors[place % len(TYPES)]] for place, counts in enumerate(tally))
    early = sum(costs[: int(np.searchsorted(day.times, HOUR_S))])
    return Outcome(settled, limit, reward, len(kinds), rejected, floor, early)
