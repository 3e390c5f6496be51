"""What `@route(...)` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError
from budgetroute.units import is_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetroute.router import Router


@dataclass(frozen=True, slots=True)
class Options:
    """What `@route(...)` was told; see `route` for the meaning of each."""

    name: str | None = None
    prompt: str | Callable[..., Any] | None = None
    prompt_type: str | None = None
    floor: float | None = None
    require: frozenset[str] = frozenset()
    providers: frozenset[str] | None = None
    model: str | None = None
    max_tokens: int | None = None
    calls: int = 1
    usage: Callable[[Any], Any] | None = None
    hidden: bool = False
    router: Router | None = None

    def __post_init__(self) -> None:
        if self.name == "":
            raise ConfigError("@route(name=''): a route's name is a non-empty string")
        for what, count in (("calls", self.calls), ("max_tokens", self.max_tokens)):
            if count is not None and not is_whole(count):
                raise ConfigError(f"@route({what}={count!r}): a whole number of 1 or more")
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise ConfigError(f"@route(floor={self.floor!r}): a reward between 0 and 1")
