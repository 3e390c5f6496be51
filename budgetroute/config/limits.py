"""What budgetroute.toml says of limits beside the budget: on tags, users, routes and runs."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec resolves annotations at run time
from typing import Annotated, Literal

from msgspec import Meta, Struct

from budgetroute.budget import Kind  # noqa: TC001 - msgspec resolves annotations at run time
from budgetroute.config.keys import Positive, Usd, Word, axis, key

Warn = Annotated[float, Meta(gt=0, le=10)]


class LimitConfig(Struct, frozen=True, kw_only=True):
    """A limit on some of the calls: those it matches, or one for each value of a tag."""

    per: Annotated[
        Word | None,
        key(
            "One limit for each value of this tag; `route` and `run` are always there. Calls "
            "without the tag do not count. Left out: one limit for all calls that match.",
            eg="user",
        ),
    ] = None
    match: Annotated[
        Mapping[str, Word | Annotated[tuple[Word, ...], Meta(min_length=1)]],
        key(
            "Only calls whose tags have these values (one of a list); `route` is the route's name. "
            "Left out: all calls.",
            eg={"route": "answer", "team": ["search", "ads"]},
        ),
    ] = {}
    daily_usd: Annotated[Usd | None, key("Dollars per day.", eg=0.5)] = None
    weekly_usd: Annotated[Usd | None, key("Dollars per calendar week.", eg=2.5)] = None
    monthly_usd: Annotated[Usd | None, key("Dollars per calendar month.", eg=10.0)] = None
    total_usd: Annotated[Usd | None, key("Dollars in all; it never starts anew.", eg=100.0)] = None
    soft: Annotated[
        bool, key("true never refuses a call: what goes beyond is told instead.", eg=True)
    ] = False
    warn: Annotated[
        tuple[Warn, ...],
        axis(
            "Shares of the limit at which a warning comes, each once per period. A soft limit warns "
            "at 1.0 in any case.",
            eg=[0.5, 0.8, 1.0],
        ),
    ] = ()
    on_exhausted: Annotated[
        Literal["raise", "degrade"],
        key(
            "What happens when nothing fits any more: `raise` BudgetExceeded, or `degrade` to the "
            "cheapest action, up to `hard_usd` or without end where the limit is soft.",
            eg="degrade",
        ),
    ] = "raise"
    hard_usd: Annotated[
        Usd | None,
        key(
            'The absolute cap with `on_exhausted = "degrade"`; needs a limit on one window only, '
            "and is at least that.",
            eg=0.75,
        ),
    ] = None
    pace: Annotated[
        bool,
        key(
            "Spread `daily_usd` evenly over the day with a shadow price of its own; the dearer of "
            "all that apply holds. Not with `per`.",
            eg=True,
        ),
    ] = False
    calls_per_day: Annotated[
        Positive | None,
        key(
            "How many calls a day to expect, with `pace`, before traffic has been seen. Left out: the "
            "budget's, as if all calls counted.",
            eg=500,
        ),
    ] = None

    @property
    def amounts(self) -> dict[Kind, float]:
        """Return window → dollars, of the windows that were said."""
        said: dict[Kind, float | None] = {
            "day": self.daily_usd,
            "week": self.weekly_usd,
            "month": self.monthly_usd,
            "total": self.total_usd,
        }
        return {window: usd for window, usd in said.items() if usd is not None}
