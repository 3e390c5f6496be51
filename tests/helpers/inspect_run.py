"""Runs inspect_ai with its mock model: two questions, two epochs, cache and reasoning in the usage.

    python inspect_run.py FOLDER json|eval

Whoever runs it needs inspect_ai; the package and its other tests do not.
"""

import os
import sys

from inspect_ai import Task, eval  # noqa: A004 - the tool's name
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, self_critique

QUESTIONS = {
    "What is 17 + 25?": ("42", "numbers"),
    "Which planet is the largest?": ("Jupiter", "facts"),
}
MODEL = "mockllm/model"


def said(text):
    """Return an answer whose usage has all parts: 9 + 12 cached in, 30 out, 20 of them hidden."""
    output = ModelOutput.from_content(MODEL, text)
    output.usage = ModelUsage(
        input_tokens=9,
        input_tokens_cache_read=12,
        output_tokens=30,
        reasoning_tokens=20,
        total_tokens=51,
    )
    return output


def quiz(*, critic):
    solver = [generate(), self_critique()] if critic else [generate()]
    dataset = [
        Sample(input=question, target=target, metadata={"topic": topic})
        for question, (target, topic) in QUESTIONS.items()
    ]
    return Task(
        dataset=dataset,
        solver=solver,
        scorer=[includes(), match()],
        config=GenerateConfig(max_tokens=64, reasoning_effort="low"),
        name="quiz",
    )


def main(folder, form, *flags):
    model = get_model(MODEL, custom_outputs=[said("It is 42."), said("It is Jupiter.")] * 8)
    logs = eval(
        quiz(critic="critic" in flags),
        model=model,
        epochs=2,
        log_dir=folder,
        log_format=form,
        display="none",
        max_connections=1,
        model_args={},
    )
    sys.exit(0 if logs[0].status == "success" else 1)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main(*sys.argv[1:])
