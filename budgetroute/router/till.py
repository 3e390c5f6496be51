"""The till: which limits apply, holds and bills at the store, and what is said when nothing fits."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from budgetroute.budget import ONE_OF_MANY, banked, period_bounds
from budgetroute.errors import BudgetExceeded, StoreError
from budgetroute.records import Applied, Limit, LimitWarning, Slot
from budgetroute.router.scopes import Scopes
from budgetroute.router.status import limit_status
from budgetroute.router.thresholds import Thresholds
from budgetroute.units import pico_from_usd, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from budgetroute.budget import Window
    from budgetroute.config import BudgetConfig, LimitConfig
    from budgetroute.protocols import Store
    from budgetroute.records import Balance, Bill, Booked, Decision, Refusal, Request
    from budgetroute.router.status import LimitStatus
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.spend")
_PENDING = 10_000
_NO_GUARDS: Mapping[Slot, Pico] = {}


class Till:
    """Holds and bills of one app.

    Args:
        store: the ledger.
        app: the app's name, first part of every scope's key.
        budget: the configured limits on everything.
        limits: those on some calls, by name.
        is_enforced: False counts what is spent and refuses nothing, as shadow mode does.
    """

    def __init__(
        self,
        store: Store,
        *,
        app: str,
        budget: BudgetConfig,
        limits: Mapping[str, LimitConfig] | None = None,
        is_enforced: bool = True,
    ) -> None:
        self.store = store
        self.is_enforced = is_enforced
        self.app = app
        self.scopes = Scopes(app=app, budget=budget, limits=limits or {}, secret=store.scope_key)
        self.scope = self.scopes.everything
        self.day = budget.window("day")
        self.daily = pico_from_usd(budget.daily_usd)
        self.carry_over = budget.carry_over
        self.hard = None if budget.hard_usd is None else pico_from_usd(budget.hard_usd)
        self._warn = tuple(sorted(budget.warn))
        self._thresholds = Thresholds(store)
        self._whole: tuple[str, tuple[Applied, ...]] = ("", ())
        self._limit: tuple[str, Pico] = ("", 0)
        self._pending: deque[Callable[[], object]] = deque(maxlen=_PENDING)

    def applied(self, at: int, request: Request) -> tuple[Applied, ...]:
        """Return every limit the request counts in: the paced day, wider ones, tables, runs.

        Raises:
            StoreError: the ledger, or the key of scopes, cannot be read.
        """
        today = self.scopes.period(self.day, at).id
        whole = self._whole  # another thread may be in another day
        if whole[0] != today:
            whole = self._whole = (today, self._bent((self._today(at), *self._wider(at))))
        if not (self.scopes.rules or request.run_limits):
            return whole[1]
        return (*whole[1], *self._bent(self.scopes.of(request, at, day=today)))

    def _bent(self, applied: Iterable[Applied]) -> tuple[Applied, ...]:
        """Return limits as they are, or such that refuse nothing."""
        if self.is_enforced:
            return tuple(applied)
        return tuple([replace(limit, first=None, last=None) for limit in applied])

    def _today(self, at: int) -> Applied:
        slot = Slot(self.scope, self.scopes.period(self.day, at).id)
        limit = self.limit_at(at)
        return Applied("day", "day", slot, limit, limit, max(limit, self.hard or 0), self._warn)

    def _wider(self, at: int) -> Iterator[Applied]:
        for cap in self.scopes.wider:
            kind = cap.window.kind
            slot = Slot(self.scope, self.scopes.period(cap.window, at).id)
            yield Applied(kind, kind, slot, cap.usd, cap.first, cap.last, self._warn)

    def standing(self, applied: Sequence[Applied], at: int) -> tuple[LimitStatus, ...]:
        """Return where limits stand; what is only counted is left out.

        Raises:
            StoreError: the ledger cannot be read.
        """
        told = [limit for limit in applied if limit.usd is not None]
        balances = self.store.snapshot([limit.slot for limit in told])
        return tuple(
            [
                limit_status(limit, balance, self.resets_at(limit, at))
                for limit, balance in zip(told, balances, strict=True)
            ]
        )

    def overview(self, at: int) -> tuple[Applied, ...]:
        """Return every limit that is not one of many, whichever calls it is for."""
        today = self.scopes.period(self.day, at).id
        whole = (self._today(at), *self._wider(at), *self.scopes.standing(at, day=today))
        return self._bent(whole)

    def named(self, slots: Sequence[Slot]) -> dict[Slot, tuple[tuple[str, Pico | None], ...]]:
        """Return slot → (name, limit) of the limits that the configuration has there, runs included.

        Raises:
            StoreError: the key of scopes cannot be read.
        """
        return {slot: found for slot in slots if (found := tuple(self._names(slot)))}

    def _names(self, slot: Slot) -> Iterator[tuple[str, Pico | None]]:
        kind = slot.period.partition(":")[0]
        if slot.scope == self.scope:
            wider = [cap.usd for cap in self.scopes.wider if cap.window.kind == kind]
            yield kind, self.daily if kind == "day" else next(iter(wider), None)
        elif slot.scope.startswith(run := f"{self.app}|run:"):
            yield "run:" + slot.scope.removeprefix(run), None
        for rule in self.scopes.rules:
            if slot.scope.partition(ONE_OF_MANY)[0] == self.scopes.key(rule):
                yield from ((rule.name, cap.usd) for cap in rule.caps if cap.window.kind == kind)

    def limits(
        self, applied: Sequence[Applied], guards: Mapping[Slot, Pico] = _NO_GUARDS
    ) -> tuple[Limit, ...]:
        """Return what the store is to hold against, with what paced scopes keep free."""
        return tuple([Limit(a.slot, a.first, guards.get(a.slot, 0)) for a in applied])

    def hardened(self, applied: Sequence[Applied]) -> tuple[Limit, ...] | None:
        """Return the limits for degraded service; None where no limit has any."""
        if all(a.first == a.last or (a.first is None) for a in applied):
            return None
        return tuple([Limit(a.slot, a.last) for a in applied])

    def limit_at(self, at: int) -> Pico:
        """Return the day's limit: `daily_usd`, and what past days left in the bank.

        The bank is summed up from the ledger once in a day, with the whole of what is on its way
        then; a bill that comes later still than that changes tomorrow's.
        """
        if self.carry_over == 0:
            return self.daily
        today = self.scopes.period(self.day, at).id
        if self._limit[0] != today:
            spent = {key: _gone(sums) for key, sums in self.store.history(self.scope).items()}
            bank = banked(spent, today=today, daily=self.daily, carry_over=self.carry_over)
            self._limit = (today, self.daily + bank)
        return self._limit[1]

    def book(self, bill: Bill) -> Booked | None:
        """Book a bill, and after it those an unreachable store left behind.

        Returns None when the store cannot be reached: the bill is kept in memory and its hold
        stays in the ledger, so no money is forgotten; the next operation tries again.
        """
        try:
            booked = self.store.settle(bill)
        except StoreError as err:
            self._keep(partial(self.store.settle, bill), f"settlement of {bill.attempt}", err)
            return None
        self.book_pending()
        return booked

    def release(self, attempt: str, at: int) -> None:
        """Give back what a call that costs nothing holds; later, if the store cannot be reached."""
        back = partial(self.store.release, attempt, at)
        try:
            back()
        except StoreError as err:
            self._keep(back, f"release of {attempt}", err)

    def _keep(self, work: Callable[[], object], what: str, err: StoreError) -> None:
        if len(self._pending) == _PENDING:
            logger.critical(
                "%d settlements wait already; the oldest is dropped, its hold becomes an estimate",
                _PENDING,
            )
        self._pending.append(work)
        logger.warning("%s waits in memory, its hold stays: %s", what, err)

    def book_pending(self) -> None:
        """Do what waits in memory, bills and releases, until the store cannot be reached.

        One that cannot be booked, its row is damaged, goes to the end: it keeps no other waiting.
        """
        failed = 0
        while self._pending:
            try:
                work = self._pending.popleft()
            except IndexError:  # another thread took it
                return
            try:
                work()
            except StoreError as err:
                failed += 1
                if err.retryable:
                    self._pending.appendleft(work)
                    return
                self._pending.append(work)
                if failed > 1:
                    return

    def exceeded(self, refusal: Refusal, limit: Applied, at: int) -> BudgetExceeded:
        """Return the error that names the limit which refused."""
        balance = refusal.balance
        return BudgetExceeded(
            limit.name,
            window=limit.window,
            spent_usd=usd_from_pico(balance.settled),
            held_usd=usd_from_pico(balance.held),
            limit_usd=usd_from_pico(refusal.limit.limit or 0),
            needed_usd=usd_from_pico(refusal.needed),
            resets_at=self.resets_at(limit, at),
        )

    def crossed(
        self, decision: Decision, balances: Sequence[Balance], at: int
    ) -> Iterator[LimitWarning]:
        """Yield what a bill made spending cross, to one of all processes and once per period."""
        if any(limit.warn for limit in decision.limits):
            for limit, balance, share in self._thresholds.of(decision.limits, balances):
                yield self._warning(limit, balance, share, at)

    def exhausted(self, limit: Applied, balance: Balance, at: int) -> LimitWarning | None:
        """Return the warning of a limit that refused every candidate; None if it was told."""
        if self._thresholds.exhausted(limit):
            return self._warning(limit, balance, 1.0, at)
        return None

    def _warning(self, limit: Applied, balance: Balance, share: float, at: int) -> LimitWarning:
        return LimitWarning(
            app=self.app,
            limit=limit.name,
            window=limit.window,
            period=limit.slot.period,
            share=share,
            spent_usd=usd_from_pico(balance.settled),
            held_usd=usd_from_pico(balance.held),
            limit_usd=usd_from_pico(limit.usd or 0),
            is_soft=limit.is_soft,
            resets_at=self.resets_at(limit, at),
            value=limit.value,
        )

    def resets_at(self, limit: Applied, at: int) -> datetime | None:
        """Return when a limit starts anew, in the budget's zone; None for a total and a run."""
        if limit.window in {"total", "run"}:
            return None
        window = self.window(limit.window)
        return period_bounds(window, time_from_micros(at))[1].astimezone(window.zone)

    def window(self, kind: str) -> Window:
        """Return a window of the budget's calendar."""
        return replace(self.day, kind=kind)  # type: ignore[arg-type]  # one of its kinds


def _gone(sums: Balance) -> Pico:
    """Return what a past day cannot hand on: its bills and, while any are out, its holds."""
    return sums.settled + (sums.held if sums.expected else 0)
