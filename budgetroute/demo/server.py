"""The simulated models behind an OpenAI-compatible API, in a process of their own.

`python -m budgetroute.demo.server --profile broad` prints its port and serves until its standard
input ends. It knows the day's prompts because it writes the same ones from the same seed.
"""

from __future__ import annotations

import argparse
import signal
import zlib
from typing import TYPE_CHECKING, Any

from budgetroute.demo.day import DAY, day, shares_of
from budgetroute.demo.prompts import Task
from budgetroute.demo.questions import Question
from budgetroute.demo.simulated import GENERAL, SimulatedModels
from budgetroute.loopback import (
    Choice,
    Completion,
    chat_response,
    error_response,
    only_chat,
    serve_until_eof,
    served,
)
from budgetroute.loopback.chat import usage_object
from budgetroute.profiles import load_profile
from budgetroute.records import Action
from budgetroute.tokens import O200k

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from budgetroute.demo.simulated import Answer
    from budgetroute.loopback import Received, Response
    from budgetroute.loopback.http import Responder
    from budgetroute.protocols import Tokenizer

_COT = "step by step"
_PER_MESSAGE, _PER_REQUEST = 4, 3
"""OpenAI's framing tokens: role and separators, and the start of the answer."""


def simulated_day(
    profile: str, *, calls: int, day_index: int = DAY, seed: int = 0
) -> AbstractContextManager[str]:
    """Serve a day's simulated models from another process; the context's value is the base URL.

    Args:
        profile: a shipped profile's name or a path.
        calls: requests of the day, as given to `day`.
        day_index: the day, as given to `day`.
        seed: of the prompts and of the models' luck.
    """
    args = {"--profile": profile, "--calls": calls, "--day": day_index, "--seed": seed}
    return served(__name__, *(str(word) for pair in args.items() for word in pair))


def responder(models: SimulatedModels, tasks: Iterable[Task]) -> Responder:
    """Return what answers requests about these tasks; other prompts count as general."""
    service = _Service(models, {task.prompt: task for task in tasks})
    return only_chat(service.answer, lambda: models.names)


class _Service:
    """Answers chat completions; owns the tokenizer."""

    def __init__(self, models: SimulatedModels, tasks: Mapping[str, Task]) -> None:
        self._models = models
        self._tasks = tasks
        self._tokenizer = O200k()
        self._tokenizer.load()
        self._served = 0

    def answer(self, body: dict[str, Any], _: Received) -> Response:
        """Answer one decoded request."""
        texts = [_text(message) for message in body["messages"] if isinstance(message, dict)]
        model, cap = body.get("model"), body.get("max_completion_tokens", body.get("max_tokens"))
        if model not in self._models.names:
            known = ", ".join(self._models.names)
            return error_response(
                404,
                f"the model {model!r} is not simulated; these are: {known}",
                code="model_not_found",
            )
        cap = self._models.largest_cap(model) if cap is None else cap
        if not isinstance(cap, int) or cap < 1:
            return error_response(400, f"max_tokens must be a positive integer, found {cap!r}")
        action = Action(
            model, cap, _COT in "\n".join(texts).casefold(), body.get("reasoning_effort")
        )
        task = self._task(texts)
        count = int(body.get("n") or 1)
        answers = [self._models.answer(task, action, choice=index) for index in range(count)]
        return chat_response(self._completion(model, texts, answers), body)

    def _task(self, texts: list[str]) -> Task:
        """Find the task in the messages, the last first, with or without something added below."""
        for text in reversed(texts):
            prompt = text
            while prompt:
                if prompt in self._tasks:
                    return self._tasks[prompt]
                prompt = prompt.rpartition("\n\n")[0]
        prompt = texts[-1] if texts else ""
        return Task(
            GENERAL, zlib.crc32(prompt.encode()), Question(prompt, "simulated", "simulated")
        )

    def _completion(self, model: str, texts: list[str], answers: list[Answer]) -> Completion:
        self._served += 1
        hidden = [answer.reasoning_tokens for answer in answers]
        return Completion(
            model=model,
            choices=tuple(
                Choice(answer.text, "length" if answer.cut else "stop") for answer in answers
            ),
            usage=usage_object(
                input_tokens(self._tokenizer, texts),
                sum(answer.output_tokens for answer in answers),
                cached=0,
                reasoning=None if None in hidden else sum(filter(None, hidden)),
            ),
            id=f"chatcmpl-{self._served}",
        )


def input_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return the input tokens that are billed for messages with these texts."""
    counted = tokenizer.measure("\n".join(texts)).tokens
    return counted + _PER_MESSAGE * len(texts) + _PER_REQUEST


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    found = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n\n".join(text for text in found if isinstance(text, str))


def main() -> None:
    """Read the command line and serve; a Ctrl-C in the terminal is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="python -m budgetroute.demo.server", description=__doc__)
    parser.add_argument("--profile", default="broad", help="a shipped profile's name or a path")
    parser.add_argument("--calls", type=int, default=4000, help="requests of the day")
    parser.add_argument("--day", type=int, default=DAY, help="which day of the series, from 0")
    parser.add_argument("--seed", type=int, default=0, help="of the prompts and the models' luck")
    args = parser.parse_args()
    profile = load_profile(args.profile)
    coming = day(shares_of(profile), calls=args.calls, day_index=args.day, seed=args.seed)
    models = SimulatedModels(profile, seed=args.seed)
    serve_until_eof(responder(models, (call.task for call in coming)))


if __name__ == "__main__":
    main()
