"""The offline wing: graded answers in, the cells of a profile out.

`outcomes` turns answers into curves over every cap, `pooling` predicts what was not measured, and
`fit` shrinks what was.
"""

from __future__ import annotations

from budgetroute.profiling.fit import (
    is_sensitive,
    mixed_reward,
    monotone_caps,
    pulled,
    shrink_cells,
)
from budgetroute.profiling.outcomes import (
    Answer,
    Curve,
    Shape,
    cell_at,
    estimated,
    measured,
    shape_of,
    with_reward,
    with_tail,
)
from budgetroute.profiling.pooling import (
    Effects,
    Lengths,
    Observation,
    Prediction,
    fit_effects,
    fit_lengths,
    held_out_error,
    logit,
    sigmoid,
)

__all__ = [
    "Answer",
    "Curve",
    "Effects",
    "Lengths",
    "Observation",
    "Prediction",
    "Shape",
    "cell_at",
    "estimated",
    "fit_effects",
    "fit_lengths",
    "held_out_error",
    "is_sensitive",
    "logit",
    "measured",
    "mixed_reward",
    "monotone_caps",
    "pulled",
    "shape_of",
    "shrink_cells",
    "sigmoid",
    "with_reward",
    "with_tail",
]
