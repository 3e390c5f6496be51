"""`budgetroute profile import`: logs of evaluation tools in, a table of outcomes or a profile out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress import Progress, TextColumn

from budgetroute.cli.console import emit, err, marked, out
from budgetroute.cli.profile_view import View
from budgetroute.cli.wording import counted
from budgetroute.errors import ProfileError
from budgetroute.profiles import save_profile
from budgetroute.profiling import FitSettings, fit_profile
from budgetroute.profiling.imports import import_logs, save_outcomes, save_prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.text import Text

    from budgetroute.profiling import Fitted
    from budgetroute.profiling.imports import Imported, ImportSettings


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written, and whether it may replace files; None = not asked for."""

    table: Path | None
    profile: Path | None
    prompts: Path | None
    force: bool

    def check(self) -> None:
        """Refuse, before anything is read, what could not be written at the end."""
        if self.table is None and self.profile is None:
            raise ProfileError(
                "nothing to write: -o FILE names a table (.jsonl, .parquet), --fit FILE a profile"
            )
        if self.table and self.table.suffix not in {".jsonl", ".parquet"}:
            raise ProfileError(f"--output {self.table}: a table is written as .jsonl or .parquet")
        if self.profile and self.profile.suffix != ".json":
            raise ProfileError(f"--fit {self.profile}: a profile is a .json file")
        for path in (self.table, self.profile, self.prompts):
            if path and path.exists() and not self.force:
                raise ProfileError(f"{path} exists already; --force replaces it")


def import_command(
    paths: Sequence[Path],
    settings: ImportSettings,
    wanted: Wanted,
    *,
    config: Path | None,
    as_json: bool,
) -> int:
    """Read logs, write what is wanted; return 0 once it is written.

    Raises:
        ProfileError: a log or an option cannot be used, or a file is there already.
    """
    wanted.check()
    view = View(config)
    with Progress(TextColumn("{task.description}"), console=err(), transient=True) as bar:
        task = bar.add_task("reading")
        made = import_logs(
            paths,
            settings,
            progress=lambda n: bar.update(task, description=f"reading: {counted(n, 'call')}"),
        )
        fitted = None
        if wanted.profile:
            bar.update(task, description="fitting")
            said = FitSettings(wanted.profile.stem, provenance=_provenance(paths, made))
            fitted = fit_profile(made.outcomes, said, rates=view.rates)
    _write(made, fitted, wanted)
    unpriced = sorted({row["model"] for row in made.rows if view.rates(row["model"]) is None})
    if as_json:
        emit(_as_json(made, fitted, wanted) | {"unpriced": unpriced})
    else:
        for line in _report(made, fitted, wanted, unpriced=unpriced):
            out().print(line)
    return 0


def models_of(said: Sequence[str]) -> dict[str, str]:
    """Return the log's name → ours of `--model NAME=OURS`.

    Raises:
        ProfileError: one is not of that form, or a name is given twice.

    >>> models_of(["openai:gpt-4o=gpt-4o"])
    {'openai:gpt-4o': 'gpt-4o'}
    """
    models: dict[str, str] = {}
    for each in said:
        name, _, ours = each.rpartition("=")
        if not name or not ours.strip() or name in models:
            raise ProfileError(f"--model {each}: expected NAME=OURS, each name once")
        models[name] = ours.strip()
    return models


def scale_of(said: str | None) -> tuple[float, float] | None:
    """Return the grades worth 0 and 1 of `--scale LOW,HIGH`.

    Raises:
        ProfileError: these are not two different numbers.
    """
    if said is None:
        return None
    try:
        low, high = (float(word) for word in said.split(","))
    except ValueError:
        low = high = 0.0
    if not abs(low - high) > 0 or abs(low) + abs(high) == float("inf"):
        raise ProfileError(f"--scale {said}: expected two numbers, such as --scale 1,10")
    return low, high


def _provenance(paths: Sequence[Path], made: Imported) -> dict[str, Any]:
    return {
        "built_by": "budgetroute profile import",
        "logs": [path.name for path in paths],
        "tools": sorted(made.tools),
        "graders": dict(made.scorers),
        "coverage": str(made.coverage),
        "left_out": dict(made.left_out),
    }


def _write(made: Imported, fitted: Fitted | None, wanted: Wanted) -> None:
    if wanted.table:
        save_outcomes(made.rows, wanted.table)
    if wanted.prompts:
        save_prompts(made.prompts, wanted.prompts)
    if wanted.profile and fitted:
        save_profile(fitted.profile, wanted.profile)


def _report(
    made: Imported, fitted: Fitted | None, wanted: Wanted, *, unpriced: Sequence[str]
) -> Iterator[Text]:
    tools = ", ".join(f"{counted(n, 'call')} of {tool}" for tool, n in sorted(made.tools.items()))
    yield marked("ok", f"read {tools}")
    yield marked("ok" if made.coverage.complete >= 1 else "warn", str(made.coverage))
    for kind, scorer in made.scorers.items():
        yield marked("ok", f"type {kind}: graded by {scorer}")
    yield from _doubts(made, unpriced)
    if wanted.table:
        yield marked("ok", f"{wanted.table}: {counted(len(made.rows), 'graded call')}")
    if wanted.prompts:
        yield marked(
            "ok",
            f"{wanted.prompts}: the text of {counted(len(made.prompts), 'prompt')}, for you only",
        )
    if wanted.profile and fitted:
        yield from _fitted(fitted, wanted.profile)


def _doubts(made: Imported, unpriced: Sequence[str]) -> Iterator[Text]:
    if made.coverage.lone:
        yield marked("warn", f"{counted(made.coverage.lone, 'prompt')} only of one model")
    for reason, count in made.left_out.items():
        yield marked("warn", f"left out: {counted(count, 'call')}: {reason}")
    if made.counted:
        yield marked(
            "warn", f"tokens of {counted(made.counted, 'call')} counted with o200k, not reported"
        )
    if unpriced:
        yield marked(
            "warn",
            f"no price for {', '.join(unpriced)}; --model NAME=OURS gives them the name that you call",
        )


def _fitted(fitted: Fitted, path: Path) -> Iterator[Text]:
    profile = fitted.profile
    yield marked(
        "ok",
        f"{path}: {counted(len(profile.types), 'type')}, {counted(len(profile.actions), 'action')}",
    )
    for note in fitted.notes:
        yield marked("warn", note)
    if fitted.lint:
        yield marked(
            "warn", f"{counted(len(fitted.lint), 'remark')}: budgetroute profile lint {path}"
        )


def _as_json(made: Imported, fitted: Fitted | None, wanted: Wanted) -> dict[str, Any]:
    coverage = made.coverage
    return {
        "written": [str(p) for p in (wanted.table, wanted.prompts, wanted.profile) if p],
        "calls": dict(made.tools),
        "rows": len(made.rows),
        "scorers": dict(made.scorers),
        "coverage": {
            "prompts": coverage.prompts,
            "actions": coverage.actions,
            "complete": coverage.complete,
            "only_one_model": coverage.lone,
        },
        "left_out": dict(made.left_out),
        "counted_tokens": made.counted,
        "notes": list(fitted.notes) if fitted else [],
        "lint": list(fitted.lint) if fitted else [],
    }
