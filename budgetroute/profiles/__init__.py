"""Profiles on disk: find, read, check, write, judge.

A profile is JSON ("budgetroute-profile/1") with the curves of every prompt type; the classifier's
arrays lie beside it in an `.npz` whose hash it names. Nothing in either file is executed.
"""

from __future__ import annotations

from budgetroute.profiles.files import (
    classifier_path,
    load_profile,
    profile_path,
    save_profile,
    shipped,
)
from budgetroute.profiles.lint import CostOf, Flaw, judge_profile, lint_profile
from budgetroute.profiles.reading import parse_profile
from budgetroute.profiles.writing import dump_profile

__all__ = [
    "CostOf",
    "Flaw",
    "classifier_path",
    "dump_profile",
    "judge_profile",
    "lint_profile",
    "load_profile",
    "parse_profile",
    "profile_path",
    "save_profile",
    "shipped",
]
