"""What a function can carry: which of its parameters take which part of an action."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.calls.dialects import CHAT, MESSAGES, RESPONSES
from budgetroute.calls.said import CAP_NAMES
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.calls.dialects import Dialect
    from budgetroute.records import Axis

_DIRECT: tuple[Axis, ...] = ("model", "cot", "reasoning_effort", "temperature", "n")
_CLIENT_MODULES = ("anthropic", "litellm", "openai")
_APIS: Mapping[str, Dialect] = {
    "anthropic.resources.beta.messages.messages": MESSAGES,
    "anthropic.resources.messages.messages": MESSAGES,
    "openai.resources.beta.chat.completions": CHAT,
    "openai.resources.chat.completions.completions": CHAT,
    "openai.resources.responses.responses": RESPONSES,
}
"""Module of an SDK's methods → what they speak."""
_METHODS = frozenset({"create", "parse", "stream"})
"""Those that make one request for one answer."""
_FUNCTIONS = frozenset({"acompletion", "completion"})
"""litellm's."""
_ONE_DEPLOYMENT = "/deployments/"


@dataclass(frozen=True, slots=True)
class Shape:
    """A function as routing sees it.

    Attributes:
        name: its name.
        signature: its signature.
        is_client: it is a client's own method (`client.chat.completions.create`,
            `litellm.completion`): what the caller passes is a baseline and a ceiling, not a pin.
        dialect: what its parameters are called.
        one_model: the client's address names the model (an Azure deployment), whatever is asked.
        own_client: it calls one provider's client; False for litellm, which reaches all.
        is_async: calling it returns a coroutine or an async generator.
        yields: it is a generator function, sync or async.
        names: axis → the parameter that carries it.
        caps: the parameters that can carry the cap, the preferred one first.
        required: parameters without a default; calling without one is a TypeError.
        extra: the parameter that takes any keyword (`**kwargs`); None = none.
        open: it takes any keyword, so every plain axis can be sent.
        takes_plan: it declares `plan`.
        sendable: the axes it can carry when the call has messages.
        sendable_as_text: the axes it can carry when the prompt is plain text.
        defaults: parameter → default, where there is one.
    """

    name: str
    signature: inspect.Signature
    is_client: bool
    dialect: Dialect
    one_model: bool
    own_client: bool
    is_async: bool
    yields: bool
    names: Mapping[Axis, str]
    caps: tuple[str, ...]
    required: frozenset[str]
    extra: str | None
    open: bool
    takes_plan: bool
    sendable: frozenset[Axis]
    sendable_as_text: frozenset[Axis]
    defaults: Mapping[str, Any]


def shape_of(fn: Callable[..., Any]) -> Shape:
    """Look at a function.

    Raises:
        ConfigError: it cannot be routed: routed already, a client's method that is not a chat
            completion, or without a signature to look at.
    """
    plain = innermost(fn)
    _refuse(fn, plain)
    signature = _signature(fn)
    parameters = signature.parameters
    module = (getattr(plain, "__module__", "") or "").partition(".")[0]
    is_client = module in _CLIENT_MODULES
    dialect = _dialect(plain) if is_client else CHAT
    sync_yields, async_yields = _yields(fn)
    extra = next((n for n, p in parameters.items() if p.kind is p.VAR_KEYWORD), None)
    takes_plan = "plan" in parameters
    is_open = extra is not None or is_client
    caps = tuple(name for name in CAP_NAMES if name in parameters)
    names: dict[Axis, str] = {axis: axis for axis in _DIRECT if axis in parameters}
    names |= {"max_tokens": caps[0]} if caps else {}
    as_text: frozenset[Axis] = frozenset(names)
    as_text |= dialect.carries - {"cot"} if is_open or takes_plan else frozenset()
    as_text |= {"cot"} if takes_plan else frozenset()
    return Shape(
        name=getattr(plain, "__name__", type(plain).__name__),
        signature=signature,
        is_client=is_client,
        dialect=dialect,
        one_model=is_client and _serves_one_model(fn),
        own_client=module != "litellm",
        is_async=async_yields or _is_async(_telling(fn, plain) if is_client else fn),
        yields=sync_yields or async_yields,
        names=names,
        caps=caps or (CAP_NAMES[:2] if is_open or takes_plan else ()),
        required=_required(signature),
        extra=extra,
        open=is_open,
        takes_plan=takes_plan,
        sendable=as_text | {"cot"} if "messages" in parameters or is_client else as_text,
        sendable_as_text=as_text,
        defaults={name: p.default for name, p in parameters.items() if p.default is not p.empty},
    )


