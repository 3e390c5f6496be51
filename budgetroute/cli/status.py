"""`budgetroute status`: where the budget stands, once or refreshed."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from budgetroute.cli.benefit import benefit_lines, turning_on
from budgetroute.cli.console import bar, emit, listing, marked, out, plain
from budgetroute.cli.opening import store_to_read, store_words
from budgetroute.cli.standing import standing
from budgetroute.cli.wording import counted, figure, moment, money, share, span, usd, worth
from budgetroute.config import load_config
from budgetroute.errors import ConfigError
from budgetroute.router import Router
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rich.console import Console, RenderableType

    from budgetroute.cli.standing import Cap, Standing

EXHAUSTED = 3
_REFRESH_S = 2.0
_ON_PLAN = 0.02  # of the limit: closer than that to the plan is on it
_BAR = 20


def status_command(path: Path | None, *, as_json: bool, watch: bool) -> int:
    """Show the status; return 3 if the budget is exhausted, else 0.

    Raises:
        BudgetRouteError: the configuration or the ledger cannot be read, or there is no terminal
            to watch on.
    """
    if watch:
        watched(path, out())
        return 0
    seen, where = _look(path)
    if as_json:
        emit(seen.to_json() | {"store": where})
    else:
        out().print(shown(seen, where))
    return EXHAUSTED if seen.is_exhausted else 0


def watched(
    path: Path | None, console: Console, *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Show the status anew every 2 seconds until Ctrl-C.

    Raises:
        ConfigError: the console is not a terminal.
    """
    if not console.is_terminal:
        raise ConfigError(
            "--watch redraws the screen, and the output is no terminal. Call `budgetroute status "
            "--json` as often as needed instead."
        )
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(shown(*_look(path)), refresh=True)
            pause(_REFRESH_S)


def _look(path: Path | None) -> tuple[Standing, str]:
    config = load_config(path)
    router = Router.from_config(path, store=store_to_read(config))
    try:
        return standing(router), store_words(config)
    finally:
        router.store.close()


def shown(seen: Standing, where: str) -> RenderableType:
    """Return the status as it is printed."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, content in _lines(seen):
        grid.add_row(label, content)
    place = Text(f"mode {seen.mode} · {plain(where)}", style="dim")
    parts: list[RenderableType] = [_title(seen), place, grid]
    if seen.bought:
        parts += [Text(), _actions(seen), *_on_actions(seen)]
    return Group(*parts, *_advice(seen))


def _title(seen: Standing) -> Text:
    status = seen.status
    left = span(status.resets_at - seen.now)
    return Text.assemble(
        (plain(status.name), "bold"),
        f" · {status.window.replace(':', ' ')} ({seen.timezone})",
        f" · resets at {status.resets_at:%H:%M}, in {left}",
    )


def _lines(seen: Standing) -> Iterator[tuple[str, RenderableType]]:
    status, (day, *wider) = seen.status, seen.caps
    yield "Budget", _bar(day, "" if day.hard == day.limit else f"degrades up to {money(day.hard)}")
    yield "", _plan(seen)
    yield "λ", _price(seen)
    calls = f"{counted(status.calls, 'call')} today"
    if status.estimated:
        calls += f"; {status.estimated:,} booked as estimated, no usage was reported"
    yield "Calls", calls
    yield from benefit_lines(status)
    for cap in wider:
        yield cap.window.capitalize(), _bar(cap, f"resets {moment(cap.resets_at, seen.now)}")


def _bar(cap: Cap, note: str = "") -> RenderableType:
    used = Table.grid(padding=(0, 2, 0, 0))
    full = cap.limit or 1
    used.add_row(
        Text(f"{money(cap.spent)} of {money(cap.limit)}", style="bold"),
        Text(bar(solid=cap.spent / full, light=cap.held / full, width=_BAR), style="green"),
        share(cap.spent, cap.limit),
        note,
    )
    return used


def _plan(seen: Standing) -> str:
    status = seen.status
    gap = status.spent_usd - status.planned_usd
    pace = "on plan"
    if abs(gap) > _ON_PLAN * status.limit_usd:
        pace = f"{usd(abs(gap))} {'ahead' if gap > 0 else 'behind'}"
    planned = share(status.planned_usd, status.limit_usd)
    return f"{usd(status.held_usd)} held · {usd(status.planned_usd)} ({planned}) planned by now · {pace}"


def _price(seen: Standing) -> str:
    price = seen.status.shadow_price
    if price is None:
        return "not set yet: the first call computes it from the profile and the budget"
    since = "" if seen.stepped_at is None else f" (set {moment(seen.stepped_at, seen.now)})"
    return f"{figure(price)} per $: {worth(price)} now{since}"


def _actions(seen: Standing) -> Table:
    table = listing(
        "action today", "calls", "share", "spend", "per call", "predicted R",
        right=("calls", "share", "spend", "per call", "predicted R"), indent=0,
    )  # fmt: skip
    for line in seen.bought:
        table.add_row(
            plain(line.action),
            f"{line.calls:,}",
            share(line.calls, seen.looked_at),
            money(line.spent),
            usd(usd_from_pico(line.spent) / line.calls),
            "–" if line.reward is None else f"{line.reward:.3f}",
        )
    return table


def _on_actions(seen: Standing) -> Iterator[Text]:
    if seen.is_partial:
        yield Text(f"(from the newest {seen.looked_at:,} attempts of today)", style="dim")


def _advice(seen: Standing) -> Iterator[Text]:
    if seen.status.virtual is not None:
        yield marked("ok", turning_on(seen.status, seen.status.virtual))
    if seen.mode == "off":
        yield marked("warn", "mode is off: calls run untouched and are not counted")
    elif seen.is_exhausted:
        yield _exhausted(seen)
    elif seen.has_ledger is None:
        text = "this store lives inside each process: only router.status() there sees it"
        yield marked("warn", text)
    elif not seen.has_ledger:
        yield marked("ok", "nothing was recorded yet; the first routed call starts the ledger")
    if seen.status.uncounted:
        yield marked("warn", f"{counted(seen.status.uncounted, 'call')} ran uncounted")


def _exhausted(seen: Standing) -> Text:
    cap = seen.tightest
    return marked(
        "fail",
        f"exhausted: {money(cap.remaining)} of the {cap.window}'s budget is left, the cheapest "
        f"call needs {money(seen.needed)}. It resets at "
        f"{moment(cap.resets_at, seen.now)}; raise the limit in [budget] to go on before.",
    )
