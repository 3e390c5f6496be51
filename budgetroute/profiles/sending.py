"""Whether a provider takes an action, and which actions are the same call on the wire."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from budgetroute.records import Action, ModelCard

SAME_EFFORT: dict[str, dict[str, str]] = {
    "anthropic": {"minimal": "low"},
    "bedrock": {"minimal": "low"},
    "bedrock_converse": {"minimal": "low"},
    "mistral": {"minimal": "high", "low": "high", "medium": "high", "xhigh": "high"},
    "ollama": {"minimal": "none", "xhigh": "none", "medium": "low", "high": "low"},
    "ollama_chat": {"minimal": "none", "xhigh": "none", "medium": "low", "high": "low"},
}
"""Provider → effort → the one that litellm sends the same parameters for (seen, litellm 1.110)."""


class Refusal(NamedTuple):
    """Why an action may fail at its provider; sure where the price map says so."""

    reason: str
    is_sure: bool


def refusals(action: Action, card: ModelCard) -> Iterator[Refusal]:
    """Yield what a provider would object to.

    >>> from budgetroute.records import Action, ModelCard
    >>> card = ModelCard("m", "openai", max_output_tokens=4096)
    >>> [refusal.reason for refusal in refusals(Action("m", 8192), card)]
    ['the model writes at most 4,096 tokens']
    """
    most = card.max_output_tokens
    if most is not None and action.max_tokens > most:
        yield Refusal(f"the model writes at most {most:,} tokens", is_sure=True)
    if action.temperature is not None and card.supports.get("sampling") is False:
        yield Refusal("the model takes no temperature", is_sure=True)
    if action.reasoning_effort is not None:
        yield from _on_effort(action.reasoning_effort, card)


def _on_effort(effort: str, card: ModelCard) -> Iterator[Refusal]:
    reasons = card.supports.get("reasoning")
    if reasons is False:
        yield Refusal("the model takes no reasoning_effort", is_sure=True)
    elif reasons is None and card.provider != "custom" and not card.efforts:
        yield Refusal("the price map does not say that the model reasons", is_sure=False)
    elif card.efforts.get(effort) is False:
        known = ", ".join(name for name, taken in card.efforts.items() if taken)
        hint = f"; it takes {known}" if known else ""
        yield Refusal(f"the model does not take effort {effort!r}{hint}", is_sure=True)


def same_calls(pairs: Iterable[tuple[Action, ModelCard]]) -> Iterator[tuple[Action, ...]]:
    """Yield actions that differ in the profile but not on the wire, two or more at a time."""
    groups: dict[tuple[object, ...], list[Action]] = defaultdict(list)
    for action, card in pairs:
        effort = action.reasoning_effort
        sent = SAME_EFFORT.get(card.provider, {}).get(effort or "", effort)
        rest = (action.model, action.max_tokens, action.cot, action.temperature, action.n)
        groups[*rest, sent, repr(action.params)].append(action)
    yield from (tuple(actions) for actions in groups.values() if len(actions) > 1)
