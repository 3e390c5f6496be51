"""Texts that cannot forge a line of a log: names from users, files and providers stand in them."""

from __future__ import annotations

import logging

__all__ = ["LOGGERS", "guard_logs", "one_line"]

LOGGERS = (
    "budgetroute",
    "budgetroute.decide",
    "budgetroute.pace",
    "budgetroute.spend",
    "budgetroute.store",
)
"""Every logger of the package."""


def one_line(text: str) -> str:
    r"""Return a text with its unprintable characters escaped, so that it cannot forge a line.

    >>> one_line("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else _escaped(c) for c in text])


def guard_logs() -> None:
    """Let every value in the package's log messages stay on its line, whoever logs it."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_guarded)


def _guarded(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple([_harmless(value) for value in record.args])
    return True


def _harmless(value: object) -> object:
    """Return a value of a message as it is, or as an escaped text; numbers keep their format."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    return value if text.isprintable() else one_line(text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
