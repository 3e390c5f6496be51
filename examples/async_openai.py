"""Many calls at once through the async client, each tagged and one of them pinned.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/async_openai.py
"""

import asyncio

from openai import AsyncOpenAI

from budgetroute import last_decision, pin, route, tags

client = AsyncOpenAI(max_retries=0)


@route
async def answer(messages, *, model="gpt-4o", max_tokens=1024):
    """Return the whole response: its usage is what is billed."""
    return await client.chat.completions.create(
        model=model, max_tokens=max_tokens, messages=messages
    )


async def ask(question, user):
    """Ask for one user; a task's context is its own, and so is its last decision."""
    with tags(user=user):
        response = await answer([{"role": "user", "content": question}])
    return f"{user}: {response.choices[0].message.content} ({last_decision().action.label})"


async def main():
    """Ask three questions at once, then one with a fixed model."""
    questions = {"ann": "Is 91 a prime?", "bo": "Translate 'tree' to French.", "cy": "Say hi."}
    for line in await asyncio.gather(*(ask(text, user) for user, text in questions.items())):
        print(line)
    with pin(model="gpt-4o-mini", max_tokens=64):
        print(await ask("Say hi again.", "cy"))


asyncio.run(main())
