"""Carries a decision into a function's arguments, and a call's arguments into a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.calls.prompts import Prompt, read_prompt, with_cot
from budgetroute.context import current_pins, current_runs, current_tags
from budgetroute.decorate.shape import CAP_NAMES
from budgetroute.errors import ConfigError
from budgetroute.records import Action, Pins, Plan, Request

if TYPE_CHECKING:
    import inspect
    from collections.abc import Mapping

    from budgetroute.decorate.options import Options
    from budgetroute.decorate.shape import Shape
    from budgetroute.records import Decision
    from budgetroute.router import Router

_ROUTED = {*CAP_NAMES, "model", "cot", "reasoning_effort", "temperature", "n", "plan"}


@dataclass(frozen=True, slots=True)
class Bound:
    """One call's arguments: as bound to the signature, and flat, each by its name."""

    bound: inspect.BoundArguments
    passed: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Carrier:
    """A decorated function's way in and out.

    Attributes:
        shape: what the function can carry.
        options: what `@route(...)` was told.
        route: the route's name.
    """

    shape: Shape
    options: Options
    route: str

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """Return a call's arguments, without defaults.

        Raises:
            TypeError: the call does not fit the function, as calling it would.
        """
        bound = self.shape.signature.bind_partial(*args, **kwargs)
        passed = dict(bound.arguments)
        if self.shape.extra is not None and self.shape.extra in passed:
            passed |= passed.pop(self.shape.extra)
        return Bound(bound, passed)

    def request(self, call: Bound) -> tuple[Request, Prompt]:
        """Return the request that a call makes, with its prompt."""
        passed = call.passed
        prompt = self._prompt(call)
        options, shape = self.options, self.shape
        pins, ceiling = self._pins(passed)
        tags = current_tags()
        request = Request(
            route=self.route,
            text=prompt.text,
            size=prompt.size,
            baseline=self._baseline(passed),
            pins=pins,
            ceiling=ceiling,
            sendable=shape.sendable if prompt.messages else shape.sendable_as_text,
            needs=prompt.needs,
            providers=options.providers,
            own_client=shape.own_client,
            hidden_input=not shape.is_client,
            require=options.require,
            floor=options.floor,
            prompt_type=options.prompt_type,
            tags=tags,
            run_limits=tuple([(run.id, run.limit) for run in current_runs()]),
            calls=options.calls,
            timeout_s=_seconds(passed.get("timeout")),
            seed=tags.get("request_id"),
        )
        return request, prompt

    def injected(
        self, decision: Decision, prompt: Prompt, passed: Mapping[str, Any], router: Router
    ) -> dict[str, Any]:
        """Return the keyword arguments that carry the decision; the caller's own ones stay."""
        action, shape = decision.action, self.shape
        messages = prompt.messages
        if messages is not None and action.cot and "cot" not in shape.names:
            messages = with_cot(messages)
        cap_name = self._cap_name(action, passed, router)
        if shape.takes_plan:
            return {"plan": Plan(action, messages, cap_name)}
        sent = self._parts(action, cap_name)
        if messages is not prompt.messages:
            sent["messages"] = messages
        return sent

    def merged(
        self, call: Bound, sent: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the function with: the caller's, and what is sent."""
        arguments, extra = call.bound.arguments, self.shape.extra
        for name, value in sent.items():
            if name in self.shape.signature.parameters:
                arguments[name] = value
            elif extra is not None:
                arguments[extra] = {**arguments.get(extra, {}), name: value}
        return call.bound.args, call.bound.kwargs

    def _parts(self, action: Action, cap_name: str) -> dict[str, Any]:
        """Return each part of the action that this function has a parameter for."""
        shape = self.shape
        base = shape.defaults
        parts: dict[str, Any] = {"model": action.model, cap_name: action.max_tokens}
        parts["cot"] = action.cot
        if action.reasoning_effort is not None or base.get("reasoning_effort") is not None:
            parts["reasoning_effort"] = action.reasoning_effort
        if action.temperature is not None:
            parts["temperature"] = action.temperature
        if action.n != 1:
            parts["n"] = action.n
        named = {*shape.names.values()}
        openly = (
            {"model", cap_name, "reasoning_effort", "temperature", "n"} if shape.open else set()
        )
        sent = {name: value for name, value in parts.items() if name in named | openly}
        return sent | (dict(action.params) if shape.open else {})

    def _cap_name(self, action: Action, passed: Mapping[str, Any], router: Router) -> str:
        """Return the parameter that carries the cap: the caller's, the function's, or the model's."""
        for name in CAP_NAMES:
            if name in passed:
                return name
        if not self.shape.is_client and "max_tokens" in self.shape.names:
            return self.shape.names["max_tokens"]
        card = router.equipment.facts(action.model).card
        reasoning = card.provider in {"openai", "azure"} and card.supports.get("reasoning")
        return "max_completion_tokens" if reasoning and self.shape.own_client else "max_tokens"

    def _pins(self, passed: Mapping[str, Any]) -> tuple[Pins, int | None]:
        """Return what is fixed, and the ceiling on the cap; see `Shape.is_client`."""
        said = {axis: passed.get(name) for axis, name in self.shape.names.items()}
        cap = next((passed[name] for name in CAP_NAMES if passed.get(name) is not None), None)
        if self.shape.is_client:
            fixed = Pins(temperature=passed.get("temperature"), n=passed.get("n"))
            return current_pins().over(fixed), cap
        explicit = Pins(
            model=said.get("model") or self._stated("model"),
            max_tokens=cap if "max_tokens" in self.shape.sendable else self.options.max_tokens,
            cot=said.get("cot"),
            reasoning_effort=said.get("reasoning_effort"),
            temperature=said.get("temperature"),
            n=said.get("n"),
        )
        return explicit.over(current_pins()), None

    def _stated(self, axis: str) -> str | None:
        return self.options.model if axis not in self.shape.sendable else None

    def _baseline(self, passed: Mapping[str, Any]) -> Action | None:
        """Return what the code would do without routing; None if it does not say model and cap."""
        defaults, options = self.shape.defaults, self.options
        seen = {**{k: v for k, v in defaults.items() if k in _ROUTED}, **passed}
        model = seen.get("model") or options.model
        cap = next((seen[name] for name in CAP_NAMES if seen.get(name)), options.max_tokens)
        if not isinstance(model, str) or not isinstance(cap, int) or isinstance(cap, bool):
            return None
        return Action(
            model=model,
            max_tokens=cap,
            cot=bool(seen.get("cot", False)),
            reasoning_effort=_text(seen.get("reasoning_effort")),
            temperature=_real(seen.get("temperature")),
            n=seen["n"] if isinstance(seen.get("n"), int) else 1,
        )

    def _prompt(self, call: Bound) -> Prompt:
        source, passed = self.options.prompt, call.passed
        if callable(source):
            return read_prompt(source(*call.bound.args, **call.bound.kwargs), passed)
        if source is not None:
            return read_prompt(passed.get(source, self.shape.defaults.get(source)), passed)
        if "messages" in passed:
            return read_prompt(passed["messages"], passed)
        texts = (v for k, v in passed.items() if isinstance(v, str) and k not in _ROUTED)
        return read_prompt(next(texts, None), passed)


def check_shape(shape: Shape, options: Options) -> None:
    """Refuse, at decoration, a function that cannot carry a model or a cap.

    Raises:
        ConfigError: what is missing and what to write.
    """
    named = options.prompt
    if isinstance(named, str) and named not in shape.signature.parameters and not shape.extra:
        raise ConfigError(
            f"@route(prompt={named!r}) on {shape.name}(): it has no such parameter; it has "
            f"{', '.join(shape.signature.parameters)}"
        )
    if "max_tokens" not in shape.sendable and options.max_tokens is None:
        raise ConfigError(
            f"@route on {shape.name}(): it has no parameter for the cap, so what a call can cost is "
            f"not bounded. Add `max_tokens=800` to its parameters and send it, or say what its body "
            f"sends: @route(max_tokens=800)."
        )
    if "model" not in shape.sendable and options.model is None:
        raise ConfigError(
            f"@route on {shape.name}(): it has no parameter `model`, so nothing can be chosen or "
            f'priced. Add `model="gpt-4o-mini"` to its parameters and send it, or say what its body '
            f'sends: @route(model="gpt-4o-mini").'
        )


def _seconds(value: Any) -> float | None:  # noqa: ANN401 - the caller's or the library's own type
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None


def _text(value: Any) -> str | None:  # noqa: ANN401 - the caller's or the library's own type
    return value if isinstance(value, str) else None


def _real(value: Any) -> float | None:  # noqa: ANN401 - the caller's or the library's own type
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
