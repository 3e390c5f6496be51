"""One decision as the ledger remembers it: what `explain` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from budgetroute.cli.entries import decided, outcome
from budgetroute.cli.opening import ledger_file
from budgetroute.errors import StoreError
from budgetroute.policy import flip_price
from budgetroute.records import Action, Candidate
from budgetroute.router.till import Till
from budgetroute.units import time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, tzinfo

    from budgetroute.cli.entries import Decided, Outcome, Ranked
    from budgetroute.config import Config
    from budgetroute.protocols import Store
    from budgetroute.records import Entry, Slot
    from budgetroute.units import Pico

LAST = "last"
_NAMED = 3
_NEWEST = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one limit of a decision stands now, in the period that the decision counts in.

    Attributes:
        name: the limit's name, without a tag's value.
        slot: where the money is counted.
        spent: settled.
        held: held.
        usd: the limit, as the configuration says it today; None = it no longer does.
    """

    name: str
    slot: Slot
    spent: Pico
    held: Pico
    usd: Pico | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values in dollars."""
        return {
            "name": self.name,
            "period": self.slot.period,
            "spent_usd": usd_from_pico(self.spent),
            "held_usd": usd_from_pico(self.held),
            "limit_usd": None if self.usd is None else usd_from_pico(self.usd),
        }


@dataclass(frozen=True, slots=True)
class Story:
    """A decision and what became of it.

    Attributes:
        id: the decision's id.
        app: the app it belongs to, from its scope.
        record: what was seen when choosing.
        attempts: oldest first.
        zone: the zone that times are shown in.
        limits: where the limits that it counts in stand, as far as they are in the configuration.
        then: the id of the decision that was made when this one had failed; None = none is known.
    """

    id: str
    app: str
    record: Decided
    attempts: tuple[Entry, ...]
    zone: tzinfo
    limits: tuple[Standing, ...] = ()
    then: str | None = None

    @property
    def at(self) -> datetime:
        """Return when it was decided."""
        return self.time(self.attempts[0].at)

    @property
    def passed_over(self) -> int:
        """Return how many better candidates did not fit the budget."""
        return self.attempts[0].chosen

    @property
    def chosen(self) -> str | None:
        """Return the label of the action that was taken; None where the ledger lost it."""
        return self.record.label(self.attempts[0].chosen)

    @property
    def second(self) -> Ranked | None:
        """Return the best ranked candidate that was not taken."""
        return next((row for row in self.record.best if row.action != self.chosen), None)

    @property
    def flips_at(self) -> float | None:
        """Return the λ at which `second` draws level with the chosen one; None if none does."""
        first, second = self.record.row(self.chosen), self.second
        if first is None or second is None:
            return None
        return flip_price(self._candidate(first), self._candidate(second))

    def _candidate(self, row: Ranked) -> Candidate:
        """Return a stored row as a candidate whose reward carries its value."""
        return Candidate(Action(row.action, 1), self.record.gain(row), row.cost, worst=0)

    def time(self, micros: int) -> datetime:
        """Return a time of the ledger in the zone."""
        return time_from_micros(micros).astimezone(self.zone)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; amounts in dollars, times as ISO strings."""
        record = self.record
        return {
            "id": self.id,
            "app": self.app,
            "at": self.at.isoformat(),
            "route": record.route,
            "types": dict(record.types),
            "classified_by": record.by,
            "input_tokens": record.input_tokens,
            "lambda": record.price,
            "propensity": record.propensity,
            "plan": None
            if record.plan is None
            else dict(zip(("lambda_low", "lambda_high", "share_low"), record.plan, strict=True)),
            "guess": None
            if record.guess is None
            else dict(
                zip(("times_as_long", "reward_least", "reward_most"), record.guess, strict=True)
            ),
            "gamma": record.gamma.get(self.chosen or "", 1.0),
            "priced_by": record.priced_by,
            "floor": record.floor,
            "fallback": record.fallback or None,
            "after": record.after or None,
            "then": self.then,
            "chosen": self.chosen,
            "passed_over": self.passed_over,
            "ranked": [self._ranked_json(row) for row in record.best],
            "gated": msgspec.to_builtins(record.gated),
            "bound_by": None if record.bound is None else msgspec.to_builtins(record.bound),
            "degraded": record.degraded,
            "limits": [limit.to_json() for limit in self.limits],
            "why": record.why,
            "raised": self._raised_json(),
            "baseline": None if record.baseline is None else msgspec.to_builtins(record.baseline),
            "shadow": None if record.shadow is None else msgspec.to_builtins(record.shadow),
            "flips_at": self.flips_at,
            "flips_to": None
            if self.flips_at is None or self.second is None
            else self.second.action,
            "attempts": [self._attempt_json(entry) for entry in self.attempts],
            "spent_usd": usd_from_pico(sum(entry.row.amount for entry in self.attempts)),
        }

    def priced(self, row: Ranked) -> tuple[float, float]:
        """Return λ·C and value·R − λ·C of a candidate."""
        spent = (self.record.price or 0.0) * row.cost
        return spent, self.record.gain(row) - spent

    def _raised_json(self) -> dict[str, Any] | None:
        """Return why more is held for the chosen action than its declared worst case."""
        if self.chosen not in self.record.raised:
            return None
        declared, why = self.record.raised[self.chosen]
        return {"declared_usd": declared, "why": why}

    def _ranked_json(self, row: Ranked) -> dict[str, Any]:
        spent, surplus = self.priced(row)
        return {
            "action": row.action,
            "R": row.reward,
            "C": row.cost,
            "lambda_C": spent,
            "surplus": surplus,
            "held_usd": self.record.held(row.action),
            "source": row.source,
            "chosen": row.action == self.chosen,
        }

    def _attempt_json(self, entry: Entry) -> dict[str, Any]:
        seen: Outcome | None = outcome(entry)
        settled = entry.settled_at
        return {
            "attempt": entry.attempt,
            "state": entry.row.state,
            "at": self.time(entry.at).isoformat(),
            "settled_at": None if settled is None else self.time(settled).isoformat(),
            "held_usd": usd_from_pico(entry.row.worst),
            "expected_usd": usd_from_pico(entry.row.expected),
            "spent_usd": usd_from_pico(entry.row.amount),
            "outcome": None if seen is None else msgspec.to_builtins(seen),
        }


