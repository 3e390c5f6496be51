"""One route's standing equipment: its table, gates, classifier and the slates made from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError, NoEligibleAction, UnpricedModel
from budgetroute.records import Action, Pins
from budgetroute.router.slate import Slate
from budgetroute.router.table import Row, make_row
from budgetroute.router.words import tally
from budgetroute.terms import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import msgspec

    from budgetroute.classify.chain import Chain
    from budgetroute.config import RouteConfig
    from budgetroute.records import Candidate, Request
    from budgetroute.router.gates import Gates
    from budgetroute.router.slate import Ranking, Sizing
    from budgetroute.router.table import ModelFacts, Table

_SLATES = 512


@dataclass(frozen=True, slots=True)
class Eligible:
    """What gates left for one kind of request."""

    slate: Slate
    reasons: Mapping[str, str]
    gated: msgspec.Raw


class Lane:
    """One route's standing equipment.

    Args:
        name: the route.
        settings: its table in config.
        table: its actions.
        gates: its gates.
        chain: its classifier.
        facts: model → facts, also for models outside the table; raises UnpricedModel.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: RouteConfig,
        table: Table,
        gates: Gates,
        chain: Chain,
        facts: Callable[[str], ModelFacts],
    ) -> None:
        self.name = name
        self.settings = settings
        self.table = table
        self.gates = gates
        self.chain = chain
        self._facts = facts
        self._at_cap = lru_cache(maxsize=64)(table.at_cap)
        self._reaching = lru_cache(maxsize=64)(table.reaching)
        self._says_nothing = not (settings.require or settings.timeout_s) and settings.floor is None
        self._slates: dict[tuple[object, ...], Eligible] = {}
        contexts = [row.facts.card.max_input_tokens for row in table.rows]
        self._shortest_context = min((c for c in contexts if c is not None), default=None)

    def completed(self, request: Request) -> Request:
        """Return the request with what config and the baseline say where it is silent."""
        said = self.settings
        providers = request.providers
        if providers is None and said.providers:
            providers = frozenset(said.providers)
        if providers is None and request.own_client and request.baseline is not None:
            providers = frozenset({self._facts(request.baseline.model).card.provider})
        timeout = request.timeout_s or said.timeout_s
        terms = bounded(request.terms, searches=said.searches, seconds=timeout)
        if providers is request.providers and self._says_nothing:
            return request if terms is request.terms else replace(request, terms=terms)
        return replace(
            request,
            providers=providers,
            floor=said.floor if request.floor is None else request.floor,
            require=request.require | frozenset(said.require),
            timeout_s=timeout,
            terms=bounded(request.terms, searches=said.searches, seconds=timeout),
        )

    def eligible(
        self, request: Request, prompt_type: str, out: tuple[tuple[str, str], ...] = ()
    ) -> Eligible:
        """Return the slate for a request whose heaviest type is given; kept for the next alike.

        Args:
            request: the request.
            prompt_type: its heaviest type.
            out: (model, reason) of models in quarantine; they stay where nothing else is left.

        Raises:
            NoEligibleAction: every action was gated out.
            UnpricedModel: a pinned model has no price.
        """
        key = (*self._key(request, prompt_type), out)
        found = self._slates.get(key)
        if found is None:
            if len(self._slates) >= _SLATES:
                self._slates.clear()
            found = self._slates[key] = self._gate(request, prompt_type, dict(out))
        return found

    def fallback(self, request: Request, sizing: Sizing) -> Ranking | None:
        """Return the baseline, with what the user pinned, as a ranking of one.

        None where the code has no baseline, where it has no price, and where it must not serve the
        request: a model that is denied or lacks a required tag, a pin that cannot be sent.
        """
        if request.baseline is None:
            return None
        action = pinned(request.baseline, request.pins)
        try:
            row = self.row(action)
        except UnpricedModel:
            return None
        if self.gates.forbids(row, request):
            return None
        slate = Slate([row], self.table.types)
        return slate.rank((("general", 1.0),), sizing, price=0.0, floor=None)

    def row(self, action: Action) -> Row:
        """Return the row of any action; cells only where the table knows the model."""
        known = self.table.row_for(action)
        return known or make_row(action, self._facts(action.model), {})

    def usual(
        self, request: Request, sizing: Sizing, weights: Sequence[tuple[str, float]]
    ) -> Candidate:
        """Return the baseline as it is sent without us.

        Raises:
            NoEligibleAction: there is none, or its images cannot be bounded.
            UnpricedModel: it has no price.
        """
        best: tuple[Candidate, ...] = ()
        if request.baseline is not None:
            slate = Slate([self.row(request.baseline)], self.table.types)
            best = slate.rank(weights, sizing, price=0.0, floor=None).best
        if not best:
            raise NoEligibleAction(
                f"route {self.name!r}: what the code does without routing is not known, or its "
                "images cannot be bounded. Give the function a default model and cap."
            )
        return best[0]

    def open_to(self, request: Request) -> Sequence[Row]:
        """Return the rows that requests like this one can have, its own pins and needs aside."""
        plain = replace(request, pins=Pins(), ceiling=None, needs=frozenset())
        left = [row for row in self.table.rows if self.gates.reason(row, plain) is None]
        return left or self.table.rows

    def _comparable(self, request: Request) -> Row | None:
        """Return the row of the baseline, if it has a price and a curve for every type."""
        if request.baseline is None:
            return None
        try:
            row = self.row(request.baseline)
        except UnpricedModel:
            return None
        return row if row.cells.keys() >= self.table.types.keys() else None

    def _key(self, request: Request, prompt_type: str) -> tuple[object, ...]:
        tight = self._shortest_context
        tokens = request.size.tokens if tight is not None and request.size.tokens > tight else 0
        return (
            prompt_type,
            request.baseline,
            request.pins,
            request.ceiling,
            request.sendable,
            request.needs,
            request.providers,
            request.require,
            request.failed,
            tokens,
        )

    def _gate(self, request: Request, prompt_type: str, out: Mapping[str, str]) -> Eligible:
        rows = self._rows(request)
        reasons: dict[str, str] = {}
        kept: list[Row] = []
        for row in rows:
            why = self.gates.reason(row, request) or self.gates.type_reason(
                row, prompt_type, request
            )
            if why is None and row.cells and prompt_type not in row.cells and len(rows) > 1:
                why = f"no curve for type {prompt_type}"
            if why is None:
                kept.append(row)
            else:
                reasons[row.action.label] = why
        if not kept:
            raise _nothing_left(self.name, reasons)
        known = [row for row in kept if row.action.model not in out]
        if known:  # a pin leaves one model, so it is never out
            unknown = [row.action for row in kept if row.action.model in out]
            reasons |= {action.label: out[action.model] for action in unknown}
            kept = known
        slate = Slate(kept, self.table.types, baseline=self._comparable(request))
        return Eligible(slate, reasons, tally(reasons))

    def _rows(self, request: Request) -> Sequence[Row]:
        """Return the table's rows, at the pinned cap if there is one, with a row for a pinned model."""
        cap, model = request.pins.max_tokens, request.pins.model
        rows = self._at_cap(cap) if cap is not None else self._unpinned(request)
        if model is not None and all(row.action.model != model for row in rows):
            return [self.row(self._pinned_action(request, model))]
        return _resampled(rows, request)

    def _unpinned(self, request: Request) -> Sequence[Row]:
        base = request.baseline
        return self.table.rows if base is None else self._reaching(base.max_tokens)

    def _pinned_action(self, request: Request, model: str) -> Action:
        base, pins = request.baseline, request.pins
        cap = pins.max_tokens or (base.max_tokens if base else None) or request.ceiling
        if cap is None:
            raise ConfigError(
                f"route {self.name!r}: model {model!r} is pinned but has no curve and no cap is "
                f"known. Pin a cap too: pin(model={model!r}, max_tokens=512)."
            )
        return pinned(replace(base or Action(model, cap), max_tokens=cap), pins)


