"""One call: reserve → call → settle exactly once, sync and async."""

from budgetroute.calls.flight import Flight, last_decision
from budgetroute.calls.recording import record
from budgetroute.calls.routers import default_router, set_default_router

__all__ = ["Flight", "default_router", "last_decision", "record", "set_default_router"]
