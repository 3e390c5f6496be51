"""Prices as the user writes them in budgetroute.toml: by tokens, by time, or "free"."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from budgetroute.errors import ConfigError
from budgetroute.records import Fees, Price, Rates
from budgetroute.units import ATTO_PER_USD, atto_from_usd_per_million, pico_from_usd

if TYPE_CHECKING:
    from budgetroute.units import Atto, Pico

__all__ = ["PRICE_CLASSES", "price_from_config"]

PRICE_CLASSES = {
    "input": "input",
    "output": "output",
    "cached_input": "cached_input",
    "cache_write": "cache_write",
    "cache_write_1h": "cache_write_long",
    "reasoning": "reasoning",
    "audio_input": "audio_input",
    "audio_output": "audio_output",
    "image_input": "image_input",
    "image_output": "image_output",
}
"""Key of a `price` → field of Rates."""
_FEES = ("request", "search")
_BY_TOKENS = (*PRICE_CLASSES, *_FEES)
_BY_TIME = ("gpu_hour", "watts", "usd_per_kwh", "tokens_per_second", "request")
_SANE_PER_MILLION = (Decimal("0.0001"), Decimal(10_000))
_SANE_FEE = Decimal(100)
_SANE_TIME = {
    "gpu_hour": Decimal(10_000),
    "watts": Decimal(1_000_000),
    "usd_per_kwh": Decimal(100),
    "tokens_per_second": Decimal(10_000_000),
}
_SECONDS_PER_HOUR = 3600
_WATTS_PER_KILOWATT = 1000


def price_from_config(model: str, value: object) -> Price:
    """Read `price` of a `[models]` table: $ per million tokens, by time, or the word "free".

    `{ input = 0.15, output = 0.60 }`, and where the model has them `cached_input`, `cache_write`,
    `cache_write_1h`, `reasoning`, `audio_input`, `audio_output`, `image_input`, `image_output` per
    million tokens, and `request` and `search` in $ each. By time: `{ gpu_hour = 2.5 }`, or
    `{ watts = 700, usd_per_kwh = 0.2 }`, with `tokens_per_second` where no latency was profiled.

    Raises:
        ConfigError: unknown or missing keys, values that are no sane price.

    >>> price_from_config("mine", {"input": 0.15, "output": 0.60}).rates.output
    600000000000
    >>> price_from_config("ours", {"gpu_hour": 3.6}).second  # $0.001 a second
    1000000000000000
    """
    where = f'[models."{model}"] price'
    if value == "free":
        return Price(model, Rates(0, 0), source="free")
    if not isinstance(value, Mapping):
        raise ConfigError(
            f'{where}: expected {{ input = 0.50, output = 1.50 }}, {{ gpu_hour = 2.50 }} or "free", '
            f"found {value!r}"
        )
    said = {name: number for name, number in value.items() if number is not None}
    if said.keys() & (set(_BY_TIME) - set(_FEES)):
        return _by_time(model, where, said)
    return _by_tokens(model, where, said)


def _by_tokens(model: str, where: str, said: Mapping[object, object]) -> Price:
    _check_keys(where, said, _BY_TOKENS)
    for name in ("input", "output"):
        if name not in said:
            raise ConfigError(
                f"{where}: {name} is missing; write {name} = … ($ per million tokens)"
            )
    rates = {
        field: _rate(f"{where}.{name}", said[name])
        for name, field in PRICE_CLASSES.items()
        if name in said
    }
    if not rates["input"] and not rates["output"]:
        raise ConfigError(f'{where}: input and output are both 0; say price = "free" if they are')
    search = _fee(where, said, "search")
    fees = Fees(search=dict.fromkeys(("low", "medium", "high"), search) if search else {})
    fee = _fee(where, said, "request")
    return Price(model, Rates(**rates), request_fee=fee, source="config", fees=fees)


def _by_time(model: str, where: str, said: Mapping[object, object]) -> Price:
    """Read a price per hour of the engine, or of its power: $/s = $/h ÷ 3600 = kW · $/kWh ÷ 3600."""
    _check_keys(where, said, _BY_TIME)
    numbers = {name: _time(where, said, name) for name in _SANE_TIME if name in said}
    powered = {"watts", "usd_per_kwh"} & numbers.keys()
    if "gpu_hour" in numbers and powered:
        raise ConfigError(f"{where}: gpu_hour and {powered.pop()} are two prices; write one")
    if "gpu_hour" not in numbers and len(powered) < len(("watts", "usd_per_kwh")):
        raise ConfigError(
            f"{where}: by time it takes gpu_hour = … ($ per hour of the engine), or watts = … and "
            "usd_per_kwh = … together"
        )
    hour = (
        numbers["gpu_hour"]
        if "gpu_hour" in numbers
        else numbers["watts"] * numbers["usd_per_kwh"] / _WATTS_PER_KILOWATT
    )
    speed = numbers.get("tokens_per_second")
    return Price(
        model,
        Rates(0, 0),
        request_fee=_fee(where, said, "request"),
        source="time",
        second=round(hour * ATTO_PER_USD / _SECONDS_PER_HOUR),
        tokens_per_second=None if speed is None else float(speed),
    )


def _check_keys(where: str, said: Mapping[object, object], known: tuple[str, ...]) -> None:
    for name in said:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"{where}: unknown key {name!r}{hint}; it takes {', '.join(known)}")


def _rate(where: str, value: object) -> Atto:
    number = _amount(where, value)
    low, high = _SANE_PER_MILLION
    if 0 < number < low:
        raise ConfigError(
            f"{where} = {value}: prices are in $ per million tokens; this looks like $ per token. "
            f"Write {number * 10**6:f}"
        )
    if number > high:
        raise ConfigError(
            f"{where} = {value}: prices are in $ per million tokens and none is above {high}; "
            f"a price per token times a million was expected, such as 0.15"
        )
    return atto_from_usd_per_million(number)


def _fee(where: str, said: Mapping[object, object], name: Literal["request", "search"]) -> Pico:
    if name not in said:
        return 0
    number = _amount(f"{where}.{name}", said[name])
    if number > _SANE_FEE:
        raise ConfigError(
            f"{where}.{name} = {said[name]}: the fee is in $ per {name}, such as 0.005"
        )
    return pico_from_usd(number)


def _time(where: str, said: Mapping[object, object], name: str) -> Decimal:
    number = _amount(f"{where}.{name}", said[name])
    most = _SANE_TIME[name]
    if not 0 < number <= most:
        raise ConfigError(f"{where}.{name} = {said[name]}: expected more than 0, up to {most}")
    return number


def _amount(where: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ConfigError(f"{where}: expected a number, found {value!r}")
    number = Decimal(str(value))
    if not number.is_finite() or number < 0:
        raise ConfigError(f"{where} = {value}: a price is a number from 0 up")
    return number
