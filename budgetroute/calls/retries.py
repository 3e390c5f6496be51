"""Retries of a routed client, in place of the SDK's own: each attempt has its own reservation."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from budgetroute.backends.failures import is_retryable, retry_after

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState, Retrying

FIRST_WAIT_S = 0.5
"""First back-off, seconds, as the SDKs have it; doubled and jittered, at most 8 s."""
_LONGEST_WAIT_S = 8.0
_LONGEST_ASKED_S = 60.0
"""A provider that asks for a longer wait is not waited for."""


def retrying(attempts: int) -> Retrying:
    """Return the attempts of one call; the last error is raised as it is."""
    import tenacity

    return tenacity.Retrying(
        stop=lambda state: state.attempt_number >= attempts or _asks_too_much(state),
        wait=_wait,
        retry=tenacity.retry_if_exception(is_retryable),
        reraise=True,
    )


def aretrying(attempts: int) -> AsyncRetrying:
    """Do what `retrying` does, awaited."""
    import tenacity

    return tenacity.AsyncRetrying(
        stop=lambda state: state.attempt_number >= attempts or _asks_too_much(state),
        wait=_wait,
        retry=tenacity.retry_if_exception(is_retryable),
        reraise=True,
    )


def _asked(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return None if error is None else retry_after(error)


def _asks_too_much(state: RetryCallState) -> bool:
    return (_asked(state) or 0.0) > _LONGEST_ASKED_S


def _wait(state: RetryCallState) -> float:
    """Return seconds until the next attempt: what the provider asks for, else a back-off."""
    asked = _asked(state)
    if asked is not None:
        return asked
    jitter = 0.75 + secrets.randbelow(1000) / 4000
    return jitter * min(_LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (state.attempt_number - 1))
