"""Likeness to a reference text: ROUGE-L and BERTScore, each with its own library.

They reward wording, not truth: good for summaries and translations with a reference, bad for facts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError
from budgetroute.graders.extraction import without_thoughts
from budgetroute.records import Grade

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetroute.records import Reference, Response

__all__ = ["BertScore", "RougeL"]

_LONGEST = 20_000


class RougeL:
    """F-measure of the longest common subsequence of words, stemmed; the best of all references.

    Lin 2004, as `rouge-score` computes it; quadratic in length, so 20,000 characters are compared.
    """

    def __init__(self) -> None:
        self._scorer: Any = None

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return the F-measure.

        Raises:
            ConfigError: rouge-score is not installed.
        """
        if not reference.answers:
            return Grade(None, "no reference answer")
        if self._scorer is None:
            self._scorer = _rouge()
        text = without_thoughts(response.text or "")[:_LONGEST]
        each = [
            self._scorer.score(wanted[:_LONGEST], text)["rougeL"].fmeasure
            for wanted in reference.answers
        ]
        return _likeness(max(each), "ROUGE-L")


class BertScore:
    """F1 of token embeddings (Zhang et al. 2020), rescaled so that unlike texts are near 0.

    Args:
        model: model of `bert-score`; None = its default for English. It is fetched at first use.
    """

    def __init__(self, model: str | None = None) -> None:
        self.model = model
        self._scorer: Any = None

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return the F1, cut to [0, 1].

        Raises:
            ConfigError: bert-score is not installed.
        """
        if not reference.answers:
            return Grade(None, "no reference answer")
        if self._scorer is None:
            self._scorer = _bert(self.model)
        text = without_thoughts(response.text or "")
        _, _, f1 = self._scorer.score([text], [list(reference.answers)])
        return _likeness(float(f1[0]), "BERTScore")


def _likeness(value: float, name: str) -> Grade:
    if not math.isfinite(value):
        return Grade(None, f"{name} is no number")
    return Grade(min(max(value, 0.0), 1.0), f"{name} F {value:.3f}")


def _rouge() -> Any:  # noqa: ANN401 - the library's scorer
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as err:
        raise _missing("rouge-l", "rouge-score", "graders") from err
    return RougeScorer(["rougeL"], use_stemmer=True)


def _bert(model: str | None) -> Any:  # noqa: ANN401 - the library's scorer
    try:
        from bert_score import BERTScorer
    except ImportError as err:
        raise _missing("bertscore", "bert-score", "bertscore") from err
    build: Callable[..., Any] = BERTScorer
    return (
        build(lang="en", rescale_with_baseline=True) if model is None else build(model_type=model)
    )


def _missing(grader: str, library: str, extra: str) -> ConfigError:
    return ConfigError(f"grader {grader!r} needs {library}: pip install 'budgetroute[{extra}]'.")
