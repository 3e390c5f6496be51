"""The one place that reads the clock."""

from __future__ import annotations

from datetime import UTC, datetime


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current time, aware UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the clock


class ManualClock:
    """A clock that moves when told: for tests, replay and the demo.

    Args:
        at: the first time, aware.
    """

    def __init__(self, at: datetime) -> None:
        if at.tzinfo is None:
            raise ValueError(f"a clock needs an aware time, found {at!r}; add tzinfo=UTC")
        self.at = at.astimezone(UTC)

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self.at
