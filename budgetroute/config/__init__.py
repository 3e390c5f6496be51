"""Reads budgetroute.toml, the environment and arguments into one frozen Config.

`load_config` is the door: file (found upwards, or named), then `BUDGETROUTE_*`, then arguments.
"""

from __future__ import annotations

from budgetroute.config.budget import BudgetConfig, PacingConfig, StoreConfig
from budgetroute.config.environment import is_disabled
from budgetroute.config.limits import LimitConfig
from budgetroute.config.load import load_config
from budgetroute.config.model import (
    ClassifyConfig,
    Config,
    ModelConfig,
    RouteConfig,
    TypeConfig,
)

__all__ = [
    "BudgetConfig",
    "ClassifyConfig",
    "Config",
    "LimitConfig",
    "ModelConfig",
    "PacingConfig",
    "RouteConfig",
    "StoreConfig",
    "TypeConfig",
    "is_disabled",
    "load_config",
]
