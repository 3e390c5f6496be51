"""What a route's function adds to the prompt that we cannot see, learned from what is reported.

Until a call has reported its input, the route's `input_tokens` counts as expected and as bound.
Afterwards the mean of the last 200 calls is expected, and their maximum, a tenth more, is reserved.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from budgetroute.router.keeping import kept

if TYPE_CHECKING:
    from budgetroute.protocols import Store

logger = logging.getLogger("budgetroute.spend")

KEPT = 200
_WRITE_EVERY = 100
_MARGIN = 1.1


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

    def of(self, route: str, *, default: int) -> Overhead:
        """Return the overhead to count with; `default` tokens until a call has been seen."""
        recent = self._load(route).recent
        if not recent:
            return Overhead(float(default), default)
        top = max(recent)
        return Overhead(sum(recent) / len(recent), max(0, int(top * _MARGIN) + 1 if top > 0 else 0))

    def learn(self, route: str, *, reported: int, counted: float) -> None:
        """Note that a call reported its input; written through when it says something new."""
        seen = self._load(route)
        seen.recent.append(round(reported - counted))
        seen.since_write += 1
        top = max(seen.recent)
        if top > seen.written_max or seen.since_write >= _WRITE_EVERY or len(seen.recent) == 1:
            self._write(route, seen, top)

    def _load(self, route: str) -> _Seen:
        if route not in self._seen:
            stored = self._store.load_plan(self._key(route))
            recent = _numbers(stored.value) if stored.value else []
            self._seen[route] = _Seen(
                deque(recent, maxlen=KEPT), max(recent, default=0), loaded=stored.version
            )
        return self._seen[route]

    def _write(self, route: str, seen: _Seen, top: int) -> None:
        key = self._key(route)
        stored = self._store.load_plan(key)
        if seen.loaded not in {
            None,
            stored.version,
        }:  # another process, started alongside, was first
            theirs = max(_numbers(stored.value or "[]"), default=top)
            if theirs > top:
                seen.recent.append(theirs)
                top = theirs
        value = msgspec.json.encode(list(seen.recent)).decode()
        if kept(self._store, key, value, version=stored.version):
            seen.written_max, seen.since_write, seen.loaded = top, 0, None

    def _key(self, route: str) -> str:
        return f"{self._app}|overhead|{route}"


def _numbers(value: str) -> list[int]:
    try:
        return msgspec.json.decode(value, type=list[int])
    except msgspec.MsgspecError as err:
        logger.warning("kept overheads cannot be read, they are learned anew: %s", err)
        return []
