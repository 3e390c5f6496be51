"""`completion` and `acompletion`: litellm's call with a budget and with one owner of retries.

Each attempt has its own reservation; `calls.attempts` says what follows a failure. litellm's and the
SDK's own retries are off; user `fallbacks` are refused, because they would send what was never priced.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from budgetroute.calls.attempts import Attempts
from budgetroute.calls.prompts import Prompt, may_instruct, read_prompt, with_cot
from budgetroute.calls.routers import default_router, is_off, usual_cap
from budgetroute.calls.said import CAP_NAMES, said_in, usage_asked
from budgetroute.calls.shadowing import followed
from budgetroute.calls.streams import aprime, finished, prime
from budgetroute.context import current_pins, current_runs, current_tags
from budgetroute.errors import BudgetRouteError, ConfigError
from budgetroute.records import AXES, Action, Pins, Plan, Request
from budgetroute.terms import terms_asked, unbilled_tools
from budgetroute.units import is_amount, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from tenacity import AsyncRetrying, Retrying

    from budgetroute.calls.flight import Flight
    from budgetroute.calls.said import Said
    from budgetroute.records import Axis
    from budgetroute.router import Router

_DEFAULT_TIMEOUT_S = 600.0
_SAID = frozenset({*CAP_NAMES, "reasoning_effort", "temperature", "n"})
"""Parameters that come back as parts of the action."""
_SENT: frozenset[Axis] = frozenset(AXES)


@dataclass(frozen=True, slots=True)
class _Order:
    """One call to `completion`: what was asked, by whom, and until when it may be tried."""

    request: Request
    prompt: Prompt
    router: Router
    extra: dict[str, Any] = field(repr=False)
    attempts: int
    deadline: float

    def started(self) -> Attempts:
        """Decide, hold the first attempt's money, and return what makes the attempts."""
        return Attempts(self.router, self.request, most=self.attempts, deadline=self.deadline)

    def arguments(self, flight: Flight) -> dict[str, Any]:
        """Return what litellm is called with; the time left is the attempt's timeout."""
        action = flight.decision.action
        messages = self.prompt.messages or []
        plan = Plan(action, with_cot(messages) if action.cot else messages)
        left = max(0.001, self.deadline - time.monotonic())
        asked = usage_asked(self.extra) if self.extra.get("stream") else None
        flight.asked_usage = asked is not None
        options = {} if asked is None else {"stream_options": asked}
        return {**self.extra, **options, **plan.kwargs(), "timeout": left}


def completion(  # noqa: PLR0913 - litellm's call and what a route can be told
    messages: Sequence[Any],
    model: str | None = None,
    *,
    route: str = "completion",
    prompt_type: str | None = None,
    floor: float | None = None,
    require: Iterable[str] = (),
    providers: Iterable[str] | None = None,
    attempts: int = 3,
    timeout: float | None = None,
    router: Router | None = None,
    **extra: Any,  # noqa: ANN401 - litellm's own parameters
) -> Any:  # noqa: ANN401 - litellm's response
    """Answer messages through litellm with the best action the budget affords.

    Args:
        messages: as for `litellm.completion`; not empty.
        model: the baseline, taken when routing itself fails; `pin(model=…)` fixes a model.
        route: the route's name, for config, overheads and logs.
        prompt_type: the prompt's type; default: classified.
        floor: least acceptable predicted reward.
        require: tags that a model must carry.
        providers: providers to consider; default: all.
        attempts: requests at most for the whole call, each with its own reservation. A model is
            tried twice, or once if the next request is the last, then another one is asked; what
            cannot heal by itself goes to another model at once (docs/retries.md).
        timeout: seconds for all attempts together; default: the route's `timeout_s`, else 600.
        router: the router to ask; default: the one of budgetroute.toml.
        extra: passed on to litellm; `max_tokens` is a ceiling and the baseline's cap.

    Raises:
        BudgetExceeded, StoreError: before the call, or from a provider's error when the next
            attempt does not fit or cannot be held.
        NoEligibleAction, UnpricedModel, ConfigError: before the call.
        litellm's exceptions: from the last attempt.
    """
    from budgetroute.backends.litellm_backend import LiteLLMBackend

    backend = LiteLLMBackend()
    if is_off(router):
        return backend.untouched(**_untouched(messages, model, timeout, extra))
    ordered = partial(
        _order, model=model, extra=extra,
        route=route, prompt_type=prompt_type, floor=floor, require=require, providers=providers,
        attempts=attempts, timeout=timeout, router=router,
    )  # fmt: skip
    if (router or default_router()).is_shadow:
        watched, sent = _watched(ordered, _untouched(messages, model, timeout, extra))
        with watched as flight:
            return _settled(flight, backend.untouched(**sent))
    order = ordered(messages)
    with order.started() as course:
        for attempt in _retrying(course):
            with attempt:
                flight = course.begin()
                with flight.until_sent():
                    sent = order.arguments(flight)
                with flight:
                    answer = finished(flight, backend.complete(**sent))
                prime(answer)
                return answer
    raise AssertionError("tenacity re-raises the last error")


