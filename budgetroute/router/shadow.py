"""Shadow mode: the baseline is sent and booked, and what `on` would have done is computed beside it.

The real spend is counted under the app's own keys and never refused. The virtual decision holds and
spends under `shadow/`, against the limits, and its shadow price follows that spend. A virtual call is
billed what it was predicted to cost, or the real bill where the baseline is what it chose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from budgetroute.errors import BudgetExceeded, BudgetRouteError, StoreError
from budgetroute.oneline import one_line
from budgetroute.records import Arrival, Ask, Bill, Refusal
from budgetroute.router.choosing import ROUTING_FAILURES
from budgetroute.router.holding import hold, lease_end, option
from budgetroute.router.picks import Held, decision_of, draw_of
from budgetroute.router.words import decision_record, shadow_seen, shadow_words
from budgetroute.units import micros_from_time

if TYPE_CHECKING:
    from budgetroute.records import Decision, Request, Settlement
    from budgetroute.router.core import Router
    from budgetroute.router.picks import Pick

__all__ = ["KEY_PREFIX", "decide", "release", "settle"]

KEY_PREFIX = "shadow/"
"""What the keys of the virtual ledger and its plan begin with."""
_VIRTUAL = "shadow-"


def decide(router: Router, request: Request, decision_id: str) -> Decision:
    """Return the baseline as the decision, held without a limit, with what `on` would have done.

    Raises:
        NoEligibleAction: the code has no baseline, or it cannot be bounded.
        UnpricedModel: the baseline has no price.
        StoreError: the ledger cannot be reached.
    """
    at = micros_from_time(router.store.now())
    pick, virtual, why_not = _virtual(router, request, decision_id, at)
    try:
        usual = router.chooser.as_usual(request, pick, at)
        return _sent(router, usual, virtual, why_not, decision_id, at)
    except BaseException:
        if virtual is not None:
            router.cash.release(f"{virtual.id}#1", at)
        raise


def settle(router: Router, decision: Decision, settlement: Settlement) -> None:
    """Bill the virtual decision beside a real settlement."""
    virtual = decision.shadowed
    if virtual is None:
        return
    money, at = option(virtual.chosen), _time(router, virtual)
    is_same = virtual.action == decision.action
    booked = router.cash.book(
        Bill(
            attempt=f"{virtual.id}#1",
            decision=virtual.id,
            at=at,
            slots=virtual.slots,
            billed=settlement.amount if is_same else money.expected,
            expected=money.expected,
            worst=money.worst,
            record=_AS_SENT if is_same else _AS_PREDICTED,
        )
    )
    if booked is not None and virtual.slots[0] == router.pace.slot(at):
        router.pace.saw(at, booked.balances[0])


def release(router: Router, decision: Decision, at: int) -> None:
    """Give back the virtual hold of a call that was not sent or not billed."""
    if decision.shadowed is not None:
        router.cash.release(f"{decision.shadowed.id}#1", at)


def _time(router: Router, virtual: Decision) -> int:
    try:
        return micros_from_time(router.store.now())
    except StoreError:  # the till says so if the bill cannot be booked either
        return micros_from_time(virtual.at)


_AS_SENT = '{"source":"given","why":"the baseline is what it chose, so the real bill counts"}'
_AS_PREDICTED = '{"source":"predicted","why":"shadow mode sent the baseline instead"}'


def _virtual(
    router: Router, request: Request, decision_id: str, at: int
) -> tuple[Pick | None, Decision | None, str]:
    """Return what `on` would have decided, or why it would have raised."""
    pick = None
    draw = draw_of(request.seed or decision_id)
    window = router.pace.period(at).id
    try:
        pick = router.chooser.pick(request, draw, at)
        virtual = hold(router, pick, f"{_VIRTUAL}{decision_id}", at)
    except StoreError:
        raise
    except BudgetExceeded as err:
        router.comparing.refused(window)
        return pick, None, one_line(str(err))
    except (BudgetRouteError, *ROUTING_FAILURES) as err:
        told = str(err) if isinstance(err, BudgetRouteError) else type(err).__name__
        return pick, None, one_line(told)
    router.comparing.saw(pick, virtual.chosen, window)
    return pick, virtual, ""


def _sent(
    router: Router,
    usual: Pick,
    virtual: Decision | None,
    why_not: str,
    decision_id: str,
    at: int,
) -> Decision:
    """Hold the baseline, whatever is left, and return it as the decision."""
    chosen = usual.ranking.best[0]
    usual.said.append(shadow_words(chosen, virtual, why_not))
    applied = router.cash.applied(at, usual.request)
    limits = router.cash.limits(applied)
    period, group = router.pace.period(at), usual.group.removeprefix(KEY_PREFIX)
    outcome = router.store.reserve(
        Ask(
            attempt=f"{decision_id}#1",
            decision=decision_id,
            at=at,
            lease_until=lease_end(at, usual.request.timeout_s),
            limits=limits,
            options=(option(chosen),),
            record=decision_record(usual, (chosen,), beside=shadow_seen(virtual, why_not)),
            arrival=Arrival(group, period.bucket(at)) if group else None,
        )
    )
    if isinstance(outcome, Refusal):
        raise router.cash.exceeded(outcome, applied[0], at)
    held = Held(applied=applied, balance=outcome.balances[0])
    made = decision_of(usual, chosen, decision_id, at, held=held)
    return replace(made, baseline=chosen, shadowed=virtual, unshadowed=why_not)
