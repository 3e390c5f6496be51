"""What budgetroute.toml can say: one frozen Struct per table, its rules and words beside each key.

`Meta` carries the range, the description and an example of a key; loading, the errors, the JSON
Schema and the reference are all made from it. An empty tuple means "not said"; users cannot
write one where that would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec resolves annotations at run time
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from budgetroute.config.budget import BudgetConfig, PacingConfig, StoreConfig
from budgetroute.config.keys import (
    NAME_PATTERN,
    Choices,
    NotNegative,
    Positive,
    PriceTable,
    Searches,
    Share,
    Tokens,
    Word,
    axis,
    key,
    listed,
)
from budgetroute.config.limits import LimitConfig  # noqa: TC001 - see Mapping
from budgetroute.terms import SEARCHES


class ModelConfig(Struct, frozen=True, kw_only=True):
    """A model that may be chosen; its name reaches your function or litellm verbatim."""

    max_tokens: Annotated[
        tuple[Tokens, ...],
        axis("Caps on output tokens to choose from. Left out: the profile's.", eg=[256, 1024]),
    ] = ()
    cot: Annotated[
        tuple[bool, ...],
        axis("Whether to ask for step-by-step reasoning in the prompt.", eg=[False, True]),
    ] = ()
    reasoning_effort: Annotated[
        tuple[Word, ...],
        axis("Efforts of a reasoning model to choose from.", eg=["none", "low"]),
    ] = ()
    temperature: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=2)], ...],
        axis("Sampling temperatures to choose from. Left out: none is sent.", eg=[0.0, 0.7]),
    ] = ()
    n: Annotated[
        tuple[Choices, ...],
        axis("Numbers of choices to ask for; each is billed. Left out: 1.", eg=[1, 3]),
    ] = ()
    params: Annotated[
        Mapping[str, Any],
        key(
            "Further request parameters, sent as they stand. Addresses, headers and keys "
            "(`api_base`, `api_key`, …) only in a file that was named, not found by searching.",
            eg={"top_p": 0.9},
        ),
    ] = {}
    price: Annotated[
        PriceTable | Literal["free"] | None,
        key(
            "Dollars per million tokens, over the price map (`input`, `output`, …), or dollars of "
            'time (`gpu_hour`, or `watts` and `usd_per_kwh`), or "free".',
            eg={"input": 0.15, "output": 0.60, "cached_input": 0.075},
        ),
    ] = None
    like: Annotated[
        Word | None,
        key("Borrow the curve (rewards and tokens) of this profile model.", eg="gpt-4o-mini"),
    ] = None
    price_as: Annotated[
        Word | None,
        key("Key of the price map that this model is billed as. Default: its name.", eg="gpt-4o"),
    ] = None
    provider: Annotated[
        Word | None,
        key("Provider that serves it. Default: the price map's, else `custom`.", eg="azure"),
    ] = None
    tags: Annotated[
        tuple[Word, ...],
        listed("Labels that `require` asks for, such as regions.", eg=["eu", "zdr"], least=0),
    ] = ()
    image_tokens: Annotated[
        Tokens | None,
        key(
            "Most tokens that one image costs. Without it, a model whose provider states no "
            "maximum is no candidate for prompts with images.",
            eg=1500,
        ),
    ] = None
    token_ratio: Annotated[
        Positive | None,
        key("This model's tokens per o200k token, reserved for before it has been seen.", eg=1.2),
    ] = None
    enabled: Annotated[bool, key("false takes the model out without deleting it.", eg=True)] = True


class TypeConfig(Struct, frozen=True, kw_only=True):
    """A prompt type: what may be chosen for it and what its quality is worth."""

    models: Annotated[
        tuple[Word, ...], listed("Only these models for this type.", eg=["gpt-4o", "gpt-4o-mini"])
    ] = ()
    max_tokens: Annotated[
        tuple[Tokens, ...], axis("Only these caps for this type.", eg=[1024, 2048])
    ] = ()
    cot: Annotated[tuple[bool, ...], axis("Only these settings of cot.", eg=[True])] = ()
    value: Annotated[
        NotNegative,
        key("Weight on this type's reward: 2 makes its quality worth twice the money.", eg=2.0),
    ] = 1.0


class RouteConfig(Struct, frozen=True, kw_only=True):
    """One decorated function, or one name passed to `completion(route=…)`."""

    profile: Annotated[
        Word | None,
        key("Profile of this route, over the common one.", eg="profiles/answer.json"),
    ] = None
    floor: Annotated[
        Share | None,
        key("Least acceptable predicted reward.", eg=0.8),
    ] = None
    prompt_type: Annotated[
        Word | None, key("The type of all its prompts; nothing is classified then.", eg="math")
    ] = None
    require: Annotated[
        tuple[Word, ...], listed("Tags that a model must carry.", eg=["eu"], least=0)
    ] = ()
    providers: Annotated[
        tuple[Word, ...],
        listed(
            "Providers that the function can reach. Default: its baseline's only.",
            eg=["openai", "anthropic"],
        ),
    ] = ()
    input_tokens: Annotated[
        Tokens,
        key("Tokens that the function adds to its prompt, until calls have shown them.", eg=4000),
    ] = 4000
    allow: Annotated[tuple[Word, ...], listed("Only these models.", eg=["gpt-4o-mini"])] = ()
    deny: Annotated[tuple[Word, ...], listed("Never these models.", eg=["gpt-4o"], least=0)] = ()
    timeout_s: Annotated[
        Positive | None,
        key("Seconds that a call may take; its money is held a minute longer.", eg=60),
    ] = None
    searches: Annotated[
        Searches,
        key(
            "Most searches that the provider runs for one call, where the call has a search tool "
            "and does not bound it itself.",
            eg=5,
        ),
    ] = SEARCHES


class ClassifyConfig(Struct, frozen=True, kw_only=True):
    """How prompts are sorted into types."""

    rules: Annotated[
        tuple[Mapping[str, Any], ...],
        listed(
            "Rules tried in order before the text model, each a table of conditions that names a type.",
            eg=[{"type": "code", "keywords": ["traceback"]}],
            least=0,
        ),
    ] = ()
    hard_types: Annotated[
        bool, key("Look up the heaviest type alone instead of mixing all by weight.", eg=False)
    ] = False
    model: Annotated[
        Word | None,
        key("File of the text model. Default: the profile's.", eg="profiles/answer.npz"),
    ] = None


class Config(Struct, frozen=True, kw_only=True):
    """The whole configuration as it holds: file, environment and arguments merged.

    Attributes:
        source: the file it was read from; None when the environment or arguments sufficed.
        folder: where relative paths start: the file's folder, else the current one.
        origins: dotted key → `budgetroute.toml`, `env BUDGETROUTE_…`, `argument` or `default`.
    """

    name: Annotated[
        Annotated[str, Meta(pattern=NAME_PATTERN)],
        key(
            "Name of the app in the store; apps of one name share a budget. Default: the name of "
            "the config's folder.",
            eg="answer-service",
        ),
    ]
    profile: Annotated[
        Word,
        key(
            "Profile with the curves: a shipped name, or a file (relative to the config's folder).",
            eg="broad",
        ),
    ] = "broad"
    mode: Annotated[
        Literal["on", "shadow", "off"],
        key(
            "`on` routes; `shadow` runs your code untouched, counts what it spends and computes "
            "what `on` would have done; `off` runs it untouched and opens no store.",
            eg="shadow",
        ),
    ] = "on"
    strict: Annotated[
        bool,
        key("Raise when routing itself fails, instead of running the baseline.", eg=False),
    ] = False
    unknown_capability: Annotated[
        Literal["allow", "deny"],
        key(
            "Whether a model may serve a request when nobody says that it can (tools, images, JSON "
            "schema).",
            eg="allow",
        ),
    ] = "allow"
    budget: BudgetConfig
    store: StoreConfig = StoreConfig()
    pacing: PacingConfig = PacingConfig()
    limits: Mapping[str, LimitConfig] = {}
    models: Mapping[str, ModelConfig] = {}
    types: Mapping[str, TypeConfig] = {}
    routes: Mapping[str, RouteConfig] = {}
    classify: ClassifyConfig = ClassifyConfig()
    source: Path | None = None
    folder: Path
    origins: Mapping[str, str] = {}

    def route(self, name: str) -> RouteConfig:
        """Return the route's table, or the defaults for a route that has none."""
        return self.routes.get(name, RouteConfig())

    def resolve(self, path: str) -> Path:
        """Return a path of this config as it is on disk: `~` expanded, relative to `folder`."""
        return self.folder / Path(path).expanduser()
