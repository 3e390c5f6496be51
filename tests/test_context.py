"""`run`, `tags` and `pin`: they nest, follow async code and threads, and refuse nonsense."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from budgetroute.context import (
    current_pins,
    current_runs,
    current_tags,
    pin,
    run,
    tags,
)
from budgetroute.errors import ConfigError
from budgetroute.records import Pins


def test_nothing_is_in_force_at_first():
    """Outside any block there are no runs, tags or pins."""
    assert (current_runs(), dict(current_tags()), current_pins()) == ((), {}, Pins())


def test_runs_nest_and_end():
    """Inside two runs both hold, outermost first; after each block it is gone, on errors too."""
    with run(usd=0.5) as outer:
        with suppress(RuntimeError), run(usd=0.1, id="inner") as inner:
            assert current_runs() == (outer, inner)
            raise RuntimeError
        assert current_runs() == (outer,)
    assert current_runs() == ()
    assert (outer.limit, inner.limit, inner.id) == (5 * 10**11, 10**11, "inner")


def test_each_run_has_its_own_id():
    """Two runs without a name are two budgets."""
    with run(usd=1) as one, run(usd=1) as two:
        assert one.id != two.id


@pytest.mark.parametrize("usd", [-0.01, float("nan"), float("inf"), "1", None, True])
def test_a_cap_is_a_number_of_dollars(usd):
    """Anything else is refused before a call is made."""
    with pytest.raises(ConfigError, match="usd="), run(usd=usd):
        pass


def test_tags_add_up_and_the_inner_wins():
    """An inner block adds to the outer one and overrides it by name."""
    with tags(user="ann", tier="free"), tags(tier="gold"):
        assert dict(current_tags()) == {"user": "ann", "tier": "gold"}
    assert dict(current_tags()) == {}


def test_tags_cannot_be_changed_behind_the_blocks_back():
    """What is handed out is read-only."""
    with tags(user="ann"), pytest.raises(TypeError):
        current_tags()["user"] = "bob"


def test_a_tag_is_text():
    """A number would match no rule; it is refused by name."""
    with pytest.raises(ConfigError, match="user=7"), tags(user=7):
        pass


def test_pins_fill_each_others_gaps():
    """The inner block's parts win, the rest of the outer one stays."""
    with pin(model="small", max_tokens=100), pin(max_tokens=50, cot=True):
        assert current_pins() == Pins(model="small", max_tokens=50, cot=True)
    assert current_pins() == Pins()


def test_false_and_zero_are_pins_too():
    """`cot=False` and `temperature=0.0` fix something; only None leaves it free."""
    with pin(cot=True, temperature=1.0), pin(cot=False, temperature=0.0):
        assert (current_pins().cot, current_pins().temperature) == (False, 0.0)


@pytest.mark.parametrize("bad", [{"max_tokens": 0}, {"max_tokens": 1.5}, {"n": -1}, {"n": True}])
def test_pinned_counts_are_whole_and_positive(bad):
    """A cap of 0 would be sent and billed; it is refused."""
    with pytest.raises(ConfigError, match="1 or more"), pin(**bad):
        pass


def test_gather_and_to_thread_inherit_and_do_not_leak():
    """Tasks and threads see the block they were started in; siblings do not see each other."""

    async def child(name: str) -> tuple[int, str, str]:
        with tags(user=name):
            await asyncio.sleep(0)
            in_thread = await asyncio.to_thread(lambda: current_tags()["user"])
            return len(current_runs()), current_tags()["user"], in_thread

    async def parent() -> list[tuple[int, str, str]]:
        with run(usd=1):
            return await asyncio.gather(child("ann"), child("bob"))

    assert asyncio.run(parent()) == [(1, "ann", "ann"), (1, "bob", "bob")]


def test_a_thread_pool_starts_empty_unless_the_context_is_handed_over():
    """As the module says: plain pools see nothing, `copy_context().run` carries everything."""
    with run(usd=1), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_runs).result() == ()
        handed = contextvars.copy_context()
        assert len(pool.submit(handed.run, current_runs).result()) == 1
