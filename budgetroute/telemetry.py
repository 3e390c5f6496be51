"""The debug log: one logfmt line per event, the same fields in `extra`, never a prompt's text.

Loggers: `budgetroute.decide` and `budgetroute.spend` (DEBUG; warnings of limits are WARNING there),
`budgetroute.pace` (INFO).
`BUDGETROUTE_LOG=debug` prints them to stderr.
"""

from __future__ import annotations

import logging
import os
import re
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, TypeAlias

from budgetroute.errors import ConfigError
from budgetroute.oneline import one_line
from budgetroute.policy import surplus
from budgetroute.units import format_usd, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.errors import BudgetExceeded
    from budgetroute.records import Balance, Candidate, Decision, LimitWarning, Settlement

Tell: TypeAlias = "Callable[[LimitWarning], None]"

_PLAIN = re.compile(r"[^\s\"=\\]+")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_GATED_SHOWN = 3
_WHOLE = "day"  # name of the scope that λ is of where nothing else is said
_BOUNDS = {
    "2·e_max": "upper, twice the best reward per dollar: only the cheapest actions are bought",
    "e_min/2": "lower, half the least reward per dollar: more money than the traffic can use",
    "0": "lower, zero: money is not scarce",
}
"""Bounds that no setting names, in words."""

_root = logging.getLogger("budgetroute")
_decide = logging.getLogger("budgetroute.decide")
_spend = logging.getLogger("budgetroute.spend")
_pace = logging.getLogger("budgetroute.pace")


