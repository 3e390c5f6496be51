"""Worst cases that a report crossed: for a day, such calls hold what was seen.

    worst = responses · (bound · input rate + (n · cap + beyond) · output rate + fee) · dearer

`beyond` is learned by model and kind of thinking, `dearer` by model, `responses` by route, each the
most that was seen in the last 24 hours. Input has its own memory (`overheads`), so no excess counts
twice: tokens are compared with the cap that was sent, the bill with the declared price of the very
tokens it was for. Nothing that a report says is believed beyond a limit, nothing longer than a day.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from budgetroute import billing
from budgetroute.router.keeping import kept, recalled
from budgetroute.terms import joined, terms_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from budgetroute.protocols import Store
    from budgetroute.records import Decision, Usage
    from budgetroute.router.table import ModelFacts
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.spend")

Kind: TypeAlias = Literal["beyond", "dearer", "responses"]
Marks: TypeAlias = "dict[str, list[tuple[int, float]]]"
"""`kind|name` → (microseconds since 1970 UTC, amount), oldest first, each more than the next."""

REMEMBERED_US = 86_400_000_000
_AGAIN_US = 3_600_000_000  # what is known is written again after an hour, not with every call
_READ_AGAIN_US = 1_000_000
_MARGIN = 1.1
_MOST_DEARER = 10.0
_MOST_CAPS = 10  # times the cap, where the model's own limit is not known
_MOST_RESPONSES = 100
_TRIES = 5
_UNSAVED = 100
_STANDARD = frozenset({None, "default", "standard", "auto"})
_DECODER = msgspec.json.Decoder(dict[str, list[tuple[int, float]]])


@dataclass(frozen=True, slots=True)
class Raised:
    """By how much worst cases are raised above what is declared.

    Attributes:
        beyond: family of actions → output tokens of a response beyond its cap.
        dearer: model → factor on the price.
        responses: route → responses beyond those declared.
    """

    beyond: Mapping[str, int] = field(default_factory=dict)
    dearer: Mapping[str, float] = field(default_factory=dict)
    responses: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.beyond or self.dearer or self.responses)


NOTHING_RAISED = Raised()


@dataclass(frozen=True, slots=True)
class Crossing:
    """One thing that a report had more of than was declared.

    Attributes:
        kind: of what.
        name: of the family, the model or the route.
        amount: how much more; a factor for `dearer`.
        text: the same in words.
    """

    kind: Kind
    name: str
    amount: float
    text: str


def crossings(
    decision: Decision,
    usages: Sequence[Usage],
    billed: Pico,
    *,
    facts: ModelFacts,
    billed_as: str,
    given: bool,
) -> list[Crossing]:
    """Return what a call had more of than was declared; mostly nothing.

    Args:
        decision: what was decided.
        usages: what the responses reported.
        billed: what they cost together.
        facts: of the planned model.
        billed_as: key of the price that applied.
        given: the user said what it cost. Then fees may be in it, and only a bill above the
            declared worst case says something of the price.
    """
    found = []
    more = len(usages) - decision.calls
    if more > 0:
        found.append(_responses(decision, more))
    beyond = _beyond(decision, usages, facts)
    if beyond > 0:
        found.append(_output(decision, beyond, facts))
    if not given and billed_as == facts.price.key and all(map(_is_plain, usages)):
        return found
    most = sum(_most(usage, decision, facts) for usage in usages)
    declared = decision.chosen.worst if (own := decision.chosen.declared) is None else own
    if given:
        most = 0 if billed <= declared else most or declared
    if 0 < most < billed:
        found.append(_price(decision, billed / most))
    return found


def _is_plain(usage: Usage) -> bool:
    """Say whether a usage has nothing but tokens of text at the standard rates.

    At the planned model's price they are never billed above their own worst case: the common case.
    """
    return usage.service_tier in _STANDARD and not (
        usage.searches
        or usage.map_queries
        or usage.audio_tokens
        or usage.image_tokens
        or usage.audio_output_tokens
        or usage.image_output_tokens
    )


def _beyond(decision: Decision, usages: Sequence[Usage], facts: ModelFacts) -> int:
    """Return the output tokens above what the caps of these responses allow."""
    each = decision.action.n * (decision.max_tokens + facts.beyond_cap(decision.action))
    allowed = max(decision.calls, len(usages)) * each
    return sum(max(0, usage.output_tokens) for usage in usages) - allowed


def _most(usage: Usage, decision: Decision, facts: ModelFacts) -> Pico:
    """Return the most that exactly these tokens and searches can cost at the declared price.

    0 where the price is by time: then tokens say nothing of the bill.
    """
    if facts.price.second is not None:
        return 0
    terms = joined(decision.terms, terms_asked(dict(decision.action.params)))
    return billing.worst_case(
        facts.price,
        input_bound=max(0, usage.input_tokens),
        cap=max(0, usage.output_tokens),
        terms=replace(
            terms,
            searches=usage.searches,
            map_queries=usage.map_queries,
            context=None,
            audio=True,
            images=True,
        ),
    )


def _responses(decision: Decision, more: int) -> Crossing:
    return Crossing(
        "responses",
        decision.route,
        min(more, _MOST_RESPONSES),
        f"route {decision.route!r}: {more} more responses were reported than the "
        f"{decision.calls} of one reservation; declare calls=N",
    )


def _output(decision: Decision, beyond: int, facts: ModelFacts) -> Crossing:
    cap = decision.action.n * decision.max_tokens
    limit = max((facts.card.max_output_tokens or 0) * decision.action.n, _MOST_CAPS * cap)
    return Crossing(
        "beyond",
        decision.action.family,
        min(beyond, limit),
        f"{decision.action.label}: {beyond:,} output tokens were billed beyond the cap",
    )


def _price(decision: Decision, factor: float) -> Crossing:
    return Crossing(
        "dearer",
        decision.model,
        min(factor, _MOST_DEARER),
        f"{decision.action.label}: the bill is {factor:.3g} times what its tokens can cost at the "
        f"known price; write the price under [models.{decision.model!r}]",
    )


class Crossings:
    """What was crossed lately, shared through the store.

    Args:
        store: where it is kept.
        app: the app's name, first part of the key.
    """

    def __init__(self, store: Store, *, app: str) -> None:
        self._store = store
        self._key = f"{app}|crossings"
        self._known: tuple[int, Marks] = (0, {})  # version and marks, replaced together
        self._read_at = -_READ_AGAIN_US
        self._unsaved: deque[tuple[str, int, float]] = deque(maxlen=_UNSAVED)
        self.last_seen = NOTHING_RAISED

    def raised(self, at: int) -> Raised:
        """Return what is to be held more; read again at most once a second.

        Args:
            at: microseconds since 1970 UTC.

        Raises:
            StoreError: the store cannot be read.
        """
        if not 0 <= at - self._read_at < _READ_AGAIN_US:
            version, marks = self._read()
            self._read_at = at
            self._take(version, _with(marks, list(self._unsaved), at))
        return self.last_seen

    def note(self, found: Iterable[Crossing], at: int) -> list[Crossing]:
        """Keep what was crossed; return what was crossed although it was raised already, or new.

        Raises:
            StoreError: it cannot be kept; this process holds it in memory and tries again.
        """
        news = [c for c in found if self._is_news(c, at)]
        if not news:
            if self._unsaved:
                self._save(at)
            return []
        fresh = [c for c in news if c.amount > _held(self.last_seen, c)]
        self._unsaved.extend((f"{c.kind}|{c.name}", at, c.amount) for c in news)
        version, marks = self._known
        self._take(version, _with(marks, list(self._unsaved), at))
        self._save(at)
        return fresh

    def _is_news(self, crossing: Crossing, at: int) -> bool:
        known = self._known[1].get(f"{crossing.kind}|{crossing.name}", ())
        return not any(
            amount >= crossing.amount and abs(at - then) < _AGAIN_US for then, amount in known
        )

    def _save(self, at: int) -> None:
        for _ in range(_TRIES):
            pending = list(self._unsaved)
            version, known = self._read()
            marks = _with(known, pending, at)
            value = msgspec.json.encode(marks).decode()
            if kept(self._store, self._key, value, version=version):
                self._take(version + 1, marks)
                for mark in pending:
                    with suppress(ValueError):  # another thread has written it too
                        self._unsaved.remove(mark)
                return

    def _read(self) -> tuple[int, Marks]:
        """Return the version and the marks that are kept; decoded only when they changed."""
        stored, known = self._store.load_plan(self._key), self._known
        return known if stored.version == known[0] else (stored.version, _decoded(stored.value))

    def _take(self, version: int, marks: Marks) -> None:
        self._known = (version, marks)
        self.last_seen = _summed(marks) if marks else NOTHING_RAISED


def _decoded(value: str | None) -> Marks:
    what = "kept crossings cannot be read, they are learned anew"
    return recalled(_DECODER, value, what=what) or {}


def _with(marks: Marks, more: Iterable[tuple[str, int, float]], at: int) -> Marks:
    """Return the marks with some more, without what is older than a day or no longer counts."""
    joined = {name: list(seen) for name, seen in marks.items()}
    for name, then, amount in more:
        joined.setdefault(name, []).append((then, amount))
    kept = {name: _staircase(seen, at) for name, seen in joined.items()}
    return {name: seen for name, seen in kept.items() if seen}


def _staircase(seen: Iterable[tuple[int, float]], at: int) -> list[tuple[int, float]]:
    """Return those that are the most since; what a clock set back left in the future counts a day."""
    left: list[tuple[int, float]] = []
    for then, amount in sorted(seen, reverse=True):
        is_valid = abs(at - then) <= REMEMBERED_US and math.isfinite(amount)
        if is_valid and (not left or amount > left[-1][1]):
            left.append((then, amount))
    return left[::-1]


def _summed(marks: Marks) -> Raised:
    found: dict[str, dict[str, float]] = {"beyond": {}, "dearer": {}, "responses": {}}
    for key, seen in marks.items():
        kind, _, name = key.partition("|")
        if kind in found:
            found[kind][name] = seen[0][1]
    return Raised(
        {name: math.ceil(most * _MARGIN) for name, most in found["beyond"].items()},
        {name: most * _MARGIN for name, most in found["dearer"].items()},
        {name: math.ceil(most) for name, most in found["responses"].items()},
    )


def _held(raised: Raised, crossing: Crossing) -> float:
    held: Mapping[str, float] = getattr(raised, crossing.kind)
    return held.get(crossing.name, 0.0)
