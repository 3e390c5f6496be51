"""A routed function, sync and async: decide, hand the action to it, settle what it returns."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from budgetroute.calls.carry import Carrier, check_shape
from budgetroute.calls.flight import Flight
from budgetroute.calls.retries import aretrying, retrying
from budgetroute.calls.routers import default_router, is_off, note_untouched
from budgetroute.calls.said import ROUTED
from budgetroute.calls.shadowing import followed
from budgetroute.calls.shape import innermost, shape_of
from budgetroute.calls.streams import finished, opened
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from budgetroute.calls.options import Options
    from budgetroute.records import Request
    from budgetroute.router import Router


def routed(fn: Any, options: Options) -> Callable[..., Any]:  # noqa: ANN401 - the caller's or the library's own type
    """Return a function that routes each call of `fn`: sync, async or generating, as `fn` is.

    Raises:
        ConfigError: it cannot carry a model or a cap, or is routed already.
    """
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
        flight, sent_args, sent = _take_off(carrier, args, kwargs)
        if flight is None:
            return (carrier.options.straight or fn)(*sent_args, **sent)
        if flight.router.is_shadow:
            return _flown(flight, carrier.options.straight or fn, sent_args, sent)
        if carrier.options.attempts == 1:
            return _flown(flight, fn, sent_args, sent)
        for attempt in retrying(carrier.options.attempts):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    flight.retry()
                return _flown(flight, fn, sent_args, sent)
        raise AssertionError("tenacity re-raises the last error")

    return wrapper


def _asynchronous(fn: Callable[..., Any], carrier: Carrier) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the caller's or the library's own type
        flight, sent_args, sent = _take_off(carrier, args, kwargs)
        if flight is None:
            return await (carrier.options.straight or fn)(*sent_args, **sent)
        if flight.router.is_shadow:
            return await _aflown(flight, carrier.options.straight or fn, sent_args, sent)
        if carrier.options.attempts == 1:
            return await _aflown(flight, fn, sent_args, sent)
        async for attempt in aretrying(carrier.options.attempts):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    flight.retry()
                return await _aflown(flight, fn, sent_args, sent)
        raise AssertionError("tenacity re-raises the last error")

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
    flight, sent_args, sent = _take_off(carrier, args, kwargs)
    if flight is None:
        return fn(*sent_args, **sent)
    with flight.until_sent():
        return opened(flight, fn(*sent_args, **sent))


def _flown(
    flight: Flight, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:  # noqa: ANN401 - the function's own
    """Call the function once; a coroutine that it returns lands the flight when it is awaited."""
    with flight:
        result = fn(*args, **kwargs)
        if inspect.isawaitable(result):
            return _landed_later(flight.handed_over(), result)
        return finished(flight, result)


async def _aflown(
    flight: Flight, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:  # noqa: ANN401 - the function's own
    with flight:
        return finished(flight, await fn(*args, **kwargs))


async def _landed_later(flight: Flight, result: Awaitable[Any]) -> Any:  # noqa: ANN401 - the caller's or the library's own type
    with flight:
        return finished(flight, await result)


def _take_off(
    carrier: Carrier, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Flight | None, tuple[Any, ...], dict[str, Any]]:
    """Decide, hold, and return the flight with the arguments to call the function with.

    Without a flight the call goes through as it came, and nothing is counted.
    """
    if is_off(carrier.options.router):
        note_untouched()
        return None, args, kwargs
    router = carrier.options.router or default_router()
    if router.is_shadow:
        return _followed(carrier, router, args, kwargs)
    call = carrier.bind(args, kwargs)
    request, prompt = carrier.request(call)
    flight = Flight(router, request, usage_of=carrier.options.usage)
    with flight.until_sent():
        sent = carrier.injected(flight.decision, prompt, call, router)
        flight.asked_usage = "stream_options" in sent
        sent_args, sent_kwargs = carrier.merged(call, sent)
    return flight, sent_args, sent_kwargs


def _followed(
    carrier: Carrier, router: Router, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Flight | None, tuple[Any, ...], dict[str, Any]]:
    """Return the flight of shadow mode, with the arguments as they came; it never fails a call."""
    read = args, kwargs

    def request() -> Request:
        nonlocal read
        read = carrier.read_once(args, kwargs)  # as they go on should anything fail
        call = carrier.bind(*read)
        read = carrier.merged(call, {})
        return carrier.request(call)[0]

    flight = followed(router, carrier.route, request, usage_of=carrier.options.usage)
    return flight, *read


_WRAPPERS = {
    (False, False): _synchronous,
    (True, False): _asynchronous,
    (False, True): _generating,
    (True, True): _async_generating,
}
"""(is async, yields) → what wraps such a function."""
