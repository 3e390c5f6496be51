"""The columns of an outcomes table, and what each value must be.

A row is one graded call. `COLUMNS` is the documentation: docs/profiles.md shows it, errors cite it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from budgetroute.records import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MOST_TOKENS = 10**9
LONGEST_NAME = 200
LONGEST_CALL_S = 86_400.0
DEAREST_CALL_USD = 1_000.0
BASES = ("provider", "o200k")
_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})
_NOTHING = frozenset({"", "nan", "null", "none", "na", "n/a"})


class Way(NamedTuple):
    """A way of answering: an action without its cap."""

    model: str
    cot: bool = False
    effort: str | None = None
    temperature: float | None = None
    n: int = 1

    def at(self, cap: int) -> Action:
        """Return the action with this cap."""
        return Action(
            self.model,
            cap,
            cot=self.cot,
            reasoning_effort=self.effort,
            temperature=self.temperature,
            n=self.n,
        )

    @property
    def label(self) -> str:
        """Return the action's label without the cap.

        >>> Way("gpt-5", effort="low").label
        'gpt-5/low'
        """
        return self.at(1).label.replace(f"{self.model}/1", self.model, 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One graded call; None = not known.

    Attributes:
        prompt: id of the prompt.
        type: its prompt type.
        task: a part of the type with a fixed weight; the type itself where there is none.
        way: how it was answered.
        cap: the max_tokens that were sent; None = no cap that could have cut it.
        reward: quality in [0, 1].
        output_tokens: billable output tokens of the whole call.
        input_tokens: tokens sent.
        complete_tokens: length of the prefix that already holds what was graded.
        latency_s: seconds.
        cost_usd: dollars billed.
        basis: whose tokens these are, `provider` or `o200k`.
        is_hidden: no cap can be replayed: it reasoned out of sight, or the row says so.
    """

    prompt: str
    type: str
    task: str
    way: Way
    cap: int | None
    reward: float
    output_tokens: float | None
    input_tokens: float | None = None
    complete_tokens: float | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    basis: str = "provider"
    is_hidden: bool = False


class Column(NamedTuple):
    """A column: its name, what it holds, other names it goes by, and how a value is read."""

    name: str
    meaning: str
    read: Callable[[Any], Any]
    also: tuple[str, ...] = ()
    is_required: bool = False


