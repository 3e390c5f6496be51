"""The table of one profile: every action that config allows, with its cells, price and model card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from budgetroute import billing
from budgetroute.billing import search_fees
from budgetroute.curves import interpolate_cap, stretched
from budgetroute.records import Terms
from budgetroute.terms import bounded, joined, terms_asked
from budgetroute.units import is_whole, pico_from_atto, usd_from_atto, usd_from_pico

if TYPE_CHECKING:
    from datetime import datetime

    from budgetroute.records import Action, Cell, InputSize, ModelCard, Price
    from budgetroute.units import Atto, Pico

COT_INSTRUCTION = "Think step by step, then give your final answer on the last line."
"""What an action with cot=True adds to the prompt; English, self-contained, 14 tokens."""

_COT_BOUND = len(COT_INSTRUCTION.encode()) + 8
_OPENAI_RATIO = 1.05  # measured spread of o200k against what OpenAI bills
_NO_TERMS = Terms()
_BORROWED = frozenset({"like", "prior"})  # cells with another engine's latency
_OTHER_RATIO = 1.6  # Claude, Gemini and Llama tokenizers cut finer (facts of tokenizers)
_OLDER = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-4(?:$|-(?!o))|gpt-3|davinci|babbage)")
"""OpenAI's models before o200k."""
_THINKS_BESIDE = frozenset({"dashscope", "qwencloud", "qwen_ai_platform"})
"""Providers whose cap is for the answer alone: hidden reasoning has `thinking_budget`."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is the same for every action of a model.

    Attributes:
        price: what it bills.
        card: provider and capabilities.
        tags: the user's tags on it.
        ratio: billed over counted input tokens, expected.
        image_tokens: tokens that one image counts at most; None = unknown.
    """

    price: Price
    card: ModelCard
    tags: frozenset[str] = frozenset()
    ratio: float = 1.0
    image_tokens: int | None = None

    @property
    def bound_ratio(self) -> float:
        """Return billed over counted input tokens, at most; odd bytes aside."""
        cautious = _OTHER_RATIO if self.is_foreign else _OPENAI_RATIO
        return max(cautious, self.ratio * 1.1 if self.ratio != 1.0 else 0.0)

    @property
    def is_foreign(self) -> bool:
        """Say whether the model's tokenizer is another one than o200k."""
        return self.card.provider not in {"openai", "azure"} or bool(_OLDER.match(self.card.key))

    def beyond_cap(self, action: Action) -> int:
        """Return the output tokens that one choice may have besides those that the cap counts.

        Most providers count hidden reasoning in the cap. Where they do not, its own budget bounds
        it, else the model's longest answer.
        """
        if self.card.provider not in _THINKS_BESIDE or action.reasoning_effort == "none":
            return 0
        asked = dict(action.params)
        inner = asked.get("extra_body")
        asked |= inner if isinstance(inner, Mapping) else {}
        if not self.card.supports.get("reasoning") or asked.get("enable_thinking") is False:
            return 0
        budget = asked.get("thinking_budget")
        if isinstance(budget, int) and is_whole(budget, least=0):
            return budget
        return self.card.max_output_tokens or self.card.max_input_tokens or 0


