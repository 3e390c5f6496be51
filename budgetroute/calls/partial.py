"""What the items of a stream say: usage where they report it, else text that can be counted.

Read by shape, without the SDKs: OpenAI's and litellm's chunks, the events of OpenAI's helpers and
Responses, Anthropic's and Gemini's events, plain text. Counts in a stream accumulate, so the largest
of each holds. Some remember more than they hand out, and are asked at the end: OpenAI's and Anthropic's helpers keep
a snapshot, litellm keeps the chunks it received, and a raw response the body that was read from it. litellm's
own last chunk is not believed: where the provider reported nothing, it shows tokens that litellm
counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from budgetroute.backends.usage import read_usage
from budgetroute.calls.prompts import measured
from budgetroute.records import COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from budgetroute.records import Usage

_log = logging.getLogger("budgetroute")

_EVENTS = frozenset({
    "content_block_delta", "content_block_start", "content_block_stop", "message_delta",
    "message_start", "message_stop", "ping",
})  # fmt: skip
_RESPONSES = "response."  # what the events of OpenAI's Responses begin with
_OVER = frozenset({"response.completed", "response.incomplete", "response.failed"})
_SNAPSHOTS = ("current_completion_snapshot", "current_message_snapshot")
_MOST_KEPT = 50_000
_FRAMED = ("data:", "event:")  # server-sent events that a function has written itself


@dataclass(slots=True)
class Tally:
    """What one stream has said so far.

    Attributes:
        choices: how many answers it carries.
        memory: a stream that keeps what it received, asked at the end.
        sent: False for a request that is made only when its context is entered.
        started: an item has arrived.
        ended: the stream said that there is no more.
        usage: the largest counts reported; None = none so far.
    """

    choices: int = 1
    memory: object = field(default=None, repr=False)
    sent: bool = True
    started: bool = False
    ended: bool = False
    usage: Usage | None = None
    _texts: list[str] = field(default_factory=list, repr=False)
    _finished: set[object] = field(default_factory=set)
    _closed: bool = False
    _kept: int = 0  # characters in `_texts`
    _counted: int = 0  # tokens of texts that are kept no longer

    @property
    def is_closed(self) -> bool:
        """Say whether every answer has given its finish reason: only usage can follow."""
        return self._closed or len(self._finished) >= self.choices

    @property
    def is_final(self) -> bool:
        """Say whether the usage is that of the whole answer."""
        return self.usage is not None and (self.ended or self.is_closed)

    @property
    def is_countable(self) -> bool:
        """Say whether there is anything to estimate from."""
        return self.usage is not None or self._has_text

    @property
    def lacks_usage(self) -> bool:
        """Say whether the answer is complete and only its usage is still to come."""
        return self.usage is None and self.is_closed

    def take(self, item: object) -> None:
        """Read one item; never raises, since the stream goes on whatever it holds."""
        self.started = True
        try:
            self._take(item)
        except Exception as err:  # noqa: BLE001 - foreign objects may raise anything; the call is paid
            _log.debug("%s of a stream not read: %s", type(item).__name__, type(err).__name__)

    def note(self, usage: Usage | None) -> None:
        """Note usage that was read elsewhere."""
        if usage is not None:
            self.usage = usage if self.usage is None else _largest(self.usage, usage)

    def note_whole(self, response: object) -> None:
        """Note a response that came in one piece instead of a stream."""
        self.started = self._closed = True
        self.note(read_usage(response))

    def recollect(self) -> None:
        """Read what the stream itself remembers."""
        if _is_litellm(self.memory):
            for chunk in list(getattr(self.memory, "chunks", None) or ()):
                if _get(chunk, "usage") is not None:
                    self.note(read_usage(chunk))
            return
        if _is_read(self.memory):
            self.note_whole(self.memory)
            return
        for name in _SNAPSHOTS:
            snapshot = _snapshot(self.memory, name)
            if snapshot is not None:
                self._recall(snapshot)

    def text_tokens(self) -> int:
        """Return the o200k tokens of the text so far."""
        return self._counted + measured("".join(self._texts)).tokens

    @property
    def _has_text(self) -> bool:
        return bool(self._texts or self._counted)

    def _take(self, item: object) -> None:
        if isinstance(item, str):
            if not item.startswith(_FRAMED):
                self._add([item])
            return
        choices = _get(item, "choices")
        if isinstance(choices, list | tuple):
            self._take_chunk(item, choices)
        else:
            self._take_event(item, str(_get(item, "type") or ""))

    def _take_chunk(self, chunk: object, choices: Iterable[object]) -> None:
        if _get(chunk, "usage") is not None and not _is_litellm(self.memory):
            self.note(read_usage(chunk))
        for choice in choices:
            self._add(_said(choice))
            if _get(choice, "finish_reason") is not None:
                self._finish(choice)

    def _take_event(self, event: object, kind: str) -> None:
        if kind == "chunk":
            self._take(_get(event, "chunk"))
        elif kind.startswith(_RESPONSES):
            self._take_responses_event(event, kind)
        elif kind in _EVENTS:
            self._take_message_event(event, kind)
        else:
            self._take_other(event)

    def _take_responses_event(self, event: object, kind: str) -> None:
        delta = _get(event, "delta")
        if isinstance(delta, str):
            self._add([delta])
        if kind in _OVER:
            self._closed = True
            self.note(read_usage(_get(event, "response")))

    def _take_message_event(self, event: object, kind: str) -> None:
        delta = _get(event, "delta")
        if kind == "content_block_delta":
            self._add(_texts(delta, "text", "thinking", "partial_json"))
        elif kind == "message_delta":
            self._closed = self._closed or _get(delta, "stop_reason") is not None
            self.note(read_usage(_with_input(event)))
        else:
            self._closed = self._closed or kind == "message_stop"
            self.note(read_usage(_get(event, "message")))

    def _take_other(self, item: object) -> None:
        """Read Gemini's chunks, Bedrock's events, and whatever else carries usage."""
        self.note(read_usage(_get(item, "metadata") or item))
        self._add(_texts(_get(_get(item, "contentBlockDelta"), "delta"), "text"))
        for candidate in _listed(item, "candidates"):
            self._closed = self._closed or bool(_get(candidate, "finish_reason"))
            for part in _listed(_get(candidate, "content"), "parts"):
                self._add(_texts(part, "text"))

    def _recall(self, snapshot: object) -> None:
        self.started = True
        choices = _listed(snapshot, "choices")
        for choice in choices:
            if _get(choice, "finish_reason") is not None:
                self._finish(choice)
        self._closed = self._closed or _get(snapshot, "stop_reason") is not None
        self.note(read_usage(snapshot))
        if not self._has_text:
            blocks = [_get(choice, "message") for choice in choices]
            for block in blocks or _listed(snapshot, "content"):
                self._add(_texts(block, "content", "text"))

    def _finish(self, choice: object) -> None:
        if len(self._finished) < self.choices:
            self._finished.add(_get(choice, "index"))

    def _add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.append(text)
            self._kept += len(text)
        if self._kept > _MOST_KEPT:  # a stream may have no end; memory has
            self._counted, self._texts, self._kept = self.text_tokens(), [], 0


def remembers(stream: object) -> bool:
    """Say whether a stream keeps what it received."""
    return _is_litellm(stream) or any(hasattr(type(stream), name) for name in _SNAPSHOTS)


def is_chunk(item: object) -> bool:
    """Say whether a response is a piece of a stream."""
    choices = _get(item, "choices")
    if isinstance(choices, list | tuple):
        return not choices or any(_get(choice, "delta") is not None for choice in choices)
    kind = _get(item, "type")
    return isinstance(kind, str) and (kind in _EVENTS or kind.startswith(_RESPONSES))


def is_usage_only(item: object) -> bool:
    """Say whether an item carries nothing but the usage, as OpenAI's last chunk does."""
    chunk = _get(item, "chunk") if _get(item, "type") == "chunk" else item
    choices = _get(chunk, "choices")
    bare = isinstance(choices, list | tuple) and not choices
    return bare and _get(chunk, "usage") is not None


