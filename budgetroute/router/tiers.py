"""Cold start: a configured model that the profile does not know gets curves from its price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.priors import PLAIN, Peer, blended_price, nearest, prior_kinds
from budgetroute.router.table import Family, Prior

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.config import ModelConfig
    from budgetroute.priors import Curves, Kind
    from budgetroute.records import Price
    from budgetroute.router.table import ModelFacts

FamilyKey = tuple[str, bool, str | None]


@dataclass(frozen=True, slots=True)
class Tiers:
    """The profile's models as evidence of what a price buys.

    Attributes:
        plain: model → blended dollars per million tokens; without unpriced and free models.
        thinking: the same of those that were profiled with a reasoning effort.
        kinds: (cot, effort) → all of them with their curves.
    """

    plain: Mapping[str, float]
    thinking: Mapping[str, float]
    kinds: Mapping[Kind, Sequence[Peer]]

    def near(self, price: float, *, thinks: bool) -> tuple[str, ...]:
        """Return the models of a kind that are nearest in price; of any kind if it has none."""
        return nearest((self.thinking if thinks else self.plain) or self.priced, price)

    @property
    def priced(self) -> dict[str, float]:
        """Return all models with their prices."""
        return {**self.plain, **self.thinking}


def tiers_of(curves: Mapping[FamilyKey, Curves], price_of: Callable[[str], Price | None]) -> Tiers:
    """Return the profile's models by price; cells that are priors themselves are no evidence.

    Args:
        curves: (model, cot, effort) → prompt type → cap → cell.
        price_of: a model's price; None = not known.
    """
    known = {name: price_of(name) for name in dict.fromkeys(name for name, _, _ in curves)}
    prices = {
        name: usd
        for name, price in known.items()
        if price is not None and (usd := blended_price(price)) > 0
    }
    kinds: dict[Kind, list[Peer]] = {}
    plain: dict[str, float] = {}
    thinking: dict[str, float] = {}
    for (name, cot, effort), by_type in curves.items():
        if name in prices and (seen := _evidence(by_type)):
            kinds.setdefault((cot, effort), []).append(Peer(prices[name], seen))
            (plain if effort in PLAIN else thinking)[name] = prices[name]
    return Tiers(plain, thinking, kinds)


def _evidence(by_type: Curves) -> Curves:
    seen = {
        name: {cap: cell for cap, cell in cells.items() if cell.source != "prior"}
        for name, cells in by_type.items()
    }
    return {name: cells for name, cells in seen.items() if cells}


def families_by_price(
    model: str, facts: ModelFacts, said: ModelConfig | None, tiers: Tiers
) -> tuple[dict[FamilyKey, Family], Prior]:
    """Return the families of a model without curves, and what stands behind them.

    Raises:
        ConfigError: the model is free, or the profile has no priced model to go by.
    """
    price = blended_price(facts.price)
    mend = 'Write like = "…" with the profile model that behaves most like it, or profile it.'
    if price <= 0:
        raise ConfigError(
            f'[models."{model}"]: the profile has no curves for {model!r}, and {_what(facts)} says '
            f"nothing of what it can do. {mend} Its priced models: {_listed(tiers)}."
        )
    efforts = said.reasoning_effort if said else ()
    reasons = _reasons(facts, efforts)
    kinds = prior_kinds(tiers.kinds, price, reasons=reasons, efforts=efforts)
    if not kinds:
        raise ConfigError(
            f'[models."{model}"]: the profile has no curves for {model!r}, and none of a priced '
            f"model of its kind from which to infer them. {mend} Its priced models: {_listed(tiers)}."
        )
    made = {(model, cot, effort): Family(curves) for (cot, effort), curves in kinds.items()}
    thinks = reasons and set(efforts) != {"none"}
    return made, Prior(
        nearest=tiers.near(price, thinks=thinks), caps_open=not (said and said.max_tokens)
    )


def _what(facts: ModelFacts) -> str:
    return "a price of 0" if facts.price.second is None else "a price by time"


def _reasons(facts: ModelFacts, efforts: Sequence[str]) -> bool:
    """Say whether a model thinks before it answers, by its card or by the efforts config names.

    Claude thinks only when it is asked to.
    """
    card = facts.card
    known = card.supports.get("reasoning") is True and "claude" not in card.key
    return known or any(effort not in PLAIN for effort in efforts)


def _listed(tiers: Tiers) -> str:
    return ", ".join(sorted(tiers.priced)) or "none"


def advice(model: str, prior: Prior, profile: str) -> str:
    """Return what to tell of a model on a prior, in one line."""
    like = " or ".join(f'like = "{name}"' for name in prior.nearest)
    return (
        f"{model}: profile {profile!r} has no curve for it, so it starts on a price-tier prior "
        f"(curve=prior), a cautious guess from its price. Does it behave like a known model? Then "
        f'write {like} (nearest in price) under [models."{model}"]'
    )
