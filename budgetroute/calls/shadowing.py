"""Shadow mode round a call: it is followed if that can be done, and goes through as it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.calls.flight import Flight
from budgetroute.calls.routers import note_untouched
from budgetroute.errors import BudgetRouteError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budgetroute.records import Request
    from budgetroute.router import Router


def followed(
    router: Router,
    route: str,
    request: Callable[[], Request],
    *,
    usage_of: Callable[[Any], Any] | None = None,
) -> Flight | None:
    """Return the flight of a call in shadow mode; None, and a warning, where it cannot be followed.

    Args:
        router: in shadow mode.
        route: the route's name.
        request: reads the call; whatever it raises, the call goes on.
        usage_of: reads usage from the result instead of the usual shapes.
    """
    try:
        return Flight(router, request(), usage_of=usage_of, unsent=(ConfigError,))
    except Exception as err:  # noqa: BLE001 - shadow mode changes nothing, whatever fails in it
        note_untouched()
        told = str(err) if isinstance(err, BudgetRouteError) else type(err).__name__
        router.herald.warn(f"shadow: a call of route {route!r} is not counted: {told}")
        return None
