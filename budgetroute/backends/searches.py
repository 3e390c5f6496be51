"""How often the provider searched for a call, by shape: it bills searches beside tokens.

Anthropic, Groq          usage.server_tool_use.web_search_requests
litellm                  prompt_tokens_details.web_search_requests, and for maps
                         google_maps_grounding_requests
xAI                      usage.server_side_tool_usage_details.web_search_calls
Perplexity               usage.num_search_queries, usage.search_context_size
OpenAI Responses         output items `web_search_call` that searched (opening a page is free)
OpenAI chat              annotations that cite a page: at least one
Gemini                   grounding metadata: distinct queries
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.backends.fields import count, field_of, items_of, word

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["searches_of"]

_FREE_ACTIONS = frozenset({"open_page", "find_in_page", "find"})
_SIZES = frozenset({"low", "medium", "high"})
_ABSURD = 10_000
"""No call searches so often: at a cent each a wild count would cost millions."""


def searches_of(answer: object, block: object) -> tuple[int, int, str | None]:
    """Return (searches, look-ups in maps, context size) of a response and its usage block."""
    if field_of(answer, "candidates") is not None:
        return *_grounding(answer), None
    details = field_of(block, "prompt_tokens_details")
    mapped = _times(details, "google_maps_grounding_requests")
    size = word(block, "search_context_size")
    return (
        max(_told(block, details), _reported(answer, block), int(_cites(answer))),
        mapped or 0,
        size if size in _SIZES else None,
    )


def _told(block: object, details: object) -> int:
    """Return the searches that the usage block counts."""
    counts = (
        _times(field_of(block, "server_tool_use"), "web_search_requests"),
        _times(details, "web_search_requests"),
        _times(field_of(block, "server_side_tool_usage_details"), "web_search_calls"),
        _times(block, "num_search_queries"),
    )
    return max([found or 0 for found in counts])


def _times(place: object, name: str) -> int | None:
    return count(place, name, most=_ABSURD)


def _reported(answer: object, block: object) -> int:
    """Return the searches of a Responses answer: as it counts them, else its output items."""
    if field_of(answer, "choices") is not None:
        return 0
    for place in (answer, block):
        told = _times(field_of(field_of(place, "tool_usage"), "web_search"), "num_requests")
        if told is not None:
            return told
    return sum(
        field_of(item, "type") == "web_search_call"
        and field_of(field_of(item, "action"), "type") not in _FREE_ACTIONS
        for item in items_of(answer, "output")
    )


def _cites(answer: object) -> bool:
    return any(
        field_of(note, "type") == "url_citation"
        for choice in items_of(answer, "choices")
        for note in items_of(field_of(choice, "message"), "annotations")
    )


def _grounding(answer: object) -> tuple[int, int]:
    """Return (searches, look-ups in maps) of Gemini's candidates; each distinct query counts once."""
    found: set[str] = set()
    sought: set[str] = set()
    by_maps = False
    for candidate in items_of(answer, "candidates"):
        about = field_of(candidate, "grounding_metadata") or field_of(
            candidate, "groundingMetadata"
        )
        queries = {q for q in items_of(about, "web_search_queries", "webSearchQueries") if q}
        chunks = items_of(about, "grounding_chunks", "groundingChunks")
        on_map = _any(chunks, "maps")
        by_maps = by_maps or on_map
        (sought if on_map and not _any(chunks, "web") else found).update(map(str, queries))
        if not queries and _any(chunks, "web"):
            found.add("")
    return len(found), max(len(sought), 1) if by_maps else 0


def _any(chunks: Iterable[object], kind: str) -> bool:
    return any(field_of(chunk, kind) is not None for chunk in chunks)
