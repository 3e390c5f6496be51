"""Where a budget stands, gathered from the router and the ledger: what `status` shows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.cli.entries import decided
from budgetroute.cli.opening import ledger_file
from budgetroute.cli.pacing import planned
from budgetroute.cli.wording import money
from budgetroute.records import InputSize, Slot, Terms
from budgetroute.units import micros_from_time, pico_from_usd, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from budgetroute.cli.entries import Decided
    from budgetroute.cli.pacing import Planned
    from budgetroute.records import Entry
    from budgetroute.router import Router
    from budgetroute.router.scopes import Rule
    from budgetroute.router.status import LimitStatus, Status
    from budgetroute.units import Pico

LOOKED_AT = 5_000
"""Newest attempts that the table of actions is made from: 0.1 s to read."""
_SMALL = 200  # newest decisions whose least worst case says what a call must be able to hold
_UNKNOWN = "not recorded"
_EVERY = {"day": "a day", "week": "a week", "month": "a month", "total": "in all"}
BUDGETS = frozenset({"day", "week", "month"})
"""Names of the limits that every call counts in."""


@dataclass(frozen=True, slots=True)
class Bought:
    """What one action was used for today.

    Attributes:
        action: its label.
        calls: attempts sent.
        spent: what was booked for them so far.
        reward: mean predicted reward; None where none was predicted.
    """

    action: str
    calls: int
    spent: Pico
    reward: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the budget stands.

    Attributes:
        status: the router's own account.
        now: the store's time, in the budget's zone.
        timezone: the zone's name.
        mode: `on`, `shadow` or `off`.
        stepped_at: when λ was last set; None before the first call.
        caps: the limits that are shown, the paced day first.
        each: (name, in words) of limits that are one of many, where no call was asked for.
        prices: name → λ of limits that are paced by themselves.
        is_of_call: the limits are those that one kind of call counts in.
        bought: actions used today, most used first.
        looked_at: attempts of today that `bought` was made from.
        is_partial: there were more of them.
        needed: what the cheapest call must be able to hold.
        has_ledger: something was recorded already, by whatever app; None = not on disk.
        planned: the plan and what it goes by.
    """

    status: Status
    now: datetime
    timezone: str
    mode: str
    stepped_at: datetime | None
    caps: tuple[LimitStatus, ...]
    each: tuple[tuple[str, str], ...]
    prices: Mapping[str, float]
    is_of_call: bool
    bought: tuple[Bought, ...]
    looked_at: int
    is_partial: bool
    needed: Pico
    has_ledger: bool | None
    planned: Planned

    @property
    def tightest(self) -> LimitStatus:
        """Return the limit with the least left, of those that every call, or the one, counts in."""
        binding = [cap for cap in self.caps if cap.hard_usd is not None]
        everyones = [cap for cap in binding if self.is_of_call or cap.name in BUDGETS]
        return min(everyones or self.caps, key=lambda cap: cap.remaining_usd)

    @property
    def is_exhausted(self) -> bool:
        """Say whether not even the cheapest call fits."""
        left = self.tightest.remaining_usd
        return self.mode == "on" and (left <= 0 or left < usd_from_pico(self.needed))

    def to_json(self) -> dict[str, Any]:
        """Return plain values; amounts in dollars, times as ISO strings."""
        price = self.status.shadow_price
        return self.status.to_json() | {
            "now": self.now.isoformat(),
            "timezone": self.timezone,
            "mode": self.mode,
            "exhausted": self.is_exhausted,
            "needed_usd": usd_from_pico(self.needed),
            "usd_per_correct_answer": 1 / price if price else None,
            "stepped_at": None if self.stepped_at is None else self.stepped_at.isoformat(),
            "plan": self.planned.to_json(),
            "limits": [cap.to_json() for cap in self.caps],
            "limits_each": dict(self.each),
            "limits_shadow_price": dict(self.prices),
            "actions": [_bought_json(line) for line in self.bought],
            "actions_from_attempts": self.looked_at,
            "actions_are_partial": self.is_partial,
        }


