"""Carries a decision into a function's arguments, and a call's arguments into a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from budgetroute.calls.bounds import refuse_unbounded
from budgetroute.calls.prompts import Prompt, may_instruct, read_prompt, with_cot
from budgetroute.calls.routers import default_router, usual_cap
from budgetroute.calls.said import EXTRA_BODY, ROUTED, Said, is_silent, said_in, usage_asked
from budgetroute.calls.sending import cap_name, parts_for, put
from budgetroute.context import current_pins, current_runs, current_tags
from budgetroute.errors import ConfigError
from budgetroute.records import Action, Pins, Plan, Request
from budgetroute.terms import terms_asked, unbilled_tools

if TYPE_CHECKING:
    import inspect

    from budgetroute.calls.options import Options
    from budgetroute.calls.shape import Shape
    from budgetroute.records import Decision, InputSize
    from budgetroute.router import Router

_READ = ("functions", "input", "messages", "system", "tools")
"""Parameters that count as input."""
_READY = (list, tuple, str, Mapping)
_STANDING = frozenset({
    EXTRA_BODY, "config", "functions", "inference_geo", "max_tool_calls", "response_format",
    "search_parameters", "service_tier", "speed", "timeout", "tools", "web_search_options",
})  # fmt: skip
"""Parameters whose defaults (a `functools.partial` has them) cost money or forbid actions."""
_UNASKED = frozenset({
    "cerebras", "cohere", "databricks", "mistral", "perplexity", "snowflake", "watsonx",
})  # fmt: skip
"""Providers that litellm sends no `stream_options`: they refuse them, or report without."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One call's arguments.

    Attributes:
        bound: as bound to the signature.
        raw: flat, by name; of a client's method with what a `functools.partial` has set.
        passed: the same in the words of chat completions.
        given: the same over those defaults of the function that cost or forbid something.
        said: what they say about the action.
    """

    bound: inspect.BoundArguments = field(repr=False)
    raw: dict[str, Any] = field(repr=False)
    passed: dict[str, Any] = field(repr=False)
    given: Mapping[str, Any] = field(repr=False)
    said: Said


@dataclass(frozen=True, slots=True)
class Carrier:
    """A decorated function's way in and out.

    Attributes:
        shape: what the function can carry.
        options: what `@route(...)` was told.
        route: the route's name.
        usual: what the function's defaults say about the action.
        standing: what its defaults send besides: tools, a service tier.
        preset: what is set in a client's method, as by `functools.partial`.
    """

    shape: Shape
    options: Options
    route: str
    usual: Said = field(init=False)
    standing: Mapping[str, Any] = field(init=False)
    preset: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        read = ROUTED | {EXTRA_BODY}
        defaults = {name: v for name, v in self.shape.defaults.items() if name in read}
        where = f"@route on {self.shape.name}()"
        object.__setattr__(self, "usual", said_in(defaults, where=where))
        standing = {name: v for name, v in self.shape.defaults.items() if name in _STANDING}
        object.__setattr__(self, "standing", standing)
        set_here = self.shape.defaults.items() if self.shape.is_client else ()
        preset = {name: v for name, v in set_here if not is_silent(v)}
        object.__setattr__(self, "preset", preset)

    def read_once(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments with input that can be read more than once.

        Raises:
            TypeError: the call does not fit the function, as calling it would.
        """
        ready = not any(_is_read_once(kwargs.get(name)) for name in self._inputs)
        if ready and (not args or "messages" in kwargs):
            return args, dict(kwargs)
        bound = self.shape.signature.bind_partial(*args, **kwargs)
        self._read(bound)
        return bound.args, bound.kwargs

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """Return a call's arguments, without defaults.

        Raises:
            TypeError: the call does not fit the function, as calling it would.
            ConfigError: a routed parameter has a value that is no part of an action, or a client's
                call costs what cannot be bounded.
        """
        shape, where = self.shape, f"{self.shape.name}()"
        bound = shape.signature.bind_partial(*args, **kwargs)
        raw = {**self.preset, **self._read(bound)}
        if shape.is_client:
            refuse_unbounded(shape.dialect, raw, where=where)
        passed = shape.dialect.heard(raw)
        said = said_in(passed, where=where)
        return Bound(bound, raw, passed, {**self.standing, **passed}, said)

    @property
    def _inputs(self) -> tuple[str, ...]:
        return _READ if self.shape.is_client else ("messages",)

    def _read(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return arguments flat; what can be read only once is read here, and sent as these lists."""
        raw = dict(bound.arguments)
        extra = self.shape.extra
        if extra is not None and extra in raw:
            raw |= raw.pop(extra)
        read = {name: list(v) for name in self._inputs if _is_read_once(v := raw.get(name))}
        if read:
            put(self.shape, bound.arguments, read)
        return raw | read

    def request(self, call: Bound) -> tuple[Request, Prompt]:
        """Return the request that a call makes, with its prompt."""
        prompt = self._prompt(call)
        options, shape = self.options, self.shape
        sendable = shape.sendable if may_instruct(call.given) else shape.sendable_as_text
        baseline = self._baseline(call.said)
        tags = current_tags()
        request = Request(
            route=self.route,
            text=prompt.text,
            size=self._with_unseen(prompt.size, call),
            baseline=baseline,
            pins=self._pins(call),
            ceiling=call.said.cap if shape.is_client else None,
            sendable=sendable,
            needs=prompt.needs,
            providers=self._providers(call.said, baseline),
            own_client=shape.own_client,
            hidden_input=not shape.is_client,
            require=options.require,
            floor=options.floor,
            prompt_type=options.prompt_type,
            tags=tags,
            run_limits=tuple([(run.id, run.limit) for run in current_runs()]),
            calls=options.calls,
            terms=terms_asked(call.given),
            unbilled=unbilled_tools(call.given),
            timeout_s=_seconds(call.given.get("timeout")),
            seed=tags.get("request_id"),
        )
        return request, prompt

    def injected(
        self, decision: Decision, prompt: Prompt, call: Bound, router: Router
    ) -> dict[str, Any]:
        """Return what carries the decision, by parameter; the caller's own arguments stay."""
        action, shape = decision.action, self.shape
        name = cap_name(shape, call.said, action, router)
        if shape.takes_plan:
            messages = prompt.messages
            return {
                "plan": Plan(
                    action, with_cot(messages) if messages and action.cot else messages, name
                )
            }
        sent = parts_for(shape, said=call.said, usual=self.usual, action=action, cap_name=name)
        if action.cot and "cot" not in shape.names and may_instruct(call.given):
            sent["messages"] = with_cot(call.passed["messages"])
        provider = router.equipment.facts(action.model).card.provider
        asked = usage_asked(call.passed) if self._can_ask_usage(call, provider) else None
        sent = sent if asked is None else sent | {"stream_options": asked}
        return shape.dialect.spoken(sent, call.raw)

    def merged(
        self, call: Bound, sent: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the function with: the caller's, and what is sent.

        Raises:
            TypeError: a required argument is missing, as calling the function would say.
        """
        arguments = call.bound.arguments
        put(self.shape, arguments, sent)
        missing = self.shape.required - arguments.keys()
        if missing:
            names = ", ".join(repr(n) for n in self.shape.signature.parameters if n in missing)
            raise TypeError(f"{self.shape.name}() is missing required arguments: {names}")
        return call.bound.args, call.bound.kwargs

    def _can_ask_usage(self, call: Bound, provider: str) -> bool:
        """Say whether this call streams, and may be told to report its usage at the end.

        A body that reads the stream itself would meet a last chunk without choices. So only where
        the stream comes back: clients' methods, and functions that hand `stream` on unseen or
        declare `stream_options`.
        """
        shape, known = self.shape, self.shape.signature.parameters
        if not shape.dialect.asks_usage or (shape.own_client and provider in _UNASKED):
            return False
        streams = bool(call.passed.get("stream", shape.defaults.get("stream")))
        if shape.is_client:
            return streams or shape.name == "stream"
        hands_on = shape.extra is not None and "stream" not in known
        return streams and not shape.yields and (hands_on or "stream_options" in known)

    def _router(self) -> Router:
        return self.options.router or default_router()

    def _with_unseen(self, size: InputSize, call: Bound) -> InputSize:
        """Return the size with room for what the provider looks up: the route's `input_tokens` each."""
        parts = self.shape.dialect.unseen(call.raw) if self.shape.is_client else 0
        if not parts:
            return size
        room = parts * self._router().config.route(self.route).input_tokens
        return replace(size, framing=size.framing + room)

    def _pins(self, call: Bound) -> Pins:
        """Return what is fixed; see `Shape.is_client`."""
        said = call.said
        if self.shape.is_client:
            return current_pins().over(self._ties(call))
        explicit = Pins(
            said.model or (None if "model" in self.shape.sendable else self.options.model),
            said.cap or (None if "max_tokens" in self.shape.sendable else self.options.max_tokens),
            said.cot,
            said.reasoning_effort,
            said.temperature,
            said.n,
        )
        return explicit.over(current_pins())

    def _ties(self, call: Bound) -> Pins:
        """Return what a client's call fixes: its samples, and what other parameters hang on."""
        said, tied = call.said, self.shape.dialect.tied(call.raw)
        return Pins(
            model=said.model if "model" in tied or self.shape.one_model else None,
            max_tokens=said.cap if "max_tokens" in tied else None,
            temperature=said.temperature,
            n=said.n,
        )

    def _baseline(self, said: Said) -> Action | None:
        """Return what the code would do without routing; None where that cannot be said."""
        usual, options = self.usual, self.options
        model = said.model or usual.model or options.model
        if model is None:
            return None
        cap = said.cap or usual.cap or options.max_tokens or usual_cap(self._router(), model)
        if cap is None:
            return None
        temperature = usual.temperature if said.temperature is None else said.temperature
        return Action(
            model,
            cap,
            bool(usual.cot if said.cot is None else said.cot),
            said.reasoning_effort or usual.reasoning_effort,
            temperature,
            said.n or usual.n or 1,
        )

    def _providers(self, said: Said, baseline: Action | None) -> frozenset[str] | None:
        """Return the providers the function serves; None leaves it to config and the baseline.

        A client's model without a known cap makes no baseline, but it still says whose client it is.
        """
        model = said.model or self.usual.model or self.options.model
        own = self.options.providers
        if own is not None or baseline is not None or not self.shape.own_client:
            return own
        router = self._router()
        written = router.config.route(self.route).providers
        if model is not None:
            return frozenset(written or {router.equipment.facts(model).card.provider})
        if self.shape.is_client and not written and current_pins().model is None:
            raise ConfigError(
                f"{self.shape.name}() was called without model=: it is the baseline, and says whose "
                "models this client reaches. Pass one, or say providers=[…]."
            )
        return None

    def _prompt(self, call: Bound) -> Prompt:
        source, passed, given = self.options.prompt, call.passed, call.given
        if callable(source):
            return read_prompt(source(*call.bound.args, **call.bound.kwargs), given)
        if source is not None:
            return read_prompt(passed.get(source, self.shape.defaults.get(source)), given)
        messages = passed.get("messages", self.shape.defaults.get("messages"))
        if "messages" in passed or isinstance(messages, list | tuple):
            return read_prompt(messages, given)
        texts = (v for k, v in passed.items() if isinstance(v, str) and k not in ROUTED)
        return read_prompt(next(texts, None), given)


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


def _is_read_once(value: Any) -> TypeGuard[Iterable[Any]]:  # noqa: ANN401 - the caller's own
    return isinstance(value, Iterable) and not isinstance(value, _READY)


def _seconds(value: Any) -> float | None:  # noqa: ANN401 - the caller's or the library's own type
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None
