"""Keeps the shadow price: loads the stored plan, steps it when a period has ended, writes it back."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from budgetroute import forecast, pacing
from budgetroute.pacing import PaceView, PacingPlan
from budgetroute.records import Balance, Slot
from budgetroute.router.keeping import kept, recalled
from budgetroute.router.periods import period_of
from budgetroute.router.solver import Prospect, Solver
from budgetroute.router.traffic import Traffic
from budgetroute.units import is_time, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.budget import Window
    from budgetroute.pacing import Group, PacingRule
    from budgetroute.protocols import Observer, Store
    from budgetroute.router.periods import Period
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.pace")

Curves: TypeAlias = "Callable[[float], Sequence[Group]]"
"""Number of calls → groups of requests with their curves."""

_FIRST_HOUR = 12  # buckets
_DAY = 86_400_000_000
_READ_AGAIN_US = 1_000_000
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(PacingPlan)


class Pace:
    """The pacer of one budget.

    Args:
        store: where the plan and the sums are.
        app: the app's name, first part of every key.
        scope: the paced scope's key.
        window: its budget window.
        limit_at: time → its budget in the window of that time.
        daily: one day's money.
        carry_over: days' money that the bank may hold.
        rule: the pacer's settings.
        curves: number of calls → their curves, over all that config offers.
        calls_per_day: the user's hint; None = none.
        observers: told of each change of λ.
        name: the limit's, as users know it.
        mark: what the groups of its requests have in their keys; "" = all requests.
    """

    def __init__(  # noqa: PLR0913 - one argument per thing that is wired or said
        self,
        store: Store,
        *,
        app: str,
        scope: str,
        window: Window,
        limit_at: Callable[[int], Pico],
        daily: Pico = 0,
        carry_over: float = 0.0,
        rule: PacingRule,
        curves: Curves,
        calls_per_day: float | None = None,
        observers: Sequence[Observer] = (),
        name: str = "day",
        mark: str = "",
    ) -> None:
        self.store = store
        self.app = app
        self.scope = scope
        self.window = window
        self.limit_at = limit_at
        self.rule = rule
        self.curves = curves
        self.calls_per_day = calls_per_day
        self.name = name
        self._mark = mark
        self._observers = observers
        self._period: Period | None = None
        self._seen: tuple[int, PacingPlan] | None = None
        self._read_at = 0
        self._bound: pacing.Bound | None = None  # that λ was last told to stand at
        self._daily: tuple[str, float | None] = ("", None)
        self._shape: tuple[str, tuple[float, ...] | None] = ("", None)
        self._span: tuple[float, float] | None = None
        self._last: tuple[str, int, Balance] = ("", 0, Balance())
        usual = calls_per_day or DEFAULT_CALLS_PER_DAY
        traffic = Traffic(store, app=app, usual=usual, mark=mark)
        self.solver = (
            Solver(store, app=app, rule=rule, traffic=traffic, daily=daily, carry_over=carry_over)
            if rule.pacer == "solve"
            else None
        )

    def period(self, at: int) -> Period:
        """Return the current period; computed anew only when the window turns."""
        kept = self._period
        if kept is None or not kept.holds(at):
            kept = self._period = period_of(self.window, time_from_micros(at))
        return kept

    def slot(self, at: int) -> Slot:
        """Return the slot the paced money is counted in."""
        return Slot(self.scope, self.period(at).id)

    def current(self, at: int, curves: Curves | None = None) -> PacingPlan:
        """Return the plan in force, after making it or stepping it if that is due.

        A step that another process wrote first stands; ours is dropped. A plan that is not due is
        read again at most once a second.

        Args:
            at: microseconds since 1970 UTC.
            curves: number of calls → the curves of what they can be sent to; asked for only when
                there is no plan yet. None = all that config offers.
        """
        seen = self.last_seen()
        if seen is not None and self._is_fresh(at) and not self._is_due(seen, at):
            return seen
        stored = self.store.load_plan(self.scope)
        self._read_at = at
        plan = self._decoded(stored.version, stored.value)
        if plan is not None and not self._is_due(plan, at):
            return plan
        view = self.view(plan, at)
        _say_if_moved(plan, view)
        fresh = self._started(view, curves) if plan is None else self._moved(plan, view, at)
        if not self._save(fresh, stored.version):
            return self.known() or fresh
        self._seen = (stored.version + 1, fresh)
        self._tell(plan, fresh, view)
        self.store.sweep(at)
        return fresh

    def allowance(self, plan: PacingPlan, at: int) -> Pico | None:
        """Return what the running period may still buy during warm-up; None outside it."""
        if not pacing.warming_up(self.rule, plan, now=at):
            return None
        balance = self._recent(at)
        view = self._seen_as(self.period(at), at, balance.settled, balance.settled)
        used = balance.settled + balance.expected - pacing.warmup_mark(self.rule, plan)
        return int(pacing.warmup_allowance(self.rule, plan, view)) - used

    def view(self, plan: PacingPlan | None, at: int) -> PaceView:
        """Return what the pacer sees: the window, its budget and what was settled."""
        period = self.period(at)
        slots = [Slot(self.scope, period.id)]
        if plan is not None and plan.window not in {"", period.id}:
            slots.append(Slot(self.scope, plan.window))
        balances = self.store.snapshot(slots)
        self.saw(at, balances[0])
        return self._seen_as(
            period,
            at,
            balances[0].settled,
            balances[-1].settled,
            expected=balances[0].expected,
        )

    def _seen_as(
        self, period: Period, at: int, settled: Pico, before: Pico, *, expected: Pico = 0
    ) -> PaceView:
        return PaceView(
            window=period.id,
            now=at,
            start=period.start,
            end=period.end,
            limit=self.limit_at(at),
            settled=settled,
            settled_before=before,
            expected=expected,
            share_of_rest=lambda start, end: forecast.share_of_rest(self.shape(period), start, end),
        )

    def shape(self, period: Period) -> tuple[float, ...] | None:
        """Return how traffic spread over past windows; read once per window."""
        if self.rule.target == "flat":
            return None
        if self._shape[0] != period.id:
            counts = self.store.arrivals(period.id.partition(":")[0] + ":")
            self._shape = (
                period.id,
                shape_of_past(counts, period.id, app=self.app, mark=self._mark),
            )
        return self._shape[1]

    def _is_due(self, plan: PacingPlan, at: int) -> bool:
        period = self.period(at)
        if self.solver is None:
            return pacing.due(self.rule, plan, window=period.id, start=period.start, now=at)
        window, _, balance = self._last
        return pacing.solving_due(
            plan,
            window=period.id,
            now=at,
            spent=balance.settled if window == period.id else 0,
            limit=self.limit_at(at),
        )

    def _moved(self, plan: PacingPlan, view: PaceView, at: int) -> PacingPlan:
        if self.solver is None or plan.made_at > view.now:
            return pacing.step(self.rule, plan, view)
        return self.solver.replanned(plan, view, self.period(at), at)

    def _is_fresh(self, at: int) -> bool:
        return 0 <= at - self._read_at < _READ_AGAIN_US

    def _started(self, view: PaceView, curves: Curves | None) -> PacingPlan:
        past = self._calls_seen(view.window)
        daily = self.calls_per_day or past or DEFAULT_CALLS_PER_DAY
        calls = daily * (view.end - view.start) / _DAY
        plan = pacing.start(self.rule, (curves or self.curves)(calls), view)
        return replace(plan, is_cold=past is None)

    def _calls_seen(self, window: str) -> float | None:
        """Return the calls of the latest window before this one, None when there was none."""
        kind = window.partition(":")[0] + ":"
        past = self.store.history(self.scope)
        full = [key for key in past if key.startswith(kind) and key < window and past[key].calls]
        return float(past[max(full)].calls) if full else None

    def _decoded(self, version: int, value: str | None) -> PacingPlan | None:
        if value is None:
            return None
        if self._seen is None or self._seen[0] != version:
            plan = _plan_from(value)
            if plan is None:
                return None
            self._seen = (version, pacing.in_force(self.rule, self._spanned(plan)))
        return self._seen[1]

    def _spanned(self, plan: PacingPlan) -> PacingPlan:
        """Return a kept plan with the bounds of today's curves: prices and profiles change.

        A solved plan has those of the groups that it was solved for, not a minute ago.
        """
        if self.solver is not None and plan.e_max:
            return plan
        if self._span is None:
            self._span = pacing.span(self.curves(1.0))
        return replace(plan, e_min=self._span[0], e_max=self._span[1])

    def known(self) -> PacingPlan | None:
        """Return the stored plan as it is, None before the first call."""
        stored = self.store.load_plan(self.scope)
        return self._decoded(stored.version, stored.value)

    def last_seen(self) -> PacingPlan | None:
        """Return the plan this process used last, without asking the store."""
        return None if self._seen is None else self._seen[1]

    def calls_to_come(self, at: int) -> float:
        """Return how many calls the window may still see."""
        if self.solver is not None and self.solver.requests:
            return self.solver.requests
        period = self.period(at)
        if self._daily[0] != period.id:
            self._daily = (period.id, self.calls_per_day or self._calls_seen(period.id))
        done = (at - period.start) / (period.end - period.start)
        return forecast.calls_to_come(
            self._calls_of(period),
            done=forecast.share_between(self.shape(period), 0.0, done),
            daily=self._daily[1],
        )

    @property
    def factors(self) -> Mapping[str, float]:
        """Return γ by family of actions, billed over predicted cost; read with `gamma_of`."""
        return {} if self.solver is None else self.solver.factors

    def prospect(self, at: int) -> Prospect:
        """Return the traffic still to come, how far ahead is planned, and γ, as the store has them.

        Raises:
            StoreError: the store cannot be read.
        """
        if self.solver is None:
            return Prospect(self.calls_to_come(at))
        return self.solver.prospect(self.period(at), at, self.limit_at(at))

    def saw(self, at: int, balance: Balance) -> None:
        """Note the window's sums after a reservation, so that they need not be asked for."""
        self._last = (self.period(at).id, at, balance)

    def _recent(self, at: int) -> Balance:
        """Return the window's sums as of less than a second ago, other processes' included."""
        window, seen_at, balance = self._last
        if window != self.period(at).id or not 0 <= at - seen_at < _READ_AGAIN_US:
            (balance,) = self.store.snapshot([self.slot(at)])
            self.saw(at, balance)
        return balance

    def _calls_of(self, period: Period) -> int:
        window, _, balance = self._last
        if window != period.id:
            (balance,) = self.store.snapshot([Slot(self.scope, period.id)])
        return balance.calls

    def catch_up(self, at: int) -> None:
        """Step a plan whose period has ended; without a plan there is nothing to do."""
        plan = self.last_seen() or self.known()
        if plan is not None and self._is_due(plan, at):
            self.current(at)

    def _save(self, plan: PacingPlan, version: int) -> bool:
        value = _ENCODER.encode(plan).decode()
        return kept(self.store, self.scope, value, version=version)

    def _tell(self, before: PacingPlan | None, after: PacingPlan, view: PaceView) -> None:
        bound, known = pacing.touched(self.rule, after), self._bound
        self._bound = bound
        if before is not None and before.high == after.high and bound in {None, known}:
            return
        fields: Mapping[str, object] = {
            "from": None if before is None else before.high,
            "to": after.high,
            "window": view.window,
            "settled": view.settled,
            "limit": view.limit,
            "elapsed": (view.now - view.start) / (view.end - view.start),
            "bound": bound,
            "scope": self.name,
        }
        for observer in self._observers:
            observer.stepped(fields)