def innermost(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside wrappers and partials; it says the name and whose it is."""
    plain: Callable[..., Any] = inspect.unwrap(fn)
    while isinstance(plain, functools.partial):
        plain = inspect.unwrap(plain.func)
    return plain


def _refuse(fn: Callable[..., Any], plain: Callable[..., Any]) -> None:
    name = repr(getattr(plain, "__qualname__", type(plain).__name__))
    if isinstance(fn, staticmethod | classmethod):
        raise ConfigError(
            f"@route on {name}: found a {type(fn).__name__} object; write @{type(fn).__name__} "
            "above @route, so that the function itself is routed."
        )
    if hasattr(fn, "__budgetroute__") or hasattr(getattr(fn, "func", None), "__budgetroute__"):
        raise ConfigError(
            f"@route on {name}: it is routed already, and each call would be counted twice. "
            "Leave one of the two out."
        )


def _dialect(plain: Callable[..., Any]) -> Dialect:
    """Return what a client's method speaks; raises ConfigError for one that is not routed."""
    module, name = plain.__module__, getattr(plain, "__name__", "")
    if module.partition(".")[0] == "litellm" and name in _FUNCTIONS:
        return CHAT
    if module in _APIS and name in _METHODS:
        return _APIS[module]
    raise ConfigError(
        f"route({getattr(plain, '__qualname__', plain)}): of a client's own methods those that ask a "
        "language model once are routed: OpenAI's chat completions and responses, Anthropic's "
        "messages, litellm's completion. Call others inside a function of yours and route that: "
        "`@route` on `def answer(question, *, model=…, max_tokens=…)`."
    )


def _serves_one_model(fn: Callable[..., Any]) -> bool:
    """Say whether a client's method sends to the address of one deployment."""
    step: Any = fn
    while step is not None:
        client = getattr(getattr(step, "__self__", None), "_client", None)
        if client is not None:
            return _ONE_DEPLOYMENT in f"{getattr(client, 'base_url', '')}"
        step = step.func if isinstance(step, functools.partial) else _inside(step)
    return False


def _inside(fn: Any) -> Any:  # noqa: ANN401 - a wrapper of any kind
    return getattr(fn, "__wrapped__", None)


def _required(signature: inspect.Signature) -> frozenset[str]:
    return frozenset(
        name
        for name, p in signature.parameters.items()
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    )


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError) as err:
        raise ConfigError(
            f"@route needs a function whose parameters it can see, found {type(fn).__name__}: "
            f"{err}. Wrap it: `def answer(question, *, model=…, max_tokens=…): …`."
        ) from err


def _telling(fn: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return the part of a client's method that says whether calling it gives a coroutine.

    `create` hides it in a wrapper; `with_streaming_response.create` is a wrapper that gives none.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    return plain if inspect.ismethod(fn) else fn


def _is_async(fn: Callable[..., Any]) -> bool:
    """Say whether calling it gives a coroutine; a wrapper in between may have changed that."""
    call = getattr(fn, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call)


def _yields(fn: Callable[..., Any]) -> tuple[bool, bool]:
    """Say whether it is a generator function, and whether an async one."""
    bodies = (fn, getattr(fn, "__call__", None))  # noqa: B004 - an object with a body
    return any(map(inspect.isgeneratorfunction, bodies)), any(
        map(inspect.isasyncgenfunction, bodies)
    )
