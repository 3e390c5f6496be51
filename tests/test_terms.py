"""Terms: what a request's parameters say that it may be billed for besides its text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from budgetroute.records import Terms
from budgetroute.terms import SEARCHES, bounded, joined, terms_asked, unbilled_tools

ANTHROPIC = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FUNCTION = {"type": "function", "function": {"name": "web_search"}}


@pytest.mark.parametrize(
    ("parameters", "searches", "maps"),
    [
        ({}, 0, 0),
        ({"tools": [FUNCTION]}, 0, 0),
        ({"tools": [ANTHROPIC]}, 3, 0),
        ({"tools": [ANTHROPIC, FUNCTION, ANTHROPIC]}, 6, 0),
        ({"tools": [ANTHROPIC | {"max_uses": None}]}, None, 0),
        ({"tools": [ANTHROPIC | {"max_uses": True}]}, None, 0),
        ({"tools": [{"type": "web_search_preview"}]}, None, 0),
        ({"tools": [{"type": "web_search"}], "max_tool_calls": 2}, 2, 0),
        ({"web_search_options": {}}, None, 0),
        ({"web_search_options": None}, 0, 0),
        ({"extra_body": {"search_parameters": {"mode": "auto"}}}, None, 0),
        ({"tools": [{"type": "browser_search"}]}, None, 0),
        ({"tools": [{"google_search": {}}]}, None, 0),
        ({"tools": [SimpleNamespace(google_search=SimpleNamespace())]}, None, 0),
        ({"config": {"tools": [{"googleMaps": {}}]}}, 0, 1),
    ],
)
def test_searches(parameters, searches, maps):
    """Search tools of every provider are found, with their bound; functions are the user's own."""
    terms = terms_asked(parameters)
    assert (terms.searches, terms.map_queries) == (searches, maps)


@pytest.mark.parametrize(
    ("parameters", "context"),
    [
        ({"web_search_options": {"search_context_size": "low"}}, "low"),
        ({"web_search_options": {"search_context_size": "vast"}}, None),
        ({"tools": [{"type": "web_search", "search_context_size": "high"}]}, "high"),
        ({"tools": [{"type": "web_search", "search_context_size": "low"}, ANTHROPIC]}, None),
    ],
)
def test_context_size(parameters, context):
    """A context size bounds the fee only where every search has it."""
    assert terms_asked(parameters).context == context


def test_bounded():
    """What has no bound gets the configured one; what has keeps it."""
    assert bounded(Terms(searches=None)).searches == SEARCHES
    assert bounded(Terms(searches=None, map_queries=1), searches=4).map_queries == 4
    assert bounded(Terms(searches=2), searches=4, seconds=9.0) == Terms(searches=2, seconds=9.0)


def test_joined():
    """Two sources together allow what either does."""
    one = Terms(services=frozenset({"flex"}), searches=1, context="low", seconds=3.0)
    other = Terms(services=frozenset({"fast"}), searches=2)
    both = joined(one, other)
    assert both == Terms(services=frozenset({"flex", "fast"}), searches=2, seconds=3.0)
    assert joined(one, Terms()) == one
    assert joined(Terms(searches=None), other).searches is None


def test_tools_with_fees_that_no_price_has():
    """Tools that the provider bills by use at unlisted fees are named."""
    tools = [{"type": "file_search"}, {"type": "code_interpreter"}, FUNCTION, ANTHROPIC]
    assert unbilled_tools({"tools": tools}) == {"file_search", "code_interpreter"}
