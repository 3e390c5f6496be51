"""What choosing came to, where its money is held, and the decision that both make."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from budgetroute.policy import flip_price
from budgetroute.records import Decision
from budgetroute.router.words import NOTHING_GATED, reason_for, runner_up
from budgetroute.units import time_from_micros

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from budgetroute.pacing import PacingPlan
    from budgetroute.records import Applied, Balance, Candidate, Guess, Request, Slot
    from budgetroute.router.slate import Ranking, Sizing, Slate
    from budgetroute.units import Pico


@dataclass(frozen=True, slots=True)
class Pick:
    """What choosing came to, before any money is held.

    Attributes:
        request: the request, completed from config.
        ranking: candidates, best first.
        sizing: its tokens.
        weights: (prompt type, weight), heaviest first.
        classified_by: which part of the classifier answered.
        price: λ.
        propensity: probability that this λ was drawn.
        plan_steps: steps of the plan so far.
        guards: paced slot → kept free for the cheapest action's traffic still to come.
        priced_by: name of the paced limit whose λ it is.
        reasons: action label → why it was gated out.
        gated: the same by reason, as ready JSON.
        slate: what was ranked; None for a fallback.
        fallback: why routing failed, if it did.
        group: what the forecast counts the request as: route, type, size, pins.
        guess: how the prompt differs from its type; None = nothing says.
        said: why the winner wins, once it has been put in words.
        is_held_back: warm-up has bought 1.5 times its planned share, so λ stands at its ceiling.
        plan: the plan that λ was drawn from; None = none was needed.
    """

    request: Request
    ranking: Ranking
    sizing: Sizing
    weights: tuple[tuple[str, float], ...]
    classified_by: str
    price: float
    propensity: float
    plan_steps: int
    guards: Mapping[Slot, Pico] = field(default_factory=dict)
    priced_by: str = "day"
    reasons: Mapping[str, str] = field(default_factory=dict)
    gated: msgspec.Raw = field(default_factory=lambda: NOTHING_GATED)
    slate: Slate | None = None
    fallback: str = ""
    group: str = ""
    is_held_back: bool = False
    plan: PacingPlan | None = None
    guess: Guess | None = None
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """Where a reservation counts, and how it came to fit.

    Attributes:
        applied: its limits, the paced day first.
        limit: what the day must stay under; None = unlimited.
        balance: the day's sums after it; None = nothing is held.
        tightest: name of the limit with the least left after it; empty where nothing limits.
        left: what that has left; None where nothing limits.
        bound_by: name of the limit that the best candidate did not fit; empty where it did.
        stepped_down: candidates passed over because they did not fit.
        is_degraded: limits were exhausted, and this lies beyond them.
    """

    applied: tuple[Applied, ...] = ()
    limit: Pico | None = None
    balance: Balance | None = None
    tightest: str = ""
    left: Pico | None = None
    bound_by: str = ""
    stepped_down: int = 0
    is_degraded: bool = False


NOTHING_HELD = Held()
"""Of a decision that runs without a ledger."""


def decision_of(
    pick: Pick,
    chosen: Candidate,
    decision_id: str,
    at: int,
    *,
    held: Held = NOTHING_HELD,
) -> Decision:
    """Return the decision for a chosen candidate."""
    second = runner_up(pick, chosen)
    return Decision(
        id=decision_id,
        route=pick.request.route,
        at=time_from_micros(at),
        chosen=chosen,
        runner_up=second,
        baseline=pick.ranking.baseline,
        types=pick.weights,
        classified_by=pick.classified_by,
        shadow_price=pick.price,
        propensity=pick.propensity,
        priced_by=pick.priced_by,
        flips_at=None if second is None else flip_price(chosen, second),
        reasons=pick.reasons,
        why=reason_for(pick, chosen),
        slots=tuple([limit.slot for limit in held.applied]),
        limits=held.applied,
        tightest=held.tightest,
        left=held.left,
        bound_by=held.bound_by,
        degraded=held.is_degraded,
        limit=held.limit,
        balance=held.balance,
        fallback=bool(pick.fallback),
        input_tokens=pick.sizing.counted,
        images=pick.sizing.size.images,
        calls=pick.sizing.calls,
        terms=pick.sizing.terms,
        stepped_down=held.stepped_down,
        after=pick.request.after,
    )


def draw_of(seed: str) -> float:
    """Return a number in [0, 1) that depends on nothing but the seed.

    >>> 0 <= draw_of("order-7") < 1 and draw_of("order-7") == draw_of("order-7")
    True
    """
    digest = hashlib.blake2b(seed.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
