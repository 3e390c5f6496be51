"""What was counted, as the forecast is given it: past days, today's buckets, a usual day."""

from __future__ import annotations

import pytest

from budgetroute.router.periods import Period
from budgetroute.router.traffic import Traffic

DAY = 86_400_000_000


class Told:
    """A store that knows nothing but arrivals."""

    def __init__(self, days: dict[str, dict[str, int]]) -> None:
        self.counts = {
            (f"app|{group}", f"day:{day}#{bucket:03d}"): n
            for day, groups in days.items()
            for group, whole in groups.items()
            for bucket, n in ((0, whole - whole // 2), (200, whole // 2))
        }

    def arrivals(self, prefix: str) -> dict[tuple[str, str], int]:
        return {key: n for key, n in self.counts.items() if key[1].startswith(prefix)}


def usual_day(days: dict[str, dict[str, int]]) -> dict[str, float]:
    traffic = Traffic(Told(days), app="app", usual=100.0)
    today = Period("day:099", 99 * DAY, 100 * DAY)
    traffic.to_come(today, 99 * DAY + DAY // 2)
    return traffic.a_day()


def test_a_usual_day_is_the_mean_of_the_last_week():
    """Where a week holds enough requests, older days say nothing."""
    days = {f"{n:03d}": {"a": 2000 if n < 92 else 300, "b": 100} for n in range(80, 99)}
    assert usual_day(days) == {"app|a": 300.0, "app|b": 100.0}


def test_thin_traffic_looks_further_back():
    """Seven days of five requests say little: as many count as hold a thousand, or all."""
    days = {f"{n:03d}": {"a": 10 if n >= 92 else 4} for n in range(60, 99)}
    assert usual_day(days)["app|a"] == pytest.approx((7 * 10 + 32 * 4) / 39)


def test_without_a_past_a_usual_day_has_todays_mix():
    """The announced number, shared as today's requests are."""
    day = usual_day({"099": {"a": 30, "b": 10}})
    assert day == {"app|a": pytest.approx(75.0), "app|b": pytest.approx(25.0)}
