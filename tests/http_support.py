"""What the tests of decorator and clients stand on: a router over a small profile, real clients, sums.

The profile's best action of each model is known, so a test chooses by the shadow price: at 0 the
best reward wins, at `DEAR` the cheapest action.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import openai

from budgetroute import Router
from budgetroute.clock import ManualClock
from budgetroute.profiles.writing import dump_profile
from budgetroute.records import Action, Cell, Profile, PromptType
from budgetroute.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
DEAR = 1e9
"""A shadow price at which only cost counts."""
MINI, BIG, REASONER, CLAUDE = "gpt-4o-mini", "gpt-4o", "o4-mini", "claude-haiku-4-5"
HELLO = [{"role": "user", "content": "hello"}]
_CURVES = {
    Action(MINI, 256): 0.50,
    Action(MINI, 1024): 0.60,
    Action(MINI, 1024, cot=True): 0.70,
    Action(BIG, 256): 0.75,
    Action(BIG, 1024): 0.80,
    Action(CLAUDE, 1024): 0.85,
    Action(REASONER, 4096, reasoning_effort="low"): 0.90,
    Action(REASONER, 4096, reasoning_effort="high"): 0.95,
}


def write_config(folder: Path, *, price: float = 0.0, usd: float = 100.0, more: str = "") -> Path:
    """Write a profile and a budgetroute.toml with a fixed shadow price; return the latter."""
    cells = tuple(
        Cell(n=100, reward=reward, reward_se=0.01, output_mean=action.max_tokens / 4, cut=0.0)
        for action, reward in _CURVES.items()
    )
    kinds = {"general": PromptType(share=1.0, input_tokens=100), "math": PromptType(0.0, 50)}
    profile = Profile("small", "2026-11-29", kinds, tuple(_CURVES), dict.fromkeys(kinds, cells))
    (folder / "small.json").write_text(dump_profile(profile))
    path = folder / "budgetroute.toml"
    path.write_text(
        f'name = "tests"\nprofile = "small.json"\n'
        f"[budget]\ndaily_usd = {usd}\n"
        f'[store]\nurl = "memory:"\n'
        f'[pacing]\npacer = "fixed"\ninitial_lambda = {price}\nwarmup_periods = 0\n{more}'
    )
    return path


def make_router(folder: Path, store=None, **settings) -> Router:
    """Return a router over the small profile, on a clock that stands at noon."""
    clock = ManualClock(NOON)
    return Router.from_config(write_config(folder, **settings), store=store or MemoryStore(clock))


def day(router: Router):
    """Return the day's sums as they stand in the ledger."""
    at = int(NOON.timestamp()) * 10**6
    (balance,) = router.store.snapshot([router.pace.slot(at)])
    return balance


def attempts(router: Router) -> list[tuple[str, int]]:
    """Return (state, pico-dollars that count as spent) of every attempt, oldest first."""
    return [(e.row.state, e.row.amount) for e in reversed(router.store.recent(100))]


def cost(router: Router, model: str, given: int, made: int, *, cached: int = 0) -> int:
    """Return what a call costs in pico-dollars, by the plain formula; all rates are whole."""
    rates = router.equipment.prices.price(model).rates
    read = rates.cached_input or 0
    return ((given - cached) * rates.input + cached * read + made * rates.output) // 10**6


def billed(router: Router, server) -> int:
    """Return what the server's answers cost, each at the price of the model that was asked."""
    return sum(
        cost(router, b.model, b.usage["prompt_tokens"], b.usage["completion_tokens"])
        for b in server.billed
    )


@contextlib.contextmanager
def openai_client(server, **settings):
    """Yield the real client, without its own retries, for the local server."""
    settings = {"max_retries": 0, "timeout": 10.0} | settings
    with openai.OpenAI(base_url=server.base_url, api_key="none", **settings) as client:
        yield client


def async_client(server, **settings):
    """Return the real async client, for `async with`."""
    settings = {"max_retries": 0, "timeout": 10.0} | settings
    return openai.AsyncOpenAI(base_url=server.base_url, api_key="none", **settings)


def load_litellm():
    """Import litellm without its network calls and the warnings of its import; 3 s of CPU."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("litellm")
    module.suppress_debug_info = True
    return module


def reply(model: str, *, given: int = 10, made: int = 5) -> dict[str, object]:
    """Return what a function that calls a model might return: a dict with usage."""
    return {"model": model, "usage": {"prompt_tokens": given, "completion_tokens": made}}


@contextlib.contextmanager
def litellm_at_work():
    """Yield litellm and a loop for its async calls; collect what it leaves behind afterwards.

    It leaves sockets and an event loop to the garbage collector, which other modules treat as errors.
    """
    module, loop = load_litellm(), asyncio.new_event_loop()
    yield module, loop
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gc.collect()
