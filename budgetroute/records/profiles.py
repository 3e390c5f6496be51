"""A profile: types × actions → reward, tokens, sample counts, provenance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.records.actions import Action

CellSource: TypeAlias = Literal["measured", "pooled", "interpolated", "like", "prior"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one action does on one prompt type.

    Attributes:
        n: scored samples behind the reward (0 for cells that are not measured).
        reward: mean quality in [0, 1], shrunk.
        reward_se: its standard error.
        output_mean: mean billable output tokens under the action's cap.
        output_p95: 95th percentile of the same; None unknown.
        output_p99: 99th percentile of the same; None unknown.
        cut: share of answers cut by the cap, in [0, 1]; None unknown.
        input_factor: input tokens sent over the prompt's own (chain-of-thought adds some).
        latency_mean: seconds; None unknown.
        latency_p95: seconds; None unknown.
        token_basis: whose tokens these are, `provider` or `o200k`.
        source: where the numbers come from.
    """

    n: int
    reward: float
    reward_se: float
    output_mean: float
    output_p95: float | None = None
    output_p99: float | None = None
    cut: float | None = None
    input_factor: float = 1.0
    latency_mean: float | None = None
    latency_p95: float | None = None
    token_basis: str = "provider"  # noqa: S105 - a name of a tokenizer
    source: CellSource = "measured"


@dataclass(frozen=True, slots=True)
class PromptType:
    """A class of prompts with one set of curves.

    Attributes:
        share: its part of the traffic behind the profile; all types sum to 1.
        input_tokens: mean prompt tokens seen, for planning before traffic is known.
        value: a user's weight on this type's reward.
        sensitive: whether quality keeps rising with spend; None not judged.
    """

    share: float
    input_tokens: float
    value: float = 1.0
    sensitive: bool | None = None


@dataclass(frozen=True, slots=True)
class ClassifierRef:
    """The classifier file that belongs to a profile.

    Attributes:
        name: file name of the `.npz` beside the profile.
        sha256: hex digest it must have.
    """

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Curves of several prompt types over one list of actions.

    Attributes:
        name: what config and logs call it.
        created: ISO date.
        types: type name → description; `general` is always there.
        actions: the profiled actions.
        cells: type name → one cell per action, in the order of `actions`; None = not known.
        classifier: the text model that came with it, if any.
        provenance: sources, licences, graders, counts; shown, never computed with.
    """

    name: str
    created: str
    types: Mapping[str, PromptType]
    actions: tuple[Action, ...]
    cells: Mapping[str, tuple[Cell | None, ...]]
    classifier: ClassifierRef | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
