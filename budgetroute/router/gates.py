"""Gates: which actions are candidates for a request, and why the others are not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from budgetroute.records import AXES, Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from budgetroute.records import Axis, Request
    from budgetroute.router.table import Row

_CUT_ALLOWED = (
    0.01  # tools, schemas and reasoning break when cut: the cap must hold 99 % of answers
)
_FRAGILE_NEEDS = frozenset({"tools", "response_schema"})


class Gates:
    """What config says about which models may serve a route.

    Args:
        allow: models allowed; empty = all.
        deny: models refused.
        unknown_capability: `allow` or `deny` a model whose capability the price map does not know.
        by_type: prompt type → (models, caps, cot) it is restricted to; None = free.
    """

    def __init__(
        self,
        *,
        allow: frozenset[str] = frozenset(),
        deny: frozenset[str] = frozenset(),
        unknown_capability: str = "allow",
        by_type: Mapping[str, TypeGate] | None = None,
    ) -> None:
        self.allow = allow
        self.deny = deny
        self.unknown_capability = unknown_capability
        self.by_type = dict(by_type or {})

    def reason(self, row: Row, request: Request) -> str | None:
        """Return why this row cannot serve the request, None if it can; prompt type aside."""
        checks: tuple[Callable[[Row, Request], str | None], ...] = (
            self._model_allowed,
            _failed,
            _pinned,
            _provider,
            _tagged,
            self._capable,
            _sendable,
            _under_ceiling,
            _context,
            _samples,
        )
        for check in checks:
            if (why := check(row, request)) is not None:
                return why
        return None

    def forbids(self, row: Row, request: Request) -> str | None:
        """Return why a model must not serve this request, not even as a fallback."""
        return (
            self._model_allowed(row, request)
            or _failed(row, request)
            or _tagged(row, request)
            or _sendable(row, request)
        )

    def type_reason(self, row: Row, prompt_type: str, request: Request) -> str | None:
        """Return why this row cannot serve a prompt of this type, None if it can."""
        gate = self.by_type.get(prompt_type)
        if gate is not None and (why := gate.reason(row.action)) is not None:
            return f"[types.{prompt_type}] allows {why}"
        return _fragile(row, prompt_type, request) or _unproven(row, prompt_type, request)

    def _model_allowed(self, row: Row, _request: Request) -> str | None:
        model = row.action.model
        if model in self.deny:
            return "denied for this route"
        return "not in this route's allow list" if self.allow and model not in self.allow else None

    def _capable(self, row: Row, request: Request) -> str | None:
        for need in sorted(request.needs):
            has = row.facts.card.supports.get(need)
            if has is False:
                return f"cannot do {need}"
            if has is None and self.unknown_capability == "deny":
                return f"not known to do {need}"
        return None


class TypeGate:
    """The action set of one prompt type.

    Args:
        models: models allowed; empty = all.
        max_tokens: caps allowed; empty = all.
        cot: values allowed; empty = all.
    """

    def __init__(
        self,
        *,
        models: Iterable[str] = (),
        max_tokens: Iterable[int] = (),
        cot: Iterable[bool] = (),
    ) -> None:
        self.models = frozenset(models)
        self.max_tokens = frozenset(max_tokens)
        self.cot = frozenset(cot)

    def reason(self, action: Action) -> str | None:
        """Return what the type allows instead of this action, None if it is allowed."""
        if self.models and action.model not in self.models:
            return f"models {sorted(self.models)}"
        if self.max_tokens and action.max_tokens not in self.max_tokens:
            return f"max_tokens {sorted(self.max_tokens)}"
        if self.cot and action.cot not in self.cot:
            return f"cot {sorted(self.cot)}"
        return None


def _failed(row: Row, request: Request) -> str | None:
    card = row.facts.card
    for failure in request.failed:
        if failure.model == row.action.model:
            return f"failed in this call: {failure.why}"
        if failure.provider == card.provider:
            return f"its provider failed in this call: {failure.why}"
        if (card.max_input_tokens or math.inf) <= (failure.context or 0):
            return f"takes no more input than {failure.model}, which failed in this call"
    return None


def _pinned(row: Row, request: Request) -> str | None:
    pins = request.pins
    for axis in ("model", "max_tokens", "cot", "reasoning_effort", "temperature", "n"):
        wanted = getattr(pins, axis)
        if wanted is not None and getattr(row.action, axis) != wanted:
            return f"{axis} is pinned to {wanted}"
    return None


def _provider(row: Row, request: Request) -> str | None:
    provider = row.facts.card.provider
    if request.providers is None or provider in request.providers:
        return None
    if request.pins.model == row.action.model:
        return None
    return f"provider {provider} is not one this function serves ({', '.join(sorted(request.providers))})"


def _tagged(row: Row, request: Request) -> str | None:
    missing = request.require - row.facts.tags
    return f"lacks required tag {', '.join(sorted(missing))}" if missing else None


def _sendable(row: Row, request: Request) -> str | None:
    axis = unsendable_axis(row.action, request)
    return None if axis is None else f"this function has no parameter that carries {axis}"


def unsendable_axis(action: Action, request: Request) -> Axis | None:
    """Return the first axis in which the action differs from the baseline without a way to send it.

    Code without a baseline sends nothing but what it is told to.
    """
    base = request.baseline or Action(action.model, action.max_tokens)
    for axis in AXES:
        if axis not in request.sendable and getattr(action, axis) != getattr(base, axis):
            return axis
    return None


def _under_ceiling(row: Row, request: Request) -> str | None:
    if request.ceiling is None or row.action.max_tokens <= request.ceiling:
        return None
    return f"cap above the caller's max_tokens {request.ceiling}"


def _context(row: Row, request: Request) -> str | None:
    card, cap = row.facts.card, row.action.max_tokens
    if card.max_output_tokens is not None and cap > card.max_output_tokens:
        return f"cap above the model's {card.max_output_tokens} output tokens"
    if card.max_input_tokens is not None and request.size.tokens > card.max_input_tokens:
        return f"prompt exceeds the model's {card.max_input_tokens} input tokens"
    return None


def _samples(row: Row, _request: Request) -> str | None:
    card, temperature = row.facts.card, row.action.temperature
    if temperature in {None, 1.0} or card.provider not in {"openai", "azure"}:
        return None
    return (
        f"takes no temperature but 1, not {temperature:g}"
        if card.supports.get("reasoning")
        else None
    )


def _fragile(row: Row, prompt_type: str, request: Request) -> str | None:
    if not (request.needs & _FRAGILE_NEEDS or row.action.reasoning_effort not in {None, "none"}):
        return None
    if request.pins.max_tokens is not None:
        return None
    cell = row.cells.get(prompt_type)
    if cell is None or cell.cut is None or cell.cut <= _CUT_ALLOWED:
        return None
    return f"would cut {cell.cut:.0%} of answers, which breaks tools, schemas and reasoning"


def _unproven(row: Row, prompt_type: str, request: Request) -> str | None:
    cell, base = row.cells.get(prompt_type), request.baseline
    if cell is None or cell.source != "prior" or base is None:
        return None
    if request.pins.max_tokens is not None or row.action.max_tokens >= base.max_tokens:
        return None
    return f"its curve is a price-tier prior, and its cap is below the baseline's {base.max_tokens}"