def _said(choice: object) -> Iterator[str]:
    """Yield the text of one answer's delta: content, reasoning, refusal and tool calls."""
    delta = _get(choice, "delta")
    yield from _texts(choice, "text")
    if delta is None:
        return
    yield from _texts(delta, "content", "refusal")
    thought = _get(delta, "reasoning_content") or _get(delta, "reasoning")
    if isinstance(thought, str):
        yield thought
    functions = [_get(call, "function") for call in _listed(delta, "tool_calls")]
    for function in (*functions, _get(delta, "function_call")):
        yield from _texts(function, "name", "arguments")


def _texts(place: object, *names: str) -> Iterator[str]:
    for name in names:
        value = _get(place, name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):  # Mistral's content is a list of parts
            yield from (text for part in value for text in _texts(part, "text"))


def _with_input(event: object) -> Mapping[str, object]:
    """Return Anthropic's `message_delta` as a response: it may leave out what the start said."""
    names = (
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "server_tool_use",
    )
    block = _get(event, "usage")
    counts = {name: _get(block, name) for name in names}
    reason = _get(_get(event, "delta"), "stop_reason")
    counts["input_tokens"] = _get(block, "input_tokens") or 0
    return {"usage": counts, "stop_reason": reason}


def _largest(one: Usage, other: Usage) -> Usage:
    most = {name: max(getattr(one, name), getattr(other, name)) for name in COUNTS}
    return replace(
        other,
        **most,
        model=other.model or one.model,
        search_context=other.search_context or one.search_context,
        service_tier=other.service_tier or one.service_tier,
        finish_reason=other.finish_reason or one.finish_reason,
    )


def _snapshot(stream: object, name: str) -> object:
    """Return a helper's snapshot; None where there is none, or none yet (it asserts that)."""
    try:
        return getattr(stream, name, None)
    except AssertionError:
        return None


def _is_read(raw: object) -> bool:
    """Say whether this is a raw response with its whole body at hand."""
    try:
        return getattr(getattr(raw, "http_response", None), "content", None) is not None
    except RuntimeError:  # how httpx says that it was not read
        return False


def _is_litellm(stream: object) -> bool:
    return type(stream).__module__.startswith("litellm.")


def _listed(place: object, name: str) -> list[object]:
    value = _get(place, name)
    return list(value) if isinstance(value, list | tuple) else []


def _get(place: object, name: str) -> object:
    """Return a field; asking pydantic's objects for one that they lack would raise, which is slow."""
    if place is None:
        return None
    if isinstance(place, Mapping):
        return place.get(name)
    fields = getattr(place, "__dict__", None)
    if fields is not None and name in fields:
        found: object = fields[name]
        return found
    if hasattr(type(place), "__pydantic_fields__"):
        return (getattr(place, "__pydantic_extra__", None) or {}).get(name)
    return getattr(place, name, None)
