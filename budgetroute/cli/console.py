"""What commands print on: two consoles, marks, one error line, one JSON object."""

from __future__ import annotations

import json
import logging
import math
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

Level: TypeAlias = Literal["ok", "warn", "fail"]

_STYLES: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_MARKS: dict[Level, str] = {"ok": "✓", "warn": "!", "fail": "✗"}
_ASCII_MARKS: dict[Level, str] = {"ok": "ok", "warn": "!", "fail": "X"}


class _Harmless(Console):
    """A console whose texts cannot move the cursor, ring, or rename the window.

    Names come from ledgers, profiles and providers. What is printed is seen here once more, so that
    nothing depends on every command's care; rich's own control codes pass.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed, without control characters in its texts."""
        for segment in super().render(renderable, options):
            is_safe = segment.control or segment.text.isprintable()
            yield segment if is_safe else segment._replace(text=plain(segment.text))


def out() -> Console:
    """Return the console of stdout; texts are printed as they are, without markup."""
    return _Harmless(markup=False, highlight=False, emoji=False)


def err() -> Console:
    """Return the console of stderr."""
    return _Harmless(stderr=True, markup=False, highlight=False, emoji=False)


def survive_any_encoding() -> None:
    """Make stdout and stderr write `?` for what their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def complain(text: str) -> None:
    """Print an error on stderr, in red."""
    err().print(plain(text), style="red", soft_wrap=True)


def emit(content: Mapping[str, object]) -> None:
    """Print one JSON object on stdout; numbers that JSON lacks become null."""
    text = json.dumps(_finite(content), ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(json_safe(text) + "\n")


def json_safe(text: str) -> str:
    r"""Return JSON whose texts no terminal obeys; JSON itself leaves C1 codes and such as they are.

    >>> json_safe('{"a": "\x9b31m"}')
    '{"a": "\\u009b31m"}'
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(text: str) -> str:
    r"""Return a text whose control characters cannot reach the terminal; new lines stay.

    >>> plain("a\x1b[31mb\nc")
    'a\\x1b[31mb\nc'
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def is_unicode() -> bool:
    """Say whether stdout can carry ✓ and █."""
    return out().encoding.lower().startswith("utf")


def bar(*, solid: float, light: float, width: int) -> str:
    """Draw two parts of a whole (1.0) one after the other.

    Args:
        solid: the first part.
        light: the second part.
        width: characters of the whole.
    """
    full, half, empty = "█▒·" if is_unicode() else "#+."
    first = round(min(1.0, solid) * width)
    both = max(first, round(min(1.0, solid + light) * width))
    return full * first + half * (both - first) + empty * (width - both)


def mark(level: Level) -> Text:
    """Return ✓, ! or ✗."""
    return Text((_MARKS if is_unicode() else _ASCII_MARKS)[level], style=_STYLES[level])


def marked(level: Level, text: str) -> Text:
    """Return a line that begins with ✓, ! or ✗."""
    return Text.assemble(mark(level), " ", plain(text))


def listing(
    *columns: str, right: Sequence[str] = (), fixed: Sequence[str] = (), indent: int = 2
) -> Table:
    """Return an empty table without lines.

    Args:
        columns: the headings.
        right: headings of columns that are aligned to the right, and not wrapped.
        fixed: headings of further columns that are not wrapped.
        indent: spaces before the first column.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(columns):
        table.add_column(
            " " * indent * (place == 0) + name,
            justify="right" if name in right else "left",
            no_wrap=name in right or name in fixed,
            overflow="fold",
        )
    return table


class Notices(logging.Handler):
    """Prints the package's warnings on stderr while a command runs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one warning."""
        err().print(marked("warn", record.getMessage()), soft_wrap=True)
