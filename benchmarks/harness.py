"""What every benchmark script shares: figures, the table, `--quick`, `--json`, the exit status."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Figure:
    """One measured figure; `target` is what it should reach, `ok` whether it does (None: no target)."""

    what: str
    value: float
    unit: str
    target: str = ""
    ok: bool | None = None


def at_most(what: str, value: float, unit: str, limit: float) -> Figure:
    return Figure(what, value, unit, f"<= {limit:g}", value <= limit)


def at_least(what: str, value: float, unit: str, limit: float) -> Figure:
    return Figure(what, value, unit, f">= {limit:g}", value >= limit)


def exactly(what: str, value: float, unit: str, wanted: float) -> Figure:
    return Figure(what, value, unit, f"= {wanted:g}", value == wanted)


def options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="end within 50 s")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    return parser.parse_args()


def median_us(work: Callable[[], object], *, times: int, warm: int = 20) -> float:
    """Return the median time of one call in microseconds."""
    for _ in range(warm):
        work()
    spans = []
    for _ in range(times):
        begun = time.perf_counter_ns()
        work()
        spans.append(time.perf_counter_ns() - begun)
    return statistics.median(spans) / 1000


def say(text: str) -> None:
    """Tell how far long work is, on stderr so that `--json` stays clean."""
    print(text, file=sys.stderr, flush=True)


def report(figures: list[Figure], *, as_json: bool) -> None:
    """Print one table, or JSON, and leave with 1 if a figure falls short."""
    if as_json:
        print(json.dumps({"figures": [asdict(figure) for figure in figures]}, indent=1))
    else:
        width = max(len(figure.what) for figure in figures)
        for figure in figures:
            mark = {True: "ok", False: "SHORT", None: ""}[figure.ok]
            value = f"{figure.value:,.4g} {figure.unit}"
            print(f"{figure.what:<{width}}  {value:>18}  {figure.target:>12}  {mark}")
    sys.exit(1 if any(figure.ok is False for figure in figures) else 0)
