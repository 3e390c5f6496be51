"""Shows the demo on a terminal: a line while it runs, a page when it is done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from budgetroute.demo.result import DAY_SECONDS, clock_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from budgetroute.demo.result import Baselines, DemoResult, Mix, Progress
    from budgetroute.records import Action

_VENDOR = re.compile(r"^[a-z]+\.(?=[a-z])")
_VERSION = re.compile(r"(-\d{8})?-v\d+:\d+$")
_SHOWN = 8
_BAR = 20
_SPARKS, _ASCII_SPARKS = "▁▂▃▄▅▆▇█", ".:-=+*%#"
_HOURS_SHOWN = range(0, 24, 3)
_INDENT = 2


def progress_line(progress: Progress) -> RenderableType:
    """Return one line about a running demo."""
    return _Line(progress)


def render(result: DemoResult) -> RenderableType:
    """Return the page about a day of the demo; it fits 80 columns."""
    return _Page(result)


class _Line:
    """The progress line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _moving(self._progress, _signs(options))


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that a terminal can show."""

    sparks: str
    price: str
    full: str
    empty: str


def _signs(options: ConsoleOptions) -> _Signs:
    if options.ascii_only:
        return _Signs(_ASCII_SPARKS, "lambda", "#", ".")
    return _Signs(_SPARKS, "λ", "━", "─")


def _moving(progress: Progress, signs: _Signs) -> Text:
    done = round(_BAR * progress.calls / progress.total)
    price = "" if progress.shadow_price is None else f"{signs.price} {progress.shadow_price:,.0f}"
    return Text.assemble(
        (clock_time(progress.second), "bold"),
        "  ",
        (signs.full * done, "cyan"),
        (signs.empty * (_BAR - done), "dim"),
        f"  {progress.calls:,} of {progress.total:,} calls",
        f"  ${progress.spent_usd:.4f} of ${progress.limit_usd:g}  ",
        (price, "magenta"),
    )


class _Page:
    """The page about a finished or interrupted day."""

    def __init__(self, result: DemoResult) -> None:
        self._result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result, signs = self._result, _signs(options)
        yield Rule(_title(result), style="dim", align="left", characters=signs.empty)
        yield _indented(_said(result))
        yield _indented(_money(result))
        if result.readings:
            yield _indented(_through_the_day(result, signs))
        if result.uses:
            yield _indented(_mix_of_actions(result))
        if result.baselines is not None:
            yield _indented(
                Group(_comparison(result, result.baselines), *_verdict(result, result.baselines))
            )
        yield _indented(_footer(result))


def _indented(content: RenderableType) -> Padding:
    return Padding(content, (1, 0, 0, _INDENT))


def _title(result: DemoResult) -> Text:
    calls = f"{result.calls:,} of {result.planned:,}" if result.interrupted else f"{result.calls:,}"
    title = Text.assemble(
        ("budgetroute demo", "bold"), f"  one day, {calls} calls, ${result.limit_usd:g}"
    )
    return title.append("  interrupted", "bold yellow") if result.interrupted else title


def _said(result: DemoResult) -> Text:
    return Text(
        f"The models are simulated: answers, token counts and quality follow the shipped profile "
        f"“{result.profile}”. Prices, tokens counted, router, ledger and openai client are the real "
        f"ones; the clock is compressed. One local server stands in for all providers, so the "
        f"route lists them all and one client reaches {len(result.models)} models.",
        style="dim",
    )


def _money(result: DemoResult) -> Table:
    table = _grid()
    left = result.limit_usd - result.spent_usd
    table.add_row("budget", _usd(result.limit_usd), "")
    table.add_row(
        "spent",
        Text(_usd(result.spent_usd), style="bold green" if left >= 0 else "bold red"),
        f"{result.spent_usd / result.limit_usd:.2%} of it, {_usd(abs(left))} {'left' if left >= 0 else 'over'}",
    )
    table.add_row(
        "held",
        _usd(result.largest_worst_usd),
        f"at most for one call, {result.largest_worst_usd / result.limit_usd:.2%} of the budget",
    )
    table.add_row("refused", f"{result.rejected:,}", "calls with BudgetExceeded")
    return table


def _through_the_day(result: DemoResult, signs: _Signs) -> Table:
    """Return calls, dollars and λ by half hours, with λ as a number every three hours."""
    readings = result.readings
    prices = [r.shadow_price for r in readings]
    table = _grid()
    table.add_row("", Text(_every_three_hours("{:02d}".format), style="dim"), "")
    table.add_row(
        "calls",
        _sparks([r.calls for r in readings], signs),
        f"{max(r.calls for r in readings):,} at most",
    )
    table.add_row(
        "spend",
        _sparks([r.spent_usd for r in readings], signs),
        f"{_usd(max(r.spent_usd for r in readings))} at most",
    )
    table.add_row(
        signs.price,
        Text(_sparks(prices, signs, low=min(filter(None, prices), default=0.0)), style="magenta"),
        "reward per dollar",
    )
    by_slice = {r.second: r.shadow_price for r in readings}
    width = DAY_SECONDS // 48

    def price_at(hour: int) -> str:
        price = by_slice.get(hour * 3600 + width)
        return "" if price is None else f"{price:.0f}"

    table.add_row("", Text(_every_three_hours(price_at), style="magenta"), "")
    return table


def _every_three_hours(cell: Callable[[int], str]) -> str:
    return "".join(f"{cell(hour):<6}" for hour in _HOURS_SHOWN).rstrip()


def _sparks(values: Sequence[float | None], signs: _Signs, *, low: float = 0.0) -> str:
    """Draw values as a line of small bars from `low` to the largest; a blank for None.

    >>> _sparks([0, 2, 4, None, 2], _Signs("_-=", "", "", ""))
    '_-= -'
    """
    top = max((v for v in values if v is not None), default=low)
    steps = len(signs.sparks) - 1
    span = (top - low) or 1.0
    return "".join(
        " " if v is None else signs.sparks[round((v - low) / span * steps)] for v in values
    )


def _mix_of_actions(result: DemoResult) -> Table:
    table = _table("what was chosen", "calls", "spend", "reward", first=30)
    table.add_column("mostly for", style="dim", no_wrap=True)
    for use in result.uses[:_SHOWN]:
        shares = _shares(use.calls, use.usd, result)
        table.add_row(
            _short(use.action), *shares, f"{use.mean_reward:.2f}", ", ".join(use.kinds[:2])
        )
    rest = result.uses[_SHOWN:]
    if rest:
        calls, usd = sum(use.calls for use in rest), sum(use.usd for use in rest)
        table.add_row(Text(f"{len(rest)} more", style="dim"), *_shares(calls, usd, result), "", "")
    return table


def _shares(calls: int, usd: float, result: DemoResult) -> tuple[str, str]:
    spent = usd / result.spent_usd if result.spent_usd else 0.0
    return f"{calls / result.calls:.1%}", f"{spent:.1%}"


def _comparison(result: DemoResult, baselines: Baselines) -> Table:
    table = _table("the same calls, the same luck", "dollars", "mean reward", first=44)
    mix = baselines.best_mix
    table.add_row(
        Text("budgetroute", style="bold green"),
        Text(_usd(result.spent_usd), style="bold"),
        Text(f"{result.mean_reward:.4f}", style="bold green"),
    )
    table.add_row("best random mix of two actions", _usd(mix.usd), f"{mix.mean_reward:.4f}")
    for name, use in (
        ("always the cheapest", baselines.always_cheapest),
        ("always the best", baselines.always_best),
    ):
        label = Text.assemble(f"{name}  ", (_short(use.action), "dim"))
        table.add_row(label, _usd(use.usd), f"{use.mean_reward:.4f}")
    return table


def _verdict(result: DemoResult, baselines: Baselines) -> Iterator[Text]:
    """Say by how much the mix is beaten, or not, and what was chosen in hindsight."""
    lead, mix, best = result.lead or 0.0, baselines.best_mix, baselines.always_best
    yield Text()
    yield Text.assemble(
        (f"{100 * lead:+.1f} points", "bold green" if lead > 0 else "bold red"),
        f" (± {100 * baselines.lead_error:.1f}) against the best random mix at equal dollars: {_mixed(mix)}. "
        "Its actions and share are chosen in hindsight, which flatters it.",
    )
    if best.usd > 0 and best.mean_reward > 0:
        yield Text(
            f"{result.mean_reward / best.mean_reward:.0%} of the reward of “always the best” "
            f"for {result.spent_usd / best.usd:.0%} of its dollars.",
        )


def _mixed(mix: Mix) -> str:
    dear = f"{mix.share:.0%} {_short(mix.dear)}"
    if mix.share == 1.0:
        return dear
    rest = "refused" if mix.cheap is None else _short(mix.cheap)
    return f"{dear}, {1 - mix.share:.0%} {rest}"


def _footer(result: DemoResult) -> Text:
    text = Text(style="dim")
    if result.spent_usd == result.billed_usd:
        text.append("The ledger equals what the responses billed. ")
    else:
        text.append(
            f"The responses that arrived billed {_usd(result.billed_usd)}; a call cut off by Ctrl-C "
            "is booked at its expected cost. ",
            "yellow",
        )
    text.append(f"{result.typed_right:.1%} of the prompts were recognised by type. ")
    return text.append(f"{result.seconds:.1f} s, {result.day_seconds:.1f} s of them for the calls.")


def _table(heading: str, *numbers: str, first: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(heading, no_wrap=True, min_width=first)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _grid() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=7)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    return table


def _usd(amount: float) -> str:
    """Show dollars with four decimals, thousands from a hundred up in cents."""
    return f"${amount:,.2f}" if amount >= 100 else f"${amount:.4f}"  # noqa: PLR2004 - cents are enough there


def _short(action: Action) -> str:
    """Return a label without vendor and version.

    >>> from budgetroute.records import Action
    >>> _short(Action("meta.llama3-1-8b-instruct-v1:0", 64, cot=True))
    'llama3-1-8b-instruct/64/cot'
    """
    return action.label.replace(action.model, _model(action), 1)


def _model(action: Action) -> str:
    return _VERSION.sub("", _VENDOR.sub("", action.model))
