"""The price book: the user's prices over litellm's bundled map, read without importing litellm."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetroute.errors import ConfigError, UnpricedModel
from budgetroute.prices.entries import Entry, card_of, is_text, price_of, problem_of, serves
from budgetroute.records import ModelCard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from budgetroute.records import Price

__all__ = ["PriceBook"]

_LONGEST_NAME = 200
_MAP_NAME = "model_prices_and_context_window_backup.json"


class PriceBook:
    """What models cost and can do: the user's prices over litellm's bundled map.

    The map is read at the first question (3 ms) and shared by the process; entries are decoded
    when asked for. A name such as `openai/gpt-4o-mini` that is no key of the map is looked up
    without its provider, if the entry it then finds belongs to that provider.

    Args:
        overrides: price key → the price to use instead of the map's.
        path: another price map in litellm's format; None = the one inside litellm.
    """

    def __init__(
        self, overrides: Mapping[str, Price] | None = None, *, path: Path | None = None
    ) -> None:
        self._prices: dict[str, Price] = dict(overrides or {})
        self._cards: dict[str, ModelCard] = {}
        self._path = path

    def price(self, key: str, *, model: str | None = None) -> Price:
        """Return the price under `key`; raises UnpricedModel, which names `model`, if unknown."""
        known = self._prices.get(key)
        if known is None:
            entry = self._entry(key)
            problem = self._absence(key) if entry is None else problem_of(entry)
            if entry is None or problem:
                raise UnpricedModel(model or key, found=problem or "", key=key)
            known = self._prices[key] = price_of(key, entry)
        return known

    def known(self, key: str) -> bool:
        """Say whether there is a price under `key`."""
        if key in self._prices:
            return True
        entry = self._entry(key)
        return entry is not None and not problem_of(entry)

    def card(self, key: str) -> ModelCard:
        """Return what the map knows about the model; provider `custom` when it knows nothing."""
        if key not in self._cards:
            entry = self._entry(key)
            if entry is None:  # not kept: responses may name any number of models
                return ModelCard(key, "custom")
            self._cards[key] = card_of(key, entry)
        return self._cards[key]

    def provider_of(self, key: str) -> str:
        """Return litellm's provider name, `custom` for names that are not in the map."""
        return self.card(key).provider

    def map_path(self) -> Path | None:
        """Return the file prices come from; None when litellm is not installed."""
        return self._path or _bundled_map()

    def map_version(self) -> str | None:
        """Return the version of litellm that the bundled map belongs to; None for another map."""
        if self._path is not None or self.map_path() is None:
            return None
        return importlib.metadata.version("litellm")

    def map_count(self) -> int:
        """Return how many names the map lists."""
        return len(self._map())

    def names(self) -> list[str]:
        """Return the names of the map's text models, aliases included, priced or not."""
        return [name for name in self._map() if (e := self._entry(name)) and is_text(e)]

    def _map(self) -> Mapping[str, Raw]:
        path = self.map_path()
        return {} if path is None or not path.is_file() else _read_map(path)

    def _entry(self, key: str) -> Entry | None:
        entries = self._map()
        entry = _decoded(entries, key)
        if entry is not None:
            return entry
        provider, slash, name = key.partition("/")
        entry = _decoded(entries, name) if slash else None
        return entry if entry is not None and serves(provider, entry) else None

    def _absence(self, key: str) -> str:
        entries = self._map()
        if not entries:
            return f"litellm's price map was not found (looked for {self.map_path() or _MAP_NAME})"
        near = _close(key, self.map_path())
        hint = f" (close: {', '.join(near)})" if near else ""
        return f"it is not among the {len(entries)} names of litellm's price map{hint}"


def _bundled_map() -> Path | None:
    spec = importlib.util.find_spec("litellm")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / _MAP_NAME


@lru_cache(maxsize=256)
def _close(key: str, path: Path | None) -> tuple[str, ...]:
    """Return names of the map that look like a key; kept, since a search takes 20 to 50 ms."""
    entries = () if path is None or len(key) > _LONGEST_NAME else _read_map(path)
    return tuple(difflib.get_close_matches(key, entries, n=3, cutoff=0.75))


@cache
def _read_map(path: Path) -> Mapping[str, Raw]:
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError) as err:
        raise ConfigError(f"the price map {path} cannot be read: {err}") from err


def _decoded(entries: Mapping[str, Raw], key: str, *, follow: bool = True) -> Entry | None:
    """Decode one entry, numbers as Decimal; an alias is the entry it names."""
    import msgspec

    if key not in entries:
        return None
    entry: Entry = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode(entries[key])
    alias = entry.get("alias_of")
    if isinstance(alias, str):
        return _decoded(entries, alias, follow=False) if follow else None
    return entry if isinstance(entry.get("litellm_provider"), str) else None
