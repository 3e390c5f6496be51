"""Where the budget stands, for `router.status()` and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.records import Slot
from budgetroute.savings import savings_of
from budgetroute.units import micros_from_time, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from budgetroute.router.core import Router
    from budgetroute.savings import Comparison, Savings


@dataclass(frozen=True, slots=True)
class Virtual:
    """What `on` would have done with the budget, as shadow mode sees it.

    Attributes:
        spent_usd: predicted cost of the calls it would have made.
        held_usd: worst cases of its calls in flight.
        calls: how many calls it would have made.
        refused: how many the budget would have refused.
    """

    spent_usd: float
    held_usd: float
    calls: int
    refused: int


@dataclass(frozen=True, slots=True)
class Status:
    """Where the paced budget stands; reads as attributes, as `status["spent_usd"]` and as `dict`.

    Attributes:
        name: the app.
        spent_usd: settled in the window, estimates included.
        held_usd: worst cases of calls in flight and what estimated calls may still cost.
        limit_usd: the budget.
        remaining_usd: limit − spent − held, never below 0.
        shadow_price: λ, reward per dollar; None before the first call.
        window: id of the budget window.
        resets_at: when the next window begins, in the budget's time zone.
        calls: attempts sent or in flight in the window.
        estimated: how many of them were settled without a reported usage.
        planned_usd: what an even spend would have reached by now.
        uncounted: calls let through without a ledger since this process began.
        mode: `on`, `shadow` or `off`. In shadow mode the figures above are the real spend, which
            the limit does not bind; λ is the virtual one.
        savings: this window's choices next to the baseline's and to single actions; None before the
            first comparable call.
        virtual: in shadow mode, what `on` would have spent and held of the same budget.
    """

    name: str
    spent_usd: float
    held_usd: float
    limit_usd: float
    remaining_usd: float
    shadow_price: float | None
    window: str
    resets_at: datetime
    calls: int
    estimated: int
    planned_usd: float
    uncounted: int = 0
    mode: str = "on"
    savings: Savings | None = None
    virtual: Virtual | None = None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> Iterator[str]:
        """Return the names of the fields, so that `dict(status)` works."""
        return iter(self.__slots__)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, times as ISO strings."""
        return asdict(self) | {"resets_at": self.resets_at.isoformat()}


def status_of(router: Router) -> Status:
    """Return where a router's budget stands; steps a plan whose period has ended.

    Raises:
        StoreError: the ledger cannot be reached.
    """
    store, pace = router.store, router.pace
    at = micros_from_time(store.now())
    store.sweep(at)
    pace.catch_up(at)
    period = pace.period(at)
    (balance,) = store.snapshot([Slot(router.cash.scope, period.id)])
    plan = pace.known()
    elapsed = pace.view(plan, at).share_of_rest(
        0.0, (at - period.start) / (period.end - period.start)
    )
    limit = router.till.limit_at(at)
    seen = router.comparing.of(period.id)
    return Status(
        name=router.config.name,
        spent_usd=usd_from_pico(balance.settled),
        held_usd=usd_from_pico(balance.held),
        limit_usd=usd_from_pico(limit),
        remaining_usd=usd_from_pico(max(0, limit - balance.settled - balance.held)),
        shadow_price=None if plan is None else plan.high,
        window=period.id,
        resets_at=time_from_micros(period.end).astimezone(router.till.day.zone),
        calls=balance.calls,
        estimated=balance.estimated,
        planned_usd=usd_from_pico(limit) * elapsed,
        uncounted=router.uncounted,
        mode=router.config.mode,
        savings=savings_of(seen) if seen.routed.calls else None,
        virtual=_virtual(router, at, seen) if router.is_shadow else None,
    )


def _virtual(router: Router, at: int, seen: Comparison) -> Virtual:
    (balance,) = router.store.snapshot([router.pace.slot(at)])
    return Virtual(
        spent_usd=usd_from_pico(balance.settled),
        held_usd=usd_from_pico(balance.held),
        calls=balance.calls,
        refused=seen.refused,
    )
