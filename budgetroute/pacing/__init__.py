"""Pacing: how the shadow price λ follows the spend. Pure functions of a plan and what was seen.

`solve` plans λ from what is left of money and traffic, `dual` steps it after each period of spend,
`fixed` keeps it. Start-up λ comes from the profile's linear program.
"""

from budgetroute.pacing.calibration import Calibration, gamma_of, moved
from budgetroute.pacing.dual import (
    DEFAULT_ETA,
    due,
    in_force,
    planned_share,
    start,
    step,
    touched,
    warming_up,
    warmup_allowance,
    warmup_mark,
)
from budgetroute.pacing.plans import Bound, PaceView, PacingPlan, PacingRule, dearest, evenly
from budgetroute.pacing.program import (
    Group,
    Program,
    capped,
    fill,
    floor_cost,
    prepare,
    solve,
    span,
)
from budgetroute.pacing.solving import days_ahead, resolved, solving_due

__all__ = [
    "DEFAULT_ETA",
    "Bound",
    "Calibration",
    "Group",
    "PaceView",
    "PacingPlan",
    "PacingRule",
    "Program",
    "capped",
    "days_ahead",
    "dearest",
    "due",
    "evenly",
    "fill",
    "floor_cost",
    "gamma_of",
    "in_force",
    "moved",
    "planned_share",
    "prepare",
    "resolved",
    "solve",
    "solving_due",
    "span",
    "start",
    "step",
    "touched",
    "warming_up",
    "warmup_allowance",
    "warmup_mark",
]
