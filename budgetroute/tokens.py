"""Sizes of prompts before they are sent, and the text they are classified by; no network, ever.

Tokens are counted with o200k from the file inside litellm. Other providers' tokenizers differ by a
learned ratio; the sure bound is bytes: no tokenizer makes more tokens than UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.records import InputSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from budgetroute.protocols import Tokenizer

__all__ = ["O200k", "measure_messages", "prompt_text"]

_log = logging.getLogger("budgetroute")

_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"  # sha1 of the URL that tiktoken knows
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_CACHE = "TIKTOKEN_CACHE_DIR"
_BYTES_PER_TOKEN = 4
_LONGEST = 200_000  # characters; 20 to 60 ms
_HEAD = 50_000
_ENVIRONMENT = threading.Lock()

_PER_REQUEST = 32
_PER_MESSAGE = 8  # OpenAI 3 to 4
_WITH_TOOLS = 600  # Anthropic's hidden tool prompt is 300 to 530
_IMAGES = frozenset({"image_url", "image", "input_image", "image_file"})
_MEDIA = frozenset({
    "input_audio", "audio", "file", "input_file", "document", "video", "video_url", "media",
})  # fmt: skip
_SOUND = frozenset({"input_audio", "audio", "video", "video_url", "media"})
_GEMINI = frozenset({"inline_data", "inlineData", "file_data", "fileData"})
_MIME = ("mime_type", "mimeType", "media_type", "format")
_INLINE = frozenset({"data", "file_data", "content"})  # without them, a part only refers to media
_CONTENT = ("content", "parts")  # Gemini says parts
_DEEPEST = 8
_TURNS = 3
_RUNS = (b"    ", b"\n\n\n", b"\t\t\t")
_CUT_SINGLY = bytes([*b"0123456789=-_*#~.", *range(0x80, 0x100)])


class O200k:
    """Counts o200k tokens; where the tokenizer is not to be had, guesses UTF-8 bytes / 4.

    Loaded at the first text (0.3 s of CPU, shared through tiktoken's own registry); `load` does it
    beforehand. Safe to share between threads.

    Args:
        folder: where the tokenizer file lies; None = inside litellm.
    """

    def __init__(self, *, folder: Path | None = None) -> None:
        self._folder = folder
        self._encode: Callable[[str], list[int]] | None = None
        self._tried = False

    def load(self) -> bool:
        """Load the tokenizer now; say whether counts will be exact."""
        with _ENVIRONMENT:
            if not self._tried:
                self._encode = _load(self._folder or _bundled())
                self._tried = True
        return self._encode is not None

    def measure(self, text: str) -> InputSize:
        """Return the size of a text; over 200,000 characters the rest is taken to be like the head."""
        if not self._tried:
            self.load()
        size = _bytes(text)
        if self._encode is None:
            return InputSize(-(-size // _BYTES_PER_TOKEN), size, exact=False)
        if len(text) <= _LONGEST:
            return InputSize(len(self._encode(text)), size, odd=_odd(text))
        head = text[:_HEAD]
        return InputSize(len(self._encode(head)) * size // _bytes(head), size, exact=False)


def measure_messages(
    messages: object,
    *,
    tokenizer: Tokenizer,
    tools: object = None,
    response_format: object = None,
) -> InputSize:
    """Return the size of a conversation with its tools and answer schema.

    Text of all parts is counted as one. Images are counted apart, and so is every document, sound
    or video that the prompt only refers to; inline ones count by their bytes, inexactly. Odd content
    is not refused: whatever has no known shape counts by its JSON or repr.
    """
    found = _Found()
    turns = _turns(messages)
    for turn in turns:
        found.take_message(turn)
    size = tokenizer.measure("\n".join(found.texts))
    framing = _PER_REQUEST + _PER_MESSAGE * len(turns)
    framing += _WITH_TOOLS + _bytes(_json(tools)) if tools else 0
    framing += _bytes(_json(response_format)) if response_format is not None else 0
    if found.opaque:
        tokens = size.tokens + found.opaque // _BYTES_PER_TOKEN
        size = InputSize(tokens, size.utf8_bytes + found.opaque, exact=False)
    return replace(size, framing=size.framing + framing, images=found.images, audio=found.audio)


def prompt_text(messages: object, *, head: int = 2000, tail: int = 2000) -> str:
    r"""Return what a conversation is classified by: system text, then the last three user turns.

    Capped to its first `head` and last `tail` characters, of which system text takes at most half
    the head: it says less than the question does.

    >>> prompt_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    'Be brief.\nHi'
    """
    system: list[str] = []
    asked: list[str] = []
    for turn in _turns(messages):
        role, texts = _spoken(turn)
        if role in {"system", "developer"}:
            system.append("\n".join(texts))
        elif role == "user":
            asked.append("\n".join(texts))
    text = "\n".join(["\n".join(system)[: head // 2]] * bool(system) + asked[-_TURNS:])
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[len(text) - tail :]}"


@dataclass(slots=True)
class _Found:
    """What a conversation contains, as it is walked through."""

    texts: list[str] = field(default_factory=list)
    images: int = 0
    opaque: int = 0
    audio: bool = False

    def take_message(self, turn: object) -> None:
        if type(turn) is dict and len(turn) == 2 and type(turn.get("content")) is str:  # noqa: PLR2004 - role, content
            self.texts.append(turn["content"])
            return
        fields = _fields(turn)
        if fields is None:
            self.take(turn)
            return
        for name, value in fields.items():
            if name in _CONTENT:
                self.take(value)
            elif name not in {"role", "type"} and value is not None:
                self.texts.append(value if isinstance(value, str) else _json(value))

    def take(self, part: object, *, depth: int = 0) -> None:
        if part is None:
            return
        if isinstance(part, str):
            self.texts.append(part)
        elif isinstance(part, list | tuple) and depth < _DEEPEST:
            for inner in part:
                self.take(inner, depth=depth + 1)
        else:
            self._take_part(part, depth)

    def _take_part(self, part: object, depth: int) -> None:
        fields = _fields(part)
        kind = None if fields is None else fields.get("type")
        if fields is None or depth >= _DEEPEST:
            self.texts.append(_json(part))
        elif kind in _IMAGES or (kind is None and _is_picture(fields)):
            self.images += 1
        elif kind in _MEDIA or (kind is None and _holds(fields, _GEMINI)):
            self._take_media(fields)
        elif kind == "tool_result":
            self.take(fields.get("content"), depth=depth + 1)
        elif isinstance(fields.get("text"), str):
            self.texts.append(fields["text"])
        else:
            self.texts.append(_json(fields))

    def _take_media(self, fields: Mapping[str, Any]) -> None:
        self.audio = self.audio or fields.get("type") in _SOUND or _hears(fields)
        inside = [fields, *(value for value in fields.values() if isinstance(value, Mapping))]
        if any(_INLINE & inner.keys() for inner in inside):
            self.opaque += _bytes(_json(fields))
        else:
            self.images += 1


def _is_picture(fields: Mapping[str, Any]) -> bool:
    return _holds(fields, _GEMINI) and not _hears(fields)


def _holds(fields: Mapping[str, Any], names: frozenset[str]) -> bool:
    return any(fields.get(name) is not None for name in names)


def _hears(fields: Mapping[str, Any]) -> bool:
    """Say whether a part is sound or video by its media type."""
    inside = [fields, *(value for value in fields.values() if isinstance(value, Mapping))]
    kinds = [str(kind) for part in inside for name in _MIME if (kind := part.get(name))]
    return any(kind.startswith(("audio", "video")) for kind in kinds)


def _spoken(turn: object) -> tuple[str, list[str]]:
    if isinstance(turn, str):
        return "user", [turn]
    fields = _fields(turn)
    if fields is None:
        return "", []
    return str(fields.get("role", "")), [t for name in _CONTENT for t in _plain(fields.get(name))]


def _plain(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list | tuple) else (content,):
        text = part if isinstance(part, str) else (_fields(part) or {}).get("text")
        if isinstance(text, str):
            yield text


def _turns(messages: object) -> Sequence[object]:
    if isinstance(messages, list | tuple):
        return messages
    return () if messages is None else (messages,)


def _fields(value: object) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of a pydantic object; None for anything else."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        return None
    try:
        fields = dump()
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, Mapping) else None


def _json(value: object) -> str:
    for write in (_dumped, repr):
        with suppress(TypeError, ValueError, RecursionError):
            return write(value)
    return _flat(value)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plainer)


def _flat(value: object) -> str:
    """Return a value's texts one after the other, however deep they lie; each container once."""
    texts: list[str] = []
    open_, seen = [value], set[int]()
    while open_:
        part = open_.pop()
        if not isinstance(part, Mapping | list | tuple):
            texts.append(part if isinstance(part, str) else repr(part))
        elif id(part) not in seen:
            seen.add(id(part))
            texts.append("[,:]")  # as JSON would have it, at most
            open_ += [*part, *part.values()] if isinstance(part, Mapping) else part
    return '", "'.join(texts)


def _plainer(value: object) -> object:
    schema = getattr(value, "model_json_schema", None)
    if isinstance(value, type):
        return schema() if callable(schema) else repr(value)
    fields = _fields(value)
    return repr(value) if fields is None else dict(fields)


def _odd(text: str) -> int:
    """Return the bytes of which o200k makes fewer tokens than other tokenizers may.

    Measured: Hindi and Tamil take 3 to 7 times as many in others, runs of spaces 6 times; Llama 2
    and Gemma take a token for each digit.
    """
    raw = text.encode("utf-8", "surrogatepass")
    runs = sum([len(run) * raw.count(run) for run in _RUNS])
    return len(raw) - len(raw.translate(None, _CUT_SINGLY)) + runs


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _bundled() -> Path | None:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"


def _load(folder: Path | None) -> Callable[[str], list[int]] | None:
    """Load o200k from a folder; None where it is not there whole.

    tiktoken deletes a cached file with a wrong hash and downloads it, so the hash is checked first.
    """
    file = None if folder is None else folder / _FILE
    if folder is None or file is None or not file.is_file():
        _warn(f"{_FILE} is not in {folder}")
        return None
    if hashlib.sha256(file.read_bytes()).hexdigest() != _SHA256:
        _warn(f"{file} is not the o200k tokenizer")
        return None
    before = os.environ.get(_CACHE)
    os.environ[_CACHE] = str(folder)
    try:
        import tiktoken

        return tiktoken.get_encoding("o200k_base").encode_ordinary
    except ImportError as err:
        _warn(str(err))
        return None
    finally:
        if before is None:
            del os.environ[_CACHE]
        else:
            os.environ[_CACHE] = before


def _warn(reason: str) -> None:
    _log.warning("tokens are guessed as UTF-8 bytes / 4: %s", reason)
