"""A decision in words and as a record: what, why, what was second, at which λ it flips."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from budgetroute.policy import flip_price
from budgetroute.units import usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.pacing import PacingPlan
    from budgetroute.records import Candidate, Decision, Settlement
    from budgetroute.router.picks import Pick

_ENCODER = msgspec.json.Encoder()
_RARE = (
    "cache_write_long_tokens",
    "audio_tokens",
    "image_tokens",
    "audio_output_tokens",
    "image_output_tokens",
    "searches",
    "map_queries",
    "from_cache",
)
"""Counts that a record holds only where there are any."""
NOTHING_GATED = msgspec.Raw(b"{}")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def runner_up(pick: Pick, chosen: Candidate) -> Candidate | None:
    """Return the best candidate besides the chosen one."""
    return next((c for c in pick.ranking.best if c.action != chosen.action), None)


def reason_for(pick: Pick, chosen: Candidate) -> str:
    """Return one line that says why this candidate wins at this price."""
    if pick.ranking.best and chosen is pick.ranking.best[0]:
        if not pick.said:
            pick.said.append(_reason(pick, chosen))
        return pick.said[0]
    return _reason(pick, chosen)


def _reason(pick: Pick, chosen: Candidate) -> str:
    second = runner_up(pick, chosen)
    if pick.fallback:
        return f"routing failed: {pick.fallback}"
    if second is None:
        return "the only candidate"
    if chosen.reward is None or second.reward is None:
        return "pinned; it has no curve"
    text = _compared(chosen, second, price=pick.price)
    return (
        f"warm-up has bought its share, λ is at its ceiling: {text}" if pick.is_held_back else text
    )


def _compared(first: Candidate, second: Candidate, *, price: float) -> str:
    extra, gain = first.cost - second.cost, (first.reward or 0.0) - (second.reward or 0.0)
    points, flips = f"{gain * 100:+.1f} points", flip_price(first, second)
    if extra == 0:
        return f"{points} at the same cost" if gain else "the runner-up is no better and holds more"
    if extra < 0:
        text = f"cheaper by ${-extra:.6f} at {points}"
        return f"{text}; flips below λ {flips:.4g}" if flips else text
    worth = f"${1 / price:.4g} buys a unit" if price > 0 else "money is free now"
    text = f"{points} for ${extra:.6f} more ({worth})"
    return text if flips is None else f"{text}; flips above λ {flips:.4g}"


def shadow_words(usual: Candidate, virtual: Decision | None, why_not: str) -> str:
    """Return one line that sets what was sent in shadow mode against what `on` would have taken."""
    if virtual is None:
        return f"shadow: the baseline is sent; on would have raised: {why_not}"
    other = virtual.chosen
    if other.action == usual.action:
        return "shadow: the baseline is sent, and on would have taken it too"
    text = f"shadow: the baseline is sent; on would have taken {other.action.label}: "
    extra = other.cost - usual.cost
    text += f"${abs(extra):.6f} {'more' if extra > 0 else 'less'}"
    if usual.reward is None or other.reward is None:
        return f"{text}, reward not comparable"
    return f"{text}, {(other.reward - usual.reward) * 100:+.1f} points"


def shadow_seen(virtual: Decision | None, why_not: str) -> Mapping[str, Any]:
    """Return what a decision's record keeps of the virtual one."""
    if virtual is None:
        return {"shadow": {"refused": why_not}}
    chosen = virtual.chosen
    return {
        "shadow": {
            "decision": virtual.id,
            "action": chosen.action.label,
            "R": chosen.reward,
            "C": chosen.cost,
        }
    }


def decision_record(
    pick: Pick, steps: Sequence[Candidate], *, beside: Mapping[str, Any] = _NOTHING
) -> str:
    """Return what was seen when choosing as JSON without prompt text or tag values.

    Args:
        pick: what choosing came to.
        steps: the candidates in the order in which money was asked for.
        beside: further fields.
    """
    usual = pick.ranking.baseline
    return _ENCODER.encode(
        {
            "v": 1,
            "route": pick.request.route,
            "types": pick.weights,
            "by": pick.classified_by,
            "input_tokens": round(pick.sizing.counted, 1),
            "lambda": pick.price,
            "propensity": pick.propensity,
            "plan_steps": pick.plan_steps,
            **_mixed(pick.plan),
            **_guessed(pick),
            "floor": pick.request.floor,
            "fallback": pick.fallback,
            "after": pick.request.after,
            "best": pick.ranking.shown,
            "steps": [c.action.label for c in steps],
            "worst": [usd_from_pico(c.worst) for c in steps],
            **_raised(steps),
            **_gammas(steps),
            "gated": pick.gated,
            "baseline": None
            if usual is None
            else {"action": usual.action.label, "R": usual.reward, "C": usual.cost},
            "why": reason_for(pick, steps[0]),
            **beside,
        }
    ).decode()


def _mixed(plan: PacingPlan | None) -> dict[str, Any]:
    """Return λ_low, λ_high and f of a plan with two prices."""
    if plan is None or plan.low == plan.high:
        return {}
    return {"plan": (plan.low, plan.high, plan.share)}


def _guessed(pick: Pick) -> dict[str, Any]:
    """Return (times longer its answers, least and largest addition to R), where a model guesses."""
    if pick.guess is None:
        return {}
    times = [math.exp(pick.guess.length), *pick.guess.spread]
    return {"guess": [round(value, 4) for value in times]}


def _gammas(steps: Sequence[Candidate]) -> dict[str, Any]:
    """Return label → γ in its C, where calls have cost other than predicted."""
    found = {c.action.label: round(c.gamma, 4) for c in steps if c.gamma != 1.0}
    return {"gamma": found} if found else {}


def _raised(steps: Sequence[Candidate]) -> dict[str, Any]:
    """Return label → (dollars that would be held had no bill crossed them, why more is held)."""
    found = {
        c.action.label: (usd_from_pico(c.declared), c.raised)
        for c in steps
        if c.declared is not None
    }
    return {"raised": found} if found else {}


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
        seen |= {name: count for name in _RARE if (count := getattr(usage, name))}
    if settlement.overshoot:
        seen["overshoot_usd"] = usd_from_pico(settlement.overshoot)
    return _ENCODER.encode(seen | {"planned": decision.action.label}).decode()


def tally(reasons: Mapping[str, str]) -> msgspec.Raw:
    """Return reason → labels as ready JSON; it is the same for every request of a slate."""
    by_reason: dict[str, list[str]] = {}
    for label, why in reasons.items():
        by_reason.setdefault(why, []).append(label)
    return msgspec.Raw(_ENCODER.encode(by_reason))
