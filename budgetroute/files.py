"""Files that somebody else may have written or may swap: read bounded, written in one step.

A name says nothing about what is behind it: it may be a pipe that blocks, a device without an end, or
a link to a file that must not be overwritten. So files are opened first and looked at afterwards.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NotAFileError", "TooLargeError", "draft_of", "read"]

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for a writer
_BINARY = getattr(os, "O_BINARY", 0)


class NotAFileError(OSError):
    """Raise for a folder, pipe or device."""


class TooLargeError(OSError):
    """Raise for a file with more bytes than asked for."""


def read(path: str | os.PathLike[str], *, most: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file and what the system knows of it; links are followed.

    Args:
        path: the file.
        most: bytes it may have.

    Raises:
        NotAFileError: it is a folder, pipe or device; nothing was read.
        TooLargeError: it has more than `most` bytes.
        OSError: it cannot be read; a name that no file can have counts as invalid.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _AT_ONCE | _BINARY)
    except ValueError as err:  # a NUL in the name
        raise OSError(errno.EINVAL, f"no file can have this name ({err})") from err
    known = os.fstat(descriptor)
    if not stat.S_ISREG(known.st_mode):
        os.close(descriptor)
        raise NotAFileError(errno.EINVAL, "not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(errno.EFBIG, f"more than {most:,} bytes")
    return data, known


@contextmanager
def draft_of(path: Path, content: str | bytes, *, mode: int = 0o666) -> Iterator[Path]:
    """Write a draft beside `path`, under a name that nobody can foresee; yield it, and remove it.

    The caller renames it to `path`, so that readers see the old file or the new one, never half.

    Args:
        path: the file to be.
        content: what it holds.
        mode: who may read it, less the umask.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
