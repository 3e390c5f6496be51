"""A flight: one decided call, from its reservation to exactly one settlement or release.

The user's answer outlives everything here: what fails after the call is logged, never raised.
"""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from budgetroute.backends.failures import billing_of
from budgetroute.backends.usage import read_usage
from budgetroute.errors import BudgetRouteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Token
    from types import TracebackType

    from budgetroute.records import Decision, Request, Settlement, Usage
    from budgetroute.router import Router

logger = logging.getLogger("budgetroute.spend")

_current: ContextVar[Flight | None] = ContextVar("budgetroute_flight", default=None)
_last: ContextVar[Decision | None] = ContextVar("budgetroute_last", default=None)


def record(response: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
    """Report a response from inside a routed function, so that its usage is billed.

    Needed where the function returns something without usage (a string), or calls several times.

    Raises:
        BudgetRouteError: no routed call is running in this context.
    """
    flight = _current.get()
    if flight is None:
        raise BudgetRouteError(
            "record(response) was called outside a routed call; call it inside a function under "
            "@route. In a thread pool, hand the work over with contextvars.copy_context().run."
        )
    flight.record(response)


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
    """

    def __init__(
        self,
        router: Router,
        request: Request,
        *,
        usage_of: Callable[[Any], Any] | None = None,
        unsent: tuple[type[Exception], ...] = (),
    ) -> None:
        self.router = router
        self.request = request
        self.decision = router.decide(request)
        self.attempt = 1
        self.settlement: Settlement | None = None
        self._usage_of = usage_of
        self._unsent = unsent
        self._usages: list[Usage] = []
        self._unread = 0
        self._landed = False
        self._handed_over = False
        self._token: Token[Flight | None] | None = None
        _last.set(self.decision)

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

    def handed_over(self) -> Flight:
        """Let go of this block: the flight goes on in a coroutine that enters it again."""
        self._handed_over = True
        return self

    def record(self, response: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Note the usage of one response of the function's body."""
        usage = read_usage(response)
        if usage is None:
            self._unread += 1
            self._say_unknown(response)
        else:
            self._usages.append(usage)

    def finish(self, result: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Settle by what was recorded, else by the usage that the result reports.

        Of several declared calls the result reports only one, so without `record` it counts as
        unknown.
        """
        if not self._usages and not self._unread:
            usage = self._read(result) if self.request.calls == 1 else None
            if usage is None:
                self._say_unknown(result)
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
        unknown = not isinstance(error, self._unsent) and billing_of(error) == "unknown"
        if self._usages or self._unread:
            self._settle(complete=not unknown or len(self._usages) >= self.request.calls)
        elif unknown:
            self._settle(complete=False)
        else:
            self._release()

    def retry(self) -> None:
        """Hold money for one more attempt of the same action.

        Raises:
            BudgetExceeded: it does not fit; the attempts before stay settled.
        """
        self.decision = self.router.again(self.decision, self.request, attempt=self.attempt + 1)
        self.attempt += 1
        self._usages, self._unread, self._landed = [], 0, False

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            with contextlib.suppress(ValueError):  # closed from another context, as by a collector
                _current.reset(token)

    def _settle(self, *, complete: bool = True) -> None:
        """Book once: the recorded usage if it is all there, else the expected cost."""
        if self._landed:
            return
        self._landed = True
        known = complete and self._usages and not self._unread
        try:
            self.settlement = self.router.settle(
                self.decision, self._usages if known else (), attempt=self.attempt
            )
        except Exception as err:  # noqa: BLE001 - the answer is there and paid for: it is not lost for us
            self._say_unbooked("settlement", err)

    def _release(self) -> None:
        self._landed = True
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

    def _say_unknown(self, response: object) -> None:
        self.router.herald.warn(
            f"route {self.request.route!r}: {type(response).__name__} does not say what the "
            f"{self.request.calls} declared call(s) used; the expected cost is booked and the rest "
            "of the worst case stays held. In a function of yours return the response, call "
            "record(response) for each one, or say @route(usage=…)."
        )

    def _say_unbooked(self, what: str, err: Exception) -> None:
        logger.warning(
            "%s of %s failed (%s); its hold stays until its lease ends",
            what,
            self.decision.id,
            type(err).__name__,
        )
