"""Fit of the per-prompt residual: ridge regressions on what types leave unexplained.

Three things are predicted from a prompt's terms and shape, each with its own penalty: how much
longer its answers are (one number for all families), how much harder it is (one number), and what
each family adds to that. Penalties of the first two are those that predict best when each prompt is
left out; that of the last is fixed. The length's part is off where it explains nothing. The rewards'
part is off where the choices it leads to earn less than the types' do by more than the error of that
comparison, and where it cannot tell hard prompts from easy ones, unless they earn more by as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budgetroute.classify.residual import VERSION, WIDEST, squared
from budgetroute.classify.shapes import shape_of_text
from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from budgetroute.classify.linear import LinearClassifier

    Floats = NDArray[Any]

__all__ = ["Graded", "ResidualFit", "fit_residual", "with_residual"]

MAX_PROMPTS = 4_000
"""Prompts that are fitted; the work grows with their cube (30 s at 4,000 on one core)."""
MIN_PROMPTS = 100
FACTORS = 8
SHAPE_WEIGHT = 0.03
"""Weight of a shape's squares next to a text's terms, whose squares sum to 1."""
SHARED = 0.3
"""Of a shape's weight, the part that all types share, next to 1 for each type's own."""
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FAMILY_PENALTY = 100.0
"""For what one family adds: hard, since that is mostly noise. Chosen by what left-out prompts earn it
came out worse: those gains are as noisy as they are large."""
LEAST_EXPLAINED = 0.01
PRICES = 24
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Graded:
    """Prompts that every family of actions answered, graded.

    Attributes:
        texts: the prompts.
        labels: their types.
        families: names of the columns, as `Action.family` gives them.
        scores: [prompt][family] reward in [0, 1] at a cap that cuts nothing.
        costs: [prompt][family] dollars of that answer.
        tokens: [prompt][family] its output tokens; None = its cost says how long it was.
    """

    texts: Sequence[str]
    labels: Sequence[str]
    families: Sequence[str]
    scores: Floats
    costs: Floats
    tokens: Floats | None = None


@dataclass(frozen=True, slots=True)
class ResidualFit:
    """What a fit came to.

    Attributes:
        arrays: what `with_residual` adds to a classifier's; empty where it is off.
        families: the names its rewards are for.
        prompts: how many were fitted.
        length_explained: share of the variance of log length inside types, left-out prompts.
        reward_explained: the same of a prompt's mean reward.
        gain: surplus per prompt over types alone at equal prices, mean over prices, left out.
        gain_se: its standard error.
        has_lengths: whether it moves lengths.
        has_rewards: whether it moves rewards.
    """

    arrays: Mapping[str, Floats] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    prompts: int = 0
    length_explained: float = 0.0
    reward_explained: float = 0.0
    gain: float = 0.0
    gain_se: float = 0.0
    has_lengths: bool = False
    has_rewards: bool = False


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Inner products of the prompts' features, decomposed."""

    terms: Any
    shapes: Floats
    shares: Floats
    scale: Floats
    inner: Floats
    values: Floats
    vectors: Floats

    def predicted(self, rest: Floats, own: Floats, target: Floats, penalty: float) -> Floats:
        """Return what ridge on some prompts predicts of others."""
        import numpy as np

        ridge = self.inner[np.ix_(rest, rest)]
        ridge[np.diag_indices_from(ridge)] += penalty
        return np.asarray(self.inner[np.ix_(own, rest)] @ np.linalg.solve(ridge, target))

    def left_out(self, target: Floats, penalty: float) -> Floats:
        """Return what ridge predicts of each prompt from all others (exact, closed form)."""
        import numpy as np

        keep = self.values / (self.values + penalty)
        own = (self.vectors**2) @ keep
        fitted = self.vectors @ (keep[:, None] * (self.vectors.T @ target))
        return np.asarray((fitted - own[:, None] * target) / (1.0 - own)[:, None])

    def duals(self, target: Floats, penalty: float) -> Floats:
        import numpy as np

        scaled = (self.vectors.T @ target) / (self.values + penalty)[:, None]
        return np.asarray(self.vectors @ scaled)


