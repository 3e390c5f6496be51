"""Meters: a stream's items are counted as they pass, and its flight lands once, however it ends.

A meter lives as long as somebody holds the stream. Collected before the stream's end, it lands its
flight from a finalizer, without an event loop. The garbage collector may run inside this package's
own work, under its locks; then the landing waits for the next call or the end of the process.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from budgetroute.calls.partial import Tally, is_usage_only
from budgetroute.calls.prompts import measured

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from budgetroute.calls.flight import Flight

_LOCKING = ("budgetroute.router", "budgetroute.stores", "budgetroute.tokens")
_waiting: deque[tuple[Flight, Tally, int, BaseException | None]] = deque()


class Meter:
    """Counts one stream whose flight lands by itself, as one that `record` was given does.

    Attributes:
        tally: what the stream has said.
        ahead: items that were fetched and not handed out yet.
        owed: an error that was met while fetching ahead, raised in its turn.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.ahead: deque[Any] = deque()
        self.owed: Exception | None = None
        measured("")  # loads the tokenizer here, not in a finalizer

    def take(self, item: Any) -> None:  # noqa: ANN401 - the stream's own items
        """Count an item."""
        self.tally.take(item)

    def hides(self, item: Any) -> bool:  # noqa: ANN401, ARG002 - see `FlightMeter`
        """Say whether the caller did not ask for this item."""
        return False

    def took(self, item: Any) -> bool:  # noqa: ANN401 - the stream's own items
        """Count an item; say whether to hand it out."""
        self.take(item)
        return not self.hides(item)

    def keep(self, item: Any) -> None:  # noqa: ANN401 - the stream's own items
        """Count an item that was fetched ahead, and keep it for its turn."""
        if self.took(item):
            self.ahead.append(item)

    @property
    def is_due(self) -> bool:
        """Say whether something fetched ahead waits for its turn."""
        return bool(self.ahead) or self.owed is not None

    def due(self) -> Any:  # noqa: ANN401 - the stream's own items
        """Return the item whose turn it is, or raise the error."""
        if self.ahead:
            return self.ahead.popleft()
        owed, self.owed = self.owed, None
        if owed is None:
            raise RuntimeError("nothing was fetched ahead")
        raise owed

    @contextlib.contextmanager
    def owing(self) -> Iterator[None]:
        """Keep an error for its turn; the end of the stream shows itself again."""
        try:
            yield
        except Exception as err:  # noqa: BLE001 - raised later, whatever it is
            self.owed = err

    @property
    def looks_ahead(self) -> bool:
        """Say whether to fetch more before the last item is handed out."""
        return False

    def enter(self) -> object:
        """Put the flight into the context for one step of the stream."""

    def leave(self, entered: Any) -> None:  # noqa: ANN401 - what `enter` returned
        """Put back what `enter` replaced."""

    def land(self, error: BaseException | None = None) -> None:
        """Note that the stream is over."""


class FlightMeter(Meter):
    """Counts the stream that a routed call returned, and lands the call's flight with it.

    Args:
        flight: the call.
        tally: what the stream has said.
    """

    def __init__(self, flight: Flight, tally: Tally) -> None:
        super().__init__(tally)
        self.flight = flight
        self._process = os.getpid()
        self._end = self._finalizer()

    def take(self, item: Any) -> None:  # noqa: ANN401 - the stream's own items
        """Count an item; a stream that goes on after an error is landed again."""
        if not self._end.alive:
            self.flight.go_on()
            self._end = self._finalizer()
        self.tally.note(self.flight.usage_in(item))
        self.tally.take(item)

    def hides(self, item: Any) -> bool:  # noqa: ANN401 - the stream's own items
        """Say whether this is the usage that only we asked for: code that indexes choices breaks."""
        return self.flight.asked_usage and is_usage_only(item)

    @property
    def looks_ahead(self) -> bool:
        """Say whether the answer is over, and the usage we asked for comes next.

        Most callers stop reading at the finish reason; the usage would be lost.
        """
        return self.flight.asked_usage and self.tally.lacks_usage

    def enter(self) -> object:
        """Make `record()` and `last_decision()` see this flight for one step of the stream."""
        return self.flight.resume()

    def leave(self, entered: Any) -> None:  # noqa: ANN401 - what `enter` returned
        """Put back what `enter` replaced."""
        self.flight.suspend(entered)

    def land(self, error: BaseException | None = None) -> None:
        """Settle or release the call, once.

        Args:
            error: what the stream raised; None = it ended, or was closed.
        """
        if self._end.detach() is not None:
            _land(self.flight, self.tally, self._process, error)

    def _finalizer(self) -> weakref.finalize[..., FlightMeter]:
        return weakref.finalize(self, _land, self.flight, self.tally, self._process)


class Step:
    """One step of a stream: what it raises ends it."""

    __slots__ = ("_entered", "_meter")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._entered: object = None

    def __enter__(self) -> Self:
        self._entered = self._meter.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._meter.leave(self._entered)
        if error is None:
            return
        if isinstance(error, StopIteration | StopAsyncIteration):
            self._meter.tally.ended = True
            self._meter.land()
        else:
            self._meter.land(error)


def land_waiting() -> None:
    """Land the flights whose streams were collected at a moment that did not allow it."""
    while _waiting:
        try:
            flight, tally, process, error = _waiting.popleft()
        except IndexError:  # another thread took it
            return
        if os.getpid() == process:
            flight.land(tally, error)


def _land(flight: Flight, tally: Tally, process: int, error: BaseException | None = None) -> None:
    if os.getpid() != process:  # a fork has a copy of the stream; the call is its parent's
        return
    if _is_amid_our_work():
        _waiting.append((flight, tally, process, error))
    else:
        flight.land(tally, error)


def _is_amid_our_work() -> bool:
    """Say whether this thread was interrupted where it may hold a lock that landing needs."""
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_LOCKING):
            return True
        frame = frame.f_back
    return False


atexit.register(land_waiting)
