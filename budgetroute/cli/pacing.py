"""The plan in plain words: its prices, the traffic it expects, γ, the bank, and raised worst cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute import pacing
from budgetroute.cli.console import plain
from budgetroute.cli.wording import counted, figure, money, usd
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.pacing import PacingPlan
    from budgetroute.router import Router
    from budgetroute.router.crossings import Raised
    from budgetroute.router.solver import Prospect
    from budgetroute.units import Pico

__all__ = ["Planned", "planned"]

_NOTICED = 0.02  # γ nearer to 1 than this is what the curves predict
_NAMED = 4
_BOUNDS = {
    "0": "λ is 0: money is not scarce",
    "e_min/2": "λ stands at its lower bound: there is more money than the traffic can use",
    "2·e_max": "λ stands at its upper bound: only the cheapest actions are bought",
    "lambda_min": "λ stands at lambda_min",
    "lambda_max": "λ stands at lambda_max",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and what it goes by.

    Attributes:
        pacer: which pacer makes it.
        plan: the plan in force; None before the first call.
        bound: the bound that λ stands at.
        prospect: the traffic still to come, how far ahead is planned, and γ.
        bank: unspent money of past days that today's limit holds; negative = today pays back.
        bank_limit: the most it may hold.
        raised: worst cases that are raised above what is declared.
    """

    pacer: str
    plan: PacingPlan | None
    bound: pacing.Bound | None
    prospect: Prospect
    bank: Pico
    bank_limit: Pico
    raised: Raised

    @property
    def off(self) -> list[tuple[str, float]]:
        """Return (family, γ) of calls that cost other than predicted, farthest off first."""
        found = [
            (family, gamma)
            for family, gamma in self.prospect.factors.items()
            if not family.endswith("*") and abs(gamma - 1.0) >= _NOTICED
        ]
        return sorted(found, key=lambda pair: (-abs(pair[1] - 1.0), pair[0]))

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield (label, text) in the order in which they are shown."""
        if self.plan is None:
            return
        if self.plan.low != self.plan.high:
            yield "", _mixed(self.plan)
        if self.bound is not None:
            yield "", _BOUNDS[self.bound]
        yield "Forecast", self._forecast()
        if self.bank_limit:
            yield "Bank", self._bank()
        if self.prospect.factors:
            yield "γ", self._gamma()
        for place, text in enumerate(_raised(self.raised)):
            yield "" if place else "Held", text

    def to_json(self) -> dict[str, Any]:
        """Return plain values; amounts in dollars."""
        plan = self.plan
        return {
            "pacer": self.pacer,
            "lambda_low": None if plan is None else plan.low,
            "lambda_high": None if plan is None else plan.high,
            "share_low": None if plan is None else plan.share,
            "steps": 0 if plan is None else plan.steps,
            "bound": self.bound,
            "calls_to_come": self.prospect.to_come,
            "days_ahead": self.prospect.days_ahead,
            "gamma": dict(self.prospect.factors),
            "bank_usd": usd_from_pico(self.bank),
            "bank_limit_usd": usd_from_pico(self.bank_limit),
            "raised": {
                "beyond_tokens": dict(self.raised.beyond),
                "dearer": dict(self.raised.dearer),
                "responses": dict(self.raised.responses),
            },
        }

    def _forecast(self) -> str:
        text = f"about {counted(round(self.prospect.to_come), 'call')} still to come today"
        days = self.prospect.days_ahead
        return text if days == 0 else f"{text}; planned together with the next {days:.3g} days"

    def _bank(self) -> str:
        if self.bank < 0:
            return f"{money(-self.bank)} were spent ahead and are missing from today's limit"
        return f"{money(self.bank)} of at most {money(self.bank_limit)}, part of today's limit"

    def _gamma(self) -> str:
        off = self.off
        if not off:
            return "calls cost what the curves predict"
        named = ", ".join(f"{_family(family)} ×{gamma:.2f}" for family, gamma in off[:_NAMED])
        more = f" and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
        return f"billed over predicted cost: {named}{more}"


def planned(router: Router, at: int) -> Planned:
    """Gather the plan and what it goes by; reads the store.

    Args:
        router: the app's.
        at: microseconds since 1970 UTC.

    Raises:
        StoreError: the store cannot be read.
    """
    pace, till = router.pace, router.till
    plan = pace.known()
    return Planned(
        pacer=pace.rule.pacer,
        plan=plan,
        bound=None if plan is None else pacing.touched(pace.rule, plan),
        prospect=pace.prospect(at),
        bank=till.limit_at(at) - till.daily,
        bank_limit=round(till.daily * till.carry_over),
        raised=router.crossings.raised(at),
    )


def _mixed(plan: PacingPlan) -> str:
    """Return how requests are shared between two prices."""
    low, high = (f"{figure(price)} ({_worth(price)})" for price in (plan.low, plan.high))
    return f"{plan.share:.0%} of requests at λ {low}, the others at {high}".replace("%", " %", 1)


def _worth(price: float) -> str:
    return "money is free" if price <= 0 else f"{usd(1 / price)} an answer"


def _raised(raised: Raised) -> Iterator[str]:
    """Yield what is held above the declared worst cases, one line a cause."""
    causes: tuple[tuple[Mapping[str, float], str], ...] = (
        (raised.beyond, "{:,.0f} output tokens beyond the cap"),
        (raised.dearer, "a price ×{:.3g}"),
        (raised.responses, "{:,.0f} more responses a call"),
    )
    for found, words in causes:
        for name, amount in sorted(found.items()):
            text = words.format(amount)
            yield f"{_family(name)}: worst cases hold {text}, as seen in the last 24 hours"


def _family(name: str) -> str:
    return plain(name.replace("|", "/"))
