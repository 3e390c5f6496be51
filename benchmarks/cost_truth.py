"""Cost truth: what calls cost here and by litellm, for every text model of its price map.

    python benchmarks/cost_truth.py                the figures
    python benchmarks/cost_truth.py --page FILE    writes docs/cost-differences.md

Both sides read the same price map. Every difference must fall into one of CLASSES, each of which says
which side is right and why; anything else is unexplained and fails.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import math
import os
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cost_classes import BATCH, CLASSES, NIGHT, PEAK, SHAPES, WORDS, explain
from harness import Figure, at_least, exactly, report, say

from budgetroute.billing import bill
from budgetroute.errors import UnpricedModel
from budgetroute.prices import PriceBook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from types import ModuleType

    from budgetroute.records import Usage


@dataclass
class Result:
    """What a comparison came to.

    Attributes:
        compared: comparisons made.
        equal: how many agree to 1e-9.
        models: models compared.
        found: class → (model, shape, ours, theirs) of each difference.
        refused: reason → models without a price here that litellm prices above 0.
        failed: models that litellm could not price.
    """

    compared: int = 0
    equal: int = 0
    models: int = 0
    found: dict[str, list[tuple[str, str, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)


def load_litellm() -> ModuleType:
    """Import litellm without network; 3 s."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_OFFLINE_MODE"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    litellm.suppress_debug_info = True
    return litellm


def theirs(litellm: ModuleType, key: str, provider: str, usage: Usage) -> float:
    """Return what litellm says that a usage costs, searches included."""
    from litellm.cost_calculator import batch_cost_calculator
    from litellm.litellm_core_utils.llm_cost_calc.tool_call_cost_tracking import (
        StandardBuiltInToolCostTracking,
    )

    reported = _reported(litellm, key, usage)
    if usage.service_tier == BATCH:
        return sum(batch_cost_calculator(reported, key, provider))
    tier = usage.service_tier if usage.service_tier in {"flex", "priority", "fast"} else None
    tier = None if tier == "fast" and provider == "anthropic" else tier  # there it is a speed
    cost = sum(
        litellm.cost_per_token(
            model=key,
            custom_llm_provider=provider,
            usage_object=reported,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            service_tier=tier,
        )
    )
    if usage.searches or usage.map_queries:
        cost += StandardBuiltInToolCostTracking.get_cost_for_built_in_tools(
            model=key, response_object=None, usage=reported, custom_llm_provider=provider
        )
    return cost


def _reported(litellm: ModuleType, key: str, usage: Usage) -> object:
    """Return a usage as litellm holds it."""
    long = usage.cache_write_long_tokens
    half_day = "cache_creation_input_token_cost_above_12hr" in litellm.model_cost[key]
    kept = {
        "ephemeral_5m_input_tokens": usage.cache_write_tokens - long,
        f"ephemeral_{'12h' if half_day else '1h'}_input_tokens": long,
    }
    sent = {
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "audio_tokens": usage.audio_tokens,
        "image_tokens": usage.image_tokens,
    }
    if long:
        sent["cache_creation_token_details"] = kept
    if usage.cached_audio_tokens:
        sent["cached_tokens_details"] = {"audio_tokens": usage.cached_audio_tokens}
    if usage.searches:
        sent["web_search_requests"] = usage.searches
    if usage.map_queries:
        sent["google_maps_grounding_requests"] = usage.map_queries
    more: dict[str, Any] = {}
    if usage.searches:
        more["server_tool_use"] = {"web_search_requests": usage.searches}
    if usage.service_tier in {"fast", "us"}:
        more |= {"fast": {"speed": "fast"}, "us": {"inference_geo": "us"}}[usage.service_tier]
    return litellm.Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=sent,
        completion_tokens_details={
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": usage.audio_output_tokens,
            "image_tokens": usage.image_output_tokens,
        },
        **more,
    )


@contextlib.contextmanager
def billed_at(at: datetime) -> Iterator[None]:
    """Hold litellm's clock."""
    from litellm._internal_context import _billing_time

    token = _billing_time.set(at)
    try:
        yield
    finally:
        _billing_time.reset(token)


def compare(litellm: ModuleType, *, every: int = 1) -> Result:
    """Price the text models of the map by both.

    Args:
        litellm: the module.
        every: take one model in so many.
    """
    book, result = PriceBook(), Result()
    # Pricing a github_copilot model makes litellm log in over the network.
    keys = [key for key in litellm.model_cost if not key.startswith("github_copilot/")]
    known = frozenset(litellm.model_cost)
    for i, key in enumerate(keys[::every]):
        if i % 1000 == 0:
            say(f"{i * every:,} of {len(keys):,} entries")
        _compare_model(litellm, result, book, key, known=known)
    return result


