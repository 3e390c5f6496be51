"""An old profile and new outcomes: the next version.

A profile keeps cells, not answers, so that old and new evidence meet as means weighted by their counts.
Whoever still has the old table fits both together instead: that shrinks once, over all there is.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from budgetroute.prices import PriceBook
from budgetroute.profiles import dump_profile
from budgetroute.profiling.build import FitSettings, cost_by, fit_profile, token_rates
from budgetroute.profiling.comparing import Change
from budgetroute.profiling.fit import is_sensitive, monotone_caps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.profiling.assembly import Rates
    from budgetroute.profiling.tables import Outcomes
    from budgetroute.records import Action, Cell, Profile, PromptType

GENERAL = "general"
O200K = "o200k"
DRIFT_ERRORS = 3.0
"""Of a hundred cells that did not change five are two errors off, and a third of one is three."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A profile's next version.

    Attributes:
        profile: it.
        version: its number; a profile that was never updated is 1.
        drifted: cells where the new outcomes differ from the old mean by more than three errors.
        notes: how the new cells came about.
    """

    profile: Profile
    version: int
    drifted: tuple[Change, ...]
    notes: tuple[str, ...]


def version_of(profile: Profile) -> int:
    """Return a profile's version, 1 where it says none."""
    said = profile.provenance.get("version")
    return said if isinstance(said, int) and not isinstance(said, bool) and said > 1 else 1


def update_profile(
    old: Profile,
    outcomes: Outcomes,
    *,
    rates: Rates | None = None,
    anew: bool = False,
    created: str | None = None,
) -> Updated:
    """Return the old profile with what new outcomes say; blocks on the price map.

    A cell that both measured is their mean by counts; what one lacks the other gives. Old actions
    stay; of new ways those come in that can win. Percentiles of lengths take the longer one: caps are
    kept above them. Types keep their proportions; new ones get their part of the answers, and enter
    `general` once every action has a cell there, so that it goes on comparing all on the same types.

    Args:
        old: what there is; it is not changed.
        outcomes: the new table.
        rates: as for `fit_profile`.
        anew: let cells that were measured again forget the old ones.
        created: ISO date; None = today (UTC).

    Raises:
        ProfileError: the table cannot be used.
    """
    rates = rates or token_rates(PriceBook())
    caps = tuple(sorted({action.max_tokens for action in old.actions}))
    settings = FitSettings(old.name, created=created, caps=caps, prune=False)
    fresh = fit_profile(outcomes, settings, rates=rates)
    winning = fit_profile(outcomes, replace(settings, prune=True), rates=rates).profile.actions
    actions = (*old.actions, *_added(old, fresh.profile, winning))
    before, after = _table(old), _table(fresh.profile)
    rows: dict[str, list[Cell | None]] = {}
    for kind in sorted({*before, *after}):
        rows[kind] = _lifted(actions, [
            _merged(before.get(kind, {}).get(action), after.get(kind, {}).get(action), anew=anew)
            for action in actions
        ])  # fmt: skip
    types = _types(old, fresh.profile)
    if GENERAL not in rows:
        parts = [kind for kind in rows if kind in before or None not in rows[kind]]
        shares = [types[kind].share for kind in parts]
        rows[GENERAL] = [
            _mixture([rows[kind][i] for kind in parts], shares) for i in range(len(actions))
        ]
    types = {kind: _judged(types[kind], actions, rows[kind], rates) for kind in rows}
    profile = replace(
        old,
        created=fresh.profile.created,
        types=types,
        actions=actions,
        cells={kind: tuple(row) for kind, row in rows.items()},
        provenance=_provenance(old, outcomes),
    )
    apart = sorted(k for k in after if k not in before and None in rows[k] and k != GENERAL)
    notes = [f"{kind}: no part of general before every action is measured on it" for kind in apart]
    drifted = tuple(_drifted(before, after))
    return Updated(profile, version_of(profile), drifted, (*fresh.notes, *notes))


def _added(old: Profile, fresh: Profile, winning: Sequence[Action]) -> list[Action]:
    """Return the new actions: larger caps of known ways, and of new ways those that can win."""
    largest: dict[Action, int] = {}
    for action in old.actions:
        way = replace(action, max_tokens=1)
        largest[way] = max(largest.get(way, 0), action.max_tokens)
    added = []
    for action in fresh.actions:
        known = largest.get(replace(action, max_tokens=1))
        is_wanted = action in winning if known is None else action.max_tokens > known
        if is_wanted and action not in old.actions:
            added.append(action)
    return added


def _table(profile: Profile) -> dict[str, dict[Action, Cell]]:
    """Return type → action → cell, without the mixture `general`: it is made again."""
    table = {}
    for kind, row in profile.cells.items():
        if kind == GENERAL and profile.types[kind].share <= 0 and len(profile.types) > 1:
            continue
        table[kind] = {a: c for a, c in zip(profile.actions, row, strict=True) if c is not None}
    return table


def _merged(before: Cell | None, after: Cell | None, *, anew: bool) -> Cell | None:
    if after is None or after.source != "measured":
        return after if before is None else before
    if before is None or before.source != "measured" or before.n < 1 or anew:
        return after
    return _mean(before, after)