def fit_residual(model: LinearClassifier, graded: Graded) -> ResidualFit:
    """Fit a residual for a trained classifier, or find that it is better off; its terms are used.

    Raises:
        ProfileError: the tables' sizes differ or a number is not finite.
    """
    import numpy as np

    _check(graded)
    kept = [i for i in _spread(len(graded.texts)) if model.features(graded.texts[i]) is not None]
    if len(kept) < MIN_PROMPTS:
        return ResidualFit(prompts=len(kept))
    kernel = _kernel(model, [graded.texts[i] for i in kept])
    kinds = np.unique([graded.labels[i] for i in kept], return_inverse=True)[1]
    scores, costs = graded.scores[kept], graded.costs[kept]
    rewards = _within(scores, kinds)
    sizes = graded.costs if graded.tokens is None else graded.tokens
    lengths = _within(np.log(np.maximum(sizes[kept], 1e-12)), kinds)
    length, length_r2 = _best(kernel, lengths.mean(axis=1, keepdims=True))
    level, level_r2 = _best(kernel, rewards.mean(axis=1, keepdims=True))
    gains = _gains(kernel, kinds, scores, costs=costs, penalty=level[1])
    duals = np.zeros((len(kept), 1 + len(graded.families)))
    if has_lengths := length_r2 >= LEAST_EXPLAINED:
        duals[:, :1] = kernel.duals(*length)
    gain, error = float(gains.mean()), float(gains.std() / math.sqrt(len(gains)))
    if has_rewards := gain > (-error if level_r2 >= LEAST_EXPLAINED else error):
        own = kernel.duals(rewards - level[0], FAMILY_PENALTY)
        duals[:, 1:] = kernel.duals(*level) + own
    return ResidualFit(
        arrays=_primal(kernel, duals, model) if duals.any() else {},
        families=tuple(graded.families),
        prompts=len(kept),
        length_explained=length_r2,
        reward_explained=level_r2,
        gain=gain,
        gain_se=error,
        has_lengths=has_lengths,
        has_rewards=has_rewards,
    )


def with_residual(arrays: Mapping[str, Floats], fit: ResidualFit) -> dict[str, Floats]:
    """Return a classifier's arrays with a residual; as they are where the fit has none."""
    import json

    import numpy as np

    if not fit.arrays:
        return dict(arrays)
    meta = json.loads(arrays["meta"].tobytes())
    meta["residual"] = {
        "version": VERSION,
        "families": list(fit.families),
        "prompts": fit.prompts,
        "length_explained": round(fit.length_explained, 4),
        "reward_explained": round(fit.reward_explained, 4),
        "gain": round(fit.gain, 5),
        "gain_se": round(fit.gain_se, 5),
    }
    raw = json.dumps(meta, sort_keys=True, ensure_ascii=False).encode("utf-8")
    return {**arrays, **fit.arrays, "meta": np.frombuffer(raw, dtype=np.uint8)}


def _check(graded: Graded) -> None:
    import numpy as np

    shape = len(graded.texts), len(graded.families)
    for name in ("scores", "costs", "tokens"):
        table = getattr(graded, name)
        if table is not None and (table.shape != shape or not np.isfinite(table).all()):
            raise ProfileError(
                f"a residual needs finite {name} for {shape[0]} prompts × {shape[1]} families, "
                f"found a table of {table.shape}; leave out prompts that not all families answered."
            )


def _spread(count: int) -> list[int]:
    """Return at most 4,000 of the prompts, evenly spread."""
    step = max(1.0, count / MAX_PROMPTS)
    return [int(i * step) for i in range(math.floor(count / step))]


def _within(table: Floats, kinds: Floats) -> Floats:
    """Return what is left of a table when each type's mean is taken off."""
    return table - _means(table, kinds, kinds)


def _kernel(model: LinearClassifier, texts: Sequence[str]) -> _Kernel:
    import numpy as np
    from scipy import sparse

    found = [model.features(text) for text in texts]
    rows = [pair for pair in found if pair is not None]
    ends = np.cumsum([0, *[len(ids) for ids, _ in rows]])
    terms = sparse.csr_matrix(
        (
            np.concatenate([values for _, values in rows]),
            np.concatenate([ids for ids, _ in rows]),
            ends,
        ),
        shape=(len(texts), len(model.idf)),
    )
    raw = np.array([shape_of_text(text) for text in texts])
    scale = np.stack([raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-6)])
    scale = scale.astype(np.float32).astype(np.float64)
    shapes = squared(raw, scale)
    shares = np.array([model.probabilities(text) for text in texts])
    inner = (terms @ terms.T).toarray()
    inner += SHAPE_WEIGHT * (shapes @ shapes.T) * (SHARED + shares @ shares.T)
    values, vectors = np.linalg.eigh(inner)
    return _Kernel(terms, shapes, shares, scale, inner, np.maximum(values, 0.0), vectors)


