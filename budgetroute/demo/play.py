"""Plays the day: the user's code round the real openai client under `@route`, call by call."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.calls import last_decision
from budgetroute.clock import ManualClock
from budgetroute.context import tags
from budgetroute.decorate import route
from budgetroute.demo.result import Progress
from budgetroute.demo.server import simulated_day
from budgetroute.demo.setting import NAME, PROFILE, ROUTE
from budgetroute.errors import BudgetExceeded, ConfigError
from budgetroute.router import Router
from budgetroute.stores import DiskStore
from budgetroute.telemetry import LogObserver
from budgetroute.units import pico_from_atto, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.demo.day import Call
    from budgetroute.demo.prompts import Task
    from budgetroute.demo.setting import Setting
    from budgetroute.prices import PriceBook
    from budgetroute.protocols import Store
    from budgetroute.records import Decision, Settlement
    from budgetroute.units import Pico

MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
"""When the simulated day begins; a fixed day, so that the same seed always gives the same figures."""


@dataclass(frozen=True, slots=True)
class Served:
    """One call of the day as it went.

    Attributes:
        call: the call.
        decision: what was chosen; None = refused with BudgetExceeded.
        reward: the grade of the answer that came back; 0 for a refused call.
        settled: what the ledger booked for it.
        billed: list price of the usage that the response reported.
    """

    call: Call
    decision: Decision | None = None
    reward: float = 0.0
    settled: Pico = 0
    billed: Pico = 0


@dataclass(frozen=True, slots=True)
class Play:
    """A day that was played.

    Attributes:
        served: its calls; those made before Ctrl-C if that ended it.
        spent_usd: what the ledger says at the end.
        seconds: how long the calls took.
        interrupted: whether Ctrl-C ended the day.
    """

    served: tuple[Served, ...]
    spent_usd: float
    seconds: float
    interrupted: bool


class Bills:
    """An observer that keeps the last settlement.

    Attributes:
        last: pico-dollars of it.
        total: settled in the day after it.
    """

    def __init__(self) -> None:
        self.last: Pico = 0
        self.total: Pico = 0

    def decided(self, decision: Decision) -> None:
        """Let a decision pass; the settlement brings it again."""

    def settled(self, decision: Decision, settlement: Settlement) -> None:  # noqa: ARG002 - the protocol's
        """Keep the amount and where the day stands."""
        self.last = settlement.amount
        if settlement.balance is not None:
            self.total = settlement.balance.settled

    def stepped(self, fields: Mapping[str, object]) -> None:
        """Let a step pass; each decision says its λ."""


def messages_of(task: Task) -> list[dict[str, str]]:
    """Return the messages that ask a task."""
    return [{"role": "user", "content": task.prompt}]


def routed(router: Router, client: Any) -> Callable[..., Any]:  # noqa: ANN401 - an openai client
    """Return the demo's user code: a plain function round an OpenAI client, under `@route`."""

    @route(ROUTE, router=router)
    def answer(
        messages: list[dict[str, str]],
        *,
        model: str = "gpt-4o-mini",
        max_tokens: int = 1024,
        **options: Any,  # noqa: ANN401 - whatever else an action sends
    ) -> Any:  # noqa: ANN401 - openai's own type
        return client.chat.completions.create(
            model=model, messages=messages, max_tokens=max_tokens, **options
        )

    return answer


@dataclass(frozen=True, slots=True)
class Stage:
    """What a day is played on.

    Attributes:
        setting: what is asked for.
        prices: the price map, to check the ledger against.
        router: reads the demo's file, keeps its ledger in the demo's folder.
        clock: the router's.
        bills: what the router settled last.
    """

    setting: Setting
    prices: PriceBook
    router: Router
    clock: ManualClock
    bills: Bills


