"""`budgetroute doctor`: looks at everything a call will need and says what to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from budgetroute.cli.console import emit, out
from budgetroute.cli.report import counts, failed, verdict
from budgetroute.cli.setting import on_configuration, on_day, on_software, on_store
from budgetroute.cli.supply import on_prices, on_profiles, on_sending
from budgetroute.config import load_config
from budgetroute.errors import BudgetRouteError
from budgetroute.router.assembly import price_book
from budgetroute.router.equipment import Equipment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from budgetroute.cli.report import Section
    from budgetroute.config import Config


def doctor_command(path: Path | None, *, app: str | None, as_json: bool) -> int:
    """Print the report; return 1 if something must be mended, else 0."""
    sections = list(_sections(path, app))
    if as_json:
        tally = counts(sections)
        content = {section.key: section.to_json() for section in sections}
        emit({"ok": not tally["fail"], "counts": tally} | content)
    else:
        parts = [part for section in sections for part in section.shown()]
        out().print(Group(*parts, verdict(sections)))
    return 1 if counts(sections)["fail"] else 0


def _sections(path: Path | None, app: str | None) -> Iterator[Section]:
    try:
        config = load_config(path)
    except BudgetRouteError as err:
        yield failed("config", "Configuration", str(err))
        yield on_software()
        return
    yield on_configuration(config)
    yield on_day(config)
    yield from _on_supply(config, app)
    yield on_store(config)
    yield on_software()


def _on_supply(config: Config, app: str | None) -> Iterator[Section]:
    try:
        book = price_book(config)
    except BudgetRouteError as err:
        yield failed("prices", "Prices", str(err))
        return
    equipment = Equipment(config, book)
    common, *others = on_profiles(equipment)
    is_sound = not counts([common])["fail"]
    if is_sound or config.models:
        yield on_prices(equipment, book)
    yield from (common, *others)
    if is_sound:
        yield on_sending(equipment)
    if is_sound and app is not None:
        from budgetroute.cli.inspection import on_app

        yield on_app(equipment, app)
