"""What a single prompt adds to its type's curves: longer or shorter answers, better or worse ones.

A residual is linear in the classifier's TF-IDF terms and in the prompt's shape (each number and its
square, once for all types and once per type). Of low rank: a few factors, then one number per
family of actions. It lies in the classifier's file; a file without one has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetroute.classify.shapes import SHAPES, shape_of_text
from budgetroute.errors import ProfileError
from budgetroute.records import Guess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["RESIDUAL_ARRAYS", "VERSION", "Residual", "squared"]

VERSION = 1
RESIDUAL_ARRAYS = ("residual_terms", "residual_shape", "residual_scale", "residual_out")
LONGEST = 1.0
"""Largest change of log length that is believed."""
WIDEST = 0.35
"""Largest change of an expected reward that is believed."""
_EXTREME = 3.0


def squared(shapes: Any, scale: Any) -> Any:  # noqa: ANN401 - arrays, one prompt's or many's
    """Return standardised shapes, held within 3 deviations, and their squares less 1."""
    import numpy as np

    plain = np.minimum(np.maximum((shapes - scale[0]) / scale[1], -_EXTREME), _EXTREME)
    return np.concatenate([plain, plain * plain - 1.0], axis=-1)


class Residual:
    """Serves the residual of one classifier.

    Args:
        arrays: `residual_terms` (terms × factors), `residual_shape` (1 + classes, 2 × shapes,
            factors), `residual_scale` (2 × shapes: means, deviations) and `residual_out`
            (factors, 1 + families): log length first, then each family's reward.
        families: names of the families, as `Action.family` gives them.
        terms: how many the classifier has.
        classes: how many it has.
        source: what errors call the file.

    Raises:
        ProfileError: an array is missing, has the wrong shape or is not finite.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        families: Sequence[str],
        *,
        terms: int,
        classes: int,
        source: str,
    ) -> None:
        import numpy as np

        _check(arrays, (terms, classes, len(families)), source)
        self.families = tuple(families)
        self._terms = np.ascontiguousarray(arrays["residual_terms"], dtype=np.float64)
        shape = np.asarray(arrays["residual_shape"], dtype=np.float64)
        self._shared, self._own = shape[0], shape[1:].reshape(classes, -1)
        self._scale = np.asarray(arrays["residual_scale"], dtype=np.float64)
        self._out = np.asarray(arrays["residual_out"], dtype=np.float64)

    def guess(self, text: str, found: tuple[Any, Any], shares: Sequence[float]) -> Guess:
        """Return what the prompt adds.

        Args:
            text: the prompt.
            found: its known terms and their TF-IDF.
            shares: the classifier's probabilities.
        """
        import numpy as np

        ids, values = found
        shape = squared(np.array(shape_of_text(text)), self._scale)
        weighed = self._shared + (np.array(shares) @ self._own).reshape(self._shared.shape)
        out = ((values @ self._terms[ids] + shape @ weighed) @ self._out).tolist()
        return Guess(
            length=min(LONGEST, max(-LONGEST, out[0])),
            families=self.families,
            rewards=tuple([min(WIDEST, max(-WIDEST, reward)) for reward in out[1:]]),
        )


def _check(arrays: Mapping[str, NDArray[Any]], sizes: tuple[int, int, int], source: str) -> None:
    import numpy as np

    terms, classes, families = sizes
    if missing := [name for name in RESIDUAL_ARRAYS if name not in arrays]:
        raise ProfileError(f"classifier {source}: its residual has no array {', '.join(missing)}.")
    factors = arrays["residual_out"].shape[0] if arrays["residual_out"].ndim else 0
    wanted = {
        "residual_terms": (terms, factors),
        "residual_shape": (1 + classes, 2 * SHAPES, factors),
        "residual_scale": (2, SHAPES),
        "residual_out": (factors, 1 + families),
    }
    for name, shape in wanted.items():
        array = arrays[name]
        if array.shape != shape:
            raise ProfileError(
                f"classifier {source}: {name} has shape {array.shape}, not {shape}: {terms} terms, "
                f"{classes} classes and {families} families need that."
            )
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ProfileError(f"classifier {source}: {name} holds numbers that are not finite.")
    if (arrays["residual_scale"][1] <= 0).any():
        raise ProfileError(f"classifier {source}: residual_scale has a deviation that is not > 0.")
