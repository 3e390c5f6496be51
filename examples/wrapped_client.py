"""A wrapped client: the code that uses it stays as it is, and what no budget could hold is refused.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/wrapped_client.py
"""

from openai import OpenAI

from budgetroute import ConfigError, Router, last_decision, wrap

plain = OpenAI()
client = wrap(plain)

# What is passed is the baseline, and max_tokens a ceiling; helpers are routed as well.
question = [{"role": "user", "content": "What is 17 * 23?"}]
reply = client.chat.completions.create(model="gpt-4o", max_tokens=1024, messages=question)
print(reply.choices[0].message.content)
print("answered by", last_decision().action.label)

with client.chat.completions.stream(model="gpt-4o", messages=question) as stream:
    print(stream.get_final_completion().choices[0].message.content)
print("answered by", last_decision().action.label)

try:
    client.embeddings.create(model="text-embedding-3-small", input="rivers")
except ConfigError as err:
    print("refused:", err)

status = Router.from_config().status()
print(f"${status.spent_usd:.6f} of ${status.limit_usd:.2f} spent in {status.calls} calls")
