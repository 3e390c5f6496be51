"""The till: which limits apply, holds and bills at the store, and what is said when nothing fits."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from budgetroute.budget import Window, banked, period_bounds
from budgetroute.errors import BudgetExceeded, StoreError
from budgetroute.records import Limit, Slot
from budgetroute.router.periods import period_of
from budgetroute.units import pico_from_usd, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from datetime import datetime

    from budgetroute.config import BudgetConfig
    from budgetroute.protocols import Store
    from budgetroute.records import Balance, Bill, Booked, Refusal, Request
    from budgetroute.router.periods import Period
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.spend")
_PENDING = 10_000


class Till:
    """Holds and bills of one app.

    Args:
        store: the ledger.
        app: the app's name, first part of every scope's key.
        budget: the configured limits.
        is_enforced: False counts what is spent and refuses nothing, as shadow mode does.
    """

    def __init__(
        self, store: Store, *, app: str, budget: BudgetConfig, is_enforced: bool = True
    ) -> None:
        self.store = store
        self.is_enforced = is_enforced
        self.app = app
        self.scope = f"{app}|all"
        self.day = Window("day", budget.zone, budget.reset_hour)
        self.daily = pico_from_usd(budget.daily_usd)
        self.carry_over = budget.carry_over
        self.hard = None if budget.hard_usd is None else pico_from_usd(budget.hard_usd)
        week = Window("week", budget.zone, budget.reset_hour)
        month = Window("month", budget.zone, budget.reset_hour)
        self._wider: list[tuple[Window, Pico]] = [
            (window, pico_from_usd(usd))
            for window, usd in ((week, budget.weekly_usd), (month, budget.monthly_usd))
            if usd is not None
        ]
        self._periods: dict[str, Period] = {}
        self._limit: tuple[str, Pico] = ("", 0)
        self._pending: deque[Bill] = deque(maxlen=_PENDING)

    def limits(self, at: int, request: Request, *, guard: Pico = 0) -> tuple[Limit, ...]:
        """Return every slot the request counts in, the paced day first."""
        day = Limit(Slot(self.scope, self._period(self.day, at).id), self.limit_at(at), guard)
        wider = tuple(
            Limit(Slot(self.scope, self._period(window, at).id), usd) for window, usd in self._wider
        )
        runs = tuple(
            Limit(Slot(f"{self.app}|run:{run}", "once"), usd) for run, usd in request.run_limits
        )
        every = (day, *wider, *runs)
        return every if self.is_enforced else tuple([Limit(each.slot, None) for each in every])

    def limit_at(self, at: int) -> Pico:
        """Return the day's limit: `daily_usd`, and what past days left in the bank.

        The bank is summed up from the ledger once in a day, with the whole of what is on its way
        then; a bill that comes later still than that changes tomorrow's.
        """
        if self.carry_over == 0:
            return self.daily
        today = self._period(self.day, at).id
        if self._limit[0] != today:
            spent = {key: _gone(sums) for key, sums in self.store.history(self.scope).items()}
            bank = banked(spent, today=today, daily=self.daily, carry_over=self.carry_over)
            self._limit = (today, self.daily + bank)
        return self._limit[1]

    def hardened(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """Return the limits with the day's raised to `hard_usd`, for degraded service."""
        day = limits[0]
        return (Limit(day.slot, max(self.hard or 0, day.limit or 0)), *limits[1:])

    def book(self, bill: Bill) -> Booked | None:
        """Book a bill, and after it those an unreachable store left behind.

        Returns None when the store cannot be reached: the bill is kept in memory and its hold
        stays in the ledger, so no money is forgotten; the next operation tries again.
        """
        try:
            booked = self.store.settle(bill)
        except StoreError as err:
            if len(self._pending) == _PENDING:
                logger.critical(
                    "%d settlements wait already; the oldest is dropped, its hold becomes an estimate",
                    _PENDING,
                )
            self._pending.append(bill)
            logger.warning(
                "settlement of %s waits in memory, its hold stays: %s", bill.decision, err
            )
            return None
        self.book_pending()
        return booked

    def book_pending(self) -> None:
        """Book the bills that wait in memory, until the store refuses one."""
        while self._pending:
            try:
                bill = self._pending.popleft()
            except IndexError:  # another thread took it
                return
            try:
                self.store.settle(bill)
            except StoreError:
                self._pending.appendleft(bill)
                return

    def exceeded(self, refusal: Refusal, at: int) -> BudgetExceeded:
        """Return the error that names the limit which refused."""
        limit, balance = refusal.limit, refusal.balance
        return BudgetExceeded(
            self.scope_name(limit.slot),
            spent_usd=usd_from_pico(balance.settled),
            held_usd=usd_from_pico(balance.held),
            limit_usd=usd_from_pico(limit.limit or 0),
            needed_usd=usd_from_pico(refusal.needed),
            resets_at=self._resets_at(limit.slot, at),
        )

    def scope_name(self, slot: Slot) -> str:
        """Return a scope as users know it: `day`, `week`, `month` or `run:ID`."""
        name = slot.scope.removeprefix(f"{self.app}|")
        return slot.period.partition(":")[0] if name == "all" else name

    def _resets_at(self, slot: Slot, at: int) -> datetime | None:
        kind = slot.period.partition(":")[0]
        for window in (self.day, *(w for w, _ in self._wider)):
            if window.kind == kind:
                return period_bounds(window, time_from_micros(at))[1].astimezone(window.zone)
        return None

    def _period(self, window: Window, at: int) -> Period:
        kept = self._periods.get(window.kind)
        if kept is None or not kept.holds(at):
            kept = self._periods[window.kind] = period_of(window, time_from_micros(at))
        return kept


def _gone(sums: Balance) -> Pico:
    """Return what a past day cannot hand on: its bills and, while any are out, its holds."""
    return sums.settled + (sums.held if sums.expected else 0)
