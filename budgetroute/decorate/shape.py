"""What a function can carry: which of its parameters take which part of an action."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.records import Axis

CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_DIRECT: tuple[Axis, ...] = ("model", "cot", "reasoning_effort", "temperature", "n")
_CLIENT_MODULES = ("openai", "litellm")
_OPEN: frozenset[Axis] = frozenset(
    {"model", "max_tokens", "reasoning_effort", "temperature", "n", "params"}
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A function as routing sees it.

    Attributes:
        name: its name.
        signature: its signature.
        is_client: it is a client's own method (`client.chat.completions.create`,
            `litellm.completion`): what the caller passes is a baseline and a ceiling, not a pin.
        own_client: it calls one provider's client; False for litellm, which reaches all.
        is_async: calling it returns a coroutine.
        names: axis → the parameter that carries it.
        extra: the parameter that takes any keyword (`**kwargs`); None = none.
        open: it takes any keyword, so every plain axis can be sent.
        takes_plan: it declares `plan`.
        takes_messages: it declares `messages`, or is a client's method.
        sendable: the axes it can carry when the call has messages.
        sendable_as_text: the axes it can carry when the prompt is plain text.
        defaults: parameter → default, where there is one.
    """

    name: str
    signature: inspect.Signature
    is_client: bool
    own_client: bool
    is_async: bool
    names: Mapping[Axis, str]
    extra: str | None
    open: bool
    takes_plan: bool
    takes_messages: bool
    sendable: frozenset[Axis]
    sendable_as_text: frozenset[Axis]
    defaults: Mapping[str, Any]


def shape_of(fn: Callable[..., Any]) -> Shape:
    """Look at a function.

    Raises:
        ConfigError: it is a generator function, or has no signature to look at.
    """
    plain = inspect.unwrap(fn)
    _refuse_generators(plain)
    signature = _signature(fn)
    parameters = signature.parameters
    module = (getattr(plain, "__module__", "") or "").partition(".")[0]
    is_client = module in _CLIENT_MODULES
    extra = next((n for n, p in parameters.items() if p.kind is p.VAR_KEYWORD), None)
    keywords = extra is not None
    names: dict[Axis, str] = {axis: axis for axis in _DIRECT if axis in parameters}
    cap = next((name for name in CAP_NAMES if name in parameters), None)
    if cap is not None:
        names["max_tokens"] = cap
    takes_plan = "plan" in parameters
    takes_messages = "messages" in parameters or is_client
    as_text: frozenset[Axis] = frozenset(names)
    as_text |= _OPEN if keywords or is_client or takes_plan else frozenset()
    as_text |= {"cot"} if takes_plan else frozenset()
    return Shape(
        name=getattr(fn, "__name__", type(fn).__name__),
        signature=signature,
        is_client=is_client,
        own_client=module != "litellm",
        is_async=_is_async(fn, plain),
        names=names,
        extra=extra,
        open=keywords or is_client,
        takes_plan=takes_plan,
        takes_messages=takes_messages,
        sendable=as_text | {"cot"} if takes_messages else as_text,
        sendable_as_text=as_text,
        defaults={name: p.default for name, p in parameters.items() if p.default is not p.empty},
    )


def _refuse_generators(plain: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise ConfigError(
            f"@route on {getattr(plain, '__qualname__', plain)!r}: generator functions are not "
            "routed in this version, since their usage is known only when they end. Return the "
            "whole response, or decorate the function that makes the request."
        )


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError) as err:
        raise ConfigError(
            f"@route needs a function whose parameters it can see, found {type(fn).__name__}: "
            f"{err}. Wrap it: `def answer(question, *, model=…, max_tokens=…): …`."
        ) from err


def _is_async(fn: Callable[..., Any], plain: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(plain):
        return True
    call = getattr(fn, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(call)
