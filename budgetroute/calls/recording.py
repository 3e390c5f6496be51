"""`record`: a function under `@route` reports what it received."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, overload

from budgetroute.calls.flight import current_flight
from budgetroute.calls.routers import has_untouched
from budgetroute.calls.streams import recorded
from budgetroute.errors import BudgetRouteError

S = TypeVar("S", bound=Iterator[Any] | AsyncIterator[Any])


@overload
def record(response: S) -> S: ...
@overload
def record(response: Any) -> Any: ...  # noqa: ANN401 - the caller's own response


def record(response: Any) -> Any:
    """Report a response from inside a routed function, so that its usage is billed; return it.

    Needed where the function returns something without usage (a string), or calls several times.
    Of a stream, report the stream and read what this returns, `for chunk in record(stream)`, or
    report each chunk.

    Inside a call that goes through untouched (`mode = "off"`) it only returns the response.

    Raises:
        BudgetRouteError: no routed call is running in this context.
    """
    flight = current_flight()
    if flight is None and has_untouched():
        return response
    if flight is None:
        raise BudgetRouteError(
            "record(response) was called outside a routed call; call it inside a function under "
            "@route. In a thread pool, hand the work over with contextvars.copy_context().run."
        )
    return recorded(flight, response)
