"""The forecast: how many requests are still to come, of which group, and how they spread over time."""

from budgetroute.forecast.outlook import DAYS, Outlook, level, outlook, to_come
from budgetroute.forecast.persistence import persistence
from budgetroute.forecast.shapes import (
    BUCKETS,
    calls_to_come,
    shape_from_days,
    share_between,
    share_of_rest,
)

__all__ = [
    "BUCKETS",
    "DAYS",
    "Outlook",
    "calls_to_come",
    "level",
    "outlook",
    "persistence",
    "shape_from_days",
    "share_between",
    "share_of_rest",
    "to_come",
]
