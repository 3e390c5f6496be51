"""The budgetroute.toml that `init` writes, its words and examples taken from the configuration's Structs."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from budgetroute.config import Config
from budgetroute.config.keys import MAX_USD
from budgetroute.config.shape import described, example_of, keys_of, section_of, table_of
from budgetroute.config.wording import dotted, quoted, toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from msgspec import Struct

    from budgetroute.config.shape import KeyPath

_WIDTH = 98
_HEAD = """\
# A daily dollar budget for LLM calls. `budgetroute doctor` checks this file and shows what holds.
#
# Text stands behind "# ". Settings that are off stand behind "#" alone: take it away to use one,
# the [table] above it included. Changes hold from the next start of your program.
"""
_TOP = ("profile", "mode", "strict")
_BUDGET = (
    "reset_hour",
    "on_exhausted",
    "hard_usd",
    "calls_per_day",
    "weekly_usd",
    "monthly_usd",
)
_STORE = ("path", "on_store_error")
_MODEL = (
    "max_tokens",
    "cot",
    "reasoning_effort",
    "price",
    "price_as",
    "like",
    "provider",
    "tags",
    "token_ratio",
    "image_tokens",
    "enabled",
)
_ROUTE = ("floor", "providers", "allow", "prompt_type", "input_tokens", "timeout_s")
_TYPE = ("models", "value")
_EXAMPLE_MODEL = "gpt-4o-mini"

Values: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class Written:
    """What `init` writes without a comment sign.

    Attributes:
        name: the app.
        daily_usd: the budget.
        timezone: where the day begins.
        models: models to choose from; none = those of the profile.
        without_curve: those of them that the profile does not know; `like` would help.
        without_price: those of them that need `price`.
        curves: models of the profile, for examples of `like`.
    """

    name: str
    daily_usd: float
    timezone: str
    models: Sequence[str] = ()
    without_curve: frozenset[str] = frozenset()
    without_price: frozenset[str] = frozenset()
    curves: Sequence[str] = ()


def config_text(written: Written) -> str:
    """Return the file's text; every key and example in it comes from the configuration's Structs."""
    blocks = [_HEAD, *_top(written), *_models(written), *_rest(written)]
    return "\n".join(blocks).rstrip("\n") + "\n"


def _top(written: Written) -> Iterator[str]:
    daily = written.daily_usd
    yield _table((), {"name": written.name}, _TOP)
    yield _table(
        ("budget",),
        {"daily_usd": daily, "timezone": written.timezone},
        _BUDGET,
        examples={
            "on_exhausted": "degrade",
            "hard_usd": _rounded(daily * 1.2),
            "weekly_usd": _rounded(daily * 5),
            "monthly_usd": _rounded(daily * 20),
        },
    )
    yield _table(("store",), {}, _STORE)


def _models(written: Written) -> Iterator[str]:
    yield _prose(
        "Models to choose from; each name reaches your function or litellm verbatim. Without any "
        "[models] table, every model of the profile that has a price may be chosen."
    )
    if not written.models:
        yield _table(("models", _EXAMPLE_MODEL), {}, _MODEL, off=True, examples={"like": "gpt-4o"})
        return
    for place, name in enumerate(written.models):
        keys = _MODEL if place == 0 else _needed(name, written)
        twin = next((model for model in written.curves if model != name), name)
        yield _table(("models", name), {}, keys, examples={"like": twin})


def _needed(name: str, written: Written) -> tuple[str, ...]:
    """Return the keys that a model lacks most."""
    keys = [("price", written.without_price), ("like", written.without_curve)]
    return tuple(key for key, names in keys if name in names)


def _rest(written: Written) -> Iterator[str]:
    first = written.models[0] if written.models else _EXAMPLE_MODEL
    yield _table(("routes", "answer"), {}, _ROUTE, off=True, examples={"allow": [first]})
    yield _table(("types", "code"), {}, _TYPE, off=True, examples={"models": [first]})
    yield _prose(
        "There are also [pacing] (how the shadow price follows the spend) and [classify] (rules "
        "that sort prompts into types). `budgetroute doctor` lists every key with its value."
    )


def _table(
    path: KeyPath,
    values: Values,
    keys: Sequence[str],
    *,
    examples: Values | None = None,
    off: bool = False,
) -> str:
    """Return one table.

    Args:
        path: its header; empty for the keys above the first table.
        values: keys that hold.
        keys: further keys, off.
        examples: values to show for them instead of the Structs' examples.
        off: the header is off too.
    """
    struct = _struct(path)
    lines = [_text(struct)] if len(path) > 1 and off and path[0] != "models" else []
    lines += [f"{'#' * off}[{dotted(path)}]"] if path else []
    for name, value in values.items():
        lines += [_prose(_meaning(struct, name)), f"{quoted(name)} = {toml(value)}", ""]
    for name in keys:
        example = (examples or {}).get(name, example_of(keys_of(struct)[name]))
        lines += [_prose(_meaning(struct, name)), f"#{quoted(name)} = {toml(example)}", ""]
    return "\n".join(lines or [""])


def _struct(path: KeyPath) -> type[Struct]:
    struct: type[Struct] = Config
    for name in path[:1]:
        field = keys_of(struct)[name]
        struct = section_of(field) or table_of(field) or struct
    return struct


def _text(struct: type[Struct]) -> str:
    return _prose((struct.__doc__ or "").split("\n\n", maxsplit=1)[0])


def _meaning(struct: type[Struct], name: str) -> str:
    return described(keys_of(struct)[name]).description or name


def _prose(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
    )


def _rounded(amount: float) -> float:
    return min(float(f"{amount:.4g}"), float(MAX_USD))
