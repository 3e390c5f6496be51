"""Types found from outcomes: clusters of prompts that differ in who answers them, as far as text tells.

A prompt's own outcomes are luck to a large part and not known when it is routed. So prompts are
clustered by what a ridge on their TF-IDF predicts of them from all others: rewards of every family and
log length. Clusters whose means differ by no more than luck explains are merged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ProfileError
from budgetroute.profiling.additive import paired_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from budgetroute.profiling.residuals import Graded

    Floats = NDArray[Any]

__all__ = ["discover_types", "merge_types"]

MAX_TYPES = 12
LEAST = 40
"""Prompts in a type; with fewer its curves are mostly luck."""
PENALTY = 3.0
SURE = 1.96
"""In standard errors: how far the means of two types must differ to stay two."""


def discover_types(graded: Graded, *, most: int = MAX_TYPES) -> tuple[str, ...]:
    """Return each prompt's type, `found-0`, `found-1`, …, made without a look at its label.

    Given labels are better where there are any: on public sets found types lead a random mix by a
    sixth to a half less. Splitting labelled types further gained nothing beside a residual.

    Args:
        graded: prompts that every family answered.
        most: clusters to begin with.

    Raises:
        ProfileError: there are too few prompts to make two types of.
    """
    from sklearn.cluster import KMeans

    count = min(most, len(graded.texts) // LEAST)
    if count < 2:  # noqa: PLR2004 - one cluster is no types
        raise ProfileError(
            f"{len(graded.texts)} prompts are too few to find types in; {2 * LEAST} is the least."
        )
    kinds = KMeans(count, n_init=4, random_state=0).fit_predict(_predicted(graded))
    return tuple(f"found-{kind}" for kind in _merged(_outcomes(graded), kinds))


def merge_types(graded: Graded) -> tuple[str, ...]:
    """Return each prompt's type, labels joined by `+` where their curves do not differ.

    Types of fewer than 40 prompts are merged with their nearest, whatever they look like.
    """
    import numpy as np

    names, kinds = np.unique(list(graded.labels), return_inverse=True)
    kinds = np.asarray(kinds)
    merged = _merged(_outcomes(graded), kinds.copy())
    called = {
        kind: "+".join(names[np.unique(kinds[merged == kind])].tolist())
        for kind in np.unique(merged).tolist()
    }
    return tuple(called[kind] for kind in merged.tolist())


def _outcomes(graded: Graded) -> Floats:
    """Return [prompt] rewards and, on about the same scale, mean log length."""
    import numpy as np

    sizes = graded.costs if graded.tokens is None else graded.tokens
    length = np.log(np.maximum(sizes, 1e-12)).mean(axis=1, keepdims=True)
    length = (length - length.mean()) / max(float(length.std()), 1e-9)
    spread = float(graded.scores.std())
    return np.hstack([graded.scores, spread * length])


def _predicted(graded: Graded) -> Floats:
    """Return what ridge on the texts predicts of each prompt's outcomes from all others."""
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    from budgetroute.classify.linear import PATTERN, prepared

    words = TfidfVectorizer(
        preprocessor=prepared, token_pattern=PATTERN, ngram_range=(1, 2), sublinear_tf=True
    ).fit_transform(graded.texts)
    values, vectors = np.linalg.eigh((words @ words.T).toarray())
    keep = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + PENALTY)
    target = _outcomes(graded)
    middle = target.mean(axis=0)
    own = (vectors**2) @ keep
    fitted = vectors @ (keep[:, None] * (vectors.T @ (target - middle)))
    return np.asarray(middle + (fitted - own[:, None] * (target - middle)) / (1 - own)[:, None])


def _merged(outcomes: Floats, kinds: Floats) -> Floats:
    """Return the kinds, numbered from 0 without gaps, once those that do not differ are one."""
    import numpy as np

    kinds = np.unique(kinds, return_inverse=True)[1]
    while kinds.max() > 0 and (pair := _closest(outcomes, kinds)) is not None:
        kinds[kinds == pair[1]] = pair[0]
        kinds = np.unique(kinds, return_inverse=True)[1]
    return np.asarray(kinds)


def _closest(outcomes: Floats, kinds: Floats) -> tuple[int, int] | None:
    """Return the two clusters to merge next: a small one and its nearest, else the least apart.

    None where all are large and luck explains no difference.
    """
    import numpy as np

    names = np.unique(kinds).tolist()
    groups = [outcomes[kinds == name] for name in names]
    noise = np.array(paired_noise([group.tolist() for group in groups]))
    found = []
    for i, first in enumerate(groups):
        for j in range(i + 1, len(groups)):
            small = min(len(first), len(groups[j])) < LEAST
            distance = _apart(first, groups[j], noise)
            found.append((not small, distance, names[i], names[j]))
    is_large, distance, one, other = min(found)
    return None if is_large and distance >= SURE else (one, other)


def _apart(first: Floats, second: Floats, noise: Floats) -> float:
    """Return by how many standard errors, over chance, what choices depend on differs.

    The statistic Σ d²/v of differences to the row's mean has about as many degrees of freedom as
    columns less 1; it is turned into a normal deviate (Wilson and Hilferty).
    """
    import numpy as np

    difference = first.mean(axis=0) - second.mean(axis=0)
    difference = difference - difference.mean()
    error = np.maximum(noise, 1e-9) * (1 / len(first) + 1 / len(second))
    freedom = max(1, len(noise) - 1)
    statistic = float((difference**2 / error).sum()) / freedom
    spread = 2 / (9 * freedom)
    return (math.cbrt(statistic) - (1 - spread)) / math.sqrt(spread)
