"""What a price-tier prior is worth: each model of the shipped profile is left out and inferred.

    python benchmarks/coldstart.py [--quick] [--json]

The profile without one model, and a configuration that names it, go through the router's own
tables; its prior is compared with the cells that were left out. Three things to know when reading:

- Most cells of `broad` are pooled: predicted from one ability per model, so its models are smoother
  than real ones. The rows of graded cells use only what was measured, which is little.
- Its models are of 2023 to 2025. A newer one is mostly better than its price says here.
- Errors are of priors as they are used, one standard deviation down: their bias is meant.

Regret is in points of reward per call (100 = a right instead of a wrong answer), a mean over six
types and over shadow prices from "take the best" to "take the cheapest": the best R − λC with every
curve known, minus R − λC, by true cells, of what is chosen when one model's curve is not known.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import Figure, at_least, at_most, exactly, median_us, options, report, say

from budgetroute.config import load_config
from budgetroute.prices import PriceBook
from budgetroute.profiles import load_profile
from budgetroute.router.tables import build_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from budgetroute.records import Action, Cell, Profile
    from budgetroute.router.table import Table

LEAST_CAP = 256  # below it most answers are cut: rewards near 0 would flatter the prior
LAMBDAS = tuple(10 ** (step / 4) for step in range(17))
BOOK = PriceBook()
WHOLE = load_profile("broad")


@dataclass(frozen=True)
class Left:
    """A model left out, and the tables with its prior, with its nearest's curves, and with its own."""

    model: str
    prior: Table
    like: Table
    true: Table


@dataclass(frozen=True)
class Pair:
    """A prior's cell, the cell it stands for, and the best reward that the others reach."""

    model: str
    kind: str
    guessed: Cell
    true: Cell
    best: float

    @property
    def points(self) -> float:
        """The prior's error in points of reward."""
        return 100 * (self.guessed.reward - self.true.reward)

    @property
    def tokens(self) -> float:
        """The log of guessed over true output tokens."""
        return math.log(self.guessed.output_mean / self.true.output_mean)


def models_of(profile: Profile) -> list[str]:
    return list(dict.fromkeys(action.model for action in profile.actions))


def without(profile: Profile, model: str) -> Profile:
    """Return the profile as if a model had never been measured."""
    kept = [i for i, action in enumerate(profile.actions) if action.model != model]
    return replace(
        profile,
        actions=tuple(profile.actions[i] for i in kept),
        cells={name: tuple(row[i] for i in kept) for name, row in profile.cells.items()},
    )


def table_of(profile: Profile, models: Iterable[str], **like: str) -> Table:
    """Return the router's table; `like` says which model borrows whose curves.

    A model that thinks in the whole profile is asked to, for many think only when asked.
    """
    efforts = {
        name: {a.reasoning_effort for a in WHOLE.actions if a.model == name and a.reasoning_effort}
        for name in models
    }
    named: dict[str, dict[str, object]] = {
        name: {"like": like[name]}
        if name in like
        else {"reasoning_effort": sorted(efforts[name])}
        if efforts[name]
        else {"enabled": True}
        for name in models
    }
    flat = {f"models.{_quoted(m)}.{k}": v for m, keys in named.items() for k, v in keys.items()}
    overrides = {"name": "coldstart", "budget.daily_usd": 1.0, **flat}
    return build_table(profile, load_config(env={}, overrides=overrides), BOOK)


def _quoted(name: str) -> str:
    return f'"{name}"'


def left_out(profile: Profile, model: str) -> Left:
    models, rest = models_of(profile), without(profile, model)
    prior = table_of(rest, models)
    return Left(
        model,
        prior=prior,
        like=table_of(rest, models, **{model: prior.priors[model].nearest[0]}),
        true=table_of(profile, models),
    )


def pairs(left: Left) -> list[Pair]:
    """Return every cell of the prior that has a true one, tiny caps aside."""
    found = []
    for row in left.prior.rows:
        known = left.true.row_for(row.action)
        if row.action.model != left.model or known is None or row.action.max_tokens < LEAST_CAP:
            continue
        for kind, guessed in row.cells.items():
            if left.true.share[kind] > 0 and kind in known.cells:
                best = max(
                    peer.cells[kind].reward
                    for peer in left.true.rows
                    if peer.action.model != left.model and kind in peer.cells
                )
                found.append(Pair(left.model, kind, guessed, known.cells[kind], best))
    return found


def thought(left: Left) -> list[Figure]:
    """Return the errors of a reasoning model inferred from written chains of thought alone."""
    true = next(row for row in left.true.rows if row.action.model == left.model)
    rows = [row for row in left.prior.rows if row.action.model == left.model]
    largest = max(rows, key=lambda row: row.action.max_tokens)
    found = [
        Pair(left.model, kind, cell, true.cells[kind], 1.0)
        for kind, cell in largest.cells.items()
        if left.true.share[kind] > 0
    ]
    tokens = statistics.fmean(pair.tokens for pair in found)
    name = f"{left.model} from cot cells"
    return [
        Figure(f"{name}: reward", rms(pair.points for pair in found), "points rms"),
        Figure(f"{name}: its bias", statistics.fmean(pair.points for pair in found), "points"),
        at_least(f"{name}: tokens over true", math.exp(tokens), "times", 1),
    ]


