"""Streams of a routed call: what the function returned, counted as it is read.

The caller gets an object that behaves like the stream: attributes, context managers and iteration are
the stream's own, and so is every item. Sync and async differ only in the await.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from budgetroute.backends.usage import read_usage
from budgetroute.calls.meters import FlightMeter, Meter, Step
from budgetroute.calls.partial import Tally, remembers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

    from budgetroute.calls.flight import Flight

_MANAGERS = frozenset({"anthropic", "contextlib", "openai"})


def finished(flight: Flight, result: Any) -> Any:  # noqa: ANN401 - the function's own result
    """Settle a call by its result, or return the stream that will settle it."""
    if _is_unread(result):
        return opened(flight.handed_over(), result)
    source = _parsed(result) if _is_raw(result) else result
    if _is_stream(source) and read_usage(source) is None:
        return opened(flight.handed_over(), result)
    flight.finish(result)
    return result


def opened(flight: Flight, stream: Any) -> Any:  # noqa: ANN401 - the function's own result
    """Return a stream that lands this flight when it ends, is closed, breaks or is collected."""
    tally = Tally(flight.decision.action.n, memory=_memory(stream), sent=not _is_manager(stream))
    return metered(stream, FlightMeter(flight, tally))


def recorded(flight: Flight, response: Any) -> Any:  # noqa: ANN401 - the caller's own response
    """Note a response inside a function's body; return it, a stream as one that is counted."""
    if not _is_stream(response) or read_usage(response) is not None:
        flight.record(response)
        return response
    tally = Tally(flight.decision.action.n, memory=_memory(response))
    flight.watch(tally)
    return metered(response, Meter(tally))


def metered(stream: Any, meter: Meter) -> Any:  # noqa: ANN401 - the function's own result
    """Return an object that behaves like the stream and tells the meter."""
    faces = tuple([name for name in _FACES if hasattr(type(stream), name)])
    return _class_for(faces)(stream, meter)


def prime(stream: Any) -> None:  # noqa: ANN401 - whatever was returned
    """Fetch the first item of a stream now, to be handed out first; raises what that raises."""
    if isinstance(stream, _Nexts):
        stream._br_prime()  # noqa: SLF001 - a name that no stream has


async def aprime(stream: Any) -> None:  # noqa: ANN401 - whatever was returned
    """Do what `prime` does, awaited."""
    if isinstance(stream, _ANexts):
        await stream._br_aprime()  # noqa: SLF001 - a name that no stream has


class _Metered:
    """A stand-in for a stream; `isinstance` and attributes are the stream's."""

    __slots__ = ("__weakref__", "_br_meter", "_br_stream")
    _br_meter: Meter
    _br_stream: Any

    def __init__(self, stream: Any, meter: Meter) -> None:  # noqa: ANN401 - the function's own result
        object.__setattr__(self, "_br_stream", stream)
        object.__setattr__(self, "_br_meter", meter)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # noqa: ANN401 - so that isinstance() sees the stream's class
        return type(self._br_stream)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the stream's own
        found = getattr(self._br_stream, name)
        way = _WAYS.get(name)
        return found if way is None else functools.partial(way, self, found)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - the stream's own
        setattr(self._br_stream, name, value)

    def __dir__(self) -> Iterable[str]:
        return dir(self._br_stream)

    def __repr__(self) -> str:
        return repr(self._br_stream)

    def _br_entered(self, entered: Any) -> Any:  # noqa: ANN401 - the stream's own
        if entered is self._br_stream:
            return self
        return self._br_followed(entered)

    def _br_followed(self, source: Any) -> Any:  # noqa: ANN401 - the stream's own
        """Return what came out of the stream's manager or raw response, counted too."""
        if not (_is_stream(source) or _is_raw(source)):
            self._br_meter.tally.note_whole(source)
            return source
        self._br_meter.tally.memory = _memory(source)
        return metered(source, self._br_meter)


class _Nexts(_Metered):
    __slots__ = ()

    def __iter__(self) -> _Nexts:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - the stream's own item
        meter = self._br_meter
        if not meter.is_due:
            with Step(meter):
                while not meter.took(item := next(self._br_stream)):
                    pass
            if not meter.looks_ahead:
                return item
            meter.ahead.append(item)
            self._br_look_ahead()
        return meter.due()

    def _br_look_ahead(self) -> None:
        meter = self._br_meter
        with meter.owing(), Step(meter):
            while meter.looks_ahead:
                meter.keep(next(self._br_stream))

    def _br_prime(self) -> None:
        try:
            item = next(self)
        except StopIteration:
            return
        self._br_meter.ahead.appendleft(item)


class _ANexts(_Metered):
    __slots__ = ()

    def __aiter__(self) -> _ANexts:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - the stream's own item
        meter = self._br_meter
        if not meter.is_due:
            with Step(meter):
                while not meter.took(item := await anext(self._br_stream)):
                    pass
            if not meter.looks_ahead:
                return item
            meter.ahead.append(item)
            await self._br_alook_ahead()
        return meter.due()

    async def _br_alook_ahead(self) -> None:
        meter = self._br_meter
        with meter.owing(), Step(meter):
            while meter.looks_ahead:
                meter.keep(await anext(self._br_stream))

    async def _br_aprime(self) -> None:
        try:
            item = await anext(self)
        except StopAsyncIteration:
            return
        self._br_meter.ahead.appendleft(item)


