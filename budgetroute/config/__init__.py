"""Reads budgetroute.toml, the environment and arguments into one frozen Config."""

from __future__ import annotations

from budgetroute.config.model import (
    BudgetConfig,
    ClassifyConfig,
    Config,
    ModelConfig,
    PacingConfig,
    RouteConfig,
    StoreConfig,
    TypeConfig,
)

__all__ = [
    "BudgetConfig",
    "ClassifyConfig",
    "Config",
    "ModelConfig",
    "PacingConfig",
    "RouteConfig",
    "StoreConfig",
    "TypeConfig",
]
