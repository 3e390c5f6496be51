"""Builds the table of a route from config, profile and prices; every complaint names what to write."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError, UnpricedModel
from budgetroute.records import Action, Cell
from budgetroute.router.table import Family, ModelFacts, Prior, Row, Table, make_row
from budgetroute.router.tiers import families_by_price, tiers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from budgetroute.config import Config, ModelConfig
    from budgetroute.protocols import PriceSource
    from budgetroute.records import Price, Profile
    from budgetroute.router.tiers import FamilyKey


def facts_of(model: str, config: Config, prices: PriceSource) -> ModelFacts:
    """Return a model's price and card; raises UnpricedModel."""
    said = config.models.get(model)
    key = (said.price_as if said else None) or model
    card = prices.card(key)
    if said and said.provider:
        card = replace(card, provider=said.provider)
    return ModelFacts(
        price=prices.price(model if said and said.price is not None else key),
        card=card,
        tags=frozenset(said.tags) if said else frozenset(),
        ratio=(said.token_ratio if said else None) or 1.0,
        image_tokens=said.image_tokens if said else None,
    )


def build_table(profile: Profile, config: Config, prices: PriceSource) -> Table:
    """Build the table of one profile.

    Raises:
        ConfigError: `like` names no model of the profile, a model without curves is free, a cap
            is below the smallest profiled one everywhere, or nothing is left to choose from.
        UnpricedModel: a configured model without a price.
    """
    facts = _all_facts(profile, config, prices)
    families, priors = _families(profile, config, facts, prices=prices)
    rows = tuple(_rows(profile, config, facts, families))
    if not rows:
        raise ConfigError(
            f"profile {profile.name!r} and [models] leave nothing to choose from: the profile has "
            f"{_listed({a.model for a in profile.actions})}; config has {_listed(config.models)}. "
            "Name profile models under [models], or remove [models] to take all of them."
        )
    return Table(
        rows=rows,
        families=families,
        facts=facts,
        types={name: _value(config, name, kind.value) for name, kind in profile.types.items()},
        mean_input={name: kind.input_tokens for name, kind in profile.types.items()},
        share={name: kind.share for name, kind in profile.types.items()},
        priors=priors,
    )


def _value(config: Config, name: str, ours: float) -> float:
    said = config.types.get(name)
    return ours if said is None else said.value


def _all_facts(profile: Profile, config: Config, prices: PriceSource) -> dict[str, ModelFacts]:
    """Return facts of the configured models, or of the profile's priced ones without [models]."""
    configured = [name for name, said in config.models.items() if said.enabled]
    if configured:
        return {name: facts_of(name, config, prices) for name in configured}
    found = {}
    for model in dict.fromkeys(action.model for action in profile.actions):
        try:
            found[model] = facts_of(model, config, prices)
        except UnpricedModel:
            continue  # the profile's models are suggestions: unpriced ones are no candidates
    return found


def _families(
    profile: Profile, config: Config, facts: Mapping[str, ModelFacts], *, prices: PriceSource
) -> tuple[dict[FamilyKey, Family], dict[str, Prior]]:
    """Return the curves of every model, and which of them are priors."""
    by_key = _by_key(profile)
    families: dict[FamilyKey, Family] = {}
    priors: dict[str, Prior] = {}
    tiers = None
    for model, known in facts.items():
        said = config.models.get(model)
        found = _of_model(model, said, by_key)
        if not found:
            tiers = tiers or tiers_of(by_key, lambda name: _price(name, config, prices))
            found, priors[model] = families_by_price(model, known, said, tiers)
        families |= found
    return families, priors


def _by_key(profile: Profile) -> dict[FamilyKey, dict[str, dict[int, Cell]]]:
    by_key: dict[FamilyKey, dict[str, dict[int, Cell]]] = {}
    for i, action in enumerate(profile.actions):
        kind = (action.model, action.cot, action.reasoning_effort)
        for name, cells in profile.cells.items():
            cell = cells[i]
            if cell is not None:
                by_key.setdefault(kind, {}).setdefault(name, {})[action.max_tokens] = cell
    return by_key


