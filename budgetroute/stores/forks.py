"""Connections do not survive a fork: close them before it, everywhere in the process.

A forked child that shares its parent's SQLite state believes that it holds locks which only the
parent holds, and can lose commits. Closing first, under each connection's lock, leaves nothing to
inherit; both sides open again when they next need it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Pausable(Protocol):
    """What can be made safe for a fork."""

    def pause(self) -> None:
        """Wait for the operation in progress, close, and let no other begin."""
        ...

    def resume(self) -> None:
        """Let operations begin again."""
        ...


_watched: weakref.WeakSet[Pausable] = weakref.WeakSet()
_paused: list[Pausable] = []
_one_fork_at_a_time = threading.Lock()
_registered = threading.Event()


def pause_around_forks(connection: Pausable) -> None:
    """Pause `connection` around every later fork of this process."""
    _watched.add(connection)
    if not _registered.is_set() and hasattr(os, "register_at_fork"):
        _registered.set()
        os.register_at_fork(before=_pause, after_in_parent=_resume, after_in_child=_resume)


def _pause() -> None:
    _one_fork_at_a_time.acquire()
    for connection in list(_watched):
        connection.pause()
        _paused.append(connection)


def _resume() -> None:
    while _paused:
        _paused.pop().resume()
    _one_fork_at_a_time.release()