def _best(kernel: _Kernel, target: Floats) -> tuple[tuple[Floats, float], float]:
    """Return (target, its best penalty) and the share of variance explained, prompts left out."""
    spread = float((target**2).mean()) or 1.0
    errors = {
        penalty: float(((kernel.left_out(target, penalty) - target) ** 2).mean())
        for penalty in PENALTIES
    }
    best = min(errors, key=lambda penalty: errors[penalty])
    return (target, best), 1.0 - errors[best] / spread


def _gains(
    kernel: _Kernel, kinds: Floats, scores: Floats, *, costs: Floats, penalty: float
) -> Floats:
    """Return each prompt's reward over what its type alone earns at equal prices, in five folds.

    Means, prices and residuals come from the other four. (What a ridge says of a left-out prompt
    in closed form will not do: residuals sum to zero, so the others' lean away from its own.)
    """
    import numpy as np

    order = np.argsort(kinds, kind="stable")
    fold = np.empty(len(kinds), dtype=int)
    fold[order] = np.arange(len(kinds)) % FOLDS
    found = np.zeros(len(kinds))
    for held in range(FOLDS):
        rest, own = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        means = _means(scores[rest], kinds[rest], kinds)
        dollars = _means(costs[rest], kinds[rest], kinds)
        left = scores[rest] - means[rest]
        level = left.mean(axis=1, keepdims=True)
        guess = kernel.predicted(rest, own, level, penalty)
        guess = guess + kernel.predicted(rest, own, left - level, FAMILY_PENALTY)
        guess = np.clip(guess, -WIDEST, WIDEST)
        found[own] = _gained(means[own], guess, scores[own], costs=dollars[own])
    return found


def _gained(means: Floats, guess: Floats, scores: Floats, *, costs: Floats) -> Floats:
    """Return R − λ·C of the choices with a guess less those without, mean over prices."""
    import numpy as np

    rows, total = np.arange(len(means)), np.zeros(len(means))
    for price in _prices(means, costs):
        for expected, sign in ((means + guess, 1.0), (means, -1.0)):
            chosen = np.argmax(expected - price * costs, axis=1)
            total += sign * (scores[rows, chosen] - price * costs[rows, chosen])
    return np.asarray(total / PRICES)


def _means(table: Floats, kinds: Floats, wanted: Floats) -> Floats:
    """Return, for each of the wanted types, a table's mean row; the whole mean where it has none."""
    import numpy as np

    size = int(wanted.max()) + 1
    sums, counts = np.zeros((size, table.shape[1])), np.bincount(kinds, minlength=size)
    np.add.at(sums, kinds, table)
    sums[counts == 0] = table.mean(axis=0)
    return np.asarray((sums / np.maximum(counts, 1)[:, None])[wanted])


def _prices(scores: Floats, costs: Floats) -> Floats:
    """Return λs from where the cheapest family wins to where the dearest does."""
    import numpy as np

    from budgetroute.curves import hull, steps

    means = list(zip(costs.mean(axis=0).tolist(), scores.mean(axis=0).tolist(), strict=True))
    slopes = [step[0] for step in steps([means[i] for i in hull(means)])] or [1.0]
    return np.geomspace(min(slopes) / 3, max(slopes) * 3, PRICES)


def _primal(kernel: _Kernel, duals: Floats, model: LinearClassifier) -> dict[str, Floats]:
    """Return the weights of terms and shapes, cut to the few factors that carry most."""
    import numpy as np

    left, size, right = np.linalg.svd(duals, full_matrices=False)
    rank = min(FACTORS, int((size > size[0] * 1e-9).sum()))
    factors = left[:, :rank] * size[:rank]
    classes = range(len(model.classes))
    by_term = kernel.terms.T @ factors
    shared = SHAPE_WEIGHT * SHARED * (kernel.shapes.T @ factors)
    own = [SHAPE_WEIGHT * (kernel.shapes.T @ (kernel.shares[:, [k]] * factors)) for k in classes]
    made = {
        "residual_terms": by_term,
        "residual_shape": np.stack([shared, *own]),
        "residual_scale": kernel.scale,
        "residual_out": right[:rank],
    }
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in made.items()}
