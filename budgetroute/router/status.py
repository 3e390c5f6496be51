"""Where the budget stands, for `router.status()` and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError
from budgetroute.records import InputSize, Request, Slot
from budgetroute.savings import savings_of
from budgetroute.units import micros_from_time, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from budgetroute.records import Applied, Balance
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
        quarantined: model → when it may be asked again, of models that their providers do not know.
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
    quarantined: Mapping[str, datetime] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> Iterator[str]:
        """Return the names of the fields, so that `dict(status)` works."""
        return iter(self.__slots__)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, times as ISO strings."""
        return asdict(self) | {
            "resets_at": self.resets_at.isoformat(),
            "quarantined": {name: at.isoformat() for name, at in self.quarantined.items()},
        }


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
        quarantined=router.quarantine.until(at),
    )


def _virtual(router: Router, at: int, seen: Comparison) -> Virtual:
    (balance,) = router.store.snapshot([router.pace.slot(at)])
    return Virtual(
        spent_usd=usd_from_pico(balance.settled),
        held_usd=usd_from_pico(balance.held),
        calls=balance.calls,
        refused=seen.refused,
    )


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """Where one limit stands.

    Attributes:
        name: `day`, `week`, `month`, `run:ID`, or the name of its table.
        window: `day`, `week`, `month`, `total` or `run`.
        spent_usd: settled in its period, estimates included.
        held_usd: worst cases of calls in flight and what estimated calls may still cost.
        limit_usd: the limit.
        hard_usd: what calls are refused beyond; None = never refused.
        remaining_usd: what is left before calls are refused, never below 0; where none is ever
            refused, what is left of the limit.
        over_usd: spent beyond the limit, 0 while it holds.
        is_soft: the limit tells and never refuses.
        calls: attempts sent or in flight in the period.
        resets_at: when it starts anew, in the budget's zone; None for a total and a run.
    """

    name: str
    window: str
    spent_usd: float
    held_usd: float
    limit_usd: float
    hard_usd: float | None
    remaining_usd: float
    over_usd: float
    is_soft: bool
    calls: int
    resets_at: datetime | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, times as ISO strings."""
        at = self.resets_at
        return asdict(self) | {"resets_at": None if at is None else at.isoformat()}


def limits_of(router: Router, route: str, tags: Mapping[str, str]) -> tuple[LimitStatus, ...]:
    """Return where the limits stand that a call of this route with these tags counts in."""
    given: Mapping[str, object] = tags
    odd = next((name for name, value in given.items() if not isinstance(value, str)), None)
    if odd is not None:
        raise ConfigError(f"limits(tags=…): the value of {odd!r} is {tags[odd]!r}; write a string")
    at = micros_from_time(router.store.now())
    applied = router.cash.applied(at, Request(route, "", InputSize(0, 0), tags=tags))
    return router.cash.standing(applied, at)


def limit_status(limit: Applied, balance: Balance, resets_at: datetime | None) -> LimitStatus:
    """Return where a limit stands with these sums."""
    most, taken = limit.usd or 0, balance.settled + balance.held
    end = most if limit.last is None else limit.last
    return LimitStatus(
        name=limit.name,
        window=limit.window,
        spent_usd=usd_from_pico(balance.settled),
        held_usd=usd_from_pico(balance.held),
        limit_usd=usd_from_pico(most),
        hard_usd=None if limit.last is None else usd_from_pico(limit.last),
        remaining_usd=usd_from_pico(max(0, end - taken)),
        over_usd=usd_from_pico(max(0, balance.settled - most)),
        is_soft=limit.is_soft,
        calls=balance.calls,
        resets_at=resets_at,
    )
