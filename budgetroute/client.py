"""`completion` and `acompletion`: litellm's call with a budget and with one owner of retries.

Each attempt has its own reservation. litellm's and the SDK's own retries are off; user `fallbacks`
are refused, because they would send what was never priced.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.backends.failures import is_retryable, retry_after
from budgetroute.calls.flight import Flight
from budgetroute.calls.prompts import Prompt, read_prompt, with_cot
from budgetroute.calls.routers import default_router, is_off
from budgetroute.context import current_pins, current_runs, current_tags
from budgetroute.errors import BudgetRouteError, ConfigError
from budgetroute.records import AXES, Action, Pins, Plan, Request
from budgetroute.units import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tenacity import AsyncRetrying, RetryCallState, Retrying

    from budgetroute.records import Axis
    from budgetroute.router import Router

BACKOFF_S = 0.5
"""First back-off between attempts, seconds; doubled and jittered, at most 8 s."""
_BACKOFF_MAX_S = 8.0
_DEFAULT_TIMEOUT_S = 600.0
_CAP_NAMES = ("max_tokens", "max_completion_tokens")
_SENT: frozenset[Axis] = frozenset(AXES)


@dataclass(frozen=True, slots=True)
class _Order:
    """One call to `completion`: what was asked, by whom, and until when it may be tried."""

    request: Request
    prompt: Prompt
    router: Router
    extra: dict[str, Any]
    attempts: int
    deadline: float

    def arguments(self, flight: Flight) -> dict[str, Any]:
        """Return what litellm is called with; the time left is the attempt's timeout."""
        action = flight.decision.action
        messages = self.prompt.messages or []
        plan = Plan(action, with_cot(messages) if action.cot else messages)
        left = max(0.001, self.deadline - time.monotonic())
        return {**self.extra, **plan.kwargs(), "timeout": left}

    def wait(self, state: RetryCallState) -> float:
        """Return seconds until the next attempt: what the provider asks for, else a back-off."""
        error = state.outcome.exception() if state.outcome else None
        asked = None if error is None else retry_after(error)
        if asked is not None:
            return asked
        top = min(_BACKOFF_MAX_S, BACKOFF_S * 2.0**state.attempt_number)
        return top * (0.5 + secrets.randbelow(1000) / 2000)

    def stop(self, state: RetryCallState) -> bool:
        """Say whether to give up: no attempt left, or the wait would outlast the deadline."""
        late = time.monotonic() + self.wait(state) >= self.deadline
        return state.attempt_number >= self.attempts or late


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
        attempts: tries at most, each with its own reservation.
        timeout: seconds for all attempts together; default: the route's `timeout_s`, else 600.
        router: the router to ask; default: the one of budgetroute.toml.
        extra: passed on to litellm; `max_tokens` is a ceiling and the baseline's cap.

    Raises:
        BudgetExceeded, NoEligibleAction, UnpricedModel, ConfigError, StoreError: before the call.
        litellm's exceptions: from the last attempt.
    """
    from budgetroute.backends.litellm_backend import LiteLLMBackend

    backend = LiteLLMBackend()
    if is_off(router):
        return backend.complete(messages=list(messages), model=model, timeout=timeout, **extra)
    order = _order(
        messages, model, extra,
        route=route, prompt_type=prompt_type, floor=floor, require=require, providers=providers,
        attempts=attempts, timeout=timeout, router=router,
    )  # fmt: skip
    flight = Flight(order.router, order.request)
    for attempt in _retrying(order):
        with attempt:
            if attempt.retry_state.attempt_number > 1:
                flight.retry()
            with flight:
                answer = backend.complete(**order.arguments(flight))
                flight.finish(answer)
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
        return await backend.acomplete(
            messages=list(messages), model=model, timeout=timeout, **extra
        )
    order = _order(
        messages, model, extra,
        route=route, prompt_type=prompt_type, floor=floor, require=require, providers=providers,
        attempts=attempts, timeout=timeout, router=router,
    )  # fmt: skip
    flight = Flight(order.router, order.request)
    async for attempt in _aretrying(order):
        with attempt:
            if attempt.retry_state.attempt_number > 1:
                flight.retry()
            with flight:
                answer = await backend.acomplete(**order.arguments(flight))
                flight.finish(answer)
            return answer
    raise AssertionError("tenacity re-raises the last error")


def _order(  # noqa: PLR0913 - see `completion`
    messages: Sequence[Any],
    model: str | None,
    extra: dict[str, Any],
    *,
    route: str,
    prompt_type: str | None,
    floor: float | None,
    require: Iterable[str],
    providers: Iterable[str] | None,
    attempts: int,
    timeout: float | None,
    router: Router | None,
) -> _Order:
    _check(messages, attempts, timeout)
    asked = router or default_router()
    prompt = read_prompt(list(messages), extra)
    cap = next((extra.pop(name) for name in _CAP_NAMES if extra.get(name) is not None), None)
    limit = timeout or asked.config.route(route).timeout_s or _DEFAULT_TIMEOUT_S
    request = Request(
        route=route,
        text=prompt.text,
        size=prompt.size,
        baseline=_baseline(model, cap, extra),
        pins=current_pins().over(
            Pins(temperature=extra.pop("temperature", None), n=extra.pop("n", None))
        ),
        ceiling=cap,
        sendable=_SENT,
        needs=prompt.needs,
        providers=None if providers is None else frozenset(providers),
        require=frozenset(require),
        floor=floor,
        prompt_type=prompt_type,
        tags=current_tags(),
        run_limits=tuple((run.id, run.limit) for run in current_runs()),
        timeout_s=limit,
        seed=current_tags().get("request_id"),
    )
    return _Order(request, prompt, asked, extra, attempts, time.monotonic() + limit)


def _check(messages: Any, attempts: int, timeout: float | None) -> None:  # noqa: ANN401 - whatever was passed
    if isinstance(messages, str) or not messages:
        raise BudgetRouteError(
            f"completion(messages=…): a non-empty list of messages is needed, found "
            f"{type(messages).__name__} of length {len(messages or ())}; write "
            '[{"role": "user", "content": "…"}]'
        )
    if not is_whole(attempts):
        raise ConfigError(f"completion(attempts={attempts!r}): a whole number of 1 or more")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"completion(timeout={timeout!r}): seconds, more than 0")


def _baseline(model: str | None, cap: int | None, extra: dict[str, Any]) -> Action | None:
    effort = extra.pop("reasoning_effort", None)
    if model is None or cap is None:
        return None
    return Action(model, cap, reasoning_effort=effort)


def _retrying(order: _Order) -> Retrying:
    import tenacity

    return tenacity.Retrying(
        stop=order.stop,
        wait=order.wait,
        retry=tenacity.retry_if_exception(is_retryable),
        reraise=True,
    )


def _aretrying(order: _Order) -> AsyncRetrying:
    import tenacity

    return tenacity.AsyncRetrying(
        stop=order.stop,
        wait=order.wait,
        retry=tenacity.retry_if_exception(is_retryable),
        reraise=True,
    )
