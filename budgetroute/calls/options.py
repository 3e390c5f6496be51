"""What `@route(...)` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from budgetroute.errors import ConfigError
from budgetroute.units import LONGEST_NAME, is_amount, is_name, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from budgetroute.router import Router


@dataclass(frozen=True, slots=True)
class Options:
    """What `@route(...)` was told; see `route` for the meaning of each.

    Attributes:
        attempts: how often a wrapped client tries a call, each time with its own reservation.
        straight: the method that calls go to which are not routed; None = the function itself.
    """

    name: str | None = None
    prompt: str | Callable[..., Any] | None = None
    prompt_type: str | None = None
    floor: float | None = None
    require: frozenset[str] = frozenset()
    providers: frozenset[str] | None = None
    model: str | None = None
    max_tokens: int | None = None
    calls: int = 1
    attempts: int = 1
    straight: Callable[..., Any] | None = None
    usage: Callable[[Any], Any] | None = None
    hidden: bool = False
    router: Router | None = None

    def __post_init__(self) -> None:
        texts: dict[str, object] = {
            "name": self.name,
            "prompt_type": self.prompt_type,
            "model": self.model,
        }
        for what, text in texts.items():
            if text is not None and not is_name(text):
                _refuse(what, text, f"a printable string of 1 to {LONGEST_NAME} characters")
        counts = {"calls": self.calls, "attempts": self.attempts, "max_tokens": self.max_tokens}
        for what, count in counts.items():
            if count is not None and not is_whole(count):
                _refuse(what, count, "a whole number of 1 or more")
        if self.floor is not None and not (is_amount(self.floor) and self.floor <= 1):
            _refuse("floor", self.floor, "a reward between 0 and 1")
        if self.usage is not None and not callable(self.usage):
            _refuse("usage", self.usage, "a function of the result")
        if not (self.prompt is None or isinstance(self.prompt, str) or callable(self.prompt)):
            _refuse("prompt", self.prompt, "a parameter's name or a function")


def named(what: str, names: Iterable[str]) -> frozenset[str]:
    """Return a set of names; a lone string is refused, because it would be read letter by letter.

    Raises:
        ConfigError: it is a string, or holds something else than strings.
    """
    kept = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in kept):
        _refuse(what, names, f'a list of names, such as {what}=["eu"]')
    return frozenset(kept)


def _refuse(what: str, found: object, wanted: str) -> NoReturn:
    raise ConfigError(f"@route({what}={found!r}): {wanted}")