def _price(model: str, config: Config, prices: PriceSource) -> Price | None:
    try:
        return facts_of(model, config, prices).price
    except UnpricedModel:
        return None


def _of_model(
    model: str, said: ModelConfig | None, by_key: Mapping[FamilyKey, dict[str, dict[int, Cell]]]
) -> dict[FamilyKey, Family]:
    """Return the profile's curves of a model or of its `like`; none if the model is not there."""
    like = said.like if said and said.like else model
    found = {
        (model, cot, effort): Family(_lent(cells) if like != model else cells)
        for (name, cot, effort), cells in by_key.items()
        if name == like
    }
    if not found and like != model:
        known = _listed({name for name, _, _ in by_key})
        raise ConfigError(
            f'[models."{model}"]: like = "{like}", for which the profile has no curves. It has '
            f"{known}. Name one of them, or leave like out to start on a price-tier prior."
        )
    return found


def _lent(cells: Mapping[str, Mapping[int, Cell]]) -> dict[str, dict[int, Cell]]:
    return {
        name: {cap: replace(cell, source="like") for cap, cell in caps.items()}
        for name, caps in cells.items()
    }


def _rows(
    profile: Profile,
    config: Config,
    facts: Mapping[str, ModelFacts],
    families: Mapping[FamilyKey, Family],
) -> Iterable[Row]:
    for model, known in facts.items():
        said = config.models.get(model)
        own = [key for key in families if key[0] == model]
        made = list(_model_rows(model, said, own, known, families))
        if not made and said is not None:
            _complain(model, said, own, families, profile.name)
        yield from made


def _model_rows(
    model: str,
    said: ModelConfig | None,
    own: list[FamilyKey],
    facts: ModelFacts,
    families: Mapping[FamilyKey, Family],
) -> Iterable[Row]:
    for key in own:
        _, cot, effort = key
        if said and said.cot and cot not in said.cot:
            continue
        if said and said.reasoning_effort and effort not in said.reasoning_effort:
            continue
        caps = (said.max_tokens if said else ()) or _caps(families[key])
        for cap in caps:
            cells = families[key].at(cap)
            if cells:
                _check_time(model, facts, cells.values())
                for action in _sampled(Action(model, cap, cot, effort), said):
                    yield make_row(action, facts, cells, curve=families[key].by_type)


def _check_time(model: str, facts: ModelFacts, cells: Iterable[Cell]) -> None:
    """Refuse a model that is paid by time where nothing says how long it takes."""
    probe = make_row(Action(model, 1), facts, {})
    if any(probe.seconds(cell) is None for cell in cells):
        raise ConfigError(
            f'[models."{model}"]: it is priced by time, and the profile has no latency of its own '
            "for it. Write tokens_per_second = … into its price (output tokens per second of one "
            "request), or profile it on your engine."
        )


def _sampled(action: Action, said: ModelConfig | None) -> Iterable[Action]:
    """Spread an action over the configured temperatures and numbers of choices."""
    if said is None:
        yield action
        return
    params = tuple(sorted(said.params.items()))
    for temperature, n in product(said.temperature or (None,), said.n or (1,)):
        yield replace(action, temperature=temperature, n=n, params=params)


def _caps(family: Family) -> tuple[int, ...]:
    return tuple(sorted({cap for cells in family.by_type.values() for cap in cells}))


def _complain(
    model: str,
    said: ModelConfig,
    own: list[FamilyKey],
    families: Mapping[FamilyKey, Family],
    profile: str,
) -> None:
    seen = [
        f"cot = {str(cot).lower()}, reasoning_effort = {effort!r}, max_tokens = {list(_caps(families[key]))}"
        for key in own
        for _, cot, effort in [key]
    ]
    raise ConfigError(
        f'[models."{model}"] asks for cot = {list(said.cot)}, reasoning_effort = '
        f"{list(said.reasoning_effort)}, max_tokens = {list(said.max_tokens)}, none of which has a "
        f"curve in profile {profile!r}. It has: {'; '.join(seen)}. Caps between profiled ones are "
        "interpolated, smaller ones are not."
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
