"""Periods of a window in microseconds, and the buckets in them that arrivals are counted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute import forecast
from budgetroute.budget import Window, period_bounds, period_id
from budgetroute.units import micros_from_time

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Period:
    """One period of a window in microseconds since 1970 UTC."""

    id: str
    start: int
    end: int

    def holds(self, at: int) -> bool:
        """Say whether a time lies in it."""
        return self.start <= at < self.end

    def number(self, at: int) -> int:
        """Return the number of a time's bucket, 0 to 287."""
        return forecast.BUCKETS * (at - self.start) // (self.end - self.start)

    def bucket(self, at: int) -> str:
        """Return the key of a time's bucket, `day:2026-11-29#171`."""
        return f"{self.id}#{self.number(at):03d}"


def period_of(window: Window, at: datetime) -> Period:
    """Return the period that a time lies in."""
    start, end = period_bounds(window, at)
    return Period(period_id(window, at), micros_from_time(start), micros_from_time(end))
