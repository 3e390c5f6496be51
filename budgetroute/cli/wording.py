"""Amounts, prices and times as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from budgetroute.units import usd_from_atto, usd_from_pico

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from budgetroute.units import Atto, Pico

_MILLION = 10**6
_HOUR = 60


def usd(amount: float) -> str:
    """Show dollars: cents from a dollar up, three figures below, never an exponent.

    >>> usd(1234.5), usd(0.34), usd(0.0048213), usd(0.0000757), usd(0)
    ('$1,234.50', '$0.34', '$0.00482', '$0.0000757', '$0.00')
    """
    if amount == 0 or not abs(amount) < 1:  # NaN too
        return f"${amount:,.2f}"
    places = 2 - math.floor(math.log10(abs(amount)))
    whole, _, digits = f"{amount:.{places}f}".partition(".")
    return f"${whole}.{digits.rstrip('0'):0<2}"


def money(amount: Pico) -> str:
    """Show an amount of the ledger in dollars.

    >>> money(2_500_000_000)
    '$0.0025'
    """
    return usd(usd_from_pico(amount))


def per_million(rate: Atto | None) -> str:
    """Show a price per token as dollars per million tokens; – where there is none of its own.

    >>> per_million(150_000_000_000), per_million(None)
    ('$0.15', '–')
    """
    if rate is None:
        return "–"
    price = usd_from_atto(rate) * _MILLION
    digits = f"{price:.4f}".rstrip("0")
    whole, _, cents = digits.partition(".")
    return f"${whole}.{cents:0<2}"


def span(length: timedelta) -> str:
    """Show a length of time in hours and minutes.

    >>> from datetime import timedelta
    >>> span(timedelta(hours=9, minutes=50)), span(timedelta(seconds=30)), span(timedelta(days=3))
    ('9 h 50 min', 'less than a minute', '3 days 0 h')
    """
    minutes = int(length.total_seconds()) // 60
    if minutes < 1:
        return "less than a minute"
    hours, rest = divmod(minutes, _HOUR)
    if hours < 1:
        return f"{rest} min"
    days, of_day = divmod(hours, 24)
    if days < 1:
        return f"{hours} h {rest} min"
    return f"{counted(days, 'day')} {of_day} h"


def moment(at: datetime, now: datetime) -> str:
    """Show a time of day, with its date when that is not today's; both in one zone."""
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%a %d %b %H:%M}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "model"), counted(1200, "call")
    ('1 model', '1,200 calls')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def figure(number: float) -> str:
    """Show a number with four figures, without an exponent from 0.0001 up.

    >>> figure(18.6012), figure(21407.3), figure(0.5)
    ('18.6', '21,407', '0.5')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"  # noqa: PLR2004


def worth(price: float) -> str:
    """Say what a shadow price means.

    >>> worth(18.6)
    'a correct answer is worth up to $0.0538'
    """
    if price <= 0:
        return "money is not scarce, the best action is taken"
    return f"a correct answer is worth up to {usd(1 / price)}"


def share(part: float, whole: float) -> str:
    """Show a part as per cent; – of nothing.

    >>> share(11.42, 25), share(1, 0)
    ('45.7 %', '–')
    """
    return f"{part / whole:.1%}".replace("%", " %") if whole > 0 else "–"
