"""Prices as the user writes them in budgetroute.toml."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.records import Price, Rates
from budgetroute.units import atto_from_usd_per_million, pico_from_usd

if TYPE_CHECKING:
    from budgetroute.units import Atto, Pico

__all__ = ["price_from_config"]

_RATES = ("input", "output", "cached_input", "cache_write", "reasoning")
_KEYS = (*_RATES, "request")
_SANE_PER_MILLION = (Decimal("0.0001"), Decimal(10_000))
_SANE_PER_REQUEST = Decimal(100)


def price_from_config(model: str, value: object) -> Price:
    """Read `price` of a `[models]` table: $ per million tokens, or the word "free".

    `{ input = 0.15, output = 0.60 }`, and where the model has them `cached_input`, `cache_write`,
    `reasoning` per million tokens and `request` in $ per request.

    Raises:
        ConfigError: unknown or missing keys, values that are no sane price.

    >>> price_from_config("mine", {"input": 0.15, "output": 0.60}).rates.output
    600000000000
    """
    where = f'[models."{model}"] price'
    if value == "free":
        return Price(model, Rates(0, 0), source="free")
    if not isinstance(value, Mapping):
        raise ConfigError(
            f'{where}: expected {{ input = 0.50, output = 1.50 }} or "free", found {value!r}'
        )
    _check_keys(where, value)
    rates = {
        name: _rate(f"{where}.{name}", value[name])
        for name in _RATES
        if value.get(name) is not None
    }
    if not rates["input"] and not rates["output"]:
        raise ConfigError(f'{where}: input and output are both 0; say price = "free" if they are')
    fee = _fee(f"{where}.request", value["request"]) if value.get("request") is not None else 0
    return Price(model, Rates(**rates), request_fee=fee, source="config")


def _check_keys(where: str, value: Mapping[object, object]) -> None:
    for name in value:
        if name not in _KEYS:
            near = difflib.get_close_matches(str(name), _KEYS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"{where}: unknown key {name!r}{hint}; it takes {_KEYS}")
    for name in ("input", "output"):
        if value.get(name) is None:
            raise ConfigError(
                f"{where}: {name} is missing; write {name} = … ($ per million tokens)"
            )


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


def _fee(where: str, value: object) -> Pico:
    number = _amount(where, value)
    if number > _SANE_PER_REQUEST:
        raise ConfigError(f"{where} = {value}: the fee is in $ per request, such as 0.005")
    return pico_from_usd(number)


def _amount(where: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ConfigError(f"{where}: expected a number, found {value!r}")
    number = Decimal(str(value))
    if not number.is_finite() or number < 0:
        raise ConfigError(f"{where} = {value}: a price is a number from 0 up")
    return number
