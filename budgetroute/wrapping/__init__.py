"""`wrap`: a client whose language-model calls are routed, and whose other paid calls are refused."""

from budgetroute.wrapping.client import wrap

__all__ = ["wrap"]
