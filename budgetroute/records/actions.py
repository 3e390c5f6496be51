"""What can be chosen, and what the user fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Axis: TypeAlias = Literal[
    "model", "max_tokens", "cot", "reasoning_effort", "temperature", "n", "params"
]
AXES: tuple[Axis, ...] = (
    "model",
    "max_tokens",
    "cot",
    "reasoning_effort",
    "temperature",
    "n",
    "params",
)


@dataclass(frozen=True, slots=True)
class Action:
    """One way to answer a prompt: what is sent apart from the prompt itself.

    Attributes:
        model: the name that reaches the user's function or litellm verbatim.
        max_tokens: the cap on output tokens that is sent (per choice).
        cot: add the chain-of-thought instruction to the prompt.
        reasoning_effort: a reasoning model's effort; None sends none.
        temperature: None sends none.
        n: choices asked for; every one is billed.
        params: further request parameters as sorted (name, value) pairs.
    """

    model: str
    max_tokens: int
    cot: bool = False
    reasoning_effort: str | None = None
    temperature: float | None = None
    n: int = 1
    params: tuple[tuple[str, Any], ...] = ()

    @property
    def family(self) -> str:
        """Return what all caps of one choice share: the model and how it is to think.

        >>> Action("gpt-5", 1024, cot=True, reasoning_effort="low").family
        'gpt-5|cot|low'
        """
        if not self.cot and self.reasoning_effort is None:
            return self.model
        parts = [self.model, *["cot"] * self.cot, self.reasoning_effort or ""]
        return "|".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """Return the short name used in logs and tables.

        >>> Action("gpt-4o-mini", 1024, cot=True).label
        'gpt-4o-mini/1024/cot'
        """
        parts = [self.model, str(self.max_tokens)]
        parts += ["cot"] * self.cot
        parts += [self.reasoning_effort] if self.reasoning_effort else []
        parts += [f"t{self.temperature:g}"] if self.temperature is not None else []
        parts += [f"n{self.n}"] if self.n != 1 else []
        parts += [f"{name}={value}" for name, value in self.params]
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Pins:
    """Parts of the action the user fixed with `pin()` or an explicit argument; None = free."""

    model: str | None = None
    max_tokens: int | None = None
    cot: bool | None = None
    reasoning_effort: str | None = None
    temperature: float | None = None
    n: int | None = None

    def over(self, other: Pins) -> Pins:
        """Return these pins with the gaps filled from `other`."""
        return Pins(
            **{
                name: mine if (mine := getattr(self, name)) is not None else getattr(other, name)
                for name in ("model", "max_tokens", "cot", "reasoning_effort", "temperature", "n")
            }
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send for one call: the chosen action with the messages that carry it.

    A function that declares a parameter `plan` receives this instead of single parameters.

    Attributes:
        action: the chosen action.
        messages: the caller's messages with the chain-of-thought instruction where the action
            has one; None when the function takes no messages.
        cap_name: the parameter that carries the cap to this model's API.
    """

    action: Action
    messages: list[dict[str, Any]] | None = field(default=None, repr=False)
    cap_name: str = "max_tokens"

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self.action.model

    @property
    def max_tokens(self) -> int:
        """Return the cap on output tokens."""
        return self.action.max_tokens

    @property
    def cot(self) -> bool:
        """Say whether the prompt should ask for step-by-step reasoning."""
        return self.action.cot

    def kwargs(self) -> dict[str, Any]:
        """Return the request parameters, ready for `client.chat.completions.create(**...)`."""
        act = self.action
        sent: dict[str, Any] = {"model": act.model, self.cap_name: act.max_tokens}
        if act.reasoning_effort is not None:
            sent["reasoning_effort"] = act.reasoning_effort
        if act.temperature is not None:
            sent["temperature"] = act.temperature
        if act.n != 1:
            sent["n"] = act.n
        if self.messages is not None:
            sent["messages"] = self.messages
        return sent | dict(act.params)
