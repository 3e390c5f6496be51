"""What a failed call means for money and for trying again; read by shape, without the SDKs.

SDK errors wrap the truth: litellm turns a refused connection, a connection cut in mid-answer and a
bug of its own into the same `InternalServerError` with status 500. So the chain of causes is walked
from the outside in until something is *evidence*: an HTTP status that was received, or what the
transport said. `__context__` is followed only inwards (litellm → openai → httpx → httpcore → socket),
where the SDKs often lack a `raise … from`; any other may be an older, unrelated failure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal

from budgetroute.errors import BudgetRouteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = [
    "Fault",
    "billing_of",
    "fault_of",
    "is_model_missing",
    "is_retryable",
    "provider_error",
    "retry_after",
]

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
_NO_DEPLOYMENT = "DeploymentNotFound"  # Azure's; it does not name the deployment
_MISSING = frozenset({
    "model_not_found", "model_not_available", "model_decommissioned", "model_deprecated",
    "invalid_model", "ModelDeprecated", _NO_DEPLOYMENT,
})  # fmt: skip
_UNKNOWN_TO_LITELLM = "LLM Provider NOT provided"
_GONE = frozenset({404, 410})
_TOO_LONG = frozenset({"ContextWindowExceededError", "context_length_exceeded"})
_UNFIT = _TOO_LONG | {
    "EndpointNotSupportedByModelError", "UnsupportedEndpointError", "UnsupportedParamsError",
    "unsupported_parameter", "unsupported_value",
}  # fmt: skip
"""What another model may take; class names and providers' codes."""
_UNWANTED = frozenset({
    "ContentPolicyViolationError", "ResponsibleAIPolicyViolation", "content_filter",
    "content_policy_violation",
})  # fmt: skip
_MODEL_REFUSES = frozenset({403, 413})
_PROVIDER_REFUSES = frozenset({401, 402})
_LONGEST_CHAIN = 20


@dataclass(frozen=True, slots=True)
class _Evidence:
    """How far a call got: `status` where an HTTP status is known, else what the transport said."""

    kind: Literal["status", "never_tried", "never_connected", "broken", "half_delivered", "none"]
    status: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a failed call's trouble lies, so what may heal it.

    Attributes:
        lies_with: the `call` itself, which fails everywhere; its `model`; its `provider`, and so
            with all its models.
        may_pass: the same call may succeed later.
        is_too_long: the prompt exceeds the model's context window.
        why: the failure in a few words, without the provider's text.
    """

    lies_with: Literal["call", "model", "provider"]
    may_pass: bool = False
    is_too_long: bool = False
    why: str = ""


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
    if _words(exc) & _FOR_GOOD:
        return False
    found = _evidence(exc)
    if found.kind == "status":
        return found.status in _RETRYABLE or found.status >= _SERVER_ERROR
    if found.kind == "none":
        return _status(exc) in _RETRYABLE or _status(exc) >= _SERVER_ERROR
    return found.kind in {"never_connected", "broken"}


def is_model_missing(exc: BaseException, model: str | None = None) -> bool:
    """Say whether the provider does not know the model (404, 410, or its own code for it).

    Args:
        exc: what was raised.
        model: then only if the provider's words name it: a wrong address and a missing file are 404
            too.
    """
    told = _UNKNOWN_TO_LITELLM in _text(exc) or bool(_words(exc) & _MISSING)
    found = _evidence(exc)
    missing = told or (found.kind == "status" and found.status in _GONE)
    return missing and (model is None or _is_named(exc, model))


def fault_of(exc: BaseException) -> Fault:
    """Say with whom a failure lies.

    A bad request and a refused content are the caller's own. An unknown or retired model, one that
    is not open to this account, and a prompt or parameter that it does not take, are the model's. A
    refused key, a used-up quota and an address where nobody listens are the provider's.
    """
    found, words = _evidence(exc), _words(exc) | _kinds(exc)
    ours = isinstance(exc, BudgetRouteError) or not isinstance(exc, Exception)
    if ours or found.kind == "half_delivered" or words & _UNWANTED:
        return Fault("call")
    too_long, why = bool(words & _TOO_LONG), _in_words(exc, found, words)
    status = found.status if found.kind == "status" else 0
    if words & _UNFIT or is_model_missing(exc) or status in _MODEL_REFUSES:
        return Fault("model", is_too_long=too_long, why=why)
    if words & _FOR_GOOD or status in _PROVIDER_REFUSES:
        return Fault("provider", why=why)
    if is_retryable(exc):
        nobody = found.kind == "never_connected"
        return Fault("provider" if nobody else "model", may_pass=True, why=why)
    return Fault("call", why=why)


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


def _in_words(exc: BaseException, found: _Evidence, words: frozenset[str]) -> str:
    """Return a failure in a few words; the innermost status is what was on the wire."""
    codes = [status for link in _chain(exc) if (status := _status(link)) in _HTTP_ERRORS]
    if found.kind == "never_connected":
        return "no connection"
    if found.kind == "broken":
        return "no answer, or only a part of it"
    parts = [f"HTTP {codes[-1]}"] if codes else [type(exc).__name__]
    parts += ["context window exceeded"] * bool(words & _TOO_LONG)
    parts += ["quota used up"] * bool(words & _FOR_GOOD)
    return ", ".join(parts)


def _is_named(exc: BaseException, model: str) -> bool:
    """Say whether an SDK's error names this model; the address it was sent to does not count."""
    if _NO_DEPLOYMENT in _words(exc):
        return True
    name = re.escape(model.rpartition("/")[2])
    pattern = re.compile(rf"(?<![\w.-]){name}(?![\w-]|[.:]\w)")
    return any(pattern.search(_text(link)) for link in _chain(exc) if not _has_address(link))


def _has_address(link: BaseException) -> bool:
    return any(kind.__name__ == _STATUS_ERROR for kind in type(link).__mro__)


def _kinds(exc: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for link in _chain(exc) for kind in type(link).__mro__)


def _words(exc: BaseException) -> frozenset[str]:
    """Return the codes and types that the provider's error objects carry.

    Where no SDK has read the body it is in the text. A body inside a body is not looked for: it may
    be the prompt.
    """
    links = [link for link in _chain(exc) if _depth(link) <= _SDK or _status(link)]
    found = {_word(link, name) for link in links for name in ("code", "type")}
    bodies = [body for link in links if isinstance(body := getattr(link, "body", None), Mapping)]
    for body in bodies or [_body_in(_text(link)) for link in links]:
        inner = body.get("error")
        for part in (body, inner if isinstance(inner, Mapping) else {}):
            found |= {word for name in ("code", "type") if isinstance(word := part.get(name), str)}
    return frozenset(found)


def _text(link: BaseException) -> str:
    """Return what an SDK's error says, empty for any other: what others write is not evidence."""
    try:
        return str(link) if _depth(link) <= _SDK else ""
    except Exception:  # noqa: BLE001 - an error that cannot be printed is still the caller's to see
        return ""


def _body_in(text: str) -> Mapping[str, object]:
    try:
        body = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, Mapping) else {}


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
    except (ValueError, OverflowError):  # a year or an offset without end
        return None
    return date if date.tzinfo is not None else None
