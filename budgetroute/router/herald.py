"""Tells observers what happened; what they raise is logged and never reaches the call."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from budgetroute.oneline import one_line
from budgetroute.telemetry import listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.errors import BudgetExceeded
    from budgetroute.protocols import Observer
    from budgetroute.records import Decision, LimitWarning, Settlement

logger = logging.getLogger("budgetroute")
_QUIET_S = 60.0
_REMEMBERED = 256


class Herald:
    """One observer that passes everything on to several.

    Args:
        observers: whom to tell, in order.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = tuple(observers)
        self._said: dict[str, float] = {}

    def decided(self, decision: Decision) -> None:
        """Tell of a decision."""
        for observer in self.observers:
            _safely(lambda o=observer: o.decided(decision))  # type: ignore[misc]

    def settled(self, decision: Decision, settlement: Settlement) -> None:
        """Tell of a settlement."""
        for observer in self.observers:
            _safely(lambda o=observer: o.settled(decision, settlement))  # type: ignore[misc]

    def stepped(self, fields: Mapping[str, object]) -> None:
        """Tell of a change of the shadow price."""
        for observer in self.observers:
            _safely(lambda o=observer: o.stepped(fields))  # type: ignore[misc]

    def refused(self, route: str, error: BudgetExceeded) -> None:
        """Tell of a call that no limit had room for, those observers that ask to know."""
        for observer in self.observers:
            if (tell := getattr(observer, "refused", None)) is not None:
                _safely(lambda t=tell: t(route, error))  # type: ignore[misc]

    def warned(self, warning: LimitWarning) -> None:
        """Tell of a share of a limit that was crossed, observers and `on_warning`'s functions."""
        tells = [getattr(observer, "warned", None) for observer in self.observers]
        for tell in (*tells, *listeners()):
            if tell is not None:
                _safely(lambda t=tell: t(warning))  # type: ignore[misc]

    def warn(self, text: str) -> None:
        """Log something the operator should know, once per text in a minute."""
        self._throttled(text, text)

    def let_through(self, count: int, err: Exception) -> None:
        """Log that calls run without a ledger, at most once a minute."""
        self._throttled("open", f"store down, {count} calls let through uncounted so far: {err}")

    def _throttled(self, key: str, text: str) -> None:
        now = time.monotonic()
        if now - self._said.get(key, -_QUIET_S) < _QUIET_S:
            return
        if len(self._said) > _REMEMBERED:
            self._said.clear()
        self._said[key] = now
        logger.warning("%s", one_line(text))


def _safely(tell: Callable[[], None]) -> None:
    try:
        tell()
    except Exception:  # an observer is the user's code, whatever it raises
        logger.exception("an observer failed; the call goes on")
