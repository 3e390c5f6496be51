"""`@route`: puts the budget between a function and the model it calls."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from budgetroute.calls.options import Options, named
from budgetroute.calls.routed import routed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from budgetroute.router import Router

P = ParamSpec("P")
R = TypeVar("R")


@overload
def route(fn: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def route(
    name: str | None = None,
    /,
    *,
    prompt: str | Callable[..., Any] | None = None,
    prompt_type: str | None = None,
    floor: float | None = None,
    require: Iterable[str] = (),
    providers: Iterable[str] | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    calls: int = 1,
    usage: Callable[[Any], Any] | None = None,
    hidden: bool = False,
    router: Router | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def route(  # noqa: PLR0913 - one argument per thing that is wired or said
    fn: Callable[..., Any] | str | None = None,
    /,
    *,
    prompt: str | Callable[..., Any] | None = None,
    prompt_type: str | None = None,
    floor: float | None = None,
    require: Iterable[str] = (),
    providers: Iterable[str] | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    calls: int = 1,
    usage: Callable[[Any], Any] | None = None,
    hidden: bool = False,
    router: Router | None = None,
) -> Any:
    """Route the calls of a function that talks to a language model.

    Before each call the best affordable action is chosen and its worst case held; the function
    receives the action in the parameters it declares (`model`, `max_tokens` or
    `max_completion_tokens`, `reasoning_effort`, `temperature`, `n`, `cot`, `messages` with the
    chain-of-thought instruction, or one `plan`); afterwards the usage it returns is billed. Its
    defaults are the baseline, an explicit argument is a pin, its return value is untouched.
    OpenAI's reasoning models refuse `max_tokens`: a function that is to reach them declares
    `max_completion_tokens` and `reasoning_effort`.

    A stream or generator is settled when it ends, is closed, breaks, is cancelled or is dropped.

    Works with and without parentheses, on functions, coroutine functions, generator functions, and
    clients' methods:
    `route(litellm.completion)`, `route(client.chat.completions.create)`. There, what the caller
    passes is the baseline and `max_tokens` a ceiling; `pin()` pins.

    Args:
        fn: the function, or the route's name (default: the function's name).
        prompt: which parameter is the prompt, or a callable with the function's parameters that
            returns it; default: `messages`, else the first string.
        prompt_type: the type of every prompt; default: classified.
        floor: least acceptable predicted reward, in [0, 1].
        require: tags that a model must carry.
        providers: providers the function can serve; default: the baseline's, all for litellm.
        model: the model its body sends, if it has no parameter for one.
        max_tokens: the cap its body sends, if it has no parameter for one.
        calls: how many requests one call of the function makes; report each with `record`.
        usage: reads usage from the result, or each item of a stream (a response, a dict of it, or
            None for unknown).
        hidden: take the injected names out of the visible signature.
        router: the router to ask; default: the one of budgetroute.toml.

    Raises:
        ConfigError: at decoration, if the function cannot carry a model or a cap.
    """
    options = Options(
        name=fn if isinstance(fn, str) else None,
        prompt=prompt,
        prompt_type=prompt_type,
        floor=floor,
        require=named("require", require),
        providers=None if providers is None else named("providers", providers),
        model=model,
        max_tokens=max_tokens,
        calls=calls,
        usage=usage,
        hidden=hidden,
        router=router,
    )
    if fn is None or isinstance(fn, str):
        return functools.partial(routed, options=options)
    return routed(fn, options)
