"""Reads `BUDGETROUTE_*`: one variable per key outside the tables with free names."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from budgetroute.config.origins import Leaf, Leaves, Origin
from budgetroute.config.shape import fixed_keys, plain_types
from budgetroute.config.values import read_value
from budgetroute.config.wording import did_you_mean, found
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec.structs import FieldInfo

    from budgetroute.config.shape import KeyPath

PREFIX = "BUDGETROUTE_"
CONFIG = "BUDGETROUTE_CONFIG"
DISABLE = "BUDGETROUTE_DISABLE"
LOG = "BUDGETROUTE_LOG"
RESERVED = frozenset({CONFIG, DISABLE, LOG})
"""Variables that are no keys of the configuration."""

_SERVICE_LINK = re.compile(
    r"BUDGETROUTE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
"""What Kubernetes and Docker put into every container beside a service named budgetroute."""
_WORDS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_TABLES = ("LIMITS_", "MODELS_", "TYPES_", "ROUTES_")


def variables() -> dict[str, tuple[KeyPath, FieldInfo]]:
    """Return variable → key, for every key that the environment can set."""
    return {
        PREFIX + "_".join(path).upper(): (path, field)
        for path, field in fixed_keys()
        if plain_types(field) & {str, int, float, bool} or "Literal" in str(field.type)
    }


def is_disabled(env: Mapping[str, str]) -> bool:
    """Say whether `BUDGETROUTE_DISABLE` turns budgetroute off; raises ConfigError if unclear."""
    text = env.get(DISABLE, "").strip()
    if not text:
        return False
    if text.lower() not in _WORDS:
        raise ConfigError(
            f"environment variable {DISABLE} is {found(text)}; expected true or false. "
            f"Set {DISABLE}=1 to turn budgetroute off, or unset it."
        )
    return _WORDS[text.lower()]


def layer_of_environment(env: Mapping[str, str]) -> Leaves:
    """Check every `BUDGETROUTE_*` variable; unknown ones are errors with a suggestion."""
    known = variables()
    leaves: Leaves = {}
    for name in sorted(env):
        if not name.startswith(PREFIX) or name in RESERVED or _SERVICE_LINK.fullmatch(name):
            continue
        if name not in known:
            raise _unknown(name, list(known))
        path, field = known[name]
        origin = Origin("env", name)
        value = read_value(_typed(env[name], field), field, path=path, origin=origin)
        leaves[path] = Leaf(value, origin)
    return leaves


def _typed(text: str, field: FieldInfo) -> object:
    """Parse a variable as its key's type; a text that does not parse is left for the error."""
    types, value = plain_types(field), text.strip()
    if bool in types:
        return _WORDS.get(value.lower(), value)
    for number in (int, float):
        if number in types:
            with suppress(ValueError):
                return number(value)
    return value


def _unknown(name: str, known: list[str]) -> ConfigError:
    if name.removeprefix(PREFIX).startswith(_TABLES):
        return ConfigError(
            f"environment variable {name}: limits, models, types and routes cannot be set by the "
            "environment. Write them in budgetroute.toml and unset it."
        )
    hint = did_you_mean(name, known) or "."
    return ConfigError(
        f"unknown environment variable {name}{hint} Allowed: "
        f"{', '.join([*known, *sorted(RESERVED)])}. Unset it, or use one of these."
    )
