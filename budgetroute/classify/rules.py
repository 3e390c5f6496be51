"""Prompt types by rule: what the caller already knows about a request.

A rule states conditions and a type; all its conditions must hold. The first rule that holds answers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.records import Request

    Condition: TypeAlias = Callable[[Request], bool]

__all__ = ["Rule", "Rules", "rule_from_config"]

GENERAL = "general"
DEADLINE_TAG = "deadline_s"
TAG_KEYS = ("tier", "channel", "endpoint", "user")
KEYS = (
    "type",
    "weight",
    "route",
    "tags",
    *TAG_KEYS,
    "deadline_below_s",
    "min_chars",
    "max_chars",
    "keywords",
    "all_keywords",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions and the prompt type they lead to; a condition left out always holds.

    Attributes:
        type: the prompt type.
        weight: how sure the rule is, in (0, 1]; the rest goes to `general`.
        routes: names of routes, one of which must be the request's.
        tags: tag name → values, one of which the request's tag must have.
        deadline_below_s: the tag `deadline_s` must be a number below this; seconds.
        min_chars: the prompt must be at least this long.
        max_chars: the prompt must be at most this long.
        keywords: whole words or phrases, one of which must occur; case does not matter.
        all_keywords: whole words or phrases, all of which must occur.
        name: what logs call it.
    """

    type: str
    weight: float = 1.0
    routes: tuple[str, ...] = ()
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deadline_below_s: float | None = None
    min_chars: int | None = None
    max_chars: int | None = None
    keywords: tuple[str, ...] = ()
    all_keywords: tuple[str, ...] = ()
    name: str = "rule"


class Rules:
    """The rules of one configuration, in order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._compiled = tuple((_answer(rule), _conditions(rule)) for rule in self.rules)

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types that the rules name, in their order."""
        return tuple(dict.fromkeys(rule.type for rule in self.rules))

    def classify(self, request: Request) -> tuple[tuple[tuple[str, float], ...], str] | None:
        """Return the first holding rule's type and its name; None when no rule holds."""
        for answer, conditions in self._compiled:
            if all(holds(request) for holds in conditions):
                return answer
        return None


def rule_from_config(index: int, mapping: Mapping[str, Any]) -> Rule:
    """Read entry `index` (from 0) of `[[classify.rules]]`.

    Raises:
        ConfigError: for an unknown key, a value of the wrong kind, or a rule without conditions.

    >>> rule_from_config(0, {"type": "code", "keywords": ["traceback"]}).keywords
    ('traceback',)
    """
    where = f"[[classify.rules]] number {index + 1}"
    _check_keys(where, mapping)
    rule = Rule(
        type=_text(where, "type", mapping["type"]),
        weight=_share(where, mapping.get("weight", 1.0)),
        routes=_texts(where, "route", mapping.get("route", ())),
        tags=_tags(where, mapping),
        deadline_below_s=_number(where, "deadline_below_s", mapping.get("deadline_below_s")),
        min_chars=_count(where, "min_chars", mapping.get("min_chars")),
        max_chars=_count(where, "max_chars", mapping.get("max_chars")),
        keywords=_texts(where, "keywords", mapping.get("keywords", ())),
        all_keywords=_texts(where, "all_keywords", mapping.get("all_keywords", ())),
        name=f"rules[{index}]",
    )
    _check_conditions(where, rule)
    return rule


# what a rule asks of a request


def _answer(rule: Rule) -> tuple[tuple[tuple[str, float], ...], str]:
    if rule.weight >= 1 or rule.type == GENERAL:
        return ((rule.type, 1.0),), rule.name
    shares = ((rule.type, rule.weight), (GENERAL, 1.0 - rule.weight))
    return tuple(sorted(shares, key=lambda share: -share[1])), rule.name


