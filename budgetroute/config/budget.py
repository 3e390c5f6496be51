"""What budgetroute.toml says of money: how much there is, where it is counted, how it is paced."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Meta, Struct

from budgetroute.budget import Kind, Window
from budgetroute.config.keys import (
    DURATION,
    Hour,
    NotNegative,
    Positive,
    Seconds,
    Usd,
    Word,
    axis,
    key,
)

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
Portion: TypeAlias = Annotated[float, Meta(gt=0, le=1)]

DEFAULT_PACER: Literal["solve"] = "solve"
"""The pacer of a config that names none; the only place that says so."""


class BudgetConfig(Struct, frozen=True, kw_only=True):
    """How much may be spent, and when the counting starts anew."""

    daily_usd: Annotated[
        Usd,
        key(
            "Dollars that may be spent per day. 0 means that everything is refused.",
            eg=25.0,
        ),
    ]
    timezone: Annotated[
        Word, key("IANA time zone in which days, weeks and months begin.", eg="Europe/Paris")
    ] = "UTC"
    reset_hour: Annotated[Hour, key("Hour of the local day at which a new day begins.", eg=0)] = 0
    on_exhausted: Annotated[
        Literal["raise", "degrade"],
        key(
            "What happens when nothing fits any more: `raise` BudgetExceeded, or `degrade` to the "
            "cheapest action until `hard_usd` is reached.",
            eg="raise",
        ),
    ] = "raise"
    hard_usd: Annotated[
        Usd | None,
        key(
            'The day\'s absolute cap with `on_exhausted = "degrade"`; at least `daily_usd`. '
            "Required with degrade, refused without.",
            eg=30.0,
        ),
    ] = None
    carry_over: Annotated[
        NotNegative,
        key(
            "Days' money that unspent budget may pile up to; it is added to later days. 0 is a "
            "strict reset: no day ever spends more than `daily_usd`.",
            eg=7,
        ),
    ] = 0.0
    calls_per_day: Annotated[
        Positive | None,
        key(
            "How many calls a day to expect, used to choose the first shadow price before traffic "
            "has been seen.",
            eg=2000,
        ),
    ] = None
    weekly_usd: Annotated[Usd | None, key("A further cap on the calendar week.", eg=120.0)] = None
    monthly_usd: Annotated[Usd | None, key("A further cap on the calendar month.", eg=400.0)] = None
    week_start: Annotated[
        Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
        key("The day a week begins with.", eg="sunday"),
    ] = "monday"
    warn: Annotated[
        tuple[Portion, ...],
        axis(
            "Shares of each cap (day, week, month) at which a warning comes, each once per period: "
            "a line in the log and a call of what `on_warning` was given.",
            eg=[0.5, 0.8, 1.0],
        ),
    ] = ()

    def window(self, kind: Kind) -> Window:
        """Return a budget window of this zone, reset hour and week."""
        first = WEEKDAYS.index(self.week_start)
        return Window(kind, self.zone, self.reset_hour, first)

    @property
    def zone(self) -> tzinfo:
        """Return the time zone; UTC needs no time zone database."""
        try:
            return ZoneInfo(self.timezone)
        except ZoneInfoNotFoundError:
            if self.timezone == "UTC":
                return UTC
            raise


class StoreConfig(Struct, frozen=True, kw_only=True):
    """Where the ledger and the shadow price are kept."""

    path: Annotated[
        Word | None,
        key(
            "Folder of the ledger and the plan, on a local disk. Relative paths start at the "
            "config's folder. Default: `$XDG_STATE_HOME/budgetroute`, else "
            "`~/.local/state/budgetroute`.",
            eg="~/.local/state/budgetroute",
        ),
    ] = None
    url: Annotated[
        Word | None,
        key(
            "Instead of `path`: `memory:` keeps everything in the process and forgets it at the "
            "end. `${NAME}` is replaced from the environment, in this key only.",
            eg="memory:",
        ),
    ] = None
    on_store_error: Annotated[
        Literal["raise", "open"],
        key(
            "When the store cannot be reached: `raise` StoreError, or `open`: let calls through "
            "uncounted, with a warning.",
            eg="raise",
        ),
    ] = "raise"


class PacingConfig(Struct, frozen=True, kw_only=True):
    """How the shadow price λ (reward per dollar) follows the spend."""

    pacer: Annotated[
        Literal["solve", "dual", "fixed"],
        key(
            "`solve` plans λ every minute from the money and the traffic that are left; `dual` "
            "steps λ after each period by how far the spend was off its share; `fixed` keeps "
            "`initial_lambda`.",
            eg="dual",
        ),
    ] = DEFAULT_PACER
    eta: Annotated[
        Positive | None,
        key(
            "Step size η. Its unit depends on `step`; left out, the pacer has a default for each.",
            eg=0.1,
        ),
    ] = None
    period: Annotated[
        Seconds,
        key(
            "Time between two steps, from 1 s to 1 day: seconds, or a text such as `90s`, `5m`, `1h`.",
            eg="5m",
            mark=DURATION,
        ),
    ] = 300.0
    alpha: Annotated[
        Annotated[float, Meta(ge=0, lt=1)],
        key(
            "Smoothing of the error the step is made from: weight of its past, from 0 (none) to "
            "below 1.",
            eg=0.5,
        ),
    ] = 0.0
    lambda_min: Annotated[
        NotNegative | None,
        key("λ never falls below this. Left out, the profile's curves give the bound.", eg=0.5),
    ] = None
    lambda_max: Annotated[
        Positive | None,
        key("λ never rises above this. Left out, the profile's curves give the bound.", eg=500.0),
    ] = None
    initial_lambda: Annotated[
        NotNegative | None,
        key(
            'λ before anything was spent, and throughout with `pacer = "fixed"`. Left out, it is '
            "computed from the profile and the traffic to be expected.",
            eg=20.0,
        ),
    ] = None
    warmup_periods: Annotated[
        Annotated[int, Meta(ge=0)],
        key("First periods in which no more than 1.5 × their share is bought.", eg=3),
    ] = 3
    target: Annotated[
        Literal["flat", "forecast"],
        key(
            "A period's share of the day's budget: the same for all (`flat`), or by the traffic "
            "that past days had then (`forecast`).",
            eg="forecast",
        ),
    ] = "forecast"
    step: Annotated[
        Literal["raw", "relative", "multiplicative"],
        key(
            "`raw`: λ + η·(spend − share), in dollars; `relative`: λ + η·λ_ref·(spend/share − 1); "
            "`multiplicative`: λ·exp(η·(spend/share − 1)).",
            eg="multiplicative",
        ),
    ] = "multiplicative"
    mix: Annotated[
        bool,
        key(
            "Mix two neighbouring prices, so that a budget between two actions is met. `dual` and "
            "`fixed` hold one price; it changes nothing for them.",
            eg=True,
        ),
    ] = True