def pinned(action: Action, pins: Pins) -> Action:
    """Return an action with the parts that the user fixed."""
    return replace(
        action,
        model=pins.model or action.model,
        max_tokens=pins.max_tokens or action.max_tokens,
        cot=action.cot if pins.cot is None else pins.cot,
        reasoning_effort=pins.reasoning_effort or action.reasoning_effort,
        temperature=action.temperature if pins.temperature is None else pins.temperature,
        n=pins.n or action.n,
    )


def _resampled(rows: Sequence[Row], request: Request) -> Sequence[Row]:
    """Give every row the pinned sampling, or the baseline's where config leaves it open."""
    base, pins = request.baseline, request.pins
    temperature = pins.temperature
    if temperature is None and base is not None:
        temperature = base.temperature
    n = pins.n or (base.n if base else 1)
    if temperature is None and n == 1:
        return rows
    made: dict[Action, Row] = {}
    for row in rows:
        action = row.action
        if pins.temperature is not None or action.temperature is None:
            action = replace(action, temperature=temperature)
        if pins.n is not None or action.n == 1:
            action = replace(action, n=n)
        made.setdefault(action, make_row(action, row.facts, row.cells, curve=row.curve))
    return list(made.values())


def _nothing_left(route: str, reasons: Mapping[str, str]) -> NoEligibleAction:
    tally: dict[str, list[str]] = {}
    for label, why in reasons.items():
        tally.setdefault(why, []).append(label)
    lines = "; ".join(
        f"{why}: {labels[0]}" + (f" and {len(labels) - 1} more" if len(labels) > 1 else "")
        for why, labels in tally.items()
    )
    return NoEligibleAction(
        f"route {route!r}: no action is left of {len(reasons)}. {lines or 'The table is empty'}. "
        "Run `budgetroute doctor` to see what this route may send.",
        reasons,
    )
