"""The attempts of one call: the same action again, then a decision without what failed.

Every attempt has its own reservation, and all of them together a bound and a deadline. What failed
is not asked again in the same call, so the cycle of retries never starts over.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from budgetroute.backends.failures import fault_of, retry_after
from budgetroute.calls.flight import Flight
from budgetroute.errors import BudgetExceeded, BudgetRouteError, ConfigError, StoreError
from budgetroute.oneline import one_line
from budgetroute.records import Failure
from budgetroute.router.choosing import ROUTING_FAILURES

if TYPE_CHECKING:
    from types import TracebackType

    from tenacity import RetryCallState

    from budgetroute.backends.failures import Fault
    from budgetroute.records import Request
    from budgetroute.router import Router

logger = logging.getLogger("budgetroute.decide")

BACKOFF_S = 0.5
"""First back-off between attempts, seconds; doubled and jittered, at most 8 s."""
_BACKOFF_MAX_S = 8.0
_TRIES = 2  # of one model while there is another
_ALONE = frozenset({"custom"})  # servers of one's own have nothing in common but this name


class Attempts:
    """What one call sends: decides, and after a failure says what follows.

    A context manager round all attempts: what is held for one that never begins is given back.

    Args:
        router: who decides.
        request: what was asked.
        most: requests at most, whatever they are sent to.
        deadline: by `time.monotonic()`, for all of them.

    Attributes:
        flight: of the next attempt, or of the one under way.
        pause: seconds to wait before the next attempt.
    """

    def __init__(self, router: Router, request: Request, *, most: int, deadline: float) -> None:
        self.flight = Flight(router, request, unsent=(ConfigError,))
        self.pause = 0.0
        self._most = most
        self._deadline = deadline
        self._jitter = 0.5 + secrets.randbelow(1000) / 2000  # one draw: what is judged is waited
        self._made = 0
        self._tries = 0  # of this model
        self._failed: dict[str, Failure] = {}
        self._again: BaseException | None = None  # the same action follows this error
        self._is_waiting = True  # money is held for an attempt that has not begun

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_waiting:
            self.flight.unused()

    def begin(self) -> Flight:
        """Hold money for the next attempt if none is held yet; return its flight.

        Raises:
            BudgetExceeded: it does not fit, and nothing else does.
            StoreError: the ledger cannot be reached.
        """
        error, self._again = self._again, None
        if error is not None:
            self._hold_again(error)
        self._is_waiting = False
        self._made += 1
        self._tries += 1
        return self.flight

    def go_on(self, state: RetryCallState) -> bool:
        """Say whether another attempt follows a failure, and make ready for it: tenacity's `retry`.

        Raises:
            BudgetExceeded: another model could have answered, but nothing fits any more.
            StoreError: the ledger cannot be reached.
        """
        error = state.outcome.exception() if state.outcome else None
        if error is None:
            return False
        fault = fault_of(error)
        wait = self._wait(error)
        now = time.monotonic()
        if fault.lies_with == "call" or self._made >= self._most or now >= self._deadline:
            return self._gives_up(error)
        is_same = fault.may_pass and now + wait < self._deadline
        if is_same and self._tries < min(_TRIES, self._most - 1):
            return self._stays(error, wait)
        if self._moves(error, fault, is_last=not is_same):
            return True
        return self._stays(error, wait) if is_same else self._gives_up(error)

    def _stays(self, error: BaseException, wait: float) -> bool:
        self._again, self.pause = error, wait
        return True

    def _moves(self, error: BaseException, fault: Fault, *, is_last: bool) -> bool:
        """Decide again without what failed; say whether there was something else.

        A pin leaves nothing else. With `is_last` a budget that refuses is raised; otherwise the same
        action can still be tried.
        """
        flight = self.flight
        request = flight.request
        failed = self._failed | {flight.decision.model: self._failure(fault)}
        again = replace(request, failed=tuple(failed.values()), after=flight.decision.id)
        try:
            self.flight = Flight(flight.router, again, unsent=(ConfigError,))
        except BudgetExceeded as exceeded:
            if is_last:
                raise exceeded from error
            return False
        except StoreError as err:
            raise err from error
        except ROUTING_FAILURES as err:
            self._say_alone(err)
            return False
        self._is_waiting = True
        self._failed, self._tries, self.pause = failed, 0, 0.0
        return True

    def _failure(self, fault: Fault) -> Failure:
        model = self.flight.decision.model
        card = self.flight.router.equipment.facts(model).card
        whole = fault.lies_with == "provider" and card.provider not in _ALONE
        return Failure(
            model,
            fault.why,
            provider=card.provider if whole else None,
            context=card.max_input_tokens if fault.is_too_long else None,
        )

    def _hold_again(self, error: BaseException) -> None:
        try:
            self.flight.retry()
        except BudgetExceeded as exceeded:
            if not self._moves(error, fault_of(error), is_last=True):
                raise exceeded from error
        except BudgetRouteError as err:
            raise err from error

    def _wait(self, error: BaseException) -> float:
        """Return seconds until the same model may be asked: as it says, else a back-off."""
        asked = retry_after(error)
        if asked is not None:
            return asked
        return self._jitter * min(_BACKOFF_MAX_S, BACKOFF_S * 2.0**self._tries)

    def _say_alone(self, err: Exception) -> None:
        told = one_line(str(err)) if isinstance(err, BudgetRouteError) else type(err).__name__
        route, model = self.flight.request.route, self.flight.decision.model
        logger.info("route %r: nothing replaces %s: %s", route, one_line(model), told)

    def _gives_up(self, error: BaseException) -> bool:
        """Let the error be raised as it is, with a note of what failed before."""
        if self._failed and not isinstance(error, BudgetRouteError):
            before = "; ".join(f"{name}: {failure.why}" for name, failure in self._failed.items())
            error.add_note(f"budgetroute asked other models before. {before}")
        return False
