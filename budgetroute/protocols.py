"""The seams: what the router needs of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from budgetroute.records import (
        Ask,
        Balance,
        Bill,
        Booked,
        Decision,
        Entry,
        Grade,
        Grant,
        InputSize,
        ModelCard,
        Pick,
        Price,
        Reference,
        Refusal,
        Request,
        Response,
        Settlement,
        Slot,
        StoredPlan,
    )


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return the current time, aware UTC."""
        ...


class Store(Protocol):
    """A ledger and a place for the plan. Each operation is one transaction; it knows no maths.

    Every operation may raise StoreError; `retryable` says whether trying again can help.
    """

    def now(self) -> datetime:
        """Return the time that periods and leases go by (aware UTC)."""
        ...

    def reserve(self, ask: Ask) -> Grant | Refusal:
        """Hold the first option that fits every limit, or change nothing.

        A second reservation of the same attempt id raises StoreError.
        """
        ...

    def settle(self, bill: Bill) -> Booked:
        """Replace a hold by its bill, or by the expected cost when the bill is unknown.

        Idempotent: a settled attempt stays as it is. An estimated one is corrected by a later
        bill. A bill whose hold was lost is booked all the same.
        """
        ...

    def release(self, attempt: str, at: int) -> bool:
        """Give back what a call that costs nothing holds, because it was not sent or not billed.

        So is the estimate of a hold whose lease ran out. False if there is nothing to give back.
        """
        ...

    def sweep(self, at: int) -> int:
        """Settle holds whose lease ran out as estimated; return how many."""
        ...

    def snapshot(self, slots: Sequence[Slot]) -> tuple[Balance, ...]:
        """Return the sums of these slots as they stand."""
        ...

    def load_plan(self, key: str) -> StoredPlan:
        """Return the plan kept under `key`; version 0 and value None when there is none."""
        ...

    def save_plan(self, key: str, value: str, *, expected_version: int) -> bool:
        """Write the plan if its version is still `expected_version`; say whether it was."""
        ...

    def mark(self, slot: Slot, name: str) -> bool:
        """Set a mark on a slot; say whether it is new, to exactly one of all that ask.

        Marks of an ended period are dropped with the sums of scopes that are one of many.
        """
        ...

    def scope_key(self) -> bytes:
        """Return the secret that tag values are hashed with: one for all that share the store."""
        ...

    def history(self, scope: str) -> Mapping[str, Balance]:
        """Return period id → sums of every period this scope has."""
        ...

    def arrivals(self, prefix: str) -> Mapping[tuple[str, str], int]:
        """Return (group, bucket) → requests counted, for buckets starting with `prefix`."""
        ...

    def find(self, decision: str) -> tuple[Entry, ...]:
        """Return the attempts of the decision whose id starts with `decision`, oldest first."""
        ...

    def recent(self, count: int) -> tuple[Entry, ...]:
        """Return the newest attempts, newest first."""
        ...

    def close(self) -> None:
        """Release files and connections; the next operation opens them again."""
        ...


class PriceSource(Protocol):
    """Where prices and capabilities come from."""

    def price(self, key: str) -> Price:
        """Return the price under `key`; raises UnpricedModel when it is not known."""
        ...

    def card(self, key: str) -> ModelCard:
        """Return what is known about the model; provider `custom` when nothing is."""
        ...


class Classifier(Protocol):
    """Sorts a request into prompt types."""

    def classify(self, request: Request) -> tuple[tuple[tuple[str, float], ...], str] | None:
        """Return ((type, weight), … heaviest first, summing to 1) and who says so; None = pass."""
        ...


class Tokenizer(Protocol):
    """Measures prompts without the network."""

    def measure(self, text: str) -> InputSize:
        """Return the size of a text."""
        ...


class Observer(Protocol):
    """Is told what happened; a failure in it never reaches the call.

    Two more methods are called where an observer has them: `warned(warning)` with a LimitWarning,
    and `refused(route, error)` with the BudgetExceeded that is about to be raised.
    """

    def decided(self, decision: Decision) -> None:
        """Tell of a decision."""
        ...

    def settled(self, decision: Decision, settlement: Settlement) -> None:
        """Tell of a settlement."""
        ...

    def stepped(self, fields: Mapping[str, object]) -> None:
        """Tell of a change of the shadow price."""
        ...


class ChatBackend(Protocol):
    """Sends one chat request, as `backends.LiteLLMBackend` does."""

    def complete(self, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the library takes and returns
        """Return the response; blocks until it is whole."""
        ...


class Grader(Protocol):
    """Says what the responses to one prompt are worth."""

    def grade(self, responses: Sequence[Response], reference: Reference) -> Grade:
        """Return one grade for all choices of one call; may block where grading is a call itself."""
        ...


class Verifier(Protocol):
    """Picks one of several responses without knowing the reference."""

    def pick(self, responses: Sequence[Response], prompt: str | None) -> Pick:
        """Return which response to take; responses have text."""
        ...
