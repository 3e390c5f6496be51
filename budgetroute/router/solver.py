"""What the solving pacer works with: curves by group, traffic to come, and γ by family of actions.

Groups are (route, prompt type, input-size bin, pins). Each process knows the curves of the groups it
serves and writes them to the store, so that any process can solve for all.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from budgetroute import pacing
from budgetroute.pacing import Calibration
from budgetroute.router.keeping import kept, recalled
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.pacing import PaceView, PacingPlan, PacingRule, Program
    from budgetroute.protocols import Store
    from budgetroute.records import Action
    from budgetroute.router.periods import Period
    from budgetroute.router.traffic import Traffic
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.pace")

_ENCODER = msgspec.json.Encoder()
_CALIBRATION = msgspec.json.Decoder(Calibration)
_TRIES = 5
_WORTH_A_WRITE = 25  # calls


@dataclass(frozen=True, slots=True)
class Curve:
    """A group's actions as (family, dollars of one call at γ = 1, reward), and its calls."""

    points: tuple[tuple[str, float, float], ...]
    calls: int = 1

    def at(self, factors: Mapping[str, float]) -> tuple[tuple[float, float], ...]:
        """Return (dollars, reward) with γ applied."""
        n, gamma = self.calls, pacing.gamma_of
        return tuple([(n * c * gamma(factors, f), r) for f, c, r in self.points])


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a plan goes by.

    Attributes:
        to_come: requests still to come in the window.
        days_ahead: how many days beyond today the plan looks.
        factors: γ by family of actions, read with `gamma_of`.
    """

    to_come: float
    days_ahead: float = 0.0
    factors: Mapping[str, float] = field(default_factory=dict)


_CURVE = msgspec.json.Decoder(Curve)


class Solver:
    """Solves for λ.

    Attributes:
        factors: γ by family of actions; a new mapping when it moved.
        requests: how many are still to come, as of the last solution.
        dearer: returns mark → plan of scopes whose requests, those with the mark in their group's
            key, pay that price where it is dearer than the solution; none unless it is set.

    Args:
        store: where curves of other processes' groups and γ are kept.
        app: the app's name, first part of every key.
        rule: the pacer's settings.
        traffic: what was counted.
        daily: one day's money.
        carry_over: days' money that the bank may hold; 0 = no bank, no day but today.
    """

    def __init__(
        self,
        store: Store,
        *,
        app: str,
        rule: PacingRule,
        traffic: Traffic,
        daily: Pico = 0,
        carry_over: float = 0.0,
    ) -> None:
        self.traffic = traffic
        self.factors: Mapping[str, float] = {}
        self._daily = daily
        self._carry_over = carry_over
        self._store = store
        self._app = app
        self._rule = rule
        self._own: dict[str, tuple[object, Callable[[], Curve]]] = {}
        self._fresh: set[str] = set()  # groups whose curve is to be made anew
        self.requests = 0.0
        self.dearer: Callable[[], Mapping[str, PacingPlan]] = dict
        self._curves: dict[str, Curve] = {}
        self._program: tuple[tuple[str, ...], Mapping[str, float], Program] | None = None
        self._window = ""
        self._lock = threading.Lock()
        self._solving = threading.Lock()
        self._seen: dict[str, tuple[float, float]] = {}
        self._calls = 0
        _solvers.add(self)

    def unlock(self) -> None:
        """Take fresh locks: in a forked child nobody is left to free those another thread held."""
        self._lock, self._solving = threading.Lock(), threading.Lock()

    def serves(self, group: str, stamp: object, make: Callable[[], Curve]) -> None:
        """Note that this process serves a group, and how its curve is made.

        Args:
            group: its key.
            stamp: what the curve depends on; while it is equal, the curve is not made anew.
            make: makes the curve.
        """
        known = self._own.get(group)
        if known is None or known[0] != stamp:
            self._own[group] = (stamp, make)
            self._fresh.add(group)

    def billed(self, action: Action, *, predicted: float, billed: float) -> None:
        """Note a settled call, for γ; dollars, the prediction at γ = 1."""
        with self._lock:
            before = self._seen.get(action.family, (0.0, 0.0))
            self._seen[action.family] = (before[0] + predicted, before[1] + billed)
            self._calls += 1

    def replanned(self, plan: PacingPlan, view: PaceView, period: Period, at: int) -> PacingPlan:
        """Return the plan that spends what is left on what is still to come."""
        with self._solving:
            to_come = self.traffic.to_come(period, at)
            self._calibrate(view)
            self._refresh(view.window)
            self.requests = sum(to_come.values())
            groups = tuple(g for g in to_come if self._curve(g) is not None)
            program = self._prepared(groups)
            days, later = self._ahead()
            counts = [to_come[g] + days * later.get(g, 0.0) for g in groups]
        ahead = round(days * self._daily)
        return pacing.resolved(self._rule, plan, view, program, counts, ahead=ahead)

    def prospect(self, period: Period, at: int, limit: Pico) -> Prospect:
        """Return what a solution would go by now; reads the store, solves and writes nothing.

        Args:
            period: the current window.
            at: microseconds since 1970 UTC.
            limit: its budget.
        """
        with self._solving:
            to_come = sum(self.traffic.to_come(period, at).values())
            days, _ = self._ahead()
            stored = self._store.load_plan(self._calibration_key)
        return Prospect(to_come, days, self._factors_of(_calibration(stored.value), limit))

    def _ahead(self) -> tuple[float, Mapping[str, float]]:
        """Return how many days beyond today the plan looks, and a day's requests by group."""
        if self._carry_over == 0:
            return 0.0, {}
        later = self.traffic.a_day()
        per_day = sum(later.values()) or self.traffic.expected_total
        return pacing.days_ahead(per_day, carry_over=self._carry_over), later

    @property
    def _calibration_key(self) -> str:
        return f"{self._app}|calibration"

    def _calibrate(self, view: PaceView) -> None:
        """Take γ from what all processes saw; add this one's part once it is worth a write."""
        with self._lock:
            seen, calls = dict(self._seen), self._calls
            if calls >= _WORTH_A_WRITE:
                self._seen, self._calls = {}, 0
        key = self._calibration_key
        calibration = Calibration()
        for _ in range(_TRIES):
            stored = self._store.load_plan(key)
            calibration = _calibration(stored.value).after(seen, calls=calls)
            if calls < _WORTH_A_WRITE:
                break
            text = _ENCODER.encode(calibration).decode()
            if kept(self._store, key, text, version=stored.version):
                break
        else:
            logger.debug("γ of %d calls was not kept: others kept writing", calls)
        fresh = self._factors_of(calibration, view.limit)
        if pacing.moved(self.factors, fresh):
            self.factors = fresh

    def _factors_of(self, calibration: Calibration, limit: Pico) -> dict[str, float]:
        return calibration.factors(usd_from_pico(limit) / max(1.0, self.traffic.expected_total))

    def _refresh(self, window: str) -> None:
        """Make the curves of this process's groups anew and share those that changed.

        Other processes' curves are read again in each window.
        """
        if window != self._window:
            self._window, self._curves, self._program = window, {}, None
            self._fresh = set(self._own)
        while self._fresh:
            group = self._fresh.pop()
            curve = self._own[group][1]()
            if self._curves.get(group) == curve:
                continue
            self._curves[group] = curve
            self._program = None
            key = f"{self._app}|curve|{group}"
            stored = self._store.load_plan(key)
            text = _ENCODER.encode(curve).decode()
            if stored.value != text:
                kept(self._store, key, text, version=stored.version)

    def _curve(self, group: str) -> Curve | None:
        if group not in self._curves:
            stored = self._store.load_plan(f"{self._app}|curve|{group}")
            curve = recalled(_CURVE, stored.value, what="a kept curve cannot be read")
            if curve is None:
                return None
            self._curves[group] = curve
        return self._curves[group]

    def _prepared(self, groups: tuple[str, ...]) -> Program:
        dearer = self.dearer()
        if dearer:  # their prices move with every solution
            return pacing.prepare([self._points(g, dearer) for g in groups])
        kept = self._program
        if kept is not None and kept[0] == groups and kept[1] is self.factors:
            return kept[2]
        program = pacing.prepare([self._curves[g].at(self.factors) for g in groups])
        self._program = (groups, self.factors, program)
        return program

    def _points(
        self, group: str, dearer: Mapping[str, PacingPlan]
    ) -> tuple[tuple[float, float], ...]:
        points = self._curves[group].at(self.factors)
        for mark, plan in dearer.items():
            if mark in group:
                points = pacing.capped(points, plan)
        return points


def _unlock_all() -> None:
    for solver in list(_solvers):
        solver.unlock()


_solvers: weakref.WeakSet[Solver] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)


def _calibration(value: str | None) -> Calibration:
    what = "kept γ cannot be read, calibration starts over"
    return recalled(_CALIBRATION, value, what=what) or Calibration()
