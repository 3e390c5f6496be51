"""Holding: the worst case of the best candidate that fits, in one transaction."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from budgetroute.oneline import one_line
from budgetroute.records import Applied, Arrival, Ask, Grant, Limit, Option, Refusal
from budgetroute.router.choosing import CHEAPEST
from budgetroute.router.picks import Held, decision_of
from budgetroute.router.words import decision_record
from budgetroute.units import micros_from_time, pico_estimate, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from budgetroute.records import Candidate, Decision, Request
    from budgetroute.router.core import Router
    from budgetroute.router.picks import Pick

logger = logging.getLogger("budgetroute.decide")

_DEFAULT_LEASE_S = 15 * 60
_LEASE_SLACK_S = 60


@dataclass(frozen=True, slots=True)
class Bound:
    """What kept a candidate out: the limit, its sums then, and what was needed.

    Attributes:
        limit: the limit that refused.
        refusal: what the store said.
        is_guarded: the limit itself had room, kept free for the traffic still to come.
    """

    limit: Applied
    refusal: Refusal
    is_guarded: bool = False


@dataclass(frozen=True, slots=True)
class _Stage:
    """One thing to ask the store for: candidates in order, under these limits."""

    limits: tuple[Limit, ...]
    steps: Sequence[Candidate]
    is_degraded: bool = False


def hold(router: Router, pick: Pick, decision_id: str, at: int) -> Decision:
    """Hold the best candidate that fits and return the decision.

    Raises:
        BudgetExceeded: nothing fits.
    """
    applied = router.till.applied(at, pick.request)
    bounds: list[Bound] = []
    for stage in _stages(router, pick, applied):
        if stage.is_degraded:
            _tell_exhausted(router, pick, bounds[-1], at)
        outcome = _reserve(router, pick, decision_id, at, stage=stage, bounds=bounds)
        if isinstance(outcome, Grant):
            router.paces.saw(at, [limit.slot for limit in stage.limits], outcome.balances)
            held = _held(stage, outcome, applied, bounds)
            chosen = stage.steps[outcome.index]
            _say_if_below(pick, chosen)
            return decision_of(pick, chosen, decision_id, at, held=held)
        bounds.append(_bound(outcome, stage.limits, applied))
    _tell_exhausted(router, pick, bounds[-1], at)
    error = router.till.exceeded(bounds[-1].refusal, bounds[-1].limit, at)
    if not router.is_shadow:
        router.herald.refused(pick.request.route, error)
    raise error


def hold_again(router: Router, decision: Decision, request: Request, *, attempt: int) -> Decision:
    """Hold the worst case of a decided action once more and return where it counts.

    Raises:
        BudgetExceeded: it does not fit.
    """
    at, cash = micros_from_time(router.store.now()), router.cash
    request = router.equipment.lane(request.route).completed(request)
    applied = cash.applied(at, request)
    hardened = cash.hardened(applied) if decision.degraded else None
    limits = hardened or cash.limits(applied)
    outcome = router.store.reserve(
        Ask(
            attempt=f"{decision.id}#{attempt}",
            decision=decision.id,
            at=at,
            lease_until=lease_end(at, request.timeout_s),
            limits=limits,
            options=(option(decision.chosen),),
            record='{"v":1,"retry":true}',
        )
    )
    if isinstance(outcome, Refusal):
        error = cash.exceeded(outcome, applied[limits.index(outcome.limit)], at)
        router.herald.refused(request.route, error)
        raise error
    router.engines.begin(decision, request, time_from_micros(at), attempt=attempt)
    return replace(
        decision,
        slots=tuple(limit.slot for limit in limits),
        limits=applied,
        balance=outcome.balances[0],
    )


def _stages(router: Router, pick: Pick, applied: Sequence[Applied]) -> Iterator[_Stage]:
    """Yield what to ask the store for, one after the other, until something fits.

    The winner alone, under the limits less their guards; every candidate; unless `strict`, those
    below the floor, the highest reward first; with `on_exhausted = "degrade"` the cheapest, up to
    what degraded limits allow.
    """
    limits = router.till.limits(applied, pick.guards)
    yield _Stage(_guarded(limits), pick.ranking.steps)
    floor, slate, cheapest = pick.request.floor, pick.slate, pick.ranking.steps
    if slate is not None:
        rank = partial(slate.rank, pick.weights, pick.sizing, exhaustive=True, guess=pick.guess)
        yield _Stage(limits, rank(price=pick.price, floor=floor).steps)
        if floor is not None and not router.config.strict:
            yield _Stage(limits, rank(price=pick.price, floor=math.inf).steps)
        cheapest = rank(price=CHEAPEST, floor=None).steps
    hardened = router.till.hardened(applied)
    if hardened is not None:
        yield _Stage(hardened, cheapest, is_degraded=True)


def _guarded(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """Return the limits less their guards: the winner is asked for alone, and is no last resort."""
    return tuple(
        [
            Limit(each.slot, each.limit - each.guard) if each.limit is not None else each
            for each in limits
        ]
    )


def _bound(refusal: Refusal, limits: Sequence[Limit], applied: Sequence[Applied]) -> Bound:
    """Return which limit refused, and whether only for what it keeps free."""
    place = limits.index(refusal.limit)
    limit, balance = applied[place], refusal.balance
    taken = balance.settled + balance.held + refusal.needed
    return Bound(limit, refusal, is_guarded=limit.first is not None and taken <= limit.first)


def _held(
    stage: _Stage, grant: Grant, applied: tuple[Applied, ...], bounds: Sequence[Bound]
) -> Held:
    """Return where a reservation counts, with the limit that has the least left after it."""
    tightest, least = "", None
    levels = [limit.last if stage.is_degraded else limit.first for limit in applied]
    for limit, level, balance in zip(applied, levels, grant.balances, strict=True):
        if level is None:
            continue
        left = level - balance.settled - balance.held
        if least is None or left < least:
            tightest, least = limit.name, left
    return Held(
        applied=applied,
        limit=levels[0],
        balance=grant.balances[0],
        tightest=tightest,
        left=least,
        bound_by=bounds[0].limit.name if bounds else "",
        stepped_down=grant.index,
        is_degraded=stage.is_degraded,
    )


def _tell_exhausted(router: Router, pick: Pick, bound: Bound, at: int) -> None:
    """Warn of a limit that not even the cheapest candidate fits, once per period."""
    if router.is_shadow or pick.request.after:  # virtual money; the cheapest may be what failed
        return
    warning = router.till.exhausted(bound.limit, bound.refusal.balance, at)
    if warning is not None:
        router.herald.warned(warning)


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
    *,
    stage: _Stage,
    bounds: Sequence[Bound],
) -> Grant | Refusal:
    steps = stage.steps
    return router.store.reserve(
        Ask(
            attempt=f"{decision_id}#1",
            decision=decision_id,
            at=at,
            lease_until=lease_end(at, pick.request.timeout_s),
            limits=stage.limits,
            options=tuple(option(step) for step in steps),
            record=decision_record(pick, steps, beside=_beside(pick, stage, bounds)),
            arrival=Arrival(pick.group, router.pace.period(at).bucket(at)) if pick.group else None,
        )
    )


def _beside(pick: Pick, stage: _Stage, bounds: Sequence[Bound]) -> dict[str, Any]:
    """Return which limit set λ, and which kept the best candidate out, where it is worth telling."""
    seen: dict[str, Any] = {} if pick.priced_by == "day" else {"priced_by": pick.priced_by}
    if not bounds:
        return seen
    limit, refusal = bounds[0].limit, bounds[0].refusal
    left = (limit.first or 0) - refusal.balance.settled - refusal.balance.held
    bound = {
        "limit": limit.name,
        "window": limit.window,
        "left": usd_from_pico(left),
        "needed": usd_from_pico(refusal.needed),
        "guard": bounds[0].is_guarded,
    }
    return seen | {"bound": bound, "degraded": stage.is_degraded}


def option(candidate: Candidate) -> Option:
    """Return a candidate's money; its expected cost never exceeds its worst case."""
    return Option(candidate.worst, min(candidate.worst, pico_estimate(candidate.cost)))


def lease_end(at: int, timeout_s: float | None) -> int:
    """Return when a hold counts as abandoned: the call's deadline and a minute, else 15 minutes."""
    seconds = _DEFAULT_LEASE_S if timeout_s is None else timeout_s + _LEASE_SLACK_S
    return at + int(seconds * 1_000_000)
