"""Finds and reads the configuration file; refuses what is not a small, readable file of ours."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetroute import files
from budgetroute.config.origins import Origin
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "budgetroute.toml"
PYPROJECT = "pyproject.toml"
MAX_BYTES = 1_000_000
MAX_PARTS = 32
"""Parts of a dotted key; the parser's time grows with their square, a minute for a file of one key."""
_TABLE = ("tool", "budgetroute")
_PART = rb"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_ENDLESS_KEY = re.compile(rb"(?:^|[\[{,])[ \t]*(?:" + _PART + rb"){%d}" % MAX_PARTS, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that was read: its tables and where they stand."""

    path: Path
    tree: Mapping[str, object]
    origin: Origin


def folders_upwards(start: Path, home: Path | None) -> Iterator[Path]:
    """Yield `start` and the folders above, up to a repository root, home or the root."""
    for folder in (start, *start.parents):
        yield folder
        if os.path.lexists(folder / ".git") or folder == home:
            return


def find_file(start: Path, home: Path | None) -> ConfigFile | None:
    """Return the nearest budgetroute.toml, else the nearest pyproject.toml with our table.

    Raises:
        ConfigError: the file found belongs to another user or cannot be read.
    """
    folders = list(folders_upwards(start, home))
    for folder in folders:
        if os.path.lexists(folder / FILE):
            data, owner = _read(folder / FILE)
            _refuse_foreign(folder / FILE, owner)
            return _whole(folder / FILE, data)
    for folder in folders:
        if os.path.lexists(folder / PYPROJECT) and (ours := _in_passing(folder / PYPROJECT)):
            return ours
    return None


def read_file(path: Path) -> ConfigFile:
    """Read a file that the user named, whoever owns it; raises ConfigError."""
    data, _ = _read(path)
    if path.name != PYPROJECT:
        return _whole(path, data)
    ours = _our_table(path, data)
    if ours is None:
        raise ConfigError(
            f"{path} has no table [tool.budgetroute]. Write [tool.budgetroute.budget] and below it "
            "`daily_usd = 25.0`, or name another file."
        )
    return ours


def _in_passing(path: Path) -> ConfigFile | None:
    """Return our table of a pyproject.toml met on the way, None if it has none."""
    data, owner = _read(path)
    ours = _our_table(path, data) if b"budgetroute" in data else None
    if ours is not None:
        _refuse_foreign(path, owner)
    return ours


def _whole(path: Path, data: bytes) -> ConfigFile:
    return ConfigFile(path, _tables(path, data), Origin("file", str(path)))


def _our_table(path: Path, data: bytes) -> ConfigFile | None:
    tool = _tables(path, data).get("tool")
    ours = tool.get("budgetroute") if isinstance(tool, Mapping) else None
    if ours is None:
        return None
    origin = Origin("file", str(path), _TABLE)
    if not isinstance(ours, Mapping):
        raise ConfigError(
            f"{path}: `tool.budgetroute` is not a table. Write [tool.budgetroute.budget] on a line "
            "of its own and its keys below."
        )
    return ConfigFile(path, ours, origin)


def _read(path: Path) -> tuple[bytes, int]:
    """Return a file's bytes and its owner's id; links are followed."""
    try:
        data, known = files.read(path, most=MAX_BYTES)
    except files.NotAFileError as err:
        raise ConfigError(_not_a_file(path)) from err
    except files.TooLargeError as err:
        raise ConfigError(
            f"{path} is larger than {MAX_BYTES:,} bytes, which no configuration needs. Name the "
            "right file, or move large tables out of it."
        ) from err
    except OSError as err:
        raise ConfigError(_unreadable(path, err)) from err
    return data, known.st_uid


def _not_a_file(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a directory, not a file. Name the file inside it, such as {path / FILE}."
    return f"{path} is a device or pipe, not a file. Name a regular file."


def _unreadable(path: Path, err: OSError) -> str:
    if isinstance(err, FileNotFoundError):
        dangling = " (a link to nothing)" if path.is_symlink() else ""
        return (
            f"{path} does not exist{dangling}. `budgetroute init` writes a budgetroute.toml; "
            "correct the name, or write the file."
        )
    if isinstance(err, PermissionError):
        return f"{path} cannot be read: permission denied. Run `chmod u+r {path}` as its owner."
    return f"{path} cannot be read: {err.strerror}. Name a readable file."


def _refuse_foreign(path: Path, owner: int) -> None:
    """Refuse a file found by searching that someone else could have put there."""
    geteuid = getattr(os, "geteuid", None)
    if geteuid is None or owner == geteuid():
        return
    raise ConfigError(
        f"{path} was found on the way up but belongs to user id {owner}, not to you (user id "
        f"{geteuid()}), so it is not trusted. Name it with BUDGETROUTE_CONFIG={path} if it is "
        "yours to use, or change its owner."
    )


def _tables(path: Path, data: bytes) -> Mapping[str, object]:
    """Parse TOML; raises ConfigError with the line."""
    if endless := _ENDLESS_KEY.search(data):
        line = data[: endless.start()].count(b"\n") + 1
        raise ConfigError(
            f"{path} has a key of more than {MAX_PARTS} parts in line {line}, which no configuration "
            "needs. Write plain tables."
        )
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as err:
        line = data[: err.start].count(b"\n") + 1
        raise ConfigError(
            f"{path} is not UTF-8: byte 0x{data[err.start]:02x} in line {line}. Save it as UTF-8."
        ) from err
    except RecursionError as err:
        raise ConfigError(f"{path} is nested too deeply. Write plain tables and lists.") from err
    except tomllib.TOMLDecodeError as err:
        raise ConfigError(
            f"{path} is not valid TOML: {err}. Correct that line; texts stand in quotes, "
            "true and false in small letters."
        ) from err
    except ValueError as err:
        raise ConfigError(
            f"{path} has a number of too many digits. Write it as a plain amount."
        ) from err
