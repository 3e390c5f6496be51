"""What a route's function adds to the prompt that we cannot see, learned from what is reported.

Until a call has reported its input, the route's `input_tokens` counts as expected and as bound.
Afterwards the mean of the last 200 calls is expected, and their maximum, a tenth more, is reserved.
A day without a report forgets the largest if it is wild, ten times the next: it may be what refuses
every call.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from budgetroute.router.keeping import kept, recalled

if TYPE_CHECKING:
    from budgetroute.protocols import Store

logger = logging.getLogger("budgetroute.spend")

KEPT = 200
_WRITE_EVERY = 100
_MARGIN = 1.1
_DAY_US = 86_400_000_000
_WILD = 10
_SMALL = 1000  # tokens: ten times this is not wild


Micros: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**16)]  # until the year 2286
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=-(10**9), le=10**9)]


class _Kept(msgspec.Struct):
    """What the store keeps of a route: the time of the last report, and the tokens of the recent."""

    at: Micros
    recent: list[Tokens]


_DECODER = msgspec.json.Decoder(_Kept | list[Tokens])


@dataclass(frozen=True, slots=True)
class Overhead:
    """Tokens a function adds: on average and at most."""

    expected: float
    bound: int


@dataclass(slots=True)
class _Seen:
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    written_max: int = 0
    since_write: int = 0
    loaded: int | None = 0  # the version that was read; None once this process has written
    last: int = 0  # microseconds since 1970 UTC of the last report; 0 = not known

    def age(self, at: int, *, default: int) -> None:
        """Forget the largest for each day without a report, as long as it is wild."""
        days = (at - self.last) // _DAY_US if self.last else 0
        self.last += max(0, days) * _DAY_US
        for _ in range(min(days, len(self.recent))):
            *_, following, largest = [default, *sorted(self.recent)]
            if largest <= _WILD * max(following, default, _SMALL):
                return
            with suppress(ValueError):  # another thread has forgotten it too
                self.recent.remove(largest)


class Overheads:
    """Overheads by route, shared through the store.

    Args:
        store: where they are kept.
        app: the app's name, first part of the keys.
    """

    def __init__(self, store: Store, *, app: str) -> None:
        self._store = store
        self._app = app
        self._seen: dict[str, _Seen] = {}

    def of(self, route: str, *, default: int, at: int | None = None) -> Overhead:
        """Return the overhead to count with.

        Args:
            route: its name.
            default: tokens to count until a call has been seen.
            at: microseconds since 1970 UTC; None = nothing is forgotten.
        """
        seen = self._load(route)
        if at is not None and at - seen.last >= _DAY_US:
            seen.age(at, default=default)
        recent = seen.recent
        if not recent:
            return Overhead(float(default), default)
        top = max(recent)
        return Overhead(sum(recent) / len(recent), max(0, int(top * _MARGIN) + 1 if top > 0 else 0))

    def learn(self, route: str, *, reported: int, counted: float, at: int = 0) -> None:
        """Note that a call reported its input; written through when it says something new."""
        seen = self._load(route)
        seen.last = max(at, seen.last)
        seen.recent.append(round(reported - counted))
        seen.since_write += 1
        top = max(seen.recent)
        if top > seen.written_max or seen.since_write >= _WRITE_EVERY or len(seen.recent) == 1:
            self._write(route, seen, top)

    def _load(self, route: str) -> _Seen:
        if route not in self._seen:
            stored = self._store.load_plan(self._key(route))
            known = _decoded(stored.value)
            self._seen[route] = _Seen(
                deque(known.recent, maxlen=KEPT),
                max(known.recent, default=0),
                loaded=stored.version,
                last=known.at,
            )
        return self._seen[route]

    def _write(self, route: str, seen: _Seen, top: int) -> None:
        key = self._key(route)
        stored = self._store.load_plan(key)
        if seen.loaded not in {
            None,
            stored.version,
        }:  # another process, started alongside, was first
            theirs = max(_decoded(stored.value).recent, default=top)
            if theirs > top:
                seen.recent.append(theirs)
                top = theirs
        value = msgspec.json.encode(_Kept(seen.last, list(seen.recent))).decode()
        if kept(self._store, key, value, version=stored.version):
            seen.written_max, seen.since_write, seen.loaded = top, 0, None

    def _key(self, route: str) -> str:
        return f"{self._app}|overhead|{route}"


def _decoded(value: str | None) -> _Kept:
    """Return what is kept; an older version kept the numbers alone."""
    what = "kept overheads cannot be read, they are learned anew"
    known = recalled(_DECODER, value, what=what)
    if known is None:
        return _Kept(0, [])
    return known if isinstance(known, _Kept) else _Kept(0, known)
