"""What the demo measured, as frozen records that turn into JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgetroute.records import Action

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running demo stands.

    Attributes:
        calls: calls made so far.
        total: calls of the day.
        second: simulated time, seconds since midnight.
        spent_usd: settled so far.
        limit_usd: the day's budget.
        shadow_price: λ of the last call; None before the first.
    """

    calls: int
    total: int
    second: float
    spent_usd: float
    limit_usd: float
    shadow_price: float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One slice of the day.

    Attributes:
        second: when it ends, seconds since midnight.
        calls: calls in it.
        spent_usd: what they cost.
        shadow_price: λ of its last call, the one before's if it has none; None before the first.
    """

    second: int
    calls: int
    spent_usd: float
    shadow_price: float | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, the time as HH:MM."""
        return {
            "until": clock_time(self.second),
            "calls": self.calls,
            "spent_usd": self.spent_usd,
            "shadow_price": self.shadow_price,
        }


@dataclass(frozen=True, slots=True)
class Use:
    """What became of one action, or of one action sent for every call.

    Attributes:
        action: the action.
        calls: how many calls it served.
        usd: what they cost.
        mean_reward: mean grade of their answers.
        kinds: the prompt types it was mostly chosen for, most calls first; empty = for all.
    """

    action: Action
    calls: int
    usd: float
    mean_reward: float
    kinds: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "action": self.action.label,
            "calls": self.calls,
            "usd": self.usd,
            "mean_reward": self.mean_reward,
            "types": list(self.kinds),
        }


@dataclass(frozen=True, slots=True)
class Mix:
    """Two actions mixed at random, so that the dollars come out the same.

    Attributes:
        cheap: the cheaper one; None = the call is refused, at no cost and no reward.
        dear: the other one.
        share: part of the calls that get the dear one.
        usd: what it costs.
        mean_reward: expected grade.
    """

    cheap: Action | None
    dear: Action
    share: float
    usd: float
    mean_reward: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "cheap": None if self.cheap is None else self.cheap.label,
            "dear": self.dear.label,
            "share_of_dear": self.share,
            "usd": self.usd,
            "mean_reward": self.mean_reward,
        }


@dataclass(frozen=True, slots=True)
class Baselines:
    """The same calls without routing, with the same luck.

    Attributes:
        always_cheapest: the action that costs least.
        always_best: the action with the best mean grade, chosen in hindsight.
        best_mix: the best random mix of two actions at the demo's dollars, chosen in hindsight.
        lead_error: standard error of (mean reward − the mix's), from the paired calls.
    """

    always_cheapest: Use
    always_best: Use
    best_mix: Mix
    lead_error: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "always_cheapest": self.always_cheapest.to_json(),
            "always_best": self.always_best.to_json(),
            "best_mix": self.best_mix.to_json(),
        }


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A day of the demo, measured.

    Attributes:
        profile: the profile that the simulated models follow.
        seed: of the day and of the models' luck.
        planned: calls of the day.
        calls: calls made; fewer when it was interrupted.
        models: models to choose from.
        actions: how many actions to choose from.
        limit_usd: the day's budget.
        spent_usd: what the ledger says.
        billed_usd: list price of the usage in the responses, added up apart from the ledger.
        mean_reward: mean grade over all calls; a refused call counts as 0.
        rejected: calls that raised BudgetExceeded.
        largest_worst_usd: the most that was held for one call.
        typed_right: share of the calls whose heaviest prompt type is the one they were written as.
        readings: the day in slices.
        uses: the actions that were chosen, most calls first.
        baselines: the same calls without routing; None when no call was made.
        day_seconds: how long the calls took.
        seconds: how long everything took.
        interrupted: whether it was stopped before the day's end.
    """

    profile: str
    seed: int
    planned: int
    calls: int
    models: tuple[str, ...]
    actions: int
    limit_usd: float
    spent_usd: float
    billed_usd: float
    mean_reward: float
    rejected: int
    largest_worst_usd: float
    typed_right: float
    readings: tuple[Reading, ...]
    uses: tuple[Use, ...]
    baselines: Baselines | None
    day_seconds: float
    seconds: float
    interrupted: bool = False

    @property
    def lead(self) -> float | None:
        """Return mean reward − that of the best random mix at the same dollars."""
        return (
            None
            if self.baselines is None
            else self.mean_reward - self.baselines.best_mix.mean_reward
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; every figure was measured in this run."""
        return {
            "simulated": True,
            "profile": self.profile,
            "seed": self.seed,
            "planned_calls": self.planned,
            "calls": self.calls,
            "interrupted": self.interrupted,
            "limit_usd": self.limit_usd,
            "spent_usd": self.spent_usd,
            "billed_usd": self.billed_usd,
            "mean_reward": self.mean_reward,
            "rejected": self.rejected,
            "largest_worst_usd": self.largest_worst_usd,
            "typed_right": self.typed_right,
            "models": list(self.models),
            "shadow_price": [reading.to_json() for reading in self.readings],
            "actions": [use.to_json() for use in self.uses],
            "baselines": None if self.baselines is None else self.baselines.to_json(),
            "lead": self.lead,
            "lead_error": None if self.baselines is None else self.baselines.lead_error,
            "seconds": self.seconds,
        }


def clock_time(second: float) -> str:
    """Return a time of day.

    >>> clock_time(48_660), clock_time(DAY_SECONDS)
    ('13:31', '24:00')
    """
    minutes = int(second) // 60
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
