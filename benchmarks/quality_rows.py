"""What is compared: this library's types and residual, and other ways to guess who answers what.

Each way takes a fitted half and the judged prompts and says what it expects every action to earn and
to cost there. None sees an outcome of a judged prompt, but `oracle`, which sees nothing else.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from quality_ours import Expected, Fitted, classifier_arrays, residual_of

from budgetroute.classify import Centroids, LinearClassifier, SimHash
from budgetroute.profiling import with_residual
from budgetroute.records import InputSize, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quality_data import Matrix
    from workload import Floats

    from budgetroute.profiling import ResidualFit

EXAMPLES = 60
TIMED = 40
NEIGHBOURS = (10, 20, 40, 80)
DIMENSIONS = 50
LEAST_CLUSTERS = 12


def ours(fit: Matrix, judged: Matrix) -> tuple[Expected, Expected, ResidualFit]:
    """Return what types by the classifier expect, the same with a residual, and its fit."""
    arrays = classifier_arrays(fit)
    unnamed = [None] * len(judged.texts)
    plain = Fitted(fit, arrays).expected(judged, unnamed)
    residual = residual_of(fit, LinearClassifier(arrays))
    fuller = Fitted(fit, with_residual(arrays, residual)).expected(judged, unnamed)
    return plain, fuller, residual


def true_types(fit: Matrix, judged: Matrix) -> Expected:
    """Let every call name its labelled type."""
    return Fitted(fit, None).expected(judged, [judged.labels[kind] for kind in judged.kinds])


def k_means(fit: Matrix, judged: Matrix) -> Expected:
    """Make types of clusters of the text, found by the nearest centroid."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    pipeline = make_pipeline(
        vectorizer(), TruncatedSVD(DIMENSIONS, random_state=0), Normalizer(copy=False)
    )
    points = pipeline.fit_transform(fit.texts)
    count = max(LEAST_CLUSTERS, 2 * len(fit.labels))
    kinds = KMeans(count, n_init=3, random_state=0).fit_predict(points)
    names = [f"cluster{kind}" for kind in range(count)]
    examples = {
        name: [fit.texts[i] for i in np.flatnonzero(kinds == k)] for k, name in enumerate(names)
    }
    classifier = Centroids(examples, embed=lambda text: pipeline.transform([text])[0].tolist())
    found, micros = named(classifier, judged.texts)
    expected = Fitted(fit, None, kinds=kinds, names=names).expected(judged, found)
    return Expected(expected.rewards, expected.costs, expected.micros + micros)


def sim_hash(fit: Matrix, judged: Matrix) -> Expected:
    """Find the labelled types by SimHash among a few examples of each."""
    examples = {
        name: [fit.texts[i] for i in np.flatnonzero(fit.kinds == kind)[:EXAMPLES]]
        for kind, name in enumerate(fit.labels)
    }
    found, micros = named(SimHash(examples), judged.texts)
    expected = Fitted(fit, None).expected(judged, found)
    return Expected(expected.rewards, expected.costs, expected.micros + micros)


def named(classifier: Any, texts: Sequence[str]) -> tuple[list[str], float]:  # noqa: ANN401 - any Classifier
    """Return every text's heaviest type, and the microseconds it takes."""
    found, spans = [], []
    for text in texts:
        request = Request(route="judged", text=text, size=InputSize(0, 0))
        begun = time.perf_counter_ns()
        answer = classifier.classify(request)
        spans.append(time.perf_counter_ns() - begun)
        found.append("general" if answer is None else answer[0][0][0])
    return found, statistics.median(spans) / 1000


def neighbours(fit: Matrix, judged: Matrix) -> Expected:
    """Take the mean of the nearest prompts by TF-IDF, as many as predict left-out ones best."""
    words = vectorizer()
    known, asked = words.fit_transform(fit.texts), words.transform(judged.texts)
    own = (known @ known.T).toarray()
    np.fill_diagonal(own, -1.0)
    errors = {}
    for count in NEIGHBOURS:
        near = np.argpartition(-own, count, axis=1)[:, :count]
        errors[count] = float(((fit.scores[near].mean(axis=1) - fit.scores) ** 2).mean())
    count = min(errors, key=lambda c: errors[c])
    near = np.argpartition(-(asked @ known.T).toarray(), count, axis=1)[:, :count]

    def one(text: str) -> object:
        row = (words.transform([text]) @ known.T).toarray()[0]
        return fit.scores[np.argpartition(-row, count)[:count]].mean(axis=0)

    outputs = fit.outputs[near].mean(axis=1)
    return Expected(fit.scores[near].mean(axis=1), dollars(judged, outputs), timed(one, judged))


def logistic(fit: Matrix, judged: Matrix) -> Expected:
    """Predict each model's chance to be right from TF-IDF, as RouteLLM's routers do for a pair.

    A cap keeps the same part of it, and an answer has the same length, on all prompts.
    """
    from sklearn.linear_model import LogisticRegression

    words = vectorizer()
    known, asked = words.fit_transform(fit.texts), words.transform(judged.texts)
    twice = np.arange(2 * len(fit.texts)) % len(fit.texts)
    target = np.repeat([1, 0], len(fit.texts))
    whole, models = fit.widest, []
    for place in whole:
        weights = np.concatenate([fit.scores[:, place], 1.0 - fit.scores[:, place]])
        models.append(
            LogisticRegression(C=1.0, max_iter=300).fit(known[twice], target, sample_weight=weights)
        )
    chances = np.stack([model.predict_proba(asked)[:, 1] for model in models], axis=1)
    column = [fit.models.index(name) for name, _ in fit.actions]
    part = fit.scores.mean(axis=0) / np.maximum(fit.scores.mean(axis=0)[whole][column], 1e-9)

    def one(text: str) -> object:
        row = words.transform([text])
        return [model.predict_proba(row)[0, 1] for model in models]

    outputs = np.tile(fit.outputs.mean(axis=0), (len(judged.texts), 1))
    return Expected(chances[:, column] * part, dollars(judged, outputs), timed(one, judged))


def oracle(judged: Matrix) -> Expected:
    """Know everything beforehand."""
    return Expected(judged.scores, judged.costs, 0.0)


def dollars(judged: Matrix, outputs: Floats) -> Floats:
    given: Floats = judged.inputs[:, None] * judged.prices[:, 0] + outputs * judged.prices[:, 1]
    return given


def timed(one: Callable[[str], object], judged: Matrix) -> float:
    spans = []
    for text in judged.texts[:TIMED]:
        begun = time.perf_counter_ns()
        one(text)
        spans.append(time.perf_counter_ns() - begun)
    return statistics.median(spans) / 1000


def vectorizer() -> Any:  # noqa: ANN401 - scikit-learn carries no types
    """Return the TF-IDF that all these ways read prompts with."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]",  # noqa: S106 - of words, not of access
        ngram_range=(1, 2),
        min_df=3,
        max_features=20_000,
        sublinear_tf=True,
    )
