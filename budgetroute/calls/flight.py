"""A flight: one decided call, from its reservation to exactly one settlement or release."""

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
_READING_FAILURES = (
    BudgetRouteError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)


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
    """

    def __init__(
        self,
        router: Router,
        request: Request,
        *,
        usage_of: Callable[[Any], Any] | None = None,
    ) -> None:
        self.router = router
        self.request = request
        self.decision = router.decide(request)
        self.attempt = 1
        self.settlement: Settlement | None = None
        self._usage_of = usage_of
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
        if self._handed_over:
            self._handed_over = False
            return
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        if error is not None:
            self.fail(error)
        elif not self._landed:
            self._settle()

    @contextlib.contextmanager
    def until_sent(self) -> Iterator[None]:
        """Release the hold if preparing the call fails: nothing was sent yet."""
        try:
            yield
        except BaseException:
            self._landed = True
            self.router.release(self.decision, attempt=self.attempt)
            raise

    def handed_over(self) -> Flight:
        """Let go of this block: the flight goes on in a coroutine that enters it again."""
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        self._handed_over = True
        return self

    def record(self, response: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Note the usage of one response of the function's body."""
        usage = self._read(response)
        if usage is None:
            self._unread += 1
        else:
            self._usages.append(usage)

    def finish(self, result: Any) -> None:  # noqa: ANN401 - the caller's or the library's own type
        """Settle by what was recorded, else by the usage that the result reports."""
        if not self._usages and not self._unread:
            usage = self._read(result)
            if usage is not None:
                self._usages.append(usage)
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Settle or release after an exception."""
        if self._landed:
            return
        verdict = billing_of(error)
        if self._usages or self._unread or verdict == "unknown":
            self._settle(complete=verdict != "unknown")
        else:
            self._landed = True
            self.router.release(self.decision, attempt=self.attempt)

    def retry(self) -> None:
        """Hold money for one more attempt of the same action.

        Raises:
            BudgetExceeded: it does not fit; the attempts before stay settled.
        """
        self.decision = self.router.again(self.decision, self.request, attempt=self.attempt + 1)
        self.attempt += 1
        self._usages, self._unread, self._landed = [], 0, False

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
        except _READING_FAILURES as err:  # the answer is there and paid for: never lose it for us
            logger.warning(
                "settlement of %s failed (%s); its hold stays until its lease ends",
                self.decision.id,
                type(err).__name__,
            )

    def _read(self, response: Any) -> Usage | None:  # noqa: ANN401 - the caller's or the library's own type
        try:
            return read_usage(response if self._usage_of is None else self._usage_of(response))
        except _READING_FAILURES as err:
            logger.warning(
                "usage of %s could not be read (%s); it counts as unknown",
                self.decision.id,
                type(err).__name__,
            )
            return None
