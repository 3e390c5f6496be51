"""Runs the command line in this process, as a user in a folder of a repository would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import time_machine
from typer.testing import CliRunner

from budgetroute.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.world import World

STORE = '[store]\npath = "ledger"'
"""Where `disk_world` keeps its ledger."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What stdout says as JSON; fails if anything else stands there."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """All of stdout with breaks and runs of spaces taken out, whatever the width."""
        return " ".join(self.out.split())


def cli(*args: object, width: int = 80, **env: str) -> Answer:
    """Run one command."""
    runner = CliRunner()
    result = runner.invoke(app, [str(arg) for arg in args], env={"COLUMNS": str(width), **env})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def cli_at(world: World, *args: object, **more: Any) -> Answer:
    """Run one command with a world's configuration, at its time."""
    with time_machine.travel(world.clock.at, tick=False):
        return cli(*args, "--config", world.folder / "budgetroute.toml", **more)


def project(folder: Path, text: str = "[budget]\ndaily_usd = 1\n") -> Path:
    """Make a folder a repository with a configuration; return the configuration's path."""
    (folder / ".git").mkdir(exist_ok=True)
    path = folder / "budgetroute.toml"
    path.write_text(text, encoding="utf-8")
    return path
