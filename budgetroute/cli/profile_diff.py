"""`budgetroute profile diff`: two profiles, cell by cell, and what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from budgetroute.cli.console import emit, listing, out, plain
from budgetroute.cli.profile_view import View
from budgetroute.cli.wording import counted, figure
from budgetroute.profiling import changes, switches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from budgetroute.profiling import Change, Switch
    from budgetroute.records import Cell


def diff_command(
    pair: tuple[str, str], path: Path | None, *, everything: bool, as_json: bool
) -> int:
    """Compare two profiles; return 0, they may well differ."""
    view = View(path)
    one, other = view.profile(pair[0]), view.profile(pair[1])
    changed = list(changes(one, other))
    switched = list(switches(one, other, view.cost))
    if as_json:
        emit(
            {
                "before": one.name,
                "after": other.name,
                "cells": [_change_json(each) for each in changed],
                "choices": [_switch_json(each) for each in switched],
            }
        )
        return 0
    out().print(Group(*_shown(changed, switched, everything=everything)))
    return 0


def _shown(
    changed: Sequence[Change], switched: Sequence[Switch], *, everything: bool
) -> Iterator[RenderableType]:
    both = [each for each in changed if each.before and each.after]
    gone, new = sum(not each.after for each in changed), sum(not each.before for each in changed)
    sure = [each for each in both if each.is_significant]
    yield Text(
        f"{counted(len(both), 'cell')} differ, {len(sure)} by more than two standard errors; "
        f"{new} only after, {gone} only before",
        style="bold",
    )
    shown = both if everything else sure
    if shown:
        yield _cells_table(shown)
    yield Text()
    if not switched:
        yield Text("The same actions would be chosen at every shadow price.")
        return
    yield Text("Another action would be chosen (λ in reward per dollar):", style="bold")
    table = listing("type", "λ from", "to", "before", "after", right=("λ from", "to"))
    for each in switched:
        table.add_row(
            f"  {plain(each.type)}",
            figure(each.low),
            figure(each.high),
            plain(each.before.label),
            plain(each.after.label),
        )
    yield table


def _cells_table(shown: Sequence[Change]) -> RenderableType:
    table = listing(
        "type", "action", "R before", "after", "errors", "tokens before", "after ",
        right=("R before", "after", "errors", "tokens before", "after "),
    )  # fmt: skip
    for each in shown:
        table.add_row(
            f"  {plain(each.type)}",
            plain(each.action.label),
            *(_reward(cell) for cell in (each.before, each.after)),
            "–" if each.errors is None else f"{each.errors:+.1f}",
            *(_tokens(cell) for cell in (each.before, each.after)),
        )
    return table


def _reward(cell: Cell | None) -> str:
    return "–" if cell is None else f"{cell.reward:.3f}"


def _tokens(cell: Cell | None) -> str:
    return "–" if cell is None else f"{cell.output_mean:,.0f}"


def _change_json(each: Change) -> dict[str, Any]:
    return {
        "type": each.type,
        "action": each.action.label,
        "before": _cell_json(each.before),
        "after": _cell_json(each.after),
        "errors": each.errors,
        "significant": each.is_significant,
    }


def _cell_json(cell: Cell | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    return {
        "reward": cell.reward,
        "reward_se": cell.reward_se,
        "output_mean": cell.output_mean,
        "n": cell.n,
        "source": cell.source,
    }


def _switch_json(each: Switch) -> dict[str, Any]:
    return {
        "type": each.type,
        "before": each.before.label,
        "after": each.after.label,
        "lambda_from": each.low,
        "lambda_to": each.high,
    }
