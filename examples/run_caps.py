"""A cap on one job beside the daily budget: what happens as the job's money runs out.

OPENAI_API_KEY=… BUDGETROUTE_BUDGET_DAILY_USD=5 python examples/run_caps.py
"""

from openai import OpenAI

from budgetroute import BudgetExceeded, last_decision, route, run

client = OpenAI(max_retries=0)
create = route("job")(client.chat.completions.create)
STEPS = 200


def step(number):
    """Make one call of the job; the passed cap is a ceiling."""
    create(
        model="gpt-4o",
        max_tokens=1024,
        messages=[{"role": "user", "content": f"Step {number}: summarise the plan in a line."}],
    )
    return last_decision().action.label


with run(usd=0.001) as job:
    before = ""
    try:
        for number in range(STEPS):
            label = step(number)
            if label != before:
                print(f"step {number}: {label}")
            before = label
        print(f"all {STEPS} steps fit")
    except BudgetExceeded as error:
        print(f"stopped at step {number}: job {job.id} has ${error.limit_usd}")
        print(f"spent ${error.spent_usd:.6f}; one more may cost ${error.needed_usd:.6f}")
