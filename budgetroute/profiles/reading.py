"""The content of a profile file, checked value by value.

Nothing in a profile is executed, and no request parameter in it can redirect, authenticate or
re-price a call.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from budgetroute.curves import CERTAINTY
from budgetroute.errors import ProfileError
from budgetroute.profiles.writing import FORMAT_NAME, FORMAT_VERSION, action_entry
from budgetroute.records import Action, Cell, ClassifierRef, Profile, PromptType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_BYTES = 10 * 1024 * 1024
"""100 times the shipped profile. Parsed, it can take 25 times as much memory, and 2 s."""
MAX_TEXT = 200
MAX_SHOWN = 80
LARGEST = 10**12
SHARE_TOLERANCE = 1e-6
GENERAL = "general"
TUNING_PARAMETERS = frozenset({
    "frequency_penalty", "logit_bias", "min_p", "presence_penalty", "repetition_penalty",
    "response_format", "seed", "stop", "thinking", "top_k", "top_p", "verbosity",
})  # fmt: skip
"""What an action may send besides its axes: nothing that redirects, authenticates or re-prices."""


class Rule(NamedTuple):
    """What a value must be, and how to say so."""

    allowed: str
    holds: Callable[[Any], bool]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= LARGEST


def _or_null(rule: Rule) -> Rule:
    return Rule(f"{rule.allowed}, or null", lambda value: value is None or rule.holds(value))


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(date.fromisoformat(value))
    except ValueError:
        return False


_SHARE = Rule("a number from 0 to 1", lambda v: _number(v) and 0 <= v <= 1)
_AMOUNT = Rule("a number, 0 or more", lambda v: _number(v) and v >= 0)
_POSITIVE = Rule("a number above 0", lambda v: _number(v) and v > 0)
_FLAG = Rule("true or false", lambda v: isinstance(v, bool))
_COUNT = Rule("a whole number, 0 or more", lambda v: _whole(v, 0))
_AT_LEAST_ONE = Rule("a whole number, 1 or more", lambda v: _whole(v, 1))
_TEXT = Rule(
    f"a printable text of 1 to {MAX_TEXT} characters",
    lambda v: isinstance(v, str) and 0 < len(v) <= MAX_TEXT and v.isprintable(),
)
_OBJECT = Rule("an object", lambda v: isinstance(v, dict))
_LIST = Rule("a list with at least one entry", lambda v: isinstance(v, list) and bool(v))
_TYPE_NAME = Rule(
    "a name of 1 to 64 letters, digits, '_', '-' or '.'",
    lambda v: re.fullmatch(r"[\w.-]{1,64}", v) is not None,
)
_FILE_NAME = Rule(
    "a plain file name ending in .npz",
    lambda v: isinstance(v, str) and re.fullmatch(r"[\w][\w.-]{0,100}\.npz", v) is not None,
)
_SHA256 = Rule(
    "64 hexadecimal digits",
    lambda v: isinstance(v, str) and re.fullmatch(r"[0-9a-f]{64}", v) is not None,
)
_PARAMS = Rule(
    f"an object with names from {', '.join(sorted(TUNING_PARAMETERS))}",
    lambda v: isinstance(v, dict) and v.keys() <= TUNING_PARAMETERS,
)

_Fields: TypeAlias = "Mapping[str, tuple[Rule, bool]]"
_PROFILE: _Fields = {
    "format": (_TEXT, True),
    "name": (_TEXT, True),
    "created": (Rule("an ISO date", _is_date), True),
    "provenance": (_OBJECT, False),
    "types": (_OBJECT, True),
    "actions": (_LIST, True),
    "cells": (_OBJECT, True),
    "classifier": (_or_null(_OBJECT), False),
}
_CLASSIFIER: _Fields = {"name": (_FILE_NAME, True), "sha256": (_SHA256, True)}
_TYPE: _Fields = {
    "share": (_SHARE, True),
    "input_tokens": (_AMOUNT, True),
    "value": (_AMOUNT, False),
    "sensitive": (_or_null(_FLAG), False),
}
_ACTION: _Fields = {
    "model": (_TEXT, True),
    "max_tokens": (_AT_LEAST_ONE, True),
    "cot": (_FLAG, False),
    "reasoning_effort": (_or_null(_TEXT), False),
    "temperature": (_or_null(_AMOUNT), False),
    "n": (_AT_LEAST_ONE, False),
    "params": (_PARAMS, False),
}
_CELL: _Fields = {
    "action": (_COUNT, True),
    "n": (_COUNT, True),
    "reward": (_SHARE, True),
    "reward_se": (_AMOUNT, True),
    "output_mean": (_AMOUNT, True),
    "output_p95": (_or_null(_AMOUNT), False),
    "output_p99": (_or_null(_AMOUNT), False),
    "cut": (_or_null(_SHARE), False),
    "input_factor": (_POSITIVE, False),
    "latency_mean": (_or_null(_AMOUNT), False),
    "latency_p95": (_or_null(_AMOUNT), False),
    "token_basis": (Rule("'provider' or 'o200k'", lambda v: v in ("provider", "o200k")), False),
    "source": (Rule(f"one of {', '.join(CERTAINTY)}", lambda v: v in CERTAINTY), False),
}


class _Reader:
    """Checks one file's content; every complaint names the file, the place and what is allowed."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def refuse(self, place: str, found: object, allowed: str) -> NoReturn:
        shown = repr(found)
        shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
        raise ProfileError(f"profile {self.origin}: {place}: found {shown}; allowed is {allowed}")

    def fields(self, raw: object, place: str, fields: _Fields) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self.refuse(place, raw, "an object")
        for key in raw:
            if key not in fields:
                self.refuse(f"{place}.{key}".lstrip("."), key, f"one of {', '.join(fields)}")
        for key, (rule, required) in fields.items():
            where = f"{place}.{key}".lstrip(".")
            if key in raw and not rule.holds(raw[key]):
                self.refuse(where, raw[key], rule.allowed)
            if required and key not in raw:
                self.refuse(where, "nothing", rule.allowed)
        return dict(raw)

    def profile(self, raw: object) -> Profile:
        self.version(raw)
        top = self.fields(raw, "", _PROFILE)
        types = self.types(top["types"])
        actions = self.actions(top["actions"])
        ref = top.get("classifier")
        return Profile(
            name=top["name"],
            created=top["created"],
            types=types,
            actions=actions,
            cells=self.cells(top["cells"], types, count=len(actions)),
            classifier=None if ref is None else self.classifier(ref),
            provenance=top.get("provenance", {}),
        )

    def classifier(self, raw: object) -> ClassifierRef:
        return ClassifierRef(**self.fields(raw, "classifier", _CLASSIFIER))

    def version(self, raw: object) -> None:
        """Refuse other formats before anything else, so that a newer file says just that."""
        found = raw.get("format") if isinstance(raw, dict) else raw
        name, _, number = found.partition("/") if isinstance(found, str) else ("", "", "")
        if name == FORMAT_NAME and number.isdecimal() and int(number) > FORMAT_VERSION:
            raise ProfileError(
                f"profile {self.origin}: format: found {found!r}; this package reads "
                f"{FORMAT_VERSION}; upgrade budgetroute"
            )
        if found != f"{FORMAT_NAME}/{FORMAT_VERSION}":
            self.refuse("format", found, f"'{FORMAT_NAME}/{FORMAT_VERSION}'")

    def types(self, raw: Mapping[str, Any]) -> dict[str, PromptType]:
        if GENERAL not in raw:
            self.refuse("types", sorted(raw), f"a list of types with {GENERAL!r} among them")
        for name in raw:
            if not _TYPE_NAME.holds(name):
                self.refuse("types", name, _TYPE_NAME.allowed)
        types = {
            name: PromptType(**self.fields(entry, f"types.{name}", _TYPE))
            for name, entry in raw.items()
        }
        total = math.fsum(kind.share for kind in types.values())
        if abs(total - 1) > SHARE_TOLERANCE:
            self.refuse("types.*.share", total, "shares that sum to 1")
        return types

    def actions(self, raw: Sequence[Any]) -> tuple[Action, ...]:
        actions: dict[str, Action] = {}
        for index, entry in enumerate(raw):
            values = self.fields(entry, f"actions[{index}]", _ACTION)
            params = tuple(sorted(values.pop("params", {}).items()))
            action = Action(**values, params=params)
            key = json.dumps(action_entry(action), sort_keys=True)
            if key in actions:
                self.refuse(f"actions[{index}]", action.label, "each action once")
            actions[key] = action
        return tuple(actions.values())

    def cells(
        self, raw: Mapping[str, Any], types: Mapping[str, PromptType], *, count: int
    ) -> dict[str, tuple[Cell | None, ...]]:
        if raw.keys() != types.keys():
            self.refuse("cells", sorted(raw), f"exactly the types {sorted(types)}")
        return {name: self.row(raw[name], f"cells.{name}", count=count) for name in types}

    def row(self, raw: object, place: str, *, count: int) -> tuple[Cell | None, ...]:
        if not isinstance(raw, list) or not raw:
            self.refuse(place, raw, _LIST.allowed)
        row: list[Cell | None] = [None] * count
        for index, entry in enumerate(raw):
            where = f"{place}[{index}]"
            values = self.fields(entry, where, _CELL)
            action = values.pop("action")
            if action >= count:
                self.refuse(f"{where}.action", action, f"an index of actions, 0 to {count - 1}")
            if row[action] is not None:
                self.refuse(f"{where}.action", action, "each action once per type")
            row[action] = Cell(**values)
        return tuple(row)


def parse_profile(text: str | bytes, *, origin: str) -> Profile:
    """Read a profile's content.

    Args:
        text: the JSON.
        origin: what errors call it, usually the path.

    Raises:
        ProfileError: it is not JSON, of another format, or a value is not allowed; the text names
            the place (`cells.math[3].reward`), what was found and what is allowed.
    """
    reader = _Reader(origin)
    if len(text) > MAX_BYTES:
        reader.refuse("size", f"{len(text)} bytes", f"at most {MAX_BYTES} bytes")

    constants: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            tally = Counter(name for name, _ in pairs)
            (twice, _), *_ = tally.most_common(1)
            reader.refuse("an object", f"{twice!r} twice", "each key once")
        return made

    def constant(name: str) -> float:
        constants.append(name)
        return float(name)

    try:
        raw = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except RecursionError as err:
        raise ProfileError(f"profile {origin}: nested too deep to be a profile") from err
    except ValueError as err:
        raise ProfileError(f"profile {origin}: not JSON: {err}") from err
    profile = reader.profile(raw)
    if constants:  # every field refuses them in place, so that they stand where nothing is checked
        reader.refuse("provenance", constants[0], "finite numbers")
    return profile
