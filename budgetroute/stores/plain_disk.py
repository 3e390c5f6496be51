"""A diskcache Disk that neither writes nor reads pickles (CVE-2025-69872)."""
# ruff: noqa: FBT001 - diskcache fixes the signatures

from __future__ import annotations

import re

from diskcache.core import MODE_PICKLE, UNKNOWN, Disk

from budgetroute.errors import StoreError
from budgetroute.stores.messages import StrangeContentError

__all__ = ["PlainDisk"]

_PLAIN = (str, bytes, int, float)
_INT_BITS = 63
_FILE = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")
"""What diskcache calls the file of a large value, below its folder."""


class PlainDisk(Disk):  # type: ignore[misc]  # diskcache has no types
    """Keeps int, float, str and bytes; refuses everything else.

    A pickle runs code when it is read, and diskcache reads whatever someone put in its folder.
    """

    def put(self, key: object) -> tuple[object, bool]:
        """Return the key for the database; StoreError unless it is plain."""
        written: tuple[object, bool] = super().put(_plain(key))
        return written

    def get(self, key: object, raw: bool) -> object:
        """Return the key from the database; StrangeContentError if it is a pickle."""
        if not raw:
            raise _pickled("key")
        return super().get(key, raw)

    def store(
        self, value: object, read: bool, key: object = UNKNOWN
    ) -> tuple[int, int, str | None, object]:
        """Return the value for the database; StoreError unless it is plain."""
        written: tuple[int, int, str | None, object] = super().store(_plain(value), read, key=key)
        return written

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> object:
        """Return the value from the database or its file; StrangeContentError if it is a pickle."""
        if mode == MODE_PICKLE:
            raise _pickled("value")
        _check_name(filename)
        return super().fetch(mode, filename, value, read)

    def remove(self, file_path: str) -> None:
        """Remove a value's file; StrangeContentError if it is none of diskcache's."""
        _check_name(file_path)
        super().remove(file_path)


def _plain(value: object) -> object:
    if type(value) not in _PLAIN or (isinstance(value, int) and value.bit_length() > _INT_BITS):
        raise StoreError(
            f"a cache here keeps str, bytes, float and 64-bit int; found {type(value).__name__}. "
            f"Encode it first (JSON, for example)."
        )
    return value


def _check_name(name: str | None) -> None:
    if name is not None and not _FILE.fullmatch(name):
        raise StrangeContentError(
            "a cache names a file that diskcache never makes. It was neither read nor removed. Find "
            "out who wrote that and delete the folder."
        )


def _pickled(what: str) -> StrangeContentError:
    return StrangeContentError(
        f"a cache holds a {what} that budgetroute never writes, a pickle. It was not read. Find out "
        f"who put it there and delete the folder."
    )
