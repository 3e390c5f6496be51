"""The commands and their options; what they do stands in the module of each."""

from __future__ import annotations

import logging
import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from budgetroute.cli.console import Notices, complain, survive_any_encoding
from budgetroute.cli.ledger_app import ledger_app
from budgetroute.cli.options import AsJson, ConfigPath  # noqa: TC001 - typer reads annotations
from budgetroute.cli.profile_app import profile_app
from budgetroute.errors import BudgetRouteError

USAGE = 2


class Door(TyperGroup):
    """Turns the package's errors into one red line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's context, click's in older versions
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BudgetRouteError as error:
            complain(str(error))
            raise typer.Exit(USAGE) from error


app = typer.Typer(
    cls=Door,
    name="budgetroute",
    help="A daily dollar budget for LLM calls, spent where it buys the most quality.",
    epilog="Exit codes: 0 ok · 1 a check failed · 2 wrong usage or configuration · "
    "3 budget exhausted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(ledger_app)
app.add_typer(profile_app)


def _version(asked: bool) -> None:
    if asked:
        from budgetroute import __version__

        typer.echo(f"budgetroute {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Prepare the streams; let the package's warnings through, unless a log is asked for."""
    survive_any_encoding()
    if os.environ.get("BUDGETROUTE_LOG"):
        return
    logger, notices = logging.getLogger("budgetroute"), Notices(logging.WARNING)
    logger.addHandler(notices)
    context.call_on_close(lambda: logger.removeHandler(notices))


@app.command()
def init(
    daily: Annotated[
        float | None,
        typer.Option("--daily", metavar="USD", help="Dollars that a day may cost. (default: 5)"),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="A,B",
            help="Models to choose from. (default: the profile's that have a price)",
        ),
    ] = None,
    timezone: Annotated[
        str,
        typer.Option("--timezone", metavar="ZONE", help="Where the day begins at 00:00."),
    ] = "UTC",
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="The app; apps of one name share a budget. (default: this folder's name)",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented budgetroute.toml into this folder; asks nothing."""
    from budgetroute.cli.init import Wishes, init_command

    wishes = Wishes(daily=daily, models=models, timezone=timezone, name=name, force=force)
    raise typer.Exit(init_command(wishes, as_json=as_json))


@app.command()
def doctor(
    config: ConfigPath = None,
    app: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE",
            help="Import this module (`pkg.mod` or a .py file) and look at its routed functions.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the set-up and say what to mend.

    Shows the effective configuration with the origin of each value, prices, the profile, what can
    be sent, the store and the versions. Exit code 1 if something must be mended.
    """
    from budgetroute.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(config, app=app, as_json=as_json))


@app.command()
def status(
    config: ConfigPath = None,
    as_json: AsJson = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every 2 seconds until Ctrl-C.")
    ] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="NAME=VALUE",
            help="Show the limits of a call with this tag; repeatable.",
        ),
    ] = None,
    route: Annotated[
        str | None,
        typer.Option("--route", metavar="NAME", help="Show the limits of a call of this route."),
    ] = None,
) -> None:
    """Show where the budget stands and what today's money bought.

    Exit code 3 if the budget is exhausted, or with --tag or --route what such a call counts in.
    """
    from budgetroute.cli.status import call_of, status_command

    if watch and as_json:
        raise typer.BadParameter("--watch redraws the screen; leave out --json, or call it often")
    call = call_of(route, tag or ())
    raise typer.Exit(status_command(config, as_json=as_json, watch=watch, call=call))


@app.command()
def explain(
    decision: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The decision's id from the debug log, or its beginning; `last` is the newest.",
        ),
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show why a call got its action, what else there was, and what it cost in the end."""
    from budgetroute.cli.explain import explain_command

    raise typer.Exit(explain_command(decision, config, as_json=as_json))


@app.command()
def demo(
    calls: Annotated[
        int, typer.Option("--calls", min=1, help="Calls in the day.", show_default=True)
    ] = 4000,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="USD",
            min=0,
            help="The day's budget. (default: $0.75 for each 4,000 calls)",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Which day is drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Route a whole day of simulated calls: the real router, no key, no network."""
    from budgetroute.cli.demo import demo_command

    raise typer.Exit(demo_command(calls=calls, budget_usd=budget, seed=seed, as_json=as_json))


prices = typer.Typer(
    name="prices", help="What models cost, and what you wrote over the map.", no_args_is_help=True
)
app.add_typer(prices)


@prices.command("show")
def prices_show(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Models, or patterns such as 'gpt-5*'. (default: the configured ones)",
        ),
    ] = None,
    config: ConfigPath = None,
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="Only this provider's.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every text model of the map.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every class of price: tokens, context tiers, service tiers, hours, fees.

    Up to three models by name are shown whole. Exit code 1 if one has no price.
    """
    from budgetroute.cli.prices import show_command

    names = models or []
    if names and everything:
        raise typer.BadParameter("--all shows every model; leave out the names, or --all")
    code = show_command(names, config, provider=provider, everything=everything, as_json=as_json)
    raise typer.Exit(code)


@prices.command("diff")
def prices_diff(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Compare the prices that you wrote with the price map's.

    Exit code 1 if one is more than 20 times off.
    """
    from budgetroute.cli.prices import diff_command

    raise typer.Exit(diff_command(config, as_json=as_json))


@prices.command("check")
def prices_check(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Check the age of the price map and every price in use.

    Exit code 1 if a model has no price, or one that cannot be meant.
    """
    from budgetroute.cli.prices import check_command

    raise typer.Exit(check_command(config, as_json=as_json))
