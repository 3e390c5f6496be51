"""What models cost, gathered for the command line: from the configuration, and from the price map."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from budgetroute.errors import BudgetRouteError, ConfigError, UnpricedModel
from budgetroute.prices import PRICE_CLASSES, PriceBook
from budgetroute.router.assembly import price_book, written_prices
from budgetroute.router.equipment import Equipment
from budgetroute.router.tables import facts_of
from budgetroute.units import usd_from_atto, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from budgetroute.config import Config
    from budgetroute.records import ModelCard, Price, Rates

CLASSES = {**PRICE_CLASSES, "cached_audio": "cached_audio"}
"""Name of a class of tokens → field of Rates."""
_WILD = frozenset("*?[")
_MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Quote:
    """One model's price; None with the reason where it has none.

    Attributes:
        name: as it was asked for.
        card: what the map says besides.
        price: what holds.
        reason: why there is none.
    """

    name: str
    card: ModelCard
    price: Price | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all of it; dollars per million tokens, or each."""
        head = {"name": self.name, "provider": self.card.provider}
        price = self.price
        if price is None:
            return head | {"price": None, "reason": self.reason}
        off = price.off_peak
        return head | {
            "price_key": price.key,
            "source": price.source,
            "usd_per_million": _rates(price.rates),
            "above_input_tokens": _tiers(price.tiers),
            "services": {
                name: {
                    "usd_per_million": _rates(rates),
                    "above_input_tokens": _tiers(price.service_tiers.get(name, ())),
                }
                for name, rates in price.services.items()
            },
            "off_peak": None if off is None else {"usd_per_million": _rates(off.rates)},
            "request_usd": usd_from_pico(price.request_fee),
            "search_usd": {size: usd_from_pico(fee) for size, fee in price.fees.search.items()},
            "maps_usd": usd_from_pico(price.fees.maps),
            "searches_always": price.fees.always,
            "second_usd": None if price.second is None else usd_from_atto(price.second),
            "deprecated_on": self.card.deprecated_on,
        }


def schedules(price: Price) -> Iterator[tuple[str, Rates]]:
    """Yield every set of rates of a price with its name: `standard`, `> 200k`, `flex`, `off-peak`."""
    yield "standard", price.rates
    for above, rates in price.tiers:
        yield f"> {_short(above)}", rates
    if price.off_peak is not None:
        yield "off-peak", price.off_peak.rates
    for name, rates in price.services.items():
        yield name, rates
        for above, dearer in price.service_tiers.get(name, ()):
            yield f"{name} > {_short(above)}", dearer


def _short(tokens: int) -> str:
    thousands, rest = divmod(tokens, 1000)
    return f"{thousands}k" if rest == 0 else f"{tokens:,}"


def _rates(rates: Rates) -> dict[str, float]:
    own = ((name, getattr(rates, field)) for name, field in CLASSES.items())
    return {name: usd_from_atto(rate * _MILLION) for name, rate in own if rate is not None}


def _tiers(tiers: Sequence[tuple[int, Rates]]) -> list[dict[str, Any]]:
    return [{"above": above, "usd_per_million": _rates(rates)} for above, rates in tiers]


class Quotes:
    """Looks prices up as calls will.

    Args:
        config: the configuration.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.listed = PriceBook()
        self.book = price_book(config)

    def of(self, names: Sequence[str], *, provider: str | None, everything: bool) -> list[Quote]:
        """Return the quotes that were asked for.

        Args:
            names: models, or patterns with `*` over the configuration and the map; none = the
                configured models, else the profile's.
            provider: only this provider's.
            everything: the whole map, if no names are given.
        """
        found = [self.quote(name) for name in self._names(names, everything=everything)]
        if provider is not None:
            found = [quote for quote in found if quote.card.provider == provider]
        wild = everything or any(_WILD & set(name) for name in names)
        return [quote for quote in found if quote.price is not None or not wild]

    def quote(self, name: str) -> Quote:
        """Return one model's quote, as a call would be billed."""
        try:
            facts = facts_of(name, self.config, self.book)
        except UnpricedModel as err:
            card = self.listed.card(name)
            return Quote(name, card, None, str(err).partition(". Write one")[0])
        return Quote(name, facts.card, facts.price)

    def _names(self, names: Sequence[str], *, everything: bool) -> Iterable[str]:
        if not names:
            return self.listed.names() if everything else self._usual()
        known = list(dict.fromkeys([*self.config.models, *self.listed.names()]))
        made: dict[str, None] = {}
        for name in names:
            hits = [each for each in known if fnmatchcase(each, name)] if _WILD & set(name) else ()
            made |= dict.fromkeys(hits or (name,))
        return made

    def _usual(self) -> list[str]:
        configured = [name for name, said in self.config.models.items() if said.enabled]
        if configured:
            return configured
        try:
            profile = Equipment(self.config, self.book).profile()
        except BudgetRouteError:
            return []
        return list(dict.fromkeys(action.model for action in profile.actions))


@dataclass(frozen=True, slots=True)
class MapAge:
    """The price map that is in use, and how old it is.

    Attributes:
        version: litellm's version.
        names: how many it lists.
        since: when its file was installed or changed.
    """

    version: str | None
    names: int
    since: datetime | None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        since = None if self.since is None else self.since.date().isoformat()
        return {"litellm": self.version, "names": self.names, "installed_on": since}


def map_age(book: PriceBook) -> MapAge:
    """Return which price map is in use."""
    path = book.map_path()
    if path is None or not path.is_file():
        return MapAge(None, 0, None)
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return MapAge(book.map_version(), book.map_count(), changed)


def own_prices(config: Config) -> Iterator[tuple[str, Price, Price | None]]:
    """Yield (model, the price that is written, the map's) of every model with a written price.

    Raises:
        ConfigError: a price is none.
    """
    listed = PriceBook()
    for name, price in written_prices(config).items():
        key = config.models[name].price_as or name
        yield name, price, listed.price(key) if listed.known(key) else None


def config_for_prices(path: Any) -> Config:  # noqa: ANN401 - a path or None
    """Return the configuration; where there is none, an empty one: the map needs no budget."""
    from budgetroute.config import load_config

    try:
        return load_config(path)
    except ConfigError:
        if path is not None:
            raise
        bare = load_config(overrides={"budget.daily_usd": 0.0})
        if bare.source is not None:
            raise
        return bare
