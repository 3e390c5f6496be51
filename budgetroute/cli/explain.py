"""`budgetroute explain`: why one call got its action, and what it cost in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from budgetroute.cli.console import emit, listing, marked, out, plain
from budgetroute.cli.entries import outcome
from budgetroute.cli.history import story
from budgetroute.cli.opening import store_to_read
from budgetroute.cli.wording import counted, figure, money, usd, worth
from budgetroute.config import load_config
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from budgetroute.cli.entries import Bound, Decided, Other, Outcome, Ranked
    from budgetroute.cli.history import Story
    from budgetroute.records import Entry

_LABELS = 2
_TYPES = 3
_BY = {"": "not recorded", "general": "nothing classified it", "fallback": "routing failed"}
_SOURCES = {
    "reported": "by the usage that was reported",
    "timed": "by the time that the engine was busy with it",
    "given": "as you gave it",
    "partial": "counted from what the stream had delivered, no usage was reported",
    "estimated": "estimated, no usage was reported",
    "predicted": "predicted",
}


def explain_command(decision: str, path: Path | None, *, as_json: bool) -> int:
    """Show one decision; return 0.

    Raises:
        StoreError: there is no such decision, or several.
    """
    config = load_config(path)
    store = store_to_read(config)
    try:
        found = story(decision, config, store)
    finally:
        store.close()
    if as_json:
        emit(found.to_json())
    else:
        out().print(shown(found))
    return 0


def shown(found: Story) -> RenderableType:
    """Return a decision as it is printed."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, content in _before(found):
        grid.add_row(label, content)
    after = Table.grid(padding=(0, 2, 0, 0))
    after.add_column(style="dim", no_wrap=True)
    after.add_column()
    for label, content in _after(found):
        after.add_row(label, content)
    table: list[RenderableType] = []
    if found.record.best:
        table = [Text(), _ranking(found), Text()]
    return Group(_title(found), grid, *table, after)


def _title(found: Story) -> Text:
    route = found.record.route
    return Text.assemble(
        (f"Decision {found.id}", "bold"),
        f" · route {plain(route)}" if route else "",
        f" · {found.at:%Y-%m-%d %H:%M:%S %Z} · app {plain(found.app) or 'unknown'}",
    )


def _before(found: Story) -> Iterator[tuple[str, RenderableType]]:
    record = found.record
    if record.after:
        yield "After", f"decision {plain(record.after)}, which failed in the same call"
    if record.input_tokens is not None:
        yield "Request", _request(found)
    if record.price is not None:
        yield (
            "λ",
            f"{figure(record.price)} per $: {worth(record.price)} then{_drawn(record)}"
            + _whose(record),
        )
    if record.guess is not None:
        times, least, most = record.guess
        moved = f"R moves by {least:+.3f} to {most:+.3f}"
        yield "Residual", f"beside its type, answers are expected ×{times:.2f} as long; {moved}"
    if (gamma := record.gamma.get(found.chosen or "")) is not None:
        yield (
            "γ",
            f"C is ×{gamma:.2f}: lately such calls were billed so many times their prediction",
        )
    out_of = sum(len(labels) for labels in record.gated.values())
    if record.best:
        shown_of = counted(len(record.best), "candidate")
        yield "Gates", f"{shown_of} ranked below; {counted(out_of, 'action')} out"
    for why, labels in record.gated.items():
        yield "", marked("fail", f"{_named(labels)}: {why}")


def _drawn(record: Decided) -> str:
    """Say how λ was drawn, where the plan had two."""
    if record.propensity >= 1:
        return ""
    text = f"; drawn with probability {record.propensity:.2f}"
    if record.plan is None:
        return text
    low, high, _ = record.plan
    other = high if record.price == low else low
    return f"{text}, else λ {figure(other)}"


def _whose(record: Decided) -> str:
    """Say whose λ it is where it is not the budget's."""
    return "" if record.priced_by == "day" else f"; the price of limit {plain(record.priced_by)}"


def _request(found: Story) -> str:
    record = found.record
    parts = [f"{record.input_tokens:,.0f} input tokens"]
    if record.types:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in record.types[:_TYPES])
        parts.append(f"type {plain(weights)} ({_BY.get(record.by, f'by {plain(record.by)}')})")
    if record.floor is not None:
        parts.append(f"floor {record.floor:g}")
    return " · ".join(parts)


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - _LABELS
    return ", ".join(labels[:_LABELS]) + (f" and {more} more" if more > 0 else "")


def _ranking(found: Story) -> Table:
    right = ("R", "C", "λ·C", "R−λC", "held")
    table = listing("", "action", *right, "curve", right=right, fixed=("curve",), indent=0)
    for row in found.record.best:
        table.add_row(*_cells(row, found), style="bold" if row.action == found.chosen else None)
    if found.chosen is not None and found.record.row(found.chosen) is None:
        table.add_row(*_granted(found), style="bold")
    return table


def _cells(row: Ranked, found: Story) -> list[str]:
    spent, surplus = found.priced(row)
    held = found.record.held(row.action)
    return [
        "▶" if row.action == found.chosen else "",
        plain(row.action),
        "–" if row.reward is None else f"{row.reward:.3f}",
        usd(row.cost),
        f"{spent:.4f}",
        f"{surplus:.4f}",
        "" if held is None else usd(held),
        row.source,
    ]


