"""Money and time as integers: the only place where units are converted.

Money at rest is an integer number of pico-dollars (10⁻¹² $); int64 reaches $9.2 million. Prices are
integers of atto-dollars (10⁻¹⁸ $) per token, because a few list prices are not whole pico-dollars.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypeAlias

Pico: TypeAlias = int
"""Pico-dollars."""
Atto: TypeAlias = int
"""Atto-dollars per token."""

PICO_PER_USD = 10**12
ATTO_PER_USD = 10**18
ATTO_PER_PICO = 10**6
TOKENS_PER_MILLION = 10**6
LONGEST_NAME = 200
"""Characters of a name that comes from outside."""
_LARGEST_FLOAT = 1e100
_LATEST = 10**16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pico_from_usd(usd: float | Decimal | str) -> Pico:
    """Convert dollars, rounding half to even; floats go through their shortest decimal.

    >>> pico_from_usd(0.1), pico_from_usd("25")
    (100000000000, 25000000000000)
    """
    return _scaled(usd, PICO_PER_USD)


def usd_from_pico(pico: Pico) -> float:
    """Convert to float dollars, for display and for the floats of policy and pacing."""
    return pico / PICO_PER_USD


def atto_from_usd_per_token(usd: float | Decimal | str) -> Atto:
    """Convert a price per token.

    >>> atto_from_usd_per_token("1.5e-7")
    150000000000
    """
    return _scaled(usd, ATTO_PER_USD)


def atto_from_usd_per_million(usd: float | Decimal | str) -> Atto:
    """Convert a price per million tokens.

    >>> atto_from_usd_per_million(0.15)
    150000000000
    """
    return _scaled(usd, ATTO_PER_USD // TOKENS_PER_MILLION)


def pico_from_atto(atto: int) -> Pico:
    """Round a bill up to whole pico-dollars: a bill is never understated.

    >>> pico_from_atto(1), pico_from_atto(2_000_000)
    (1, 2)
    """
    return -(-atto // ATTO_PER_PICO)


def usd_from_atto(atto: int) -> float:
    """Convert atto-dollars (a price per token, or a sum of them) to float dollars."""
    return atto / ATTO_PER_USD


def format_usd(pico: Pico) -> str:
    """Show money with as many digits as it needs: cents from a dollar up, four figures below.

    >>> format_usd(11_420_000_000_000), format_usd(4_800_000_000), format_usd(0)
    ('$11.42', '$0.004800', '$0.00')
    """
    usd = usd_from_pico(pico)
    if usd == 0 or abs(usd) >= 1:
        return f"${usd:.2f}"
    return f"${usd:.6f}" if abs(usd) >= 1e-4 else f"${usd:.3e}"  # noqa: PLR2004


def exact_usd(pico: Pico) -> str:
    """Show every digit of an amount, and at least cents.

    >>> exact_usd(11_420_000_000_000), exact_usd(-4_800_000_001), exact_usd(0)
    ('$11.42', '-$0.004800000001', '$0.00')
    """
    whole, rest = divmod(abs(pico), PICO_PER_USD)
    digits = f"{rest:012d}".rstrip("0")
    return f"{'-' * (pico < 0)}${whole}.{digits:0<2}"


def micros_from_time(at: datetime) -> int:
    """Convert an aware time to whole microseconds since 1970 UTC (exact)."""
    return (at - _EPOCH) // _MICROSECOND


def time_from_micros(micros: int) -> datetime:
    """Convert microseconds since 1970 UTC to an aware UTC time."""
    return _EPOCH + micros * _MICROSECOND


def is_time(value: object) -> bool:
    """Say whether a value read back can be microseconds since 1970 UTC, until the year 2286."""
    return type(value) is int and 0 <= value <= _LATEST


def _scaled(value: float | Decimal | str, scale: int) -> int:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise ValueError(f"an amount of money must be finite, found {value!r}")
    return int((number * scale).to_integral_value(ROUND_HALF_EVEN))


def is_count(value: object) -> bool:
    """Say whether a value can be a token count: a non-negative whole number (bool is not)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0 and value == int(value)


def pico_estimate(usd: float) -> Pico:
    """Convert an expected cost to whole pico-dollars; quick, for forecasts and never for bills."""
    return round(usd * PICO_PER_USD)


def is_name(value: object) -> bool:
    """Say whether a value can stand in keys, rows and logs: a printable text of 1 to 200 characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def is_whole(value: object, *, least: int = 1) -> bool:
    """Say whether a value is a whole number of at least `least` (bool is not a number)."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_within(value: object) -> bool:
    """Say whether no number inside plain values is beyond what 64 bits or a sum of floats can carry.

    >>> is_within({"a": [1, 2.5]}), is_within([10**400]), is_within(float("nan"))
    (True, False, False)
    """
    if isinstance(value, dict):
        return all(map(is_within, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_within, value))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, float) or abs(value) <= _LARGEST_FLOAT


def is_amount(value: object) -> bool:
    """Say whether a value can be an amount of money or time: a finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0
