"""Faults of the disk: full, failing, read-only, damaged. Part of the fault table, `faults.py`."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

from faultlab import APP, AT, PLAN, WORST, Lab, asked, billed, ended, refused, slot, spend

from budgetroute.records import Grant, StoredPlan
from budgetroute.stores.books import DamagedLedgerError, verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def full_disk(lab: Lab, times: int) -> list[str]:
    """Fill the disk under a spender, make room, go on; what was refused must leave no trace."""
    with room(lab.root, megabytes=6) as place:
        small = Lab(place, luck=lab.luck)
        small.prepare()
        found, journal = [], small.journal("0000")
        store = small.store(patience_s=0.2)
        for number in range(times):
            filler = fill(place)
            error, tries = None, 0
            while error is None and tries < 5000:
                attempt = f"{number:04d}-{tries}#1"
                error = refused(spend, store, journal, attempt, limit=small.limit, luck=small.luck)
                tries += 1
            if error is None:
                found.append("a full disk was not told")
            elif "disk is full" not in str(error) and "failed to" not in str(error):
                found.append(f"unexpected: {error}")
            filler.unlink()
            if not spend(store, journal, f"{number:04d}-ok#1", limit=small.limit, luck=small.luck):
                found.append("no call after there was room again")
            store.close()
        return found + small.judge()


@contextlib.contextmanager
def room(root: Path, *, megabytes: int) -> Iterator[Path]:
    """Give a place of its own with little room."""
    place = root / "small"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        raise NoRoomError(f"cannot mount a small tmpfs at {place}; run as root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class NoRoomError(Exception):
    """This user cannot make a small disk."""


def fill(place: Path) -> Path:
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (2**20, 2**12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return filler


def failing_writes(lab: Lab, times: int) -> list[str]:
    """Let writes fail at random moments inside a spender (a limit on the size of files)."""
    lab.prepare()

    def work(lab: Lab, name: str) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store, journal = lab.store(patience_s=0.2), lab.journal(name)
        luck = random.Random(name)
        failed = 0
        for number in range(40 * times):
            if failed >= times:
                break
            attempt = f"{name}-{number}#1"
            with writes_that_fail(luck) as harmed:
                error = refused(gently, store, journal, attempt, luck)
            failed += error is not None
            if error is not None and not harmed:
                raise AssertionError(f"refused without a reason: {error}")
        if failed < times // 2:
            raise AssertionError(f"only {failed} of {times} writes failed")

    def gently(store, journal, attempt, luck) -> None:  # noqa: ANN001
        ask = asked(attempt, at=AT, limit=lab.limit)
        granted = isinstance(store.reserve(ask), Grant)
        amount = luck.randrange(WORST)
        if granted and refused(store.settle, billed(ask, amount)) is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            store.settle(
                billed(ask, amount)
            )  # as the till does: the bill is kept, and booked later
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        journal.note("S", attempt, amount)

    status = ended([lab.spawn(work)])
    return lab.judge() + ([] if status == [0] else ["the spender failed"])


@contextlib.contextmanager
def writes_that_fail(luck: random.Random) -> Iterator[bool]:
    """Half the time, let no file grow beyond a few pages for the length of the block."""
    harmed = luck.random() < 0.5
    if harmed:
        size = luck.choice([0, 4096, 40_000, 200_000])
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield harmed
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


def read_only(lab: Lab, times: int) -> list[str]:
    """Ask a ledger that this user may read but not write: refused in words, and not retryable."""
    lab.root.chmod(0o755)
    lab.prepare()
    for path in (lab.folder, *lab.folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def work(lab: Lab, name: str) -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        error = refused(lab.store().reserve, asked(f"{name}#1", at=AT, limit=lab.limit))
        if error is None or error.retryable:
            raise AssertionError(f"found {error!r}")

    statuses = ended([lab.spawn(work) for _ in range(times)])
    for path in (lab.folder, *lab.folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return lab.judge() + ["not refused"] * sum(status != 0 for status in statuses)


def damaged_ledger(lab: Lab, times: int) -> list[str]:
    """Damage the ledger's file: a call still goes through, the file is kept, limits hold if legible.

    Sums that cannot be read are lost, and said to be, at once or by `ledger verify`: that is no loss
    here, silence is.
    """
    found, ways = [], list(DAMAGE)
    for number in range(times):
        one = Lab(lab.root / f"{number:04d}", luck=lab.luck)
        one.folder.mkdir(parents=True)
        one.prepare()
        with contextlib.closing(one.store()) as store, told() as messages:
            journal = one.journal("0000")
            for call in range(30):
                spend(store, journal, f"old-{call}#1", limit=one.limit, luck=one.luck)
            before = store.snapshot([slot()])[0]
            store.close()
            way = ways[number % len(ways)]
            DAMAGE[way](one.ledger, one.luck)
            if not spend(store, one.journal("new"), "new#1", limit=one.limit, luck=one.luck):
                found.append(f"{way}: the call was refused")
            after = store.snapshot([slot()])[0]
        is_told = any("ost" in text for text in messages) or not is_clean(one.ledger)
        if after.settled < before.settled and not is_told:
            found.append(f"{way}: lost in silence")
    return found


def is_clean(ledger: Path) -> bool:
    try:
        return verify(ledger, now=AT).is_clean
    except DamagedLedgerError:
        return False


@contextlib.contextmanager
def told() -> Iterator[list[str]]:
    """Collect what the store says meanwhile."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("budgetroute.store")
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)


def zero_header(path: Path, _luck: random.Random) -> None:
    overwrite(path, 0, bytes(100))


def flip_page(path: Path, luck: random.Random) -> None:
    pages = path.stat().st_size // 2048
    overwrite(path, 2048 * luck.randrange(1, pages), b"\xff" * 2048)


def cut_in_half(path: Path, _luck: random.Random) -> None:
    os.truncate(path, path.stat().st_size // 2 // 2048 * 2048)


def cut_to_nothing(path: Path, _luck: random.Random) -> None:
    os.truncate(path, 0)


def write_noise(path: Path, luck: random.Random) -> None:
    overwrite(path, luck.randrange(path.stat().st_size), luck.randbytes(4096))


def remove(path: Path, _luck: random.Random) -> None:
    path.unlink()


DAMAGE = {
    "header zeroed": zero_header,
    "page flipped": flip_page,
    "cut in half": cut_in_half,
    "cut to nothing": cut_to_nothing,
    "noise": write_noise,
}


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def damaged_plan(lab: Lab, times: int) -> list[str]:
    """Damage the plan's folder: λ is lost and said to be, money is not, and a new plan is kept."""
    found, ways = [], [*DAMAGE.items(), ("removed", remove)]
    for number in range(times):
        one = Lab(lab.root / f"{number:04d}", luck=lab.luck)
        one.folder.mkdir(parents=True)
        one.prepare()
        name, damage = ways[number % len(ways)]
        damage(one.folder / "plan" / "cache.db", one.luck)
        with contextlib.closing(one.store()) as store, told() as messages:
            plan = store.load_plan(APP)
            if plan not in {StoredPlan(None, 0), StoredPlan(PLAN, 1)}:
                found.append(f"{name}: read {plan}")
            store.save_plan(APP, PLAN, expected_version=plan.version)
            if store.load_plan(APP).value != PLAN:
                store.save_plan(APP, PLAN, expected_version=0)
            if store.load_plan(APP).value != PLAN:
                found.append(f"{name}: no new plan is kept ({messages})")
        found += one.judge()
    return found
