"""`budgetroute demo`: a simulated day on the screen."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from rich.live import Live

from budgetroute.cli.console import emit, out
from budgetroute.demo import progress_line, render, run_demo

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetroute.demo import Progress

INTERRUPTED = 130
_REDRAW_S = 0.1


def demo_command(*, calls: int, budget_usd: float | None, seed: int, as_json: bool) -> int:
    """Run the day and print what it came to; return 130 if it was interrupted, else 0.

    Raises:
        ConfigError: the budget or the number of calls cannot be used.
    """
    console = out()
    is_live = console.is_terminal and not as_json
    with (
        Live(console=console, auto_refresh=False, transient=True)
        if is_live
        else nullcontext() as live
    ):
        progress = None if live is None else _drawn_on(live)
        result = run_demo(calls=calls, budget_usd=budget_usd, seed=seed, progress=progress)
    if as_json:
        emit(result.to_json())
    else:
        console.print(render(result))
    return INTERRUPTED if result.interrupted else 0


def _drawn_on(live: Live) -> Callable[[Progress], None]:
    """Return what draws the progress line, at most ten times a second."""
    drawn = [0.0]

    def draw(progress: Progress) -> None:
        now = time.monotonic()
        if now - drawn[0] >= _REDRAW_S or progress.calls == progress.total:
            drawn[0] = now
            live.update(progress_line(progress), refresh=True)

    return draw
