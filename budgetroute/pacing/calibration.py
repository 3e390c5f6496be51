"""γ = billed / predicted cost, recent calls weighing most: a wrong curve or a new price is absorbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Sums: TypeAlias = Mapping[str, tuple[float, float]]
"""Model → (predicted, billed) dollars."""

_DECAY = 0.999  # per call: the last 1,000 calls weigh most
_MASS = 10.0  # requests at the budget's mean price: how much γ = 1 weighs


@dataclass(frozen=True, slots=True)
class Calibration:
    """Decayed sums of predicted and billed dollars by model; persisted beside the plan.

    >>> seen = Calibration().after({"m": (1.0, 1.5)}, calls=100)
    >>> round(seen.factors(0.001)["m"], 2)
    1.5
    """

    sums: dict[str, tuple[float, float]] = field(default_factory=dict)

    def after(self, seen: Sums, *, calls: int) -> Calibration:
        """Return the calibration after some more calls, whose sums are given."""
        fade = _DECAY**calls
        sums = {model: (p * fade, b * fade) for model, (p, b) in self.sums.items()}
        for model, (predicted, billed) in seen.items():
            before = sums.get(model, (0.0, 0.0))
            sums[model] = (before[0] + predicted, before[1] + billed)
        return Calibration(sums)

    def factors(self, per_request: float) -> dict[str, float]:
        """Return γ by model: γ over all calls, and each model's own drawn to it.

        Args:
            per_request: what the budget has for a mean request, dollars.
        """
        mass = _MASS * per_request
        predicted = sum(p for p, _ in self.sums.values())
        if mass + predicted <= 0:
            return {}
        overall = (mass + sum(b for _, b in self.sums.values())) / (mass + predicted)
        return {
            model: (mass * overall + b) / (mass + p)
            for model, (p, b) in self.sums.items()
            if mass + p > 0
        }