def enable_from_env() -> None:
    """Print the log to stderr if `BUDGETROUTE_LOG` says a level; nothing without it.

    Raises:
        ConfigError: the level is not one of debug, info, warning.
    """
    said = os.environ.get("BUDGETROUTE_LOG", "").strip().lower()
    if not said:
        return
    if said not in _LEVELS:
        raise ConfigError(
            f"BUDGETROUTE_LOG={said!r}: write one of {', '.join(_LEVELS)}, or leave it out"
        )
    _root.setLevel(_LEVELS[said])
    if not any(getattr(h, "budgetroute", False) for h in _root.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        handler.budgetroute = True  # type: ignore[attr-defined]
        _root.addHandler(handler)


def on_warning(tell: Tell) -> Tell:
    """Call a function whenever a limit's warning comes, in whichever router of this process.

    Each warning comes once per period over all processes of a store, to the process whose call
    crossed it; so every process registers. The function runs in that call, after its bill was
    booked: it must be quick, and what it raises is logged. Usable as a decorator.

    Raises:
        ConfigError: it cannot be called, or is a coroutine function.

        @on_warning
        def page(warning):
            print(warning.limit, warning.share, warning.value)
    """
    given: object = tell
    if not callable(given) or iscoroutinefunction(given):
        raise ConfigError(
            f"on_warning({tell!r}): a plain function of one argument is needed; let it start a task "
            "where it has to wait for something"
        )
    if tell not in _listeners:
        _listeners.append(tell)
    return tell


def listeners() -> tuple[Tell, ...]:
    """Return the functions that `on_warning` was given, in order."""
    return tuple(_listeners)


_listeners: list[Tell] = []


class LogObserver:
    """Writes decisions, settlements, refusals, warnings and price changes to the loggers."""

    def refused(self, route: str, error: BudgetExceeded) -> None:
        """Write one DEBUG line: which limit refused, and where it stands."""
        if _decide.isEnabledFor(logging.DEBUG):
            _write(_decide, logging.DEBUG, refused_fields(route, error))

    def warned(self, warning: LimitWarning) -> None:
        """Write one WARNING line: which limit, which share of it, until when."""
        _write(_spend, logging.WARNING, warned_fields(warning))

    def decided(self, decision: Decision) -> None:
        """Write one DEBUG line: what, why, what was second, where λ flips it, where the day is."""
        if _decide.isEnabledFor(logging.DEBUG):
            _write(_decide, logging.DEBUG, decided_fields(decision))

    def settled(self, decision: Decision, settlement: Settlement) -> None:
        """Write one DEBUG line: tokens, cost, and where the cost is from."""
        if _spend.isEnabledFor(logging.DEBUG):
            _write(_spend, logging.DEBUG, settled_fields(decision, settlement))

    def stepped(self, fields: Mapping[str, object]) -> None:
        """Write one INFO line: how the shadow price moved, and why."""
        if _pace.isEnabledFor(logging.INFO):
            _write(_pace, logging.INFO, stepped_fields(fields))


def decided_fields(decision: Decision) -> dict[str, object]:
    """Return the fields of a decision's line."""
    first, second, price = decision.chosen, decision.runner_up, decision.shadow_price
    fields: dict[str, object] = {
        "id": decision.id,
        **({"after": decision.after} if decision.after else {}),
        "route": decision.route,
        "type": _types(decision),
        "pick": first.action.label,
        "R": _reward(first),
        "C": f"${first.cost:.6f}",
        "lambda": f"{price:.4g}",
        "score": f"{surplus(first, price=price):.4f}",
    }
    if second is not None:
        fields["next"] = f"{second.action.label}({surplus(second, price=price):.4f})"
    fields |= _virtual(decision)
    fields["why"] = decision.why
    if decision.reasons:
        fields["out"] = _gated(decision.reasons)
    if decision.stepped_down:
        fields["stepped_down"] = decision.stepped_down
    if first.source != "measured":
        fields["curve"] = first.source
    fields["held"] = format_usd(first.worst)
    if first.declared is not None:
        fields["raised"] = f"{first.raised}; declared {format_usd(first.declared)}"
    fields |= _on_limits(decision)
    fields["day"] = _day(decision.limit, decision.balance)
    return fields


def _virtual(decision: Decision) -> dict[str, object]:
    """Return the other arm of a decision in shadow mode: what `on` would have taken."""
    other = decision.shadowed
    if other is None:
        return {"mode": "shadow", "on": "refused"} if decision.unshadowed else {}
    return {
        "mode": "shadow",
        "on": other.chosen.action.label,
        "on_R": _reward(other.chosen),
        "on_C": f"${other.chosen.cost:.6f}",
        "on_day": _day(other.limit, other.balance),
    }


def _on_limits(decision: Decision) -> dict[str, object]:
    fields: dict[str, object] = {}
    if decision.priced_by != _WHOLE:
        fields["priced_by"] = decision.priced_by
    if decision.bound_by:
        fields["bound_by"] = decision.bound_by
    if decision.degraded:
        fields["degraded"] = "true"
    if len(decision.limits) > 1 and decision.left is not None:
        fields["tightest"] = f"{decision.tightest}({format_usd(decision.left)} left)"
    return fields


def settled_fields(decision: Decision, settlement: Settlement) -> dict[str, object]:
    """Return the fields of a settlement's line."""
    usage = settlement.usage
    fields: dict[str, object] = {"id": decision.id, "model": decision.model}
    if usage is not None:
        fields |= {
            "in": usage.input_tokens,
            "cached": usage.cached_tokens,
            "out": usage.output_tokens,
            "reasoning": usage.reasoning_tokens,
            "finish": usage.finish_reason or "unknown",
        }
    fields |= {
        "cost": format_usd(settlement.amount),
        "expected": f"${decision.chosen.cost:.6f}",
        "source": settlement.source,
        "day": _day(decision.limit, settlement.balance),
    }
    if settlement.overshoot:
        fields["overshoot_usd"] = f"{usd_from_pico(settlement.overshoot):.6f}"
    if settlement.repeated:
        fields["repeated"] = "true"
    return fields


def refused_fields(route: str, error: BudgetExceeded) -> dict[str, object]:
    """Return the fields of a refusal's line."""
    return {
        "refused": route,
        "limit": error.scope,
        "window": error.window,
        "spent": f"${error.spent_usd:.6f}",
        "held": f"${error.held_usd:.6f}",
        "of": f"${error.limit_usd:.6f}",
        "needed": f"${error.needed_usd:.6f}",
        "resets": "never" if error.resets_at is None else error.resets_at.isoformat(),
    }


def warned_fields(warning: LimitWarning) -> dict[str, object]:
    """Return the fields of a warning's line; the tag's value is not among them."""
    return {
        "app": warning.app,
        "limit": warning.limit,
        "crossed": f"{warning.share:.0%}",
        "spent": f"${warning.spent_usd:.6f}",
        "held": f"${warning.held_usd:.6f}",
        "of": f"${warning.limit_usd:.6f}",
        "period": warning.period,
        "resets": "never" if warning.resets_at is None else warning.resets_at.isoformat(),
        "then": "calls go on, the limit is soft" if warning.is_soft else "calls are held to it",
    }


def stepped_fields(seen: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a price change's line."""
    price, limit = _number(seen.get("to")), _number(seen.get("limit"))
    fields: dict[str, object] = {
        "from": "start" if seen.get("from") is None else f"{_number(seen['from']):.4g}",
        "to": f"{price:.4g}",
        "window": seen.get("window"),
    }
    if seen.get("scope", _WHOLE) != _WHOLE:
        fields["limit"] = seen["scope"]
    if limit:
        fields["spent"] = f"{_number(seen.get('settled')) / limit:.1%}"
    fields["elapsed"] = f"{_number(seen.get('elapsed')):.1%}"
    if seen.get("bound"):
        fields["bound"] = _BOUNDS.get(str(seen["bound"]), seen["bound"])
    if price > 0:
        fields["worth"] = f"a correct answer is worth up to ${1 / price:.4g} now"
    return fields


def logfmt(fields: Mapping[str, object]) -> str:
    r"""Write fields as logfmt; values with spaces are quoted, control characters escaped.

    >>> logfmt({"id": "7f3a", "why": "two words", "bad": "a\nb=\"c\""})
    'id=7f3a why="two words" bad="a\\nb=\\"c\\""'
    """
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    return '"' + one_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _write(logger: logging.Logger, level: int, fields: Mapping[str, object]) -> None:
    logger.log(level, "%s", logfmt(fields), extra={"budgetroute": dict(fields)})


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _types(decision: Decision) -> str:
    return ",".join(f"{name}({weight:.2f})" for name, weight in decision.types[:2]) or "general"


def _reward(candidate: Candidate) -> str:
    return "unknown" if candidate.reward is None else f"{candidate.reward:.3f}"


def _gated(reasons: Mapping[str, str]) -> str:
    tally: dict[str, list[str]] = {}
    for label, why in reasons.items():
        tally.setdefault(why, []).append(label)
    shown = [
        f"{labels[0]} and {len(labels) - 1} more: {why}"
        if len(labels) > 1
        else f"{labels[0]}: {why}"
        for why, labels in list(tally.items())[:_GATED_SHOWN]
    ]
    more = len(tally) - len(shown)
    return "; ".join(shown) + (f"; {more} more reasons" if more > 0 else "")


def _day(limit: int | None, balance: Balance | None) -> str:
    if balance is None:
        return "uncounted"
    cap = "unlimited" if limit is None else f"{usd_from_pico(limit):.2f}"
    return f"${usd_from_pico(balance.settled):.4f}/{cap}"
