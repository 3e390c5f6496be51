"""Which prompt type a request is: explicit, by rule, by text, else `general`."""

from budgetroute.classify.chain import Chain
from budgetroute.classify.linear import LinearClassifier
from budgetroute.classify.nearest import Centroids, SimHash
from budgetroute.classify.residual import Residual
from budgetroute.classify.rules import Rule, Rules, rule_from_config

__all__ = [
    "Centroids",
    "Chain",
    "LinearClassifier",
    "Residual",
    "Rule",
    "Rules",
    "SimHash",
    "rule_from_config",
]
