"""What the tests of streams share: ways to end one, sync and async, and what was booked in the end."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, field

from http_support import attempts, cost

from budgetroute import last_decision
from budgetroute.tokens import O200k

TEXT = "The quick brown fox jumps over the lazy dog. " * 8
"""Five pieces on the scripted server: the role and 80 characters each, before the finish."""
_tokenizer = O200k()


@dataclass
class Bills:
    """An observer that keeps every settlement."""

    seen: list = field(default_factory=list)

    def decided(self, decision):
        """Do nothing."""

    def settled(self, decision, settlement):
        self.seen.append(settlement)

    def stepped(self, fields):
        """Do nothing."""


def watched(router) -> Bills:
    """Return an observer of the router's settlements."""
    bills = Bills()
    router.herald.observers = (*router.herald.observers, bills)
    return bills


def tokens(text: str) -> int:
    """Return the o200k tokens of a text."""
    return _tokenizer.measure(text).tokens


def text_of(chunks) -> str:
    """Return the content of OpenAI's or litellm's chunks; an empty `choices` would raise."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def counted(router, text: str, *, decision=None) -> int:
    """Return the price of the expected input and a counted text."""
    decision = decision or last_decision()
    return cost(router, decision.model, round(decision.input_tokens), tokens(text))


def booked(router, bills: Bills) -> tuple[str, int, str]:
    """Return (state, amount, source) of the only flight; it must have landed exactly once."""
    ((state, amount),) = attempts(router)
    (settlement,) = bills.seen
    assert settlement.amount == amount
    return state, amount, settlement.source


def drained(stream):
    return list(stream)


def left(stream):
    """Read two items and let go."""
    read = []
    for item in stream:
        read.append(item)
        if len(read) == 2:
            break
    return read


def closed(stream):
    first = [next(stream), next(stream)]
    stream.close()
    return first


def closed_twice(stream):
    first = closed(stream)
    stream.close()
    return first


def left_its_block(stream):
    with stream as entered:
        assert entered is stream
        return left(entered)


def failed_in_its_block(stream):
    read = []
    with contextlib.suppress(ZeroDivisionError), stream:
        read += left(stream)
        assert 1 / 0
    return read


def collected(stream):
    """Leave it to the cyclic garbage collector."""
    first = [next(stream), next(stream)]
    cycle = [stream]
    cycle.append(cycle)
    del cycle, stream
    return first


SYNC = (left, closed, closed_twice, left_its_block, failed_in_its_block, collected)


async def adrained(stream):
    return [item async for item in stream]


async def aleft(stream):
    return [await anext(stream), await anext(stream)]


async def aclosed(stream):
    first = await aleft(stream)
    await stream.close()
    return first


async def aclosed_twice(stream):
    first = await aclosed(stream)
    await stream.close()
    return first


async def aleft_its_block(stream):
    async with stream as entered:
        assert entered is stream
        return await aleft(entered)


async def afailed_in_its_block(stream):
    read = []
    with contextlib.suppress(ZeroDivisionError):
        async with stream:
            read += await aleft(stream)
            assert 1 / 0
    return read


async def acollected(stream):
    first = await aleft(stream)
    cycle = [stream]
    cycle.append(cycle)
    del cycle, stream
    return first


ASYNC = (aleft, aclosed, aclosed_twice, aleft_its_block, afailed_in_its_block, acollected)


def ended(way, make):
    """Make a stream, end it that way, collect what is left; return what was read."""
    read = way(make())
    gc.collect()
    return read


async def aended(way, make):
    """Do the same with an async stream."""
    read = await way(await make())
    gc.collect()
    return read