def _compare_model(
    litellm: ModuleType, result: Result, book: PriceBook, key: str, *, known: frozenset[str]
) -> None:
    try:
        price = book.price(key)
    except UnpricedModel as err:
        _refuse(result, key, litellm.model_cost[key], str(err))
        return
    provider = book.provider_of(key)
    result.models += 1
    for name, usage in SHAPES.items():
        at = NIGHT if name == "at night" else PEAK
        mine = bill(price, usage, at=at) / 1e12
        try:
            with billed_at(at):
                other = theirs(litellm, key, provider, usage)
        except Exception:  # noqa: BLE001 - litellm raises anything for what it cannot price
            result.failed.append(key)
            return
        result.compared += 1
        if math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-12):
            result.equal += 1
            continue
        why = explain(key, usage, price, provider=provider, known=known)
        result.found[why].append((key, name, mine, other))


def _refuse(result: Result, key: str, entry: Mapping[str, Any], said: str) -> None:
    if entry.get("mode") not in {"chat", "responses", "completion"}:
        return
    reason = said.partition("has no price: ")[2].partition(". Write one")[0]
    result.refused[reason].append(key)


def problems(result: Result) -> list[str]:
    """Return the differences that no class explains, or that are lower here against their class."""
    wrong = []
    for name, cases in result.found.items():
        for key, shape, mine, other in cases:
            allowed = name in CLASSES and not (CLASSES[name].dearer_here and mine < other)
            if not allowed:
                wrong.append(f"{key} ({shape}): {mine:.10g} here, {other:.10g} by litellm: {name}")
    return wrong


def page(result: Result, version: str) -> str:
    """Return docs/cost-differences.md."""
    share = result.equal / result.compared
    lines = [
        "# Where bills differ from litellm's",
        "",
        "Made by `python benchmarks/cost_truth.py --page docs/cost-differences.md`; a test holds it.",
        "",
        (
            f"litellm {version}: {result.models:,} text models of its price map × {len(SHAPES)} usages, "
            f"{result.compared:,} bills by both, from the same map. {result.equal:,} are equal to 1 in "
            f"10⁹ ({share:.1%}); each of the others falls into one of these classes."
        ),
        "",
        "| class | bills | models | what differs | why it stays |",
        "|---|---|---|---|---|",
        *[_row(name, result.found[name]) for name in CLASSES if result.found.get(name)],
        "",
        "## Examples",
        "",
        "Dollars per call; three models of each class.",
        "",
        "| class | model | usage | here | litellm |",
        "|---|---|---|---|---|",
        *[line for name in CLASSES for line in _examples(name, result.found.get(name, []))],
        "",
        "## Text models without a price",
        "",
        "Each is refused with this reason until a price is written.",
        "",
        "| reason | models | for example |",
        "|---|---|---|",
        *[
            f"| {reason} | {len(keys)} | {', '.join(f'`{key}`' for key in sorted(keys)[:3])} |"
            for reason, keys in sorted(result.refused.items(), key=lambda item: -len(item[1]))
        ],
        "",
        "Models of `github_copilot` are left out: pricing one makes litellm log in over the network.",
        "",
        "## The usages",
        "",
        "Tokens in and out, and their parts. Billed on a Monday at 02:00 UTC, at peak; *at night* on a",
        "Saturday at 12:00.",
        "",
        "| usage | in | out | parts |",
        "|---|---|---|---|",
        *[_shape(name, usage) for name, usage in SHAPES.items()],
        "",
    ]
    return "\n".join(lines)


def _row(name: str, cases: Sequence[tuple[str, str, float, float]]) -> str:
    models = len({key for key, *_ in cases})
    known = CLASSES[name]
    return f"| {name} | {len(cases):,} | {models:,} | {known.says} | {known.why} |"


def _examples(name: str, cases: Sequence[tuple[str, str, float, float]]) -> list[str]:
    first: dict[str, tuple[str, str, float, float]] = {}
    for case in sorted(cases):
        first.setdefault(case[0], case)
    return [
        f"| {name} | `{key}` | {shape} | {mine:.6g} | {other:.6g} |"
        for key, shape, mine, other in list(first.values())[:3]
    ]


def _shape(name: str, usage: Usage) -> str:
    parts = [f"{getattr(usage, field)} {WORDS[field]}" for field in WORDS if getattr(usage, field)]
    said = ", ".join(parts) or "–"
    return f"| {name} | {usage.input_tokens:,} | {usage.output_tokens:,} | {said} |"


def figures(result: Result) -> list[Figure]:
    wrong = problems(result)
    for text in wrong[:20]:
        say(text)
    return [
        at_least("models priced by both", result.models, "models", 200),
        at_least("usages", result.compared / result.models, "per model", 20),
        Figure("bills compared", result.compared, ""),
        at_least("equal to 1e-9", 100 * result.equal / result.compared, "%", 90),
        Figure("differences in a stated class", sum(map(len, result.found.values())), ""),
        exactly("differences that are not explained", len(wrong), "", 0),
        exactly("models that litellm cannot price", len(set(result.failed)), "", 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="end within 50 s: every tenth model")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the page of differences")
    said = parser.parse_args()
    result = compare(load_litellm(), every=10 if said.quick and not said.page else 1)
    if said.page:
        said.page.write_text(page(result, importlib.metadata.version("litellm")), encoding="utf-8")
        say(f"wrote {said.page}")
    report(figures(result), as_json=said.json)


if __name__ == "__main__":
    main()