def set_stage(
    setting: Setting, prices: PriceBook, folder: Path, *, store: Store, clock: ManualClock
) -> Stage:
    """Write the demo's budgetroute.toml into a folder and build a router from it.

    Args:
        setting: what the file says.
        prices: the price map.
        folder: where it is written.
        store: the ledger, empty.
        clock: the store's.

    Raises:
        ConfigError: the environment turns budgetroute off.
    """
    file = folder / "budgetroute.toml"
    file.write_text(setting.toml(), encoding="utf-8")
    bills = Bills()
    router = Router.from_config(
        file,
        overrides={"name": NAME, "profile": PROFILE, "budget.daily_usd": setting.budget_usd},
        store=store,
        observers=(LogObserver(), bills),
    )
    if router.config.mode == "off":
        raise ConfigError(
            "budgetroute is turned off by the environment, so the demo would route nothing; "
            "unset BUDGETROUTE_DISABLE and BUDGETROUTE_MODE"
        )
    return Stage(setting, prices, router, clock, bills)


def play_day(
    coming: Sequence[Call],
    setting: Setting,
    prices: PriceBook,
    *,
    seed: int,
    progress: Callable[[Progress], None],
) -> Play:
    """Play the day with a store in a folder of its own and models in a process of their own.

    However it ends, the process ends with it and the folder is removed.
    """
    from openai import DefaultHttpxClient, OpenAI

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="budgetroute-demo-"))
        clock = ManualClock(MIDNIGHT)
        store = stack.enter_context(closing(DiskStore(Path(folder) / "state", clock)))
        stage = set_stage(setting, prices, Path(folder), store=store, clock=clock)
        progress(_progress([], stage))
        url = stack.enter_context(simulated_day(PROFILE, calls=setting.calls, seed=seed))
        # no proxy from the environment: this client talks to 127.0.0.1 and nobody else
        web = DefaultHttpxClient(trust_env=False)
        client = stack.enter_context(OpenAI(base_url=url, api_key="demo", http_client=web))
        return play_calls(coming, client, stage, progress=progress)


def play_calls(
    coming: Sequence[Call],
    client: Any,  # noqa: ANN401 - an openai client
    stage: Stage,
    *,
    progress: Callable[[Progress], None],
) -> Play:
    """Make the calls, each at its own time of a clock that jumps from call to call.

    Ctrl-C ends the day early.
    """
    served: list[Served] = []
    interrupted, begun = False, time.perf_counter()
    answer = routed(stage.router, client)
    try:
        for call in coming:
            stage.clock.at = MIDNIGHT + timedelta(seconds=call.second)
            with tags(request_id=call.task.name):  # seeds the draw between two prices
                served.append(_serve(answer, call, stage))
            progress(_progress(served, stage))
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - begun
    return Play(tuple(served), stage.router.status().spent_usd, seconds, interrupted)


def _serve(answer: Callable[..., Any], call: Call, stage: Stage) -> Served:
    """Ask once, and grade what came back by the true answer."""
    try:
        response = answer(messages_of(call.task))
    except BudgetExceeded:
        return Served(call)
    return Served(
        call,
        last_decision(),
        reward=call.task.question.grade(response.choices[0].message.content or ""),
        settled=stage.bills.last,
        billed=_list_price(response, stage.prices),
    )


def _list_price(response: Any, prices: PriceBook) -> Pico:  # noqa: ANN401 - openai's own type
    """Return what the response's usage costs by the price map, worked out apart from the router."""
    rates, usage = prices.price(response.model).rates, response.usage
    return pico_from_atto(
        usage.prompt_tokens * rates.input + usage.completion_tokens * rates.output
    )


def _progress(served: Sequence[Served], stage: Stage) -> Progress:
    last = served[-1] if served else None
    decision = None if last is None else last.decision
    return Progress(
        calls=len(served),
        total=stage.setting.calls,
        second=0.0 if last is None else last.call.second,
        spent_usd=usd_from_pico(stage.bills.total),
        limit_usd=stage.setting.budget_usd,
        shadow_price=None if decision is None else decision.shadow_price,
    )
