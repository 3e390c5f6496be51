"""From prompts' texts beside a table of outcomes to the classifier that a profile is served with.

The texts are read, used and dropped: of them the file keeps numbers, and the tokens and pairs of
tokens that several prompts share.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute import files
from budgetroute.classify.linear import LinearClassifier
from budgetroute.classify.train import evaluate, save_npz, train
from budgetroute.errors import ProfileError
from budgetroute.prices import PriceBook
from budgetroute.profiles import save_profile
from budgetroute.profiling.build import token_rates
from budgetroute.profiling.residuals import MIN_PROMPTS, Graded, fit_residual, with_residual
from budgetroute.profiling.tables import implied_tokens, read_rows
from budgetroute.records import ClassifierRef

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from budgetroute.profiling.assembly import Rates
    from budgetroute.profiling.columns import Outcome
    from budgetroute.profiling.residuals import ResidualFit
    from budgetroute.profiling.tables import Outcomes
    from budgetroute.records import Profile

__all__ = ["TextFit", "classifier_file", "fit_texts", "read_prompts", "save_together"]

PROMPTS_PER_TYPE = 20
"""A type with fewer is no class: a fifth is held out, and a term must stand in three prompts."""
FOLDS = 5


@dataclass(frozen=True, slots=True)
class TextFit:
    """A classifier, or why there is none.

    Attributes:
        arrays: as `save_together` takes them; empty = no classifier.
        types: what it tells apart.
        prompts: how many it was trained on; the same text counts once.
        without_text: prompts of the outcomes whose text was not given.
        unused: texts of prompts that the outcomes do not have.
        macro_f1: how well types are told apart in a fifth that was held out; None = not known.
        residual: what its fit came to; None = it was not tried.
        notes: in words, what was made, and what is not there because it does not help.
        warnings: in words, what was not used and what could not be made.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    prompts: int = 0
    without_text: int = 0
    unused: int = 0
    macro_f1: float | None = None
    residual: ResidualFit | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Mean:
    """One prompt's answers by one family: reward, dollars and output tokens, means of samples."""

    score: float
    cost: float
    tokens: float