def _granted(found: Story) -> list[str]:
    """Return the row of an action that was granted but ranked too low to be kept in full."""
    row = found.attempts[0].row
    expected, worst = usd_from_pico(row.expected), usd_from_pico(row.worst)
    price = f"{(found.record.price or 0.0) * expected:.4f}"
    return ["▶", plain(found.chosen or ""), "", usd(expected), price, "", usd(worst), ""]


def _after(found: Story) -> Iterator[tuple[str, RenderableType]]:
    yield from _why(found)
    yield from _limits(found)
    for place, entry in enumerate(found.attempts, start=1):
        yield "Actual" if len(found.attempts) == 1 else f"Attempt {place}", _fate(entry)
        if (seen := outcome(entry)) is not None and (usage := _usage(seen, found.chosen)):
            yield "", usage
    if found.then is not None:
        yield "Then", f"decision {plain(found.then)} was made in the same call, without what failed"
    if len(found.attempts) > 1:
        yield "Together", money(sum(entry.row.amount for entry in found.attempts))


def _why(found: Story) -> Iterator[tuple[str, RenderableType]]:
    record = found.record
    if not record.route:
        yield "Because", marked("warn", "the ledger kept no record of how this was decided")
        return
    yield "Because", plain(record.why)
    if found.chosen in record.raised:
        yield "", _raised(*record.raised[found.chosen])
    yield from _arms(found)
    if record.degraded:
        yield "", marked("warn", "limits were exhausted; the cheapest action goes on beyond them")
    if record.bound is not None:
        yield "Bound by", _bound(record.bound)
    if found.passed_over:
        yield "", _passed_over(found.passed_over)
    elif found.flips_at and found.second is not None and "flips" not in record.why:
        yield "", _flip(found, found.flips_at, found.second)


def _raised(declared: float, why: str) -> RenderableType:
    text = f"{usd(declared)} would be held, but calls lately had {plain(why)}: more is held"
    return marked("warn", text)


def _arms(found: Story) -> Iterator[tuple[str, RenderableType]]:
    """Yield the other arm: what `on` would have taken in shadow mode, else the baseline."""
    other, usual = found.record.shadow, found.record.baseline
    if other is not None and other.action:
        yield (
            "On",
            f"would have taken {_arm(other)}; see budgetroute explain {plain(other.decision)}",
        )
    elif other is not None:
        yield "On", marked("warn", f"would have raised: {plain(other.refused)}")
    elif usual is not None and usual.action != found.chosen:
        yield "Baseline", _arm(usual)


def _arm(other: Other) -> str:
    cost = "an unknown cost" if other.cost is None else usd(other.cost)
    reward = "no curve" if other.reward is None else f"R {other.reward:.3f}"
    return f"{plain(other.action)}: {cost}, {reward}"


def _bound(bound: Bound) -> str:
    named = (
        plain(bound.limit)
        if bound.limit == bound.window
        else f"{plain(bound.limit)} ({bound.window})"
    )
    if bound.guard:
        free = "the rest is kept free for the cheapest action of calls still to come"
        return f"{named}: {usd(max(0.0, bound.left))} was left, but {free}"
    left = usd(max(0.0, bound.left))
    return f"{named}: {left} was left, the best needed {usd(bound.needed)}"


def _limits(found: Story) -> Iterator[tuple[str, RenderableType]]:
    """Yield the limits besides the day that the call counts in, where there are any."""
    for place, limit in enumerate(found.limits if len(found.limits) > 1 else ()):
        most = "no limit in the configuration" if limit.usd is None else money(limit.usd)
        text = (
            f"{plain(limit.name)} · {plain(limit.slot.period)}: {money(limit.spent)} of {most} now"
        )
        yield "Limits" if place == 0 else "", text


def _passed_over(count: int) -> str:
    better = counted(count, "better candidate")
    return f"{better} did not fit what was left of the budget; the next that fits was taken"


def _flip(found: Story, level: float, second: Ranked) -> str:
    side = "above" if level >= (found.record.price or 0.0) else "below"
    return f"{plain(second.action)} would win at a λ {side} {figure(level)}"


def _fate(entry: Entry) -> RenderableType:
    row, seen = entry.row, outcome(entry)
    expected, held = money(row.expected), money(row.worst)
    amount = money(row.amount)
    if row.state == "held":
        return f"in flight, or its process died: {held} held, {expected} expected"
    if row.state == "released":
        return f"not sent or not billed: the {held} held for it were given back"
    how = "" if seen is None else f", {_SOURCES.get(seen.source, seen.source)}"
    if seen is not None and seen.why:
        how += f": {plain(seen.why)}"
    text = f"{amount}{how} (expected {expected}, held {held})"
    if row.state == "estimated":
        rest = money(max(0, row.worst - row.amount))
        text += f"; {rest} stays held until usage arrives or the window ends"
    if seen is not None and seen.overshoot_usd:
        return marked("warn", f"{text}; {usd(seen.overshoot_usd)} above what was held")
    return text


def _usage(seen: Outcome, planned: str | None) -> str:
    parts = []
    if seen.input is not None:
        cached = f" ({seen.cached:,} cached)" if seen.cached else ""
        thought = f" ({seen.reasoning:,} reasoning)" if seen.reasoning else ""
        parts.append(f"{seen.input:,} in{cached}, {seen.output or 0:,} out{thought}")
    if seen.finish:
        parts.append(f"finish {plain(seen.finish)}")
    if seen.model and not (planned or "").startswith(seen.model):
        parts.append(f"answered by {plain(seen.model)}")
    if seen.billed_as:
        parts.append(f"billed as {plain(seen.billed_as)}")
    return " · ".join(parts)
