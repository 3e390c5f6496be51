"""Quarantine: models that their providers do not know are out for a while, on every route.

Kept in the store's plan area, so that other processes and restarts know. It never forbids the last
candidate, a pin or a fallback, and it moves no money.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import msgspec

from budgetroute.errors import StoreError
from budgetroute.router.keeping import kept
from budgetroute.units import micros_from_time, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, tzinfo

    from budgetroute.protocols import Store
    from budgetroute.records import Decision

logger = logging.getLogger("budgetroute.decide")

FIRST_S = 600
"""Seconds that a model is out when it is missed for the first time; doubled each time after."""
LONGEST_S = 86_400
_SECOND = 1_000_000
_READ_AGAIN_US = _SECOND
_TRIES = 3
_DOUBLINGS = 10


class Case(msgspec.Struct, frozen=True):
    """One model that was not found.

    Attributes:
        since: when, microseconds since 1970 UTC.
        until: when it may be asked again.
        times: how often it was missed without an answer in between.
        why: what its provider said, in a few words.
    """

    since: int
    until: int
    times: int
    why: str


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(dict[str, Case])


class Quarantine:
    """The models of one app that are out for a while.

    Args:
        store: where they are kept.
        app: the app's name, first part of the key.
        zone: the zone that times are told in.
        warn: tells the operator.
    """

    def __init__(
        self, store: Store, *, app: str, zone: tzinfo, warn: Callable[[str], object]
    ) -> None:
        self._store = store
        self._key = f"{app}|quarantine"
        self._zone = zone
        self._warn = warn
        self._stored: tuple[int, Mapping[str, Case]] = (0, {})  # version, and what it says
        self._cases: Mapping[str, Case] = {}  # the same with what could not be written
        self._unwritten: dict[str, Case | None] = {}
        self._out: tuple[tuple[str, str], ...] = ()
        self._read_at: float = -math.inf

    def out(self, at: int) -> tuple[tuple[str, str], ...]:
        """Return (model, reason) of every model that is out; read again at most once a second.

        Args:
            at: microseconds since 1970 UTC.
        """
        if not 0 <= at - self._read_at < _READ_AGAIN_US:
            self._read(at)
        return self._out

    def last_seen(self) -> tuple[tuple[str, str], ...]:
        """Return what `out` said last, without the store."""
        return self._out

    def until(self, at: int) -> dict[str, datetime]:
        """Return model → when it may be asked again, of every model that is out."""
        self.out(at)
        known = sorted(self._cases.items())
        return {name: self._time(case) for name, case in known if at < case.until}

    def missed(self, model: str, why: str) -> None:
        """Put a model out: its provider does not know it. One that is out already stays as it is.

        A store that fails costs only that others do not know.
        """
        at = self._now()
        if at is None:
            return
        self._read(at)
        before = self._cases.get(model)
        if before is not None and at < before.until:
            return
        times = 1 if before is None else before.times + 1
        lasts = min(LONGEST_S, FIRST_S * 2 ** min(times - 1, _DOUBLINGS))
        case = Case(at, at + lasts * _SECOND, times, why)
        self._change(model, case, at)
        self._warn(
            f"model {model!r} is out until {self._time(case):%Y-%m-%d %H:%M %Z}: its provider does "
            f"not know it ({why}). Mend its name in [models], or take it out; a pin still sends it."
        )

    def answered(self, decision: Decision) -> None:
        """Forget a model's case: it has answered a call that was decided after it."""
        case = self._cases.get(decision.model)
        at = None if case is None else self._now()
        if case is not None and at is not None and micros_from_time(decision.at) > case.since:
            self._change(decision.model, None, at)

    def _change(self, model: str, case: Case | None, at: int) -> None:
        """Set or forget a case, here and, unless others keep writing, in the store."""
        self._unwritten[model] = case
        for _ in range(_TRIES):
            changes = dict(self._unwritten)
            version = self._read(at)
            if version is None:
                return
            if self._is_written(version):
                for name, written in changes.items():
                    if self._unwritten.get(name) is written:
                        self._unwritten.pop(name, None)
                return

    def _is_written(self, version: int) -> bool:
        text = _ENCODER.encode(self._cases).decode()
        try:
            return kept(self._store, self._key, text, version=version)
        except StoreError as err:
            logger.info("the quarantine was not written: %s", err)
            return False

    def _read(self, at: int) -> int | None:
        """Take what the store has, over it what could not be written; return its version.

        Returns None if the store cannot be read: what is known stays.
        """
        self._read_at = at
        version = None
        try:
            stored = self._store.load_plan(self._key)
            version = stored.version
            if version != self._stored[0]:
                self._stored = version, _decoded(stored.value)
        except StoreError as err:
            logger.info("the quarantine was not read: %s", err)
        cases = dict(self._stored[1])
        for model, case in list(self._unwritten.items()):
            cases.pop(model, None)
            if case is not None:
                cases[model] = case
        self._cases = {name: case for name, case in cases.items() if _is_kept(case, at)}
        known = sorted(self._cases.items())
        self._out = tuple([(name, self._reason(case)) for name, case in known if at < case.until])
        return version

    def _now(self) -> int | None:
        try:
            return micros_from_time(self._store.now())
        except StoreError:
            return None

    def _reason(self, case: Case) -> str:
        until = f"{self._time(case):%Y-%m-%d %H:%M %Z}"
        return f"its provider does not know it ({case.why}); out until {until}"

    def _time(self, case: Case) -> datetime:
        return time_from_micros(case.until).astimezone(self._zone)


def _is_kept(case: Case, at: int) -> bool:
    """Say whether a case, or how often it happened, still matters; not if a clock was wrong."""
    return abs(at - case.until) <= LONGEST_S * _SECOND


def _decoded(value: str | None) -> dict[str, Case]:
    try:
        return {} if value is None else _DECODER.decode(value)
    except msgspec.MsgspecError as err:
        logger.warning("the kept quarantine cannot be read, it starts over: %s", err)
        return {}
