"""A linear text model served without scikit-learn: its analyser, a dictionary and a dot product.

The model is TF-IDF over words and pairs of words into a multinomial logistic regression. It gives
the probabilities scikit-learn gives, at a twentieth of the time for a short prompt.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from budgetroute.records import Request

__all__ = ["FORMAT", "LinearClassifier", "prepared"]

FORMAT = "budgetroute-classifier/1"
HEAD = TAIL = 2_000
"""Characters read at either end; they bound the time a long prompt takes."""
_WORD = re.compile(r"\b\w\w+\b")
"""Scikit-learn's default token."""
_FOLD = {ord(digit): "0" for digit in "123456789"}
ARRAYS = ("terms", "idf", "coef", "intercept", "meta")


def prepared(text: str) -> str:
    """Cut a text to head and tail, lower its case and fold digits: numbers count by their shape.

    >>> prepared("In 1999 it cost $25")
    'in 0000 it cost $00'
    """
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    return text.lower().translate(_FOLD)


def terms(text: str) -> list[str]:
    """Return the words of a prepared text and its pairs of neighbours.

    >>> terms("sort a long list")
    ['sort', 'long', 'list', 'sort long', 'long list']
    """
    words = _WORD.findall(text)
    return words + [f"{first} {second}" for first, second in pairwise(words)]


class LinearClassifier:
    """Sorts a text into the classes a model was trained on.

    Args:
        arrays: `terms` (UTF-8 bytes, one term a line), `idf` (terms), `coef` (terms × classes),
            `intercept` (classes) and `meta` (JSON as bytes: `format`, `classes`, `sublinear`, …).
        source: what errors call the model.

    Raises:
        ProfileError: if an array is missing, has the wrong shape or is not finite.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], *, source: str = "model") -> None:
        import numpy as np

        self.meta = _checked_meta(arrays, source)
        names = bytes(arrays["terms"]).decode("utf-8").split("\n")
        self.classes: tuple[str, ...] = tuple(self.meta["classes"])
        _check_shapes(arrays, terms=len(names), classes=len(self.classes), source=source)
        self._sublinear = bool(self.meta["sublinear"])
        self._index = {name: row for row, name in enumerate(names)}
        if len(self._index) < len(names):
            raise ProfileError(f"classifier {source}: a term stands twice.")
        self._idf = np.ascontiguousarray(arrays["idf"], dtype=np.float64)
        self._coef = np.ascontiguousarray(arrays["coef"], dtype=np.float64)
        self._intercept = np.asarray(arrays["intercept"], dtype=np.float64)

    @classmethod
    def load(cls, path: str | Path, *, sha256: str | None = None) -> LinearClassifier:
        """Read a model from an `.npz` file; nothing in it is executed.

        Args:
            path: the file.
            sha256: hex digest it must have; None = not checked.

        Raises:
            ProfileError: if the file cannot be read or is not such a model.
        """
        try:
            raw = Path(path).read_bytes()
        except OSError as err:
            raise ProfileError(f"classifier {path}: cannot be read ({err}).") from err
        found = hashlib.sha256(raw).hexdigest()
        if sha256 is not None and found != sha256.lower():
            raise ProfileError(
                f"classifier {path}: its sha256 is {found}, the profile names {sha256}; "
                f"restore the file that came with the profile or build the profile again."
            )
        return cls(_read_arrays(raw, str(path)), source=str(path))

    def features(self, text: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the rows of the known terms and their TF-IDF, L2 norm 1; None if none is known."""
        import numpy as np

        rows = map(self._index.get, terms(prepared(text)))
        counts = Counter(row for row in rows if row is not None)
        if not counts:
            return None
        ids = np.fromiter(counts, np.intp, len(counts))
        values = np.fromiter(counts.values(), np.float64, len(counts))
        if self._sublinear:
            values = np.log(values) + 1.0
        values *= self._idf[ids]
        return ids, values / math.sqrt(values @ values)

    def probabilities(self, text: str) -> tuple[float, ...] | None:
        """Return one probability per class, in the order of `classes`; None if no term is known."""
        import numpy as np

        found = self.features(text)
        if found is None:
            return None
        ids, values = found
        logits = values @ self._coef[ids] + self._intercept
        raised = np.exp(logits - logits.max())
        shares: list[float] = (raised / raised.sum()).tolist()
        return tuple(shares)

    def classify(self, request: Request) -> tuple[tuple[tuple[str, float], ...], str] | None:
        """Return every class with its probability, heaviest first; None if no term is known."""
        shares = self.probabilities(request.text)
        if shares is None:
            return None
        weights = zip(self.classes, shares, strict=True)
        return tuple(sorted(weights, key=lambda weight: -weight[1])), "linear"


def _read_arrays(raw: bytes, source: str) -> dict[str, NDArray[Any]]:
    import numpy as np

    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            return {name: file[name] for name in ARRAYS if name in file}
    except (OSError, ValueError, EOFError, MemoryError, AttributeError, zipfile.BadZipFile) as err:
        raise ProfileError(
            f"classifier {source}: not an .npz of plain arrays ({err}); build it again with "
            f"budgetroute.classify.train.save_npz."
        ) from err


def _checked_meta(arrays: Mapping[str, NDArray[Any]], source: str) -> dict[str, Any]:
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise ProfileError(f"classifier {source}: has no array {', '.join(missing)}.")
    try:
        meta: Any = json.loads(bytes(arrays["meta"]))
        bytes(arrays["terms"]).decode("utf-8")
    except ValueError as err:
        raise ProfileError(f"classifier {source}: meta or terms are not text ({err}).") from err
    found = meta.get("format") if isinstance(meta, dict) else None
    if found != FORMAT:
        raise ProfileError(f"classifier {source}: format {found!r}, this package reads {FORMAT!r}.")
    classes = meta.get("classes")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ProfileError(f"classifier {source}: classes must be names, found {classes!r}.")
    if len(classes) < 2 or len(set(classes)) < len(classes):  # noqa: PLR2004 - nothing to choose from
        raise ProfileError(f"classifier {source}: needs two or more classes, found {classes!r}.")
    if not isinstance(meta.get("sublinear"), bool):
        raise ProfileError(f"classifier {source}: meta lacks sublinear = true or false.")
    return dict(meta)


def _check_shapes(
    arrays: Mapping[str, NDArray[Any]], *, terms: int, classes: int, source: str
) -> None:
    import numpy as np

    wanted = {"idf": (terms,), "coef": (terms, classes), "intercept": (classes,)}
    for name, shape in wanted.items():
        array = arrays[name]
        if array.shape != shape:
            raise ProfileError(
                f"classifier {source}: {name} has shape {array.shape}, {terms} terms and "
                f"{classes} classes need {shape}."
            )
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ProfileError(f"classifier {source}: {name} holds numbers that are not finite.")
