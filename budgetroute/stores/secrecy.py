"""The secret that tag values are hashed with, so that rows of a ledger name nobody."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from budgetroute import files
from budgetroute.errors import StoreError
from budgetroute.stores.paths import check_ours, locked, make_folder

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = 32
_MOST = 1000
_PRIVATE_FILE = 0o600


def secret(path: Path) -> bytes:
    """Return the secret in a file; made on first use, by one of all that ask.

    Raises:
        StoreError: the file cannot be read or written, or holds something else. It is never made
            anew then: under another secret every user's sums would start from zero.
    """
    try:
        if not path.exists():
            _create(path)
        check_ours(path)
        text = files.read(path, most=_MOST)[0].decode("ascii", errors="replace").strip()
    except OSError as err:
        raise StoreError(
            f"{path}: {err.strerror}. It holds the secret that tag values are hashed with; give this "
            f"user the rights, or set [store] path to another folder."
        ) from err
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _LENGTH:
        raise StoreError(
            f"{path} is damaged: expected {2 * _LENGTH} hexadecimal digits. Put it back from a copy; "
            f"without it, the sums of limits with `per` start from zero (delete it to accept that)."
        )
    return found


def _create(path: Path) -> None:
    """Write a whole secret and give it its name, unless another process was first."""
    make_folder(path.parent)
    draft = path.with_name(f"{path.name}.new")
    with locked(path.with_suffix(".lock")):
        if path.exists():
            return
        draft.unlink(missing_ok=True)
        with os.fdopen(
            os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE_FILE), "w"
        ) as file:
            file.write(secrets.token_hex(_LENGTH))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
