"""The way in: a decision becomes arguments of the function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetroute.calls.dialects import LEFT_OUT
from budgetroute.calls.said import CAP_NAMES, EXTRA_BODY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.calls.said import Said
    from budgetroute.calls.shape import Shape
    from budgetroute.records import Action
    from budgetroute.router import Router

_NEWER_CAP = "max_completion_tokens"


def cap_name(shape: Shape, said: Said, action: Action, router: Router) -> str:
    """Return the parameter that carries the cap: the caller's or the function's own.

    OpenAI's reasoning models refuse `max_tokens`, so `max_completion_tokens` is taken where it can
    be; litellm renames by itself.
    """
    if shape.own_client and _NEWER_CAP in shape.caps:
        card = router.equipment.facts(action.model).card
        if card.provider in {"openai", "azure"} and card.supports.get("reasoning"):
            return _NEWER_CAP
    return said.cap_name or (shape.caps[0] if shape.caps else "max_tokens")


def parts_for(
    shape: Shape, *, said: Said, usual: Said, action: Action, cap_name: str
) -> dict[str, Any]:
    """Return the arguments that carry an action, for the parameters this function has.

    Args:
        shape: the function.
        said: what the caller passed.
        usual: what the function's defaults say.
        action: what was chosen.
        cap_name: the parameter that carries the cap.
    """
    known = shape.signature.parameters
    none: Any = LEFT_OUT if shape.is_client else None
    parts: dict[str, Any] = {"model": action.model, "cot": action.cot}
    parts |= {name: none if name in known else LEFT_OUT for name in CAP_NAMES}
    parts[cap_name] = action.max_tokens
    if action.reasoning_effort is not None:
        parts["reasoning_effort"] = action.reasoning_effort
    elif said.reasoning_effort or usual.reasoning_effort:
        parts["reasoning_effort"] = none
    if action.temperature is not None:
        parts["temperature"] = action.temperature
    if action.n != (said.n or usual.n or 1):
        parts["n"] = action.n
    sent = {name: part for name, part in parts.items() if name in known or _is_open(shape, name)}
    return sent | (dict(action.params) if shape.open else {})


def _is_open(shape: Shape, name: str) -> bool:
    return shape.open and name != "cot"


def put(shape: Shape, arguments: dict[str, Any], sent: Mapping[str, Any]) -> None:
    """Put what is sent into bound arguments, in place."""
    for name, value in sent.items():
        if name in shape.signature.parameters:
            _set(arguments, name, value)
            continue
        catch_all = shape.extra or EXTRA_BODY
        if catch_all in shape.signature.parameters:
            inner = dict(arguments.get(catch_all) or {})
            _set(inner, name, value)
            _set(arguments, catch_all, inner or LEFT_OUT)


def _set(arguments: dict[str, Any], name: str, value: object) -> None:
    if value is LEFT_OUT:
        arguments.pop(name, None)
    else:
        arguments[name] = value
