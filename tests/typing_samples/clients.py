"""What type checkers must see of routed methods of the OpenAI client."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from budgetroute import route

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


def sync_client(client: OpenAI) -> None:
    """Route a client's method; the first overload's result is kept."""
    from openai.types.chat import ChatCompletion

    create = route(client.chat.completions.create)
    answer = create(model="gpt-4o-mini", messages=[{"role": "user", "content": "why?"}])
    assert_type(answer, ChatCompletion)


async def async_client(client: AsyncOpenAI) -> None:
    """Route the async twin."""
    from openai.types.chat import ChatCompletion

    create = route(client.chat.completions.create)
    answer = await create(model="gpt-4o-mini", messages=[{"role": "user", "content": "why?"}])
    assert_type(answer, ChatCompletion)
