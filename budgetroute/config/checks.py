"""Rules between keys: each names the key to change, where it stands and what to write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfoNotFoundError, available_timezones

from budgetroute.config.limit_checks import check_limits
from budgetroute.config.origins import DEFAULT, Leaves, Origin
from budgetroute.config.wording import closest, did_you_mean, dotted, found, masked, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from budgetroute.config.budget import PacingConfig
    from budgetroute.config.model import Config
    from budgetroute.config.shape import KeyPath
    from budgetroute.errors import ConfigError

_OWN_KEYS = {
    "model": "the table's own name",
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "`max_tokens`"),
    **{name: f"`{name}`" for name in ("n", "temperature", "reasoning_effort")},
    "messages": "the call itself",
}
"""Parameters that are parts of an action → where they are said."""
_WHERE_TO = re.compile(
    r"api_?(base|key|type|version)|base_url|ur[il]$|endpoint|host|prox(y|ies)|headers|client|provider"
    r"|transport|deployment|organi[sz]ation|^project|ssl|cert|token$|secret|passw|credential|auth"
    r"|^(aws|azure|google|sagemaker|vertex|watsonx)_|fallbacks|model_list|callback|logger",
    re.IGNORECASE,
)
"""Parameters that say where prompts and keys are sent, or on whose account."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def check(config: Config, leaves: Leaves, *, is_named: bool) -> None:
    """Raise ConfigError for the first rule between keys that does not hold.

    Args:
        config: the configuration.
        leaves: where its values come from.
        is_named: its file was named, not found by searching.
    """
    _check_zone(config, leaves)
    _check_hard_cap(config, leaves)
    check_limits(config, leaves)
    _check_lambda(config.pacing, leaves)
    _check_params(config, leaves)
    if not is_named:
        _check_addresses(config, leaves)
    for path, names in _model_lists(config):
        _check_models(names, config, path=path, leaves=leaves)
    for name, route in config.routes.items():
        both = [model for model in route.allow if model in route.deny]
        if both:
            path = ("routes", name, "deny")
            advice = "Take it out of one of the two lists."
            problem = f"names {found(both[0])}, which `allow` names too"
            raise _origin(leaves, path).refuse(path, problem, advice)


def store_url(text: str, env: Mapping[str, str], *, origin: Origin) -> str:
    """Return the store's address with `${NAME}` filled in; raises for one that is not served.

    What variables hold never reaches the error: the address is shown as it was written.
    """
    path = ("store", "url")
    for name in _VARIABLE.findall(text):
        if name not in env:
            advice = f"Set {name} in the environment, or write the address itself."
            raise origin.refuse(path, f"names ${{{name}}}, which is not set", advice)
    full = _VARIABLE.sub(lambda match: env[match[1]], text)
    if full == "memory:":
        return full
    scheme = full.partition(":")[0]
    known = scheme in {"redis", "rediss", "unix"}
    why = f"{scheme} stores are not in this version" if known else "no store has such an address"
    problem = f"is {found(masked(text))}: {why}"
    advice = 'Write `url = "memory:"`, or `path = "…"` for a store on disk.'
    raise origin.refuse(path, problem, advice)


def _origin(leaves: Leaves, path: KeyPath) -> Origin:
    return leaves[path].origin if path in leaves else DEFAULT


def _check_zone(config: Config, leaves: Leaves) -> None:
    name, path = config.budget.timezone, ("budget", "timezone")
    try:
        _ = config.budget.zone
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        zones = sorted(available_timezones())
        origin = _origin(leaves, path)
        if not zones:
            advice = "This machine has no time zone database: run `pip install tzdata`."
            raise origin.refuse(
                path, f"is {found(name)}, which cannot be looked up", advice
            ) from err
        near = closest(name, zones, count=3) or _by_city(name, zones)
        hint = f"; close matches: {', '.join(near)}" if near else ""
        advice = origin.advice(path, near[0] if near else "Europe/Paris")
        problem = f"is {found(name)}; expected an IANA time zone{hint}"
        raise origin.refuse(path, problem, advice) from err


def _by_city(name: str, zones: list[str]) -> list[str]:
    """Return zones whose city is named alone."""
    words = name.strip().replace(" ", "_").lower()
    return [zone for zone in zones if words and words in zone.lower()][:3]


