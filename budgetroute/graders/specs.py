"""Graders by name: `exact`, `numeric:1e-3`, `judge:MODEL`, or the same as JSON.

{"kind": "judge", "model": "gpt-4o-mini", "rubric": "Is it polite?"}
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from budgetroute.errors import ConfigError
from budgetroute.graders.judge import PairwiseJudge, RubricJudge, check_tokens
from budgetroute.graders.overlap import BertScore, RougeL
from budgetroute.graders.panel import Panel
from budgetroute.graders.plain import CallableScorer, Choice, Contains, Exact, Numeric, Regex
from budgetroute.graders.programs import CodeTests
from budgetroute.graders.sandbox import Limits
from budgetroute.graders.structured import JsonSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budgetroute.graders.judge import Bench
    from budgetroute.graders.panel import Scorer
    from budgetroute.protocols import Verifier

__all__ = ["KINDS", "GraderSpec", "build_grader", "grader_spec"]

_JUDGED = ("model", "rubric", "max_tokens", "price_as")
KINDS: dict[str, tuple[str, ...]] = {
    "exact": (),
    "numeric": ("tolerance",),
    "choice": ("labels",),
    "regex": ("pattern",),
    "contains": ("which",),
    "json-schema": ("path", "schema"),
    "rouge-l": (),
    "bertscore": ("model",),
    "code": ("wall_s", "memory_mb"),
    "judge": _JUDGED,
    "pairwise": _JUDGED,
    "python": ("function",),
}
"""Kind → its options; what follows the colon of a short form is the first."""


@dataclass(frozen=True, slots=True)
class GraderSpec:
    """Which grader, and its options; JSON throughout.

    Attributes:
        kind: one of `KINDS`.
        options: option → value; what is left out has its default.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what `grader_spec` reads back to an equal spec."""
        return {"kind": self.kind, **self.options}


@dataclass(frozen=True, slots=True)
class _World:
    bench: Bench | None
    allow_code: bool


def grader_spec(given: str | Mapping[str, Any]) -> GraderSpec:
    """Read a grader's short form, a JSON object as text, or a mapping.

    Raises:
        ConfigError: an unknown kind or option.

    >>> grader_spec("numeric:1e-3")
    GraderSpec(kind='numeric', options={'tolerance': '1e-3'})
    >>> grader_spec({"kind": "choice", "labels": "ABCD"}).as_json()
    {'kind': 'choice', 'labels': 'ABCD'}
    """
    mapping = _from_text(given) if isinstance(given, str) else dict(given)
    kind = mapping.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"grader {kind!r} is not known; {_near(str(kind), tuple(KINDS))}")
    for name in mapping:
        if name not in KINDS[kind]:
            raise ConfigError(
                f"grader {kind!r} has no option {name!r}; {_near(str(name), KINDS[kind])}"
            )
    return GraderSpec(kind, mapping)


def build_grader(
    spec: GraderSpec | str | Mapping[str, Any],
    *,
    bench: Bench | None = None,
    allow_code: bool = False,
    verifier: Verifier | None = None,
) -> Panel:
    """Return the grader of a spec.

    Args:
        spec: a spec, or what `grader_spec` reads.
        bench: what a judge needs; None = judges are refused.
        allow_code: whether `code` may run what models wrote. No configuration can say so.
        verifier: who picks one of several responses; None = majority, where answers can be counted.

    Raises:
        ConfigError: an option that cannot be used, a judge without bench, code that is not allowed.
        UnpricedModel: a judge without a price.
    """
    spec = spec if isinstance(spec, GraderSpec) else grader_spec(spec)
    return Panel(_BUILD[spec.kind](spec.options, _World(bench, allow_code)), verifier=verifier)


def _from_text(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            read = json.loads(text)
        except ValueError as err:
            raise ConfigError(
                f"grader: {text[:80]!r} starts like JSON and is none: {err}."
            ) from err
        return dict(read)
    kind, colon, argument = text.strip().partition(":")
    if not colon:
        return {"kind": kind}
    options = KINDS.get(kind, ("?",))
    if not options:
        raise ConfigError(
            f"grader {kind!r} takes nothing after a colon, found {argument!r}; write {kind}."
        )
    if not argument:
        raise ConfigError(
            f"grader {text!r}: {options[0]} is missing after the colon; write {kind}:… or {kind}."
        )
    return {"kind": kind, options[0]: argument}


def _near(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known) or 'none'}."


# one builder per kind


def _numeric(options: Mapping[str, Any], _: _World) -> Scorer:
    return Numeric(_number("numeric", "tolerance", options["tolerance"])) if options else Numeric()


def _choice(options: Mapping[str, Any], _: _World) -> Scorer:
    return Choice(_text("choice", "labels", options["labels"]).upper()) if options else Choice()


def _regex(options: Mapping[str, Any], _: _World) -> Scorer:
    return Regex(_text("regex", "pattern", options["pattern"])) if options else Regex()


def _contains(options: Mapping[str, Any], _: _World) -> Scorer:
    which = options.get("which", "any")
    if which not in {"any", "all"}:
        raise ConfigError(f"contains: write contains:any or contains:all, found {which!r}.")
    return Contains(all=which == "all")


def _json_schema(options: Mapping[str, Any], _: _World) -> Scorer:
    if "path" not in options:
        return JsonSchema(options.get("schema"))
    if "schema" in options:
        raise ConfigError("json-schema: give path or schema, not both.")
    path = Path(_text("json-schema", "path", options["path"]))
    try:
        return JsonSchema(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as err:
        raise ConfigError(f"json-schema: {str(path)!r} cannot be read as JSON: {err}.") from err


def _bertscore(options: Mapping[str, Any], _: _World) -> Scorer:
    return BertScore(_text("bertscore", "model", options["model"])) if options else BertScore()


def _code(options: Mapping[str, Any], world: _World) -> Scorer:
    usual = Limits()
    wall_s = _number("code", "wall_s", options.get("wall_s", usual.wall_s))
    memory = (
        int(_number("code", "memory_mb", options.get("memory_mb", usual.memory_bytes >> 20))) << 20
    )
    if not (0 < wall_s <= 3600 and memory >= 64 << 20):  # noqa: PLR2004 - an hour; an interpreter takes 40 MB
        raise ConfigError("code: wall_s must lie above 0 and at most 3600, memory_mb at least 64.")
    limits = Limits(wall_s=wall_s, cpu_s=int(wall_s) + 1, memory_bytes=memory)
    return CodeTests(allow_code=world.allow_code, limits=limits)


def _judge(options: Mapping[str, Any], world: _World) -> Scorer:
    return RubricJudge(**_judged("judge", options), bench=_bench("judge", world))


def _pairwise(options: Mapping[str, Any], world: _World) -> Scorer:
    return PairwiseJudge(**_judged("pairwise", options), bench=_bench("pairwise", world))


def _python(options: Mapping[str, Any], _: _World) -> Scorer:
    named = _text("python", "function", options.get("function"))
    module, colon, name = named.rpartition(":")
    if not colon or not module or not name:
        raise ConfigError(f"python: write python:package.module:function, found {named!r}.")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as err:
        raise ConfigError(f"python: {named!r} cannot be imported: {err}.") from err
    if not callable(function):
        raise ConfigError(f"python: {named!r} is {type(function).__name__}, not a function.")
    return CallableScorer(function)


_Builder: TypeAlias = "Callable[[Mapping[str, Any], _World], Scorer]"
_BUILD: dict[str, _Builder] = {
    "exact": lambda *_: Exact(),
    "numeric": _numeric,
    "choice": _choice,
    "regex": _regex,
    "contains": _contains,
    "json-schema": _json_schema,
    "rouge-l": lambda *_: RougeL(),
    "bertscore": _bertscore,
    "code": _code,
    "judge": _judge,
    "pairwise": _pairwise,
    "python": _python,
}


def _bench(kind: str, world: _World) -> Bench:
    if world.bench is None:
        raise ConfigError(
            f"grader {kind!r} calls a model, and none can be called here: give it a backend and prices (bench=)."
        )
    return world.bench


def _judged(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if "model" not in options:
        raise ConfigError(f"grader {kind!r} names no model; write {kind}:gpt-4o-mini.")
    texts = {
        name: _text(kind, name, options[name])
        for name in ("model", "rubric", "price_as")
        if name in options
    }
    caps = {"max_tokens": check_tokens(options["max_tokens"])} if "max_tokens" in options else {}
    return {**texts, **caps}


def _text(kind: str, name: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise ConfigError(f"{kind}: {name} must be a text that is not empty, found {value!r}.")


def _number(kind: str, name: str, value: object) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ConfigError(
        f"{kind}: {name} must be a number, found {value!r}; write {kind}:1e-3 for example."
    )
