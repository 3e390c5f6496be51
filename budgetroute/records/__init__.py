"""Frozen data that everything else speaks in."""

from budgetroute.records.actions import AXES, Action, Axis, Pins, Plan
from budgetroute.records.decisions import Candidate, CostSource, Decision, Request, Settlement
from budgetroute.records.ledger import (
    Arrival,
    Ask,
    Attempt,
    AttemptState,
    Balance,
    Bill,
    Booked,
    Entry,
    Grant,
    Limit,
    Option,
    Refusal,
    Slot,
    StoredPlan,
)
from budgetroute.records.prices import InputSize, ModelCard, Price, Rates, Usage
from budgetroute.records.profiles import Cell, CellSource, ClassifierRef, Profile, PromptType

__all__ = [
    "AXES",
    "Action",
    "Arrival",
    "Ask",
    "Attempt",
    "AttemptState",
    "Axis",
    "Balance",
    "Bill",
    "Booked",
    "Candidate",
    "Cell",
    "CellSource",
    "ClassifierRef",
    "CostSource",
    "Decision",
    "Entry",
    "Grant",
    "InputSize",
    "Limit",
    "ModelCard",
    "Option",
    "Pins",
    "Plan",
    "Price",
    "Profile",
    "PromptType",
    "Rates",
    "Refusal",
    "Request",
    "Settlement",
    "Slot",
    "StoredPlan",
    "Usage",
]
