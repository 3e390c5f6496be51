"""What routing is worth: its choices next to the baseline's and to any one action for all calls.

All of it is predicted, by the same curves, prices and γ for every arm, so that arms differ by nothing
but the choice. Sums are kept, not samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Arm", "Comparison", "Savings", "Single", "savings_of"]

_ROUNDING = 1e-9  # sums of the same numbers in another order


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of choosing, summed over calls.

    Attributes:
        calls: how many.
        usd: expected cost.
        gain: Σ value·R.
        value: Σ value: what `gain` would be if every answer were right.

    >>> (Arm(1, 0.01, 0.5, 1.0) + Arm(1, 0.03, 0.7, 1.0)).reward
    0.6
    """

    calls: int = 0
    usd: float = 0.0
    gain: float = 0.0
    value: float = 0.0

    def __add__(self, other: Arm) -> Arm:
        return Arm(
            self.calls + other.calls,
            self.usd + other.usd,
            self.gain + other.gain,
            self.value + other.value,
        )

    @property
    def reward(self) -> float:
        """Return the mean reward, weighted by value; 0 for no calls."""
        return self.gain / self.value if self.value else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The arms over one window's calls.

    Attributes:
        routed: what was chosen, over all calls with a curve.
        beside: the same over those calls that have a baseline with a curve.
        baseline: the baseline over those.
        singles: action label → that action, over the calls for which it was a candidate.
        refused: calls that the budget would have refused; shadow mode counts them.
    """

    routed: Arm = Arm()
    beside: Arm = Arm()
    baseline: Arm = Arm()
    singles: dict[str, Arm] = field(default_factory=dict)
    refused: int = 0

    def __add__(self, other: Comparison) -> Comparison:
        labels = [*self.singles, *(name for name in other.singles if name not in self.singles)]
        none = Arm()
        return Comparison(
            self.routed + other.routed,
            self.beside + other.beside,
            self.baseline + other.baseline,
            {n: self.singles.get(n, none) + other.singles.get(n, none) for n in labels},
            self.refused + other.refused,
        )


@dataclass(frozen=True, slots=True)
class Single:
    """One action for all calls.

    Attributes:
        action: its label.
        usd: what it would have cost, expected.
        reward: its mean predicted reward.
    """

    action: str
    usd: float
    reward: float


@dataclass(frozen=True, slots=True)
class Savings:
    """A window's comparison as it is reported; every amount is predicted.

    Attributes:
        calls: routed calls with a curve.
        usd: what the chosen actions cost.
        reward: their mean predicted reward, weighted by value.
        compared: calls of them that have a baseline with a curve.
        compared_usd: what the chosen actions cost on those.
        compared_reward: their mean predicted reward on those.
        baseline_usd: what the baseline would have cost on those.
        baseline_reward: the baseline's mean predicted reward on those.
        single: the best action that alone would have cost no more; None where none could serve all.
        as_good: the cheapest action that alone would be as good; None where none is.
        refused: calls that the budget would have refused (shadow mode).
    """

    calls: int
    usd: float
    reward: float
    compared: int
    compared_usd: float
    compared_reward: float
    baseline_usd: float
    baseline_reward: float
    single: Single | None
    as_good: Single | None
    refused: int

    @property
    def saved_usd(self) -> float:
        """Return what was saved against the baseline; below 0 where more was spent."""
        return self.baseline_usd - self.compared_usd


def savings_of(seen: Comparison) -> Savings:
    """Return what a comparison says.

    An action that was no candidate for some of the calls could not have served alone.

    >>> seen = Comparison(
    ...     routed=Arm(2, 0.04, 1.2, 2.0),
    ...     singles={"a": Arm(2, 0.02, 0.9, 2.0), "b": Arm(2, 0.1, 1.3, 2.0), "c": Arm(1, 0.0, 1.0, 1.0)},
    ... )
    >>> found = savings_of(seen)
    >>> found.single.action, found.as_good.action
    ('a', 'b')
    """
    routed = seen.routed
    whole = [
        Single(name, arm.usd, arm.reward)
        for name, arm in seen.singles.items()
        if arm.calls == routed.calls and arm.calls
    ]
    cheap = [one for one in whole if one.usd <= routed.usd * (1 + _ROUNDING)]
    good = [one for one in whole if one.reward >= routed.reward * (1 - _ROUNDING)]
    return Savings(
        calls=routed.calls,
        usd=routed.usd,
        reward=routed.reward,
        compared=seen.baseline.calls,
        compared_usd=seen.beside.usd,
        compared_reward=seen.beside.reward,
        baseline_usd=seen.baseline.usd,
        baseline_reward=seen.baseline.reward,
        single=max(cheap, key=lambda one: (one.reward, -one.usd), default=None),
        as_good=min(good, key=lambda one: (one.usd, -one.reward), default=None),
        refused=seen.refused,
    )
