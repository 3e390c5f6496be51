"""The rules of a budget: its windows, the one comparison that admits, and an attempt's life.

Everything here is pure. A store runs a transition inside its own transaction and adds the returned
change to every slot of the attempt, so that each sum stays what its attempts add up to:

    (none) ──reserve──▶ held ──settle(billed)──▶ settled
                         │ ╲──settle(None), expire──▶ estimated ──settle(billed)──▶ settled
                         ╰──release──▶ released ◀──release──╯
                                          ╰──settle──▶ settled or estimated
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from operator import sub
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from budgetroute.records import Attempt, Balance, Grant, Limit, Option, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

    from budgetroute.records import Ask, Bill, Slot
    from budgetroute.units import Pico

__all__ = [
    "EXPIRED_RECORD",
    "NO_CHANGE",
    "RETENTION",
    "RUN_PERIOD",
    "Elapsed",
    "Kind",
    "Window",
    "admit",
    "counted",
    "elapsed",
    "expire",
    "outlived",
    "period_bounds",
    "period_id",
    "release",
    "reserve",
    "settle",
    "slots_of",
]

Kind: TypeAlias = Literal["day", "week", "month", "total", "run"]

RUN_PERIOD = "once"
"""The one period of a run."""
TOTAL_PERIOD = "total"
"""The one period of a limit that never starts anew."""
ONE_OF_MANY = "#"
"""Stands in the key of a scope that is one of many, before its value's hash."""
RETENTION = 35 * 86_400 * 10**6
"""Microseconds that attempts and arrivals are kept: a month and its late bills. Sums stay, save
those of ended periods of scopes that are one of many (`outlived`)."""
EXPIRED_RECORD = '{"source":"estimated","why":"the lease ran out"}'
"""The outcome of an attempt that nobody settled."""
NO_CHANGE = Balance()
"""The change that changes nothing."""
_KINDS = ("day", "week", "month", "total", "run")
_ENDLESS = {"run": RUN_PERIOD, "total": TOTAL_PERIOD}
_WEEKDAYS = range(7)
_HOURS = range(24)
_DAY = timedelta(days=1)
_DAY_MICROS = 86_400 * 10**6
_NOTHING = (0, 0, 0, 0, 0)
_STATES = ("held", "settled", "estimated", "released")


@dataclass(frozen=True, slots=True)
class Window:
    """How long a limit runs before it starts anew.

    Attributes:
        kind: a calendar day, week or month, `total` (never anew), or one run.
        zone: where the calendar hangs; a day there has 23 or 25 hours when the clocks change.
        reset_hour: the wall-clock hour at which a day begins.
        week_start: the day a week begins with, 0 = Monday to 6 = Sunday.
    """

    kind: Kind
    zone: tzinfo = UTC
    reset_hour: int = 0
    week_start: int = 0

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"a window is one of {', '.join(_KINDS)}; found {self.kind!r}")
        if self.reset_hour not in _HOURS:
            raise ValueError(f"reset_hour must be 0 to 23; found {self.reset_hour!r}")
        if self.week_start not in _WEEKDAYS:
            raise ValueError(f"week_start must be 0 (Monday) to 6; found {self.week_start!r}")


def period_id(window: Window, at: datetime) -> str:
    """Name the period that `at` (aware) falls in.

    Ids never go backwards while time goes forwards, also when the clocks are put back. A week that
    does not begin on Monday is named by its first day.

    >>> at = datetime(2026, 11, 29, 12, tzinfo=UTC)
    >>> [period_id(Window(kind), at) for kind in ("day", "week", "month", "total", "run")]
    ['day:2026-11-29', 'week:2026-W48', 'month:2026-11', 'total', 'once']
    >>> period_id(Window("week", week_start=6), at)
    'week:2026-11-29'
    """
    if window.kind in _ENDLESS:
        return _ENDLESS[window.kind]
    return _named(window, _budget_day(window, at))


