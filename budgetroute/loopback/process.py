"""A loopback server in a process of its own, gone when its parent is."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from budgetroute.loopback.http import Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.loopback.http import Responder

_PATIENCE_S = 5.0


def serve_until_eof(respond: Responder) -> None:
    """Print the port on standard output, then serve until standard input ends."""
    with Loopback(respond) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()


@contextmanager
def served(module: str, *args: str) -> Iterator[str]:
    """Run `python -m module args…`, which calls `serve_until_eof`, and yield its base URL.

    Blocks until the child listens. The child's standard input is a pipe from this process, so it
    ends with the block or with this process, however that goes.

    Raises:
        RuntimeError: the child ended without a port; its own words are on standard error.
    """
    child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
        [sys.executable, "-P", "-m", module, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield f"http://127.0.0.1:{_port(child, module)}/v1"
        finally:
            _end(child)


def _port(child: subprocess.Popen[str], module: str) -> int:
    line = child.stdout.readline().strip() if child.stdout else ""
    if not line.isdecimal():
        raise RuntimeError(
            f"`python -m {module}` was asked to serve and said {line!r} instead of a port; "
            f"what went wrong is on its standard error"
        )
    return int(line)


def _end(child: subprocess.Popen[str]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
