"""`@route`: puts the budget between a function and the model it calls."""

from budgetroute.decorate.route import route

__all__ = ["route"]