def _check_hard_cap(config: Config, leaves: Leaves) -> None:
    budget, path = config.budget, ("budget", "hard_usd")
    degrade, hard, daily = budget.on_exhausted == "degrade", budget.hard_usd, budget.daily_usd
    if degrade and hard is None:
        chooser = ("budget", "on_exhausted")
        origin = _origin(leaves, chooser)
        problem = 'is "degrade", which needs a cap that it may degrade up to; `hard_usd` is missing'
        raise origin.refuse(
            chooser, problem, f"Write for example `hard_usd = {daily * 1.2:g}` in [budget]."
        )
    if hard is None:
        return
    origin = _origin(leaves, path)
    if not degrade:
        advice = 'Write `on_exhausted = "degrade"` in [budget] as well, or take hard_usd out.'
        raise origin.refuse(path, f'is {hard:g}, but on_exhausted is "raise"', advice)
    if hard < daily:
        advice = f"Write `hard_usd = {daily * 1.2:g}`, or lower daily_usd."
        raise origin.refuse(path, f"is {hard:g}, less than daily_usd = {daily:g}", advice)


def _check_lambda(pacing: PacingConfig, leaves: Leaves) -> None:
    low, high, start = pacing.lambda_min, pacing.lambda_max, pacing.initial_lambda
    if low is not None and high is not None and low > high:
        path = ("pacing", "lambda_min")
        problem = f"is {low:g}, above lambda_max = {high:g}"
        raise _origin(leaves, path).refuse(path, problem, "Lower lambda_min or raise lambda_max.")
    if start is None:
        return
    path = ("pacing", "initial_lambda")
    if low is not None and start < low:
        problem = f"is {start:g}, below lambda_min = {low:g}"
        raise _origin(leaves, path).refuse(path, problem, f"Write {low:g} or more.")
    if high is not None and start > high:
        problem = f"is {start:g}, above lambda_max = {high:g}"
        raise _origin(leaves, path).refuse(path, problem, f"Write {high:g} or less.")


def _check_params(config: Config, leaves: Leaves) -> None:
    """Refuse params that would be sent in place of what was chosen and held."""
    for model, table in config.models.items():
        inner = table.params.get("extra_body")
        names = [*table.params, *(inner if isinstance(inner, dict) else ())]
        for name in names:
            if name in _OWN_KEYS:
                path = ("models", model, "params")
                problem = f"holds {name}, which would be sent in place of what is chosen and held"
                advice = f"Take it out; {_OWN_KEYS[name]} says it."
                raise _origin(leaves, path).refuse(path, problem, advice)


def _check_addresses(config: Config, leaves: Leaves) -> None:
    """Refuse addresses and credentials in a file that was found by searching.

    Whoever works in a folder that came from elsewhere would send prompts and keys to its author.
    """
    for model, table in config.models.items():
        path = ("models", model, "params")
        origin = _origin(leaves, path)
        for name in table.params:
            if origin.kind == "file" and _WHERE_TO.search(name):
                problem = (
                    f"holds {quoted(name)}, which says where prompts and keys are sent, in a file that "
                    "was only found by searching"
                )
                advice = f"Name the file if it is yours: BUDGETROUTE_CONFIG={origin.name}"
                raise origin.refuse(path, problem, f"{advice}, or say it in code.")


def _model_lists(config: Config) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    for name, kind in config.types.items():
        yield ("types", name, "models"), kind.models
    for name, route in config.routes.items():
        yield ("routes", name, "allow"), route.allow
        yield ("routes", name, "deny"), route.deny


def _check_models(names: tuple[str, ...], config: Config, *, path: KeyPath, leaves: Leaves) -> None:
    """Refuse a name that [models] lacks; without [models] the profile decides what there is."""
    known = list(config.models)
    for name in names:
        if known and name not in config.models:
            hint = did_you_mean(name, known)
            problem = f"names {found(name)}, which has no table in [models]{hint}"
            advice = (
                f"Known models: {', '.join(known)}. Add [{dotted(('models', name))}] or correct it."
            )
            raise _origin(leaves, path).refuse(path, problem, advice)


def missing_budget(origin: Origin) -> ConfigError:
    """Return the error for a configuration without a daily budget."""
    path = ("budget", "daily_usd")
    advice = origin.advice(path, 25.0) + " Or set BUDGETROUTE_BUDGET_DAILY_USD=25.0."
    return origin.refuse(path, "is missing: dollars that may be spent per day", advice)
