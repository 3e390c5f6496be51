"""`budgetroute profile list | show | lint | plot`: what is in a profile, and how good it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from budgetroute.cli.console import emit, is_unicode, listing, marked, out, plain
from budgetroute.cli.profile_view import View, lines_of, types_of
from budgetroute.cli.wording import counted, usd
from budgetroute.errors import ProfileError
from budgetroute.profiles import load_profile, shipped
from budgetroute.profiling import interval, plot_profile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from budgetroute.cli.profile_view import Line
    from budgetroute.profiles import Flaw
    from budgetroute.records import Profile, PromptType

_CALLS = 1000
_FEW = 3
_WIDE = 110
_COLUMNS = ("action", "$ / 1k calls", "R", "95 %", "tokens", "p95", "cut", "n", "hull")
_IF_WIDE = frozenset({"p95", "cut"})
_SENSITIVE = {True: "sensitive", False: "insensitive", None: "not judged"}


def list_command(*, as_json: bool) -> int:
    """List the shipped profiles."""
    found = [(name, load_profile(name)) for name in shipped()]
    if as_json:
        emit({"profiles": [{"profile": name, **_head_json(each)} for name, each in found]})
        return 0
    table = listing("name", "types", "models", "actions", "good for")
    for name, each in found:
        table.add_row(
            f"  {name}",
            str(len(each.types)),
            str(len(_models(each))),
            str(len(each.actions)),
            plain(str(each.provenance.get("good_for", ""))),
        )
    out().print(table)
    return 0


def show_command(
    name: str | None, path: Path | None, *, types: Sequence[str], everything: bool, as_json: bool
) -> int:
    """Show a profile's curves, type by type."""
    view = View(path)
    profile = view.profile(name)
    found = {kind: lines_of(view, profile, kind) for kind in types_of(profile, types)}
    if as_json:
        content = {
            kind: _type_json(profile.types[kind]) | {"actions": [line.to_json() for line in lines]}
            for kind, lines in found.items()
        }
        emit({**_head_json(profile), "types": content, "provenance": profile.provenance})
        return 0
    parts: list[RenderableType] = [Text(_head(profile), style="bold")]
    for kind, lines in found.items():
        parts += _shown(kind, profile.types[kind], lines, everything=everything)
    out().print(Group(*parts, *_sources(profile)))
    return 0


def _models(profile: Profile) -> list[str]:
    return list(dict.fromkeys(action.model for action in profile.actions))


def _head(profile: Profile) -> str:
    return (
        f"{plain(profile.name)} of {profile.created}: {counted(len(profile.types), 'type')}, "
        f"{counted(len(profile.actions), 'action')} of {counted(len(_models(profile)), 'model')}"
    )


def _head_json(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "created": profile.created,
        "models": _models(profile),
        "actions": len(profile.actions),
        "good_for": profile.provenance.get("good_for"),
    }


def _type_json(kind: PromptType) -> dict[str, Any]:
    return {
        "share": kind.share,
        "input_tokens": kind.input_tokens,
        "value": kind.value,
        "sensitive": kind.sensitive,
    }


def _shown(
    name: str, kind: PromptType, lines: Sequence[Line], *, everything: bool
) -> Iterator[RenderableType]:
    """Yield a type's heading and table."""
    yield Text()
    about = f"{kind.share:.0%} of the traffic, " if kind.share else ""
    heading = f"{about}{kind.input_tokens:,.0f} input tokens, {_SENSITIVE[kind.sensitive]}"
    yield Text.assemble((plain(name), "bold"), f" · {heading}")
    is_wide = out().width >= _WIDE
    columns = [name for name in _COLUMNS if is_wide or name not in _IF_WIDE]
    table = listing(*columns, right=columns[1:])
    for line in lines:
        if everything or line.on_hull:
            row = dict(zip(_COLUMNS, _row(line), strict=True))
            table.add_row(*[row[name] for name in columns])
    yield table
    hidden = sum(not line.on_hull for line in lines)
    if hidden and not everything:
        yield Text(f"  {counted(hidden, 'action')} more, never the best buy: --all", style="dim")


