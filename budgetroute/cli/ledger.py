"""`budgetroute ledger list | sum | verify`: the attempts, what they come to, and whether it is true."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.text import Text

from budgetroute import files
from budgetroute.audit import Fault, Report
from budgetroute.cli.console import emit, listing, marked, out, plain
from budgetroute.cli.lines import Wanted, lines, period_from, when
from budgetroute.cli.opening import LEDGER, ledger_file
from budgetroute.cli.sums import summed
from budgetroute.cli.wording import counted, money, share, usd
from budgetroute.clock import WallClock
from budgetroute.config import load_config
from budgetroute.errors import StoreError
from budgetroute.router.scopes import Scopes
from budgetroute.stores.books import DamagedLedgerError, plan_version, reading, verify
from budgetroute.units import exact_usd, is_time, micros_from_time, time_from_micros, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from budgetroute.cli.lines import Line
    from budgetroute.cli.sums import By, Group, Summed
    from budgetroute.config import Config

DIFFERENCES = 1
SCOPES_KEY = "scopes.key"
_LONGEST_KEY = 1000  # bytes
_SHOWN_FAULTS = 20
_STATES = {
    "settled": "settled",
    "estimated": "booked as estimated",
    "held": "in flight",
    "released": "given back",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Which ledger to read.

    Attributes:
        config: the configuration.
        path: its ledger's file, or the one that was named.
    """

    config: Config
    path: Path

    @property
    def app(self) -> str:
        """Return the app of the configuration."""
        return self.config.name

    def time(self, micros: object) -> str:
        """Show a time of the ledger in the budget's zone."""
        if not (isinstance(micros, int) and is_time(micros)):
            return "–"
        return f"{time_from_micros(micros).astimezone(self.config.budget.zone):%Y-%m-%d %H:%M:%S}"


def place(config: Path | None, file: Path | None) -> Place:
    """Return the configured ledger, or the file (or folder) that was named.

    Raises:
        StoreError: the configured store is not on disk.
    """
    said = load_config(config)
    path = ledger_file(said) if file is None else file
    if path is None:
        raise StoreError(
            f"store {said.store.url} lives and ends with its process: there is nothing to read. "
            f"Write [store] path, or name a ledger with --file."
        )
    return Place(said, path / LEDGER if path.is_dir() else path)


def wanted_at(at: Place, wanted: Wanted, *, every_app: bool) -> Wanted:
    """Return what was asked for with its period's id, of this app or of all.

    Raises:
        ConfigError: the period is none.
    """
    period = wanted.period
    if period is not None:
        period = period_from(period, at.config.budget, WallClock().now())
    app = None if every_app else at.app
    return replace(wanted, period=period, app=app, names=_names_of_limits(at))


def _names_of_limits(at: Place) -> dict[str, str]:
    """Return key → name of the configured limits; none where the key of scopes is not there."""
    try:
        text, _ = files.read(at.path.parent / SCOPES_KEY, most=_LONGEST_KEY)
        found = bytes.fromhex(text.decode("ascii").strip())
    except (OSError, ValueError):
        return {}
    limits = at.config.limits
    scopes = Scopes(app=at.app, budget=at.config.budget, limits=limits, secret=lambda: found)
    return {scopes.key(rule): rule.name for rule in scopes.rules}


def list_command(at: Place, wanted: Wanted, *, limit: int, as_json: bool) -> int:
    """Show the newest attempts; return 0.

    Raises:
        StoreError: the ledger cannot be read.
    """
    with reading(at.path) as ledger:
        found = list(islice(lines(ledger, wanted), limit + 1 if limit else None))
    more = bool(limit) and len(found) > limit
    found = found[:limit] if limit else found
    if as_json:
        emit({"ledger": str(at.path), "attempts": [line.to_json() for line in found], "more": more})
        return 0
    console = out()
    if found:
        console.print(_table(found, at))
    text = f"the newest {len(found):,}; --limit 0 shows all" if more else ""
    console.print(Text(text or counted(len(found), "attempt"), style="dim"))
    return 0


def _table(found: list[Line], at: Place) -> Table:
    right = ("spent", "held")
    table = listing(
        "reserved at", "attempt", "state", "route", "action", *right, right=right, indent=0
    )
    for line in found:
        row = line.row
        table.add_row(
            at.time(row.at),
            plain(str(row.attempt)),
            plain(line.state),
            plain(line.route),
            plain(line.action),
            _money(row.amount),
            money(line.held) if line.held else "",
        )
    return table


def _money(amount: object) -> str:
    return money(amount) if isinstance(amount, int) else "?"


def sum_command(at: Place, wanted: Wanted, *, by: By, as_json: bool) -> int:
    """Show what attempts come to; return 0.

    Raises:
        StoreError: the ledger cannot be read.
    """
    with reading(at.path) as ledger:
        found = summed(ledger, wanted, by)
    if as_json:
        emit(_sums_json(found, at, by))
    else:
        out().print(_sums_table(found, by))
        for line in _sums_notes(found, by):
            out().print(Text(line, style="dim"))
    return 0


