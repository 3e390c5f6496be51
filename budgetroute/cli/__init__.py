"""The command line: `budgetroute init | doctor | status | explain | ledger | demo`.

typer and rich are imported here and nowhere else, when `main` runs.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code: 0 ok, 1 gate, 2 usage, 3 exhausted."""
    from budgetroute.cli.app import app

    app(prog_name="budgetroute")
