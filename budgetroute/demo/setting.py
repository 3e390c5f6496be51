"""What the demo puts before the router: its budget, the actions that fit it, its configuration."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.router.table import ModelFacts, make_row
from budgetroute.tokens import O200k, measure_messages
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from budgetroute.prices import PriceBook
    from budgetroute.records import Action, InputSize

DAY_CALLS = 4000
DAY_USD = 0.75
"""Dollars for a day of 4,000 calls: with profile broad about 6.5 times what the cheapest action costs
and two fifths of what the best one does."""
HOLD_SHARE = 0.005
"""What one call may hold at most, as a part of the budget of 4,000 calls. A day cannot end nearer to its
budget than the worst case of the call that no longer fits."""
PROFILE = "broad"
ROUTE = "answer"
NAME = "demo"
_ADDED_TOKENS = 32
"""Room for what the router learns that CoT adds to a prompt."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the demo's configuration says.

    Attributes:
        calls: calls of the day.
        budget_usd: the day's budget.
        actions: what may be chosen, profile order.
        providers: who serves them.
    """

    calls: int
    budget_usd: float
    actions: tuple[Action, ...]
    providers: tuple[str, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models, each once."""
        return tuple(dict.fromkeys(action.model for action in self.actions))

    def toml(self) -> str:
        """Return the budgetroute.toml of the demo."""
        head = (
            f'name = "{NAME}"\n'
            "[budget]\n"
            f"daily_usd = {self.budget_usd!r}\n"
            'timezone = "UTC"\n'
            f"calls_per_day = {self.calls}\n"
            f"[routes.{ROUTE}]\n"
            f"providers = {json.dumps(self.providers)}\n"
            "input_tokens = 1\n"
        )
        tables = (
            f"[models.{json.dumps(model)}]\nmax_tokens = {self._caps(model)}\n"
            for model in self.models
        )
        return head + "".join(tables)

    def _caps(self, model: str) -> list[int]:
        return sorted({action.max_tokens for action in self.actions if action.model == model})


def set_up(
    actions: Iterable[Action],
    prices: PriceBook,
    *,
    calls: int,
    budget_usd: float | None,
    prompts: Sequence[list[dict[str, str]]],
) -> Setting:
    """Choose the budget, if none is given, and the actions whose worst case suits it.

    Args:
        actions: the profile's.
        prices: the price map.
        calls: calls of the day.
        budget_usd: the day's budget; None = $0.75 for each 4,000 calls.
        prompts: the messages that will be sent.

    Raises:
        ConfigError: the number of calls or the budget cannot be used.
    """
    if calls < 1:
        raise ConfigError(f"the demo was asked for {calls} calls; it needs 1 or more")
    budget = DAY_USD * calls / DAY_CALLS if budget_usd is None else budget_usd
    if not (math.isfinite(budget) and budget > 0):
        raise ConfigError(f"the demo was given a budget of {budget!r} dollars; write one above 0")
    worst = _worst_cases(actions, prices, _longest(prompts))
    most = HOLD_SHARE * budget * DAY_CALLS / calls
    kept = tuple(action for action, usd in worst.items() if usd <= most)
    if not kept:
        least = min(worst.values()) / HOLD_SHARE * calls / DAY_CALLS
        raise ConfigError(
            f"a budget of ${budget:g} for {calls} calls is too small for any action of the demo; "
            f"give it at least ${least:.2g}, or fewer calls"
        )
    providers = sorted({prices.card(action.model).provider for action in kept})
    return Setting(calls, budget, kept, tuple(providers))


def _longest(prompts: Sequence[list[dict[str, str]]]) -> tuple[InputSize, ...]:
    """Return the sizes that bound all of them: the one of most tokens and the one of most bytes."""
    tokenizer = O200k()
    sizes = [measure_messages(messages, tokenizer=tokenizer) for messages in prompts]
    return max(sizes, key=lambda s: s.tokens), max(sizes, key=lambda s: s.utf8_bytes)


def _worst_cases(
    actions: Iterable[Action], prices: PriceBook, sizes: Sequence[InputSize]
) -> dict[Action, float]:
    """Return what each action holds for the largest prompt; a cap counts for all variants alike."""
    usd = {action: _worst_usd(action, prices, sizes) for action in actions}
    dearest: dict[tuple[str, int], float] = {}
    for action, amount in usd.items():
        kind = (action.model, action.max_tokens)
        dearest[kind] = max(amount, dearest.get(kind, 0.0))
    return {action: dearest[action.model, action.max_tokens] for action in usd}


def _worst_usd(action: Action, prices: PriceBook, sizes: Sequence[InputSize]) -> float:
    facts = ModelFacts(prices.price(action.model), prices.card(action.model))
    row = make_row(action, facts, {})
    held = (row.worst(size, overhead=_ADDED_TOKENS, calls=1) for size in sizes)
    return usd_from_pico(max(amount for amount in held if amount is not None))