def _named(window: Window, day: date) -> str:
    if window.kind == "day":
        return f"day:{day.isoformat()}"
    if window.kind == "month":
        return f"month:{day.year:04d}-{day.month:02d}"
    if window.week_start:
        return f"week:{_calendar(window, day)[0].isoformat()}"
    year, week, _ = day.isocalendar()
    return f"week:{year:04d}-W{week:02d}"


def period_bounds(window: Window, at: datetime) -> tuple[datetime, datetime]:
    """Return when the period of `at` begins and when the next one does, aware UTC.

    Raises:
        ValueError: for a run, whose end is not known, and for `total`, which has none.

    >>> start, end = period_bounds(Window("day"), datetime(2026, 11, 29, 12, tzinfo=UTC))
    >>> start.isoformat(), end.isoformat()
    ('2026-11-29T00:00:00+00:00', '2026-11-30T00:00:00+00:00')
    """
    if window.kind in _ENDLESS:
        raise ValueError(f"a {window.kind} has no bounds; ask for those of a day, week or month")
    first, after = _calendar(window, _budget_day(window, at))
    return _day_start(window, first), _day_start(window, after)


class Elapsed(NamedTuple):
    """What the clock of a ledger has shown, in microseconds since 1970; 0 = nothing yet.

    Attributes:
        sure: a time that it showed at least a day ago and did not take back.
        noted: a time that it showed less than a day ago.
    """

    sure: int = 0
    noted: int = 0


def elapsed(before: Elapsed, at: int) -> Elapsed:
    """Return it when the clock shows `at`.

    Records are dropped by `sure`: a clock that leaps a year ahead, and is put right within a day,
    must not cost a month of records, nor the sums that limits stand on.

    >>> day = 86_400 * 10**6
    >>> elapsed(Elapsed(5, noted=9), 9 + day), elapsed(Elapsed(5, noted=400 * day), 10)
    (Elapsed(sure=9, noted=86400000009), Elapsed(sure=5, noted=10))
    """
    if before.noted == 0 or at < before.noted:
        return Elapsed(min(before.sure, at), at)
    if at - before.noted >= _DAY_MICROS:
        return Elapsed(before.noted, at)
    return before


def outlived(before: datetime) -> tuple[tuple[str, str], ...]:
    """Return half-open ranges of ids of the periods that had ended at `before` in every zone.

    They hold only ids of days, weeks and months: totals and runs never end.

    >>> outlived(datetime(2026, 11, 29, tzinfo=UTC))[0]
    ('day:', 'day:2026-11-27')
    """
    day = before.astimezone(UTC).date() - 2 * _DAY  # a zone may lag by a day, a reset by another
    week = day - 7 * _DAY
    year, number, _ = week.isocalendar()
    return (
        ("day:", f"day:{day.isoformat()}"),
        ("week:", f"week:{week.isoformat()}"),
        (f"week:{year:04d}-W", f"week:{year:04d}-W{number:02d}"),
        ("month:", f"month:{day.year:04d}-{day.month:02d}"),
    )


def _calendar(window: Window, day: date) -> tuple[date, date]:
    if window.kind == "day":
        return day, day + _DAY
    if window.kind == "week":
        first = day - (day.weekday() - window.week_start) % 7 * _DAY
        return first, first + 7 * _DAY
    first = day.replace(day=1)
    return first, (first + 31 * _DAY).replace(day=1)


def _budget_day(window: Window, at: datetime) -> date:
    """Return the latest day that has begun; starts are compared as instants, so DST cannot fool."""
    if at.tzinfo is None:
        raise ValueError(f"periods need an aware time; found {at!r}: add tzinfo=UTC")
    day = at.astimezone(window.zone).date()
    if _day_start(window, day) > at:
        return day - _DAY
    after = day + _DAY
    return after if _day_start(window, after) <= at else day


