"""A small world to route in: a profile, prices that are easy to compute with, routers over a store.

One token costs a millionth of its price in dollars: at `output = 2.0`, 1,000 tokens are $0.002.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from budgetroute.profiles import dump_profile
from budgetroute.records import Action, Cell, InputSize, Profile, PromptType, Request
from budgetroute.router import Router

if TYPE_CHECKING:
    from pathlib import Path

    from budgetroute.clock import ManualClock
    from budgetroute.protocols import Observer, Store

EVERY_AXIS = frozenset(
    {"model", "max_tokens", "cot", "reasoning_effort", "temperature", "n", "params"}
)

PRICES = {"small": (0.1, 0.4), "mid": (1.0, 4.0), "large": (10.0, 40.0)}
"""Model → dollars per million tokens, in and out."""

MODELS = "\n".join(
    f'[models."{name}"]\nprice = {{ input = {given}, output = {made} }}\n'
    for name, (given, made) in PRICES.items()
)


def cell(reward: float, output: float, **more: object) -> Cell:
    """A cell of 200 samples."""
    return Cell(n=200, reward=reward, reward_se=0.03, output_mean=output, **more)


ACTIONS = (
    Action("small", 256),
    Action("small", 1024),
    Action("mid", 1024),
    Action("mid", 1024, cot=True),
    Action("large", 1024),
)
CELLS = {
    "general": (
        cell(0.30, 120, cut=0.20),
        cell(0.50, 200, cut=0.0),
        cell(0.65, 220, cut=0.0),
        cell(0.72, 380, cut=0.005, input_factor=1.1),
        cell(0.80, 240, cut=0.0),
    ),
    "math": (
        cell(0.15, 150, cut=0.30),
        cell(0.30, 300, cut=0.0),
        cell(0.45, 320, cut=0.0),
        cell(0.75, 500, cut=0.005, input_factor=1.1),
        cell(0.85, 420, cut=0.0),
    ),
    "chat": (
        cell(0.70, 90, cut=0.05),
        cell(0.80, 110, cut=0.0),
        cell(0.85, 130, cut=0.0),
        cell(0.84, 240, cut=0.0, input_factor=1.1),
        cell(0.88, 140, cut=0.0),
    ),
}
TINY = Profile(
    name="tiny",
    created="2026-03-04",
    types={
        "general": PromptType(share=0.4, input_tokens=200),
        "math": PromptType(share=0.3, input_tokens=150),
        "chat": PromptType(share=0.3, input_tokens=80),
    },
    actions=ACTIONS,
    cells=CELLS,
)

BASELINE = Action("mid", 1024)


def asked(
    route: str = "answer",
    *,
    tokens: int = 200,
    baseline: Action | None = BASELINE,
    sendable: frozenset[str] = EVERY_AXIS,
    **more: object,
) -> Request:
    """A request as `@route` would make it, for tests that need no function."""
    size = more.pop("size", InputSize(tokens, 4 * tokens))
    return Request(
        route=route,
        text=str(more.pop("text", "a question")),
        size=size,
        baseline=baseline,
        sendable=sendable,
        **more,
    )


@dataclass
class World:
    """A folder with configuration and profile, a clock, and the store that routers share.

    Attributes:
        folder: where `budgetroute.toml` and `tiny.json` are written.
        clock: the store's clock.
        store: shared by all routers of this world.
    """

    folder: Path
    clock: ManualClock
    store: Store
    profile: Profile = TINY

    def router(
        self,
        *,
        budget: str = "daily_usd = 10.0",
        models: str = MODELS,
        more: str = "",
        top: str = "",
        store: Store | None = None,
        observers: list[Observer] | None = None,
    ) -> Router:
        """Write a configuration and open a router on it, as an app's start would."""
        (self.folder / "tiny.json").write_text(dump_profile(self.profile), encoding="utf-8")
        file = self.folder / "budgetroute.toml"
        file.write_text(
            f'name = "test"\nprofile = "tiny.json"\n{top}\n[budget]\n{budget}\n{more}\n{models}\n',
            encoding="utf-8",
        )
        file.chmod(0o600)
        return Router.from_config(file, store=store or self.store, observers=observers)

    def with_profile(self, **changes: object) -> World:
        """Return a world with another profile over the same store."""
        return replace(self, profile=replace(self.profile, **changes))

    def pass_time(self, **parts: float) -> None:
        """Move the clock: `pass_time(minutes=5)`."""
        from datetime import timedelta

        self.clock.at += timedelta(**parts)