def story(asked: str, config: Config, store: Store) -> Story:
    """Return the decision whose id begins so, or the app's newest for `last`.

    Raises:
        StoreError: there is none, or there are several; the text lists them.
    """
    wanted = asked.strip().partition("#")[0]
    attempts = store.find(wanted) if wanted and wanted != LAST else ()
    if wanted == LAST:
        newest = _of_app(store.recent(_NEWEST), config.name)
        attempts = store.find(newest[0].decision) if newest else ()
    if not attempts:
        raise _unknown(asked, config, store)
    first = attempts[0]
    scope = first.slots[0].scope if first.slots else ""
    return Story(
        id=first.decision,
        app=scope.partition("|")[0],
        record=decided(first),
        attempts=attempts,
        zone=config.budget.zone,
        limits=tuple(_limits(first, config, store)),
        then=_then(first.decision, store),
    )


def _then(decision: str, store: Store) -> str | None:
    """Return what was decided after a decision had failed, if that is among the newest."""
    newest = store.recent(_NEWEST)
    return next((e.decision for e in newest if decided(e).after == decision), None)


def _limits(first: Entry, config: Config, store: Store) -> Iterator[Standing]:
    """Yield where a decision's limits stand; slots of limits no longer in config have a dash."""
    till = Till(store, app=config.name, budget=config.budget, limits=config.limits)
    named = till.named(first.slots)
    for slot, sums in zip(first.slots, store.snapshot(first.slots), strict=True):
        for name, usd in named.get(slot, (("–", None),)):
            yield Standing(name, slot, sums.settled, sums.held, usd)


def _of_app(entries: Sequence[Entry], app: str) -> list[Entry]:
    return [e for e in entries if any(slot.scope.startswith(f"{app}|") for slot in e.slots)]


def _unknown(asked: str, config: Config, store: Store) -> StoreError:
    path = ledger_file(config)
    where = config.store.url if path is None else path
    newest = dict.fromkeys(e.decision for e in _of_app(store.recent(_NEWEST), config.name))
    if newest:
        named = ", ".join(list(newest)[:_NAMED])
        hint = (
            f"The newest of {config.name!r} are {named}; `budgetroute explain last` takes the first"
        )
    elif path is None:
        hint = "Such a store lives and ends with its process; write [store] path to keep decisions"
    else:
        hint = f"The app {config.name!r} has none yet; ids stand in the debug log (BUDGETROUTE_LOG=debug)"
    found = "an empty id" if not asked.strip() else f"no decision {asked!r}"
    return StoreError(f"{found} in {where}. {hint}.")
