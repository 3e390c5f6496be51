"""From reported usage to a bill: at which price, and what to say when another model answered."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from budgetroute import billing
from budgetroute.errors import UnpricedModel
from budgetroute.records import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from budgetroute.records import Price, Usage
    from budgetroute.router.table import ModelFacts
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.spend")


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a call.

    Attributes:
        at: when; None = not known, the rates of peak hours hold.
        seconds: engine time that it counts for, where that is what is paid.
    """

    at: datetime | None = None
    seconds: float | None = None


_NOT_KNOWN = Ended()
_SNAPSHOT = re.compile(r"[-@:]\d+(?:[-.]\d+)*")
"""A date or a number; letters make another model (`gpt-4-32k`)."""


def billed(
    usages: Sequence[Usage],
    *,
    model: str,
    price: Price,
    fixed: bool,
    facts: Callable[[str], ModelFacts],
    ended: Ended = _NOT_KNOWN,
) -> tuple[Pico, str]:
    """Return what these responses cost together and the price key that applied.

    Billing follows the planned price. Where a response names another model whose price is known
    and higher, that price applies.

    Args:
        usages: one per response; at least one.
        model: the planned model.
        price: its price.
        fixed: the user wrote `price_as` or a price: the response's name is not believed.
        facts: model → facts; raises UnpricedModel.
        ended: when and after how long the call ended.
    """
    total, key, seconds = 0, price.key, ended.seconds
    for usage in usages:
        amount = billing.bill(price, usage, at=ended.at, seconds=seconds)
        if seconds is not None and not usage.from_cache:  # the time is that of all of them
            seconds = 0.0
        if usage.model and not fixed and not same_model(model, usage.model):
            other = _other(usage.model, asked=model, facts=facts)
            theirs = 0 if other is None else billing.bill(other, usage, at=ended.at)
            if other is not None and theirs > amount:
                amount, key = theirs, other.key
        total += amount
    return total, key


def _other(answered: str, *, asked: str, facts: Callable[[str], ModelFacts]) -> Price | None:
    """Return the price of the model that answered; None where it cannot be applied to tokens."""
    try:
        price = facts(answered).price
    except UnpricedModel:
        logger.warning("asked for %r, another model answered: %r (no price known)", asked, answered)
        return None
    logger.warning("asked for %r, another model answered: %r", asked, answered)
    return price if price.second is None else None


def doubts(usages: Sequence[Usage], *, model: str, price: Price) -> Iterator[str]:
    """Yield what of these responses the price does not know, and how it was billed."""
    for usage in usages:
        if not billing.has_rates_for(price, usage.service_tier):
            yield (
                f"{model}: a response names the service tier {usage.service_tier!r}, for which the "
                "price map has no rates; it was billed at the standard ones, which may be too low "
                f'or too high. Write what holds as price under [models."{model}"].'
            )
        unknown = usage.searches > 0 and not price.fees.search
        if unknown or (usage.map_queries > 0 and not price.fees.maps):
            what = "searches" if unknown else "look-ups in maps"
            yield (
                f"{model}: the provider reports {what}, whose fee is not known; they were not "
                f'billed. Write price = {{ …, search = 0.01 }} ($ each) under [models."{model}"].'
            )


def same_model(planned: str, answered: str) -> bool:
    """Say whether a response's model is the planned one, a dated snapshot of it, or its bare name.

    >>> same_model("openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"), same_model("gpt-4", "gpt-4o")
    (True, False)
    >>> same_model("gpt-4", "gpt-4-0613"), same_model("gpt-4", "gpt-4-32k")
    (True, False)
    """
    mine, theirs = planned.rsplit("/", 1)[-1].lower(), answered.rsplit("/", 1)[-1].lower()
    if mine == theirs:
        return True
    longer, shorter = (theirs, mine) if len(theirs) > len(mine) else (mine, theirs)
    return longer.startswith(shorter) and bool(_SNAPSHOT.fullmatch(longer, len(shorter)))


def merged(usages: Sequence[Usage]) -> Usage | None:
    """Return the sum of several usages; names and reasons are the last one's."""
    if len(usages) <= 1:
        return usages[0] if usages else None
    sums = {name: sum(getattr(usage, name) for usage in usages) for name in COUNTS}
    return replace(usages[-1], **sums)
