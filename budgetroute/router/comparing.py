"""Sums up, call by call, what the baseline and each single action would have come to.

Each process adds its part to the store's, one record per window; a killed process loses the part it
had not written yet: an eighth of its calls, at most 1,024.
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
from budgetroute.router.keeping import kept, recalled
from budgetroute.savings import Arm, Comparison

if TYPE_CHECKING:
    from budgetroute.protocols import Store
    from budgetroute.records import Candidate, Pins
    from budgetroute.router.picks import Pick
    from budgetroute.router.slate import Slate

logger = logging.getLogger("budgetroute.decide")

_WRITE_EVERY = 1024  # calls: a write takes 1.5 ms
_TRIES = 5
_COMPARISON = msgspec.json.Decoder(Comparison)
_ENCODER = msgspec.json.Encoder()


class _Sums:
    """An arm's running sums, or those of all rows of a slate: then dollars and gains are arrays."""

    __slots__ = ("calls", "gain", "usd", "value")

    def __init__(self) -> None:
        self.calls = 0
        self.usd: Any = 0.0
        self.gain: Any = 0.0
        self.value = 0.0

    def add(self, usd: Any, gain: Any, value: float) -> None:  # noqa: ANN401 - numbers or arrays
        self.calls += 1
        self.usd = self.usd + usd
        self.gain = self.gain + gain
        self.value += value

    def arm(self) -> Arm:
        """Return the sums of one arm."""
        return Arm(self.calls, self.usd, self.gain, self.value)

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
    _left: Comparison  # what could not be written
    _routed: _Sums
    _beside: _Sums
    _usual: _Sums
    _refused: int
    _slates: dict[Slate, _Sums]
    _unsaved: int

    def __init__(self, store: Store, *, app: str) -> None:
        self._store = store
        self._app = app
        self._begin()
        _all.add(self)

    def saw(self, pick: Pick, chosen: Candidate, window: str) -> None:
        """Add one routed call to its window.

        Fallbacks, calls that were not free to choose, and second decisions of a call are none.
        """
        expected = pick.ranking.expected
        if pick.slate is None or expected is None or chosen.reward is None or pick.request.after:
            return
        if not _is_free(pick.request.pins):
            return
        routed = (chosen.cost, chosen.value * chosen.reward, chosen.value)
        baseline = pick.ranking.baseline
        with self._locked_for(window):
            self._routed.add(*routed)
            if baseline is not None and baseline.reward is not None:
                self._beside.add(*routed)
                self._usual.add(baseline.cost, baseline.value * baseline.reward, chosen.value)
            sums = self._slates.get(pick.slate)
            if sums is None:
                sums = self._slates[pick.slate] = _Sums()
            sums.add(*expected, chosen.value)
            self._unsaved += 1
        self._write_if_due()

    def refused(self, window: str) -> None:
        """Add a call that the budget would have refused."""
        with self._locked_for(window):
            self._refused += 1
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
        self._left = Comparison()
        self._routed, self._beside, self._usual = _Sums(), _Sums(), _Sums()
        self._refused = 0
        self._slates = {}
        self._unsaved = 0

    def _part(self) -> Comparison:
        part = self._left + Comparison(
            self._routed.arm(), self._beside.arm(), self._usual.arm(), refused=self._refused
        )
        for slate, sums in self._slates.items():
            part = part + Comparison(singles=sums.singles(slate))
        return part

    def _write_if_due(self) -> None:
        """Write when an eighth of what this process has seen is unwritten: a short script counts too."""
        self._seen += 1
        if self._unsaved >= min(_WRITE_EVERY, max(1, self._seen // 8)):
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
                self._left = self._left + part
                self._unsaved += unsaved

    def _key(self, window: str) -> str:
        return f"{self._app}|compared|{window}"


def _is_free(pins: Pins) -> bool:
    """Say whether the action was free to choose, but for sampling."""
    return (
        pins.model is None
        and pins.max_tokens is None
        and pins.cot is None
        and pins.reasoning_effort is None
    )


def _read(text: str | None) -> Comparison:
    what = "the kept comparison cannot be read, it starts over"
    return recalled(_COMPARISON, text, what=what) or Comparison()


def _flush_all() -> None:
    for comparing in list(_all):
        comparing.flush()


_all: weakref.WeakSet[Comparing] = weakref.WeakSet()
atexit.register(_flush_all)
