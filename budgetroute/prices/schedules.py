"""The rates of one entry of litellm's price map: standard, by context, by service tier, by the hour.

Numbers are Decimals (exact in atto-dollars). What a tier or a service does not name is as in the
standard rates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from budgetroute.records import Hours, OffPeak, Rates
from budgetroute.units import atto_from_usd_per_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from budgetroute.units import Atto

__all__ = ["Entry", "Schedule", "is_amount", "off_peak", "rate", "services", "standard"]

Entry: TypeAlias = Mapping[str, Any]
Schedule: TypeAlias = tuple[Rates, tuple[tuple[int, Rates], ...]]
"""Rates, and (input tokens above which they hold, rates) ascending."""

_STEMS = {
    "input": ("input_cost_per_token",),
    "output": ("output_cost_per_token",),
    "cached_input": ("cache_read_input_token_cost",),
    "cache_write": ("cache_creation_input_token_cost",),
    "reasoning": ("output_cost_per_reasoning_token",),
    "cache_write_long": (
        "cache_creation_input_token_cost_above_12hr",
        "cache_creation_input_token_cost_above_1hr",
    ),
    "audio_input": ("input_cost_per_audio_token",),
    "audio_output": ("output_cost_per_audio_token",),
    "image_input": ("input_cost_per_image_token",),
    "image_output": ("output_cost_per_image_token",),
    "cached_audio": ("cache_read_input_audio_token_cost",),
}
_THRESHOLD = re.compile(
    rf"(?:{'|'.join(stem for stems in _STEMS.values() for stem in stems)})"
    r"_above_(?P<count>\d+)(?P<k>k?)_tokens(?:_(?P<service>\w+))?"
)
_SERVICES = {
    "flex": "flex",
    "balanced": "balanced",
    "priority": "priority",
    "ultrafast": "ultrafast",
    "batches": "batch",
}
"""How the map spells a service tier → how responses name it."""
_AT_LEAST = frozenset({"xai"})  # bills the higher tier from the threshold on, others above it
_CACHED_SHARE = {"fireworks_ai": Decimal("0.5")}  # its rule where the map names no cached rate
_SPAN = re.compile(r"\s*(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*")


def standard(entry: Entry) -> Schedule | None:
    """Return the standard service's rates; None where input or output has none."""
    if "tiered_pricing" in entry:
        return _ranged(entry)
    least, most = rate(entry, "input_cost_per_token"), rate(entry, "output_cost_per_token")
    if least is None or most is None:
        return None
    base = _refined(Rates(least, most), entry, [""])
    share = _CACHED_SHARE.get(entry["litellm_provider"])
    if share is not None and base.cached_input is None:
        base = replace(base, cached_input=int(base.input * share))
    return base, _tiers(entry, base, "")


def _ranged(entry: Entry) -> Schedule | None:
    """Read `tiered_pricing`, a list of ranges; the lowest is the base."""
    steps = []
    ranges = [step for step in entry["tiered_pricing"] if step.get("range")]
    for step in sorted(ranges, key=lambda step: step["range"][0]):
        least = rate(step, "input_cost_per_token")
        most = rate({**entry, **step}, "output_cost_per_token")
        if least is not None and most is not None:
            steps.append((int(step["range"][0]), _refined(Rates(least, most), step, [""])))
    return (steps[0][1], tuple(steps[1:])) if steps else None


def services(entry: Entry, usual: Schedule) -> dict[str, Schedule]:
    """Return the rates of every other service tier that the entry prices."""
    return {**_named_services(entry, usual), **_uplifted(entry, usual)}


def off_peak(entry: Entry, usual: Rates) -> OffPeak | None:
    """Return what holds in off-peak hours; None where there are none, or none can be read.

    What the block does not name is as in the standard rates, and so is everything else then: they
    are never the lower ones.
    """
    block = entry.get("off_peak_pricing")
    if not isinstance(block, Mapping):
        return None
    hours = tuple(_hours(block))
    zone = block.get("weekday_timezone") or "UTC"
    return OffPeak(hours, _refined(usual, block, [""]), zone) if hours and _is_zone(zone) else None


