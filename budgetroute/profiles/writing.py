"""A profile as text that diffs well."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from budgetroute.records import Action, Cell, Profile, PromptType

FORMAT_NAME = "budgetroute-profile"
FORMAT_VERSION = 1
SIGNIFICANT_DIGITS = 6


def dump_profile(profile: Profile) -> str:
    """Return a profile as JSON that diffs well: one action, type and cell per line.

    Numbers of cells have 6 significant digits; what equals the default is left out.
    """
    ref = profile.classifier
    rows = {name: list(_cell_lines(row)) for name, row in sorted(profile.cells.items())}
    parts = {
        "format": _line(f"{FORMAT_NAME}/{FORMAT_VERSION}"),
        "name": _line(profile.name),
        "created": _line(profile.created),
        "classifier": _line(ref and {"name": ref.name, "sha256": ref.sha256}),
        "provenance": _tree(profile.provenance),
        "types": _named({k: _line(_type_entry(t)) for k, t in sorted(profile.types.items())}),
        "actions": _block([_line(action_entry(action)) for action in profile.actions], "[]", 2),
        "cells": _named({name: _block(lines, "[]", 4) for name, lines in rows.items()}),
    }
    return _named(parts, indent=0) + "\n"


def action_entry(action: Action) -> dict[str, Any]:
    """Return an action as it stands in the file, defaults left out."""
    entry = _set_values(action)
    if action.params:
        entry["params"] = dict(action.params)
    return entry


def _type_entry(kind: PromptType) -> dict[str, Any]:
    """Return a type as it stands in the file; shares in full, so that they still sum to 1."""
    return _rounded(_set_values(kind)) | {"share": kind.share}


def _cell_lines(row: Sequence[Cell | None]) -> Iterator[str]:
    for index, cell in enumerate(row):
        if cell is not None:
            yield _line({"action": index} | _rounded(_set_values(cell)))


def _set_values(record: Action | Cell | PromptType) -> dict[str, Any]:
    """Return the fields that differ from their default as written, in the record's order."""
    return {
        field.name: value
        for field in fields(record)
        if _short(value := getattr(record, field.name)) != field.default
    }


def _short(value: object) -> object:
    return _round(value) if isinstance(value, float) else value


def _rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: _short(value) for key, value in entry.items()}


def _round(value: float) -> float | int:
    short = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return int(short) if short.is_integer() else short


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _tree(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2).replace("\n", "\n  ")


def _named(texts: Mapping[str, str], *, indent: int = 2) -> str:
    return _block([f"{_line(key)}: {text}" for key, text in texts.items()], "{}", indent)


def _block(lines: Sequence[str], brackets: str, indent: int) -> str:
    if not lines:
        return brackets
    pad = " " * (indent + 2)
    body = ",\n".join(f"{pad}{line}" for line in lines)
    return f"{brackets[0]}\n{body}\n{' ' * indent}{brackets[1]}"
