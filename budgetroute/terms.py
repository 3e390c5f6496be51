"""What a request's parameters say that it may be billed for besides its text.

Providers run some tools themselves and bill each use. Searches are told from other tools by shape:

    OpenAI, litellm      web_search_options; tools of type web_search…, bounded by max_tool_calls
    Anthropic            tools of type web_search_…, bounded by max_uses
    Gemini               tools with google_search, google_search_retrieval, google_maps
    Groq, xAI            tools of type browser_search; search_parameters
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from budgetroute.records import Terms
from budgetroute.units import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SEARCHES", "bounded", "joined", "services_asked", "terms_asked", "unbilled_tools"]

SEARCHES = 10
"""Searches to hold for where neither the request nor the configuration bounds them.

A guess on the high side: agents search a few times a turn. What goes beyond is billed and shown.
"""
_SEARCH_TYPES = ("web_search", "browser_search")
_GOOGLE = frozenset({"google_search", "googleSearch", "google_search_retrieval"})
_MAPS = frozenset({"google_maps", "googleMaps"})
_OWN_FEES = ("file_search", "code_interpreter", "image_generation", "code_execution")
"""Tools that providers bill by use, at fees that the price map does not list by model."""
_SIZES = frozenset({"low", "medium", "high"})


def terms_asked(parameters: Mapping[str, Any]) -> Terms:
    """Return the service tiers, and the searches at most, that a request's parameters ask for.

    Searches are None where they are asked for and nothing bounds them.

    >>> terms_asked({"tools": [{"type": "web_search_20250305", "max_uses": 3}]}).searches
    3
    """
    if _SPEAKING.isdisjoint(parameters):
        return _NOTHING
    parameters = _flat(parameters)
    services = services_asked(parameters)
    tools = list(_tools(parameters))
    options = [parameters[name] for name in _OPTIONS if _given(parameters.get(name))]
    searching = [tool for tool in tools if _searches(tool)]
    maps = any(_names(tool) & _MAPS for tool in tools)
    if not (searching or options or maps):
        return Terms(services=services) if services else _NOTHING
    most = parameters.get("max_tool_calls")
    bound: int | None = most if is_whole(most) else _uses(searching, unbounded=bool(options))
    sizes = [_field(place, "search_context_size") for place in (*searching, *options)]
    said = [size for size in sizes if size in _SIZES]
    return Terms(
        services=services,
        searches=bound if searching or options else 0,
        map_queries=1 if maps else 0,
        context=said[0] if len(said) == len(sizes) == 1 else None,
    )


def services_asked(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the service tiers that a request's parameters ask for, as responses name them.

    Anthropic's speed and region are tiers too, alone and together.

    >>> sorted(services_asked({"speed": "fast", "inference_geo": "us"}))
    ['fast', 'fast us', 'us']
    """
    parameters = _flat(parameters)
    named = [parameters.get(name) for name in ("service_tier", "speed", "inference_geo")]
    words = [word for word in named if isinstance(word, str)]
    return frozenset(words) | ({"fast us"} if {"fast", "us"} <= set(words) else frozenset())


def unbilled_tools(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the provider's tools among a request's that have fees which no price here has."""
    if _HOLDING_TOOLS.isdisjoint(parameters):
        return _NO_TOOLS
    found = set()
    for tool in _tools(_flat(parameters)):
        kind = _field(tool, "type")
        if isinstance(kind, str):
            found |= {name for name in _OWN_FEES if kind.startswith(name)}
    return frozenset(found)


def joined(one: Terms, other: Terms) -> Terms:
    """Return what may be billed when both hold."""
    if other is _NOTHING or other == _NOTHING:
        return one
    both = None if one.services is None or other.services is None else one.services | other.services
    unbounded = one.searches is None or other.searches is None
    return replace(
        one,
        services=both,
        searches=None if unbounded else max(one.searches or 0, other.searches or 0),
        map_queries=max(one.map_queries, other.map_queries),
        context=one.context if one.context == other.context or not other.searches else None,
    )


def bounded(terms: Terms, *, searches: int = SEARCHES, seconds: float | None = None) -> Terms:
    """Return the terms with a bound on searches where they have none, and on time."""
    if terms.searches is not None and seconds == terms.seconds:
        return terms
    most = searches if terms.searches is None else terms.searches
    mapped = most if terms.map_queries and terms.searches is None else terms.map_queries
    return replace(terms, searches=most, map_queries=mapped, seconds=seconds)


_NOTHING = Terms()
_NO_TOOLS: frozenset[str] = frozenset()
_OPTIONS = ("web_search_options", "search_parameters")
_HOLDING_TOOLS = frozenset({"tools", "config", "extra_body"})
_SPEAKING = _HOLDING_TOOLS | {*_OPTIONS, "service_tier", "speed", "inference_geo"}


def _flat(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters with those inside `extra_body`, which are sent over all others."""
    extra = parameters.get("extra_body")
    return {**parameters, **extra} if isinstance(extra, Mapping) else parameters


def _tools(parameters: Mapping[str, Any]) -> Iterator[object]:
    for place in (parameters, parameters.get("config")):
        tools = _field(place, "tools")
        if isinstance(tools, list | tuple):
            yield from tools


def _searches(tool: object) -> bool:
    kind = _field(tool, "type")
    return bool(_names(tool) & _GOOGLE) or (
        isinstance(kind, str) and kind.startswith(_SEARCH_TYPES)
    )


def _names(tool: object) -> frozenset[str]:
    """Return which of Google's tools one object carries."""
    return frozenset(name for name in _GOOGLE | _MAPS if _field(tool, name) is not None)


def _uses(searching: list[object], *, unbounded: bool) -> int | None:
    most = [_field(tool, "max_uses") for tool in searching]
    if unbounded or not all(is_whole(each) for each in most):
        return None
    return sum(each for each in most if isinstance(each, int))


def _given(value: object) -> bool:
    return value is not None and type(value).__name__ not in {"NotGiven", "Omit"}


def _field(place: object, name: str) -> Any:  # noqa: ANN401 - the caller's own objects
    if isinstance(place, Mapping):
        return place.get(name)
    return None if place is None else getattr(place, name, None)
