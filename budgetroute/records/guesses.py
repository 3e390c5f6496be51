"""What a text model guesses of one prompt, beyond its type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guess:
    """How one prompt differs from its type.

    Attributes:
        length: logarithm of how many times longer its answers are.
        families: names of families of actions (`Action.family`).
        rewards: what each adds to its expected reward, at a cap that cuts nothing.
    """

    length: float
    families: tuple[str, ...]
    rewards: tuple[float, ...]

    @property
    def spread(self) -> tuple[float, float]:
        """Return the least and the largest addition to a reward.

        >>> Guess(0.0, ("a", "b"), (0.02, -0.01)).spread
        (-0.01, 0.02)
        """
        return min(self.rewards, default=0.0), max(self.rewards, default=0.0)
