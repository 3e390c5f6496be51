"""The effective configuration as rows to print: key, value, origin. Secrets are masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from budgetroute.config.shape import keys_of, table_of
from budgetroute.config.wording import dotted, toml, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.config.model import Config
    from budgetroute.config.shape import KeyPath


def effective(config: Config) -> list[tuple[str, str, str]]:
    """Return (dotted key, value as TOML, origin) of every key that has a value."""
    return [
        (dotted(path), toml(without_secrets(value)), config.origins[dotted(path)])
        for path, value in _values(config, ())
        if value is not None and value not in ((), {})
    ]


def _values(struct: Struct, above: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    for name, field in keys_of(type(struct)).items():
        value, path = getattr(struct, name), (*above, name)
        if isinstance(value, Struct):
            yield from _values(value, path)
        elif table_of(field) is not None:
            for entry, inner in value.items():
                yield from _values(inner, (*path, entry))
        else:
            yield path, value
