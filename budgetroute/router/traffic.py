"""Requests counted so far, by group and bucket, as the forecast needs them; read from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute import forecast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.protocols import Store
    from budgetroute.router.periods import Period

_OPEN = 2  # the running bucket and the one before it may still grow
_FIRST_HOUR = 12  # buckets
_ENOUGH = 1000  # requests that a mean window is made of, if there are so many


class Traffic:
    """One app's counts: past windows once per window, today's buckets once each when closed.

    Args:
        store: where arrivals are counted.
        app: the app's name, first part of every group's key.
        usual: calls a window sees, announced or assumed; used without a past.
        mark: only groups with this in their keys count; "" = all.
    """

    def __init__(self, store: Store, *, app: str, usual: float, mark: str = "") -> None:
        self._store = store
        self._app = f"{app}|"
        self._mark = mark
        self._usual = usual
        self._window = ""
        self._past: list[dict[str, list[int]]] = []
        self._known: set[str] = set()  # groups of past windows
        self._usual_day: dict[str, float] = {}  # requests by group
        self._today: dict[str, list[int]] = {}
        self._sums: dict[str, int] = {}  # requests by group today
        self._totals: list[int] = []  # requests by bucket today
        self._read = 0  # buckets of today that are closed and read
        self._outlook: tuple[int, forecast.Outlook] | None = None
        self._persistence: float | None = None

    @property
    def has_past(self) -> bool:
        """Say whether there is a past window to learn from."""
        return bool(self._past)

    @property
    def expected_total(self) -> float:
        """Return the requests a window was expected to have."""
        return self._usual if self._outlook is None else self._outlook[1].total

    def to_come(self, period: Period, at: int) -> dict[str, float]:
        """Return group → requests still to come in the window."""
        self._update(period, at)
        groups = sorted({*self._today, *self._known})
        if not groups:
            return {}
        position = (at - period.start) / (period.end - period.start)
        view = self._outlook_of(groups)
        factor = forecast.level(view, self._totals, position)
        counts = dict(zip(groups, forecast.to_come(view, factor, position), strict=True))
        return self._with_news(counts, position)

    def a_day(self) -> dict[str, float]:
        """Return group → requests of a whole window: the past's mean, at first today's mix.

        The mean is of the last 7 windows, or of as many as hold 1,000 requests: where traffic is
        thin, a week says little.
        """
        if self._past:
            return self._usual_day
        total = sum(self._sums.values())
        return {g: self.expected_total * n / total for g, n in self._sums.items()} if total else {}

    def _with_news(self, counts: dict[str, float], position: float) -> dict[str, float]:
        """Share the forecast among groups by today's counts where the past knows too little."""
        known = self._known
        news = {group: n for group, n in self._sums.items() if group not in known}
        if not news:
            return counts
        seen = sum(self._sums.values())
        whole = sum(counts.values())
        if not known:
            return {g: whole * n / seen for g, n in news.items()} if seen else counts
        fresh = {g: n * (1.0 - position) / (position + 0.02) for g, n in news.items()}
        return counts | fresh

    def _update(self, period: Period, at: int) -> None:
        if self._window != period.id:
            self._begin(period)
        now = period.number(at)
        del self._totals[self._read :]
        for bucket in range(self._read, now + 1):
            found = self._store.arrivals(f"{period.id}#{bucket:03d}")
            mine = {group: n for (group, _), n in found.items() if self._counts(group)}
            for group, count in mine.items():
                self._row(group)[bucket] = count
            self._totals.append(sum(mine.values()))
        self._sums = {group: sum(row) for group, row in self._today.items()}
        self._read = max(self._read, now + 1 - _OPEN)

    def _begin(self, period: Period) -> None:
        kind = period.id.partition(":")[0]
        days: dict[str, dict[str, list[int]]] = {}
        for (group, bucket), count in self._store.arrivals(f"{kind}:").items():
            day, _, number = bucket.partition("#")
            if day < period.id and self._counts(group) and number.isdecimal():
                row = days.setdefault(day, {}).setdefault(group, [0] * forecast.BUCKETS)
                if int(number) < forecast.BUCKETS:
                    row[int(number)] += count
        self._past = _whole_days(days)
        self._known = {group for day in self._past for group in day}
        self._usual_day = _mean_day(self._past)
        self._window, self._read, self._outlook = period.id, 0, None
        self._persistence = None
        self._today, self._sums, self._totals = {}, {}, []

    def _counts(self, group: str) -> bool:
        return group.startswith(self._app) and self._mark in group

    def _row(self, group: str) -> list[int]:
        if group not in self._today:
            self._today[group] = [0] * forecast.BUCKETS
        return self._today[group]

    def _outlook_of(self, groups: list[str]) -> forecast.Outlook:
        if self._outlook is None or self._outlook[0] != len(groups):
            days = [_rows(day, groups) for day in self._past[-7:]]
            if self._persistence is None:
                self._persistence = forecast.persistence(days)
            view = forecast.outlook(
                days, usual=self._usual, groups=len(groups), persistence=self._persistence
            )
            self._outlook = (len(groups), view)
        return self._outlook[1]


def _whole_days(days: Mapping[str, dict[str, list[int]]]) -> list[dict[str, list[int]]]:
    """Return days in order, without a first one that began in mid-day: it says nothing of mornings."""
    names = sorted(days)
    if names and not any(any(row[:_FIRST_HOUR]) for row in days[names[0]].values()):
        names = names[1:]
    return [days[name] for name in names]


def _mean_day(days: Sequence[Mapping[str, list[int]]]) -> dict[str, float]:
    """Return group → requests of a window, as the mean of the latest."""
    sums: dict[str, int] = {}
    used = 0
    for day in reversed(days):
        if used >= forecast.DAYS and sum(sums.values()) >= _ENOUGH:
            break
        used += 1
        for group, row in day.items():
            sums[group] = sums.get(group, 0) + sum(row)
    return {group: n / used for group, n in sums.items()}


def _rows(day: Mapping[str, list[int]], groups: list[str]) -> list[tuple[int, ...]]:
    """Return [bucket][group] of a day."""
    nothing = [0] * forecast.BUCKETS
    return list(zip(*(day.get(group, nothing) for group in groups), strict=True))