def is_missing(value: object) -> bool:
    """Say whether a cell of a table is empty.

    >>> is_missing(" "), is_missing("NaN"), is_missing(0)
    (True, True, False)
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _refuse(allowed: str) -> NoReturn:
    raise ValueError(allowed)


def _name(value: object) -> str:
    text = str(value).strip()
    if isinstance(value, dict | list) or len(text) > LONGEST_NAME or not text.isprintable():
        _refuse(f"a name of at most {LONGEST_NAME} printable characters, never the prompt itself")
    return text


def _number(value: Any, low: float, high: float, allowed: str) -> float:  # noqa: ANN401 - what a table holds
    try:
        number = float(value)
    except (TypeError, ValueError):
        _refuse(allowed)
    if isinstance(value, bool) or not low <= number <= high:
        _refuse(allowed)
    return number


def _reward(value: object) -> float:
    if isinstance(value, bool):
        return float(value)
    return _number(value, 0, 1, "0 to 1; divide per cent by 100, map grades as (grade - 1) / 9")


def _tokens(value: object) -> float:
    return _number(value, 0, MOST_TOKENS, "a number of tokens, 0 or more")


def _whole(value: object) -> int:
    allowed = "a whole number, 1 or more"
    number = _number(value, 1, MOST_TOKENS, allowed)
    return int(number) if number.is_integer() else _refuse(allowed)


def _flag(value: object) -> bool:
    word = str(value).strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    _refuse("true or false")


def _seconds(value: object) -> float:
    return _number(value, 0, LONGEST_CALL_S, "seconds, at most a day; divide milliseconds by 1000")


def _dollars(value: object) -> float:
    allowed = "dollars of this one call, at most 1,000; neither cents nor dollars per thousand"
    return _number(value, 0, DEAREST_CALL_USD, allowed)


def _temperature(value: object) -> float:
    return _number(value, 0, 10, "a temperature, 0 or more")


def _basis(value: object) -> str:
    word = str(value).strip().lower()
    return word if word in BASES else _refuse("provider or o200k")


COLUMNS: tuple[Column, ...] = (
    Column(
        "prompt_id",
        "id of the prompt; several rows of one are its samples",
        _name,
        ("id",),
        is_required=True,
    ),
    Column("model", "the name that a call sends", _name, is_required=True),
    Column("reward", "quality of the answer, 0 to 1", _reward, ("score",), is_required=True),
    Column("output_tokens", "billed output tokens, hidden reasoning included", _tokens),
    Column("input_tokens", "tokens sent", _tokens),
    Column("type", "prompt type; none = all are `general`", _name, ("prompt_type",)),
    Column("task", "part of a type that keeps its weight, whoever answered it", _name),
    Column("max_tokens", "the cap that was sent; none = uncapped", _whole, ("cap",)),
    Column("cot", "whether the chain-of-thought instruction was added", _flag),
    Column("reasoning_effort", "effort of a reasoning model", _name, ("effort",)),
    Column("temperature", "as it was sent", _temperature),
    Column("n", "choices asked for, graded together", _whole),
    Column("reasoning_tokens", "hidden ones among output_tokens", _tokens),
    Column(
        "complete_tokens",
        "length of the prefix that already holds what was graded",
        _tokens,
        ("answer_complete_tokens",),
    ),
    Column(
        "hard_cut",
        "false where a cap changes the answer instead of cutting it, as hidden reasoning does",
        _flag,
    ),
    Column("latency_s", "seconds until the answer was whole", _seconds, ("latency",)),
    Column("cost_usd", "dollars billed; gives the tokens where a provider hides them", _dollars),
    Column("token_basis", "whose tokens: provider (default) or o200k", _basis),
)
BY_NAME = {name: column for column in COLUMNS for name in (column.name, *column.also)}


def outcome_of(raw: Mapping[str, Any]) -> Outcome:
    """Return a row as an outcome.

    Raises:
        ValueError: a value is not what its column holds; the text says column, found and allowed.
    """
    values: dict[str, Any] = {}
    for key, value in raw.items():
        column = BY_NAME.get(key)
        if column is None or is_missing(value):
            continue
        try:
            values[column.name] = column.read(value)
        except ValueError as err:
            shown = f"{len(str(value))} characters" if column.read is _name else repr(value)[:40]
            raise ValueError(f"{key} is {shown}; allowed is {err}") from None
    lacking = [c.name for c in COLUMNS if c.is_required and c.name not in values]
    if lacking:
        raise ValueError(f"{' and '.join(lacking)} missing")
    return _outcome(values)


def _outcome(values: Mapping[str, Any]) -> Outcome:
    kind = values.get("type", "general")
    way = Way(
        values["model"],
        values.get("cot", False),
        values.get("reasoning_effort"),
        values.get("temperature"),
        values.get("n", 1),
    )
    tokens, complete = values.get("output_tokens"), values.get("complete_tokens")
    if tokens is None and values.get("cost_usd") is None:
        raise ValueError("output_tokens missing, and no cost_usd to tell them from")
    if tokens is not None and complete is not None and complete > tokens:
        raise ValueError(
            f"complete_tokens is {complete:g}; allowed is at most output_tokens, {tokens:g}"
        )
    thinks = way.effort not in {None, "none"} or values.get("reasoning_tokens", 0) > 0
    return Outcome(
        prompt=values["prompt_id"],
        type=kind,
        task=values.get("task", kind),
        way=way,
        cap=values.get("max_tokens"),
        reward=values["reward"],
        output_tokens=tokens,
        input_tokens=values.get("input_tokens"),
        complete_tokens=complete,
        latency_s=values.get("latency_s"),
        cost_usd=values.get("cost_usd"),
        basis=values.get("token_basis", "provider"),
        is_hidden=thinks or way.n > 1 or not values.get("hard_cut", True),
    )


def unknown_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that nothing is made of, sorted."""
    return sorted(set(names) - BY_NAME.keys())
