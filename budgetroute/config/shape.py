"""What the Structs of the configuration look like: their keys, tables, texts and marks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from budgetroute.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec.structs import FieldInfo

KeyPath: TypeAlias = tuple[str, ...]
"""A key with its tables: `("budget", "daily_usd")`."""

NOT_KEYS = frozenset({"source", "folder", "origins"})
"""Fields of Config that say where it came from."""


@cache
def keys_of(struct: type[Struct]) -> Mapping[str, FieldInfo]:
    """Return the keys that a table may have."""
    fields = msgspec.structs.fields(struct)
    return {field.name: field for field in fields if field.name not in NOT_KEYS}


def section_of(field: FieldInfo) -> type[Struct] | None:
    """Return the Struct of a key that is a table of fixed keys (`[budget]`), else None."""
    bare = _bare(field.type)
    return bare if isinstance(bare, type) and issubclass(bare, Struct) else None


def table_of(field: FieldInfo) -> type[Struct] | None:
    """Return the Struct of each entry of a table with free names (`[models.NAME]`), else None."""
    bare = _bare(field.type)
    if get_origin(bare) is not Mapping:
        return None
    entry = get_args(bare)[1]
    return entry if isinstance(entry, type) and issubclass(entry, Struct) else None


def described(field: FieldInfo) -> Meta:
    """Return the Meta that carries the key's text and example."""
    metas = [part for part in get_args(field.type)[1:] if isinstance(part, Meta)]
    return metas[-1] if metas else Meta()


def example_of(field: FieldInfo) -> object:
    """Return an example of the key's value."""
    return (described(field).examples or [None])[0]


def has_mark(field: FieldInfo, mark: str) -> bool:
    """Say whether the key takes a short form (`keys.ONE_OR_MANY`, `keys.DURATION`)."""
    return bool((described(field).extra or {}).get(mark))


def plain_types(field: FieldInfo) -> frozenset[object]:
    """Return the bare types that a value may have, Optional and ranges taken off.

    >>> plain_types(keys_of(Config)["strict"])
    frozenset({<class 'bool'>})
    """
    bare = _bare(field.type)
    parts = get_args(bare) if type(None) in get_args(bare) else (bare,)
    return frozenset(_bare(part) for part in parts) - {type(None)}


def fixed_keys(
    struct: type[Struct] = Config, above: KeyPath = ()
) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield every key outside the tables with free names, with its path."""
    for name, field in keys_of(struct).items():
        section = section_of(field)
        if section is not None:
            yield from fixed_keys(section, (*above, name))
        elif table_of(field) is None:
            yield (*above, name), field


def _bare(annotation: object) -> object:
    """Take `Annotated` off a type."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