async def acompletion(  # noqa: PLR0913 - litellm's call and what a route can be told
    messages: Sequence[Any],
    model: str | None = None,
    *,
    route: str = "completion",
    prompt_type: str | None = None,
    floor: float | None = None,
    require: Iterable[str] = (),
    providers: Iterable[str] | None = None,
    attempts: int = 3,
    timeout: float | None = None,  # noqa: ASYNC109 - passed on to litellm, covers all attempts
    router: Router | None = None,
    **extra: Any,  # noqa: ANN401 - litellm's own parameters
) -> Any:  # noqa: ANN401 - litellm's response
    """Answer messages through litellm, asynchronously; see `completion`."""
    from budgetroute.backends.litellm_backend import LiteLLMBackend

    backend = LiteLLMBackend()
    if is_off(router):
        return await backend.auntouched(**_untouched(messages, model, timeout, extra))
    ordered = partial(
        _order, model=model, extra=extra,
        route=route, prompt_type=prompt_type, floor=floor, require=require, providers=providers,
        attempts=attempts, timeout=timeout, router=router,
    )  # fmt: skip
    if (router or default_router()).is_shadow:
        watched, sent = _watched(ordered, _untouched(messages, model, timeout, extra))
        with watched as flight:
            return _settled(flight, await backend.auntouched(**sent))
    order = ordered(messages)
    with order.started() as course:
        async for attempt in _aretrying(course):
            with attempt:
                flight = course.begin()
                with flight.until_sent():
                    sent = order.arguments(flight)
                with flight:
                    answer = finished(flight, await backend.acomplete(**sent))
                await aprime(answer)
                return answer
    raise AssertionError("tenacity re-raises the last error")


def _untouched(
    messages: Sequence[Any], model: str | None, timeout: float | None, extra: dict[str, Any]
) -> dict[str, Any]:
    """Return litellm's arguments as they were passed, for calls while budgetroute is off."""
    if model is None:
        raise ConfigError(
            "completion() was called without model= while budgetroute is off or in shadow mode, so "
            'nobody chooses one; pass model="gpt-4o-mini", or turn it on (mode = "on", no '
            "BUDGETROUTE_DISABLE)."
        )
    if not isinstance(messages, str | Mapping):  # an iterator is read once here
        messages = list(messages)
    limit = {} if timeout is None else {"timeout": timeout}
    return {**extra, "messages": messages, "model": model, **limit}


def _watched(
    ordered: partial[_Order], sent: dict[str, Any]
) -> tuple[AbstractContextManager[Flight | None], dict[str, Any]]:
    """Return what follows a call in shadow mode, and what is sent: what was passed."""
    router = ordered.keywords["router"] or default_router()
    flight = followed(router, ordered.keywords["route"], lambda: ordered(sent["messages"]).request)
    return flight or nullcontext(), sent


def _settled(flight: Flight | None, answer: Any) -> Any:  # noqa: ANN401 - litellm's response
    return answer if flight is None else finished(flight, answer)


def _order(  # noqa: PLR0913 - see `completion`
    messages: Sequence[Any],
    *,
    model: str | None,
    extra: dict[str, Any],
    route: str,
    prompt_type: str | None,
    floor: float | None,
    require: Iterable[str],
    providers: Iterable[str] | None,
    attempts: int,
    timeout: float | None,
    router: Router | None,
) -> _Order:
    _check(attempts, timeout)
    asked = router or default_router()
    arguments = {**extra, "messages": _turns(messages), "model": model}
    prompt = read_prompt(arguments["messages"], arguments)
    said = said_in(arguments, where="completion()")
    rest = {name: value for name, value in extra.items() if name not in _SAID}
    limit = timeout or asked.config.route(route).timeout_s or _DEFAULT_TIMEOUT_S
    tags = current_tags()
    request = Request(
        route=route,
        text=prompt.text,
        size=prompt.size,
        baseline=_baseline(said, asked),
        pins=current_pins().over(Pins(temperature=said.temperature, n=said.n)),
        ceiling=said.cap,
        sendable=_SENT if may_instruct(arguments) else _SENT - {"cot"},
        needs=prompt.needs,
        providers=None if providers is None else frozenset(providers),
        require=frozenset(require),
        floor=floor,
        prompt_type=prompt_type,
        tags=tags,
        run_limits=tuple((run.id, run.limit) for run in current_runs()),
        terms=terms_asked(extra),
        unbilled=unbilled_tools(extra),
        timeout_s=limit,
        seed=tags.get("request_id"),
    )
    return _Order(request, prompt, asked, rest, attempts, time.monotonic() + limit)


def _turns(messages: Any) -> list[Any]:  # noqa: ANN401 - whatever was passed
    """Return the messages as a list; raises BudgetRouteError for what is none."""
    turns = [] if messages is None or isinstance(messages, str | Mapping) else list(messages)
    odd = next((m for m in turns if not (isinstance(m, Mapping) or hasattr(m, "role"))), None)
    if turns and odd is None:
        return turns
    found = f"a message of type {type(odd).__name__}" if turns else _shown(messages)
    raise BudgetRouteError(
        f"completion(messages=…): a non-empty list of messages is needed, found {found}; write "
        '[{"role": "user", "content": "…"}]'
    )


def _shown(messages: object) -> str:
    name = type(messages).__name__
    return name if messages or messages is None else f"an empty {name}"


def _check(attempts: int, timeout: float | None) -> None:
    if not is_whole(attempts):
        raise ConfigError(f"completion(attempts={attempts!r}): a whole number of 1 or more")
    if timeout is not None and not (is_amount(timeout) and timeout > 0):
        raise ConfigError(f"completion(timeout={timeout!r}): seconds, more than 0")


def _baseline(said: Said, router: Router) -> Action | None:
    if said.model is None:
        return None
    cap = said.cap or usual_cap(router, said.model)
    if cap is None:
        return None
    return Action(
        said.model,
        cap,
        reasoning_effort=said.reasoning_effort,
        temperature=said.temperature,
        n=said.n or 1,
    )


def _retrying(course: Attempts) -> Retrying:
    import tenacity

    return tenacity.Retrying(retry=course.go_on, wait=lambda _: course.pause, reraise=True)


def _aretrying(course: Attempts) -> AsyncRetrying:
    import tenacity

    return tenacity.AsyncRetrying(retry=course.go_on, wait=lambda _: course.pause, reraise=True)
