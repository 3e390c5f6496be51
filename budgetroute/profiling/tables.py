"""Reads tables of outcomes: CSV, JSON lines, Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute import files
from budgetroute.errors import ProfileError
from budgetroute.profiling.columns import (
    BY_NAME,
    COLUMNS,
    is_missing,
    outcome_of,
    unknown_columns,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from budgetroute.profiling.columns import Outcome

MAX_BYTES = 1024**3
SHOWN = 5
"""Bad rows that an error lists; the rest are counted."""
SUSPICIOUS_LATENCY_S = 600.0
SUSPICIOUS_COST_USD = 20.0
TYPE_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A table that was read and checked.

    Attributes:
        rows: graded calls.
        origin: what errors call it.
        ignored: columns that nothing is made of.
    """

    rows: tuple[Outcome, ...]
    origin: str
    ignored: tuple[str, ...] = ()


def read_outcomes(
    path: str | os.PathLike[str], *, types: str | os.PathLike[str] | None = None
) -> Outcomes:
    """Read a table of outcomes; blocks on one or two files.

    Args:
        path: `.csv`, `.jsonl` or `.parquet` (which needs `pip install 'budgetroute[data]'`).
        types: another table, with prompt_id and type, that says each prompt's type instead.

    Raises:
        ProfileError: a file cannot be read, or rows are not what their columns hold; the first
            five are listed with their row numbers (of a CSV or JSONL file: the line).
    """
    rows = _rows_of(Path(path))
    if types is not None:
        kinds = _types_of(Path(types))
        rows = _typed(rows, kinds, origin=str(types))
    return outcomes_of(rows, origin=str(path))


def outcomes_of(
    rows: Iterable[tuple[int, Mapping[str, Any]]], *, origin: str = "outcomes"
) -> Outcomes:
    """Return numbered rows as outcomes, checked.

    Args:
        rows: (number, column → value); names as in `COLUMNS`, others are ignored.
        origin: what errors call the table.

    Raises:
        ProfileError: as for `read_outcomes`.
    """
    made, bad, names = [], [], set[str]()
    for number, raw in rows:
        names.update(raw)
        try:
            made.append(outcome_of(raw))
        except ValueError as err:
            bad.append(f"row {number}: {err}")
    _refuse_missing(names, origin)
    if bad:
        raise ProfileError(_listed(bad, origin))
    if not made:
        raise ProfileError(f"outcomes {origin}: no rows; expected one per graded call")
    outcomes = Outcomes(tuple(made), origin, tuple(unknown_columns(names)))
    _check(outcomes)
    return outcomes


def _refuse_missing(names: set[str], origin: str) -> None:
    known = {BY_NAME[name].name for name in names if name in BY_NAME}
    lacking = [column for column in COLUMNS if column.is_required and column.name not in known]
    if names and lacking:
        wanted = "; ".join(
            " or ".join((column.name, *column.also)) + f" ({column.meaning})" for column in lacking
        )
        raise ProfileError(
            f"outcomes {origin}: column missing: {wanted}. Found: {', '.join(sorted(names)[:20])}"
        )


def _listed(bad: Sequence[str], origin: str) -> str:
    more = len(bad) - SHOWN
    tail = [f"and {more:,} more"] if more > 0 else []
    count = "1 row" if len(bad) == 1 else f"{len(bad):,} rows"
    return "\n  ".join([f"outcomes {origin}: {count} cannot be used:", *bad[:SHOWN], *tail])


def _check(outcomes: Outcomes) -> None:
    """Refuse what single rows cannot show: units that are off throughout, prompts of two types."""
    rows, origin = outcomes.rows, outcomes.origin
    waits = [row.latency_s for row in rows if row.latency_s is not None]
    if waits and statistics.median(waits) > SUSPICIOUS_LATENCY_S:
        raise ProfileError(
            f"outcomes {origin}: half of latency_s is above {SUSPICIOUS_LATENCY_S:g}: these look "
            "like milliseconds; expected seconds"
        )
    bills = [row.cost_usd for row in rows if row.cost_usd is not None]
    if bills and statistics.median(bills) > SUSPICIOUS_COST_USD:
        raise ProfileError(
            f"outcomes {origin}: half of cost_usd is above ${SUSPICIOUS_COST_USD:g}: expected the "
            "dollars of one call, neither cents nor dollars per thousand calls"
        )
    kinds: dict[str, str] = {}
    for row in rows:
        if not TYPE_NAME.fullmatch(row.type):
            raise ProfileError(
                f"outcomes {origin}: type {row.type!r}: expected 1 to 64 letters, digits, '_', '-' "
                "or '.'"
            )
        if kinds.setdefault(row.prompt, row.type) != row.type:
            raise ProfileError(
                f"outcomes {origin}: prompt {row.prompt!r} has the types {kinds[row.prompt]!r} and "
                f"{row.type!r}; a prompt has one"
            )


