"""A flight: one decided call, from its reservation to exactly one settlement or release.

The user's answer outlives everything here: what fails after the call is logged, never raised.
"""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from budgetroute.backends.failures import (
    billing_of,
    fault_of,
    is_model_missing,
    provider_error,
)
from budgetroute.backends.usage import read_usage
from budgetroute.calls.meters import land_waiting
from budgetroute.calls.partial import Tally, is_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextvars import Token
    from types import TracebackType

    from budgetroute.records import Decision, Request, Settlement, Usage
    from budgetroute.router import Router

logger = logging.getLogger("budgetroute.spend")

_current: ContextVar[Flight | None] = ContextVar("budgetroute_flight", default=None)
_last: ContextVar[Decision | None] = ContextVar("budgetroute_last", default=None)


def current_flight() -> Flight | None:
    """Return the flight of the routed call that runs in this context; None outside one."""
    return _current.get()


def last_decision() -> Decision | None:
    """Return the latest decision made in this context; None before the first."""
    return _last.get()


class Flight:
    """One decided call; used as a context manager round the user's function.

    Leaving it without `finish` settles or releases by what the exception says: refused by the
    provider or never sent → released; anything else → unknown usage, settled as estimated.

    Args:
        router: who decided.
        request: what was asked.
        usage_of: reads usage from the function's result instead of the usual shapes.
        unsent: exceptions that prove that nothing was sent.

    Attributes:
        asked_usage: the stream's usage was asked for by us, not by the caller.
    """

    def __init__(
        self,
        router: Router,
        request: Request,
        *,
        usage_of: Callable[[Any], Any] | None = None,
        unsent: tuple[type[Exception], ...] = (),
    ) -> None:
        land_waiting()
        self.router = router
        self.request = request
        self.decision = router.decide(request)
        self.asked_usage = False
        self.attempt = 1
        self.settlement: Settlement | None = None
        self._usage_of = usage_of
        self._unsent = unsent
        self._usages: list[Usage] = []
        self._unread = 0
        self._tallies: list[Tally] = []
        self._chunks: Tally | None = None
        self._landed = False
        self._is_resumed = False
        self._latest = self.decision
        self._handed_over = False
        self._token: Token[Flight | None] | None = None
        _last.set(self.decision)
        self._say_if_nested(_current.get())

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if self._handed_over:
            self._handed_over = False
        elif error is not None:
            self.fail(error)
        else:
            self._settle()

    @contextlib.contextmanager
    def until_sent(self) -> Iterator[None]:
        """Release the hold if preparing the call fails: nothing was sent yet."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def unused(self) -> None:
        """Release the hold of a flight that never began."""
        if not self._landed:
            self._release()

    def handed_over(self) -> Flight:
        """Let go of this block: the flight goes on in a coroutine or a stream."""
        self._handed_over = True
        return self

    def resume(self) -> tuple[Token[Flight | None], Token[Decision | None]]:
        """Put this flight, and the latest decision inside it, into the context for a while."""
        return _current.set(self), _last.set(self._latest)

    def suspend(self, entered: tuple[Token[Flight | None], Token[Decision | None]]) -> None:
        """Put back what `resume` replaced; a decision that was made meanwhile stays the latest."""
        current, last = entered
        latest = _last.get()
        with contextlib.suppress(ValueError):  # closed from another context, as by a collector
            _current.reset(current)
            if latest is self._latest:
                _last.reset(last)
        self._latest = latest or self.decision

    def record(self, response: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Note the usage of one response of the function's body, or of a piece of a stream."""
        if is_chunk(response):
            self._take_chunk(response)
            return
        usage = read_usage(response)
        if usage is None:
            self._unread += 1
            self._say_unknown(type(response).__name__)
        else:
            self._usages.append(usage)

    def watch(self, tally: Tally) -> None:
        """Count a stream that the function's body reads."""
        self._tallies.append(tally)

    def usage_in(self, item: Any) -> Usage | None:  # noqa: ANN401 - the stream's own items
        """Return what the user's `usage=` finds in an item of a stream; None = nothing."""
        if self._usage_of is None:
            return None
        try:
            return read_usage(self._usage_of(item))
        except Exception:  # noqa: BLE001 - the user's own function; most items say nothing
            return None

    def finish(self, result: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Settle by what was recorded, else by the usage that the result reports.

        Of several declared calls the result reports only one, so without `record` it counts as
        unknown.
        """
        self._end_chunks()
        if not self._is_recorded:
            usage = self._read(result) if self.request.calls == 1 else None
            if usage is None:
                self._say_unknown(type(result).__name__)
            else:
                self._usages.append(usage)
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Settle or release after an exception.

        What was recorded is billed. It is all there is if every declared call was recorded, or if
        the one that failed was not billed.
        """
        if self._landed:
            return
        if is_model_missing(error, self.decision.model):
            self.router.quarantine.missed(self.decision.model, fault_of(error).why)
        answered = read_usage(getattr(error, "completion", None))
        if answered is not None and not self._is_recorded:
            self._usages.append(answered)  # OpenAI's parse() has read the answer, and refuses it
        unknown = not (isinstance(error, self._unsent) or self._is_free(error))
        if self._is_recorded:
            seen = len(self._usages) + sum(tally.started for tally in self._tallies)
            self._settle(complete=not unknown or seen >= self.request.calls)
        elif unknown:
            self._settle(complete=False)
        else:
            self._release()

    def land(self, tally: Tally, error: BaseException | None = None) -> None:
        """Settle or release when the stream of this call is over.

        What the function's body recorded counts before what passed through the stream.

        Args:
            tally: what passed.
            error: what the stream raised; None = it ended, was closed or was abandoned.
        """
        if self._landed:
            return
        if not (tally.sent or self._is_recorded):
            self._release()
        elif error is not None and (self._is_recorded or not tally.started):
            self.fail(error)
        else:
            self._land_over(tally)

    def go_on(self) -> None:
        """Take back a landing: the stream went on after an error, and its bill may still come."""
        self._landed, self._is_resumed = False, True

    def retry(self) -> None:
        """Hold money for one more attempt of the same action.

        Raises:
            BudgetExceeded: it does not fit; the attempts before stay settled.
        """
        self.decision = self.router.again(self.decision, self.request, attempt=self.attempt + 1)
        self.attempt += 1
        self._usages, self._unread = [], 0
        self._landed, self._is_resumed = False, False
        self._tallies, self._chunks = [], None

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            with contextlib.suppress(ValueError):  # closed from another context, as by a collector
                _current.reset(token)

    @property
    def _is_recorded(self) -> bool:
        started = any(tally.started for tally in self._tallies)
        return bool(self._usages) or bool(self._unread) or started

    def _is_free(self, error: BaseException) -> bool:
        """Say whether an error proves that the call costs nothing.

        What a function's body raises speaks of the call only if it came through an SDK.
        """
        told = provider_error(error) if self.request.hidden_input else error
        return told is not None and billing_of(told) != "unknown"

    def _take_chunk(self, chunk: object) -> None:
        if self._chunks is None or self._chunks.is_final:
            self._chunks = Tally(self.decision.action.n)
            self._tallies.append(self._chunks)
        self._chunks.take(chunk)

    def _end_chunks(self) -> None:
        if self._chunks is not None:
            self._chunks.ended = True

    def _land_over(self, tally: Tally) -> None:
        """Settle a stream that ended or was left."""
        if tally.ended:
            self._end_chunks()
        if self._is_recorded:
            self._settle()
        elif self.request.calls > 1:
            self._say_unknown("a stream")
            self._settle(complete=False)
        else:
            tally.recollect()
            if tally.ended and not tally.is_final:
                self._say_counted()
            self._settle(tally)

    def _settle(self, passed: Tally | None = None, *, complete: bool = True) -> None:
        """Book once: the usage if it is all there, else what was counted, else the expected cost."""
        if self._landed:
            return
        self._landed = True
        try:
            usages, partial = self._bookable(passed) if complete else ((), False)
            self.settlement = self.router.settle(
                self.decision, usages, attempt=self.attempt, partial=partial, over=complete
            )
        except Exception as err:  # noqa: BLE001 - the answer is there and paid for: it is not lost for us
            self._say_unbooked("settlement", err)

    def _bookable(self, passed: Tally | None) -> tuple[Sequence[Usage], bool]:
        """Return the usages to book, and whether some are counted here; none = unknown."""
        every = [tally for tally in (passed, *self._tallies) if tally is not None]
        for tally in every:
            tally.recollect()
        tallies = [tally for tally in every if tally.started]
        usages = [*self._usages, *(t.usage for t in tallies if t.usage and t.is_final)]
        rest = [tally for tally in tallies if not tally.is_final]
        if self._unread or not all(tally.is_countable for tally in rest):
            return (), False
        return [*usages, *map(self._counted, rest)], bool(rest)

    def _counted(self, tally: Tally) -> Usage:
        text = tally.text_tokens()
        return self.router.counted(self.decision, self.request, text=text, seen=tally.usage)

    def _release(self) -> None:
        self._landed = True
        if self._is_resumed:  # what was sent before the stream went on may be billed
            return
        try:
            self.router.release(self.decision, attempt=self.attempt)
        except Exception as err:  # noqa: BLE001 - the call's own error is what the user must see
            self._say_unbooked("release", err)

    def _read(self, result: Any) -> Usage | None:  # noqa: ANN401 - the caller's or the library's own type
        if self._usage_of is None:
            return read_usage(result)
        try:
            return read_usage(self._usage_of(result))
        except Exception as err:  # noqa: BLE001 - the user's own function, after a paid call
            self.router.herald.warn(
                f"route {self.request.route!r}: usage= failed with {type(err).__name__}"
            )
            return None

    def _say_if_nested(self, outer: Flight | None) -> None:
        """Warn of a routed client inside a routed function: what it answers is booked by both."""
        if outer is None or outer.router is not self.router or self.request.hidden_input:
            return
        if outer.request.hidden_input:
            self.router.herald.warn(
                f"route {self.request.route!r} is called inside the function of route "
                f"{outer.request.route!r}: each holds and books its own call, so an answer that is "
                "handed on counts twice. Use a client that is not routed there, or leave @route out."
            )

    def _say_unknown(self, response: str) -> None:
        self.router.herald.warn(
            f"route {self.request.route!r}: {response} does not say what the "
            f"{self.request.calls} declared call(s) used; the expected cost is booked and the rest "
            "of the worst case stays held. In a function of yours return the response, call "
            "record(response) for each one, or say @route(usage=…)."
        )

    def _say_counted(self) -> None:
        self.router.herald.warn(
            f"route {self.request.route!r}: the stream ended without its usage; what it delivered "
            "was counted and is booked as estimated, and the rest of the worst case stays held. Ask "
            'for it: stream_options={"include_usage": True}; in a function of yours pass the stream '
            "through record(stream)."
        )

    def _say_unbooked(self, what: str, err: Exception) -> None:
        logger.warning(
            "%s of %s failed (%s); its hold stays until its lease ends",
            what,
            self.decision.id,
            type(err).__name__,
        )
