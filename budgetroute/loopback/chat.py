"""The OpenAI chat completions wire format, from the server's side."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute.loopback.http import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from budgetroute.loopback.http import Received, Responder

CREATED = 1_700_000_000
"""The `created` of every answer: the same request gets the same bytes."""
_CHAT_PATHS = frozenset({"/v1/chat/completions", "/chat/completions"})
_MODEL_PATHS = frozenset({"/v1/models", "/models"})
_PIECE = 80
"""Characters of text in one piece of a stream."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers.

    Attributes:
        text: the content.
        finish: why it ended: `stop`, `length`, …
    """

    text: str
    finish: str = "stop"


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer before it is put on the wire.

    Attributes:
        model: the name the response claims.
        choices: at least one.
        usage: the `usage` object; None sends none.
        id: the response's id.
        extra: further top-level fields, over the usual ones.
    """

    model: str
    choices: tuple[Choice, ...]
    usage: Mapping[str, Any] | None
    id: str = "chatcmpl-0"
    extra: Mapping[str, Any] = field(default_factory=dict)


def usage_object(
    input_tokens: int, output_tokens: int, *, cached: int | None, reasoning: int | None
) -> dict[str, Any]:
    """Return OpenAI's `usage`: cached tokens lie inside the input, reasoning inside the output.

    >>> usage_object(10, 5, cached=None, reasoning=None)
    {'prompt_tokens': 10, 'completion_tokens': 5, 'total_tokens': 15}
    """
    usage: dict[str, Any] = {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    if reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return usage


def chat_response(completion: Completion, request: Mapping[str, Any]) -> Response:
    """Answer as the request asks: one JSON object, or server-sent events when it streams.

    A stream carries usage only if the request has `stream_options.include_usage`.
    """
    if request.get("stream"):
        events = (*map(_event, _chunks(completion, request)), b"data: [DONE]\n\n")
        return Response(parts=events, content_type="text/event-stream; charset=utf-8")
    return Response(body=_encoded(_whole(completion)))


def _whole(completion: Completion) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": choice.text},
            "logprobs": None,
            "finish_reason": choice.finish,
        }
        for index, choice in enumerate(completion.choices)
    ]
    usage = {} if completion.usage is None else {"usage": completion.usage}
    return {
        **_frame(completion, "chat.completion"),
        "choices": choices,
        **usage,
        **completion.extra,
    }


def _chunks(completion: Completion, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    counted = bool((request.get("stream_options") or {}).get("include_usage"))
    frame = {**_frame(completion, "chat.completion.chunk"), **completion.extra}
    empty = {"usage": None} if counted else {}
    for delta in _deltas(completion.choices):
        yield frame | {"choices": [delta]} | empty
    if counted and completion.usage is not None:
        yield frame | {"choices": [], "usage": completion.usage}


def _deltas(choices: Sequence[Choice]) -> Iterator[dict[str, Any]]:
    for index, choice in enumerate(choices):
        yield _delta(index, {"role": "assistant", "content": ""})
        for start in range(0, len(choice.text), _PIECE):
            yield _delta(index, {"content": choice.text[start : start + _PIECE]})
        yield _delta(index, {}, choice.finish)


def _delta(index: int, delta: Mapping[str, str], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def _frame(completion: Completion, kind: str) -> dict[str, Any]:
    return {
        "id": completion.id,
        "object": kind,
        "created": CREATED,
        "model": completion.model,
    }


def error_response(
    status: int,
    message: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with OpenAI's error object."""
    error = {"message": message, "type": _error_type(status), "param": None, "code": code}
    body = _encoded({"error": error})
    return Response(status, body, headers=tuple((headers or {}).items()))


def _error_type(status: int) -> str:
    if status == 429:  # noqa: PLR2004 - Too Many Requests
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"  # noqa: PLR2004 - 5xx


def only_chat(
    answer: Callable[[dict[str, Any], Received], Response], models: Callable[[], Sequence[str]]
) -> Responder:
    """Route an OpenAI-compatible API: chat completions to `answer`, the model list to `models`.

    Args:
        answer: gets the decoded body and the request as received.
        models: the names for `/v1/models`.
    """

    def respond(received: Received) -> Response:
        path = received.path.partition("?")[0]
        if received.method == "GET" and path in _MODEL_PATHS:
            return _model_list(models())
        if received.method != "POST" or path not in _CHAT_PATHS:
            return error_response(
                404, f"{received.method} {path}: only chat completions and models are served here"
            )
        return _answered(answer, received)

    return respond


def _answered(
    answer: Callable[[dict[str, Any], Received], Response], received: Received
) -> Response:
    try:
        body = received.json()
    except ValueError as err:
        return error_response(400, f"the body is not JSON: {err}")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return error_response(400, "the body needs `model` and a list of `messages`")
    return answer(body, received)


def _model_list(names: Sequence[str]) -> Response:
    entries = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "loopback"}
        for name in names
    ]
    return Response(body=_encoded({"object": "list", "data": entries}))


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + _encoded(chunk) + b"\n\n"


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
