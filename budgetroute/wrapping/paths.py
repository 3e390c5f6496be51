"""Which requests of a client cost nothing, by method and path; everything else is held to cost."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_READING: Final = frozenset({"DELETE", "GET", "HEAD"})
_STORED: Final = frozenset({"files", "uploads"})
"""What is only stored, without a fee."""
_MODERATED: Final = "moderations"
_OPENAI: Final = "api.openai.com"
"""Moderation is free here; other providers may ask money for it."""
_ENDINGS: Final = frozenset({"cancel", "count_tokens"})
_VERSION: Final = "v1"
"""Anthropic's paths begin with it."""
_NOTES: Final = 3
"""Parts of `chat/completions/ID`: a change of a stored completion's metadata."""


def is_free(method: str, url: str, *, host: str) -> bool:
    """Say whether a request is known to cost nothing.

    Args:
        method: GET, POST, …
        url: the path below the client's base URL, or a whole URL.
        host: where it goes.

    >>> is_free("GET", "/models", host="api.openai.com")
    True
    >>> is_free("POST", "/embeddings", host="api.openai.com")
    False
    """
    address = urlsplit(url)
    if address.scheme not in {"", "http", "https"}:
        return False
    if method.upper() in _READING:
        return True
    parts = [part for part in address.path.split("/") if part]
    parts = parts[1:] if parts[:1] == [_VERSION] else parts
    if parts[:1] == [_MODERATED]:
        return host == _OPENAI or host.endswith(f".{_OPENAI}")
    if parts[:2] == ["chat", "completions"]:
        return len(parts) == _NOTES
    return bool(parts) and (parts[0] in _STORED or parts[-1] in _ENDINGS)
