"""Put a daily dollar budget on LLM calls and spend it where it buys the most quality.

Wrap a function that calls a model with `@route`, write `daily_usd` into `budgetroute.toml`, and each
call gets the action (model, max_tokens, chain-of-thought) with the largest R − λ·C.
"""

from __future__ import annotations

import logging as _logging
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from budgetroute.oneline import guard_logs as _guard_logs

if _TYPE_CHECKING:
    from budgetroute.calls import last_decision, record
    from budgetroute.client import acompletion, completion
    from budgetroute.context import pin, run, tags
    from budgetroute.decorate import route
    from budgetroute.errors import (
        BudgetExceeded,
        BudgetRouteError,
        ConfigError,
        NoEligibleAction,
        ProfileError,
        StoreError,
        UnpricedModel,
    )
    from budgetroute.records import Action, Decision, LimitWarning, Plan
    from budgetroute.router import Router
    from budgetroute.telemetry import on_warning
    from budgetroute.wrapping import wrap

__version__ = "0.1.0"

_HOME = {
    "Action": "records",
    "BudgetExceeded": "errors",
    "BudgetRouteError": "errors",
    "ConfigError": "errors",
    "Decision": "records",
    "LimitWarning": "records",
    "NoEligibleAction": "errors",
    "Plan": "records",
    "ProfileError": "errors",
    "Router": "router",
    "StoreError": "errors",
    "UnpricedModel": "errors",
    "acompletion": "client",
    "completion": "client",
    "last_decision": "calls",
    "on_warning": "telemetry",
    "pin": "context",
    "record": "calls",
    "route": "decorate",
    "run": "context",
    "tags": "context",
    "wrap": "wrapping",
}

__all__ = [
    "Action",
    "BudgetExceeded",
    "BudgetRouteError",
    "ConfigError",
    "Decision",
    "LimitWarning",
    "NoEligibleAction",
    "Plan",
    "ProfileError",
    "Router",
    "StoreError",
    "UnpricedModel",
    "acompletion",
    "completion",
    "last_decision",
    "on_warning",
    "pin",
    "record",
    "route",
    "run",
    "tags",
    "wrap",
]

_logging.getLogger("budgetroute").addHandler(_logging.NullHandler())
_guard_logs()


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that importing the package is quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'budgetroute' has no attribute {name!r}")
    value = getattr(_import_module(f"budgetroute.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
