"""Loads the configuration: file, then environment, then arguments, then the rules between keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.config.build import add_default, build, merged, named_after
from budgetroute.config.checks import check, missing_budget, store_url
from budgetroute.config.environment import CONFIG, DISABLE, is_disabled, layer_of_environment
from budgetroute.config.files import (
    FILE,
    PYPROJECT,
    ConfigFile,
    find_file,
    folders_upwards,
    read_file,
)
from budgetroute.config.layers import layer_of, layer_of_overrides
from budgetroute.config.origins import Leaf, Leaves, Origin
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.config.model import Config

_MODE, _NAME, _DAILY = ("mode",), ("name",), ("budget", "daily_usd")
_PATH, _URL = ("store", "path"), ("store", "url")


def load_config(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Return the configuration as it holds.

    Args:
        path: the file; None takes `BUDGETROUTE_CONFIG`, else searches upwards from `cwd`.
        env: the environment; every `BUDGETROUTE_*` variable in it is checked.
        cwd: the folder to start at; None is the current one.
        overrides: dotted key → value, over file and environment; None as a value is skipped.

    Raises:
        ConfigError: no file and no daily budget, or anything in them that cannot be used.
    """
    start = _start(cwd)
    file = _file(path, env=env, start=start)
    layers = [layer_of(file.tree, file.origin)] if file else []
    leaves = merged([*layers, layer_of_environment(env), layer_of_overrides(overrides or {})])
    if is_disabled(env):
        leaves[_MODE] = Leaf("off", Origin("env", DISABLE))
    if _DAILY not in leaves:
        _do_without_budget(leaves, file, _searched(start, _home(env)))
    folder = file.path.parent if file else start
    add_default(leaves, _NAME, named_after(folder))
    _place_store(leaves, folder=folder, env=env)
    config = build(leaves, source=file.path if file else None, folder=folder)
    check(config, leaves, is_named=bool(path or env.get(CONFIG)))
    return config


def _start(cwd: Path | None) -> Path:
    try:
        return (cwd or Path.cwd()).resolve()
    except FileNotFoundError as err:
        raise ConfigError(
            "the current folder no longer exists, so no configuration can be searched from it. "
            "Change to an existing folder, or pass cwd."
        ) from err


def _home(env: Mapping[str, str]) -> Path | None:
    """Return the home folder; None where nobody knows it."""
    try:
        return Path(env.get("HOME") or Path.home()).resolve()
    except RuntimeError:
        return None


def _file(path: str | Path | None, *, env: Mapping[str, str], start: Path) -> ConfigFile | None:
    named = path or env.get(CONFIG)
    if named:
        return read_file(_expanded(str(named), folder=start, env=env))
    return find_file(start, _home(env))


def _expanded(text: str, *, folder: Path, env: Mapping[str, str]) -> Path:
    """Return an absolute path: `~` is home, relative ones start at `folder`."""
    home = _home(env)
    if home is not None and (text == "~" or text.startswith("~/")):
        return home / text[2:]
    try:
        return folder / Path(text).expanduser()
    except RuntimeError as err:
        raise ConfigError(f"{text}: no home folder is known for it. Write the full path.") from err


def _searched(start: Path, home: Path | None) -> str:
    last = list(folders_upwards(start, home))[-1]
    span = f"in {start}" if last == start else f"from {start} up to {last}"
    return f"{FILE} and [tool.budgetroute] in {PYPROJECT} {span}"


def _do_without_budget(leaves: Leaves, file: ConfigFile | None, searched: str) -> None:
    """Raise for a missing daily budget, unless nothing is routed anyway."""
    if _MODE in leaves and leaves[_MODE].value == "off":
        add_default(leaves, _DAILY, 0.0)
        return
    if file is not None:
        raise missing_budget(file.origin)
    raise ConfigError(
        f"no configuration found: looked for {searched}. `budgetroute init` writes a {FILE}; "
        "or set BUDGETROUTE_BUDGET_DAILY_USD=25.0, or name a file with BUDGETROUTE_CONFIG."
    )


def _place_store(leaves: Leaves, *, folder: Path, env: Mapping[str, str]) -> None:
    """Fill in the store's address, or the full path of its folder."""
    if _URL in leaves:
        leaf = leaves[_URL]
        leaves[_URL] = Leaf(store_url(str(leaf.value), env, origin=leaf.origin), leaf.origin)
        return
    state = env.get("XDG_STATE_HOME", "")
    base = state if Path(state).is_absolute() else "~/.local/state"  # XDG: relative is ignored
    add_default(leaves, _PATH, f"{base}/budgetroute")
    leaf = leaves[_PATH]
    full = _expanded(str(leaf.value), folder=folder, env=env)
    leaves[_PATH] = Leaf(str(full), leaf.origin)
