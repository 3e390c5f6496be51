"""The router: decide, settle, release. One loop body for production and replay, without the network."""

from budgetroute.router.core import Router

__all__ = ["Router"]
