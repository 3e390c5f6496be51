"""What surrounds a call: `run`, `tags` and `pin`, kept in context variables.

Context variables follow `await`, `asyncio.gather`, `TaskGroup` and `asyncio.to_thread`; a plain thread
pool starts empty, so hand it `contextvars.copy_context().run`.
"""

from __future__ import annotations

import contextlib
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError
from budgetroute.records import Pins
from budgetroute.units import LONGEST_NAME, is_amount, is_name, is_whole, pico_from_usd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.units import Pico

_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunScope:
    """One `run()`: its id, and the most that the calls inside it may cost."""

    id: str
    limit: Pico


_runs: ContextVar[tuple[RunScope, ...]] = ContextVar("budgetroute_runs", default=())
_tags: ContextVar[Mapping[str, str]] = ContextVar("budgetroute_tags", default=_EMPTY)
_pins: ContextVar[Pins] = ContextVar("budgetroute_pins", default=Pins())  # noqa: B039 - frozen


@contextlib.contextmanager
def run(*, usd: float, id: str | None = None) -> Iterator[RunScope]:  # noqa: A002 - the user's word
    """Cap what the calls inside may cost together, in dollars; nests, the tightest cap binds.

    Args:
        usd: the cap; 0 refuses every call.
        id: a name to continue a run elsewhere; generated if not given.
    """
    if not is_amount(usd):
        raise ConfigError(f"run(usd={usd!r}): a cap is a number of dollars, 0 or more")
    if id is not None and not is_name(id):
        raise ConfigError(
            f"run(id=…): a printable text of 1 to {LONGEST_NAME} characters is needed, because it "
            "stands in the ledger and in the log"
        )
    scope = RunScope(id or secrets.token_hex(6), pico_from_usd(usd))
    token = _runs.set((*_runs.get(), scope))
    try:
        yield scope
    finally:
        _runs.reset(token)


@contextlib.contextmanager
def tags(**values: str) -> Iterator[None]:
    """Attach tags (`user`, `tier`, `channel`, `endpoint`, …) to the calls inside; nests."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ConfigError(f"tags({name}={value!r}): a tag's value is a string")
    token = _tags.set(MappingProxyType({**_tags.get(), **values}))
    try:
        yield
    finally:
        _tags.reset(token)


@contextlib.contextmanager
def pin(
    *,
    model: str | None = None,
    max_tokens: int | None = None,
    cot: bool | None = None,
    reasoning_effort: str | None = None,
    temperature: float | None = None,
    n: int | None = None,
) -> Iterator[None]:
    """Fix parts of the action for the calls inside; what is not given stays free."""
    for name, count in (("max_tokens", max_tokens), ("n", n)):
        if count is not None and not is_whole(count):
            raise ConfigError(f"pin({name}={count!r}): a whole number of 1 or more is needed")
    mine = Pins(model, max_tokens, cot, reasoning_effort, temperature, n)
    token = _pins.set(mine.over(_pins.get()))
    try:
        yield
    finally:
        _pins.reset(token)


def current_runs() -> tuple[RunScope, ...]:
    """Return the enclosing runs, outermost first."""
    return _runs.get()


def current_tags() -> Mapping[str, str]:
    """Return the tags in force."""
    return _tags.get()


def current_pins() -> Pins:
    """Return the pins in force."""
    return _pins.get()