def _conditions(rule: Rule) -> tuple[Condition, ...]:
    conditions: list[Condition] = [_tag_is(name, values) for name, values in rule.tags.items()]
    if rule.routes:
        conditions.append(lambda request: request.route in rule.routes)
    if rule.deadline_below_s is not None:
        conditions.append(_deadline_below(rule.deadline_below_s))
    if rule.min_chars is not None or rule.max_chars is not None:
        conditions.append(_length_between(rule.min_chars or 0, rule.max_chars))
    if rule.keywords:
        conditions.append(_mentions(rule.keywords))
    conditions += [_mentions((keyword,)) for keyword in rule.all_keywords]
    return tuple(conditions)


def _tag_is(name: str, values: tuple[str, ...]) -> Condition:
    return lambda request: request.tags.get(name) in values


def _deadline_below(limit_s: float) -> Condition:
    def holds(request: Request) -> bool:
        try:
            return float(request.tags[DEADLINE_TAG]) < limit_s
        except (KeyError, ValueError):
            return False

    return holds


def _length_between(least: int, most: int | None) -> Condition:
    def holds(request: Request) -> bool:
        length = _characters(request)
        return length >= least and (most is None or length <= most)

    return holds


def _characters(request: Request) -> int:
    """Return the prompt's characters; where `text` is cut, its bytes per character scale the size."""
    text = request.text
    seen = len(text.encode("utf-8", "replace"))
    whole = request.size.utf8_bytes
    return len(text) if whole <= seen or not seen else round(len(text) * whole / seen)


def _mentions(keywords: tuple[str, ...]) -> Condition:
    """Match any keyword as whole words; users' keywords are literal, spaces match any blank."""
    literal = "|".join(r"\s+".join(map(re.escape, keyword.split())) for keyword in keywords)
    found = re.compile(rf"(?<!\w)(?:{literal})(?!\w)", re.IGNORECASE).search
    return lambda request: found(request.text) is not None


# reading the configuration


def _check_keys(where: str, mapping: Mapping[str, Any]) -> None:
    for key in mapping:
        if key not in KEYS:
            near = get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(KEYS)}."
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
    if "type" not in mapping:
        raise ConfigError(f'{where} names no prompt type; add one, for example type = "code".')


def _check_conditions(where: str, rule: Rule) -> None:
    if not _conditions(rule):
        raise ConfigError(
            f"{where} has no condition and would catch every request; add one of "
            f"{', '.join(KEYS[2:])}, or name the type on the route."
        )
    if rule.max_chars is not None and rule.max_chars < (rule.min_chars or 0):
        raise ConfigError(
            f"{where}: min_chars = {rule.min_chars} lies above max_chars = {rule.max_chars}, so "
            f"no prompt can match; swap them or drop one."
        )


def _tags(where: str, mapping: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    given = mapping.get("tags", {})
    if not hasattr(given, "items"):
        raise ConfigError(
            f'{where}: tags must be a table such as {{ team = "search" }}, found {given!r}.'
        )
    short = {key: mapping[key] for key in TAG_KEYS if key in mapping}
    if twice := sorted(short.keys() & given.keys()):
        raise ConfigError(f"{where}: {twice[0]!r} stands both by itself and in tags; keep one.")
    return {name: _texts(where, name, value) for name, value in {**given, **short}.items()}


def _text(where: str, key: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ConfigError(f"{where}: {key} must be a text that is not empty, found {value!r}.")


def _texts(where: str, key: str, value: object) -> tuple[str, ...]:
    """Read one text or a list of them; () only where the key is not given."""
    if value == ():
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ConfigError(f"{where}: {key} is an empty list; name at least one or drop the key.")
    return tuple(_text(where, key, item) for item in items)


def _number(where: str, key: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{where}: {key} must be a number, found {value!r}.")
    if value <= 0:
        raise ConfigError(f"{where}: {key} must be above 0, found {value!r}.")
    return float(value)


def _count(where: str, key: str, value: object) -> int | None:
    number = _number(where, key, value)
    if number is not None and number != int(number):
        raise ConfigError(f"{where}: {key} must be a whole number, found {value!r}.")
    return None if number is None else int(number)


def _share(where: str, value: object) -> float:
    number = _number(where, "weight", value)
    if number is None or number > 1:
        raise ConfigError(f"{where}: weight must lie above 0 and at most 1, found {value!r}.")
    return number
