"""Fields of foreign responses, objects or dicts: counts and words that can be believed."""

from __future__ import annotations

from collections.abc import Mapping

from budgetroute.units import is_count

__all__ = ["ABSURD", "UnknownError", "count", "either", "field_of", "items_of", "storable", "word"]

ABSURD = 10**8
"""No call has so many tokens; at the dearest price they cost less than a ledger can hold."""
LONGEST = 200
"""Characters that are kept of a response's words: they go into rows, logs and searches."""


class UnknownError(Exception):
    """A count is there but cannot be one."""


def field_of(place: object, name: str) -> object:
    """Return a field of an object or a dict, None where it has none."""
    if place is None:
        return None
    if type(place) is dict or isinstance(place, Mapping):
        return place.get(name)
    return getattr(place, name, None)


def items_of(place: object, *names: str) -> list[object]:
    """Return the items of the first of these lists that is there."""
    for name in names:
        value = field_of(place, name)
        if isinstance(value, list | tuple):
            return list(value)
    return []


def count(place: object, name: str, *, most: int = ABSURD) -> int | None:
    """Return a count, None where there is none; raises UnknownError for what cannot be one."""
    value = field_of(place, name)
    if value is None:
        return None
    if type(value) is int and 0 <= value <= most:
        return value
    if not isinstance(value, int | float) or not is_count(value) or value > most:
        raise UnknownError
    return int(value)


def either(place: object, *names: str) -> int | None:
    """Return the first of these counts that is there."""
    return next((found for name in names if (found := count(place, name)) is not None), None)


def word(place: object, *names: str) -> str | None:
    """Return the first of these fields that is a text."""
    found = (field_of(place, name) for name in names)
    return next((storable(value) for value in found if isinstance(value, str) and value), None)


def storable(text: str) -> str:
    """Return a word that a ledger can carry: short, and without half a surrogate pair."""
    text = text[:LONGEST]
    return text if text.isascii() else text.encode(errors="replace").decode()
