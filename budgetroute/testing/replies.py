"""What a scripted server can answer: good replies, failures, and good replies spoilt on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from budgetroute.loopback.chat import (
    Choice,
    Completion,
    chat_response,
    error_response,
    usage_object,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.loopback.http import Response


@dataclass(frozen=True, slots=True)
class Reply:
    """One step of a script; made by `ok`, `status` and the functions that spoil a reply.

    Attributes:
        code: HTTP status.
        text: the answer's content, or the error's message.
        finish: the answer's finish reason.
        usage: what the call is billed; None for an error or a provider that does not count.
        model: the name the response claims; None echoes the request's.
        extra: further top-level fields of the response, over the usual ones.
        headers: further HTTP headers.
        delay: seconds before the first byte.
        gap: seconds between the pieces of a stream.
        cut: the connection closes after this share of the body or of the stream's pieces.
        reports_usage: whether the response carries the usage.
        reason: the error object's `code`.
    """

    code: int = 200
    text: str = ""
    finish: str = "stop"
    usage: Mapping[str, Any] | None = None
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    gap: float = 0.0
    cut: float | None = None
    reports_usage: bool = True
    reason: str | None = None


def ok(
    text: str = "ok",
    *,
    input_tokens: int = 12,
    output_tokens: int = 5,
    cached: int | None = None,
    reasoning: int | None = None,
    model: str | None = None,
    **extra: Any,  # noqa: ANN401 - any field a provider may send
) -> Reply:
    """Answer with a chat completion, or with a stream of it if the request asks for one.

    Args:
        text: the content.
        input_tokens: `prompt_tokens`, with the cached ones.
        output_tokens: `completion_tokens`, with the reasoning ones.
        cached: `prompt_tokens_details.cached_tokens`; None leaves the details out.
        reasoning: `completion_tokens_details.reasoning_tokens`; None leaves the details out.
        model: the name the response claims; None echoes the request's.
        extra: further top-level fields; `choices` and `usage` can be replaced whole.
    """
    counted = usage_object(input_tokens, output_tokens, cached=cached, reasoning=reasoning)
    usage = extra.pop("usage", counted)
    return Reply(text=text, usage=usage, model=model, extra=extra)


def status(
    code: int,
    message: str = "scripted",
    *,
    reason: str | None = None,
    retry_after: float | None = None,
    **headers: str,
) -> Reply:
    """Fail with an HTTP status and OpenAI's error object.

    Args:
        code: 408, 409, 429, 500, …
        message: the error's message.
        reason: the error object's `code`, such as `model_not_found`.
        retry_after: seconds for the Retry-After header; None sends none.
        headers: further headers; underscores in the names become hyphens.
    """
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if retry_after is not None:
        sent["Retry-After"] = f"{retry_after:g}"
    return Reply(code=code, text=message, headers=sent, reason=reason)


def slow(seconds: float, reply: Reply | None = None, *, gap: float = 0.0) -> Reply:
    """Send a reply after `seconds`, and a stream's pieces `gap` seconds apart."""
    return replace(reply or ok(), delay=seconds, gap=gap)


def cut(reply: Reply | None = None, *, at: float = 0.5) -> Reply:
    """Close the connection when the share `at` of the body, or of a stream's pieces, is out."""
    return replace(reply or ok(), cut=at)


def no_usage(reply: Reply | None = None) -> Reply:
    """Leave the usage out of a reply; it is billed all the same."""
    return replace(reply or ok(), reports_usage=False)


def stopped(finish: str, reply: Reply | None = None) -> Reply:
    """Give a reply another finish reason, such as `length`."""
    return replace(reply or ok(), finish=finish)


def response(reply: Reply, request: Mapping[str, Any], *, number: int) -> Response:
    """Put a reply on the wire for a request, the `number`-th of its server."""
    if reply.code >= HTTPStatus.BAD_REQUEST:
        sent = error_response(reply.code, reply.text, code=reply.reason, headers=reply.headers)
    else:
        sent = replace(
            chat_response(_completion(reply, request, number=number), request),
            status=reply.code,
            headers=tuple(reply.headers.items()),
        )
    return replace(sent, delay=reply.delay, gap=reply.gap, cut=_cut_after(reply, sent))


def _completion(reply: Reply, request: Mapping[str, Any], *, number: int) -> Completion:
    return Completion(
        model=reply.model or str(request.get("model")),
        choices=(Choice(reply.text, reply.finish),) * int(request.get("n") or 1),
        usage=reply.usage if reply.reports_usage else None,
        id=f"chatcmpl-{number}",
        extra=reply.extra,
    )


def _cut_after(reply: Reply, sent: Response) -> int | None:
    if reply.cut is None:
        return None
    return int(reply.cut * len(sent.body if sent.parts is None else sent.parts))