def _sums_json(found: Summed, at: Place, by: By) -> dict[str, Any]:
    return {
        "ledger": str(at.path),
        "by": by,
        "from": "sums" if found.from_sums else "attempts",
        "groups": [{by: name} | group.to_json() for name, group in found.groups.items()],
        "total": found.total.to_json(),
    }


def _sums_table(found: Summed, by: By) -> Table:
    right = ("calls", "spent", "share", "per call", "estimated", "held")
    table = listing(by, *right, right=right, indent=0)
    for name, group in found.groups.items():
        table.add_row(plain(name), *_cells(group, found.total))
    table.add_row("all", *_cells(found.total, found.total), style="bold")
    return table


def _cells(group: Group, total: Group) -> list[str]:
    return [
        f"{group.calls:,}",
        money(group.spent),
        share(group.spent, total.spent),
        usd(usd_from_pico(group.spent) / group.calls) if group.calls else "–",
        f"{group.estimated:,}" if group.estimated else "",
        money(group.held) if group.held else "",
    ]


def _sums_notes(found: Summed, by: By) -> Iterator[str]:
    if found.from_sums:
        yield "from the period sums, which are kept for ever"
    else:
        yield "from the attempts, which are kept for 35 days"
    if by == "scope":
        yield "an attempt counts in each of its scopes, and once in all"


def verify_command(at: Place, *, as_json: bool) -> int:
    """Compute every sum anew; return 1 if something differs, else 0.

    Raises:
        StoreError: the ledger cannot be opened.
    """
    now = micros_from_time(WallClock().now())
    try:
        report = verify(at.path, now=now)
    except DamagedLedgerError as err:
        report = Report(faults=(Fault("file", at.path.name, str(err)),), count=1)
    plan = plan_version(at.path.parent, f"{at.app}|all")
    if as_json:
        emit(_report_json(report, at, plan))
    else:
        for line in _report_lines(report, at, plan):
            out().print(line, soft_wrap=True)
    return 0 if report.is_clean else DIFFERENCES


def _report_json(report: Report, at: Place, plan: int | None) -> dict[str, Any]:
    return {
        "ledger": str(at.path),
        "clean": report.is_clean,
        "differences": report.count,
        "faults": [asdict(fault) for fault in report.faults],
        "attempts": dict(report.attempts),
        "late": report.late,
        "overdue": report.overdue,
        "unread_records": report.unread,
        "sums": report.slots,
        "carried": dict(report.carried),
        "since": when(report.since),
        "spent_usd": usd_from_pico(report.spent),
        "spent_pico": report.spent,
        "held_usd": usd_from_pico(report.held),
        "held_pico": report.held,
        "plan_version": plan,
    }


def _report_lines(report: Report, at: Place, plan: int | None) -> Iterator[RenderableType]:
    seen = sum(report.attempts.values())
    if report.is_clean:
        yield marked("ok", f"{at.path}: {counted(report.slots, 'sum')} made of "
                           f"{counted(seen, 'attempt')}, every one as it should be")  # fmt: skip
    for fault in report.faults[:_SHOWN_FAULTS]:
        yield marked("fail", f"{fault.where}: {fault.text}")
    if report.count > _SHOWN_FAULTS:
        yield marked(
            "fail", f"and {report.count - _SHOWN_FAULTS:,} more; --json lists the first 1,000"
        )
    if report.attempts:
        states = [f"{n:,} {_STATES.get(state, state)}" for state, n in report.attempts.items()]
        yield f"  {plain(' · '.join(sorted(states)))}"
        yield f"  {exact_usd(report.spent)} spent, {exact_usd(report.held)} held since {at.time(report.since)}"
    yield from _notes(report)
    yield _on_plan(at, plan)


def _notes(report: Report) -> Iterator[RenderableType]:
    if report.late:
        yield f"  {counted(report.late, 'bill')} came after the lease; the estimate was corrected"
    if report.overdue:
        text = f"{counted(report.overdue, 'hold')} overdue: the next sweep books them as estimated"
        yield marked("warn", text)
    if dropped := report.carried.get("dropped"):
        yield (
            f"  {counted(dropped, 'sum')} with attempts older than 35 days, which are gone; their "
            f"closing totals were counted in"
        )
    if rescued := report.carried.get("rescued"):
        yield marked(
            "warn",
            f"{counted(rescued, 'sum')} carried out of a damaged ledger: that part cannot be checked",
        )
    if report.unread:
        text = f"{counted(report.unread, 'decision record')} of another version, or unreadable"
        yield marked("warn", text)


def _on_plan(at: Place, plan: int | None) -> RenderableType:
    if plan is None:
        return marked("warn", f"no λ is kept for {plain(at.app)!r}: the first call solves for it")
    return f"  λ of {plain(at.app)!r} is kept (version {plan:,})"
