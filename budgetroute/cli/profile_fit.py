"""`budgetroute profile fit`: graded calls in, a profile out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn

from budgetroute.cli.console import emit, err, marked, out
from budgetroute.cli.profile_view import View
from budgetroute.cli.wording import counted
from budgetroute.errors import ProfileError
from budgetroute.profiling import (
    FitSettings,
    fit_profile,
    fit_texts,
    read_outcomes,
    read_prompts,
    save_together,
)
from budgetroute.profiling.texts import classifier_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.text import Text

    from budgetroute.profiles import Flaw
    from budgetroute.profiling import Fitted, Outcomes, TextFit
    from budgetroute.records import Profile

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line said; None = not said."""

    outcomes: Path
    output: Path
    name: str | None
    types: Path | None
    prompts: Path | None
    caps: str | None
    provenance: Mapping[str, Any]
    prune: bool
    force: bool


def fit_command(asked: Asked, config: Path | None, *, as_json: bool) -> int:
    """Fit, write and lint a profile; return 0 once it is written.

    Raises:
        ProfileError: the table or an option cannot be used, or the file is there already.
    """
    _check(asked)
    prompts = read_prompts(asked.prompts) if asked.prompts else None
    view = View(config)
    settings = FitSettings(
        asked.name or asked.output.stem,
        caps=_caps(asked.caps),
        prune=asked.prune,
        provenance=asked.provenance,
    )
    with Progress(
        TextColumn("{task.description}"), BarColumn(), console=err(), transient=True
    ) as bar:
        task = bar.add_task(f"reading {asked.outcomes.name}", total=None)
        table = read_outcomes(asked.outcomes, types=asked.types)
        bar.update(task, description="fitting")
        fitted = fit_profile(
            table,
            settings,
            rates=view.rates,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        texts = None
        if prompts is not None:
            bar.update(task, description="training the classifier", total=None)
            texts = fit_texts(fitted.profile, table, prompts, rates=view.rates)
    made = save_together(fitted.profile, asked.output, texts.arrays if texts else None)
    fitted = replace(fitted, profile=made)
    flaws = view.judged(made)
    if as_json:
        told = _as_json(asked, table, fitted, flaws=flaws)
        emit(told | ({"classifier": _texts_json(made, texts)} if texts else {}))
    else:
        for line in _report(asked, table, fitted, flaws=flaws):
            out().print(line)
        for line in _texts_report(made, texts) if texts else ():
            out().print(line)
        out().print(marked("ok", f'use it with: profile = "{asked.output}"'))
    return 0


def _check(asked: Asked) -> None:
    if asked.output.suffix != ".json":
        raise ProfileError(f"--output {asked.output}: a profile is a .json file")
    beside = [classifier_file(asked.output)] if asked.prompts else []
    for path in (asked.output, *beside):
        if path.exists() and not asked.force:
            raise ProfileError(f"{path} exists already; --force replaces it")


def _caps(said: str | None) -> tuple[int, ...]:
    if said is None:
        return ()
    words = [word.strip() for word in said.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ProfileError(f"--caps {said!r}: expected whole numbers, such as --caps 64,256,1024")
    return tuple(sorted({int(word) for word in words}))


def _report(
    asked: Asked, table: Outcomes, fitted: Fitted, *, flaws: Sequence[Flaw]
) -> Iterator[Text]:
    profile = fitted.profile
    prompts = len({row.prompt for row in table.rows})
    yield marked(
        "ok",
        f"{asked.output}: {counted(len(profile.types), 'type')}, "
        f"{counted(len(profile.actions), 'action')} from {counted(len(table.rows), 'graded call')} "
        f"of {counted(prompts, 'prompt')}",
    )
    if table.ignored:
        yield marked("warn", f"columns not used: {', '.join(table.ignored)}")
    if fitted.unpriced:
        yield marked(
            "warn",
            f"no price for {', '.join(fitted.unpriced)}: not shrunk over cost, no candidate before "
            "it has one",
        )
    for note in fitted.notes:
        yield marked("warn", note)
    for flaw in flaws[:_SHOWN]:
        yield marked(flaw.level, flaw.line)
    if len(flaws) > _SHOWN:
        yield marked("warn", f"{len(flaws) - _SHOWN} more: budgetroute profile lint")


def _as_json(
    asked: Asked, table: Outcomes, fitted: Fitted, *, flaws: Sequence[Flaw]
) -> dict[str, Any]:
    profile = fitted.profile
    return {
        "written": str(asked.output),
        "name": profile.name,
        "rows": len(table.rows),
        "types": sorted(profile.types),
        "actions": [action.label for action in profile.actions],
        "ignored_columns": list(table.ignored),
        "unpriced": list(fitted.unpriced),
        "notes": list(fitted.notes),
        "flaws": [flaw._asdict() for flaw in flaws],
    }


def _texts_report(profile: Profile, texts: TextFit) -> Iterator[Text]:
    yield from (marked("warn", warning) for warning in texts.warnings)
    yield from (marked("ok", note) for note in texts.notes)
    if profile.classifier:
        yield marked("ok", f"{profile.classifier.name}: keep it beside the profile")


def _texts_json(profile: Profile, texts: TextFit) -> dict[str, Any]:
    ref, residual = profile.classifier, texts.residual
    return {
        "written": ref and ref.name,
        "types": list(texts.types),
        "prompts": texts.prompts,
        "without_text": texts.without_text,
        "unused": texts.unused,
        "macro_f1": texts.macro_f1,
        "residual": residual
        and {
            "lengths": residual.has_lengths,
            "rewards": residual.has_rewards,
            "prompts": residual.prompts,
            "length_explained": residual.length_explained,
            "reward_explained": residual.reward_explained,
            "gain": residual.gain,
            "gain_se": residual.gain_se,
        },
        "notes": list(texts.notes),
        "warnings": list(texts.warnings),
    }
