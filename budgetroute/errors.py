"""The error tree.

BudgetRouteError
├── BudgetExceeded     nothing affordable is left in a scope's window (never retryable)
├── NoEligibleAction   every action was gated out; the reasons say by what
├── UnpricedModel      a model has no known price; the line to write is in the message
├── ConfigError        budgetroute.toml, the environment or an argument is wrong
├── ProfileError       a profile cannot be read or does not fit
└── StoreError         the ledger cannot be reached or read (`retryable` says which)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "BudgetExceeded",
    "BudgetRouteError",
    "ConfigError",
    "NoEligibleAction",
    "ProfileError",
    "StoreError",
    "UnpricedModel",
]


class BudgetRouteError(Exception):
    """Base of everything budgetroute raises on purpose."""

    retryable = False

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(
    kind: type[BudgetRouteError], args: tuple[object, ...], fields: Mapping[str, object]
) -> BudgetRouteError:
    """Make an error as it was pickled, without asking its constructor again."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(fields)
    return error


class BudgetExceeded(BudgetRouteError):  # noqa: N818 - the name users catch reads as a fact
    """Raise when not even the cheapest action fits the tightest limit.

    Attributes:
        scope: the limit that refused, as `status` names it: `day`, `week`, `month`, `run:ID`, or the
            name of its table.
        window: `day`, `week`, `month`, `total` or `run`.
        spent_usd: settled so far in its window.
        held_usd: held by calls in flight.
        limit_usd: the limit.
        needed_usd: the worst case of the cheapest action that was tried.
        resets_at: start of the next window (aware), None for a run and a total.
    """

    def __init__(  # noqa: PLR0913 - one argument per thing that is told
        self,
        scope: str,
        *,
        spent_usd: float,
        held_usd: float,
        limit_usd: float,
        needed_usd: float,
        resets_at: datetime | None,
        window: str = "day",
    ) -> None:
        self.scope = scope
        self.window = window
        self.spent_usd = spent_usd
        self.held_usd = held_usd
        self.limit_usd = limit_usd
        self.needed_usd = needed_usd
        self.resets_at = resets_at
        named = repr(scope) if window in {scope, "run"} else f"{scope!r} ({window})"
        super().__init__(
            f"budget {named}: ${spent_usd:.6f} spent + ${held_usd:.6f} held of "
            f"${limit_usd:.6f}; the cheapest action may cost ${needed_usd:.6f}, which does not "
            f"fit. {_resetting(window, resets_at)} Raise the limit, or lower max_tokens in [models]."
        )


def _resetting(window: str, at: datetime | None) -> str:
    if at is not None:
        return f"It resets at {at.isoformat()}."
    return "It never resets." if window == "total" else "It resets when the run ends."


class NoEligibleAction(BudgetRouteError):  # noqa: N818 - see BudgetExceeded
    """Raise when gates leave no candidate.

    Attributes:
        reasons: action label → why it was gated out.
    """

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        self.reasons = dict(reasons or {})
        super().__init__(message)


class UnpricedModel(BudgetRouteError):  # noqa: N818 - see BudgetExceeded
    """Raise for a model without a known price; unknown is never $0."""

    def __init__(self, model: str, *, found: str, key: str | None = None) -> None:
        self.model = model
        asked = f" (looked up as {key!r})" if key and key != model else ""
        super().__init__(
            f"model {model!r}{asked} has no price: {found}. Write one in budgetroute.toml, $ per "
            f'million tokens:\n  [models."{model}"]\n  price = {{ input = 0.50, output = 1.50 }}'
            f'\nor name a priced twin with price_as = "...", or say price = "free".'
        )


class ConfigError(BudgetRouteError):
    """Raise for a configuration that cannot be used; the text says where and what to write."""


class ProfileError(BudgetRouteError):
    """Raise for a profile that is missing, malformed, newer than this package or unfit."""


class StoreError(BudgetRouteError):
    """Raise when the ledger or plan store cannot do what was asked."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)
