"""Scopes: which limits of the configuration a request counts in, and under which keys.

A key of a limit is made of what the limit selects, not of its name: a limit that is renamed, or a
second one on the same calls, finds the sums that are there. Tags' values stand in keys as keyed
hashes, so that a ledger names nobody.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from budgetroute.budget import ONE_OF_MANY, RUN_PERIOD, TOTAL_PERIOD, Window
from budgetroute.records import Applied, Slot
from budgetroute.router.periods import period_of
from budgetroute.units import pico_from_usd, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from budgetroute.budget import Kind
    from budgetroute.config import BudgetConfig, LimitConfig
    from budgetroute.records import Request
    from budgetroute.router.periods import Period
    from budgetroute.units import Pico

_KEY_BYTES = 8
_VALUE_BYTES = 12
_VALUES_KEPT = 4096
_SHORT = 200  # characters


@dataclass(frozen=True, slots=True)
class Cap:
    """One amount of a limit: its window, and the levels of `records.Applied`."""

    window: Window
    usd: Pico
    first: Pico | None
    last: Pico | None
    warn: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit as requests are held against it.

    Attributes:
        name: its table's name.
        per: the tag whose values have one limit each; None = one limit.
        match: (tag, values that count).
        caps: its amounts, one per window.
        is_paced: it has a shadow price of its own.
    """

    name: str
    per: str | None
    match: tuple[tuple[str, frozenset[str]], ...]
    caps: tuple[Cap, ...]
    is_paced: bool = False

    def holds(self, request: Request) -> bool:
        """Say whether a request's tags and route are among those that count."""
        return all(_tag(request, name) in values for name, values in self.match)

    def values(self, request: Request) -> tuple[str, ...]:
        """Return the values that have a limit each; none where the request lacks the tag."""
        if self.per == "run":
            return tuple([run for run, _ in request.run_limits])
        value = None if self.per is None else _tag(request, self.per)
        return () if value is None else (value,)

    def cap(self, kind: Kind) -> Cap:
        """Return its amount for a window that it has."""
        return next(cap for cap in self.caps if cap.window.kind == kind)

    @property
    def selection(self) -> str:
        """Return what it selects, as one text."""
        match = sorted([name, sorted(values)] for name, values in self.match)
        return json.dumps([self.per, match], separators=(",", ":"))