@dataclass(frozen=True, slots=True)
class Row:
    """One action of the table.

    Attributes:
        action: what would be sent.
        facts: its model's facts.
        cells: prompt type → its cell; types without a curve are absent.
        input_usd: dollars per input token at the standard rate.
        output_usd: dollars per output token of all n choices.
        fee_usd: dollars per request.
        line: worst case per token of input and of output; None where it is no line.
        second_usd: dollars per second of an engine that is paid by time.
        search_usd: dollars of one search, where the model does not search in every call.
        asked: what the action's own parameters may be billed for.
        most_output: output tokens of one call at most, all choices together.
        is_foreign: its tokenizer is another one than prompts are counted with.
        curve: prompt type → cap → cell of all profiled caps of the same choice.
    """

    action: Action
    facts: ModelFacts
    cells: Mapping[str, Cell]
    input_usd: float
    output_usd: float
    fee_usd: float
    line: tuple[Atto, Atto] | None
    second_usd: float = 0.0
    search_usd: float = 0.0
    asked: Terms = _NO_TERMS
    most_output: int = 0
    is_foreign: bool = True
    curve: Mapping[str, Mapping[int, Cell]] = field(default_factory=dict)

    def stretched(self, name: str, log_factor: float) -> Cell | None:
        """Return a type's cell for answers exp(log_factor) times as long; None = no curve."""
        cell = self.cells.get(name)
        if cell is None or not log_factor:
            return cell
        return stretched(self.curve.get(name) or {}, self.action.max_tokens, log_factor) or cell

    def part(self, name: str) -> float:
        """Return the part of a type's reward without a cap that the action's cap leaves."""
        cell, curve = self.cells.get(name), self.curve.get(name)
        if cell is None or not curve:
            return 1.0
        whole = curve[max(curve)].reward
        return min(1.0, cell.reward / whole) if whole > 0 else 1.0

    @property
    def is_plain(self) -> bool:
        """Say whether the expected cost is a line in the tokens: no context tiers, hours or time."""
        price = self.facts.price
        return not (price.tiers or price.off_peak or self.second_usd)

    def cost(
        self,
        *,
        input_tokens: float,
        output_tokens: float,
        seconds: float = 0.0,
        at: datetime | None = None,
    ) -> float:
        """Return expected dollars for one request, of so many seconds and that ends at `at`."""
        if not self.is_plain:
            return billing.expected_usd(
                self.facts.price,
                input_tokens=input_tokens,
                output_tokens=output_tokens * self.action.n,
                seconds=seconds,
                at=at,
            )
        return input_tokens * self.input_usd + output_tokens * self.output_usd + self.fee_usd

    def seconds(self, cell: Cell) -> float | None:
        """Return the engine time to expect by a cell; None where nothing says it.

        The profile's latency, if it was measured on this model; else what the price says that the
        engine makes. Always 0 where time costs nothing.
        """
        if not self.second_usd:
            return 0.0
        if cell.latency_mean is not None and cell.source not in _BORROWED:
            return cell.latency_mean
        speed = self.facts.price.tokens_per_second
        return None if speed is None else cell.output_mean * self.action.n / speed

    def worst(
        self,
        size: InputSize,
        *,
        overhead: int,
        calls: int,
        terms: Terms = _NO_TERMS,
        beyond: int = 0,
    ) -> Pico | None:
        """Return the most the call can cost; None when its images or its time cannot be bounded.

        Args:
            size: the measured prompt.
            overhead: tokens that the function adds, at most.
            calls: attempts that one reservation covers.
            terms: what else may be billed; a service tier that nobody asked for is not held.
            beyond: output tokens that a response may have above its cap.
        """
        bound = billing.input_bound(
            size,
            ratio=self.facts.bound_ratio,
            overhead=overhead + (_COT_BOUND if self.action.cot else 0),
            image_tokens=self.facts.image_tokens,
            foreign=self.is_foreign,
        )
        if bound is None:
            return None
        price = self.facts.price
        output = self.most_output + beyond
        if self.asked is not _NO_TERMS:
            terms = bounded(joined(terms, self.asked), seconds=terms.seconds)
        if price.second is not None and terms.seconds is None:
            return None
        if self.line is None or size.images or size.audio or not _is_text(terms):
            return billing.worst_case(
                price,
                input_bound=bound,
                cap=output,
                calls=calls,
                terms=replace(terms, audio=size.audio, images=size.images > 0),
            )
        per_input, per_output = self.line
        dearest = bound * per_input + output * per_output
        return calls * (pico_from_atto(dearest) + price.request_fee)


