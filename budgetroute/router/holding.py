"""Holding: the worst case of the best candidate that fits, in one transaction."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING

from budgetroute.records import Arrival, Ask, Limit, Option, Refusal
from budgetroute.router.choosing import CHEAPEST, decision_of
from budgetroute.router.words import decision_record
from budgetroute.telemetry import one_line
from budgetroute.units import pico_estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from budgetroute.records import Candidate, Decision, Grant
    from budgetroute.router.choosing import Pick
    from budgetroute.router.core import Router

logger = logging.getLogger("budgetroute.decide")

_DEFAULT_LEASE_S = 15 * 60
_LEASE_SLACK_S = 60


def hold(router: Router, pick: Pick, decision_id: str, at: int) -> Decision:
    """Hold the best candidate that fits and return the decision.

    Raises:
        BudgetExceeded: nothing fits.
    """
    limits = router.till.limits(at, pick.request, guard=pick.guard)
    steps: Sequence[Candidate] = pick.ranking.steps
    reserve = partial(_reserve, router, pick, decision_id, at)
    outcome = reserve(_guarded(limits), steps)
    others = _others(router, pick, limits)
    while isinstance(outcome, Refusal):
        following = next(others, None)
        if following is None:
            raise router.till.exceeded(outcome, at)
        limits, steps = following
        outcome = reserve(limits, steps)
    chosen = steps[outcome.index]
    _say_if_below(pick, chosen)
    router.pace.saw(at, outcome.balances[0])
    return decision_of(
        pick,
        chosen,
        decision_id,
        at,
        limits=limits,
        balance=outcome.balances[0],
        stepped_down=outcome.index,
    )


def _guarded(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """Return the limits less their guards: the winner is asked for alone, and is no last resort."""
    return tuple(
        [
            Limit(each.slot, each.limit - each.guard) if each.limit is not None else each
            for each in limits
        ]
    )


def _others(
    router: Router, pick: Pick, limits: tuple[Limit, ...]
) -> Iterator[tuple[tuple[Limit, ...], Sequence[Candidate]]]:
    """Yield what to ask the store for when it refused the winner.

    Every candidate; unless `strict`, those below the floor, the highest reward first; with
    `on_exhausted = "degrade"` the cheapest, up to `hard_usd`.
    """
    floor, slate, cheapest = pick.request.floor, pick.slate, pick.ranking.steps
    if slate is not None:
        rank = partial(slate.rank, pick.weights, pick.sizing, exhaustive=True)
        yield limits, rank(price=pick.price, floor=floor).steps
        if floor is not None and not router.config.strict:
            yield limits, rank(price=pick.price, floor=math.inf).steps
        cheapest = rank(price=CHEAPEST, floor=None).steps
    if router.till.hard is not None:
        yield router.till.hardened(limits), cheapest


def _say_if_below(pick: Pick, chosen: Candidate) -> None:
    floor = pick.request.floor
    if floor is None or chosen.reward is None or chosen.reward >= floor:
        return
    logger.warning(
        "route %r: no affordable action reaches the floor %g; %s at %.3f is taken",
        pick.request.route,
        floor,
        one_line(chosen.action.label),
        chosen.reward,
    )


def _reserve(
    router: Router,
    pick: Pick,
    decision_id: str,
    at: int,
    limits: tuple[Limit, ...],
    steps: Sequence[Candidate],
) -> Grant | Refusal:
    return router.store.reserve(
        Ask(
            attempt=f"{decision_id}#1",
            decision=decision_id,
            at=at,
            lease_until=lease_end(at, pick.request.timeout_s),
            limits=limits,
            options=tuple(option(step) for step in steps),
            record=decision_record(pick, steps),
            arrival=Arrival(pick.group, router.pace.period(at).bucket(at)) if pick.group else None,
        )
    )


def option(candidate: Candidate) -> Option:
    """Return a candidate's money; its expected cost never exceeds its worst case."""
    return Option(candidate.worst, min(candidate.worst, pico_estimate(candidate.cost)))


def lease_end(at: int, timeout_s: float | None) -> int:
    """Return when a hold counts as abandoned: the call's deadline and a minute, else 15 minutes."""
    seconds = _DEFAULT_LEASE_S if timeout_s is None else timeout_s + _LEASE_SLACK_S
    return at + int(seconds * 1_000_000)
