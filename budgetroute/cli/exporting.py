"""`budgetroute ledger export`: attempts as CSV or JSON lines, one at a time."""

from __future__ import annotations

import csv
import json
import os
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

from budgetroute.cli.console import emit, json_safe, marked, out
from budgetroute.cli.lines import COLUMNS, lines
from budgetroute.cli.wording import counted
from budgetroute.errors import ConfigError
from budgetroute.oneline import one_line
from budgetroute.stores.books import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from budgetroute.cli.ledger import Place
    from budgetroute.cli.lines import Line, Wanted

Format: TypeAlias = Literal["csv", "jsonl"]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PRIVATE = 0o600


def export_command(
    at: Place, wanted: Wanted, *, form: Format, output: Path | None, as_json: bool
) -> int:
    """Write attempts, newest first, to stdout or to a new file that only this user reads; return 0.

    Raises:
        ConfigError: the file is there already or cannot be made, or `as_json` without one.
        StoreError: the ledger cannot be read.
    """
    if as_json and output is None:
        raise ConfigError(
            "--json tells what was written to a file: add --output FILE, or use --format jsonl."
        )
    written = 0
    with (
        reading(at.path) as ledger,
        nullcontext(sys.stdout) if output is None else _new(output) as file,
    ):
        write = _csv(file) if form == "csv" else _jsonl(file)
        for line in lines(ledger, wanted):
            write(line)
            written += 1
    if as_json:
        emit({"ledger": str(at.path), "file": str(output), "format": form, "attempts": written})
    elif output is not None:
        out().print(
            marked("ok", f"wrote {counted(written, 'attempt')} to {output}"), soft_wrap=True
        )
    return 0


@contextmanager
def _new(path: Path) -> Iterator[TextIO]:
    """Make a file of this name when all of it is written; until then it has another one."""
    part = path.with_name(f"{path.name}.part")
    if os.path.lexists(path):
        raise ConfigError(f"{path} is there already; name another file, or move it away.")
    try:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE)
    except OSError as err:
        raise ConfigError(f"{part} cannot be made: {err.strerror}. Name another file.") from err
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _csv(file: TextIO) -> Callable[[Line], object]:
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    return lambda line: writer.writerow([_cell(value) for value in line.to_json().values()])


def _cell(value: object) -> object:
    """Return a value that no spreadsheet runs and no terminal obeys: servers write some names."""
    if not isinstance(value, str):
        return value
    return one_line(f"'{value}" if value.startswith(_FORMULA) else value)


def _jsonl(file: TextIO) -> Callable[[Line], object]:
    return lambda line: file.write(json_safe(json.dumps(line.to_json(), ensure_ascii=False)) + "\n")
