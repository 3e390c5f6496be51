"""Opens what was named on the command line and says which tool wrote it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from budgetroute import files
from budgetroute.errors import ProfileError
from budgetroute.profiling.imports.archive import MAGIC, Archive
from budgetroute.profiling.imports.inspect_ai import inspect_calls, is_inspect
from budgetroute.profiling.imports.lm_eval import (
    is_lm_eval,
    is_results,
    lm_eval_calls,
)
from budgetroute.profiling.imports.logged import refuse
from budgetroute.profiling.imports.own import own_calls
from budgetroute.profiling.imports.promptfoo import (
    Table,
    is_promptfoo,
    promptfoo_calls,
    promptfoo_rows,
)
from budgetroute.profiling.tables import read_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from budgetroute.profiling.imports.logged import Logged

MAX_BYTES = 512 * 1024**2
"""Bytes of one log; JSON takes some ten times that in memory."""
FORMATS = "inspect_ai (.eval, .json), promptfoo (.json, .jsonl), lm-evaluation-harness (samples_*.jsonl), or a table of outcomes (.csv, .jsonl, .parquet)"
_SAMPLES = re.compile(r"samples_.*_(\d{4}-\d\d-\d\dT[\d.-]+)")

OWN = "own tables"

Opened: TypeAlias = "tuple[str, Iterator[Logged]]"


class Logs:
    """Files that were named together; results files of lm-evaluation-harness go with its samples.

    Args:
        paths: the files.

    Raises:
        ProfileError: one is named twice.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._paths = [Path(path).expanduser() for path in paths]
        self._results: dict[Path, dict[str, Any]] = {}
        if len({path.absolute() for path in self._paths}) < len(self._paths):
            raise ProfileError("a log is named twice; its calls would count twice")

    def opened(self) -> Iterator[Opened]:
        """Yield (tool, calls) for each log; blocks on one file after the other.

        Raises:
            ProfileError: a file cannot be read, or nothing is known that writes such files.
        """
        for path in sorted(self._paths, key=lambda path: path.suffix != ".json"):
            found = self._open(path)
            if found is not None:
                yield found

    def _open(self, path: Path) -> Opened | None:
        suffix = path.suffix.lower()
        if suffix in {".csv", ".parquet"}:
            return OWN, own_calls(read_rows(path), path)
        data = _content(path)
        if data.startswith(MAGIC):
            return "inspect_ai", _from_archive(Archive(data, path), path)
        if suffix in {".jsonl", ".ndjson"}:
            return self._lines(path)
        content = parsed(data, path)
        if not isinstance(content, dict):
            raise refuse(path, f"a {type(content).__name__} in JSON; expected {FORMATS}")
        if is_results(content):
            self._results[path] = content
            return None
        return _from_object(content, path)

    def _lines(self, path: Path) -> Opened:
        rows = read_rows(path)
        first = next(rows, None)
        if first is None:
            raise refuse(path, "empty")
        every = _chained(first, rows)
        if is_lm_eval(first[1]):
            results = self._results_of(path)
            return "lm-evaluation-harness", lm_eval_calls((r for _, r in every), results, path)
        if is_promptfoo(first[1]):
            return "promptfoo", promptfoo_rows((row for _, row in every), Table(path, {}))
        return OWN, own_calls(every, path)

    def _results_of(self, path: Path) -> Mapping[str, Any]:
        """Return the results file of a samples file: of its date beside it, else the one named."""
        dated = _SAMPLES.fullmatch(path.stem)
        beside = path.with_name(f"results_{dated[1]}.json") if dated else None
        if beside is not None and beside not in self._results and beside.is_file():
            content = parsed(_content(beside), beside)
            if isinstance(content, dict):
                self._results[beside] = content
        if beside in self._results:
            return self._results[beside]
        if len(self._results) == 1:
            return next(iter(self._results.values()))
        raise refuse(
            path,
            "no results file with it, which names the model; expected "
            f"{beside.name if beside else 'results_DATE.json'} in the same folder",
        )


def _from_object(content: dict[str, Any], path: Path) -> Opened:
    if is_inspect(content):
        samples = content.get("samples")
        if not isinstance(samples, list):
            raise refuse(
                path, "no samples in it; the run was logged without them, or has not ended"
            )
        return "inspect_ai", inspect_calls(content, samples, path)
    if is_promptfoo(content):
        return "promptfoo", promptfoo_calls(content, path)
    found = ", ".join(repr(name[:30]) for name in list(content)[:8]) or "nothing"
    raise refuse(path, f"not a log that is known: an object with {found}; expected {FORMATS}")


def _from_archive(archive: Archive, path: Path) -> Iterator[Logged]:
    data = archive.read("header.json") or archive.read("_journal/start.json")
    header = parsed(data, path) if data else None
    if not isinstance(header, dict) or not is_inspect(header):
        names = ", ".join(repr(name[:40]) for name in list(archive.names())[:5]) or "nothing"
        raise refuse(path, f"an archive without a header of inspect_ai; found {names}")
    samples = (name for name in archive.names() if name.startswith("samples/"))
    yield from inspect_calls(
        header, (parsed(archive.read(name) or b"null", path) for name in samples), path
    )


def _chained(
    first: tuple[int, dict[str, Any]], rest: Iterable[tuple[int, dict[str, Any]]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    yield first
    yield from rest


def parsed(data: bytes, path: Path) -> object:
    """Return what JSON says.

    Raises:
        ProfileError: it is not JSON, or nested too deep.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise refuse(path, f"not JSON: {err}") from err


def _content(path: Path) -> bytes:
    try:
        return files.read(path, most=MAX_BYTES)[0]
    except OSError as err:
        raise refuse(path, f"cannot be read: {err.strerror or err}") from err
