"""What a call, or a function's defaults, say about the action: checked, None where they are silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError
from budgetroute.records import Plan
from budgetroute.units import is_amount, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable

CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the parameter that caps the output, the preferred one first."""
ROUTED = frozenset({*CAP_NAMES, "model", "cot", "reasoning_effort", "temperature", "n", "plan"})
"""Parameters that an action is injected into."""
EXTRA_BODY = "extra_body"
"""Where the OpenAI client takes parameters that are not OpenAI's; it sends them over all others."""
_COSTLY = ("model", *CAP_NAMES, "n")
_SILENT = frozenset({"NoneType", "NotGiven", "Omit"})  # the SDKs' words for "not sent"


@dataclass(frozen=True, slots=True)
class Said:
    """Parts of an action as somebody wrote them; None = said nothing.

    Attributes:
        cap_name: the parameter that the cap was written to.
    """

    model: str | None = None
    cap: int | None = None
    cap_name: str | None = None
    cot: bool | None = None
    reasoning_effort: str | None = None
    temperature: float | None = None
    n: int | None = None


_NOTHING = Said()


def said_in(values: Mapping[str, Any], *, where: str) -> Said:
    """Read the routed parameters among a call's arguments; a `plan` says all of them.

    Args:
        values: parameter → value.
        where: what errors call the place, `answer()`.

    Raises:
        ConfigError: a value that is no part of an action, such as a negative cap: what is held for
            the call is computed from it; or one inside `extra_body`, which would replace what is
            chosen on the wire.
    """
    _refuse_hidden(values.get(EXTRA_BODY), where=where)
    if ROUTED.isdisjoint(values):
        return _NOTHING
    plan = values.get("plan")
    if isinstance(plan, Plan):
        act = plan.action
        return Said(
            act.model,
            act.max_tokens,
            plan.cap_name,
            act.cot,
            act.reasoning_effort,
            act.temperature,
            act.n,
        )
    cap_name = next((name for name in CAP_NAMES if not is_silent(values.get(name))), None)

    def part(name: str, holds: Callable[[Any], bool], wanted: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        value = values.get(name)
        if is_silent(value):
            return None
        if holds(value):
            return value
        raise ConfigError(
            f"{where}: {name}={value!r} where routing needs {wanted}. Correct it; a parameter that "
            f"means something else needs another name."
        )

    return Said(
        model=part("model", _is_name, "a model's name"),
        cap=part(cap_name, is_whole, "a whole number of 1 or more") if cap_name else None,
        cap_name=cap_name,
        cot=part("cot", lambda v: isinstance(v, bool), "True or False"),
        reasoning_effort=part("reasoning_effort", _is_name, "an effort's name"),
        temperature=part("temperature", is_amount, "a number, 0 or more"),
        n=part("n", is_whole, "a whole number of 1 or more"),
    )


def usage_asked(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `stream_options` that ask for a stream's usage; None if the caller has decided."""
    given = values.get("stream_options")
    if is_silent(given):
        return {"include_usage": True}
    if isinstance(given, Mapping) and "include_usage" not in given:
        return {**given, "include_usage": True}
    return None


def _refuse_hidden(extra: object, *, where: str) -> None:
    hidden = [name for name in _COSTLY if name in extra] if isinstance(extra, Mapping) else []
    if hidden:
        raise ConfigError(
            f"{where}: extra_body holds {', '.join(hidden)}, which would be sent in place of what is "
            f"chosen and held. Pass it as a parameter of its own."
        )


def is_silent(value: object) -> bool:
    """Say whether an argument says nothing: None, or the SDKs' words for "not sent"."""
    return type(value).__name__ in _SILENT


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)
