"""Sums up, call by call, what the baseline and each single action would have come to.

Each process adds its part to the store's, one record per window; a killed process loses the part it
had not written yet, at most 63 calls.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from budgetroute.errors import StoreError
from budgetroute.records import Pins
from budgetroute.router.keeping import kept
from budgetroute.savings import Arm, Comparison

if TYPE_CHECKING:
    from budgetroute.protocols import Store
    from budgetroute.records import Candidate
    from budgetroute.router.choosing import Pick
    from budgetroute.router.slate import Slate

logger = logging.getLogger("budgetroute.decide")

_WRITE_EVERY = 64
_TRIES = 5
_FREE = Pins()
_COMPARISON = msgspec.json.Decoder(Comparison)
_ENCODER = msgspec.json.Encoder()


class _Sums:
    """Running sums over one slate's rows; arrays, so that a call costs microseconds."""

    __slots__ = ("calls", "gain", "usd", "value")

    def __init__(self) -> None:
        self.calls = 0
        self.value = 0.0
        self.gain: Any = 0.0
        self.usd: Any = 0.0

    def add(self, gain: Any, usd: Any, *, value: float) -> None:  # noqa: ANN401 - arrays over rows
        self.calls += 1
        self.value += value
        self.gain = self.gain + gain
        self.usd = self.usd + usd

    def singles(self, slate: Slate) -> dict[str, Arm]:
        """Return action → its arm; rows without a curve are no arms.

        Sampling is the caller's and not a choice, so temperature and n are left out of the name.
        """
        made: dict[str, Arm] = {}
        rows = zip(slate.eligible, self.usd.tolist(), self.gain.tolist(), strict=False)
        for row, usd, gain in rows:
            if not math.isnan(gain):
                name = replace(row.action, temperature=None, n=1).label
                made.setdefault(name, Arm(self.calls, usd, gain, self.value))
        return made


class Comparing:
    """The comparison of one app's windows.

    Args:
        store: where it is kept.
        app: the app's name, first part of the keys.
    """

    _owner: int
    _lock: threading.Lock
    _window: str
    _seen: int
    _arms: Comparison
    _slates: dict[Slate, _Sums]
    _unsaved: int

    def __init__(self, store: Store, *, app: str) -> None:
        self._store = store
        self._app = app
        self._begin()
        _all.add(self)

    def saw(self, pick: Pick, chosen: Candidate, window: str) -> None:
        """Add one routed call to its window; fallbacks, and calls that were not free to choose, are none."""
        expected, pins = pick.ranking.expected, pick.request.pins
        if pick.slate is None or expected is None or chosen.reward is None:
            return
        if replace(pins, temperature=None, n=None) != _FREE:
            return
        routed = Arm(1, chosen.cost, chosen.value * chosen.reward, chosen.value)
        beside, usual = Arm(), Arm()
        baseline = pick.ranking.baseline
        if baseline is not None and baseline.reward is not None:
            beside = routed
            usual = Arm(1, baseline.cost, baseline.value * baseline.reward, chosen.value)
        with self._locked_for(window):
            self._arms = self._arms + Comparison(routed, beside, usual)
            sums = self._slates.setdefault(pick.slate, _Sums())
            sums.add(*expected, value=chosen.value)
            self._unsaved += 1
        self._write_if_due()

    def refused(self, window: str) -> None:
        """Add a call that the budget would have refused."""
        with self._locked_for(window):
            self._arms = self._arms + Comparison(refused=1)
            self._unsaved += 1
        self._write_if_due()

    def of(self, window: str) -> Comparison:
        """Return a window's comparison, this process's unwritten part included.

        Raises:
            StoreError: the store cannot be read.
        """
        stored = _read(self._store.load_plan(self._key(window)).value)
        with self._locked():
            return stored + self._part() if self._window == window else stored

    def flush(self) -> None:
        """Write what was not written yet; what cannot be written stays for the next time."""
        with self._locked():
            window, part, unsaved = self._window, self._part(), self._unsaved
            self._clear()
        if not unsaved:
            return
        try:
            written = self._written(window, part)
        except StoreError as err:
            logger.debug("the comparison of %s was not written: %s", window, err)
            written = False
        if not written:
            self._take_back(window, part, unsaved)

    def _locked_for(self, window: str) -> threading.Lock:
        """Return the lock, after the part of a window that has ended was written."""
        if self._owner != os.getpid():  # a forked child: the parent writes what it has seen
            self._begin()
        if self._window != window:
            self.flush()
            self._window = window
        return self._lock

    def _locked(self) -> threading.Lock:
        return self._locked_for(self._window)

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._window = ""
        self._seen = 0
        self._clear()

    def _clear(self) -> None:
        self._arms = Comparison()
        self._slates = {}
        self._unsaved = 0

    def _part(self) -> Comparison:
        part = self._arms
        for slate, sums in self._slates.items():
            part = part + Comparison(singles=sums.singles(slate))
        return part

    def _write_if_due(self) -> None:
        """Write after 1, 2, 4, … 64 calls and then after each 64: a short script counts too."""
        self._seen += 1
        if self._unsaved >= min(_WRITE_EVERY, max(1, self._seen // 2)):
            self.flush()

    def _written(self, window: str, part: Comparison) -> bool:
        for _ in range(_TRIES):
            stored = self._store.load_plan(self._key(window))
            text = _ENCODER.encode(_read(stored.value) + part).decode()
            if kept(self._store, self._key(window), text, version=stored.version):
                return True
        return False

    def _take_back(self, window: str, part: Comparison, unsaved: int) -> None:
        with self._lock:
            if self._window == window:
                self._arms = self._arms + part
                self._unsaved += unsaved

    def _key(self, window: str) -> str:
        return f"{self._app}|compared|{window}"


def _read(text: str | None) -> Comparison:
    if text is None:
        return Comparison()
    try:
        return _COMPARISON.decode(text)
    except msgspec.MsgspecError as err:
        logger.warning("the kept comparison cannot be read, it starts over: %s", err)
        return Comparison()


def _flush_all() -> None:
    for comparing in list(_all):
        comparing.flush()


_all: weakref.WeakSet[Comparing] = weakref.WeakSet()
atexit.register(_flush_all)
