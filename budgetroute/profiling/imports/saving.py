"""Writes tables of outcomes, and beside them prompts: the only file that holds their text."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from budgetroute import files
from budgetroute.errors import ProfileError
from budgetroute.profiling.columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

OWNER_ONLY = 0o600


def save_outcomes(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as an outcomes table; readers see the old file or the new one, never half of it.

    Args:
        rows: column → value, unknowns left out.
        path: a `.jsonl` or `.parquet` (which needs `pip install 'budgetroute[data]'`).

    Raises:
        ProfileError: it is of another kind, or cannot be written.
    """
    writers = {".jsonl": _jsonl, ".parquet": _parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise ProfileError(f"outcomes {path}: a table is written as .jsonl or .parquet")
    _write(path, writer(rows), mode=0o666)


def save_prompts(prompts: Iterable[Mapping[str, str]], path: Path) -> None:
    """Write prompts with their text as JSON lines that only their owner may read.

    Raises:
        ProfileError: it cannot be written.
    """
    _write(path, _jsonl(prompts), mode=OWNER_ONLY)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    try:
        with files.draft_of(path, content, mode=mode) as draft:
            draft.replace(path)
    except OSError as err:
        raise ProfileError(f"{path}: cannot be written: {err.strerror or err}") from err


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "backslashreplace")


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as err:
        raise ProfileError(
            "writing Parquet needs pyarrow: pip install 'budgetroute[data]'; or write a .jsonl"
        ) from err
    names = [c.name for c in COLUMNS if any(c.name in row for row in rows)]
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
