"""What a call's arguments say about the prompt: text, size, needs, and how CoT is added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute.records import InputSize
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.tokens import O200k, measure_messages, prompt_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOTHING = InputSize(tokens=0, utf8_bytes=0)
_tokenizer = O200k()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the router needs it.

    Attributes:
        text: what the classifier reads.
        size: how large it is.
        needs: capabilities it needs.
        messages: the messages, if the call has any.
    """

    text: str = field(repr=False)
    size: InputSize
    needs: frozenset[str]
    messages: list[Any] | None = field(default=None, repr=False)


def read_prompt(source: Any, arguments: Mapping[str, Any]) -> Prompt:  # noqa: ANN401 - the caller's or the library's own type
    """Return the prompt of a call.

    Args:
        source: a string, a list of messages, or None when the call has no visible prompt.
        arguments: the call's other arguments; `tools`, `functions` and `response_format` count.
    """
    tools = [given for name in ("tools", "functions") if (given := arguments.get(name))]
    schema = arguments.get("response_format") or None
    needs = _needs(tools, schema)
    if isinstance(source, str):
        return Prompt(prompt_text([source]), _tokenizer.measure(source), needs)
    if isinstance(source, list | tuple):
        messages = list(source)
        size = measure_messages(messages, tokenizer=_tokenizer, tools=tools, response_format=schema)
        needs |= {"vision"} if size.images else frozenset()
        return Prompt(prompt_text(messages), size, needs, messages)
    return Prompt("", _NOTHING, needs)


def measured(text: str) -> InputSize:
    """Return the size of a text, counted as prompts are."""
    return _tokenizer.measure(text)


def _needs(tools: Any, schema: Any) -> frozenset[str]:  # noqa: ANN401 - the caller's or the library's own type
    needs = {"tools"} if tools else set()
    if schema is not None and not (
        isinstance(schema, Mapping) and schema.get("type") in {"text", "json_object"}
    ):
        needs.add("response_schema")
    return frozenset(needs)


def may_instruct(arguments: Mapping[str, Any]) -> bool:
    """Say whether a call's messages can take the chain-of-thought instruction.

    Not where the answer has a form to keep: with tools or a response format.
    """
    messages, schema = arguments.get("messages"), arguments.get("response_format")
    if arguments.get("tools") or arguments.get("functions"):
        return False
    if schema and not (isinstance(schema, Mapping) and schema.get("type") == "text"):
        return False
    return isinstance(messages, list | tuple) and bool(messages)


def with_cot(messages: Sequence[Any], *, part: str = "text") -> list[Any]:
    """Return the messages with the chain-of-thought instruction after the last user turn's text.

    The caller's list and messages are not changed.

    Args:
        messages: the conversation.
        part: the type of a text part, where the turn's content is a list of parts.
    """
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, dict) and message.get("role") == "user":
            changed = dict(message, content=_instructed(message.get("content"), part))
            return [*messages[:place], changed, *messages[place + 1 :]]
    return [*messages, {"role": "user", "content": COT_INSTRUCTION}]


def _instructed(content: Any, part: str) -> Any:  # noqa: ANN401 - the caller's or the library's own type
    if isinstance(content, list):
        return [*content, {"type": part, "text": COT_INSTRUCTION}]
    return f"{content or ''}\n\n{COT_INSTRUCTION}".lstrip()
