"""γ = billed / predicted cost, recent calls weighing most: a wrong curve or a new price is absorbed.

Learnt by family of actions (a model and how it is to think). Each family's γ is drawn to its
model's, and that to γ over all calls, so that a few calls move nothing far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Sums: TypeAlias = Mapping[str, tuple[float, float]]
"""Family of actions → (predicted, billed) dollars."""

_DECAY = 0.999  # per call: the last 1,000 calls weigh most
_MASS = 10.0  # requests at the budget's mean price: how much γ = 1 weighs
_NOTICED = 0.02
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Decayed sums of predicted and billed dollars by family; persisted beside the plan.

    A family's name is its model's, then `|cot` and `|effort` where it has them (`Action.family`);
    sums that an older version kept by model count as those of the family without either.

    >>> seen = Calibration().after({"m": (1.0, 1.5), "m|cot": (0.0, 0.0)}, calls=100)
    >>> round(gamma_of(seen.factors(0.001), "m|cot"), 2)
    1.5
    """

    sums: dict[str, tuple[float, float]] = field(default_factory=dict)

    def after(self, seen: Sums, *, calls: int) -> Calibration:
        """Return the calibration after some more calls, whose sums are given."""
        fade = _DECAY**calls
        sums = {family: (p * fade, b * fade) for family, (p, b) in self.sums.items()}
        for family, (predicted, billed) in seen.items():
            before = sums.get(family, (0.0, 0.0))
            sums[family] = (before[0] + predicted, before[1] + billed)
        return Calibration(sums)

    def factors(self, per_request: float) -> dict[str, float]:
        """Return γ by family; `model|*` is for families not yet seen, `*` for such models.

        Args:
            per_request: what the budget has for a mean request, dollars.
        """
        mass = _MASS * per_request
        models = _summed(self.sums)
        found: dict[str, float] = {}
        for level in (_summed(models), models, self.sums):
            for name, (predicted, billed) in level.items():
                if mass + predicted > 0:
                    above = 1.0 if name == _ANY else found[_above(name)]
                    found[name] = (mass * above + billed) / (mass + predicted)
        return found


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Say whether γ moved by enough to make new curves: 2 %."""
    return any(
        abs(gamma / gamma_of(before, name) - 1.0) > _NOTICED for name, gamma in after.items()
    )


def gamma_of(factors: Mapping[str, float], family: str) -> float:
    """Return a family's γ: its own, else its model's, else that over all calls, else 1."""
    while (own := factors.get(family)) is None and family != _ANY:
        family = _above(family)
    return 1.0 if own is None else own


def _above(name: str) -> str:
    """Return what a family or a model is drawn to.

    >>> _above("gpt-5|low"), _above("gpt-5|*")
    ('gpt-5|*', '*')
    """
    model, _, thinking = name.partition("|")
    return _ANY if thinking == _ANY else f"{model}|{_ANY}"


def _summed(sums: Sums) -> dict[str, tuple[float, float]]:
    """Return the sums one level above."""
    found: dict[str, tuple[float, float]] = {}
    for name, (predicted, billed) in sums.items():
        p, b = found.get(_above(name), (0.0, 0.0))
        found[_above(name)] = (p + predicted, b + billed)
    return found