def valued(table: Table, kind: str) -> dict[Action, tuple[float, float]]:
    """Return action → (R, C) at the type's mean input."""
    return {
        row.action: (
            cell.reward,
            row.cost(
                input_tokens=table.mean_input[kind] * row.facts.ratio * cell.input_factor,
                output_tokens=cell.output_mean,
            ),
        )
        for row in table.rows
        if (cell := row.cells.get(kind)) is not None
    }


def regrets(left: Left, seen: Table | None, lambdas: Sequence[float]) -> list[float]:
    """Return points lost by (type, λ) when choosing by what a table says; None = without the model."""
    lost = []
    for kind in sorted(name for name, share in left.true.share.items() if share > 0):
        real = valued(left.true, kind)
        said = valued(seen or left.true, kind)
        open_to = [a for a in said if a in real and (seen or a.model != left.model)]
        for price in lambdas:
            pick = max(open_to, key=lambda action: worth(said[action], price))
            top = max(worth(pair, price) for pair in real.values())
            lost.append(100 * (top - worth(real[pick], price)))
    return lost


def worth(pair: tuple[float, float], price: float) -> float:
    return pair[0] - price * pair[1]


def rms(values: Iterable[float]) -> float:
    return math.sqrt(statistics.fmean(value * value for value in values))


def errors(found: Sequence[Pair]) -> list[Figure]:
    """Return the errors of rewards by type, and of tokens."""
    graded = [pair for pair in found if pair.true.source == "measured"]
    kinds = sorted({pair.kind for pair in found})
    off = sorted(abs(pair.tokens) for pair in found)
    return [
        *(
            Figure(f"reward, {kind}", rms(p.points for p in found if p.kind == kind), "points rms")
            for kind in kinds
        ),
        Figure("reward, all types", rms(pair.points for pair in found), "points rms"),
        Figure("  its bias", statistics.fmean(pair.points for pair in found), "points"),
        Figure("  spread about it", statistics.pstdev(pair.points for pair in found), "points"),
        Figure(f"reward, {len(graded)} graded", rms(pair.points for pair in graded), "points rms"),
        Figure("  its bias", statistics.fmean(pair.points for pair in graded), "points"),
        Figure("tokens, half within", 100 * math.expm1(statistics.median(off)), "%"),
        Figure("tokens, 9 in 10 within", 100 * math.expm1(off[len(off) * 9 // 10]), "%"),
        exactly(
            "cells at or above the type's best",
            sum(pair.guessed.reward >= pair.best for pair in found),
            "cells",
            0,
        ),
    ]


def losses(all_left: Sequence[Left], lambdas: Sequence[float]) -> list[Figure]:
    """Return the regret of routing with one model on a prior, and of the alternatives."""
    prior = {left.model: regrets(left, left.prior, lambdas) for left in all_left}
    bare = {left.model: regrets(left, None, lambdas) for left in all_left}
    like = {left.model: regrets(left, left.like, lambdas) for left in all_left}
    harm = [p - b for name in prior for p, b in zip(prior[name], bare[name], strict=True)]
    figures = [
        Figure(f"regret, {name} on a prior", statistics.fmean(lost), "points")
        for name, lost in prior.items()
    ]
    return [
        *figures,
        at_most("regret, mean, on a prior", mean(prior), "points", mean(bare)),
        Figure("regret, mean, without the model", mean(bare), "points"),
        Figure("regret, mean, like the nearest in price", mean(like), "points"),
        at_most(
            "lost by a prior against no model, mean",
            statistics.fmean(max(0.0, loss) for loss in harm),
            "points",
            0.1,
        ),
        Figure("lost by a prior against no model, most", max(0.0, *harm), "points"),
    ]


def mean(by_model: dict[str, list[float]]) -> float:
    return statistics.fmean(lost for each in by_model.values() for lost in each)


def main() -> None:
    said = options(__doc__.partition("\n")[0])
    profile = WHOLE
    cells = [cell for row in profile.cells.values() for cell in row if cell is not None]
    pooled = sum(cell.source != "measured" for cell in cells) / len(cells)
    say(f"{pooled:.0%} of the profile's cells are pooled: its models are smoother than real ones")
    lefts = [left_out(profile, model) for model in models_of(profile)]
    thinkers = {a.model for a in profile.actions if a.reasoning_effort is not None}
    plain = [left for left in lefts if left.model not in thinkers]
    found = [pair for left in plain for pair in pairs(left)]
    lone = without(profile, plain[0].model)
    took = median_us(lambda: table_of(lone, models_of(profile)), times=5 if said.quick else 30)
    usual = median_us(lambda: table_of(profile, models_of(profile)), times=5 if said.quick else 30)
    report(
        [
            *errors(found),
            *[figure for left in lefts if left not in plain for figure in thought(left)],
            *losses(plain, LAMBDAS[::4] if said.quick else LAMBDAS),
            at_most("time that one prior adds to a start", (took - usual) / 1000, "ms", 50),
        ],
        as_json=said.json,
    )


if __name__ == "__main__":
    main()
