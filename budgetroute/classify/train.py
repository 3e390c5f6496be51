"""Training of the linear text model with scikit-learn, and its file."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from budgetroute.classify.linear import FORMAT, PATTERN, SEPARATOR, LinearClassifier, prepared
from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Evaluation", "arrays_of", "evaluate", "fitted_pipeline", "save_npz", "train"]

MAX_TERMS = 20_000
MIN_PROMPTS = 3
"""A term stays only if this many prompts hold it, so that no single prompt's text is kept."""
STRENGTH = 10.0
"""Inverse of the L2 penalty, scikit-learn's `C`."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model does on texts it has not seen.

    Attributes:
        accuracy: share of the weight whose heaviest class is their label.
        macro_f1: mean over the labels of the harmonic mean of precision and recall.
        f1: label → that mean.
        confusion: (label, predicted class) → weight; a text without a known term predicts None.
    """

    accuracy: float
    macro_f1: float
    f1: Mapping[str, float]
    confusion: Mapping[tuple[str, str | None], float]


def train(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    max_terms: int = MAX_TERMS,
    min_prompts: int = MIN_PROMPTS,
    meta: Mapping[str, Any] | None = None,
) -> dict[str, NDArray[Any]]:
    """Fit a model and return its arrays, as `LinearClassifier` and `save_npz` take them.

    Args:
        texts: prompts.
        labels: their types; two or more of them.
        weights: how much each prompt counts; None = the same.
        max_terms: terms kept, the most frequent ones.
        min_prompts: prompts a term must occur in.
        meta: provenance to keep in the file.

    Raises:
        ProfileError: if there are fewer than two types, or no term that enough prompts share.
    """
    if len(set(labels)) < 2:  # noqa: PLR2004 - nothing to tell apart
        raise ProfileError(
            f"a classifier needs prompts of two or more types, found {sorted(set(labels))}; "
            f"label more types, or name the type on the route."
        )
    pipeline = fitted_pipeline(
        texts, labels, weights=weights, max_terms=max_terms, min_prompts=min_prompts
    )
    return arrays_of(pipeline, meta=meta)


def fitted_pipeline(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    max_terms: int = MAX_TERMS,
    min_prompts: int = MIN_PROMPTS,
) -> Any:  # noqa: ANN401 - a scikit-learn Pipeline, which carries no types
    """Fit TF-IDF over tokens and pairs into a logistic regression; the result is scikit-learn's.

    Raises:
        ProfileError: if scikit-learn finds nothing to fit.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    vectorizer = TfidfVectorizer(
        preprocessor=prepared,
        token_pattern=PATTERN,
        ngram_range=(1, 2),
        min_df=min_prompts,
        max_features=max_terms,
        sublinear_tf=True,
    )
    regression = LogisticRegression(C=STRENGTH, max_iter=2_000)
    pipeline = Pipeline([("tfidf", vectorizer), ("regression", regression)])
    try:
        return pipeline.fit(list(texts), list(labels), regression__sample_weight=weights)
    except ValueError as err:
        raise ProfileError(
            f"no classifier can be trained on these {len(texts)} prompts ({err}); give more "
            f"prompts, or a lower min_prompts than {min_prompts}."
        ) from err


def arrays_of(pipeline: Any, *, meta: Mapping[str, Any] | None = None) -> dict[str, NDArray[Any]]:  # noqa: ANN401 - see above
    """Take the arrays out of a fitted pipeline of `fitted_pipeline`'s kind."""
    import numpy as np

    vectorizer, regression = pipeline["tfidf"], pipeline["regression"]
    coef, intercept = regression.coef_, regression.intercept_
    if len(coef) == 1:  # two classes: scikit-learn keeps only the second one's row
        coef = np.vstack([np.zeros_like(coef), coef])
        intercept = np.concatenate([np.zeros_like(intercept), intercept])
    head = {
        "format": FORMAT,
        "classes": [str(name) for name in regression.classes_],
        "sublinear": bool(vectorizer.sublinear_tf),
    }
    return {
        "terms": _bytes(SEPARATOR.join(vectorizer.get_feature_names_out())),
        "idf": vectorizer.idf_.astype(np.float32),
        "coef": np.ascontiguousarray(coef.T, dtype=np.float32),
        "intercept": intercept.astype(np.float32),
        "meta": _bytes(json.dumps({**(meta or {}), **head}, sort_keys=True, ensure_ascii=False)),
    }


def save_npz(path: str | Path | io.BytesIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an `.npz`; the same arrays give the same bytes (no times, no compression)."""
    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, arrays[name], allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


def evaluate(
    model: LinearClassifier,
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
) -> Evaluation:
    """Compare a model with labels; the F1 of a label that never occurs is not counted."""
    confusion: dict[tuple[str, str | None], float] = {}
    for text, label, weight in zip(texts, labels, weights or [1.0] * len(texts), strict=True):
        pair = (label, _heaviest(model, text))
        confusion[pair] = confusion.get(pair, 0.0) + weight
    f1 = {label: _f1(confusion, label) for label in sorted(set(labels))}
    right = sum(weight for (label, found), weight in confusion.items() if label == found)
    return Evaluation(
        accuracy=right / sum(confusion.values()),
        macro_f1=sum(f1.values()) / len(f1),
        f1=f1,
        confusion=confusion,
    )


def _heaviest(model: LinearClassifier, text: str) -> str | None:
    shares = model.probabilities(text)
    return None if shares is None else model.classes[shares.index(max(shares))]


def _f1(confusion: Mapping[tuple[str, str | None], float], label: str) -> float:
    """Return 2·hits / (weight of the label + weight predicted as it)."""
    hits = confusion.get((label, label), 0.0)
    real = sum(weight for (name, _), weight in confusion.items() if name == label)
    said = sum(weight for (_, found), weight in confusion.items() if found == label)
    return 2 * hits / (real + said)


def _bytes(text: str) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
