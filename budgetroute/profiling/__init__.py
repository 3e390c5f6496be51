"""The offline wing: graded answers in, the cells of a profile out.

`tables` reads graded calls, `answers` groups them, `outcomes` turns them into curves over every cap,
`pooling` predicts what was not measured, `fit` and `additive` shrink what was, `assembly` puts the
profile together. `fit_profile` does all of that. `residuals` finds what single prompts add,
`texts` makes the classifier beside it, `discovery` types where nobody labelled any.
"""

from __future__ import annotations

from budgetroute.profiling.additive import paired_noise, shrink_families, shrink_types
from budgetroute.profiling.assembly import Evidence, Heading, assemble
from budgetroute.profiling.build import (
    FitSettings,
    Fitted,
    cost_by,
    fit_profile,
    rates_of,
    token_rates,
)
from budgetroute.profiling.certainty import hull_shares, interval
from budgetroute.profiling.columns import COLUMNS, Outcome, Way
from budgetroute.profiling.comparing import Change, Switch, changes, switches
from budgetroute.profiling.discovery import discover_types, merge_types
from budgetroute.profiling.fit import (
    is_sensitive,
    mixed_reward,
    monotone_caps,
    pulled,
    shrink_cells,
    shrink_ways,
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
from budgetroute.profiling.plotting import plot_profile
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
from budgetroute.profiling.residuals import Graded, ResidualFit, fit_residual, with_residual
from budgetroute.profiling.tables import Outcomes, outcomes_of, read_outcomes
from budgetroute.profiling.texts import TextFit, fit_texts, read_prompts, save_together

__all__ = [
    "COLUMNS",
    "Answer",
    "Change",
    "Curve",
    "Effects",
    "Evidence",
    "FitSettings",
    "Fitted",
    "Graded",
    "Heading",
    "Lengths",
    "Observation",
    "Outcome",
    "Outcomes",
    "Prediction",
    "ResidualFit",
    "Shape",
    "Switch",
    "TextFit",
    "Way",
    "assemble",
    "cell_at",
    "changes",
    "cost_by",
    "discover_types",
    "estimated",
    "fit_effects",
    "fit_lengths",
    "fit_profile",
    "fit_residual",
    "fit_texts",
    "held_out_error",
    "hull_shares",
    "interval",
    "is_sensitive",
    "logit",
    "measured",
    "merge_types",
    "mixed_reward",
    "monotone_caps",
    "outcomes_of",
    "paired_noise",
    "plot_profile",
    "pulled",
    "rates_of",
    "read_outcomes",
    "read_prompts",
    "save_together",
    "shape_of",
    "shrink_cells",
    "shrink_families",
    "shrink_types",
    "shrink_ways",
    "sigmoid",
    "switches",
    "token_rates",
    "with_residual",
    "with_reward",
    "with_tail",
]
