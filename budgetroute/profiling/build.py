"""From a table of outcomes to a profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.clock import WallClock
from budgetroute.errors import ProfileError, UnpricedModel
from budgetroute.prices import PriceBook
from budgetroute.profiles import dump_profile, lint_profile, parse_profile
from budgetroute.profiling.answers import Answers, counts_of
from budgetroute.profiling.assembly import Evidence, Heading, assemble
from budgetroute.profiling.tables import Outcomes, implied_tokens, read_outcomes
from budgetroute.units import usd_from_atto

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from budgetroute.profiling.assembly import Rates
    from budgetroute.profiling.columns import Outcome
    from budgetroute.protocols import PriceSource
    from budgetroute.records import Action, Cell, ClassifierRef, Price, Profile, PromptType

SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How a table becomes a profile.

    Attributes:
        name: what the profile is called.
        created: ISO date; None = today (UTC).
        caps: caps to replay from uncapped runs; none = 64, 256, 1024, … up to the longest answer.
        shares: type → its part of the traffic; none = its part of the prompts.
        prune: leave out ways that could not win even if their model were the only one, and caps that
            cut nearly all.
        provenance: sources, licences, graders: whatever a reader should know.
        classifier: the text classifier beside the profile.
    """

    name: str
    created: str | None = None
    caps: tuple[int, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    prune: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)
    classifier: ClassifierRef | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """A profile and what is to be said of it.

    Attributes:
        profile: what was made.
        notes: how its cells came about.
        lint: what is weak in it, one line each.
        unpriced: models without a price; their cells were not shrunk over cost.
    """

    profile: Profile
    notes: tuple[str, ...]
    lint: tuple[str, ...]
    unpriced: tuple[str, ...]


def fit_profile(
    outcomes: Outcomes | str | os.PathLike[str],
    settings: FitSettings | str,
    *,
    rates: Rates | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fitted:
    """Fit a profile to a table of graded calls; blocks on the table and the price map.

    Every mean is pulled towards what task and way effects predict; with too few tasks or ways for
    that, towards a concave fit over log cost (`shrink_cells`). Caps are replayed from longer runs
    where they only cut. Prices weigh costs while fitting; the profile keeps tokens.

    Args:
        outcomes: a table that was read, or its path.
        settings: how, or only the profile's name.
        rates: a model's dollars per input and output token, None where they are not known; left
            out, those of litellm's price map.
        progress: called with (types done, types).

    Raises:
        ProfileError: the table or a setting cannot be used.
    """
    table = outcomes if isinstance(outcomes, Outcomes) else read_outcomes(outcomes)
    said = FitSettings(settings) if isinstance(settings, str) else settings
    rates = rates or token_rates(PriceBook())
    rows = _with_tokens(table, rates)
    answers = Answers(rows, said.caps)
    notes = tuple(answers.notes())
    evidence = Evidence(
        actions=answers.actions(),
        shares=_shares(answers, said.shares),
        inputs=answers.inputs,
        cell=answers.cell,
        parts=answers.parts,
        rates=rates,
        is_pooled=answers.effects is not None,
    )
    heading = Heading(
        said.name,
        said.created or WallClock().now().date().isoformat(),
        classifier=said.classifier,
        provenance=_provenance(said, table, rows, notes=notes),
    )
    made = assemble(evidence, heading, prune=said.prune, progress=progress)
    profile = parse_profile(dump_profile(made), origin=said.name)  # names that no file may have
    return Fitted(
        profile=profile,
        notes=notes,
        lint=tuple(lint_profile(profile, cost_by(rates))),
        unpriced=tuple(sorted({a.model for a in profile.actions if rates(a.model) is None})),
    )


def token_rates(prices: PriceSource) -> Rates:
    """Return a function that gives a model's dollars per input and output token, None if unknown."""

    def rates(model: str) -> tuple[float, float] | None:
        try:
            return rates_of(prices.price(model))
        except UnpricedModel:
            return None

    return rates


def rates_of(price: Price) -> tuple[float, float] | None:
    """Return dollars per input and output token; None for what is paid by time."""
    if price.second is not None:
        return None
    return usd_from_atto(price.rates.input), usd_from_atto(price.rates.output)


def cost_by(rates: Rates) -> Callable[[Action, Cell, PromptType], float | None]:
    """Return a function that gives the expected dollars of (action, cell, type), None if unknown."""

    def cost(action: Action, cell: Cell, kind: PromptType) -> float | None:
        known = rates(action.model)
        if known is None:
            return None
        return kind.input_tokens * cell.input_factor * known[0] + cell.output_mean * known[1]

    return cost


def _with_tokens(table: Outcomes, rates: Rates) -> list[Outcome]:
    """Return the rows, output tokens told from the bill where the provider hides them."""
    rows = [
        implied_tokens(row, *known) if (known := rates(row.way.model)) else row
        for row in table.rows
    ]
    lacking = sorted({row.way.model for row in rows if row.output_tokens is None})
    if lacking:
        raise ProfileError(
            f"outcomes {table.origin}: rows of {', '.join(lacking)} have cost_usd but no "
            "output_tokens; to tell tokens from a bill takes input_tokens and a price per token"
        )
    return rows


def _shares(answers: Answers, said: Mapping[str, float]) -> dict[str, float]:
    total = sum(answers.prompts.values())
    if not said:
        return {kind: count / total for kind, count in answers.prompts.items()}
    if said.keys() != answers.prompts.keys() or abs(sum(said.values()) - 1) > SHARE_TOLERANCE:
        raise ProfileError(
            f"shares {dict(said)}: expected one for each of {', '.join(answers.prompts)}, summing "
            "to 1"
        )
    return dict(said)


def _provenance(
    said: FitSettings, table: Outcomes, rows: Sequence[Outcome], *, notes: Sequence[str]
) -> dict[str, Any]:
    implied = sum(before.output_tokens is None for before in table.rows)
    made: dict[str, Any] = {
        "built_by": "budgetroute profile fit",
        "table": Path(table.origin).name,
        "rows": len(rows),
        "prompts": len({row.prompt for row in rows}),
        "answers": counts_of(rows),
    }
    if implied:
        made["tokens_from_bills"] = implied
    return {**made, **said.provenance, "notes": [*said.provenance.get("notes", ()), *notes]}