class _Enters(_Metered):
    __slots__ = ()

    def __enter__(self) -> Any:  # noqa: ANN401 - the stream's own
        self._br_meter.tally.sent = True
        with Step(self._br_meter):
            entered = self._br_stream.__enter__()
        return self._br_entered(entered)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            with Step(self._br_meter):
                handled: bool | None = self._br_stream.__exit__(kind, error, trace)
        finally:
            self._br_meter.land()
        return handled


class _AEnters(_Metered):
    __slots__ = ()

    async def __aenter__(self) -> Any:  # noqa: ANN401 - the stream's own
        self._br_meter.tally.sent = True
        with Step(self._br_meter):
            entered = await self._br_stream.__aenter__()
        return self._br_entered(entered)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            with Step(self._br_meter):
                handled: bool | None = await self._br_stream.__aexit__(kind, error, trace)
        finally:
            self._br_meter.land()
        return handled


_FACES: dict[str, type[_Metered]] = {
    "__next__": _Nexts,
    "__anext__": _ANexts,
    "__enter__": _Enters,
    "__aenter__": _AEnters,
}


@functools.cache
def _class_for(faces: tuple[str, ...]) -> type[_Metered]:
    """Return the stand-in with these abilities and no others: frameworks look for them."""
    bases = tuple([_FACES[name] for name in faces]) or (_Metered,)
    return type("MeteredStream", bases, {"__slots__": ()})


def _send(stream: _Metered, method: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401 - a generator's own
    meter = stream._br_meter  # noqa: SLF001 - one module
    with Step(meter):
        item = method(*values)
        while not meter.took(item):
            item = next(stream._br_stream)  # noqa: SLF001 - one module
    return item


async def _asend(stream: _Metered, method: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401 - a generator's own
    meter = stream._br_meter  # noqa: SLF001 - one module
    with Step(meter):
        item = await method(*values)
        while not meter.took(item):
            item = await anext(stream._br_stream)  # noqa: SLF001 - one module
    return item


def _close(stream: _Metered, method: Callable[[], Any]) -> Any:  # noqa: ANN401 - the stream's own
    meter = stream._br_meter  # noqa: SLF001 - one module
    with Step(meter):
        closing = method()
    if inspect.isawaitable(closing):
        return _aclose(meter, closing)
    meter.land()
    return closing


async def _aclose(meter: Meter, closing: Awaitable[Any]) -> Any:  # noqa: ANN401 - the stream's own
    with Step(meter):
        closed = await closing
    meter.land()
    return closed


def _parse(stream: _Metered, method: Callable[..., Any], **options: Any) -> Any:  # noqa: ANN401 - the client's own
    parsed = method(**options)
    return _aparse(stream, parsed) if inspect.isawaitable(parsed) else stream._br_followed(parsed)  # noqa: SLF001 - one module


async def _aparse(stream: _Metered, parsing: Awaitable[Any]) -> Any:  # noqa: ANN401 - the client's own
    return stream._br_followed(await parsing)  # noqa: SLF001 - one module


def _read_out(stream: _Metered, method: Callable[[], Any]) -> Any:  # noqa: ANN401 - the client's own
    """Read the rest here, where it is counted: the helper would read it inside."""
    if isinstance(stream, _ANexts):
        return _aread_out(stream, method)
    if isinstance(stream, _Nexts):
        for _ in stream:
            pass
    return method()


async def _aread_out(stream: _ANexts, method: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - the client's own
    async for _ in stream:
        pass
    return await method()


_WAYS: dict[str, Callable[..., Any]] = {
    "send": _send,
    "throw": _send,
    "asend": _asend,
    "athrow": _asend,
    "close": _close,
    "aclose": _close,
    "parse": _parse,
    "get_final_response": _read_out,
    "until_done": _read_out,
}


def _is_stream(result: Any) -> bool:  # noqa: ANN401 - the function's own result
    kind = type(result)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__") or _is_manager(result)


def _is_manager(result: Any) -> bool:  # noqa: ANN401 - the function's own result
    """Say whether entering it makes the request, as with OpenAI's `.stream()`."""
    kind = type(result)
    if kind.__module__.partition(".")[0] not in _MANAGERS or not kind.__name__.endswith("Manager"):
        return False
    return hasattr(kind, "__enter__") or hasattr(kind, "__aenter__")


def _is_raw(result: Any) -> bool:  # noqa: ANN401 - the function's own result
    return hasattr(type(result), "parse") and hasattr(result, "http_response")


def _is_unread(result: Any) -> bool:  # noqa: ANN401 - the function's own result
    """Say whether it is a raw response whose body the caller reads, as with streaming responses."""
    return _is_raw(result) and hasattr(type(result), "iter_lines") and not result.is_closed


def _parsed(raw: Any) -> Any:  # noqa: ANN401 - the client's own response
    """Return what is in a raw response; async ones and broken ones stay as they are."""
    if inspect.iscoroutinefunction(raw.parse):
        return raw
    try:
        return raw.parse()
    except Exception:  # noqa: BLE001 - the answer is the caller's to parse, however it is broken
        return raw


def _memory(stream: Any) -> Any:  # noqa: ANN401 - the function's own result
    return stream if remembers(stream) or _is_unread(stream) else None
