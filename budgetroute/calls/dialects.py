"""Dialects: what a client's parameters say, in the words of chat completions, and the way back.

Routing knows `messages`, `reasoning_effort` and `response_format`. OpenAI's Responses say `input`,
`reasoning` and `text`; Anthropic's Messages keep the system prompt apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from budgetroute.calls.prompts import with_cot

if TYPE_CHECKING:
    from budgetroute.records import Axis

LEFT_OUT: Final = object()
"""In place of a value: the argument is taken away, so that the parameter's default holds."""

_Given: TypeAlias = Mapping[str, Any]
_NOTHING: frozenset[Axis] = frozenset()
_RESPONSES_OWN = frozenset(
    {"input", "instructions", "reasoning", "text", "text_format", "parse_as"}
)
_ENCRYPTED = "reasoning.encrypted_content"
_OUTPUTS = frozenset({"custom_tool_call_output", "function_call_output"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API of a client.

    Attributes:
        name: how errors call it.
        carries: the axes that its parameters carry.
        asks_usage: its streams report usage only when asked.
        heard: what was passed, in the words of chat completions.
        spoken: what is sent, in its own words; given what was passed.
        tied: the axes that other parameters of a call fix, because another value may be refused.
        unseen: how many parts of a call's input the provider looks up, so that they are not seen.
    """

    name: str
    carries: frozenset[Axis]
    asks_usage: bool = False
    heard: Callable[[_Given], dict[str, Any]] = dict
    spoken: Callable[[dict[str, Any], _Given], dict[str, Any]] = lambda sent, _: sent
    tied: Callable[[_Given], frozenset[Axis]] = lambda _: _NOTHING
    unseen: Callable[[_Given], int] = lambda _: 0


def field_of(value: object, name: str) -> Any:  # noqa: ANN401 - the caller's own
    """Return a field of a dict or an object; None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def items_of(given: _Given) -> list[Any]:
    """Return the items of a Responses call's `input`; none for a plain text."""
    found = given.get("input")
    return list(found) if isinstance(found, list | tuple) else []


def _responses_heard(given: _Given) -> dict[str, Any]:
    heard = {name: value for name, value in given.items() if name not in _RESPONSES_OWN}
    heard["messages"] = list(_turns(given))
    schema = given.get("text_format")
    form = schema if isinstance(schema, type) else field_of(given.get("text"), "format")
    heard |= {"response_format": form} if form is not None else {}
    effort = field_of(given.get("reasoning"), "effort")
    return heard | ({"reasoning_effort": effort} if effort is not None else {})


def _turns(given: _Given) -> Iterator[Any]:
    instructions, asked = given.get("instructions"), given.get("input")
    if isinstance(instructions, str):
        yield {"role": "system", "content": instructions}
    if isinstance(asked, str):
        yield {"role": "user", "content": asked}
    for item in items_of(given):
        is_output = field_of(item, "type") in _OUTPUTS
        yield {"role": "tool", "content": field_of(item, "output")} if is_output else item


def _responses_spoken(sent: dict[str, Any], given: _Given) -> dict[str, Any]:
    spoken = {k: v for k, v in sent.items() if k not in {"messages", "reasoning_effort"}}
    if "messages" in sent:
        asked = given.get("input")
        turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else items_of(given)
        turns = with_cot(turns, part="input_text")
        spoken["input"] = turns[0]["content"] if isinstance(asked, str) else turns
    if "reasoning_effort" in sent:
        spoken["reasoning"] = _reasoning(sent, given)
    return spoken


def _reasoning(sent: _Given, given: _Given) -> object:
    """Return `reasoning` with the chosen effort; another model without one may refuse the rest."""
    effort, passed = sent["reasoning_effort"], given.get("reasoning")
    rest = {k: v for k, v in passed.items() if k != "effort"} if isinstance(passed, Mapping) else {}
    if effort is not LEFT_OUT:
        return {**rest, "effort": effort}
    return rest if rest and sent.get("model") == given.get("model") else LEFT_OUT


def _responses_tied(given: _Given) -> frozenset[Axis]:
    """Tie the model: others cannot read its reasoning, or have none to hand out."""
    asked = given.get("include")
    thought = any(field_of(item, "type") == "reasoning" for item in items_of(given))
    tied = thought or (isinstance(asked, list | tuple) and _ENCRYPTED in asked)
    return frozenset({"model"}) if tied else _NOTHING


def _responses_unseen(given: _Given) -> int:
    """Return how many items are reasoning that is passed by its id."""
    thoughts = (item for item in items_of(given) if field_of(item, "type") == "reasoning")
    return sum(not field_of(item, "encrypted_content") for item in thoughts)


def _messages_heard(given: _Given) -> dict[str, Any]:
    system, messages = given.get("system"), given.get("messages")
    heard = {name: value for name, value in given.items() if name != "system"}
    if isinstance(system, str | list | tuple) and isinstance(messages, list | tuple):
        heard["messages"] = [{"role": "system", "content": system}, *messages]
    form = given.get("output_format") or field_of(given.get("output_config"), "format")
    return heard | ({"response_format": form} if isinstance(form, type | Mapping) else {})


def _messages_spoken(sent: dict[str, Any], given: _Given) -> dict[str, Any]:
    return sent | {"messages": with_cot(given["messages"])} if "messages" in sent else sent


def _messages_tied(given: _Given) -> frozenset[Axis]:
    """Tie what the model alone defines: efforts and speeds; thinking needs room under the cap too."""
    thinking = field_of(given.get("thinking"), "type")
    if isinstance(thinking, str) and thinking != "disabled":
        return frozenset({"model", "max_tokens"})
    effort = field_of(given.get("output_config"), "effort")
    return frozenset({"model"}) if isinstance(effort or given.get("speed"), str) else _NOTHING


CHAT = Dialect(
    "chat completions",
    frozenset({"model", "max_tokens", "cot", "reasoning_effort", "temperature", "n", "params"}),
    asks_usage=True,
)
RESPONSES = Dialect(
    "responses",
    frozenset({"model", "max_tokens", "cot", "reasoning_effort", "temperature", "params"}),
    heard=_responses_heard,
    spoken=_responses_spoken,
    tied=_responses_tied,
    unseen=_responses_unseen,
)
MESSAGES = Dialect(
    "messages",
    frozenset({"model", "max_tokens", "cot", "temperature", "params"}),
    heard=_messages_heard,
    spoken=_messages_spoken,
    tied=_messages_tied,
)
