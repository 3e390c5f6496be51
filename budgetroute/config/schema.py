"""The JSON Schema of budgetroute.toml, for editors: made from the Structs, kept as a file beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import NODEFAULT

from budgetroute.config.model import Config
from budgetroute.config.shape import example_of, keys_of, section_of, table_of
from budgetroute.config.values import schema_of

if TYPE_CHECKING:
    from msgspec import Struct
    from msgspec.structs import FieldInfo

SCHEMA_FILE = Path(__file__).with_name("budgetroute.schema.json")
"""The file that ships; its path goes into the first line of a budgetroute.toml: `#:schema …`."""


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12), with a description and an example of every key.

    Nothing is required in it: `budget.daily_usd` may come from the environment.
    """
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "budgetroute.toml",
    }
    return head | _object(Config, "Configuration of budgetroute.")


def schema_text() -> str:
    """Return the schema as the file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(path: Path = SCHEMA_FILE) -> None:
    """Write the schema's file anew, after a change of the Structs."""
    path.write_text(schema_text(), encoding="utf-8")


def _object(struct: type[Struct], description: str) -> dict[str, Any]:
    keys = {name: _key(field) for name, field in keys_of(struct).items()}
    return {
        "description": description,
        "type": "object",
        "properties": keys,
        "additionalProperties": False,
    }


def _key(field: FieldInfo) -> dict[str, Any]:
    section, entry = section_of(field), table_of(field)
    if section is not None:
        return _object(section, _text(section))
    if entry is not None:
        return {
            "description": _text(entry),
            "type": "object",
            "additionalProperties": _object(entry, _text(entry)),
        }
    default = {"default": field.default} if _says(field.default) else {}
    return schema_of(field) | default | {"examples": [example_of(field)]}


def _says(default: object) -> bool:
    """Say whether a default is a value; None and () mean that the key is not said."""
    return default is not NODEFAULT and default is not None and default != ()


def _text(struct: type[Struct]) -> str:
    return (struct.__doc__ or "").split("\n\n", maxsplit=1)[0]
