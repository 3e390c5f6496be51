"""One decorator over the OpenAI client, and the client's own method routed as it is.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/openai_client.py
"""

from openai import OpenAI

from budgetroute import last_decision, record, route

client = OpenAI(max_retries=0)


@route
def answer(question, *, model="gpt-4o", max_tokens=1024):
    """Return text; `record` reports what the response was billed for."""
    response = client.chat.completions.create(
        model=model, max_tokens=max_tokens, messages=[{"role": "user", "content": question}]
    )
    record(response)
    return response.choices[0].message.content


print(answer("What is 17 * 23?"))
print("answered by", last_decision().action.label)

# What is passed to a routed client method is its baseline; max_tokens is a ceiling.
create = route("chat")(client.chat.completions.create)
reply = create(
    model="gpt-4o", max_tokens=1024, messages=[{"role": "user", "content": "Name three rivers."}]
)
print(reply.choices[0].message.content)
print("answered by", last_decision().action.label, "because", last_decision().why)