def _row(line: Line) -> tuple[str, ...]:
    low, high = interval(line.cell)
    cell = line.cell
    mark = ("●" if is_unicode() else "*") if line.on_hull else ""
    sure = "" if line.certainty is None else f"{line.certainty:.0%}"
    return (
        f"  {plain(line.action.label)}",
        "–" if line.cost is None else usd(line.cost * _CALLS),
        f"{cell.reward:.3f}",
        f"{low:.2f}–{high:.2f}",
        f"{cell.output_mean:,.0f}",
        "–" if cell.output_p95 is None else f"{cell.output_p95:,.0f}",
        "–" if cell.cut is None else f"{cell.cut:.1%}",
        f"{cell.n:,}" if cell.n else cell.source,
        f"{sure} {mark}".strip(),
    )


def _sources(profile: Profile) -> Iterator[Text]:
    """Yield what the profile rests on, and how to read the table."""
    yield Text()
    for text in _said(profile):
        yield Text(f"  {plain(text)}", style="dim")
    yield Text(
        "  hull: how often an action can win when rewards vary within their errors; marked where it "
        "does by its mean. n: graded answers, or where the number comes from instead.",
        style="dim",
    )


def _said(profile: Profile) -> Iterator[str]:
    for source in profile.provenance.get("sources", ()):
        if isinstance(source, dict):
            yield f"{source.get('source', '')}: {source.get('repo', '')}, {source.get('licence', '')}"
    for key in ("source", "licence", "grader", "good_for", "not_for"):
        if key in profile.provenance:
            yield f"{key.replace('_', ' ')}: {profile.provenance[key]}"


def lint_command(name: str | None, path: Path | None, *, strict: bool, as_json: bool) -> int:
    """Judge a profile; return 1 if something in it cannot work, or is weak and `strict` is asked."""
    view = View(path)
    profile = view.profile(name)
    flaws = view.judged(profile)
    failed = any(strict or flaw.level == "fail" for flaw in flaws)
    if as_json:
        found = [flaw._asdict() for flaw in flaws]
        emit({"profile": profile.name, "ok": not failed, "flaws": found})
        return int(failed)
    lines = [marked(level, text) for level, text in _gathered(flaws)]
    if not flaws:
        lines = [marked("ok", f"{profile.name}: nothing found")]
    out().print(Group(*lines))
    return int(failed)


def _gathered(flaws: Sequence[Flaw]) -> Iterator[Any]:
    """Say what many subjects have in common in one line, failures first."""
    tally = Counter((flaw.level, flaw.text) for flaw in flaws)
    for level, text in sorted(tally, key=lambda each: each[0] != "fail"):
        named = [flaw.subject for flaw in flaws if (flaw.level, flaw.text) == (level, text)]
        more = f" and {len(named) - _FEW} more" if len(named) > _FEW else ""
        yield level, f"{', '.join(named[:_FEW])}{more}: {text}"


def plot_command(
    name: str | None,
    path: Path | None,
    *,
    output: Path | None,
    types: Sequence[str],
    as_json: bool,
) -> int:
    """Draw a profile into a file.

    Raises:
        ProfileError: matplotlib is missing, or the file cannot be written.
    """
    view = View(path)
    profile = view.profile(name)
    target = output or Path(f"{Path(profile.name).name}.svg")
    form = target.suffix.lower().removeprefix(".")
    if form not in {"svg", "png"}:
        raise ProfileError(f"--output {target}: a picture is an .svg or .png file")
    kinds = list(types_of(profile, types))
    picture = plot_profile(profile, view.cost, form="png" if form == "png" else "svg", types=kinds)
    try:
        target.write_bytes(picture)
    except OSError as err:
        raise ProfileError(f"{target}: cannot be written: {err.strerror or err}") from err
    if as_json:
        emit({"profile": profile.name, "written": str(target), "types": kinds})
    else:
        out().print(marked("ok", f"{target}: {counted(len(kinds), 'panel')}"))
    return 0
