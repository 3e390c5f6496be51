"""What routing is worth, in words: next to the baseline, to one action for all, and in shadow mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.cli.console import plain
from budgetroute.cli.wording import counted, usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.router.status import Status, Virtual
    from budgetroute.savings import Savings

__all__ = ["benefit_lines", "turning_on"]


def benefit_lines(status: Status) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of what choosing saved, all predicted; nothing before it can be said."""
    seen = status.savings
    if seen is None:
        return
    label = "Savings" if status.virtual is None else "On would"
    for text in (_baseline(seen), *_singles(seen)):
        yield label, text
        label = ""


def turning_on(status: Status, virtual: Virtual) -> str:
    """Return what `mode = "on"` would have done with the budget so far."""
    text = (
        f"shadow: {usd(status.spent_usd)} was really spent, no call was changed or refused; on would "
        f"have spent {usd(virtual.spent_usd)} of {usd(status.limit_usd)} (predicted)"
    )
    if virtual.refused:
        text += f" and refused {counted(virtual.refused, 'call')}"
    return text


def _baseline(seen: Savings) -> str:
    if not seen.compared:
        return f"of {counted(seen.calls, 'call')} none has a baseline with a curve to compare with"
    points = (seen.compared_reward - seen.baseline_reward) * 100
    gap, of = abs(seen.saved_usd), usd(seen.baseline_usd)
    amount = f"{usd(gap)} {'less' if seen.saved_usd >= 0 else 'more'} than the baseline's {of}"
    partly = (
        "" if seen.compared == seen.calls else f" (over {seen.compared:,} of {seen.calls:,} calls)"
    )
    return f"{amount} at {points:+.1f} points{partly}; predicted"


def _singles(seen: Savings) -> Iterator[str]:
    one, peer = seen.single, seen.as_good
    if one is not None and peer is not None and one.action == peer.action:
        yield f"no better than one action for all calls, {plain(one.action)} ({usd(one.usd)})"
        return
    if one is not None:
        points = (seen.reward - one.reward) * 100
        yield (
            f"{points:+.1f} points over the best single action for no more money, "
            f"{plain(one.action)} ({usd(one.usd)})"
        )
    if peer is not None:
        yield (
            f"{usd(max(0.0, peer.usd - seen.usd))} less than the cheapest single action that is as "
            f"good, {plain(peer.action)} ({usd(peer.usd)})"
        )