def make_row(
    action: Action,
    facts: ModelFacts,
    cells: Mapping[str, Cell],
    *,
    curve: Mapping[str, Mapping[int, Cell]] | None = None,
) -> Row:
    """Return the row of an action, its rates converted once; `curve` has its other caps."""
    rates, fees = facts.price.rates, facts.price.fees
    always = search_fees(fees)
    return Row(
        action=action,
        facts=facts,
        cells=cells,
        input_usd=usd_from_atto(rates.input),
        output_usd=usd_from_atto(rates.output) * action.n,
        fee_usd=usd_from_pico(facts.price.request_fee + always),
        line=billing.worst_line(facts.price),
        second_usd=usd_from_atto(facts.price.second or 0),
        search_usd=usd_from_pico(search_fees(fees, searches=1) - always),
        asked=terms_asked(dict(action.params)) if action.params else _NO_TERMS,
        most_output=(action.max_tokens + facts.beyond_cap(action)) * action.n,
        is_foreign=facts.is_foreign,
        curve=curve or {},
    )


def _is_text(terms: Terms) -> bool:
    return not (terms.services or terms.searches or terms.map_queries)


@dataclass(frozen=True, slots=True)
class Family:
    """All profiled caps of one (model, cot, effort) choice.

    Attributes:
        by_type: prompt type → cap → cell.
    """

    by_type: Mapping[str, Mapping[int, Cell]]

    def at(self, cap: int) -> dict[str, Cell]:
        """Return the cells at a cap, interpolated between profiled ones; unknown types are absent."""
        found = {name: interpolate_cap(cells, cap) for name, cells in self.by_type.items()}
        return {name: cell for name, cell in found.items() if cell is not None}


@dataclass(frozen=True, slots=True)
class Prior:
    """What stands behind the curves of a model that the profile does not know.

    Attributes:
        nearest: the profile's models nearest in price, as advice for `like`.
        caps_open: config names no caps, so a baseline's larger cap may be taken.
    """

    nearest: tuple[str, ...]
    caps_open: bool


@dataclass(frozen=True)
class Table:
    """Every action that config allows.

    Attributes:
        rows: in the order of config, then cap.
        families: (model, cot, effort) → its caps, for pinned caps in between.
        facts: model → facts, for pinned and baseline models of the table.
        types: the profile's prompt types with the user's weights on them.
        mean_input: prompt type → mean input tokens, for planning.
        share: prompt type → share of traffic.
        priors: models on a price-tier prior.
    """

    rows: tuple[Row, ...]
    families: Mapping[tuple[str, bool, str | None], Family]
    facts: Mapping[str, ModelFacts]
    types: Mapping[str, float]
    mean_input: Mapping[str, float]
    share: Mapping[str, float]
    priors: Mapping[str, Prior] = field(default_factory=dict)

    def row_for(self, action: Action) -> Row | None:
        """Return a row for an action of a known model that config does not list, None if unknown."""
        facts = self.facts.get(action.model)
        if facts is None:
            return None
        family = self.families.get((action.model, action.cot, action.reasoning_effort))
        cells = family.at(action.max_tokens) if family else {}
        return make_row(action, facts, cells, curve=family.by_type if family else None)

    def at_cap(self, cap: int) -> tuple[Row, ...]:
        """Return the rows with every cap replaced by this one, each choice once."""
        made: dict[Action, Row] = {}
        for row in self.rows:
            action = replace(row.action, max_tokens=cap)
            if action not in made and (fresh := self.row_for(action)) is not None:
                made[action] = fresh
        return tuple(made.values())

    def reaching(self, cap: int) -> tuple[Row, ...]:
        """Return the rows and, at this cap, those of priors whose caps config leaves open.

        A prior is no candidate below the baseline's cap; so that it can be one where that cap is
        larger than any profiled one, the largest counts there too.
        """
        tops: dict[Action, int] = {}
        for row in self.rows:
            prior = self.priors.get(row.action.model)
            if prior is not None and prior.caps_open:
                kind = replace(row.action, max_tokens=1)
                tops[kind] = max(tops.get(kind, 0), row.action.max_tokens)
        wanted = [replace(kind, max_tokens=cap) for kind, top in tops.items() if top < cap]
        return (*self.rows, *[made for a in wanted if (made := self.row_for(a)) is not None])
