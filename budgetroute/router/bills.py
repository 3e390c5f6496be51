"""From reported usage to a bill: at which price, and what to say when another model answered."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from budgetroute import billing
from budgetroute.errors import UnpricedModel
from budgetroute.records import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budgetroute.records import Price, Usage
    from budgetroute.router.table import ModelFacts
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.spend")
_SNAPSHOT = re.compile(r"[-@:]\d+(?:[-.]\d+)*")
"""A date or a number; letters make another model (`gpt-4-32k`)."""


def billed(
    usages: Sequence[Usage],
    *,
    model: str,
    price: Price,
    fixed: bool,
    facts: Callable[[str], ModelFacts],
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
    """
    total, key = 0, price.key
    for usage in usages:
        amount = billing.bill(price, usage)
        if usage.model and not fixed and not same_model(model, usage.model):
            amount, key = _dearer(usage, amount, key, model=model, facts=facts)
        total += amount
    return total, key


def _dearer(
    usage: Usage, amount: Pico, key: str, *, model: str, facts: Callable[[str], ModelFacts]
) -> tuple[Pico, str]:
    answered = usage.model or ""
    try:
        other = facts(answered).price
    except UnpricedModel:
        logger.warning("asked for %r, another model answered: %r (no price known)", model, answered)
        return amount, key
    theirs = billing.bill(other, usage)
    logger.warning("asked for %r, another model answered: %r", model, answered)
    return (theirs, other.key) if theirs > amount else (amount, key)


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
    if not usages:
        return None
    sums = {name: sum(getattr(usage, name) for usage in usages) for name in COUNTS}
    return replace(usages[-1], **sums)
