"""`budgetroute init`: writes a commented budgetroute.toml and says what it found."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from rich.text import Text

from budgetroute import files
from budgetroute.cli.console import emit, marked, out
from budgetroute.cli.template import Written, config_text
from budgetroute.cli.wording import counted, per_million, usd
from budgetroute.config import load_config
from budgetroute.config.build import named_after
from budgetroute.config.files import FILE, find_file
from budgetroute.config.keys import MAX_USD, NAME_PATTERN, PATTERNS
from budgetroute.config.wording import closest, found
from budgetroute.errors import BudgetRouteError, ConfigError, UnpricedModel
from budgetroute.prices import PriceBook
from budgetroute.profiles import load_profile, shipped
from budgetroute.units import is_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from budgetroute.cli.console import Level
    from budgetroute.records import Price, Profile

PROFILE = "broad"
DEFAULT_DAILY_USD = 5.0
"""Written when no --daily is given, and said so: small enough to be no surprise on a bill."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asked for; None = not said."""

    daily: float | None
    models: str | None
    timezone: str
    name: str | None
    force: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What is known about a model that was named.

    Attributes:
        name: the model.
        provider: by the price map; `custom` where it does not know.
        price: None where there is none.
        actions: how many of the profile's actions it has.
    """

    name: str
    provider: str
    price: Price | None
    actions: int

    @property
    def is_usable(self) -> bool:
        """Say whether it may be chosen as it stands in the file."""
        return self.price is not None


def init_command(wishes: Wishes, *, as_json: bool) -> int:
    """Write the file; return 1 if a named model still needs a line, else 0.

    Raises:
        ConfigError: something asked for cannot be written, or a file is there already.
    """
    folder = Path.cwd()
    target = folder / FILE
    _refuse_existing(target, wishes)
    profile = load_profile(PROFILE)
    models = [_look_up(name, profile) for name in _names(wishes.models)]
    written = _written(wishes, folder, models, profile)
    _write(target, config_text(written), force=wishes.force)
    if as_json:
        emit(_as_json(target, written, models))
    else:
        for line in _report(target, wishes, written, models=models, profile=profile):
            out().print(line, soft_wrap=True)
    return 0 if all(model.is_usable for model in models) else 1


def _refuse_existing(target: Path, wishes: Wishes) -> None:
    if os.path.lexists(target) and not wishes.force:
        raise ConfigError(
            f"{target} exists already and was left as it is. Edit it, or run `budgetroute init "
            "--force` to replace it."
        )


def _names(said: str | None) -> list[str]:
    if said is None:
        return []
    names = list(dict.fromkeys(name.strip() for name in said.split(",") if name.strip()))
    if not names:
        raise ConfigError(
            f"--models is {found(said)}; expected names with commas between them, such as "
            "--models gpt-4o-mini,gpt-4o"
        )
    return names


def _look_up(name: str, profile: Profile) -> Found:
    book = PriceBook()
    try:
        price = book.price(name)
    except UnpricedModel:
        price = None
    actions = sum(action.model == name for action in profile.actions)
    return Found(name, book.provider_of(name), price, actions)


def _written(wishes: Wishes, folder: Path, models: list[Found], profile: Profile) -> Written:
    daily = DEFAULT_DAILY_USD if wishes.daily is None else wishes.daily
    name = named_after(folder) if wishes.name is None else wishes.name
    _check_daily(daily)
    _check_zone(wishes.timezone)
    _check_name(name)
    return Written(
        name=name,
        daily_usd=daily,
        timezone=wishes.timezone,
        models=[model.name for model in models],
        without_curve=frozenset(model.name for model in models if not model.actions),
        without_price=frozenset(model.name for model in models if model.price is None),
        curves=list(dict.fromkeys(action.model for action in profile.actions)),
    )


def _check_daily(daily: float) -> None:
    if not is_amount(daily) or daily > MAX_USD:
        raise ConfigError(
            f"--daily is {daily}; expected dollars per day from 0 to {MAX_USD:,}, such as "
            "--daily 25"
        )


def _check_zone(name: str) -> None:
    zones = available_timezones()
    if name in zones or name == "UTC":
        return
    words = name.strip().replace(" ", "_").lower()
    near = closest(name, sorted(zones), count=3)
    near = near or sorted(zone for zone in zones if words and words in zone.lower())[:3]
    raise ConfigError(
        f"--timezone is {found(name)}; expected an IANA time zone, such as --timezone "
        + (" or ".join(near) or "Europe/Paris")
    )


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(f"--name is {found(name)}; expected {PATTERNS[NAME_PATTERN]}")


def _write(target: Path, text: str, *, force: bool) -> None:
    """Write the file in one step, after seeing that it can be loaded."""
    try:
        with files.draft_of(target, text) as draft:
            load_config(draft, env={})
            _put(draft, target.resolve(), force=force)
    except OSError as err:
        raise ConfigError(
            f"{target} cannot be written: {err.strerror or err}. Run `budgetroute init` in a "
            "folder that you may write."
        ) from err


def _put(draft: Path, target: Path, *, force: bool) -> None:
    if not force:
        try:
            os.link(draft, target)  # fails if someone wrote the file meanwhile
        except FileExistsError as err:
            raise ConfigError(f"{target} exists already and was left as it is.") from err
        except OSError:  # a file system without links: the check above must do
            draft.replace(target)
        return
    draft.replace(target)


def _report(
    target: Path, wishes: Wishes, written: Written, *, models: list[Found], profile: Profile
) -> Iterator[Text]:
    yield marked("ok", f"wrote {target}")
    said = wishes.daily is not None
    yield marked(
        "ok" if said else "warn",
        f"{usd(written.daily_usd)} a day from 00:00 {written.timezone} for the app {written.name!r}"
        + ("" if said else "; no --daily was given, so change daily_usd in the file to yours"),
    )
    yield from _on_models(models, profile)
    others = ", ".join(name for name in shipped() if name != PROFILE)
    yield marked("ok", f"profile {PROFILE!r}; also shipped: {others} (budgetroute profile list)")
    if (above := _shadowed(target)) is not None:
        yield marked("warn", f"{above} holds for the folders above; in this one the new file does")
    yield Text("Next: put @route on the function that calls the model, and run budgetroute doctor.")
    yield Text("Without a key or a network: budgetroute demo")


def _on_models(models: list[Found], profile: Profile) -> Iterator[Text]:
    if not models:
        names = list(dict.fromkeys(action.model for action in profile.actions))
        yield marked(
            "ok",
            f"no --models: the {counted(len(names), 'model')} of profile {profile.name!r} may be "
            f"chosen where they have a price: {', '.join(names)}",
        )
    for model in models:
        yield _on_model(model, profile)


def _on_model(model: Found, profile: Profile) -> Text:
    lacks = [] if model.price else ["no price is known: write `price` (or `price_as`)"]
    if not model.actions:
        lacks.append(
            f"profile {profile.name!r} has no curve for it: it starts on a guess from its price, "
            "unless you write `like`"
        )
    if lacks:
        level: Level = "warn" if model.is_usable else "fail"
        return marked(level, f'{model.name}: {"; ".join(lacks)} under [models."{model.name}"]')
    rates = model.price.rates if model.price else None
    cost = f"{per_million(rates.input)} in, {per_million(rates.output)} out per M" if rates else ""
    return marked(
        "ok",
        f"{model.name} ({model.provider}): {cost} tokens; {counted(model.actions, 'action')} in "
        f"profile {profile.name!r}",
    )


def _shadowed(target: Path) -> Path | None:
    try:
        above = find_file(target.parent.parent, Path.home())
    except (BudgetRouteError, RuntimeError):
        return None
    return None if above is None else above.path


def _as_json(target: Path, written: Written, models: list[Found]) -> dict[str, Any]:
    return {
        "written": str(target),
        "name": written.name,
        "daily_usd": written.daily_usd,
        "timezone": written.timezone,
        "profile": PROFILE,
        "shipped_profiles": shipped(),
        "models": [_model_json(model) for model in models],
        "ok": all(model.is_usable for model in models),
    }


def _model_json(model: Found) -> dict[str, Any]:
    rates = model.price.rates if model.price else None
    return {
        "name": model.name,
        "provider": model.provider,
        "priced": model.price is not None,
        "input_usd_per_million": None if rates is None else rates.input / 10**12,
        "output_usd_per_million": None if rates is None else rates.output / 10**12,
        "profile_actions": model.actions,
    }
