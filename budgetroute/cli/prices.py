"""`budgetroute prices`: what models cost, what you wrote over the map, and whether that can be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from budgetroute.cli.console import emit, listing, marked, out, plain
from budgetroute.cli.quotes import (
    CLASSES,
    Quotes,
    config_for_prices,
    map_age,
    own_prices,
    schedules,
)
from budgetroute.cli.wording import counted, money, per_million, usd
from budgetroute.clock import WallClock
from budgetroute.errors import ConfigError
from budgetroute.prices import PriceBook, gaps
from budgetroute.units import usd_from_atto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from budgetroute.cli.console import Level
    from budgetroute.cli.quotes import MapAge, Quote
    from budgetroute.prices import Gap
    from budgetroute.records import Price

_DETAILED = 3
_OLD_DAYS = 120
_HOUR = 3600


def show_command(
    names: Sequence[str],
    path: Path | None,
    *,
    provider: str | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Show prices; return 1 if a model that was named or configured has none."""
    quotes = Quotes(config_for_prices(path))
    found = quotes.of(names, provider=provider, everything=everything)
    age = map_age(quotes.listed)
    if as_json:
        emit({"map": age.to_json(), "models": [quote.to_json() for quote in found]})
    else:
        detailed = bool(names) and len(found) <= _DETAILED
        body = [_detail(q) for q in found] if detailed else [_table(found), *_unpriced(found)]
        _print(
            Group(*body, Text(f"$ per million tokens · {_age_words(age)}", style="dim")),
            rows=len(found),
        )
    return int(not found or any(quote.price is None for quote in found))


def diff_command(path: Path | None, *, as_json: bool) -> int:
    """Show where written prices differ from the map's; return 1 if one is too far off to be meant."""
    config = config_for_prices(path)
    rows = [
        (name, price, theirs, gaps(price, theirs) if theirs else [])
        for name, price, theirs in own_prices(config)
    ]
    odd = any(gap.is_odd for *_, found in rows for gap in found)
    if as_json:
        models = [_diff_json(*row) for row in rows]
        emit({"map": map_age(PriceBook()).to_json(), "ok": not odd, "models": models})
    else:
        out().print(_diff_shown(rows))
    return int(odd)


def check_command(path: Path | None, *, as_json: bool) -> int:
    """Check the map's age and every price in use; return 1 if something must be mended."""
    config = config_for_prices(path)
    age = map_age(PriceBook())
    found = [_on_age(age)]
    try:
        found += [_on_gap(*each) for each in _odd_gaps(path)]
        quotes = Quotes(config)
        found += [_on_quote(quote) for quote in quotes.of((), provider=None, everything=False)]
    except ConfigError as err:
        found.append(("fail", str(err)))
    ok = not any(level == "fail" for level, _ in found)
    if as_json:
        checks = [{"level": level, "text": text} for level, text in found]
        emit({"map": age.to_json(), "ok": ok, "checks": checks})
    else:
        out().print(Group(*[marked(level, text) for level, text in found]))
    return int(not ok)


def _print(body: RenderableType, *, rows: int) -> None:
    """Print, through a pager where a terminal is too small for it."""
    console = out()
    if console.is_terminal and rows > console.size.height:
        with console.pager(styles=True):
            console.print(body)
    else:
        console.print(body)


def _age_words(age: MapAge) -> str:
    if age.since is None:
        return "litellm's price map was not found"
    days = (WallClock().now() - age.since).days
    of = f"litellm {age.version}" if age.version else "your own price map"
    return (
        f"{of}, {counted(age.names, 'name')}, installed {age.since:%Y-%m-%d}, "
        f"{counted(days, 'day')} ago"
    )


def _table(found: Sequence[Quote]) -> RenderableType:
    table = listing(
        "model", "provider", "in", "cached", "out", "besides", right=("in", "cached", "out")
    )
    for quote in found:
        if quote.price is not None:
            rates = quote.price.rates
            prices = [per_million(each) for each in (rates.input, rates.cached_input, rates.output)]
            if quote.price.second is not None:
                prices = ["by time", "", ""]
            table.add_row(
                f"  {plain(quote.name)}", quote.card.provider, *prices, _besides(quote.price)
            )
    return table


def _besides(price: Price) -> str:
    """Name what a price has besides plain rates."""
    names = [name for name, _ in schedules(price) if name != "standard"]
    heard = price.rates.audio_input or price.rates.audio_output
    parts = [
        f"${usd_from_atto(price.second) * _HOUR:g} an hour" if price.second is not None else "",
        *(name for name in names if " > " not in name.removeprefix("> ")),
        "sound" if heard else "",
        _fee_words(price),
        price.source if price.source in {"config", "free"} else "",
    ]
    return " · ".join(part for part in parts if part)


def _fee_words(price: Price) -> str:
    fees = price.fees
    parts = [f"{money(price.request_fee)} a request"] if price.request_fee else []
    if fees.search:
        low, high = min(fees.search.values()), max(fees.search.values())
        each = money(low) if low == high else f"{money(low)} to {money(high)}"
        often = "in every call" if fees.always else "a call" if fees.per_prompt else "each"
        parts.append(f"search {each} {often}")
    if fees.maps:
        parts.append(f"maps {money(fees.maps)}")
    return ", ".join(parts)


def _unpriced(found: Sequence[Quote]) -> Iterator[RenderableType]:
    for quote in found:
        if quote.price is None:
            yield marked("fail", quote.reason)


