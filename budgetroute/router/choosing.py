"""Choosing: classify, gate, price and rank. No money moves here."""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from budgetroute import pacing
from budgetroute.errors import BudgetRouteError, NoEligibleAction, ProfileError
from budgetroute.oneline import one_line
from budgetroute.records import Decision, Pins
from budgetroute.router.paced import mark_of
from budgetroute.router.picks import Pick, decision_of
from budgetroute.router.slate import NO_RANKING, Sizing
from budgetroute.router.solver import Curve
from budgetroute.units import micros_from_time, pico_estimate, time_from_micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.pacing import Group, PacingPlan
    from budgetroute.records import Request
    from budgetroute.router.crossings import Crossings, Raised
    from budgetroute.router.equipment import Equipment
    from budgetroute.router.lanes import Lane
    from budgetroute.router.overheads import Overheads
    from budgetroute.router.paced import Paces
    from budgetroute.router.paces import Pace
    from budgetroute.router.quarantine import Quarantine
    from budgetroute.router.slate import Ranking, Slate
    from budgetroute.units import Pico

logger = logging.getLogger("budgetroute.decide")

CHEAPEST = 1e15
"""λ at which only cost counts."""
ROUTING_FAILURES = (
    NoEligibleAction,
    ProfileError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    OSError,
)
"""What a failure of routing itself can be; the baseline is taken then, unless `strict`."""
_GUARD = 1.5
_BINS = 10
_RECENT = 100
_SERVED_EVERY = 16  # requests of a group between two looks at its mean size
_FREE = Pins()
_GENERAL = (("general", 1.0),)
_FLOOR_PRIOR = 50  # requests that the profile's own traffic counts as in the mean cheapest cost
_FLOOR_MEMORY = 1000


