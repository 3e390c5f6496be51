"""`budgetroute profile update`: an old profile and new graded calls in, its next version out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from budgetroute import files
from budgetroute.cli.console import emit, marked, out
from budgetroute.cli.profile_diff import diff_command
from budgetroute.cli.profile_view import View
from budgetroute.cli.wording import counted
from budgetroute.errors import ProfileError
from budgetroute.profiles import classifier_path, profile_path, save_profile
from budgetroute.profiling import changes, read_outcomes
from budgetroute.profiling.updating import update_profile, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from budgetroute.profiling.updating import Updated
    from budgetroute.records import Profile

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Step:
    """What the command line said; None = not said."""

    profile: str
    outcomes: Path
    output: Path | None
    types: Path | None
    anew: bool
    force: bool


def update_command(step: Step, config: Path | None, *, as_json: bool) -> int:
    """Write the next version beside the old one and show what changed; return 0.

    Raises:
        ProfileError: profile or table cannot be used, or the new file is there already.
    """
    view = View(config)
    old = view.profile(step.profile)
    target = _target(step, version_of(old) + 1)
    table = read_outcomes(step.outcomes, types=step.types)
    made = update_profile(old, table, rates=view.rates, anew=step.anew)
    _with_classifier(old, step.profile, target)
    save_profile(made.profile, target)
    if as_json:
        emit({
            "written": str(target),
            "version": made.version,
            "rows": len(table.rows),
            "changed_cells": sum(1 for _ in changes(old, made.profile)),
            "drifted": [
                {"type": each.type, "action": each.action.label, "errors": each.errors}
                for each in made.drifted
            ],
            "notes": list(made.notes),
        })  # fmt: skip
        return 0
    for line in _report(made, target, anew=step.anew):
        out().print(line)
    return diff_command((step.profile, str(target)), config, everything=False, as_json=False)


def _target(step: Step, version: int) -> Path:
    """Return the file to write: said, else `NAME-vN.json` beside the old one.

    Raises:
        ProfileError: it is no .json, is the old one, or is there already.
    """
    home = profile_path(step.profile)
    is_shipped = Path(step.profile).suffix == ""
    stem = re.sub(r"-v\d+$", "", home.stem)
    beside = Path() if is_shipped else home.parent
    target = step.output or beside / f"{stem}-v{version}.json"
    if target.suffix != ".json":
        raise ProfileError(f"--output {target}: a profile is a .json file")
    if target.exists() and (target.samefile(home) or not step.force):
        hint = "the old version stays" if target.samefile(home) else "--force replaces it"
        raise ProfileError(f"{target} exists already; {hint}")
    return target


def _with_classifier(old: Profile, name: str, target: Path) -> None:
    """Put the old profile's classifier beside the new one, unless it lies there."""
    source = classifier_path(old, name)
    if source is None or (target.parent / source.name).exists():
        return
    copy = target.parent / source.name
    try:
        content = files.read(source, most=64 * 1024**2)[0]
        with files.draft_of(copy, content) as draft:
            draft.replace(copy)
    except OSError as err:
        raise ProfileError(f"{copy}: cannot be written: {err.strerror or err}") from err


def _report(made: Updated, target: Path, *, anew: bool) -> Iterator[Text]:
    yield marked("ok", f"{target}: version {made.version}; the old one stays as it is")
    for note in made.notes:
        yield marked("warn", note)
    for each in made.drifted[:_SHOWN]:
        before, after = each.before, each.after
        if before and after:
            yield marked(
                "warn",
                f"{each.type}, {each.action.label}: {before.reward:.2f} before, {after.reward:.2f} "
                f"in the new outcomes, more than chance",
            )
    if len(made.drifted) > _SHOWN:
        yield marked("warn", f"{counted(len(made.drifted) - _SHOWN, 'more cell')} like that")
    if made.drifted and not anew:
        yield marked("warn", "their mean is kept; --anew takes the new outcomes alone")
