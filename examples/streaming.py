"""Streams: the client's own, and a generator function that yields text.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/streaming.py
"""

from openai import OpenAI

from budgetroute import Router, last_decision, record, route

client = OpenAI(max_retries=0)
router = Router.from_config()

# The client's method: its stream, counted as it is read. The usage is asked for.
create = route("chat", router=router)(client.chat.completions.create)
with create(
    model="gpt-4o",
    max_tokens=1024,
    stream=True,
    messages=[{"role": "user", "content": "Name three rivers."}],
) as stream:
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream))
print("answered by", last_decision().action.label)


@route(router=router)
def answer(question, *, model="gpt-4o", max_tokens=1024):
    """Yield text; `record(stream)` counts the stream that is read."""
    stream = client.chat.completions.create(
        model=model,
        max_tokens=max_tokens,
        stream=True,
        stream_options={"include_usage": True},
        messages=[{"role": "user", "content": question}],
    )
    for chunk in record(stream):
        if chunk.choices:
            yield chunk.choices[0].delta.content or ""


print("".join(answer("What is 17 * 23?")))
print("answered by", last_decision().action.label)

# Left early: what was read is counted, and the rest of the worst case stays held.
words = answer("Tell me a long story.")
print(next(text for text in words if text))
words.close()

status = router.status()
print(f"{status.calls} calls, {status.estimated} of them estimated: ${status.spent_usd:.6f} spent")
