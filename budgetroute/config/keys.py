"""How a key of the configuration is described: its text, an example, its range, its short forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

MAX_USD = 9_000_000
"""Amounts at rest are int64 pico-dollars, which end at $9.2 million."""

Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=100_000_000)]
Searches: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Choices: TypeAlias = Annotated[int, Meta(ge=1, le=128)]
Seconds: TypeAlias = Annotated[float, Meta(ge=1, le=86_400)]
Word: TypeAlias = Annotated[str, Meta(min_length=1)]
Usd: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_USD)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0)]
Hour: TypeAlias = Annotated[int, Meta(ge=0, le=23)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

_CLASSES = {
    "input": "Dollars per million input tokens.",
    "output": "Dollars per million output tokens.",
    "cached_input": "Dollars per million input tokens read from the provider's cache.",
    "cache_write": "Dollars per million input tokens written to the provider's cache.",
    "cache_write_1h": "The same for entries kept an hour or longer. Default: cache_write's.",
    "reasoning": "Dollars per million hidden reasoning tokens. Default: output's.",
    "audio_input": "Dollars per million input tokens of sound. Default: input's.",
    "audio_output": "Dollars per million output tokens of sound. Default: output's.",
    "image_input": "Dollars per million input tokens of images. Default: input's.",
    "image_output": "Dollars per million output tokens of images. Default: output's.",
    "request": "Dollars per request, beside tokens or time.",
    "search": "Dollars per search that the provider runs.",
    "gpu_hour": "Dollars per hour of an engine of your own, instead of tokens.",
    "watts": "Power that it draws; with usd_per_kwh instead of gpu_hour.",
    "usd_per_kwh": "Dollars per kilowatt-hour.",
    "tokens_per_second": "Output tokens per second of one request, where no latency was profiled.",
}
PriceTable: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(
        extra_json_schema={
            "properties": {
                name: {"type": "number", "minimum": 0, "description": text}
                for name, text in _CLASSES.items()
            }
        }
    ),
]
"""Checked where prices are made; here only that it is a table of finite numbers."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)"  # Python's `$` would let a last line break pass
DURATION_PATTERN = r"^[0-9]+(\.[0-9]+)?[smh]?$"
PATTERNS = {
    NAME_PATTERN: "a string made of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit, "
    "at most 64 long",
    DURATION_PATTERN: "a text such as `90s`, `5m` or `1h`",
}
"""The patterns that strings must match, in words."""

ONE_OR_MANY = "one_or_many"
"""Mark of a list that may be written as its single value."""
DURATION = "duration"
"""Mark of seconds that may be written as `5m`."""


def key(text: str, *, eg: object, mark: str | None = None) -> Meta:
    """Describe a key, with an example of its value."""
    return Meta(description=text, examples=[eg], extra={mark: True} if mark else None)


def listed(text: str, *, eg: list[object], least: int = 1) -> Meta:
    """Describe a key that takes a list."""
    return Meta(description=text, examples=[eg], min_length=least)


def axis(text: str, *, eg: list[object]) -> Meta:
    """Describe a key that takes the values to choose from, or one value."""
    return Meta(description=text, examples=[eg], min_length=1, extra={ONE_OR_MANY: True})
