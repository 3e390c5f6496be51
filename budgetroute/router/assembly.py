"""Opens what a router works with: config, prices, profiles, store, log."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from budgetroute.clock import WallClock
from budgetroute.config import load_config
from budgetroute.oneline import one_line
from budgetroute.prices import PriceBook, check_against, price_from_config
from budgetroute.router.equipment import Equipment
from budgetroute.router.tiers import advice
from budgetroute.stores import open_store
from budgetroute.telemetry import LogObserver, enable_from_env

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from budgetroute.config import Config
    from budgetroute.protocols import Classifier, Clock, Observer, Store
    from budgetroute.records import Price

logger = logging.getLogger("budgetroute")


def assemble(
    path: str | Path | None,
    *,
    overrides: Mapping[str, Any] | None = None,
    store: Store | None = None,
    clock: Clock | None = None,
    classifiers: Sequence[Classifier] = (),
) -> tuple[Equipment, Store, Sequence[Observer]]:
    """Return a router's equipment, store and observers, all checked before the first call."""
    config = load_config(path, overrides=overrides)
    enable_from_env()
    equipment = Equipment(config, price_book(config), classifiers=classifiers)
    equipment.table()
    for route in config.routes:
        equipment.lane(route)
    for text in advice_on_priors(equipment).values():
        logger.warning("%s", one_line(text))
    return (
        equipment,
        store or open_store(store_target(config), clock or WallClock()),
        [LogObserver()],
    )


def advice_on_priors(equipment: Equipment) -> dict[str, str]:
    """Return what to tell of each model on a price-tier prior, for the profiles of all routes.

    Raises:
        BudgetRouteError: a table cannot be built.
    """
    told: dict[str, str] = {}
    for route in (None, *equipment.config.routes):
        for model, prior in equipment.table(route).priors.items():
            told.setdefault(model, advice(model, prior, equipment.profile(route).name))
    return told


def price_book(config: Config) -> PriceBook:
    """Return the price map with config's prices over it; warns of odd ones.

    What searches cost is the map's, unless it is written.

    Raises:
        ConfigError: a price is none, or so far off the map's that another unit was meant.
    """
    written, listed = written_prices(config), PriceBook()
    for name, price in list(written.items()):
        key = config.models[name].price_as or name
        if not listed.known(key):
            continue
        for text in check_against(name, price, listed.price(key)):
            logger.warning("%s", one_line(text))
        if price.source == "config" and not price.fees.search:
            written[name] = replace(price, fees=listed.price(key).fees)
    return PriceBook(written)


def written_prices(config: Config) -> dict[str, Price]:
    """Return the prices that the configuration writes, by model; raises ConfigError."""
    return {
        name: price_from_config(name, said.price)
        for name, said in config.models.items()
        if said.price is not None
    }


def store_target(config: Config) -> str:
    """Return what `open_store` opens: the url, else the folder."""
    return config.store.url or str(config.resolve(config.store.path or "."))
