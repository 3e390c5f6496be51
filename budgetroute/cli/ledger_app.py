"""The commands of `budgetroute ledger` and their options; what they do stands in other modules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from budgetroute.cli.options import AsJson, ConfigPath  # noqa: TC001 - typer reads annotations

ledger_app = typer.Typer(
    name="ledger",
    help="Look into the ledger: list attempts, add them up, export them, check every sum. "
    "Nothing is changed, and no call has to wait.",
    no_args_is_help=True,
)

File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="PATH",
        help="Read this ledger.db (or its folder) instead of the configured one; one that was "
        "set aside, too.",
    ),
]
Period = Annotated[
    str | None,
    typer.Option(
        "--period",
        "--day",
        metavar="PERIOD",
        help="Only attempts of today, 2026-11-29, 2026-11, 2026-W48, or of a period by its id.",
    ),
]
Scope = Annotated[
    str | None,
    typer.Option("--scope", metavar="NAME", help="Only attempts that count there, as run:ID."),
]
Route = Annotated[
    str | None, typer.Option("--route", metavar="NAME", help="Only attempts of this route.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Only attempts with this model.")
]
State = Annotated[
    Literal["hold", "settled", "estimated", "late", "released"] | None,
    typer.Option(
        "--state",
        help="Only attempts in flight, billed, booked without a bill, billed after their lease, or "
        "given back.",
    ),
]
EveryApp = Annotated[
    bool, typer.Option("--all-apps", help="Attempts of every app in the ledger, not only this one.")
]


@ledger_app.command("list")
def list_attempts(  # noqa: PLR0913, PLR0917 - one parameter per option
    config: ConfigPath = None,
    file: File = None,
    period: Period = None,
    scope: Scope = None,
    route: Route = None,
    model: Model = None,
    state: State = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="At most so many; 0 = all.")
    ] = 20,
    every_app: EveryApp = False,
    as_json: AsJson = False,
) -> None:
    """Show attempts, newest first; they are kept for 35 days."""
    from budgetroute.cli.ledger import list_command, place, wanted_at
    from budgetroute.cli.lines import Wanted

    at = place(config, file)
    asked = Wanted(period=period, scope=scope, route=route, model=model, state=state)
    wanted = wanted_at(at, asked, every_app=every_app)
    raise typer.Exit(list_command(at, wanted, limit=limit, as_json=as_json))


@ledger_app.command("sum")
def sum_attempts(  # noqa: PLR0913, PLR0917 - one parameter per option
    config: ConfigPath = None,
    file: File = None,
    by: Annotated[
        Literal["day", "week", "month", "model", "route", "scope", "source"],
        typer.Option("--by", help="One line for each."),
    ] = "day",
    period: Period = None,
    scope: Scope = None,
    route: Route = None,
    model: Model = None,
    state: State = None,
    every_app: EveryApp = False,
    as_json: AsJson = False,
) -> None:
    """Add up what was spent.

    Days, weeks and months without a filter come from the period sums, which are kept for ever;
    everything else from the attempts of the last 35 days.
    """
    from budgetroute.cli.ledger import place, sum_command, wanted_at
    from budgetroute.cli.lines import Wanted

    at = place(config, file)
    asked = Wanted(period=period, scope=scope, route=route, model=model, state=state)
    wanted = wanted_at(at, asked, every_app=every_app)
    raise typer.Exit(sum_command(at, wanted, by=by, as_json=as_json))


@ledger_app.command("export")
def export_attempts(  # noqa: PLR0913, PLR0917 - one parameter per option
    config: ConfigPath = None,
    file: File = None,
    form: Annotated[
        Literal["csv", "jsonl"], typer.Option("--format", help="Of the lines.")
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a new file that only you can read, instead of stdout.",
        ),
    ] = None,
    period: Period = None,
    scope: Scope = None,
    route: Route = None,
    model: Model = None,
    state: State = None,
    every_app: EveryApp = False,
    as_json: AsJson = False,
) -> None:
    """Write attempts as CSV or JSON lines, newest first; no prompt and no tag's value is in them."""
    from budgetroute.cli.exporting import export_command
    from budgetroute.cli.ledger import place, wanted_at
    from budgetroute.cli.lines import Wanted

    at = place(config, file)
    asked = Wanted(period=period, scope=scope, route=route, model=model, state=state)
    wanted = wanted_at(at, asked, every_app=every_app)
    raise typer.Exit(export_command(at, wanted, form=form, output=output, as_json=as_json))


@ledger_app.command("verify")
def verify_sums(config: ConfigPath = None, file: File = None, as_json: AsJson = False) -> None:
    """Compute every sum anew from its attempts, and look at every attempt.

    Exit code 1 if something differs. Sums of attempts older than 35 days are checked with the
    closing totals that were kept when the attempts were dropped.
    """
    from budgetroute.cli.ledger import place, verify_command

    raise typer.Exit(verify_command(place(config, file), as_json=as_json))
