"""Fakes for the tests of code that uses budgetroute.

def test_a_rate_limit_is_survived():
    with ScriptedServer(status(429, retry_after=0), ok("hello")) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        ...
    assert len(server.requests) == 2
"""

from budgetroute.testing.replies import Reply, cut, no_usage, ok, slow, status, stopped
from budgetroute.testing.server import ScriptedServer

__all__ = [
    "Reply",
    "ScriptedServer",
    "cut",
    "no_usage",
    "ok",
    "slow",
    "status",
    "stopped",
]
