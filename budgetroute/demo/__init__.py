"""A day without a key: simulated models, everyday prompts with known answers, and when they come."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgetroute.demo.report import progress_line, render
    from budgetroute.demo.result import DemoResult, Progress
    from budgetroute.demo.run import run_demo

__all__ = ["DemoResult", "Progress", "progress_line", "render", "run_demo"]

_HOME = {
    "DemoResult": "result",
    "Progress": "result",
    "progress_line": "report",
    "render": "report",
    "run_demo": "run",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used: the server's process needs neither router nor screen."""
    if name not in _HOME:
        raise AttributeError(f"module 'budgetroute.demo' has no attribute {name!r}")
    return getattr(import_module(f"budgetroute.demo.{_HOME[name]}"), name)
