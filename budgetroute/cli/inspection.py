"""Looks at an app's routed functions: what each can send, and what is gated out for it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.calls.carry import Carrier
from budgetroute.calls.routers import set_default_router
from budgetroute.cli.report import Finding, Section, failed
from budgetroute.cli.wording import counted
from budgetroute.clock import WallClock
from budgetroute.errors import BudgetRouteError, ConfigError, NoEligibleAction
from budgetroute.records import AXES
from budgetroute.router import Router
from budgetroute.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from budgetroute.cli.console import Level
    from budgetroute.records import Action, Request
    from budgetroute.router.equipment import Equipment
    from budgetroute.router.lanes import Lane

_ASKED = [{"role": "user", "content": "?"}]
_EVERY = ""  # stands for all prompt types
_FEW = 2


@dataclass(frozen=True, slots=True)
class Reach:
    """What one routed function can send.

    Attributes:
        where: `module.function`.
        route: the route's name.
        sendable: axes it can carry, in the order of AXES.
        baseline: what it would send by itself; None where the caller says that.
        providers: those it serves; empty = all, or not known before a call.
        has_own_client: it calls a client that serves one provider.
        open_actions: how many actions may be chosen for at least one prompt type.
        all_actions: of how many.
        out: prompt type (`` = every one) → reason → labels.
    """

    where: str
    route: str
    sendable: tuple[str, ...]
    baseline: Action | None
    providers: tuple[str, ...]
    has_own_client: bool
    open_actions: int
    all_actions: int
    out: Mapping[str, Mapping[str, tuple[str, ...]]]


def on_app(equipment: Equipment, app: str) -> Section:
    """Import an app and look at its routed functions; nothing is called and nothing is stored."""
    title = f"Routes of {app}"
    set_default_router(Router(equipment, MemoryStore(WallClock())))
    try:
        module = imported(app)
        found = dict(routed(module))
        reaches = [_reach(equipment, where, carrier) for where, carrier in found.items()]
    except BudgetRouteError as err:
        return failed("routes", title, str(err))
    finally:
        set_default_router(None)
    if not found:
        text = f"{app} has no function under @route; put it above the one that calls the model"
        return Section("routes", title, [Finding("warn", text)])
    return _section(title, equipment, reaches)


def imported(app: str) -> ModuleType:
    """Import a module by name or by file; what it prints goes to stderr.

    Raises:
        ConfigError: it cannot be imported.
    """
    sys.path.insert(0, str(Path.cwd()))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _from_file(Path(app)) if app.endswith(".py") else importlib.import_module(app)
    except BudgetRouteError:
        raise
    except (Exception, SystemExit) as err:  # the user's module may raise anything
        raise ConfigError(
            f"--app {app}: it cannot be imported: {type(err).__name__}: {err}. Name a module that "
            "can be imported from this folder, such as `my_package.answers` or `app.py`."
        ) from err
    finally:
        sys.path.remove(str(Path.cwd()))


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"--app {path}: there is no such file. Name a module or a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def routed(module: ModuleType) -> Iterator[tuple[str, Carrier]]:
    """Yield the routed functions and methods of a module and its submodules, each once."""
    seen: set[int] = set()
    for name in sorted(sys.modules):
        part = sys.modules[name]
        if name != module.__name__ and not name.startswith(f"{module.__name__}."):
            continue
        for where, carrier in _in_namespace(name, vars(part)):
            if id(carrier) not in seen:
                seen.add(id(carrier))
                yield where, carrier


def _in_namespace(above: str, names: Mapping[str, Any]) -> Iterator[tuple[str, Carrier]]:
    for name, value in list(names.items()):
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(plain):
            carrier = vars(plain).get("__budgetroute__")
            if isinstance(carrier, Carrier):
                yield f"{above}.{name}", carrier
        elif inspect.isclass(plain) and f"{plain.__module__}" == above:
            yield from _in_namespace(f"{above}.{name}", vars(plain))


def _reach(equipment: Equipment, where: str, carrier: Carrier) -> Reach:
    router = carrier.options.router
    lane = (equipment if router is None else router.equipment).lane(carrier.route)
    request = lane.completed(_request(carrier))
    kept, out = _by_type(lane, request)
    return Reach(
        where=where,
        route=carrier.route,
        sendable=tuple(axis for axis in AXES if axis in request.sendable),
        baseline=request.baseline,
        providers=tuple(sorted(request.providers or ())),
        has_own_client=request.own_client,
        open_actions=len(kept),
        all_actions=len(lane.table.rows),
        out=out,
    )


def _request(carrier: Carrier) -> Request:
    """Return the request of a call that passes nothing but a prompt."""
    plain = replace(carrier, options=replace(carrier.options, prompt=None))
    shape = carrier.shape
    takes_messages = "messages" in shape.signature.parameters or shape.is_client
    kwargs = {"messages": _ASKED} if takes_messages else {}
    request, _ = plain.request(plain.bind((), kwargs))
    return request


def _by_type(
    lane: Lane, request: Request
) -> tuple[set[str], dict[str, dict[str, tuple[str, ...]]]]:
    """Return the labels that may be chosen, and reasons by type; what holds for all stands once."""
    types = [request.prompt_type] if request.prompt_type else list(lane.table.types)
    reasons = {kind: _reasons(lane, request, kind) for kind in types}
    labels = {row.action.label for row in lane.table.rows}
    kept = {label for label in labels if any(label not in why for why in reasons.values())}
    common = set.intersection(*(set(why.items()) for why in reasons.values()))
    out = {_EVERY: _tally(dict(common))}
    for kind, why in reasons.items():
        if own := _tally(dict(set(why.items()) - common)):
            out[kind] = own
    return kept, out


def _reasons(lane: Lane, request: Request, kind: str) -> Mapping[str, str]:
    try:
        return lane.eligible(request, kind).reasons
    except NoEligibleAction as err:
        return err.reasons


def _tally(reasons: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    tally: dict[str, list[str]] = defaultdict(list)
    for label in sorted(reasons):
        tally[reasons[label]].append(label)
    return {why: tuple(labels) for why, labels in tally.items()}


def _section(title: str, equipment: Equipment, reaches: list[Reach]) -> Section:
    findings = [_finding(reach) for reach in reaches]
    known = {reach.route for reach in reaches}
    findings += [
        Finding("warn", f"[routes.{name}] of the configuration: no function here has this route")
        for name in equipment.config.routes
        if name not in known
    ]
    return Section(
        key="routes",
        title=title,
        findings=findings,
        columns=("function", "route", "baseline", "can send"),
        rows=[
            (reach.where, reach.route, _baseline(reach), ", ".join(reach.sendable))
            for reach in reaches
        ],
        content={"functions": [_json(reach) for reach in reaches]},
    )


def _baseline(reach: Reach) -> str:
    return "what the caller passes" if reach.baseline is None else reach.baseline.label


def _finding(reach: Reach) -> Finding:
    level: Level = "ok" if reach.open_actions > 1 else "warn" if reach.open_actions else "fail"
    serves = f"; providers: {', '.join(reach.providers)}" if reach.providers else ""
    if not reach.providers and reach.baseline is None and reach.has_own_client:
        serves = "; the model that the caller passes decides the provider"
    of = f"{reach.open_actions} of {counted(reach.all_actions, 'action')} may be chosen"
    return Finding(level, "\n".join([f"{reach.where}: {of}{serves}", *_reasons_out(reach)]))


def _reasons_out(reach: Reach) -> Iterator[str]:
    for kind, reasons in reach.out.items():
        for why, labels in reasons.items():
            more = len(labels) - _FEW
            named = ", ".join(labels[:_FEW]) + (f" and {more} more" if more > 0 else "")
            of_type = f" for type {kind}" if kind else ""
            yield f"  {len(labels)} out{of_type}: {why} ({named})"


def _json(reach: Reach) -> dict[str, Any]:
    return {
        "function": reach.where,
        "route": reach.route,
        "sendable": list(reach.sendable),
        "baseline": None if reach.baseline is None else reach.baseline.label,
        "providers": list(reach.providers),
        "actions_open": reach.open_actions,
        "actions_all": reach.all_actions,
        "out": [
            {"type": kind or None, "reason": why, "actions": list(labels)}
            for kind, reasons in reach.out.items()
            for why, labels in reasons.items()
        ],
    }
