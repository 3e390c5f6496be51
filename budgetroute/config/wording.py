"""How errors speak: values in TOML, what was expected in words, close matches, secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from budgetroute.config.keys import PATTERNS

_SECRET_KEY = re.compile(
    r"(api[-_]?key|secret|passw|pwd|authori[sz]ation|credential|bearer|cookie|private|signature"
    r"|(?:access|auth|id|refresh|session)[-_]?token|(?:^|[-_.])(?:auth|key|token)$)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([?&][^=&?]*=)([^&#\s]*)"
)  # each part is looked at once, however many there are
_SECRET_QUERY = re.compile(r"pass|token|secret|key|auth", re.IGNORECASE)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 80
_NOUNS = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a table",
}
_PLURALS = {
    "string": "strings",
    "boolean": "booleans",
    "integer": "whole numbers",
    "number": "numbers",
    "object": "tables",
}


def toml(value: object) -> str:
    """Write a value as TOML does, in one line.

    >>> toml({"tags": ["eu"], "cot": True})
    '{ tags = ["eu"], cot = true }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{quoted(str(name))} = {toml(part)}" for name, part in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(toml(part) for part in value)}]"
    return str(value)


def quoted(name: str) -> str:
    """Quote one part of a dotted key where TOML wants it.

    >>> quoted("daily_usd"), quoted("gpt-4.1")
    ('daily_usd', '"gpt-4.1"')
    """
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def dotted(path: Sequence[str]) -> str:
    """Write a key path as TOML does.

    >>> dotted(("models", "gpt-4.1", "n"))
    'models."gpt-4.1".n'
    """
    return ".".join(quoted(part) for part in path)


def found(value: object, path: Sequence[str] = ()) -> str:
    """Describe what stands where something else should; secrets and table contents are kept out.

    >>> found("25"), found(True), found([]), found(-5)
    ('the string "25"', 'the boolean true', 'an empty list', '-5')
    """
    if any(is_secret(part) for part in path):
        return "*** (kept out of this message)"
    if isinstance(value, bool):
        return f"the boolean {toml(value)}"
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return "a number of too many digits"
    if isinstance(value, str):
        return f"the string {_short(toml(masked(value)))}" if value else "an empty string"
    return _found_group(value)


def _found_group(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table" if value else "an empty table"
    if isinstance(value, list | tuple):
        if any(isinstance(part, Mapping | list | tuple) for part in value):
            return "a list of tables or lists"
        return f"the list {_short(masked(toml(value)))}" if value else "an empty list"
    return _short(str(value))


def is_secret(key: str) -> bool:
    """Say whether a key's value must not be shown.

    >>> is_secret("api_key"), is_secret("max_tokens")
    (True, False)
    """
    return bool(_SECRET_KEY.search(key))


def masked(text: str) -> str:
    """Hide the user, password and tokens of a URL.

    >>> masked("redis://me:pw@host:6379/0"), masked("memory:")
    ('redis://***@host:6379/0', 'memory:')
    """
    head, scheme, rest = text.partition("://")
    _, at, host = rest.rpartition("@")
    shown = f"{head}{scheme}***@{host}" if at else text
    return _QUERY.sub(
        lambda part: part[1] + ("***" if _SECRET_QUERY.search(part[1]) else part[2]), shown
    )


def without_secrets(value: object) -> object:
    """Hide what looks like a secret, by its key or as part of an address.

    >>> without_secrets({"extra_headers": {"x-api-key": "sk-1", "user": "me"}})
    {'extra_headers': {'x-api-key': '***', 'user': 'me'}}
    """
    if isinstance(value, Mapping):
        return {
            name: "***" if is_secret(str(name)) else without_secrets(part)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(part) for part in value]
    return masked(value) if isinstance(value, str) else value


def expected(schema: Mapping[str, Any]) -> str:
    """Say in words what a JSON Schema asks for.

    >>> expected({"type": "number", "minimum": 0, "maximum": 1})
    'a number from 0 to 1'
    >>> expected({"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1})
    'a list (not empty) of whole numbers, each of at least 1'
    """
    if "anyOf" in schema:
        return _expected_any(schema["anyOf"])
    if "enum" in schema:
        return " or ".join(toml(word) for word in schema["enum"])
    if schema["type"] == "array":
        return _expected_list(schema)
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    inside = schema.get("additionalProperties")
    noun = "a non-empty string" if schema.get("minLength") else _NOUNS[schema["type"]]
    return f"{noun} whose values are each {expected(inside)}" if inside else noun + _range(schema)


def _expected_any(parts: Sequence[Mapping[str, Any]]) -> str:
    one, other = parts[0], parts[-1]
    if other.get("items") == one:
        return f"{expected(one)}, or a list of such values"
    return " or ".join(expected(part) for part in parts)


def _expected_list(schema: Mapping[str, Any]) -> str:
    inside = schema["items"]
    bounds = _range(inside)
    filled = " (not empty)" if schema.get("minItems") else ""
    return f"a list{filled} of {_PLURALS[inside['type']]}" + (f", each{bounds}" if bounds else "")


def _range(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "exclusiveMaximum": "below",
        "maximum": "at most",
    }
    parts = [f"{word} {schema[rule]:,}" for rule, word in words.items() if rule in schema]
    return " " + " and ".join(parts) if parts else ""


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """Return `; did you mean …?` for the closest option, or nothing.

    >>> did_you_mean("dayly_usd", ["daily_usd", "timezone"])
    '; did you mean `daily_usd`?'
    """
    near = closest(word, options, count=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def closest(word: str, options: Sequence[str], *, count: int) -> list[str]:
    """Return the options that look most like a word, whatever its case."""
    from difflib import get_close_matches

    by_lower = {option.lower(): option for option in options}
    near = get_close_matches(word.lower(), list(by_lower), n=count, cutoff=0.6)
    return [by_lower[name] for name in near]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
