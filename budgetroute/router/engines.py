"""Engine time: the seconds of an engine that is paid by time, shared among the calls in flight.

While n calls of a model are in flight each pays 1/n of every second: dv = dt/n, and a call costs
v(end) − v(start). All bills together are the time in which any call was in flight, in this process:
processes that share an engine each pay for their own, so together they never pay too little.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from budgetroute.errors import StoreError
from budgetroute.router.bills import Ended
from budgetroute.router.holding import lease_end
from budgetroute.units import micros_from_time

if TYPE_CHECKING:
    from datetime import datetime

    from budgetroute.protocols import Store
    from budgetroute.records import Decision, Request
    from budgetroute.router.equipment import Equipment

_SECOND = 1_000_000  # microseconds


@dataclass(slots=True)
class _Engine:
    """One model's engine.

    Attributes:
        shared: v, seconds.
        at: when it was last brought up to date, microseconds.
        flights: attempt → (v at its start, when it counts as abandoned).
    """

    at: int
    shared: float = 0.0
    flights: dict[str, tuple[float, int]] = field(default_factory=dict)

    def advance(self, at: int) -> None:
        """Share the time up to `at`; calls whose lease ran out on the way leave then."""
        for attempt, (_, until) in sorted(self.flights.items(), key=lambda item: item[1][1]):
            if until > at:
                break
            self._share(until)
            del self.flights[attempt]
        self._share(at)

    def _share(self, at: int) -> None:
        passed = max(0, at - self.at)
        self.at = max(self.at, at)
        if self.flights:
            self.shared += passed / _SECOND / len(self.flights)


class EngineTime:
    """The engines of one router; safe to share between threads, anew after a fork."""

    def __init__(self) -> None:
        self._engines: dict[str, _Engine] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def begin(self, model: str, attempt: str, *, at: int, until: int) -> None:
        """Note that a call has begun; it counts as abandoned at `until` (microseconds)."""
        with self._mine():
            engine = self._engines.setdefault(model, _Engine(at))
            engine.advance(at)
            engine.flights[attempt] = (engine.shared, until)

    def end(self, model: str, attempt: str, *, at: int) -> float | None:
        """Return the seconds that a call pays for; None if its beginning was not noted here."""
        with self._mine():
            engine = self._engines.get(model)
            if engine is None:
                return None
            engine.advance(at)
            started, _ = engine.flights.pop(attempt, (None, 0))
            return None if started is None else engine.shared - started

    def _mine(self) -> threading.Lock:
        """Return the lock; a child process begins with its own, and without its parent's calls."""
        if self._process != os.getpid():
            self._process, self._engines, self._lock = os.getpid(), {}, threading.Lock()
        return self._lock


class Engines:
    """The ends of calls, for prices that depend on the hour or on how long a call took.

    Args:
        equipment: prices by model.
        store: whose clock counts.
    """

    def __init__(self, equipment: Equipment, store: Store) -> None:
        self._equipment = equipment
        self._store = store
        self._time = EngineTime()

    def begin(
        self, decision: Decision, request: Request, at: datetime, *, attempt: int = 1
    ) -> None:
        """Note the beginning of an attempt, if its engine is paid by time."""
        if self._equipment.facts(decision.model).price.second is not None:
            micros = micros_from_time(at)
            until = lease_end(micros, self._timeout(request))
            self._time.begin(decision.model, f"{decision.id}#{attempt}", at=micros, until=until)

    def _timeout(self, request: Request) -> float | None:
        return self._equipment.lane(request.route).completed(request).timeout_s

    def end(self, decision: Decision, attempt: int, *, is_known: bool = False) -> Ended:
        """Return what a price may want to know of the end of an attempt.

        Args:
            decision: what was decided.
            attempt: which attempt of the decision.
            is_known: the call has really ended, so that its engine time is known.
        """
        price = self._equipment.facts(decision.model).price
        if price.second is None and price.off_peak is None:
            return Ended()
        try:
            at = self._store.now()
        except StoreError:  # nothing says what time it is: peak hours, and no known duration
            return Ended()
        if price.second is None:
            return Ended(at)
        name = f"{decision.id}#{attempt}"
        seconds = self._time.end(decision.model, name, at=micros_from_time(at))
        if seconds is None:  # begun in another process: alone, as far as is known
            seconds = max(0.0, (at - decision.at).total_seconds())
        return Ended(at, seconds if is_known else None)
