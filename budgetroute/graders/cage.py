"""The first process of a program that is not trusted: it gives rights away, then becomes the program.

Run as a script, `python -I cage.py LIMITS SCRIPT`, LIMITS being JSON. Where the kernel lets an ordinary
user have namespaces (Linux), the program has no network, sees no other process, and every file system
is read-only but for a small one in memory that it starts in. Everywhere: limits on memory, CPU,
file size and open files. What holds is written to descriptor 2 as the first line.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

_NEWUSER, _NEWNET, _NEWPID, _NEWNS, _NEWIPC = (
    0x10000000,
    0x40000000,
    0x20000000,
    0x00020000,
    0x08000000,
)
_MOUNT_SETATTR, _HERE, _EVERY_MOUNT, _READ_ONLY = 442, -100, 0x8000, 1
_PRIVATE = 0x4000 | 0x40000
_NOSUID_NODEV = 2 | 4
_DIE_WITH_PARENT, _NO_NEW_RIGHTS = 1, 38
_INSIDE = 1000
_REFUSED = 70


def main() -> None:
    """Give rights away and run the script; never returns normally."""
    limits, script = json.loads(sys.argv[1]), sys.argv[2]
    box = os.path.join(os.path.dirname(os.path.abspath(script)), "box")  # noqa: PTH118, PTH120, PTH100 - few imports
    isolated = sys.platform == "linux" and _can_isolate(box, limits["disk_bytes"])
    os.write(2, b"isolated\n" if isolated else b"limited\n")
    if isolated:
        if not _isolate(box, limits["disk_bytes"]):
            os._exit(_REFUSED)  # what was said no longer holds
        _fork_and_wait()  # becomes process 1 of its namespace: all others die with it
        _die_with_parent()
        _fork_and_wait()
    os.chdir(box)
    _limit(limits)
    os.execv(sys.executable, [sys.executable, "-I", "-B", script])  # noqa: S606 - no shell is the point


def _can_isolate(box: str, size: int) -> bool:
    """Try it in a process that ends: half of it, where the kernel refuses the rest, breaks programs."""
    child = os.fork()
    if not child:
        os._exit(0 if _isolate(box, size) else 1)
    return os.waitpid(child, 0)[1] == 0


def _isolate(box: str, size: int) -> bool:
    """Enter namespaces of one's own; False where the kernel refuses any of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEWUSER | _NEWNET | _NEWPID | _NEWNS | _NEWIPC):
        return False
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{_INSIDE} {user} 1")
        _write("/proc/self/gid_map", f"{_INSIDE} {group} 1")
    except OSError:
        return False
    return _read_only(libc, box, size)


def _read_only(libc: ctypes.CDLL, box: str, size: int) -> bool:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
    options = f"size={size},mode=700".encode()
    quiet, length = ctypes.c_ulong(_NOSUID_NODEV), ctypes.c_size_t(ctypes.sizeof(attributes))
    refusals = (
        libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE), None)
        or libc.syscall(_MOUNT_SETATTR, _HERE, b"/", _EVERY_MOUNT, attributes, length)
        or (os.path.isdir("/run") and libc.mount(b"tmpfs", b"/run", b"tmpfs", quiet, b"size=4096"))  # noqa: PTH112 - hides daemons' sockets
        or libc.mount(b"tmpfs", box.encode(), b"tmpfs", quiet, options)
    )
    return bool(refusals == 0)


def _fork_and_wait() -> None:
    """Return in the child; the parent ends as the child does."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _limit(limits: dict[str, int]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0)
    wanted = {
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_FSIZE: limits["disk_bytes"],
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: limits["processes"],
    }
    for kind, asked in wanted.items():
        _, hard = resource.getrlimit(kind)
        most = asked if hard == resource.RLIM_INFINITY else min(asked, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            if kind != resource.RLIMIT_AS:  # macOS has no limit on address space
                raise


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - few imports
        file.write(text)


if __name__ == "__main__":
    main()
