"""Checks of the supply: prices, profiles, and what can be sent to whom."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any

from budgetroute.classify import LinearClassifier
from budgetroute.cli.report import Finding, Section, failed
from budgetroute.cli.wording import counted, per_million, usd
from budgetroute.clock import WallClock
from budgetroute.errors import BudgetRouteError, UnpricedModel
from budgetroute.profiles import classifier_path, lint_profile, profile_path, shipped
from budgetroute.router.assembly import advice_on_priors
from budgetroute.router.table import make_row
from budgetroute.units import usd_from_atto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from budgetroute.prices import PriceBook
    from budgetroute.records import Action, Cell, Profile, PromptType
    from budgetroute.router.equipment import Equipment
    from budgetroute.router.table import ModelFacts

_ALONE = {
    "openai": "an OpenAI client",
    "azure": "an Azure OpenAI client",
    "custom": "the client you point at it",
}
_FEW = 3


def on_prices(equipment: Equipment, book: PriceBook) -> Section:
    """Show what each model costs and where that is known from."""
    priced, findings = _priced(equipment)
    findings += [found for found in map(_retiring, priced.values()) if found is not None]
    if priced:
        text = f"{counted(len(priced), 'model')} priced; litellm {book.map_version()} lists "
        findings.insert(0, Finding("ok", f"{text}{counted(book.map_count(), 'name')}"))
    return Section(
        key="prices",
        title="Prices, $ per million tokens",
        findings=findings,
        columns=("model", "in", "cached", "out", "from", "retires"),
        right=("in", "cached", "out"),
        rows=[_price_row(name, facts) for name, facts in priced.items()],
        content={"models": [_price_json(name, facts) for name, facts in priced.items()]},
    )


def _priced(equipment: Equipment) -> tuple[dict[str, ModelFacts], list[Finding]]:
    config = equipment.config
    asked = [name for name, said in config.models.items() if said.enabled]
    priced: dict[str, ModelFacts] = {}
    findings: list[Finding] = []
    for name in asked or _models_of(equipment.profile()):
        try:
            priced[name] = equipment.facts(name)
        except UnpricedModel as err:
            text = str(err) if asked else f"{name} of the profile has no price: no candidate"
            findings.append(Finding("fail" if asked else "warn", text))
        except BudgetRouteError as err:
            findings.append(Finding("fail", str(err)))
    return priced, findings


def _models_of(profile: Profile) -> list[str]:
    return list(dict.fromkeys(action.model for action in profile.actions))


def _price_row(name: str, facts: ModelFacts) -> tuple[str, ...]:
    price, rates = facts.price, facts.price.rates
    source = f"{price.source}: {price.key}" if price.key != name else price.source
    shown = [per_million(each) for each in (rates.input, rates.cached_input, rates.output)]
    if price.second is not None:
        shown = ["by time", "", f"{usd(usd_from_atto(price.second) * 3600)}/h"]
    return (
        name,
        *shown,
        source,
        facts.card.deprecated_on or "",
    )


def _price_json(name: str, facts: ModelFacts) -> dict[str, Any]:
    rates = facts.price.rates
    cached = rates.cached_input
    return {
        "name": name,
        "provider": facts.card.provider,
        "price_key": facts.price.key,
        "source": facts.price.source,
        "input_usd_per_million": rates.input / 10**12,
        "output_usd_per_million": rates.output / 10**12,
        "cached_input_usd_per_million": None if cached is None else cached / 10**12,
        "second_usd": None if (by := facts.price.second) is None else usd_from_atto(by),
        "deprecated_on": facts.card.deprecated_on,
    }


def _retiring(facts: ModelFacts) -> Finding | None:
    said = facts.card.deprecated_on
    if said is None:
        return None
    try:
        day = date.fromisoformat(said)
    except ValueError:
        return None
    if day > WallClock().now().date():
        return None
    text = f"{facts.card.key} was to be retired on {said}: its provider may refuse it"
    return Finding("warn", text)


def on_profiles(equipment: Equipment) -> Iterator[Section]:
    """Show every profile in use, and what is weak in it."""
    config = equipment.config
    routes = [None, *(name for name, said in config.routes.items() if said.profile)]
    seen: set[str] = set()
    for route in routes:
        name = (config.route(route).profile if route else None) or config.profile
        if name not in seen:
            seen.add(name)
            yield _on_profile(equipment, name, route)


def _on_profile(equipment: Equipment, name: str, route: str | None) -> Section:
    title = "Profile" if route is None else f"Profile of route {route}"
    key = "profile" if route is None else f"profile:{name}"
    try:
        profile = equipment.profile(route)
        path = profile_path(name, base=equipment.config.folder)
        classifier = _on_classifier(equipment, profile, name)
    except BudgetRouteError as err:
        return failed(key, title, str(err))
    lines = lint_profile(profile, lambda *cell: expected_cost(equipment, *cell))
    models = _models_of(profile)
    text = (
        f"{profile.name!r} of {profile.created}: {counted(len(profile.types), 'prompt type')}, "
        f"{counted(len(profile.actions), 'action')} of {counted(len(models), 'model')} ({path})"
    )
    weak = [Finding("warn", line) for line in _gathered(lines)]
    content = {
        "name": profile.name,
        "created": profile.created,
        "path": str(path),
        "types": sorted(profile.types),
        "models": models,
        "actions": len(profile.actions),
        "classifier": classifier.level == "ok",
        "lint": lines,
    }
    findings = [Finding("ok", text), classifier, *weak]
    if route is None:
        findings.append(
            Finding("ok", f"shipped are {', '.join(shipped())}: budgetroute profile list")
        )
        content["shipped"] = shipped()
    return Section(key, title, findings, content=content)


def _on_classifier(equipment: Equipment, profile: Profile, name: str) -> Finding:
    config = equipment.config
    said = config.classify.model
    path = config.resolve(said) if said else classifier_path(profile, name, base=config.folder)
    if path is None:
        text = "it has no text classifier: a prompt that no rule names counts as type general"
        return Finding("warn", text)
    model = LinearClassifier.load(path)
    return Finding("ok", f"its text classifier knows {', '.join(model.classes)}")


def expected_cost(
    equipment: Equipment, action: Action, cell: Cell, kind: PromptType
) -> float | None:
    """Return the dollars that one call is expected to cost, as calls are priced; None = no price."""
    try:
        row = make_row(action, equipment.facts(action.model), {})
    except BudgetRouteError:
        return None
    return row.cost(
        input_tokens=kind.input_tokens * cell.input_factor,
        output_tokens=cell.output_mean,
        seconds=row.seconds(cell) or 0.0,
    )


def _gathered(lines: Iterable[str]) -> Iterator[str]:
    """Say what many subjects have in common in one line: `label: finding` by finding."""
    pairs = [line.partition(": ")[::2] for line in lines]
    for finding, group in groupby(sorted(pairs, key=lambda pair: pair[1]), lambda pair: pair[1]):
        subjects = [subject for subject, _ in group]
        more = len(subjects) - _FEW
        named = ", ".join(subjects[:_FEW]) + (f" and {more} more" if more > 0 else "")
        yield f"{named}: {finding}"


def on_sending(equipment: Equipment) -> Section:
    """Show which models a function can reach, by the client that its body calls."""
    try:
        table = equipment.table()
        on_prior = advice_on_priors(equipment)
    except UnpricedModel as err:
        text = f"nothing, before {err.model!r} has a price: see above"
        return failed("sendable", "What can be sent", text)
    except BudgetRouteError as err:
        return failed("sendable", "What can be sent", str(err))
    by_provider: dict[str, list[str]] = defaultdict(list)
    for name, facts in table.facts.items():
        by_provider[facts.card.provider].append(name)
    models = counted(len(table.facts), "model")
    findings = [Finding("ok", f"{counted(len(table.rows), 'action')} of {models} may be chosen")]
    if len(by_provider) > 1:
        findings.append(Finding("ok", _across(by_provider)))
    findings += [Finding("warn", text) for text in on_prior.values()]
    return Section(
        key="sendable",
        title="What can be sent",
        findings=findings,
        columns=("provider", "reached by", "models"),
        rows=[(name, _reach(name), ", ".join(models)) for name, models in by_provider.items()],
        content={
            "actions": [row.action.label for row in table.rows],
            "priors": {name: list(prior.nearest) for name, prior in table.priors.items()},
            "providers": {
                name: {"models": models, "own_client": name in _ALONE, "litellm": True}
                for name, models in by_provider.items()
            },
        },
    )


def _reach(provider: str) -> str:
    return f"{_ALONE[provider]}, litellm" if provider in _ALONE else "litellm"


def _across(by_provider: Mapping[str, list[str]]) -> str:
    return (
        f"one client serves one provider: @route considers its baseline's only. All "
        f"{len(by_provider)} are open to budgetroute.completion, route(litellm.completion), and to "
        "a function that says @route(providers=[…])"
    )