def _detail(quote: Quote) -> RenderableType:
    """Show one model whole: a row per class, a column per set of rates."""
    price = quote.price
    if price is None:
        return marked("fail", quote.reason)
    key = "" if price.key == quote.name else f" as {price.key}"
    head = Text(f"{plain(quote.name)} · {quote.card.provider} · {price.source}{key}", style="bold")
    parts: list[RenderableType] = [head]
    if price.second is not None:
        parts.append(Text(f"  {usd(usd_from_atto(price.second) * _HOUR)} per hour of the engine"))
    else:
        parts.append(_classes(price))
    lines = [_fee_words(price), _hours_words(price), _retires(quote)]
    return Group(*parts, *[Text(f"  {line}") for line in lines if line], Text())


def _classes(price: Price) -> RenderableType:
    columns = list(schedules(price))
    names = [name for name, _ in columns]
    table = listing("class", *names, right=names)
    for name, field in CLASSES.items():
        rates = [getattr(rates, field) for _, rates in columns]
        if any(rate is not None for rate in rates):
            table.add_row(f"  {name}", *[per_million(rate) for rate in rates])
    return table


def _hours_words(price: Price) -> str:
    if price.off_peak is None:
        return ""
    spans = [
        f"{span.start // 60:02}:{span.start % 60:02}–{span.end // 60:02}:{span.end % 60:02}"
        + (
            ""
            if span.weekdays is None
            else f" on days {', '.join(map(str, sorted(span.weekdays)))}"
        )
        for span in price.off_peak.hours
    ]
    return f"off-peak (UTC, 1 = Monday): {'; '.join(spans)}"


def _retires(quote: Quote) -> str:
    day = quote.card.deprecated_on
    return f"retires {day}" if day else ""


def _diff_shown(
    rows: Sequence[tuple[str, Price, Price | None, Sequence[Gap]]],
) -> RenderableType:
    table = listing("model", "class", "yours", "map", "factor", right=("yours", "map", "factor"))
    notes: list[RenderableType] = []
    for name, price, theirs, found in rows:
        for gap in found:
            factor = "" if gap.factor is None else f"×{gap.factor:.3g}"
            table.add_row(
                f"  {plain(name)}", gap.name, per_million(gap.ours), per_million(gap.theirs), factor
            )
        notes += [marked(level, text) for level, text in _notes(name, price, theirs, found)]
    if not rows:
        return Text("no price is written in the configuration: the map's hold")
    return Group(*([table] if table.row_count else []), *notes)


def _notes(
    name: str, price: Price, theirs: Price | None, found: Sequence[Gap]
) -> Iterator[tuple[Level, str]]:
    if price.source in {"free", "time"}:
        yield "ok", f"{name}: {'free' if price.source == 'free' else 'priced by time'}, as written"
    elif theirs is None:
        yield "ok", f"{name}: not in the map, so yours is the only price"
    elif not found:
        yield "ok", f"{name}: the same as the map's"
    for gap in found:
        if gap.is_odd:
            text = f"{name}: {gap.name} is ×{gap.factor:.3g} of the map's; is another unit meant?"
            yield ("fail" if gap.is_impossible else "warn"), text


def _diff_json(
    name: str, price: Price, theirs: Price | None, found: Sequence[Gap]
) -> dict[str, Any]:
    return {
        "name": name,
        "source": price.source,
        "map_key": None if theirs is None else theirs.key,
        "classes": [
            {
                "class": gap.name,
                "usd_per_million": None if gap.ours is None else gap.ours / 10**12,
                "map_usd_per_million": None if gap.theirs is None else gap.theirs / 10**12,
                "factor": gap.factor,
                "odd": gap.is_odd,
            }
            for gap in found
        ],
    }


def _on_age(age: MapAge) -> tuple[Level, str]:
    if age.since is None:
        return "fail", "litellm's price map was not found: pip install litellm"
    days = (WallClock().now() - age.since).days
    if days > _OLD_DAYS:
        return (
            "warn",
            f"prices of {_age_words(age)}: prices change; pip install -U litellm brings today's",
        )
    return "ok", f"prices of {_age_words(age)}"


def _odd_gaps(path: Path | None) -> Iterator[tuple[str, Gap]]:
    for name, price, theirs in own_prices(config_for_prices(path)):
        for gap in gaps(price, theirs) if theirs else ():
            if gap.is_odd:
                yield name, gap


def _on_gap(name: str, gap: Gap) -> tuple[Level, str]:
    text = (
        f"{name}: {gap.name} = {per_million(gap.ours)} is ×{gap.factor:.3g} of the map's "
        f"{per_million(gap.theirs)}"
    )
    return ("fail", f"{text}: another unit was written") if gap.is_impossible else ("warn", text)


def _on_quote(quote: Quote) -> tuple[Level, str]:
    if quote.price is None:
        return "fail", quote.reason
    retired = quote.card.deprecated_on
    if retired and retired <= f"{WallClock().now():%Y-%m-%d}":
        return "warn", f"{quote.name}: was to be retired on {retired}; its provider may refuse it"
    rates = quote.price.rates
    what = f"{per_million(rates.input)} in, {per_million(rates.output)} out"
    if quote.price.second is not None:
        what = f"{usd(usd_from_atto(quote.price.second) * _HOUR)} per hour of the engine"
    return "ok", f"{quote.name}: {what} ({quote.price.source})"