class Chooser:
    """Classifies, gates, prices and ranks.

    Args:
        equipment: lanes by route.
        paces: the shadow prices.
        overheads: what functions add to prompts.
        crossings: worst cases that were crossed lately.
        quarantine: the models that are out for a while.
    """

    def __init__(
        self,
        equipment: Equipment,
        paces: Paces,
        *,
        overheads: Overheads,
        crossings: Crossings,
        quarantine: Quarantine,
    ) -> None:
        self.equipment = equipment
        self.paces = paces
        self.pace = paces.main
        self.overheads = overheads
        self.crossings = crossings
        self.quarantine = quarantine
        self.strict = equipment.config.strict
        self._floors: dict[str, tuple[float, int]] = {}
        self._sizes: dict[str, MeanSize] = {}

    def pick(self, request: Request, draw: float, at: int) -> Pick:
        """Rank what may serve a request at today's price.

        Args:
            request: the request.
            draw: in [0, 1), chooses between λ_low and λ_high.
            at: microseconds since 1970 UTC.
        """
        lane = self.equipment.lane(request.route)
        request = lane.completed(request)
        sizing = self._sizing(lane, request, at)
        try:
            return self._routed(lane, request, sizing, draw, at)
        except ROUTING_FAILURES as err:
            return self._fallen_back(lane, request, sizing, err, self.pace.current(at))

    def without_store(self, request: Request, decision_id: str, draw: float) -> Decision:
        """Choose at the last known price, holding nothing."""
        lane = self.equipment.lane(request.route)
        request = lane.completed(request)
        bound = lane.settings.input_tokens
        sizing = Sizing(request.size, 0.0, bound, request.calls, request.terms)
        sizing = _raised(sizing, request.route, self.crossings.last_seen)
        plan = self.pace.last_seen()
        try:
            pick = self._unheld(lane, request, sizing, draw)
        except ROUTING_FAILURES as err:
            pick = self._fallen_back(lane, request, sizing, err, plan)
        at = micros_from_time(self.pace.store.now())
        return decision_of(pick, pick.ranking.best[0], decision_id, at)

    def as_usual(self, request: Request, pick: Pick | None, at: int) -> Pick:
        """Return a pick of what the code does without us; `pick` is what `on` would have picked.

        Raises:
            NoEligibleAction: the code has no baseline, or it cannot be bounded.
            UnpricedModel: the baseline has no price.
        """
        lane = self.equipment.lane(request.route)
        if pick is None:
            request = lane.completed(request)
            sizing = self._sizing(lane, request, at)
            pick = Pick(
                request, NO_RANKING, sizing, _GENERAL, "", price=0.0, propensity=1.0, plan_steps=0
            )
        usual = pick.ranking.baseline or lane.usual(pick.request, pick.sizing, pick.weights)
        alone = replace(pick.ranking, best=(usual,), steps=(usual,), baseline=usual)
        return replace(pick, ranking=alone, slate=None, said=[])

    def _routed(self, lane: Lane, request: Request, sizing: Sizing, draw: float, at: int) -> Pick:
        weights, by = lane.chain.classify(request)
        eligible = lane.eligible(request, weights[0][0], self.quarantine.out(at))
        paces = self.paces.of(request)
        group = self._grouped(paces, request, sizing, weights[0][0], eligible.slate)
        guess = lane.chain.guess(request)
        rank = partial(eligible.slate.rank, weights, sizing, floor=request.floor, guess=guess)
        plans = [p.current(at, lambda calls: self._curves(lane, request, calls)) for p in paces]
        price, propensity, dearest = pacing.dearest(plans, draw)
        ranking = rank(price=price)
        cold = self._cold(ranking, paces, plans, at)
        if cold is not None:  # 1.5 × its share is bought: λ's ceiling
            price, propensity, dearest = 2 * plans[cold].e_max or CHEAPEST, 1.0, cold
            ranking = rank(price=price)
        self._check(lane, request, ranking)
        return Pick(
            request=request,
            ranking=ranking,
            sizing=sizing,
            weights=weights,
            classified_by=by,
            price=price,
            propensity=propensity,
            plan_steps=plans[dearest].steps,
            guards={pace.slot(at): self._guard(pace, ranking, at) for pace in paces},
            priced_by=paces[dearest].name,
            reasons=eligible.reasons,
            gated=eligible.gated,
            slate=eligible.slate,
            group=group,
            is_held_back=cold is not None,
            plan=plans[dearest],
            guess=guess,
        )

    def _unheld(self, lane: Lane, request: Request, sizing: Sizing, draw: float) -> Pick:
        weights, by = lane.chain.classify(request)
        eligible = lane.eligible(request, weights[0][0], self.quarantine.last_seen())
        plans = [plan for p in self.paces.seen(request) if (plan := p.last_seen()) is not None]
        price, propensity, _ = pacing.dearest(plans, draw) if plans else (CHEAPEST, 1.0, 0)
        guess = lane.chain.guess(request)
        ranking = eligible.slate.rank(
            weights, sizing, price=price, floor=request.floor, guess=guess
        )
        self._check(lane, request, ranking)
        return Pick(
            request, ranking, sizing, weights, by, price, propensity, plan_steps=0,
            reasons=eligible.reasons, gated=eligible.gated, slate=eligible.slate, guess=guess,
        )  # fmt: skip

    def _grouped(
        self,
        paces: Sequence[Pace],
        request: Request,
        sizing: Sizing,
        prompt_type: str,
        slate: Slate,
    ) -> str:
        """Return the request's group, and let the solvers know its curve."""
        if request.after:  # it was counted, and its group keeps the models that failed now
            return ""
        group = group_of(self.pace.app, request, prompt_type)
        group += "".join([mark_of(pace.scope) for pace in paces[1:]])
        if self.pace.solver is not None:
            counted = sizing.counted + sizing.expected_overhead
            size = self._sizes.setdefault(group, MeanSize())
            size.add(max(0.0, counted))
            if size.seen % _SERVED_EVERY == 1:
                tokens, calls = size.rounded, request.calls
                for solver in [pace.solver for pace in paces if pace.solver is not None]:
                    solver.serves(
                        group,
                        (id(slate), tokens, calls),
                        lambda: Curve(slate.curve(prompt_type, tokens), calls),
                    )
        return group

    def _curves(self, lane: Lane, request: Request, calls: float) -> Sequence[Group]:
        """Return so many calls with the curves of what this route can send in general."""
        return self.equipment.groups(calls, lane.open_to(request), route=lane.name)

    def _cold(
        self, ranking: Ranking, paces: Sequence[Pace], plans: Sequence[PacingPlan], at: int
    ) -> int | None:
        """Return the place of a scope whose warm-up may not buy the best candidate; None = none."""
        for place, (pace, plan) in enumerate(zip(paces, plans, strict=True)):
            allowance = pace.allowance(plan, at)
            if allowance is None or not ranking.best:
                continue
            if pico_estimate(ranking.best[0].cost) > allowance:
                return place
        return None

    def _check(self, lane: Lane, request: Request, ranking: Ranking) -> None:
        if not ranking.best:
            raise unbounded(lane.name, request, ranking)
        if ranking.floor_missed and self.strict:
            best = ranking.best[0]
            raise NoEligibleAction(
                f"route {lane.name!r}: no action reaches the floor {request.floor}; the best is "
                f"{best.action.label} at {best.reward:.3f}. Lower the floor, or add better models."
            )

    def _guard(self, pace: Pace, ranking: Ranking, at: int) -> Pico:
        """Return what must stay free: 1.5 × the traffic to come at its mean cheapest cost."""
        known = self._floors.get(pace.scope)
        mean, count = known or (pacing.floor_cost(pace.curves(1.0)), _FLOOR_PRIOR)
        mean += (ranking.least_cost - mean) / (count + 1)
        self._floors[pace.scope] = (mean, min(count + 1, _FLOOR_MEMORY))
        return pico_estimate(_GUARD * mean * pace.calls_to_come(at))

    def _sizing(self, lane: Lane, request: Request, at: int) -> Sizing:
        default = lane.settings.input_tokens if request.hidden_input else 0
        overhead = self.overheads.of(request.route, default=default, at=at)
        sizing = Sizing(
            request.size,
            overhead.expected,
            overhead.bound,
            request.calls,
            request.terms,
            self.pace.factors,
            at=time_from_micros(at),
        )
        return _raised(sizing, request.route, self.crossings.raised(at))

    def _fallen_back(
        self,
        lane: Lane,
        request: Request,
        sizing: Sizing,
        err: Exception,
        plan: PacingPlan | None,
    ) -> Pick:
        """Take the baseline, unless `strict` forbids that or it must not serve the request."""
        ranking = None if self.strict else lane.fallback(request, sizing)
        if ranking is None or not ranking.best:
            raise err
        told = one_line(str(err)) if isinstance(err, BudgetRouteError) else type(err).__name__
        logger.warning("routing of %r failed, the baseline is taken: %s", lane.name, told)
        return Pick(
            request=request,
            ranking=ranking,
            sizing=sizing,
            weights=_GENERAL,
            classified_by="fallback",
            price=plan.high if plan else 0.0,
            propensity=1.0,
            plan_steps=plan.steps if plan else 0,
            fallback=told,
        )


