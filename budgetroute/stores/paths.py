"""Where a store may live: private files in a private folder on a local disk."""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from budgetroute.errors import StoreError
from budgetroute.stores.messages import locked_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "NETWORK_FILESYSTEMS",
    "check_ours",
    "create_private",
    "filesystem_of",
    "locked",
    "make_folder",
]

_NETWORK = (
    "9p afs beegfs ceph cifs davfs glusterfs gpfs lustre ncpfs nfs nfs3 nfs4 pvfs2 smb2 smb3 smbfs "
    "fuse.beegfs fuse.blobfuse fuse.blobfuse2 fuse.ceph fuse.ceph-fuse fuse.davfs2 fuse.gcsfuse "
    "fuse.glusterfs fuse.goofys fuse.juicefs fuse.mountpoint-s3 fuse.rclone fuse.s3fs fuse.sshfs"
)
NETWORK_FILESYSTEMS = frozenset(_NETWORK.split())
"""File systems where SQLite's shared memory or locks do not hold between hosts."""

_log = logging.getLogger("budgetroute.store")
_MOUNTS = Path("/proc/self/mountinfo")
_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
_WRITABLE_BY_OTHERS = 0o022
_OPENING = 5
_PAUSE_S = 0.002
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def filesystem_of(path: str | os.PathLike[str]) -> str | None:
    """Return the type of the file system that `path` is or would be on; None where unknown.

    Reads Linux's mount table; other systems are unknown.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return _filesystem_in(mounts, os.path.realpath(Path(path).expanduser()))


def _filesystem_in(mounts: str, path: str) -> str | None:
    r"""Find the innermost mount above `path` in a mountinfo text; of several, the latest counts.

    >>> _filesystem_in("22 1 0:1 / / rw - ext4 x rw\n30 22 0:2 / /mnt rw - nfs4 s:/ rw", "/mnt/x")
    'nfs4'
    """
    deepest, found = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) <= 4 or not kind:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = _unescape(fields[4])
        if _is_within(path, point) and len(point) >= deepest:
            deepest, found = len(point), kind
    return found


def _unescape(field: str) -> str:
    for escape, character in _ESCAPES.items():
        field = field.replace(escape, character)
    return field


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def make_folder(folder: Path) -> None:
    """Make sure that `folder` exists, is local and can hold a store; a new one is private.

    Raises:
        StoreError: it is on a network file system, is no folder or cannot be made.
    """
    kind = filesystem_of(folder)
    if kind in NETWORK_FILESYSTEMS:
        raise StoreError(
            f"store {folder} is on a network file system ({kind}), where SQLite's locks do not hold "
            f"and money could be lost. Set [store] path to a local disk."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=_PRIVATE_FOLDER)
        folder.chmod(_PRIVATE_FOLDER)
    except FileExistsError:
        _check_folder(folder)
    except OSError as err:
        raise StoreError(
            f"store {folder} cannot be made: {err.strerror}. Set [store] path to a folder that "
            f"this user may write, or give it the rights."
        ) from err


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise StoreError(
            f"store {folder} is a file, not a folder. Set [store] path to a folder, or move the "
            f"file away."
        )
    check_ours(folder)
    if os.name == "posix" and folder.stat().st_mode & _WRITABLE_BY_OTHERS:
        _log.warning(
            "store %s can be written by other users, who could replace the ledger; chmod 700 it",
            folder,
        )


def check_ours(path: Path) -> None:
    """Refuse what another user has put in a store's place, such as a link to a file of this user.

    What root made is as good as this user's; root may look at anybody's files, but follows no
    links of theirs.

    Raises:
        StoreError: whose it is, and what to do.
    """
    if os.name != "posix":
        return
    user, found = os.geteuid(), [path.lstat()]
    if path.is_symlink() or path.is_dir():
        found += [path.stat()] * path.exists()
    for known in found:
        is_link = stat.S_ISLNK(known.st_mode)
        if known.st_uid not in {user, 0} and (user != 0 or is_link):
            raise StoreError(
                f"store {path}: {'a link' if is_link else 'it'} belongs to user id {known.st_uid}, "
                f"not to you (user id {user}), and could be exchanged at any time. Set [store] path "
                f"to a folder of your own, or run as its owner."
            )


def create_private(path: Path) -> bool:
    """Create an empty file that only this user reads and writes; False where there is one already.

    SQLite gives its -wal and -shm files the rights of their database.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE_FILE))
    except FileExistsError:
        check_ours(path)
        return False
    path.chmod(_PRIVATE_FILE)  # a umask may have taken the owner's own rights
    return True


@contextmanager
def locked(path: Path, *, patience_s: float = 2.0) -> Iterator[None]:
    """Hold the lock file `path`; the system frees it if the process dies.

    Waits five times `patience_s`: files are opened seldom, and then by many at once.

    Raises:
        StoreError: another process kept it, as one that was stopped does (retryable).
    """
    create_private(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        deadline = time.monotonic() + _OPENING * patience_s
        while not _took(descriptor):
            if time.monotonic() >= deadline:
                raise locked_out(path, _OPENING * patience_s)
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _took(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # which one depends on the system
        return False
    return True


def set_aside(paths: Sequence[Path], at: datetime) -> Path:
    """Rename files that belong together, the first one last; return the first one's new name.

    `ledger.db` becomes `ledger.db.corrupt-20261129T154800Z`, its companions alike, so that
    SQLite still finds them together.
    """
    first = paths[0]
    mark = f".corrupt-{at:%Y%m%dT%H%M%SZ}"
    repeat = 1
    while first.with_name(first.name + mark).exists():
        repeat += 1
        mark = f".corrupt-{at:%Y%m%dT%H%M%SZ}-{repeat}"
    for path in reversed(paths):
        suffix = path.name.removeprefix(first.name)
        with suppress(FileNotFoundError):
            path.rename(first.with_name(first.name + mark + suffix))
    return first.with_name(first.name + mark)
