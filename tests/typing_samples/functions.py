"""What type checkers must see of routed functions; each ignored error must be one, or it is reported."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from budgetroute import Decision, last_decision, pin, record, route, run, tags

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@route
def bare(question: str, *, model: str = "gpt-4o-mini", max_tokens: int = 800) -> int:
    """Return something."""
    record({"usage": {}})
    return len(question)


@route()
def empty(question: str, *, model: str = "gpt-4o-mini", max_tokens: int = 800) -> int:
    """Return something."""
    return len(question)


@route("named", floor=0.8, require=["eu"], prompt="question", calls=2)
def named(question: str, *, model: str = "gpt-4o-mini", max_tokens: int = 800) -> int:
    """Return something."""
    return len(question)


@route
async def later(question: str, *, model: str = "gpt-4o-mini", max_tokens: int = 800) -> int:
    """Return something."""
    return len(question)


class Asker:
    """Has routed methods."""

    @route
    def ask(self, question: str, *, model: str = "gpt-4o-mini", max_tokens: int = 800) -> int:
        """Return something."""
        return len(question)

    @route("later")
    async def later(self, question: str, *, model: str = "a", max_tokens: int = 800) -> int:
        """Return something."""
        return len(question)


async def calls(asker: Asker) -> None:
    """Call everything rightly."""
    assert_type(bare("why?"), int)
    assert_type(empty("why?", model="gpt-4o"), int)
    assert_type(named("why?", max_tokens=100), int)
    assert_type(await later("why?"), int)
    assert_type(asker.ask("why?"), int)
    assert_type(await asker.later("why?"), int)
    assert_type(last_decision(), Decision | None)
    with run(usd=0.5) as scope, tags(user="u"), pin(model="gpt-4o", cot=True):
        assert_type(scope.id, str)


def mistakes(asker: Asker) -> None:
    """Call everything wrongly: the signature is kept, so each line is an error."""
    bare(3)  # type: ignore[arg-type]
    bare("why?", max_tokens="100")  # type: ignore[arg-type]
    bare("why?", colour="red")  # type: ignore[call-arg]
    empty()  # type: ignore[call-arg]
    named("why?", "gpt-4o")  # type: ignore[call-arg]
    asker.ask(3)  # type: ignore[arg-type]
    route(floor="high")  # type: ignore[call-overload]


function: Callable[[str], int] = bare
coroutine: Callable[[str], Coroutine[object, object, int]] = later
