"""Reads single values: short forms spelled out, types and ranges checked, errors in words."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from budgetroute.config.frozen import frozen
from budgetroute.config.keys import DURATION, DURATION_PATTERN, ONE_OR_MANY
from budgetroute.config.shape import example_of, has_mark
from budgetroute.config.wording import did_you_mean, expected, found, toml

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    from budgetroute.config.origins import Origin
    from budgetroute.config.shape import KeyPath
    from budgetroute.errors import ConfigError

_SHOWN = 20
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_value(value: object, field: FieldInfo, *, path: KeyPath, origin: Origin) -> object:
    """Return the value as the Struct holds it; raises ConfigError naming place, key and remedy."""
    full = _spelled_out(_plain(value), field)
    try:
        read = msgspec.convert(full, field.type)
    except (msgspec.ValidationError, OverflowError) as err:
        raise _mistyped(value, field, path=path, origin=origin) from err
    if not _finite(full):
        raise _mistyped(value, field, path=path, origin=origin)
    _refuse_repeats(read, path=path, origin=origin)
    return frozen(read)


def schema_of(field: FieldInfo) -> dict[str, Any]:
    """Return the JSON Schema of a value as users write it: short forms in, null out."""
    schema = msgspec.json.schema(field.type)
    parts = [part for part in schema.pop("anyOf", []) if part.get("type") != "null"]
    if parts:
        schema |= parts[0] if len(parts) == 1 else {"anyOf": parts}
    if has_mark(field, DURATION):
        number = {name: schema.pop(name) for name in ("type", "minimum", "maximum")}
        schema["anyOf"] = [number, {"type": "string", "pattern": DURATION_PATTERN}]
    if schema.get("type") == "array":
        schema["uniqueItems"] = True
    if has_mark(field, ONE_OR_MANY):
        many = {name: schema.pop(name) for name in ("type", "items", "minItems", "uniqueItems")}
        schema["anyOf"] = [many["items"], many]
    return schema


def _plain(value: object) -> object:
    """Turn what Python callers pass into what TOML has."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return float(value) if isinstance(value, Decimal) else value


def _spelled_out(value: object, field: FieldInfo) -> object:
    """Turn a short form into the long one."""
    if has_mark(field, ONE_OR_MANY) and not isinstance(value, list | tuple):
        return [value]
    if has_mark(field, DURATION) and isinstance(value, str):
        return _seconds(value)
    return value


def _seconds(text: str) -> float | str:
    """Return the seconds of `5m`, or the text when it is not of that form."""
    if not re.fullmatch(DURATION_PATTERN, text):
        return text
    unit = _SECONDS.get(text[-1])
    return float(text[:-1]) * unit if unit else float(text)


def _finite(value: object) -> bool:
    """Say whether no number inside is NaN or infinite."""
    if isinstance(value, Mapping):
        return all(_finite(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(_finite(part) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


def _mistyped(value: object, field: FieldInfo, *, path: KeyPath, origin: Origin) -> ConfigError:
    schema = schema_of(field)
    parts = [schema, *schema.get("anyOf", ())]
    options = [word for part in parts for word in part.get("enum", ())]
    near = did_you_mean(value, options) if isinstance(value, str) else ""
    problem = f"is {found(value, path)}; expected {expected(schema)}{near}"
    return origin.refuse(path, problem, origin.advice(path, example_of(field)))


def _refuse_repeats(read: object, *, path: KeyPath, origin: Origin) -> None:
    if not isinstance(read, tuple):
        return
    once = {toml(part): part for part in reversed(read)}
    if len(once) < len(read):
        twice, _ = Counter(map(toml, read)).most_common(1)[0]
        problem = f"lists {found(once[twice])} twice"
        kept = list(once.values())[::-1]
        is_short = len(kept) <= _SHOWN
        advice = origin.advice(path, kept) if is_short else "Take one of the two out."
        raise origin.refuse(path, problem, advice)
