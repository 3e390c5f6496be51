"""The app's pacers: one for the budget, one for each limit with `pace = true`.

A request pays the dearest shadow price of the scopes it counts in: prices of one resource do not add.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from budgetroute.router.paces import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.pacing import PacingPlan
    from budgetroute.protocols import Observer
    from budgetroute.records import Balance, Request, Slot
    from budgetroute.router.equipment import Equipment
    from budgetroute.router.scopes import Rule, Scopes
    from budgetroute.router.till import Till

MARK = "@"
"""Stands in a group's key before the mark of each paced limit that its requests count in."""


class Paces:
    """The pacers; those of limits are made at the first request that counts there.

    Args:
        main: the budget's own.
        scopes: the limits, and their keys.
        make: makes the pacer of a limit.
    """

    def __init__(self, main: Pace, scopes: Scopes, make: Callable[[Rule], Pace]) -> None:
        self.main = main
        if main.solver is not None:
            main.solver.dearer = self._plans
        self._scopes = scopes
        self._make = make
        self._rules = tuple(rule for rule in scopes.rules if rule.is_paced)
        self._made: dict[str, Pace] = {}

    def of(self, request: Request) -> tuple[Pace, ...]:
        """Return the pacers of the scopes that a request counts in, the budget's first.

        Raises:
            StoreError: the key of scopes cannot be read.
        """
        if not self._rules:
            return (self.main,)
        mine = [self._pace(rule) for rule in self._rules if rule.holds(request)]
        return (self.main, *mine)

    def seen(self, request: Request) -> tuple[Pace, ...]:
        """Return those of them that were made already; asks no store."""
        made = [self._made.get(rule.name) for rule in self._rules if rule.holds(request)]
        return (self.main, *[pace for pace in made if pace is not None])

    def saw(self, at: int, slots: Sequence[Slot], balances: Sequence[Balance]) -> None:
        """Let each pacer know its sums, where they are of the running period."""
        for pace in (self.main, *self._made.values()):
            slot = pace.slot(at)
            if slot in slots:
                pace.saw(at, balances[slots.index(slot)])

    def catch_up(self, at: int, slots: Sequence[Slot]) -> None:
        """Step the plans of these scopes whose period has ended.

        Raises:
            StoreError: the store cannot be reached.
        """
        self.main.catch_up(at)
        if self._made:
            keys = {slot.scope for slot in slots}
            for pace in list(self._made.values()):  # another thread may make one meanwhile
                if pace.scope in keys:
                    pace.catch_up(at)

    def prices(self) -> dict[str, float]:
        """Return name → λ of every paced limit that has a plan.

        Raises:
            StoreError: the store cannot be read.
        """
        plans = {pace.name: pace.known() for pace in map(self._pace, self._rules)}
        return {name: plan.high for name, plan in plans.items() if plan is not None}

    def _plans(self) -> dict[str, PacingPlan]:
        """Return mark → plan of every paced limit that has one, other processes' included."""
        found = {mark_of(p.scope): p.known() for p in map(self._pace, self._rules)}
        return {mark: plan for mark, plan in found.items() if plan is not None}

    def _pace(self, rule: Rule) -> Pace:
        made = self._made.get(rule.name)
        return made if made is not None else self._made.setdefault(rule.name, self._make(rule))


def mark_of(scope: str) -> str:
    """Return what groups of requests that count in a paced scope have in their keys.

    >>> mark_of("app|limit:07c1329e7728")
    '@07c1329e7728'
    """
    return MARK + scope.rpartition(":")[2]


def paces_of(equipment: Equipment, till: Till, *, observers: Sequence[Observer]) -> Paces:
    """Return the pacers of an app's limits."""
    config = equipment.config
    pace = partial(
        Pace,
        till.store,
        app=till.app,
        window=till.day,
        rule=equipment.rule(),
        curves=lambda calls: equipment.groups(calls, equipment.table().rows),
        observers=observers,
    )
    main = pace(
        scope=till.scope,
        limit_at=till.limit_at,
        daily=till.daily,
        carry_over=till.carry_over,
        calls_per_day=config.budget.calls_per_day,
    )

    def make(rule: Rule) -> Pace:
        scope, usd = till.scopes.key(rule), rule.cap("day").usd
        return pace(
            scope=scope,
            limit_at=lambda _: usd,
            daily=usd,
            calls_per_day=config.limits[rule.name].calls_per_day or config.budget.calls_per_day,
            name=rule.name,
            mark=mark_of(scope),
        )

    return Paces(main, till.scopes, make)