class Scopes:
    """The limits of one app.

    Args:
        app: the app's name, first part of every key.
        budget: the limits on everything.
        limits: those on some calls, by name.
        secret: returns the key that tag values are hashed with; asked for when it is needed.
    """

    def __init__(
        self,
        *,
        app: str,
        budget: BudgetConfig,
        limits: Mapping[str, LimitConfig],
        secret: Callable[[], bytes],
    ) -> None:
        self.app = app
        self.everything = f"{app}|all"
        self.rules = tuple([_rule(name, said, budget) for name, said in limits.items()])
        self.wider = tuple(_wider(budget))
        self._secret = secret
        self._keys: dict[str, str] = {}
        self._value_key = lru_cache(maxsize=_VALUES_KEPT)(self._hashed)
        self._periods: dict[Window, Period] = {}
        self._fixed: tuple[str, dict[str, tuple[Applied, ...]]] = ("", {})

    def key(self, rule: Rule) -> str:
        """Return the key of a limit; of one that is one of many, what stands before the value.

        Raises:
            StoreError: the secret cannot be read.
        """
        known = self._keys.get(rule.name)
        if known is None:
            known = f"{self.app}|limit:{self._digest(rule.selection, _KEY_BYTES)}"
            self._keys[rule.name] = known
        return known

    def of(self, request: Request, at: int, *, day: str) -> Iterator[Applied]:
        """Yield the limits of the configuration's tables that a request counts in, then its runs.

        Args:
            request: the request.
            at: microseconds since 1970 UTC.
            day: id of the current day, until which limits without values are kept.

        Raises:
            StoreError: the secret cannot be read.
        """
        fixed = self._kept(day)
        for rule in self.rules:
            if not rule.holds(request):
                continue
            if rule.per is None:
                yield from self._standing(rule, at, fixed)
            for value in rule.values(request):
                yield from self._applied(rule, self.value_key(rule, value), at, value=value)
        for run, usd in request.run_limits:
            slot = Slot(f"{self.app}|run:{run}", RUN_PERIOD)
            yield Applied(f"run:{run}", "run", slot, usd, usd, usd)

    def standing(self, at: int, *, day: str) -> Iterator[Applied]:
        """Yield the limits of tables that are not one of many, whatever calls they are for."""
        fixed = self._kept(day)
        for rule in self.rules:
            if rule.per is None:
                yield from self._standing(rule, at, fixed)

    def _kept(self, day: str) -> dict[str, tuple[Applied, ...]]:
        fixed = self._fixed  # another thread may be in another day
        if fixed[0] != day:
            fixed = self._fixed = (day, {})
        return fixed[1]

    def period(self, window: Window, at: int) -> Period:
        """Return the period of a window that a time lies in; computed when the window turns."""
        kept = self._periods.get(window)
        if kept is None or not kept.holds(at):
            kept = self._periods[window] = period_of(window, time_from_micros(at))
        return kept

    def _standing(
        self, rule: Rule, at: int, fixed: dict[str, tuple[Applied, ...]]
    ) -> tuple[Applied, ...]:
        kept = fixed.get(rule.name)
        if kept is None:
            kept = fixed[rule.name] = tuple(self._applied(rule, self.key(rule), at))
        return kept

    def _applied(
        self, rule: Rule, key: str, at: int, *, value: str | None = None
    ) -> Iterator[Applied]:
        for cap in rule.caps:
            kind = cap.window.kind
            period = TOTAL_PERIOD if kind == "total" else self.period(cap.window, at).id
            slot = Slot(key, period)
            yield Applied(rule.name, kind, slot, cap.usd, cap.first, cap.last, cap.warn, value)

    def value_key(self, rule: Rule, value: str) -> str:
        """Return the key of one value's limit; long values are not remembered, they may be large.

        Raises:
            StoreError: the secret cannot be read.
        """
        return (self._value_key if len(value) <= _SHORT else self._hashed)(rule, value)

    def _hashed(self, rule: Rule, value: str) -> str:
        return f"{self.key(rule)}{ONE_OF_MANY}{self._digest(value, _VALUE_BYTES)}"

    def _digest(self, text: str, size: int) -> str:
        data = text.encode(errors="surrogatepass")
        return hashlib.blake2b(data, key=self._secret(), digest_size=size).hexdigest()


def _tag(request: Request, name: str) -> str | None:
    return request.route if name == "route" else request.tags.get(name)


def _wider(budget: BudgetConfig) -> Iterator[Cap]:
    kinds: tuple[tuple[Kind, float | None], ...] = (
        ("week", budget.weekly_usd),
        ("month", budget.monthly_usd),
    )
    for kind, usd in kinds:
        if usd is not None:
            amount = pico_from_usd(usd)
            yield Cap(budget.window(kind), amount, amount, amount)


def _rule(name: str, said: LimitConfig, budget: BudgetConfig) -> Rule:
    match = tuple(
        [(tag, frozenset([v] if isinstance(v, str) else v)) for tag, v in said.match.items()]
    )
    caps = tuple(
        [_cap(said, pico_from_usd(usd), budget.window(kind)) for kind, usd in said.amounts.items()]
    )
    return Rule(name, said.per, match, caps, is_paced=said.pace)


def _cap(said: LimitConfig, usd: Pico, window: Window) -> Cap:
    degrades = said.on_exhausted == "degrade"
    hard = usd if said.hard_usd is None else pico_from_usd(said.hard_usd)
    warn = tuple(sorted({*said.warn, 1.0})) if said.soft else tuple(sorted(said.warn))
    return Cap(
        window,
        usd,
        first=None if said.soft and not degrades else usd,
        last=None if said.soft else hard,
        warn=warn,
    )
