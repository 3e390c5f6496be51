"""Checks of the setting: the configuration, its day, the store, and the software underneath."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from budgetroute.backends.versions import litellm_problem, versions
from budgetroute.budget import Window, period_bounds
from budgetroute.cli.opening import ledger_file
from budgetroute.cli.report import Finding, Section
from budgetroute.cli.wording import counted, span, usd
from budgetroute.clock import WallClock
from budgetroute.config.schema import SCHEMA_FILE
from budgetroute.config.show import effective
from budgetroute.errors import StoreError
from budgetroute.router.assembly import store_target
from budgetroute.router.quarantine import Quarantine
from budgetroute.stores import (
    NETWORK_FILESYSTEMS,
    filesystem_of,
    open_store,
    sqlite_version,
    wal_reset_bug,
)
from budgetroute.units import micros_from_time, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from budgetroute.config import Config
    from budgetroute.protocols import Clock, Store

_PASSING = {
    "overlay": "it belongs to a container and ends with it: mount a volume there",
    "tmpfs": "it is in memory and ends with the machine: choose a folder on a disk",
    "ramfs": "it is in memory and ends with the machine: choose a folder on a disk",
}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def on_configuration(config: Config) -> Section:
    """Show every value with its origin."""
    rows = sorted(effective(config), key=lambda row: row[2] == "default")
    where = str(config.source) if config.source else "no file; environment and defaults suffice"
    return Section(
        key="config",
        title="Configuration",
        findings=[Finding("ok", f"read from {where}" if config.source else where), *_odd(config)],
        columns=("key", "value", "from"),
        rows=rows,
        content={
            "source": None if config.source is None else str(config.source),
            "schema": str(SCHEMA_FILE),
            "values": [{"key": k, "value": v, "origin": o} for k, v, o in rows],
        },
    )


def _odd(config: Config) -> Iterator[Finding]:
    budget = config.budget
    if config.mode == "off":
        yield Finding("warn", "mode is off: calls run untouched and are not counted")
    elif budget.daily_usd == 0:
        yield Finding("warn", "daily_usd is 0: every call is refused")
    for name, cap in (("weekly_usd", budget.weekly_usd), ("monthly_usd", budget.monthly_usd)):
        if cap is not None and cap < budget.daily_usd:
            yield Finding("warn", f"{name} = {cap:g} is less than one day's {budget.daily_usd:g}")


def on_day(config: Config, clock: Clock | None = None) -> Section:
    """Show the budget's day: where it begins and when it ends."""
    budget = config.budget
    now = (clock or WallClock()).now()
    start, end = period_bounds(Window("day", budget.zone, budget.reset_hour), now)
    local, begins, ends = (at.astimezone(budget.zone) for at in (now, start, end))
    text = (
        f"{usd(budget.daily_usd)} a day in {budget.timezone}: it is {local:%a %d %b %H:%M} there; "
        f"the day began at {begins:%H:%M} and ends at {ends:%H:%M}, in {span(end - now)}"
    )
    length = (end - start).total_seconds() / 3600
    found = [Finding("ok", text)]
    if length != 24:  # noqa: PLR2004 - the clocks change
        found.append(Finding("ok", f"the clocks change: this day has {length:g} hours"))
    content = {
        "daily_usd": budget.daily_usd,
        "timezone": budget.timezone,
        "now": local.isoformat(),
        "began_at": begins.isoformat(),
        "resets_at": ends.isoformat(),
    }
    return Section("day", "Day", found, content=content)


def on_store(config: Config) -> Section:
    """Look at the place of the ledger, and at the ledger if there is one; nothing is made."""
    path = ledger_file(config)
    if path is None:
        text = (
            f"url = {config.store.url!r}: each process has its own ledger and forgets it at its "
            "end; write [store] path for one that holds"
        )
        return Section("store", "Store", [Finding("warn", text)], content={"url": config.store.url})
    folder = path.parent
    kind = filesystem_of(folder)
    content: dict[str, Any] = {
        "path": str(folder),
        "filesystem": kind,
        "exists": path.exists(),
        "sqlite": sqlite_version(),
        "wal_reset_bug": wal_reset_bug(),
    }
    found = [*_on_folder(folder), *_on_filesystem(kind), _on_sqlite()]
    if config.store.on_store_error == "open":
        text = 'on_store_error = "open": calls run uncounted while the store cannot be reached'
        found.append(Finding("warn", text))
    if path.exists() and kind not in NETWORK_FILESYSTEMS:
        ledger, seen = _on_ledger(config)
        found += ledger
        content |= seen
    return Section("store", "Store", found, content=content)