@lru_cache(maxsize=4096)
def _day_start(window: Window, day: date) -> datetime:
    local = datetime.combine(day, time(window.reset_hour), tzinfo=window.zone)
    return local.astimezone(UTC)


def banked(spent: Mapping[str, Pico], *, today: str, daily: Pico, carry_over: float) -> Pico:
    """Return the money of past days that today may spend on top of its own.

    Each past day adds what it left of `daily` and takes what it spent beyond; the bank never holds
    more than `carry_over` days' money, and never less than nothing.

    Args:
        spent: period id → settled; ids of other kinds of window are ignored.
        today: id of the running day.
        daily: one day's money.
        carry_over: how many days' money the bank may hold.

    >>> banked({"day:2026-11-26": 4, "day:2026-11-28": 25}, today="day:2026-11-29", daily=10,
    ...        carry_over=2)
    1
    """
    past = sorted(period for period in spent if period.startswith("day:") and period < today)
    if not past or carry_over == 0:
        return 0
    most, bank = int(daily * carry_over), 0
    day, end = (date.fromisoformat(period.removeprefix("day:")) for period in (past[0], today))
    while day < end:
        bank = min(most, max(0, bank + daily - spent.get(f"day:{day.isoformat()}", 0)))
        day += _DAY
    return bank


def admit(ask: Ask, balances: Sequence[Balance]) -> Grant | Refusal:
    """Take the first option that fits every limit: settled + held + worst ≤ limit − guard.

    The guard does not bind the last option. Balances are those before, in the order of
    `ask.limits`; those of the grant are after the reservation.

    >>> from budgetroute.records import Ask, Slot
    >>> day = Limit(Slot("app", "day:2026-11-29"), limit=100)
    >>> ask = Ask("d#1", "d", 0, 9, (day,), (Option(worst=90, expected=9), Option(40, 4)))
    >>> admit(ask, [Balance(settled=50)]).index
    1
    >>> admit(ask, [Balance(settled=70)]).needed
    40
    """
    if not ask.options:
        raise ValueError(f"attempt {ask.attempt!r} asks for nothing; give at least one option")
    last = len(ask.options) - 1
    pairs = tuple(zip(ask.limits, balances, strict=True))
    for index, option in enumerate(ask.options):
        if _fits(option.worst, pairs, guarded=index != last):
            hold = _hold(option)
            return Grant(index, tuple([balance + hold for balance in balances]))
    needed = ask.options[last].worst
    limit, balance = min(_crossed(needed, pairs), key=lambda pair: _headroom(*pair))
    return Refusal(limit, balance, needed)


def _fits(worst: Pico, pairs: Iterable[tuple[Limit, Balance]], *, guarded: bool) -> bool:
    for limit, balance in pairs:
        if limit.limit is None:
            continue
        guard = max(0, limit.guard) if guarded else 0
        if balance.settled + balance.held + worst > limit.limit - guard:
            return False
    return True


def _crossed(
    worst: Pico, pairs: Iterable[tuple[Limit, Balance]]
) -> Iterable[tuple[Limit, Balance]]:
    return (pair for pair in pairs if not _fits(worst, (pair,), guarded=False))


def _headroom(limit: Limit, balance: Balance) -> Pico:
    return (limit.limit or 0) - balance.settled - balance.held


def slots_of(ask: Ask) -> tuple[Slot, ...]:
    """Return the slots a reservation counts in, each once, however many limits it has there."""
    return tuple(dict.fromkeys([limit.slot for limit in ask.limits]))


def reserve(option: Option) -> tuple[Attempt, Balance]:
    """Hold an option's worst case; return the attempt and the change to its slots.

    >>> reserve(Option(worst=9, expected=4))[1]
    Balance(settled=0, held=9, expected=4, calls=1, estimated=0)
    """
    if option.worst < 0 or option.expected < 0:
        raise ValueError(f"an option cannot cost less than nothing; found {option}")
    return Attempt("held", option.worst, option.expected), _hold(option)


