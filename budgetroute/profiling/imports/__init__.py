"""Logs of evaluation tools in, a table of outcomes out.

`sources` opens files and tells who wrote them, a module per tool reads its calls, `logged` is the
convention that they share, `gathering` makes rows of them.
"""

from __future__ import annotations

from budgetroute.profiling.imports.coverage import Coverage, coverage_of
from budgetroute.profiling.imports.gathering import Imported, ImportSettings, import_logs
from budgetroute.profiling.imports.logged import Sent
from budgetroute.profiling.imports.saving import save_outcomes, save_prompts

__all__ = [
    "Coverage",
    "ImportSettings",
    "Imported",
    "Sent",
    "coverage_of",
    "import_logs",
    "save_outcomes",
    "save_prompts",
]
