"""Puts merged leaves into the Structs and keeps where each came from."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from budgetroute.config.frozen import FrozenDict
from budgetroute.config.model import Config
from budgetroute.config.origins import DEFAULT, Leaf, Leaves
from budgetroute.config.shape import keys_of, section_of, table_of
from budgetroute.config.wording import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from msgspec import Struct
    from msgspec.structs import FieldInfo

    from budgetroute.config.shape import KeyPath

_STORE = (("store", "path"), ("store", "url"))


def merged(layers: Iterable[Leaves]) -> Leaves:
    """Return all layers as one, later ones over earlier ones.

    `store.path` and `store.url` exclude each other: the later layer's takes the other's place,
    both in one layer are an error.
    """
    whole: Leaves = {}
    for layer in layers:
        given = [path for path in _STORE if path in layer]
        if len(given) == len(_STORE):
            raise layer[_STORE[1]].origin.refuse(
                _STORE[1],
                "stands beside `store.path`",
                "Write one of the two: a store is one place.",
            )
        for path in _STORE if given else ():
            whole.pop(path, None)
        whole |= layer
    return whole


def add_default(leaves: Leaves, path: KeyPath, value: object) -> None:
    """Give a key a value that nobody wrote."""
    leaves.setdefault(path, Leaf(value, DEFAULT))


def named_after(folder: Path) -> str:
    """Return an app's name made of a folder's name.

    >>> from pathlib import Path
    >>> named_after(Path("/srv/Answer Service"))
    'answer-service'
    """
    plain = unicodedata.normalize("NFKD", folder.name).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9._-]+", "-", plain.lower()).strip("._-")[:64]
    if name:
        return name
    return f"app-{hashlib.sha256(str(folder).encode(errors='surrogateescape')).hexdigest()[:8]}"


def build(leaves: Leaves, *, source: Path | None, folder: Path) -> Config:
    """Return the Config; required keys must be among the leaves."""
    origins: dict[str, str] = {}
    fields = _fields(Config, (), leaves, origins)
    return Config(**fields, source=source, folder=folder, origins=FrozenDict(origins))


def _fields(
    struct: type[Struct], path: KeyPath, leaves: Leaves, origins: dict[str, str]
) -> dict[str, Any]:
    """Return the keyword arguments of a Struct, noting origins on the way."""
    return {
        name: _value(field, (*path, name), leaves, origins)
        for name, field in keys_of(struct).items()
    }


def _value(field: FieldInfo, path: KeyPath, leaves: Leaves, origins: dict[str, str]) -> object:
    section, entry = section_of(field), table_of(field)
    if section is not None:
        return section(**_fields(section, path, leaves, origins))
    if entry is not None:
        return FrozenDict(
            {
                name: entry(**_fields(entry, (*path, name), leaves, origins))
                for name in _names(leaves, path)
            }
        )
    leaf = leaves.get(path, Leaf(_default(field), DEFAULT))
    origins[dotted(path)] = leaf.origin.label
    return leaf.value


def _default(field: FieldInfo) -> object:
    return FrozenDict() if field.default_factory is dict else field.default


def _names(leaves: Leaves, table: KeyPath) -> list[str]:
    """Return the names of a table's entries in the order they were written."""
    depth = len(table)
    return list(dict.fromkeys(p[depth] for p in leaves if len(p) > depth and p[:depth] == table))