def _hold(option: Option) -> Balance:
    return Balance(0, option.worst, option.expected, 1, 0)


def settle(attempt: Attempt | None, bill: Bill) -> tuple[Attempt, Balance]:
    """Book a bill; return the attempt as it stands and the change to its slots.

    None for `attempt` means that the store does not know it (its file was lost): the bill is
    booked in full, as it is for an attempt that was released and turned out to be billed.
    A settled attempt stays as it is, and an estimated one while its bill stays unknown: then the
    very same object is returned, with NO_CHANGE.

    >>> from budgetroute.records import Bill
    >>> held, _ = reserve(Option(worst=9, expected=4))
    >>> unknown = Bill("d#1", "d", at=0, slots=(), billed=None, expected=4, worst=9)
    >>> estimated, change = settle(held, unknown)
    >>> estimated.state, change  # 9 − 4 stays held until usage arrives
    ('estimated', Balance(settled=4, held=-4, expected=-4, calls=0, estimated=1))
    """
    if attempt is not None and _is_final(attempt, bill):
        return attempt, NO_CHANGE
    if attempt is None:
        worst, expected, before = bill.worst, bill.expected, _NOTHING
    else:
        worst, expected, before = attempt.worst, attempt.expected, _counts(attempt)
    if bill.billed is None:
        estimate = expected if bill.estimate is None else bill.estimate
        after = Attempt("estimated", worst, expected, estimate)
    else:
        after = Attempt("settled", worst, expected, bill.billed)
    if min(worst, expected, after.amount) < 0:
        raise ValueError(f"a bill cannot be below zero; found {bill}")
    return after, _change(before, _counts(after))


def expire(attempt: Attempt) -> tuple[Attempt, Balance]:
    """Settle a hold that nobody came back for: unknown usage, so its expected cost is booked.

    Anything but a hold stays as it is, with NO_CHANGE.
    """
    if attempt.state != "held":
        return attempt, NO_CHANGE
    after = Attempt("estimated", attempt.worst, attempt.expected, attempt.expected)
    return after, _change(_counts(attempt), _counts(after))


def release(attempt: Attempt | None) -> tuple[Attempt, Balance] | None:
    """Give back what a call that costs nothing holds; None if there is nothing to give back.

    An estimate is given back too: its lease may have run out while the provider kept the caller
    waiting, and who releases knows that nothing was billed.

    >>> release(reserve(Option(worst=9, expected=4))[0])[1]
    Balance(settled=0, held=-9, expected=-4, calls=-1, estimated=0)
    """
    if attempt is None or attempt.state not in {"held", "estimated"}:
        return None
    after = Attempt("released", attempt.worst, attempt.expected)
    return after, _change(_counts(attempt), _counts(after))


def _is_final(attempt: Attempt, bill: Bill) -> bool:
    return attempt.state == "settled" or (attempt.state == "estimated" and bill.billed is None)


def counted(attempt: Attempt) -> Balance:
    """Return what an attempt adds to each of its slots.

    Raises:
        ValueError: it is in a state that no transition leads to.

    >>> counted(Attempt("estimated", worst=9, expected=4, amount=4))
    Balance(settled=4, held=5, expected=0, calls=1, estimated=1)
    """
    if attempt.state not in _STATES:
        raise ValueError(f"an attempt is {', '.join(_STATES)}; found {attempt.state!r}")
    return Balance(*_counts(attempt))


def _counts(attempt: Attempt) -> tuple[int, int, int, int, int]:
    match attempt.state:
        case "held":
            return 0, attempt.worst, attempt.expected, 1, 0
        case "settled":
            return attempt.amount, 0, 0, 1, 0
        case "estimated":
            return attempt.amount, max(0, attempt.worst - attempt.amount), 0, 1, 1
        case "released":
            return _NOTHING


def _change(before: Iterable[int], after: Iterable[int]) -> Balance:
    return Balance(*map(sub, after, before))
