"""Turns each source of values into one layer: checked leaves by key path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from budgetroute.config.model import Config
from budgetroute.config.origins import Leaf, Leaves, Origin
from budgetroute.config.shape import fixed_keys, keys_of, section_of, table_of
from budgetroute.config.values import read_value
from budgetroute.config.wording import did_you_mean, found, quoted
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from msgspec import Struct
    from msgspec.structs import FieldInfo

    from budgetroute.config.shape import KeyPath

_PART = re.compile(r"""("[^"]+"|'[^']+'|[^."']+)""")
_DOTTED = re.compile(rf"{_PART.pattern}(?:\.{_PART.pattern})*")
_ARGUMENT = Origin("argument")


def layer_of(tree: Mapping[str, object], origin: Origin) -> Leaves:
    """Check a nested table against the shape of Config; raises ConfigError for what does not fit."""
    return _read_section(tree, Config, path=(), origin=origin)


def layer_of_overrides(overrides: Mapping[str, object]) -> Leaves:
    """Check arguments: dotted keys or whole tables; None leaves what the other sources say."""
    leaves: Leaves = {}
    for name, value in overrides.items():
        if value is None:
            continue
        tree: object = value
        for part in reversed(_split(name)):
            tree = {part: tree}
        leaves |= layer_of(tree, _ARGUMENT)  # type: ignore[arg-type]  # a split name has a part
    return leaves


def _split(name: str) -> list[str]:
    """Split a dotted key; parts with dots of their own stand in quotes."""
    if not _DOTTED.fullmatch(name):
        raise ConfigError(
            f"the arguments of load_config: {name!r} is not a dotted key. Write for example "
            "'budget.daily_usd'; names with dots stand in quotes: 'models.\"gpt-4.1\".max_tokens'."
        )
    return [part.strip("\"'") for part in _PART.findall(name)]


def _read_section(
    tree: Mapping[str, object], struct: type[Struct], *, path: KeyPath, origin: Origin
) -> Leaves:
    """Read a table with fixed keys."""
    leaves: Leaves = {}
    known = keys_of(struct)
    for name, value in tree.items():
        if name not in known:
            raise _unknown({name: value}, struct, path=path, origin=origin)
        leaves |= _read_key(value, known[name], path=(*path, name), origin=origin)
    return leaves


def _read_key(value: object, field: FieldInfo, *, path: KeyPath, origin: Origin) -> Leaves:
    section, entry = section_of(field), table_of(field)
    if section is not None:
        return _read_section(_table(value, path, origin), section, path=path, origin=origin)
    if entry is not None:
        return _read_entries(_table(value, path, origin), entry, path=path, origin=origin)
    return {path: Leaf(read_value(value, field, path=path, origin=origin), origin)}


def _read_entries(
    tree: Mapping[str, object], entry: type[Struct], *, path: KeyPath, origin: Origin
) -> Leaves:
    """Read a table with free names; an empty entry is kept as a leaf of its own path."""
    leaves: Leaves = {}
    for name, value in tree.items():
        below = (*path, name)
        if not name.strip():
            raise origin.refuse(below, "has no name", f"Write for example [{path[0]}.NAME].")
        leaves[below] = Leaf(None, origin)
        leaves |= _read_section(_table(value, below, origin), entry, path=below, origin=origin)
    return leaves


def _table(value: object, path: KeyPath, origin: Origin) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    entries = len(path) == 1 and path[0] not in _SECTIONS
    header = origin.table((*path, "NAME") if entries else path)
    advice = f"Write {header} on a line of its own and its keys below."
    raise origin.refuse(path, f"is {found(value, path)}; expected a table", advice)


def _unknown(
    item: Mapping[str, object], struct: type[Struct], *, path: KeyPath, origin: Origin
) -> ConfigError:
    name, value = next(iter(item.items()))
    known = list(keys_of(struct))
    if len(path) > 1 and isinstance(value, Mapping):
        full = origin.table((*path[:-1], f"{path[-1]}.{name}"))
        hint = f"; a name with dots stands in quotes: {full}."
    else:
        hint = _home_of(name, path, origin) or did_you_mean(name, known) or "."
    return ConfigError(
        f"unknown key `{quoted(name)}` in {origin.table(path)} of {origin.where}{hint} "
        f"Allowed: {', '.join(known)}."
    )


def _home_of(name: str, path: KeyPath, origin: Origin) -> str:
    """Say where a key belongs that stands in the wrong table."""
    if name in _AMOUNTS and path[:1] == ("routes",):
        own = '`match = { route = "' + path[-1] + '" }`'
        return f"; a limit has a table of its own: {origin.table(('limits', 'NAME'))} with {own}."
    if name == "scopes":
        return f"; limits on tags, users and routes stand in {origin.table(('limits', 'NAME'))}."
    home = _HOMES.get(name, path)
    return "" if home == path else f"; it belongs in {origin.table(home)}."


_HOMES = {path[-1]: path[:-1] for path, _ in reversed(list(fixed_keys()))}
"""Key → the table it belongs in."""
_AMOUNTS = frozenset({"daily_usd", "weekly_usd", "monthly_usd", "total_usd"})
_SECTIONS = {name for name, field in keys_of(Config).items() if section_of(field)}
