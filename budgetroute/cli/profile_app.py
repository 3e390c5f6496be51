"""The commands of `budgetroute profile` and their options; what they do stands in other modules."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import Annotated

import typer

from budgetroute.cli.options import AsJson, ConfigPath  # noqa: TC001 - typer reads annotations

profile_app = typer.Typer(
    name="profile",
    help="Make profiles from graded calls, look into them, judge, compare and draw them.",
    no_args_is_help=True,
)

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROFILE]", help="A shipped name or a file. (default: the configured one)"
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="NAME", help="Only this prompt type; repeatable."),
]


@profile_app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles that come with the package."""
    from budgetroute.cli.profile_show import list_command

    raise typer.Exit(list_command(as_json=as_json))


@profile_app.command("fit")
def fit(  # noqa: PLR0913, PLR0917 - one parameter per option
    outcomes: Annotated[
        Path, typer.Argument(metavar="OUTCOMES", help="Graded calls: .csv, .jsonl or .parquet.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The profile to write, a .json file."),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", help="What the profile is called. (default: the file's stem)"),
    ] = None,
    types: Annotated[
        Path | None,
        typer.Option(
            "--types",
            metavar="FILE",
            help="A table with prompt_id and type, over the outcomes' own types.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="A .jsonl or .csv with prompt_id and prompt: trains the classifier beside the profile.",
        ),
    ] = None,
    caps: Annotated[
        str | None,
        typer.Option(
            "--caps",
            metavar="A,B",
            help="Caps to replay from uncapped runs. (default: 64, 256, 1024, … as long as answers)",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Where the outcomes are from; kept in the file.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", help="Their licence; kept in the file.")
    ] = None,
    grader: Annotated[
        str | None, typer.Option("--grader", help="What graded them; kept in the file.")
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Keep what can never win, too.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Fit a profile to graded calls; lint it at the end.

    Columns, units and what is made of them: docs/profiles.md. Prices weigh costs while fitting;
    the profile keeps tokens.
    """
    from budgetroute.cli.profile_fit import Asked, fit_command

    said = {"source": source, "licence": licence, "grader": grader}
    asked = Asked(
        outcomes=outcomes,
        output=output,
        name=name,
        types=types,
        prompts=prompts,
        caps=caps,
        provenance={key: text for key, text in said.items() if text},
        prune=not keep_all,
        force=force,
    )
    raise typer.Exit(fit_command(asked, config, as_json=as_json))


@profile_app.command("import")
def import_logs(  # noqa: PLR0913, PLR0917 - one parameter per option
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG…",
            help="inspect_ai .eval or .json, promptfoo .json, lm-evaluation-harness samples_*.jsonl, "
            "or tables of outcomes.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The table to write: .jsonl or .parquet."
        ),
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option("--fit", metavar="FILE", help="Go straight to a profile, a .json file."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME=OURS", help="The log's name of a model = yours; repeatable."
        ),
    ] = None,
    scorers: Annotated[
        list[str] | None,
        typer.Option(
            "--scorer", metavar="NAME", help="Which scorer to take; repeatable, one per type."
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="LOW,HIGH", help="The grades that are worth 0 and 1."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--type", metavar="NAME", help="Every prompt's type. (default: the task)"),
    ] = None,
    kind_from: Annotated[
        str | None,
        typer.Option(
            "--type-from", metavar="FIELD", help="The metadata or variable that names the type."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="The cap that was sent, where a log has none."),
    ] = None,
    effort: Annotated[
        str | None, typer.Option("--effort", help="The reasoning effort, where a log has none.")
    ] = None,
    cot: Annotated[
        bool, typer.Option("--cot", help="The chain-of-thought instruction was added.")
    ] = False,
    template: Annotated[
        int | None,
        typer.Option("--template", min=1, help="Which wording to take where there are several."),
    ] = None,
    count_tokens: Annotated[
        bool,
        typer.Option(
            "--count-tokens", help="Count answers with o200k where a log has no usage, and say so."
        ),
    ] = False,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Keep the prompts' text in this file, for a classifier.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Import logs of evaluation tools: a table of outcomes, or at once a profile.

    The tool is told by a file's content. What is read of each: docs/profiles.md.
    """
    from budgetroute.cli.profile_import import Wanted, import_command, models_of, scale_of
    from budgetroute.profiling.imports import ImportSettings, Sent

    settings = ImportSettings(
        models=models_of(models or ()),
        scorers=tuple(scorers or ()),
        scale=scale_of(scale),
        type=kind,
        type_from=kind_from,
        given=Sent(max_tokens, cot=cot or None, effort=effort),
        template=template,
        count_tokens=count_tokens,
        keep_prompts=prompts is not None,
    )
    wanted = Wanted(output, fit, prompts, force=force)
    raise typer.Exit(import_command(logs, settings, wanted, config=config, as_json=as_json))


@profile_app.command("update")
def update(  # noqa: PLR0913, PLR0917 - one parameter per option
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="A shipped name or a file.")],
    outcomes: Annotated[
        Path, typer.Argument(metavar="OUTCOMES", help="New graded calls: .csv, .jsonl, .parquet.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="(default: NAME-vN.json beside the old one)"
        ),
    ] = None,
    types: Annotated[
        Path | None,
        typer.Option(
            "--types",
            metavar="FILE",
            help="A table with prompt_id and type, over the outcomes' own types.",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Let cells that were measured again forget the old ones.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Write a profile's next version with new outcomes, and show what changed; the old one stays."""
    from budgetroute.cli.profile_update import Step, update_command

    step = Step(profile, outcomes, output, types, anew=anew, force=force)
    raise typer.Exit(update_command(step, config, as_json=as_json))


@profile_app.command("show")
def show(
    profile: Which = None,
    types: Types = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every action, not only those that can win.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show a profile's curves: a table per type, with intervals and what is on the hull."""
    from budgetroute.cli.profile_show import show_command

    code = show_command(profile, config, types=types or (), everything=everything, as_json=as_json)
    raise typer.Exit(code)


@profile_app.command("lint")
def lint(
    profile: Which = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Let warnings count as failures.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Judge a profile: coverage, samples, noise, dead actions, what providers refuse.

    Exit code 1 if a part of it cannot work as it stands.
    """
    from budgetroute.cli.profile_show import lint_command

    raise typer.Exit(lint_command(profile, config, strict=strict, as_json=as_json))


@profile_app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A shipped name or a file.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another one.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Every cell that differs, not only beyond its errors.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Compare two profiles cell by cell, and say where another action would be chosen."""
    from budgetroute.cli.profile_diff import diff_command

    pair = before, after
    raise typer.Exit(diff_command(pair, config, everything=everything, as_json=as_json))


@profile_app.command("plot")
def plot(
    profile: Which = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="An .svg or .png. (default: NAME.svg here)"
        ),
    ] = None,
    types: Types = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Draw a profile's curves: a panel per type, cost on a log axis, intervals and the hull.

    Needs matplotlib: pip install 'budgetroute[report]'.
    """
    from budgetroute.cli.profile_show import plot_command

    raise typer.Exit(
        plot_command(profile, config, output=output, types=types or (), as_json=as_json)
    )
