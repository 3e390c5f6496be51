"""What the stores say when they refuse, worded once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from budgetroute.records import Ask, AttemptState

_SHOWN = 5


class StrangeContentError(StoreError):
    """Raise for content that budgetroute never writes; it is not interpreted any further."""


def reserved_twice(ask: Ask, state: AttemptState) -> StoreError:
    """Return the error for a second reservation of one attempt id."""
    return StoreError(
        f"attempt {ask.attempt!r} cannot be reserved: it is in the ledger already, {state}. "
        f"Give each attempt of a decision its own id ({ask.decision}#1, {ask.decision}#2, …)."
    )


def locked_out(path: Path, patience_s: float) -> StoreError:
    """Return the error for a file that others kept locked; trying again may help."""
    return StoreError(
        f"store {path} stayed locked by another process for {patience_s:g} s. Try again, or find "
        f"who holds it (a backup, a debugger, a stopped process).",
        retryable=True,
    )


def sole_decision(prefix: str, found: Sequence[str]) -> str | None:
    """Return the one decision that `prefix` names; None when there is none.

    Raises:
        StoreError: several decisions start so and none is exactly this.
    """
    if prefix in found:
        return prefix
    if len(found) > 1:
        shown = ", ".join(sorted(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise StoreError(f"decision {prefix!r} is ambiguous: {shown}. Write more of the id.")
    return found[0] if found else None
