"""The textbook rule by hand: λ′ = max(0, λ + η·(C_total − B/T)) after each period of spend.

A scripted series of bills goes through the real `@route`; the same λ is computed with a pocket
calculator's arithmetic. It must hold over restarts, midnights, other processes and DST days.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from helpers.world import World

from budgetroute import route
from budgetroute.clock import ManualClock
from budgetroute.stores import DiskStore, MemoryStore

ETA, BUDGET, FIRST = 0.75, 10.0, 3.0
PACING = (
    '[pacing]\npacer = "dual"\nstep = "raw"\ntarget = "flat"\nperiod = "5m"\n'
    f"eta = {ETA}\ninitial_lambda = {FIRST}\nwarmup_periods = 0\n"
)
MODELS = "\n".join(
    f'[models."{name}"]\nprice = {{ input = 1.0, output = 1.0 }}\n'
    for name in ("small", "mid", "large")
)
PARIS = ZoneInfo("Europe/Paris")


@dataclass
class App:
    """An app with one routed function, whose calls cost what the script says.

    Attributes:
        world: folder, clock and store.
        zone: where the days begin.
    """

    world: World
    zone: str = "UTC"

    def __post_init__(self) -> None:
        budget = f'daily_usd = {BUDGET}\ntimezone = "{self.zone}"'
        self.router = self.world.router(budget=budget, models=MODELS, more=PACING)
        self.bills: list[tuple[datetime, float]] = []

        @route(router=self.router)
        def answer(question: str, *, tokens: int, model: str = "mid", max_tokens: int = 1024):
            return {"usage": {"prompt_tokens": 0, "completion_tokens": tokens}}

        self.answer = answer

    def spend(self, *micro_dollars: int) -> None:
        """Make one call for each bill, now."""
        for tokens in micro_dollars:
            self.answer("what?", tokens=tokens)
            self.bills.append((self.world.clock.at, tokens * 1e-6))

    def at(self, when: datetime) -> App:
        self.world.clock.at = when.astimezone(UTC)
        return self

    def restarted(self, store) -> App:
        """The same app after a restart: nothing in memory is kept."""
        again = App(World(self.world.folder, self.world.clock, store), self.zone)
        again.bills = self.bills
        return again

    @property
    def price(self) -> float:
        return self.router.status().shadow_price

    def by_hand(self) -> float:
        """λ after the bills of all periods that have ended."""
        return by_hand(self.bills, ZoneInfo(self.zone), until=self.world.clock.at)


def by_hand(bills, zone: ZoneInfo, *, until: datetime) -> float:
    totals: dict[tuple[date, int], float] = {}
    for when, usd in bills:
        key = period_of(when, zone)
        totals[key] = totals.get(key, 0.0) + usd
    price = FIRST
    for (day, _), total in sorted(totals.items()):
        if (day, _) == period_of(until, zone):
            continue
        price = max(0.0, price + ETA * (total - BUDGET / periods_in(day, zone)))
    return price


def midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def period_of(when: datetime, zone: ZoneInfo) -> tuple[date, int]:
    day = when.astimezone(zone).date()
    return day, (when - midnight(day, zone)) // timedelta(minutes=5)


def periods_in(day: date, zone: ZoneInfo) -> float:
    return (midnight(day + timedelta(days=1), zone) - midnight(day, zone)) / timedelta(minutes=5)


def at(hour: int, minute: int, second: int = 0, *, day: int = 4) -> datetime:
    return datetime(2026, 3, day, hour, minute, second, tzinfo=UTC)


@pytest.fixture(params=["memory", "disk"])
def app(request, tmp_path):
    clock = ManualClock(at(9, 0))
    store = MemoryStore(clock) if request.param == "memory" else DiskStore(tmp_path / "s", clock)
    yield App(World(tmp_path, clock, store))
    store.close()


def test_periods_of_a_day_by_hand(app):
    """Full, thin and empty periods; several calls in one period count together."""
    app.at(at(9, 0)).spend(30_000, 40_000)
    assert app.price == FIRST
    app.at(at(9, 4, 59)).spend(10_000)
    app.at(at(9, 5)).spend(1_000)
    first = FIRST + ETA * (0.08 - 10.0 / 288)
    assert app.price == pytest.approx(first, abs=1e-12)
    app.at(at(9, 40)).spend(200_000)
    second = first + ETA * (0.001 - 10.0 / 288)
    assert app.price == pytest.approx(second, abs=1e-12)
    app.at(at(9, 45))
    third = second + ETA * (0.2 - 10.0 / 288)
    assert app.price == pytest.approx(third, abs=1e-12)
    assert third == pytest.approx(app.by_hand(), abs=1e-12)


def test_a_thousand_periods_by_hand(app):
    """Three and a half days of bills, an empty period now and then: never off by 1e-12."""
    when = at(0, 2, day=4)
    for number in range(1000):
        when += timedelta(minutes=5)
        if number % 7 != 3:
            app.at(when).spend(*[1 + (number * 7919) % 40_000 for _ in range(1 + number % 2)])
        if number % 50 == 0:
            assert abs(app.price - app.by_hand()) <= 1e-12
    assert abs(app.price - app.by_hand()) <= 1e-12


def test_it_never_falls_below_zero(app):
    """Long underspending ends at 0, not below, and overspending lifts it from there."""
    for minute in range(0, 600, 5):
        app.at(at(9, 0) + timedelta(minutes=minute)).spend(1)
    assert app.price == 0.0
    app.at(at(19, 0)).spend(500_000)
    app.at(at(19, 5))
    assert app.price == pytest.approx(ETA * (0.5 - 10.0 / 288), abs=1e-12)


def test_over_midnight(app):
    """The last period of a day counts against that day; the next begins at nothing spent."""
    app.at(at(23, 57)).spend(90_000)
    app.at(at(23, 59, 59)).spend(20_000)
    app.at(at(0, 0, day=5)).spend(70_000)
    assert app.price == pytest.approx(FIRST + ETA * (0.11 - 10.0 / 288), abs=1e-12)
    app.at(at(0, 5, day=5))
    assert app.price == pytest.approx(app.by_hand(), abs=1e-12)
    assert app.router.status().spent_usd == pytest.approx(0.07)


def test_over_restarts_in_and_between_periods(tmp_path):
    """A new router on a new store object of the same folder goes on with the same λ."""
    clock = ManualClock(at(9, 0))
    app = App(World(tmp_path, clock, DiskStore(tmp_path / "s", clock)))
    for hour in range(9, 24):
        app.at(at(hour, 1)).spend(50_000, 10_000)
        app.world.store.close()
        app = app.restarted(DiskStore(tmp_path / "s", clock))
        app.at(at(hour, 3)).spend(hour * 1000)
    app.at(at(0, 30, day=5)).spend(1_000)
    assert app.price == pytest.approx(app.by_hand(), abs=1e-12)


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25)])
def test_on_days_when_the_clocks_change(tmp_path, day, hours):
    """T is the periods that the day really has, up to its last one."""
    assert periods_in(day, PARIS) == hours * 12
    start = midnight(day, PARIS)
    clock = ManualClock(start)
    app = App(World(tmp_path, clock, MemoryStore(clock)), "Europe/Paris")
    for quarter in range(4 * hours):
        app.at(start + timedelta(minutes=15 * quarter + 1)).spend(40_000 + 1000 * quarter)
    app.at(start + timedelta(hours=hours, minutes=-1)).spend(5_000)
    app.at(start + timedelta(hours=hours, minutes=1)).spend(5_000)
    assert app.price == pytest.approx(app.by_hand(), abs=1e-12)
    app.at(start + timedelta(hours=hours, minutes=7))
    assert app.price == pytest.approx(app.by_hand(), abs=1e-12)


OTHER = """
import json, sys
from datetime import datetime
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_literal_rule import App, DiskStore, ManualClock, World
folder = Path(sys.argv[2])
clock = ManualClock(datetime.fromisoformat(sys.argv[3]))
app = App(World(folder, clock, DiskStore(folder / "s", clock)))
app.spend(*json.loads(sys.argv[4]))
print(json.dumps({"price": app.price, "spent": app.router.status().spent_usd}))
"""


def test_another_process_goes_on(tmp_path):
    """A second process on the same folder sees λ and spend, steps them, and the first follows."""
    clock = ManualClock(at(9, 0))
    app = App(World(tmp_path, clock, DiskStore(tmp_path / "s", clock)))
    app.spend(80_000)
    app.world.store.close()
    when = at(9, 6)
    run = subprocess.run(
        [sys.executable, "-c", OTHER, str(Path(__file__).parent), str(tmp_path),
         when.isoformat(), json.dumps([30_000, 5_000])],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    first = FIRST + ETA * (0.08 - 10.0 / 288)
    assert told["price"] == pytest.approx(first, abs=1e-12)
    assert told["spent"] == pytest.approx(0.115)
    app.at(at(9, 11)).spend(1_000)
    assert app.price == pytest.approx(first + ETA * (0.035 - 10.0 / 288), abs=1e-12)
