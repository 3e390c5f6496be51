"""Holding: the worst case of the best candidate that fits, in one transaction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from budgetroute.records import Arrival, Ask, Grant, Option
from budgetroute.router.choosing import decision_of
from budgetroute.router.words import decision_record
from budgetroute.units import pico_estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.records import Candidate, Decision, Limit, Refusal
    from budgetroute.router.choosing import Pick
    from budgetroute.router.core import Router

_DEFAULT_LEASE_S = 15 * 60
_LEASE_SLACK_S = 60
_BINS = 10


def hold(router: Router, pick: Pick, decision_id: str, at: int) -> Decision:
    """Hold the best candidate that fits and return the decision.

    If the best ones do not fit, every candidate is looked at; if none does, `degrade` serves the
    cheapest up to `hard_usd`.

    Raises:
        BudgetExceeded: nothing fits.
    """
    limits = router.till.limits(at, pick.request, guard=pick.guard)
    steps = pick.ranking.steps
    outcome = _reserve(router, pick, decision_id, at, limits, steps)
    if not isinstance(outcome, Grant) and pick.slate is not None:
        floor = None if pick.ranking.floor_missed else pick.request.floor
        steps = pick.slate.rank(
            pick.weights, pick.sizing, price=pick.price, floor=floor, exhaustive=True
        ).steps
        outcome = _reserve(router, pick, decision_id, at, limits, steps)
    if not isinstance(outcome, Grant) and router.till.hard is not None:
        steps = (min(steps, key=lambda c: (c.cost, c.worst)),)
        limits = router.till.hardened(limits)
        outcome = _reserve(router, pick, decision_id, at, limits, steps)
    if not isinstance(outcome, Grant):
        raise router.till.exceeded(outcome, at)
    router.pace.saw(at, outcome.balances[0])
    return decision_of(
        pick,
        steps[outcome.index],
        decision_id,
        at,
        limits=limits,
        balance=outcome.balances[0],
        stepped_down=outcome.index,
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
            arrival=Arrival(_group(router, pick), router.pace.period(at).bucket(at)),
        )
    )


def option(candidate: Candidate) -> Option:
    """Return a candidate's money; its expected cost never exceeds its worst case."""
    return Option(candidate.worst, min(candidate.worst, pico_estimate(candidate.cost)))


def lease_end(at: int, timeout_s: float | None) -> int:
    """Return when a hold counts as abandoned: the call's deadline and a minute, else 15 minutes."""
    seconds = _DEFAULT_LEASE_S if timeout_s is None else timeout_s + _LEASE_SLACK_S
    return at + int(seconds * 1_000_000)


def _group(router: Router, pick: Pick) -> str:
    tokens = pick.sizing.size.tokens
    bin_number = min(_BINS - 1, max(0, int(math.log2(tokens + 1)) - 4))
    return f"{router.config.name}|{pick.request.route}|{pick.weights[0][0]}|{bin_number}"
