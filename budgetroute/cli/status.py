"""`budgetroute status`: where the budget stands, once or refreshed."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from budgetroute.cli.benefit import benefit_lines, turning_on
from budgetroute.cli.console import bar, emit, listing, marked, out, plain
from budgetroute.cli.opening import store_to_read, store_words
from budgetroute.cli.standing import BUDGETS, standing
from budgetroute.cli.wording import counted, figure, moment, money, share, span, usd, worth
from budgetroute.config import load_config
from budgetroute.errors import ConfigError
from budgetroute.router import Router
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console, RenderableType

    from budgetroute.cli.standing import Standing
    from budgetroute.router.status import LimitStatus

EXHAUSTED = 3
_REFRESH_S = 2.0
_ON_PLAN = 0.02  # of the limit: closer than that to the plan is on it
_BAR = 20


@dataclass(frozen=True, slots=True)
class Call:
    """The kind of call whose limits are asked for; all limits where nothing is said.

    Attributes:
        route: its route.
        tags: its tags.
    """

    route: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


ANY = Call()


def call_of(route: str | None, tags: Sequence[str]) -> Call:
    """Return the call that options describe, tags written as `name=value`.

    Raises:
        ConfigError: a tag is not written so.
    """
    pairs = [text.partition("=") for text in tags]
    odd = next(
        (text for text, (name, sign, _) in zip(tags, pairs, strict=True) if not (name and sign)),
        None,
    )
    if odd is not None:
        raise ConfigError(f"--tag {odd!r}: write NAME=VALUE, for example --tag user=u_19")
    return Call(route, {name: value for name, _, value in pairs})


def status_command(path: Path | None, *, as_json: bool, watch: bool, call: Call = ANY) -> int:
    """Show the status; return 3 if the budget is exhausted, else 0.

    Raises:
        BudgetRouteError: the configuration or the ledger cannot be read, or there is no terminal
            to watch on.
    """
    if watch:
        watched(path, out(), call=call)
        return 0
    seen, where = _look(path, call)
    if as_json:
        emit(seen.to_json() | {"store": where})
    else:
        out().print(shown(seen, where))
    return EXHAUSTED if seen.is_exhausted else 0


def watched(
    path: Path | None,
    console: Console,
    *,
    pause: Callable[[float], None] = time.sleep,
    call: Call = ANY,
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
            live.update(shown(*_look(path, call)), refresh=True)
            pause(_REFRESH_S)


def _look(path: Path | None, call: Call) -> tuple[Standing, str]:
    config = load_config(path)
    router = Router.from_config(path, store=store_to_read(config))
    try:
        return standing(router, route=call.route, tags=call.tags), store_words(config)
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
    status, (day, *others) = seen.status, seen.caps
    yield "Budget", _bar(day, _noted(day))
    yield "", _plan(seen)
    yield "λ", _price(seen)
    yield from seen.planned.lines()
    calls = f"{counted(status.calls, 'call')} today"
    if status.estimated:
        calls += f"; {status.estimated:,} booked as estimated, no usage was reported"
    yield "Calls", calls
    for name, at in status.quarantined.items():
        text = f"{name}: its provider does not know it; asked again {moment(at, seen.now)}"
        yield "Out", marked("warn", text)
    yield from benefit_lines(status)
    for cap in others:
        notes = [_window(cap), _noted(cap), _priced(cap, seen), _reset(cap, seen)]
        yield _label(cap), _bar(cap, " · ".join(note for note in notes if note))
    for name, text in seen.each:
        yield plain(name), f"{plain(text)} (status --tag shows one)"


def _label(cap: LimitStatus) -> str:
    return cap.name.capitalize() if cap.name in BUDGETS else plain(cap.name)


def _window(cap: LimitStatus) -> str:
    return "" if cap.name in BUDGETS else cap.window


def _noted(cap: LimitStatus) -> str:
    if cap.over_usd:
        return f"{usd(cap.over_usd)} over"
    if cap.is_soft:
        return "soft"
    degrades = cap.hard_usd is not None and cap.hard_usd > cap.limit_usd
    return f"degrades up to {usd(cap.hard_usd or 0.0)}" if degrades else ""


def _priced(cap: LimitStatus, seen: Standing) -> str:
    price = seen.prices.get(cap.name) if cap.window == "day" else None
    return "" if price is None else f"λ {figure(price)}"


def _reset(cap: LimitStatus, seen: Standing) -> str:
    return "" if cap.resets_at is None else f"resets {moment(cap.resets_at, seen.now)}"


def _bar(cap: LimitStatus, note: str = "") -> RenderableType:
    used = Table.grid(padding=(0, 2, 0, 0))
    full = cap.limit_usd or 1
    used.add_row(
        Text(f"{usd(cap.spent_usd)} of {usd(cap.limit_usd)}", style="bold"),
        Text(bar(solid=cap.spent_usd / full, light=cap.held_usd / full, width=_BAR), style="green"),
        share(cap.spent_usd, cap.limit_usd),
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
        f"exhausted: {usd(cap.remaining_usd)} of the {_owner(cap)} is left, the cheapest "
        f"call needs {money(seen.needed)}. {_renewal(cap, seen)}; raise the limit in "
        f"{_table(cap)} to go on before.",
    )


def _owner(cap: LimitStatus) -> str:
    return f"{cap.window}'s budget" if cap.name in BUDGETS else f"limit {plain(cap.name)}"


def _table(cap: LimitStatus) -> str:
    return "[budget]" if cap.name in BUDGETS else f"[limits.{plain(cap.name)}]"


def _renewal(cap: LimitStatus, seen: Standing) -> str:
    if cap.resets_at is None:
        return "It never resets"
    return f"It resets at {moment(cap.resets_at, seen.now)}"