def _mean(before: Cell, after: Cell) -> Cell:
    """Return the mean of two measured cells by their counts.

    Tokens of two tokenizers have no mean; there the provider's count.
    """
    n = before.n + after.n
    new = after.n / n
    tokens = after
    if before.token_basis == after.token_basis:
        tokens = replace(
            after,
            output_mean=_between(before.output_mean, after.output_mean, new) or 0.0,
            output_p95=_longer(before.output_p95, after.output_p95),
            output_p99=_longer(before.output_p99, after.output_p99),
            cut=_between(before.cut, after.cut, new),
            input_factor=_between(before.input_factor, after.input_factor, new) or 1.0,
        )
    elif after.token_basis == O200K:
        tokens = before
    return replace(
        tokens,
        n=n,
        reward=(1 - new) * before.reward + new * after.reward,
        reward_se=math.hypot((1 - new) * before.reward_se, new * after.reward_se),
        latency_mean=_between(before.latency_mean, after.latency_mean, new),
        latency_p95=_longer(before.latency_p95, after.latency_p95),
    )


def _between(before: float | None, after: float | None, weight: float) -> float | None:
    """Return the weighted mean; where one is unknown, the other."""
    if before is None or after is None:
        return after if before is None else before
    return (1 - weight) * before + weight * after


def _longer(before: float | None, after: float | None) -> float | None:
    known = [value for value in (before, after) if value is not None]
    return max(known, default=None)


def _lifted(actions: Sequence[Action], row: Sequence[Cell | None]) -> list[Cell | None]:
    """Return the row with no larger cap that promises less."""
    known = [i for i, cell in enumerate(row) if cell is not None]
    lifted = monotone_caps([actions[i] for i in known], [cell for cell in row if cell is not None])
    better: list[Cell | None] = list(row)
    for i, cell in zip(known, lifted, strict=True):
        better[i] = cell
    return better


def _mixture(cells: Sequence[Cell | None], shares: Sequence[float]) -> Cell | None:
    """Return one action over all types by share; None where a type lacks it."""
    known = [cell for cell in cells if cell is not None]
    total = math.fsum(shares)
    if len(known) < len(cells) or total <= 0:
        return None
    parts = [share / total for share in shares]
    mixed = known[0]
    seen = parts[0]
    for cell, part in zip(known[1:], parts[1:], strict=True):
        seen += part
        weight = part / seen if seen > 0 else 0.0
        mixed = replace(
            _mean(replace(mixed, n=1), replace(cell, n=1)),
            reward=(1 - weight) * mixed.reward + weight * cell.reward,
            reward_se=math.hypot((1 - weight) * mixed.reward_se, weight * cell.reward_se),
            output_mean=_between(mixed.output_mean, cell.output_mean, weight) or 0.0,
            cut=_between(mixed.cut, cell.cut, weight),
            input_factor=_between(mixed.input_factor, cell.input_factor, weight) or 1.0,
            latency_mean=_between(mixed.latency_mean, cell.latency_mean, weight),
        )
    mostly = math.fsum(p for c, p in zip(known, parts, strict=True) if c.source == "measured")
    is_measured = mostly >= 1 / 2
    count = sum(cell.n for cell in known if cell.source == "measured")
    return replace(
        mixed,
        n=count if is_measured else 0,
        source="measured" if is_measured else "pooled",
        token_basis=max(cell.token_basis for cell in known),
    )


def _types(old: Profile, fresh: Profile) -> dict[str, PromptType]:
    """Return the types: old ones in their proportions, new ones by their part of the answers."""
    sizes = {
        id(p): {k: max((c.n for c in p.cells[k] if c), default=0) for k in p.types}
        for p in (old, fresh)
    }
    was, now = sizes[id(old)], sizes[id(fresh)]
    come = {k: now[k] for k, kind in fresh.types.items() if k not in old.types and kind.share > 0}
    there = sum(was[k] for k, kind in old.types.items() if kind.share > 0)
    part = sum(come.values()) / max(1, there + sum(come.values()))
    types = {}
    for kind, known in old.types.items():
        again = fresh.types.get(kind)
        weight = now.get(kind, 0) / max(1, was[kind] + now.get(kind, 0))
        tokens = again and _between(known.input_tokens, again.input_tokens, weight)
        types[kind] = replace(
            known,
            share=known.share * (1 - part),
            input_tokens=tokens or known.input_tokens,
        )
    for kind, count in come.items():
        share = part * count / max(1, sum(come.values()))
        types[kind] = replace(fresh.types[kind], share=share)
    return types


def _judged(
    kind: PromptType, actions: Sequence[Action], row: Sequence[Cell | None], rates: Rates
) -> PromptType:
    cost = cost_by(rates)
    points = [
        (dollars, cell.reward)
        for action, cell in zip(actions, row, strict=True)
        if cell is not None and (dollars := cost(action, cell, kind)) is not None and dollars > 0
    ]
    return replace(kind, sensitive=is_sensitive(points) if points else kind.sensitive)


def _drifted(
    before: Mapping[str, Mapping[Action, Cell]], after: Mapping[str, Mapping[Action, Cell]]
) -> list[Change]:
    pairs = [
        Change(kind, action, row[action], cell)
        for kind, row in before.items()
        for action, cell in after.get(kind, {}).items()
        if action in row and row[action].source == cell.source == "measured"
    ]
    return [change for change in pairs if abs(change.errors or 0.0) > DRIFT_ERRORS]


def _provenance(old: Profile, outcomes: Outcomes) -> dict[str, Any]:
    text = dump_profile(old).encode()
    step = {
        "from": {"created": old.created, "sha256": hashlib.sha256(text).hexdigest()},
        "rows": len(outcomes.rows),
        "prompts": len({row.prompt for row in outcomes.rows}),
    }
    earlier = old.provenance.get("updates")
    steps = [*earlier, step] if isinstance(earlier, list | tuple) else [step]
    return {**old.provenance, "version": version_of(old) + 1, "updates": steps}
