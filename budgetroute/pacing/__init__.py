"""Pacing: how the shadow price λ follows the spend. Pure functions of a plan and what was seen.

`solve` plans λ from what is left of money and traffic, `dual` steps it after each period of spend,
`fixed` keeps it. Start-up λ comes from the profile's linear program.
"""

from budgetroute.pacing.dual import (
    DEFAULT_ETA,
    due,
    in_force,
    planned_share,
    start,
    step,
    warming_up,
    warmup_allowance,
)
from budgetroute.pacing.plans import PaceView, PacingPlan, PacingRule, evenly
from budgetroute.pacing.program import Group, floor_cost, solve, span

__all__ = [
    "DEFAULT_ETA",
    "Group",
    "PaceView",
    "PacingPlan",
    "PacingRule",
    "due",
    "evenly",
    "floor_cost",
    "in_force",
    "planned_share",
    "solve",
    "span",
    "start",
    "step",
    "warming_up",
    "warmup_allowance",
]
