"""A report of checks: sections with a table, findings (✓ ! ✗) and plain values for JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from budgetroute.cli.console import listing, mark, marked, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from budgetroute.cli.console import Level


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result, with what to do about it in its words."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report.

    Attributes:
        key: its name in JSON.
        title: its heading.
        findings: results of its checks.
        columns: headings of its table; none = no table.
        right: those of them that are aligned to the right.
        rows: the table's rows.
        content: plain values for JSON.
    """

    key: str
    title: str
    findings: Sequence[Finding]
    columns: Sequence[str] = ()
    right: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    content: dict[str, Any] = field(default_factory=dict)

    def shown(self) -> Iterator[RenderableType]:
        """Yield what is printed."""
        yield Text(self.title, style="bold")
        if self.rows:
            table = listing(*self.columns, right=self.right)
            for first, *rest in self.rows:
                table.add_row(f"  {plain(first)}", *(plain(cell) for cell in rest))
            yield table
        grid = Table.grid(padding=(0, 1, 0, 0))
        for finding in self.findings:
            grid.add_row(mark(finding.level), plain(finding.text))
        yield grid
        yield Text()

    def to_json(self) -> dict[str, Any]:
        """Return its values and findings."""
        found = [{"level": f.level, "text": f.text} for f in self.findings]
        return self.content | {"checks": found}


def failed(key: str, title: str, problem: str) -> Section:
    """Return a section that says only what is wrong."""
    return Section(key, title, [Finding("fail", problem)])


def counts(sections: Iterable[Section]) -> dict[Level, int]:
    """Count findings by level."""
    tally: dict[Level, int] = {"ok": 0, "warn": 0, "fail": 0}
    for section in sections:
        for finding in section.findings:
            tally[finding.level] += 1
    return tally


def verdict(sections: Sequence[Section]) -> Text:
    """Return the report's last line."""
    tally = counts(sections)
    if tally["fail"]:
        return marked("fail", f"{tally['fail']} to mend, {tally['warn']} to look at")
    if tally["warn"]:
        return marked("ok", f"ready to run; {tally['warn']} to look at")
    return marked("ok", "ready to run")
