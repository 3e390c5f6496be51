"""What a failed call means for money and for trying again; read by shape, without the SDKs.

SDK errors wrap the truth: litellm turns a refused connection, a connection cut in mid-answer and a
bug of its own into the same `InternalServerError` with status 500. So the chain of causes is walked
from the outside in until something is *evidence*: an HTTP status that was received, or what the
transport said. `__context__` is followed only inwards (litellm → openai → httpx → httpcore → socket),
where the SDKs often lack a `raise … from`; any other may be an older, unrelated failure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal

from budgetroute.errors import BudgetRouteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["billing_of", "is_model_missing", "is_retryable", "provider_error", "retry_after"]

_DEPTH = {
    "litellm": 0,
    **dict.fromkeys(("anthropic", "botocore", "google", "openai"), 1),
    **dict.fromkeys(
        ("cerebras", "cohere", "groq", "mistralai", "ollama", "together", "xai_sdk"), 1
    ),
    **dict.fromkeys(("httpx", "httpx2", "requests"), 2),
    **dict.fromkeys(("aiohttp", "httpcore", "httpcore2", "urllib3"), 3),
    **dict.fromkeys(("anyio", "h11"), 4),
}
_SDK = 1  # and above: what only speaks to models; below lies what anybody uses
_BOTTOM = 5
_NEVER_CONNECTED = frozenset({
    "ClientConnectorError", "ConnectError", "ConnectTimeout", "ConnectTimeoutError",
    "ConnectionRefusedError", "ConnectionTimeoutError", "EndpointConnectionError",
    "NewConnectionError", "PoolTimeout", "ProxyError", "gaierror",
})  # fmt: skip
_NEVER_TRIED = frozenset({"InvalidURL", "UnsupportedProtocol"})
_BROKEN = frozenset({
    "APIConnectionError", "APITimeoutError", "ClientPayloadError", "ConnectionError", "IncompleteRead",
    "IncompleteReadError", "NetworkError", "ProtocolError", "ReadError", "ReadTimeout",
    "ReadTimeoutError", "RemoteProtocolError", "ServerDisconnectedError", "SocketTimeoutError",
    "TimeoutError", "TimeoutException", "WriteError", "WriteTimeout",
})  # fmt: skip
_HALF_DELIVERED = "MidStreamFallbackError"  # litellm's; a subclass of ServiceUnavailableError
_STATUS_ERROR = "HTTPStatusError"  # httpx's; litellm's subclass of it hides the original
_TIMED_OUT = frozenset({408, 499, 504, 524})  # the provider may have gone on
_RETRYABLE = frozenset({408, 409, 429})
_SERVER_ERROR = 500
_HTTP_ERRORS = range(400, 600)
_SUCCESS = range(200, 300)
_FOR_GOOD = frozenset({"insufficient_quota", "billing_hard_limit_reached"})  # sent as 429
_MISSING = frozenset({"model_not_found", "DeploymentNotFound"})
_NOT_FOUND = 404
_LONGEST_CHAIN = 20


@dataclass(frozen=True, slots=True)
class _Evidence:
    """How far a call got: `status` where an HTTP status is known, else what the transport said."""

    kind: Literal["status", "never_tried", "never_connected", "broken", "half_delivered", "none"]
    status: int = 0


def billing_of(exc: BaseException) -> Literal["not_sent", "refused", "unknown"]:
    """Say whether a failed call costs: `not_sent` and `refused` do not, `unknown` may.

    Timeouts (also 408, 504, 524), broken connections, cancellation and whatever is not recognised
    are unknown: the provider may have answered and billed.
    """
    found = _evidence(exc)
    if found.kind in {"never_tried", "never_connected"}:
        return "not_sent"
    if found.kind == "status" and found.status in _HTTP_ERRORS and found.status not in _TIMED_OUT:
        return "refused"
    return "unknown"


def provider_error(exc: BaseException) -> BaseException | None:
    """Return what a model provider's SDK raised, `exc` or among its causes; None if nothing did.

    A function's body may fail for reasons of its own after a billed answer: its web framework's
    `HTTPException(422)`, a refused database, a webhook's 503. They say nothing about the call.
    """
    return next((link for link in _chain(exc) if _depth(link) <= _SDK), None)


def is_retryable(exc: BaseException) -> bool:
    """Say whether the same call may succeed later: 408, 409, 429, 5xx, connections, timeouts.

    Not our own errors, not a stream that broke after its first chunk (it is billed), not an
    exhausted quota, not cancellation.
    """
    if isinstance(exc, BudgetRouteError) or not isinstance(exc, Exception):
        return False
    if any(_word(link, "code") in _FOR_GOOD for link in _chain(exc)):
        return False
    found = _evidence(exc)
    if found.kind == "status":
        return found.status in _RETRYABLE or found.status >= _SERVER_ERROR
    if found.kind == "none":
        return _status(exc) in _RETRYABLE or _status(exc) >= _SERVER_ERROR
    return found.kind in {"never_connected", "broken"}


def is_model_missing(exc: BaseException) -> bool:
    """Say whether the provider does not know the model (404, or its own code for it)."""
    if any(_word(link, "code") in _MISSING for link in _chain(exc)):
        return True
    return _evidence(exc) == _Evidence("status", _NOT_FOUND)


def retry_after(exc: BaseException, *, now: datetime | None = None) -> float | None:
    """Return the seconds that the provider asks to wait; None when it does not say.

    Reads `retry-after-ms` and `retry-after`, in seconds or as a date. A date is compared with the
    response's own `date` header, or else with `now` (aware); with neither it says nothing.
    """
    for link in _chain(exc):
        for headers in _headers(link):
            seconds = _asked_wait(headers, now)
            if seconds is not None:
                return seconds
    return None


def _evidence(exc: BaseException) -> _Evidence:
    broken = False
    for link in _chain(exc):
        names = [kind.__name__ for kind in type(link).__mro__]
        if _HALF_DELIVERED in names and not getattr(link, "is_pre_first_chunk", False):
            return _Evidence("half_delivered")
        if (_depth(link) or _STATUS_ERROR in names) and _status(link):
            return _Evidence("status", _status(link))
        said = _transport(names)
        if said is not None and said != "broken":
            return _Evidence(said)
        broken = broken or said == "broken"
    return _Evidence("broken") if broken else _guessed(exc)


def _guessed(exc: BaseException) -> _Evidence:
    """Take litellm at its word where nothing in the chain is evidence, but for status 500.

    Under 500 it files everything that went wrong on this side, after a billed answer too.
    """
    status = _status(exc)
    return _Evidence("none") if status in {0, _SERVER_ERROR} else _Evidence("status", status)


def _transport(names: list[str]) -> Literal["never_tried", "never_connected", "broken"] | None:
    """Return what the most specific telling class says."""
    for name in names:
        if name in _NEVER_CONNECTED:
            return "never_connected"
        if name in _NEVER_TRIED:
            return "never_tried"
        if name in _BROKEN:
            return "broken"
    return None


def _chain(exc: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = exc
    for _ in range(_LONGEST_CHAIN):
        if link is None:
            return
        yield link
        link = _next(link)


def _next(link: BaseException) -> BaseException | None:
    if link.__cause__ is not None or link.__suppress_context__:
        return link.__cause__
    inner, depth = link.__context__, _depth(link)
    if inner is None or depth == _BOTTOM or depth > _depth(inner):
        return None
    mapped_twice = type(link).__module__ == type(inner).__module__ == "litellm.exceptions"
    return None if mapped_twice else inner


def _depth(link: BaseException) -> int:
    return _DEPTH.get(type(link).__module__.partition(".")[0], _BOTTOM)


def _status(link: BaseException) -> int:
    """Return the HTTP status an error carries, 0 for none."""
    response = getattr(link, "response", None)
    meta = response.get("ResponseMetadata") if isinstance(response, Mapping) else None  # botocore
    by_code = _depth(link) in {1, _BOTTOM}  # google-genai; aiohttp has other codes
    for value in (
        getattr(link, "status_code", None),
        getattr(response, "status_code", None),
        getattr(link, "code", None) if by_code else None,
        meta.get("HTTPStatusCode") if isinstance(meta, Mapping) else None,
    ):
        if isinstance(value, int) and (value in _HTTP_ERRORS or value in _SUCCESS):
            return value
    return 0


def _word(link: BaseException, name: str) -> str:
    value = getattr(link, name, None)
    return value if isinstance(value, str) else ""


def _headers(link: BaseException) -> Iterator[Mapping[str, str]]:
    for found in (
        getattr(getattr(link, "response", None), "headers", None),
        getattr(link, "litellm_response_headers", None),
        getattr(link, "headers", None),
    ):
        if isinstance(found, Mapping):
            yield {str(name).lower(): str(value) for name, value in found.items()}


def _asked_wait(headers: Mapping[str, str], now: datetime | None) -> float | None:
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None or asked is None:
        return seconds
    until, since = _date(asked), _date(headers.get("date")) or now
    if until is None or since is None:
        return None
    return max((until - since).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return date if date.tzinfo is not None else None
