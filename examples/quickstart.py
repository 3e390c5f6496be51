# quickstart.py — runs without a key: the function returns what a provider would report
from budgetroute import last_decision, route


@route  # the only new line
def answer(question, *, model="gpt-4o", max_tokens=1024):
    return {"model": model, "usage": {"prompt_tokens": 30, "completion_tokens": 120}}


for question in ("What is 17 * 23?", "Write a Python function that merges two sorted lists."):
    answer(question)
    print(last_decision().action.label, "because", last_decision().why)
# ruff: noqa: ARG001 - the function only looks like one that calls a model