DEFAULT_CALLS_PER_DAY = 1000.0
"""Traffic assumed when neither a hint nor a past day says otherwise; λ starts at its solution."""


def shape_of_past(
    counts: Mapping[tuple[str, str], int], window: str, *, app: str, mark: str = ""
) -> tuple[float, ...] | None:
    """Return the shape of an app's past windows from (group, bucket) counts; None without a past."""
    days: dict[str, dict[int, int]] = {}
    for (group, bucket), count in counts.items():
        day, _, number = bucket.partition("#")
        is_mine = group.startswith(f"{app}|") and mark in group
        if is_mine and day < window and int(number) < forecast.BUCKETS:
            per_bucket = days.setdefault(day, {})
            per_bucket[int(number)] = per_bucket.get(int(number), 0) + count
    first = min(days, default=None)
    if first is not None and min(days[first]) >= _FIRST_HOUR:
        del days[first]  # the app began in mid-day; that says nothing of mornings
    return forecast.shape_from_days([days[day] for day in sorted(days)])


def _say_if_moved(plan: PacingPlan | None, view: PaceView) -> None:
    if plan is not None and view.start - plan.made_at > view.end - view.start:
        logger.info(
            "from %s to %s nothing was asked, or the clock leapt; a whole window lies between",
            time_from_micros(plan.made_at).isoformat(),
            time_from_micros(view.now).isoformat(),
        )
    if plan is not None and plan.made_at > view.now:
        logger.warning(
            "the clock was set back from %s to %s; the sums of %s apply again",
            time_from_micros(plan.made_at).isoformat(),
            time_from_micros(view.now).isoformat(),
            view.window,
        )


def _plan_from(value: str) -> PacingPlan | None:
    what = "the kept shadow price cannot be read, pacing starts over"
    plan = recalled(_DECODER, value, what=what)
    if plan is not None and not (is_time(plan.made_at) and is_time(plan.born)):
        logger.warning("%s: its times lie beyond all bounds", what)
        return None
    return plan