def read_prompts(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read prompt → its text; blocks on one file.

    Args:
        path: a `.jsonl` or `.csv` with prompt_id (or id) and prompt (or text), as
            `budgetroute profile import --prompts` writes it; other columns are ignored.

    Raises:
        ProfileError: it cannot be read, a row lacks one of the two, or an id has two texts. No text
            is in the error.
    """
    source = Path(path)
    if source.suffix.lower() not in {".jsonl", ".ndjson", ".csv"}:
        raise ProfileError(f"prompts {source}: expected a .jsonl or .csv file")
    found: dict[str, str] = {}
    for number, raw in read_rows(source):
        key, text = _first(raw, "prompt_id", "id"), _first(raw, "prompt", "text")
        if isinstance(key, bool) or not isinstance(key, str | int) or not isinstance(text, str):
            raise ProfileError(f"prompts {source}: row {number}: expected prompt_id and prompt")
        name = str(key).strip()
        if found.setdefault(name, text) != text:
            raise ProfileError(f"prompts {source}: row {number}: its prompt_id has another text")
    return found


def _first(raw: Mapping[str, Any], *names: str) -> object:
    return next((raw[name] for name in names if raw.get(name) is not None), None)


def fit_texts(
    profile: Profile,
    outcomes: Outcomes,
    prompts: Mapping[str, str],
    *,
    rates: Rates | None = None,
) -> TextFit:
    """Train the classifier of a profile's types, and the residual where it helps.

    The residual is fitted on the prompts that all its families answered, each under the largest cap
    it was sent (`fit_residual`, which drops what its own cross-validation does not bear out).

    Args:
        profile: what was fitted to the outcomes.
        outcomes: the graded calls; their types are the classes.
        prompts: prompt → its text.
        rates: as for `fit_profile`.

    Raises:
        ProfileError: no prompt of the outcomes has a text.
    """
    kinds = {row.prompt: row.type for row in outcomes.rows}
    known = sorted(kinds.keys() & prompts.keys())
    if not known:
        raise ProfileError(
            f"none of the {len(kinds):,} prompts of outcomes {outcomes.origin} is among the "
            f"{len(prompts):,} that have a text; both files name a prompt by the same prompt_id"
        )
    once = {prompts[name]: name for name in reversed(known)}.values()
    counts = Counter(kinds[name] for name in once)
    types = tuple(sorted(kind for kind, n in counts.items() if n >= PROMPTS_PER_TYPE))
    used = {name: kinds[name] for name in sorted(once) if kinds[name] in types}
    start = TextFit(without_text=len(kinds) - len(known), unused=len(prompts) - len(known))
    warnings = [*_absent(start, len(kinds)), *_small(set(kinds.values()), counts)]
    try:
        arrays, macro_f1 = _trained([prompts[name] for name in used], list(used.values()))
    except ProfileError as err:
        return replace(start, warnings=(*warnings, f"no classifier is made: {err}"))
    fit = replace(
        start,
        arrays=arrays,
        types=types,
        prompts=len(used),
        macro_f1=macro_f1,
        warnings=tuple(warnings),
        notes=(_told(len(used), len(types), macro_f1),),
    )
    rows = [row for row in outcomes.rows if row.prompt in used]
    means = _means(rows, profile, rates or token_rates(PriceBook()))
    return _with_residual(fit, _graded(means, used, prompts))


def classifier_file(profile: Path) -> Path:
    """Return where a profile's classifier is put: `mine-types.npz` beside `mine.json`."""
    return profile.with_name(f"{profile.stem}-types.npz")


def save_together(
    profile: Profile, path: Path, arrays: Mapping[str, NDArray[Any]] | None = None
) -> Profile:
    """Write a profile, and before it the classifier that it names; return it as written.

    Each is replaced in one step, not both: who reads between the two steps is told of a wrong hash.

    Raises:
        ProfileError: one cannot be written.
    """
    if not arrays:
        save_profile(profile, path)
        return profile
    buffer, beside = io.BytesIO(), classifier_file(path)
    save_npz(buffer, arrays)
    content = buffer.getvalue()
    try:
        with files.draft_of(beside, content) as draft:
            draft.replace(beside)
    except OSError as err:
        raise ProfileError(
            f"classifier {beside}: cannot be written: {err.strerror or err}"
        ) from err
    ref = ClassifierRef(beside.name, hashlib.sha256(content).hexdigest())
    made = replace(profile, classifier=ref)
    save_profile(made, path)
    return made


def _absent(fit: TextFit, asked: int) -> list[str]:
    said = []
    if fit.without_text:
        said.append(
            f"prompts without a text: {fit.without_text:,} of {asked:,}; the classifier learns "
            "nothing of them"
        )
    if fit.unused:
        said.append(f"texts of prompts that the outcomes do not have: {fit.unused:,}, not used")
    return said


def _told(prompts: int, types: int, macro_f1: float) -> str:
    return (
        f"classifier: {prompts:,} prompts of {types} types, macro-F1 {macro_f1:.2f} on a fifth held "
        "out"
    )


def _small(kinds: set[str], counts: Mapping[str, int]) -> list[str]:
    few = sorted(kind for kind in kinds if counts[kind] < PROMPTS_PER_TYPE)
    return [
        f"type {kind}: the classifier does not know it; prompts with a text of their own: "
        f"{counts[kind]}, it takes {PROMPTS_PER_TYPE}"
        for kind in few
    ]


def _trained(texts: Sequence[str], labels: Sequence[str]) -> tuple[dict[str, NDArray[Any]], float]:
    """Return a classifier's arrays, and the macro-F1 of one that did not see a fifth of each type."""
    order = sorted(range(len(labels)), key=lambda i: labels[i])
    held, rest = order[::FOLDS], [i for k, i in enumerate(order) if k % FOLDS]
    trial = train([texts[i] for i in rest], [labels[i] for i in rest])
    seen = evaluate(LinearClassifier(trial), [texts[i] for i in held], [labels[i] for i in held])
    meta = {
        "built_by": "budgetroute profile fit",
        "prompts": len(texts),
        "held_out_macro_f1": round(seen.macro_f1, 4),
    }
    return train(texts, labels, meta=meta), seen.macro_f1


def _means(rows: Iterable[Outcome], profile: Profile, rates: Rates) -> dict[str, dict[str, _Mean]]:
    """Return family → prompt → means of its answers, of the families that the profile has."""
    families = {action.family for action in profile.actions}
    widest: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for row in rows:
        own = widest[row.way.at(1).family, row.prompt]
        if own and _room(row) > _room(own[0]):
            own.clear()
        if not own or _room(row) == _room(own[0]):
            own.append(row)
    means: dict[str, dict[str, _Mean]] = defaultdict(dict)
    for (family, prompt), answers in widest.items():
        if family in families and (mean := _mean(answers, rates)):
            means[family][prompt] = mean
    return means


def _room(row: Outcome) -> float:
    return float("inf") if row.cap is None else row.cap


def _mean(answers: Sequence[Outcome], rates: Rates) -> _Mean | None:
    """Return the means of one prompt's answers; None where tokens or dollars are not known."""
    price, n = rates(answers[0].way.model), len(answers)
    rows = [implied_tokens(row, *price) if price else row for row in answers]
    tokens = [row.output_tokens for row in rows if row.output_tokens is not None]
    costs = [
        (row.input_tokens or 0.0) * price[0] + (row.output_tokens or 0.0) * price[1]
        if price
        else row.cost_usd
        for row in rows
    ]
    known = [cost for cost in costs if cost is not None]
    if len(tokens) < n or len(known) < n:
        return None
    return _Mean(sum(row.reward for row in rows) / n, sum(known) / n, sum(tokens) / n)


def _graded(
    means: Mapping[str, Mapping[str, _Mean]], kinds: Mapping[str, str], prompts: Mapping[str, str]
) -> Graded | None:
    """Return the largest table without a gap; families are taken in the order of their coverage."""
    import numpy as np

    order = sorted(means, key=lambda family: (-len(means[family]), family))
    best: tuple[int, list[str], set[str]] = (0, [], set())
    common: set[str] = set(means[order[0]]) if order else set()
    for count, family in enumerate(order, start=1):
        common = common & means[family].keys()
        if len(common) * count > best[0] and count > 1:
            best = (len(common) * count, order[:count], common)
    families, names = sorted(best[1]), sorted(best[2])
    if not names:
        return None
    cells = [[means[family][name] for family in families] for name in names]
    return Graded(
        texts=[prompts[name] for name in names],
        labels=[kinds[name] for name in names],
        families=families,
        scores=np.array([[cell.score for cell in row] for row in cells]),
        costs=np.array([[cell.cost for cell in row] for row in cells]),
        tokens=np.array([[cell.tokens for cell in row] for row in cells]),
    )


def _with_residual(fit: TextFit, table: Graded | None) -> TextFit:
    if table is None:
        off = "no residual: no prompt was answered by two models whose dollars are known"
        return replace(fit, notes=(*fit.notes, off))
    found = fit_residual(LinearClassifier(fit.arrays), table)
    return replace(
        fit,
        arrays=with_residual(fit.arrays, found),
        residual=found,
        notes=(*fit.notes, _said(found, len(table.families))),
    )


def _said(found: ResidualFit, families: int) -> str:
    if found.prompts < MIN_PROMPTS:
        return (
            f"no residual: {found.prompts} prompts have a text and answers of {families} models; "
            f"it takes {MIN_PROMPTS}"
        )
    parts = [("lengths", found.has_lengths), ("rewards", found.has_rewards)]
    kept = " and ".join(name for name, has in parts if has)
    head = f"residual of {kept}" if kept else "no residual, it does not help"
    return (
        f"{head}: on left-out prompts it explains {_percent(found.length_explained)} of lengths and "
        f"{_percent(found.reward_explained)} of rewards inside types; choices by its rewards earn "
        f"{found.gain:+.4f} ± {found.gain_se:.4f} over types alone"
    )


def _percent(share: float) -> str:
    return f"{100 * max(0.0, share):.1f} %"