def _raised(sizing: Sizing, route: str, raised: Raised) -> Sizing:
    if not raised:
        return sizing
    return replace(sizing, raised=raised, more_calls=raised.responses.get(route, 0))


def unbounded(route: str, request: Request, ranking: Ranking) -> NoEligibleAction:
    """Return the error for a request whose cost nothing bounds, whatever is chosen."""
    if request.size.images:
        return NoEligibleAction(
            f"route {route!r}: the prompt has images and no model says how many tokens one "
            'costs. Write image_tokens under [models."NAME"].',
            dict.fromkeys(ranking.unbounded, "images cannot be bounded"),
        )
    return NoEligibleAction(
        f"route {route!r}: every model left is paid by time, and nothing says how long a call may "
        f"take. Pass timeout= to the call, or write timeout_s under [routes.{route}].",
        dict.fromkeys(ranking.unbounded, "its time cannot be bounded"),
    )


class MeanSize:
    """Mean input tokens of a group's recent requests, rounded so that curves are not made for nothing."""

    __slots__ = ("_mean", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self._mean = 0.0

    def add(self, tokens: float) -> None:
        """Note one request; the last hundred weigh most."""
        self.seen += 1
        self._mean += (tokens - self._mean) / min(self.seen, _RECENT)

    @property
    def rounded(self) -> float:
        """Return the mean to within a twentieth."""
        return math.exp(round(math.log(max(1.0, self._mean)) * 10) / 10)


def group_of(app: str, request: Request, prompt_type: str) -> str:
    """Return the key of a request's group: app, route, type, input-size bin, and its pins if any."""
    tokens = request.size.tokens
    bin_number = min(_BINS - 1, max(0, int(math.log2(tokens + 1)) - 4))
    key = f"{app}|{request.route}|{prompt_type}|{bin_number}"
    pins = _alike(request.pins)
    if pins == _FREE:
        return key
    return f"{key}|{hashlib.blake2b(repr(pins).encode(), digest_size=4).hexdigest()}"


def _alike(pins: Pins) -> Pins:
    """Return pins as groups tell them apart, so that computed ones make no group for each call.

    A temperature changes no curve; caps up to the same power of two share one.
    """
    cap = pins.max_tokens
    rounded = None if cap is None else 1 << (cap - 1).bit_length()
    return replace(pins, temperature=None, max_tokens=rounded)