def _on_folder(folder: Path) -> Iterator[Finding]:
    if not os.path.lexists(folder):
        above = next(parent for parent in folder.parents if parent.exists())
        if os.access(above, os.W_OK | os.X_OK):
            yield Finding("ok", f"{folder} will be made at the first call, for this user alone")
        else:
            text = f"{folder} cannot be made: {above} is not writable; set [store] path"
            yield Finding("fail", text)
        return
    if not folder.is_dir():
        yield Finding("fail", f"{folder} is not a folder; set [store] path to one, or move it away")
        return
    yield from _on_rights(folder)


def _on_rights(folder: Path) -> Iterator[Finding]:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        text = f"{folder} is not writable by this user; give it the rights, or set [store] path"
        yield Finding("fail", text)
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if os.name == "posix" and mode & _OTHERS:
        text = f"{folder} (mode {mode:04o}) is open to other users; run chmod 700 {folder}"
        yield Finding("warn", text)
    else:
        yield Finding("ok", f"{folder} is writable, and private (mode {mode:04o})")


def _on_filesystem(kind: str | None) -> Iterator[Finding]:
    if kind in NETWORK_FILESYSTEMS:
        text = f"it is on a network file system ({kind}), where locks do not hold and money can be "
        yield Finding("fail", text + "lost; set [store] path to a local disk")
    elif kind in _PASSING:
        yield Finding("warn", f"its file system is {kind}: {_PASSING[kind or '']}")
    elif kind is not None:
        yield Finding("ok", f"its file system is {kind}, a local disk")


def _on_sqlite() -> Finding:
    if not wal_reset_bug():
        return Finding("ok", f"SQLite {sqlite_version()}")
    return Finding(
        "ok",
        f"SQLite {sqlite_version()} has the WAL-reset bug, which budgetroute works around; let no "
        "other program write this ledger (fixed in SQLite 3.51.3)",
    )


def _on_ledger(config: Config) -> tuple[list[Finding], dict[str, Any]]:
    store = open_store(store_target(config), WallClock())
    try:
        history = store.history(f"{config.name}|all")
        newest = store.recent(1)
        out = _out(store, config)
    except StoreError as err:
        return [Finding("fail", str(err))], {}
    finally:
        store.close()
    days = {period: sums for period, sums in history.items() if period.startswith("day:")}
    calls = sum(sums.calls for sums in days.values())
    latest = None if not newest else time_from_micros(newest[0].at).astimezone(config.budget.zone)
    said = "" if latest is None else f"; the newest entry is of {latest:%Y-%m-%d %H:%M}"
    text = (
        f"the ledger has {counted(calls, 'call')} of {config.name!r} on {counted(len(days), 'day')}"
    )
    seen = {
        "calls": calls,
        "days": len(days),
        "newest": None if latest is None else latest.isoformat(),
        "out": {name: at.isoformat() for name, at in out.items()},
    }
    unknown = [
        Finding(
            "warn",
            f"{name} is out until {at:%Y-%m-%d %H:%M}: its provider does not know it. Mend its name "
            "in [models], or take it out",
        )
        for name, at in out.items()
    ]
    return [Finding("ok", text + said), *unknown], seen


def _out(store: Store, config: Config) -> dict[str, datetime]:
    """Return model → when it is asked again, of those in quarantine."""
    kept = Quarantine(store, app=config.name, zone=config.budget.zone, warn=str)
    return kept.until(micros_from_time(store.now()))


def on_software() -> Section:
    """Show the versions that matter, and refuse the ones known to be bad."""
    found = versions()
    problem = litellm_problem()
    missing = [name for name, version in found.items() if version == "missing"]
    findings = [Finding("fail", problem)] if problem else []
    findings += [
        Finding("fail", f"{name} is missing; run: pip install {name}")
        for name in missing
        if name != "litellm" or not problem
    ]
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    findings.append(Finding("ok" if not findings else "warn", listed))
    return Section("software", "Software", findings, content={"versions": found})
