"""The router that calls use when none is named: built from config at the first call, then kept."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from budgetroute.config import is_disabled
from budgetroute.errors import UnpricedModel

if TYPE_CHECKING:
    from budgetroute.router import Router

_lock = threading.Lock()
_default: Router | None = None
_untouched_seen = threading.Event()


def default_router() -> Router:
    """Return the process's router; made from budgetroute.toml at the first call.

    Raises:
        ConfigError: there is no usable configuration.
    """
    global _default  # noqa: PLW0603 - one router per process is the point
    if _default is None:
        from budgetroute.router import Router

        with _lock:
            if _default is None:
                _default = Router.from_config()
    return _default


def set_default_router(router: Router | None) -> None:
    """Use this router for calls that name none; None makes the next call build one from config."""
    global _default  # noqa: PLW0603 - one router per process is the point
    _default = router
    _untouched_seen.clear()


def usual_cap(router: Router, model: str) -> int | None:
    """Return the cap that holds where a request sends none: the model's own; None = unknown."""
    try:
        return router.equipment.facts(model).card.max_output_tokens
    except UnpricedModel:
        return None


def is_off(router: Router | None) -> bool:
    """Say whether calls go straight through: `BUDGETROUTE_DISABLE=1` or `mode = "off"`."""
    return is_disabled(os.environ) or (router or default_router()).config.mode == "off"


def note_untouched() -> None:
    """Note that a call went through untouched: `record` inside it finds no routed call."""
    _untouched_seen.set()


def has_untouched() -> bool:
    """Say whether any call of this process went through untouched."""
    return _untouched_seen.is_set()