def _hours(block: Entry) -> Iterator[Hours]:
    rules = block.get("windows") or ()
    for rule in (block, *[rule for rule in rules if isinstance(rule, Mapping)]):
        days = rule.get("weekdays")
        weekdays = None if days is None else frozenset(d for d in days if isinstance(d, int))
        spans = rule.get("hours_utc") or ()
        for span in [spans] if isinstance(spans, str) else spans:
            match = _SPAN.fullmatch(span) if isinstance(span, str) else None
            if match:
                start, start_min, end, end_min = map(int, match.groups())
                yield Hours(start * 60 + start_min, end * 60 + end_min, weekdays)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _named_services(entry: Entry, usual: Schedule) -> dict[str, Schedule]:
    found: dict[str, Schedule] = {}
    for spelt, service in _SERVICES.items():
        end = f"_{spelt}"
        if not any(_own(entry, name, [end]) for name in _STEMS):
            continue
        base = _refined(usual[0], entry, [end])
        if _own(entry, "output", [end]) and not _own(entry, "reasoning", [end]):
            base = replace(base, reasoning=None)
        found[service] = (base, _tiers(entry, base, end))
    return found


def _tiers(entry: Entry, base: Rates, end: str) -> tuple[tuple[int, Rates], ...]:
    """Return the context tiers; what a tier does not name is as in the tier below.

    A service without own rates for a tier has the standard ones there.
    """
    at_least = entry["litellm_provider"] in _AT_LEAST
    tiers, rates = [], base
    for above, spelt in sorted(_thresholds(entry, end)):
        rates = _refined(rates, entry, [f"_above_{spelt}_tokens{end}", f"_above_{spelt}_tokens"])
        tiers.append((above - at_least, rates))
    return tuple(tiers)


def _thresholds(entry: Entry, end: str) -> set[tuple[int, str]]:
    found = set()
    for name in entry:
        match = _THRESHOLD.fullmatch(name)
        if match and match["service"] in {None, end.removeprefix("_")}:
            thousand = 1000 if match["k"] else 1
            found.add((int(match["count"]) * thousand, match["count"] + match["k"]))
    return found


def _uplifted(entry: Entry, usual: Schedule) -> dict[str, Schedule]:
    """Return Anthropic's fast mode and US-only inference, which multiply every rate."""
    factors = entry.get("provider_specific_entry")
    if not isinstance(factors, Mapping):
        return {}
    known = {
        name: Decimal(factors[name]) for name in ("fast", "us") if is_amount(factors.get(name))
    }
    if len(known) == 2:  # noqa: PLR2004 - both at once
        known["fast us"] = known["fast"] * known["us"]
    return {name: _scaled(usual, factor) for name, factor in known.items()}


def _scaled(schedule: Schedule, factor: Decimal) -> Schedule:
    rates, tiers = schedule
    return _times(rates, factor), tuple((above, _times(tier, factor)) for above, tier in tiers)


def _times(rates: Rates, factor: Decimal) -> Rates:
    own = ((name, getattr(rates, name)) for name in _STEMS)
    return replace(rates, **{name: int(each * factor) for name, each in own if each is not None})


def _refined(rates: Rates, entry: Entry, ends: Iterable[str]) -> Rates:
    own = {name: _own(entry, name, ends) for name in _STEMS}
    return replace(rates, **{name: found for name, found in own.items() if found is not None})


def _own(entry: Entry, name: str, ends: Iterable[str]) -> Atto | None:
    for end in ends:
        for stem in _STEMS[name]:
            found = rate(entry, stem + end)
            if found is not None:
                return found
    return None


def rate(entry: Entry, name: str) -> Atto | None:
    """Return a rate of the entry in atto-dollars; None where it names none."""
    value = entry.get(name)
    return atto_from_usd_per_token(value) if is_amount(value) else None


def is_amount(value: object) -> TypeGuard[int | Decimal]:
    """Say whether a value of the map is an amount of money: a number from 0 up."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool) and value >= 0
