"""What type checkers must see of routed methods of the OpenAI client."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

from openai import AsyncOpenAI, OpenAI

from budgetroute import route, wrap


def sync_client(client: OpenAI) -> None:
    """Route a client's method; the first overload's result is kept."""
    from openai.types.chat import ChatCompletion

    create = route(client.chat.completions.create)
    answer = create(model="gpt-4o-mini", messages=[{"role": "user", "content": "why?"}])
    assert_type(answer, ChatCompletion)


def wrapped_clients(client: OpenAI, later: AsyncOpenAI) -> None:
    """A wrapped client is of the client's own class."""
    assert_type(wrap(client), OpenAI)
    assert_type(wrap(later, route="chat", require=["eu"]), AsyncOpenAI)
    wrap(client, floor="high")  # type: ignore[arg-type]


async def async_client(client: AsyncOpenAI) -> None:
    """Route the async twin."""
    from openai.types.chat import ChatCompletion

    create = route(client.chat.completions.create)
    answer = await create(model="gpt-4o-mini", messages=[{"role": "user", "content": "why?"}])
    assert_type(answer, ChatCompletion)
