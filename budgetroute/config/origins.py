"""Where a value comes from, and how to tell its writer what to change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from budgetroute.config.wording import dotted, quoted, toml
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from budgetroute.config.shape import KeyPath


@dataclass(frozen=True, slots=True)
class Origin:
    """One source of values.

    Attributes:
        kind: a file, one environment variable, the arguments, or the defaults.
        name: the file's path, or the variable's name.
        prefix: tables above ours in that file: `("tool", "budgetroute")` in pyproject.toml.
    """

    kind: Literal["file", "env", "argument", "default"]
    name: str = ""
    prefix: KeyPath = ()

    @property
    def label(self) -> str:
        """Return what `Config.origins` says."""
        labels = {"file": Path(self.name).name, "env": f"env {self.name}"}
        return labels.get(self.kind, self.kind)

    @property
    def where(self) -> str:
        """Return how an error names it."""
        places = {
            "file": self.name,
            "env": f"environment variable {self.name}",
            "argument": "the arguments of load_config",
        }
        return places.get(self.kind, "the defaults")

    def table(self, above: KeyPath) -> str:
        """Name a table there.

        >>> Origin("file", "pyproject.toml", ("tool", "budgetroute")).table(("budget",))
        '[tool.budgetroute.budget]'
        """
        path = (*self.prefix, *above)
        return f"[{dotted(path)}]" if path else "the part above the first [table]"

    def advice(self, path: KeyPath, example: object) -> str:
        """Say what to write there instead."""
        if self.kind == "env":
            plain = example if isinstance(example, str) else toml(example)
            return f"Set for example {self.name}={plain}."
        if self.kind == "argument":
            return f"Pass for example overrides={{{dotted(path)!r}: {example!r}}}."
        line = f"{quoted(path[-1])} = {toml(example)}"
        above = (*self.prefix, *path[:-1])
        place = f"under [{dotted(above)}]" if above else "at the top, above the first [table]"
        return f"Write for example `{line}` {place}."

    def refuse(self, path: KeyPath, problem: str, advice: str) -> ConfigError:
        """Return the error for a value of this source."""
        end = "" if problem.endswith("?") else "."
        return ConfigError(f"{self.where}: `{dotted(path)}` {problem}{end} {advice}")


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that was read and is of the right type, with its source."""

    value: object
    origin: Origin


Leaves: TypeAlias = dict[tuple[str, ...], Leaf]
"""One layer, or all of them merged: key path → leaf."""
