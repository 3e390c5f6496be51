"""Rules between the keys of a limit: each names the key to change and what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.config.origins import DEFAULT
from budgetroute.config.wording import dotted, found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.config.limits import LimitConfig
    from budgetroute.config.model import Config
    from budgetroute.config.origins import Leaves
    from budgetroute.errors import ConfigError

RESERVED = frozenset({"day", "week", "month", "total", "run"})
"""Names that errors and `status` give to the limits of [budget] and to runs."""
_CHOSEN = frozenset({"model", "provider", "prompt_type"})
_KEYS = {"day": "daily_usd", "week": "weekly_usd", "month": "monthly_usd", "total": "total_usd"}


def check_limits(config: Config, leaves: Leaves) -> None:
    """Raise ConfigError for the first rule that a limit breaks."""
    for name, limit in config.limits.items():
        for key, problem, advice in _faults(name, limit):
            raise _refused(name, key, problem, advice, leaves=leaves)


def _refused(name: str, key: str, problem: str, advice: str, *, leaves: Leaves) -> ConfigError:
    path = ("limits", name, key) if key else ("limits", name)
    leaf = leaves.get(path) or leaves.get(("limits", name))
    return (leaf.origin if leaf else DEFAULT).refuse(path, problem, advice)


def _faults(name: str, limit: LimitConfig) -> Iterator[tuple[str, str, str]]:
    """Yield (key, what is wrong, what to write)."""
    table = f"[{dotted(('limits', name))}]"
    if name in RESERVED:
        yield "", f"has the name of a limit of [budget]: {name}", "Give it another name."
    if not limit.amounts:
        keys = ", ".join(_KEYS.values())
        yield "", "limits nothing", f"Write at least one of {keys} under {table}."
    yield from _on_whom(limit)
    yield from _on_warnings(limit)
    yield from _on_pace(limit, table)
    yield from _on_degrading(limit, table)


def _on_whom(limit: LimitConfig) -> Iterator[tuple[str, str, str]]:
    advice = "A limit applies to whom a call is for: write a tag, `route` or `run`."
    for name in (limit.per, *limit.match):
        if name in _CHOSEN:
            key = "per" if name == limit.per else "match"
            yield key, f"names {found(name)}, which is known only after the choice", advice
    if "run" in limit.match:
        advice = 'Write `per = "run"` for each run, or a tag with `with tags(job="…")`.'
        yield "match", "names a run, whose id is made when it begins", advice


def _on_warnings(limit: LimitConfig) -> Iterator[tuple[str, str, str]]:
    beyond = [share for share in limit.warn if share > 1]
    if beyond and not limit.soft and limit.on_exhausted == "raise":
        problem = f"holds {beyond[0]:g}, but spending never passes a limit that is not soft"
        yield "warn", problem, "Write shares up to 1.0, or `soft = true`."


def _on_pace(limit: LimitConfig, table: str) -> Iterator[tuple[str, str, str]]:
    if limit.calls_per_day is not None and not limit.pace:
        yield "calls_per_day", "is said of a limit that is not paced", "Write `pace = true` too."
    if not limit.pace:
        return
    if limit.per is not None:
        problem = f"is true for one limit per {found(limit.per)}, which would need a plan for each"
        advice = "Take `pace` out, or name the calls with `match` instead of `per`."
        yield "pace", problem, advice
    if not limit.daily_usd:
        advice = (
            f"Write for example `daily_usd = 5.0` under {table}; wider windows may stand beside."
        )
        yield "pace", "needs money to spread over the day, and daily_usd says none", advice


def _on_degrading(limit: LimitConfig, table: str) -> Iterator[tuple[str, str, str]]:
    if limit.on_exhausted == "raise":
        if limit.hard_usd is not None:
            problem = f'is {limit.hard_usd:g}, but on_exhausted is "raise"'
            yield "hard_usd", problem, f'Write `on_exhausted = "degrade"` under {table} as well.'
        return
    if limit.soft:
        if limit.hard_usd is not None:
            problem = f"is {limit.hard_usd:g}, but a soft limit never refuses"
            yield "hard_usd", problem, "Take out `soft` or hard_usd."
        return
    if len(limit.amounts) > 1:
        advice = "Write the other windows as a limit of their own, with the same per and match."
        yield "on_exhausted", 'is "degrade" for several windows, and hard_usd is one', advice
    yield from _on_hard(limit, table)


def _on_hard(limit: LimitConfig, table: str) -> Iterator[tuple[str, str, str]]:
    window, usd = next(iter(limit.amounts.items()), ("day", 0.0))
    if limit.hard_usd is None:
        problem = 'is "degrade", which needs a cap that it may degrade up to; `hard_usd` is missing'
        advice = f"Write for example `hard_usd = {usd * 1.5:g}` under {table}, or `soft = true`."
        yield "on_exhausted", problem, advice
    elif limit.hard_usd < usd:
        problem = f"is {limit.hard_usd:g}, less than {_KEYS[window]} = {usd:g}"
        yield "hard_usd", problem, f"Write `hard_usd = {usd * 1.5:g}`."
