"""budgetroute's own call through litellm: any provider, retries with one reservation per attempt.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/litellm_completion.py
"""

from budgetroute import Router, completion, last_decision

QUESTIONS = (
    "What is the capital of Peru?",
    "Prove that the square root of 2 is irrational.",
)

for question in QUESTIONS:
    response = completion(
        [{"role": "user", "content": question}],
        route="litellm",
        providers=["openai"],  # without this, every provider that litellm reaches
        attempts=3,
        timeout=120,
    )
    decision = last_decision()
    print(response.choices[0].message.content)
    print(f"{decision.prompt_type}: {decision.action.label}, about ${decision.expected_usd:.6f}")

status = Router.from_config().status()
print(f"${status.spent_usd:.6f} of ${status.limit_usd:.2f} spent in {status.calls} calls")
