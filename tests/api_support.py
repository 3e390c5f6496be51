"""A local server for what clients speak besides chat completions: Responses and Anthropic's Messages.

It answers by the same script as `ScriptedServer`; every other path gets an empty object, so that a
test sees what was sent to places that should not have been reached.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace

from budgetroute.loopback import Loopback, Response
from budgetroute.testing import Reply, ok
from budgetroute.testing.replies import _cut_after, response

PIECE = 80


class ApiServer:
    """Answers in a `with` block.

    Attributes:
        requests: (path, body) of everything that came in with a body, oldest first.
        reads: paths that were read with GET.
    """

    def __init__(self, *script: Reply) -> None:
        self._script = deque(script)
        self._loopback = Loopback(self._answer)
        self.requests: list[tuple[str, dict]] = []
        self.reads: list[str] = []
        self.headers: list[dict] = []

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes."""
        return self._loopback.base_url

    @property
    def root(self) -> str:
        """What an Anthropic client takes."""
        return self.base_url.removesuffix("/v1")

    @property
    def bodies(self) -> list[dict]:
        return [body for _, body in self.requests]

    def then(self, *script: Reply) -> None:
        self._script.extend(script)

    def __enter__(self):
        self._loopback.__enter__()
        return self

    def __exit__(self, *details):
        self._loopback.__exit__(*details)

    def _answer(self, received):
        path = received.path.partition("?")[0]
        if received.method == "GET":
            self.reads.append(path)
            return Response(body=b'{"object": "list", "data": []}')
        is_json = received.headers.get("content-type") == "application/json"
        body = received.json() if received.body and is_json else {}
        self.requests.append((path, body))
        self.headers.append(dict(received.headers))
        way = next((way for end, way in _WAYS.items() if path.endswith(end)), None)
        if way is None:
            return Response(body=b"{}")
        reply = self._script.popleft() if self._script else ok()
        if reply.code >= 400:
            return _failed(reply, body, len(self.requests))
        sent = way(reply, body, len(self.requests))
        return replace(sent, delay=reply.delay, gap=reply.gap, cut=_cut_after(reply, sent))


def _failed(reply, body, number):
    return response(reply, body, number=number)


def _chat(reply, body, number):
    return replace(response(reply, body, number=number), delay=0, gap=0, cut=None)


def _usage(reply):
    """OpenAI's chat usage in the words of Responses, or the usage a test wrote itself."""
    usage = reply.usage
    if usage is None or not reply.reports_usage or "prompt_tokens" not in usage:
        return usage if reply.reports_usage else None
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    thought = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": usage["total_tokens"],
    }


def _pieces(text):
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def _events(events):
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    return Response(parts=tuple(lines), content_type="text/event-stream; charset=utf-8")


def _responses(reply, body, number):
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
    }
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": reply.model or body.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(reply),
        **reply.extra,
    }
    if not body.get("stream"):
        return Response(body=json.dumps(whole).encode())
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events = [
        {"type": "response.created", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**message, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": part},
        *(
            {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            for piece in _pieces(reply.text)
        ),
        {"type": "response.output_text.done", **place, "text": reply.text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": whole},
    ]
    return _events([{**event, "sequence_number": n} for n, event in enumerate(events)])


def _messages(reply, body, number):
    usage = reply.usage or {}
    if "prompt_tokens" in usage:
        usage = {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
        }
    whole = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or body.get("model"),
        "content": [{"type": "text", "text": reply.text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
        **reply.extra,
    }
    if not reply.reports_usage:
        del whole["usage"]
    if not body.get("stream"):
        return Response(body=json.dumps(whole).encode())
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            }
            for piece in _pieces(reply.text)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": delta,
            "usage": {"output_tokens": usage.get("output_tokens", 0)},
        },
        {"type": "message_stop"},
    ]
    if reply.finish.endswith("_error"):  # it goes wrong after the text
        error = {"type": reply.finish, "message": "scripted"}
        events[-3:] = [{"type": "error", "error": error}]
    return _events(events)


_WAYS = {"/chat/completions": _chat, "/responses": _responses, "/messages": _messages}