def standing(
    router: Router, *, route: str | None = None, tags: Mapping[str, str] | None = None
) -> Standing:
    """Gather where the budget stands; reads the ledger, and steps a plan whose period has ended.

    Args:
        router: the app's router.
        route: show the limits that a call of this route counts in.
        tags: show the limits that a call with these tags counts in.

    Raises:
        StoreError: the ledger cannot be reached.
    """
    status = router.status()
    at = micros_from_time(router.store.now())
    zone = router.till.day.zone
    plan = router.pace.known()
    newest = router.store.recent(LOOKED_AT)
    slot = Slot(router.cash.scope, status.window)
    today = _of_slot(newest, slot)
    path = ledger_file(router.config)
    is_of_call = route is not None or bool(tags)
    return Standing(
        status=status,
        now=time_from_micros(at).astimezone(zone),
        timezone=router.config.budget.timezone,
        mode=router.config.mode,
        stepped_at=None if plan is None else time_from_micros(plan.made_at).astimezone(zone),
        caps=_caps(router, at, route, tags),
        each=() if is_of_call else tuple(_each(router.cash.scopes.rules)),
        prices=router.paces.prices(),
        is_of_call=is_of_call,
        bought=_bought(today),
        looked_at=len(today),
        is_partial=len(newest) == LOOKED_AT and slot in newest[-1].slots,
        needed=_needed(router, today),
        has_ledger=None if path is None else path.exists(),
        planned=planned(router, at),
    )


def _of_slot(newest: Iterable[Entry], slot: Slot) -> list[Entry]:
    return [e for e in newest if slot in e.slots and e.row.state != "released"]


def _caps(
    router: Router, at: int, route: str | None, tags: Mapping[str, str] | None
) -> tuple[LimitStatus, ...]:
    if route is None and not tags:
        return router.cash.standing(router.cash.overview(at), at)
    return router.limits(route=route or "", tags=tags)


def _each(rules: Iterable[Rule]) -> Iterable[tuple[str, str]]:
    for rule in rules:
        if rule.per is not None:
            amounts = [f"{money(cap.usd)} {_EVERY[cap.window.kind]}" for cap in rule.caps]
            soft = ", soft" if any(cap.last is None for cap in rule.caps) else ""
            yield rule.name, f"{' and '.join(amounts)} for each {rule.per}{soft}"


def _bought(today: Sequence[Entry]) -> tuple[Bought, ...]:
    records = {entry.decision: decided(entry) for entry in reversed(today) if _is_first(entry)}
    chosen = {entry.decision: entry.chosen for entry in today if _is_first(entry)}
    groups: dict[str, list[tuple[Entry, float | None]]] = defaultdict(list)
    for entry in today:
        label, reward = _choice(records.get(entry.decision), chosen.get(entry.decision, 0))
        groups[label].append((entry, reward))
    made = [_summed(label, pairs) for label, pairs in groups.items()]
    return tuple(sorted(made, key=lambda line: (-line.calls, line.action)))


def _is_first(entry: Entry) -> bool:
    """Say whether an attempt carries its decision's record; a retry's says nothing."""
    return entry.attempt == f"{entry.decision}#1"


def _choice(record: Decided | None, chosen: int) -> tuple[str, float | None]:
    label = None if record is None else record.label(chosen)
    if record is None or label is None:
        return _UNKNOWN, None
    row = record.row(label)
    return label, None if row is None else row.reward


def _summed(label: str, pairs: Sequence[tuple[Entry, float | None]]) -> Bought:
    rewards = [reward for _, reward in pairs if reward is not None]
    return Bought(
        action=label,
        calls=len(pairs),
        spent=sum(entry.row.amount for entry, _ in pairs),
        reward=sum(rewards) / len(rewards) if rewards else None,
    )


def _needed(router: Router, today: Sequence[Entry]) -> Pico:
    """Return what the cheapest call must be able to hold.

    As the latest decisions saw it; before there are any, the cheapest action at an empty prompt,
    which no call can undercut.
    """
    seen = [usd for entry in today[:_SMALL] if _is_first(entry) for usd in decided(entry).worst]
    if seen:
        return pico_from_usd(min(seen))
    nothing, at_once = InputSize(0, 0), Terms(seconds=0.0)
    bounds = [
        row.worst(nothing, overhead=0, calls=1, terms=at_once)
        for row in router.equipment.table().rows
    ]
    return min(bound for bound in bounds if bound is not None)


def _bought_json(line: Bought) -> dict[str, Any]:
    return {
        "action": line.action,
        "calls": line.calls,
        "spent_usd": usd_from_pico(line.spent),
        "predicted_reward": line.reward,
    }
