"""Whether a price that the user wrote can be meant: how far it is off the price map's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.prices.written import PRICE_CLASSES

if TYPE_CHECKING:
    from budgetroute.records import Price
    from budgetroute.units import Atto

__all__ = ["Gap", "check_against", "gaps"]

_ODD = 20
"""List prices of one model differ by up to 5 between providers; a contract seldom halves them."""
_IMPOSSIBLE = 500
"""Prices per thousand tokens are 1,000 off, prices per token a million."""
_PER_MILLION = 10**12


@dataclass(frozen=True, slots=True)
class Gap:
    """One class of tokens that costs something else than the map says.

    Attributes:
        name: the key of `price`.
        ours: atto-dollars per token that hold; None = the class has no own rate.
        theirs: the map's.
    """

    name: str
    ours: Atto | None
    theirs: Atto | None

    @property
    def factor(self) -> float | None:
        """Return ours over theirs; None where one of them is not there, or 0."""
        return self.ours / self.theirs if self.ours and self.theirs else None

    @property
    def is_odd(self) -> bool:
        """Say whether it is so far off that a mistake is likely."""
        return self.factor is not None and not 1 / _ODD < self.factor < _ODD

    @property
    def is_impossible(self) -> bool:
        """Say whether it is so far off that another unit was written."""
        return self.factor is not None and not 1 / _IMPOSSIBLE < self.factor < _IMPOSSIBLE


def gaps(ours: Price, theirs: Price) -> list[Gap]:
    """Return the classes in which two prices differ; none for a price by time or "free"."""
    if ours.source in {"time", "free"}:
        return []
    pairs = [
        Gap(name, getattr(ours.rates, field), getattr(theirs.rates, field))
        for name, field in PRICE_CLASSES.items()
    ]
    return [pair for pair in pairs if pair.ours != pair.theirs]


def check_against(model: str, ours: Price, theirs: Price) -> list[str]:
    """Return warnings for the classes that are oddly far off the map's price.

    Raises:
        ConfigError: one is 500 times off or more, which no discount explains.
    """
    told = []
    for gap in gaps(ours, theirs):
        if gap.ours is None or gap.theirs is None or gap.factor is None:
            continue
        mine, listed = gap.ours / _PER_MILLION, gap.theirs / _PER_MILLION
        text = (
            f'[models."{model}"] price.{gap.name} = {mine:g}: the price map has {listed:g} for '
            f"{theirs.key!r}, in $ per million tokens"
        )
        if gap.is_impossible:
            raise ConfigError(
                f"{text}. A factor of {max(gap.factor, 1 / gap.factor):,.0f} looks like another "
                f"unit, such as $ per token or per thousand. Write {listed:g}, or, for a model that "
                f"only shares its name with the map's, name it otherwise in [models]."
            )
        if gap.is_odd:
            told.append(f"{text}; is that meant?")
    return told
