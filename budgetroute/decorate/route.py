"""The decorator, sync and async: decide, hand the action to the function, settle what it returns."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from budgetroute.calls.flight import Flight
from budgetroute.calls.routers import default_router, is_off
from budgetroute.calls.said import ROUTED
from budgetroute.calls.streams import finished, opened
from budgetroute.decorate.carry import Carrier, check_shape
from budgetroute.decorate.options import Options, named
from budgetroute.decorate.shape import innermost, shape_of
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable

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
        return functools.partial(_wrapped, options=options)
    return _wrapped(fn, options)


def _wrapped(fn: Any, options: Options) -> Callable[..., Any]:  # noqa: ANN401 - the caller's or the library's own type
    if not (callable(fn) or isinstance(fn, classmethod)):
        raise ConfigError(
            f"@route on {fn!r}: found {type(fn).__name__} where a function or a route's name "
            'belongs; write @route, @route() or @route("name").'
        )
    shape = shape_of(fn)
    check_shape(shape, options)
    carrier = Carrier(shape, options, options.name or shape.name)
    wrapper = _WRAPPERS[shape.is_async, shape.yields](fn, carrier)
    if isinstance(fn, functools.partial):
        functools.update_wrapper(wrapper, innermost(fn), updated=())
        wrapper.__wrapped__ = fn  # type: ignore[attr-defined]
    if options.hidden:
        kept = [p for name, p in shape.signature.parameters.items() if name not in ROUTED]
        wrapper.__signature__ = shape.signature.replace(parameters=kept)  # type: ignore[attr-defined]
    wrapper.__budgetroute__ = carrier  # type: ignore[attr-defined]
    return wrapper


def _synchronous(fn: Callable[..., Any], carrier: Carrier) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        if is_off(carrier.options.router):
            return fn(*args, **kwargs)
        flight, sent_args, sent = _take_off(carrier, args, kwargs)
        with flight:
            result = fn(*sent_args, **sent)
            if inspect.isawaitable(result):
                return _landed_later(flight.handed_over(), result)
            return finished(flight, result)

    return wrapper


def _asynchronous(fn: Callable[..., Any], carrier: Carrier) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        if is_off(carrier.options.router):
            return await fn(*args, **kwargs)
        flight, sent_args, sent = _take_off(carrier, args, kwargs)
        with flight:
            return finished(flight, await fn(*sent_args, **sent))

    return wrapper


def _generating(fn: Callable[..., Any], carrier: Carrier) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401 - the function's own
        return (yield from _generator(fn, carrier, args, kwargs))

    return wrapper


def _async_generating(fn: Callable[..., Any], carrier: Carrier) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401 - the function's own
        generator = _generator(fn, carrier, args, kwargs)
        step = anext(generator)
        try:
            while True:
                item = await step
                try:
                    step = generator.asend((yield item))
                except GeneratorExit:
                    raise
                except BaseException as err:  # noqa: BLE001 - thrown in by the consumer, for the body
                    step = generator.athrow(err)
        except StopAsyncIteration:
            return
        finally:
            await generator.aclose()

    return wrapper


def _generator(
    fn: Callable[..., Any], carrier: Carrier, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:  # noqa: ANN401 - the function's own generator
    """Return the function's generator; called at the first step, when its body would begin."""
    if is_off(carrier.options.router):
        return fn(*args, **kwargs)
    flight, sent_args, sent = _take_off(carrier, args, kwargs)
    with flight.until_sent():
        return opened(flight, fn(*sent_args, **sent))


async def _landed_later(flight: Flight, result: Awaitable[Any]) -> Any:  # noqa: ANN401 - the caller's or the library's own type
    with flight:
        return finished(flight, await result)


def _take_off(
    carrier: Carrier, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Flight, tuple[Any, ...], dict[str, Any]]:
    """Decide, hold, and return the flight with the arguments to call the function with."""
    router = carrier.options.router or default_router()
    call = carrier.bind(args, kwargs)
    request, prompt = carrier.request(call)
    flight = Flight(router, request, usage_of=carrier.options.usage)
    with flight.until_sent():
        sent = carrier.injected(flight.decision, prompt, call, router)
        flight.asked_usage = "stream_options" in sent
        sent_args, sent_kwargs = carrier.merged(call, sent)
    return flight, sent_args, sent_kwargs


_WRAPPERS = {
    (False, False): _synchronous,
    (True, False): _asynchronous,
    (False, True): _generating,
    (True, True): _async_generating,
}
"""(is async, yields) → what wraps such a function."""