def _types_of(path: Path) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for number, raw in _rows_of(path):
        named = {BY_NAME[key].name: value for key, value in raw.items() if key in BY_NAME}
        if is_missing(named.get("prompt_id")) or is_missing(named.get("type")):
            raise ProfileError(f"types {path}: row {number}: expected prompt_id and type")
        kinds[str(named["prompt_id"]).strip()] = str(named["type"]).strip()
    return kinds


def _typed(
    rows: Iterator[tuple[int, dict[str, Any]]], kinds: Mapping[str, str], *, origin: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, raw in rows:
        prompt = next((raw[key] for key in ("prompt_id", "id") if key in raw), None)
        kind = kinds.get(str(prompt).strip())
        if kind is None:
            raise ProfileError(f"types {origin}: nothing about prompt {prompt!r} of row {number}")
        yield number, {k: v for k, v in raw.items() if k != "prompt_type"} | {"type": kind}


def _rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    suffix = path.suffix.lower()
    readers = {".csv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl, ".parquet": _parquet}
    if suffix not in readers:
        raise ProfileError(f"outcomes {path}: a table is a .csv, .jsonl or .parquet file")
    try:
        data = files.read(path.expanduser(), most=MAX_BYTES)[0]
    except OSError as err:
        raise ProfileError(f"outcomes {path}: cannot be read: {err.strerror or err}") from err
    return readers[suffix](data, path)


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, column → value) of a table's rows, unchecked.

    Raises:
        ProfileError: the file cannot be read.
    """
    yield from _rows_of(path)


def _text(data: bytes, path: Path) -> io.StringIO:
    try:
        return io.StringIO(data.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as err:
        raise ProfileError(f"outcomes {path}: not UTF-8 text: {err}") from err


def _csv(data: bytes, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(_text(data, path), strict=True)
    try:
        for raw in reader:
            if None in raw:
                raise ProfileError(
                    f"outcomes {path}: row {reader.line_num}: more values than columns"
                )
            yield reader.line_num, raw
    except csv.Error as err:
        raise ProfileError(f"outcomes {path}: row {reader.line_num}: {err}") from err


def _jsonl(data: bytes, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_text(data, path), start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise ProfileError(f"outcomes {path}: row {number}: not JSON: {err}") from err
        if not isinstance(raw, dict):
            raise ProfileError(f"outcomes {path}: row {number}: expected an object per line")
        yield number, raw


def _parquet(data: bytes, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as err:
        raise ProfileError(
            f"outcomes {path}: reading Parquet needs pyarrow: pip install 'budgetroute[data]'"
        ) from err
    try:
        table = pq.ParquetFile(io.BytesIO(data))
        wanted = [name for name in table.schema_arrow.names if name in BY_NAME]
        start = 1
        for batch in table.iter_batches(columns=wanted or None):
            rows = batch.to_pylist()
            yield from enumerate(rows, start=start)
            start += len(rows)
    except (pa.ArrowException, OSError) as err:
        raise ProfileError(f"outcomes {path}: not a Parquet file: {err}") from err


def implied_tokens(row: Outcome, input_usd: float, output_usd: float) -> Outcome:
    """Return the row with the output tokens that its bill tells, at these dollars per token.

    (cost − input tokens · price) / price, never below one token. A row with tokens, or without
    the input tokens, stays.
    """
    if row.output_tokens is not None or row.input_tokens is None or row.cost_usd is None:
        return row
    if output_usd <= 0:
        return row
    left = row.cost_usd - row.input_tokens * input_usd
    return replace(row, output_tokens=max(1.0, left / output_usd))


def by_type(rows: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return the rows of each type, types sorted."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for row in rows:
        groups[row.type].append(row)
    return dict(sorted(groups.items()))
