"""A decision in words and as a record: what, why, what was second, at which λ it flips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from budgetroute.policy import surplus
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.records import Candidate, Decision, Settlement
    from budgetroute.router.choosing import Pick

_ENCODER = msgspec.json.Encoder()


def reason_for(
    first: Candidate, second: Candidate | None, *, flips_at: float | None, price: float
) -> str:
    """Return one line that says why the winner beats the runner-up at this price."""
    if second is None:
        return "the only candidate"
    if first.reward is None or second.reward is None:
        return "pinned; it has no curve"
    extra, gain = first.cost - second.cost, first.reward - second.reward
    gain_text = f"{gain * 100:+.1f} points"
    if extra == 0 and gain == 0:
        return "the runner-up is no better and holds more"
    if extra <= 0:
        return f"cheaper by ${-extra:.6f} at {gain_text}"
    flips = "" if flips_at is None else f"; flips above λ {flips_at:.4g}"
    worth = f"${1 / price:.4g} buys a unit" if price > 0 else "money is free now"
    return f"{gain_text} for ${extra:.6f} more ({worth}){flips}"


def decision_record(pick: Pick, steps: Sequence[Candidate]) -> str:
    """Return what was seen when choosing as JSON without prompt text or tag values.

    Args:
        pick: what choosing came to.
        steps: the candidates in the order in which money was asked for.
    """
    price = pick.price
    return _ENCODER.encode(
        {
            "v": 1,
            "route": pick.request.route,
            "types": pick.weights,
            "by": pick.classified_by,
            "input_tokens": pick.sizing.size.tokens + pick.sizing.size.framing,
            "lambda": price,
            "propensity": pick.propensity,
            "plan_steps": pick.plan_steps,
            "floor": pick.request.floor,
            "fallback": pick.fallback,
            "best": [_row(c, price) for c in pick.ranking.best],
            "steps": [c.action.label for c in steps],
            "gated": _tally(pick.reasons),
        }
    ).decode()


def settlement_record(decision: Decision, settlement: Settlement) -> str:
    """Return how a bill came about as JSON."""
    usage = settlement.usage
    seen: dict[str, Any] = {"source": settlement.source, "billed_as": settlement.billed_as}
    if usage is not None:
        seen |= {
            "input": usage.input_tokens,
            "cached": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
            "reasoning": usage.reasoning_tokens,
            "model": usage.model,
            "service_tier": usage.service_tier,
            "finish": usage.finish_reason,
        }
    if settlement.overshoot:
        seen["overshoot_usd"] = usd_from_pico(settlement.overshoot)
    return _ENCODER.encode(seen | {"planned": decision.action.label}).decode()


def _row(candidate: Candidate, price: float) -> dict[str, Any]:
    return {
        "action": candidate.action.label,
        "R": candidate.reward,
        "C": candidate.cost,
        "worst": usd_from_pico(candidate.worst),
        "surplus": surplus(candidate, price=price),
        "source": candidate.source,
    }


def _tally(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    tally: dict[str, list[str]] = {}
    for label, why in reasons.items():
        tally.setdefault(why, []).append(label)
    return tally
