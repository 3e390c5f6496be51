"""A request, its candidates, the decision taken and what it cost in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from budgetroute.records.actions import Action, Axis, Pins
from budgetroute.records.usage import Terms
from budgetroute.units import Pico, usd_from_pico

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from budgetroute.records.ledger import Applied, Balance, Slot
    from budgetroute.records.profiles import CellSource
    from budgetroute.records.usage import InputSize, Usage

CostSource: TypeAlias = Literal["reported", "timed", "given", "partial", "estimated"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A model that failed in a call, and is out for the rest of it.

    Attributes:
        model: its name.
        why: in a few words.
        provider: its provider, if all its models are out with it.
        context: input tokens that were too many for it; models that take no more are out too.
    """

    model: str
    why: str
    provider: str | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One call as the router sees it.

    Attributes:
        route: name of the route.
        text: what the classifier reads, head and tail of the conversation; never stored or logged.
        size: how large the input is.
        baseline: the action the user's code would take; None where it has none.
        pins: parts of the action the user fixed.
        ceiling: no cap above this is a candidate (a client's own `max_tokens`); None = no ceiling.
        sendable: axes this function can carry.
        needs: capabilities the request needs (`tools`, `vision`, `response_schema`).
        providers: providers the function can serve; None = the route's in config, else the
            baseline's if it calls with its own client, else all.
        own_client: the function calls with a client of its own, which serves one provider.
        hidden_input: the function may add input that is not seen here.
        require: tags a model must carry.
        floor: the least acceptable predicted reward.
        prompt_type: the type if the user named it.
        tags: the user's tags (`user`, `tier`, `channel`, `endpoint`, …).
        run_limits: (run id, limit) of every enclosing `run()`.
        calls: attempts that one reservation covers.
        terms: what may be billed besides text: service tiers and searches that the call asks for.
        unbilled: the provider's tools in it that have fees which no price here has.
        timeout_s: how long the call may take; None = unknown.
        seed: the user's request id; it seeds the draw between λ_low and λ_high.
        failed: what failed before in the same call.
        after: the id of the decision that failed before; empty for a call's first.
    """

    route: str
    text: str = field(repr=False)
    size: InputSize
    baseline: Action | None = None
    pins: Pins = field(default_factory=Pins)
    ceiling: int | None = None
    sendable: frozenset[Axis] = frozenset()
    needs: frozenset[str] = frozenset()
    providers: frozenset[str] | None = None
    own_client: bool = False
    hidden_input: bool = False
    require: frozenset[str] = frozenset()
    floor: float | None = None
    prompt_type: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_limits: tuple[tuple[str, Pico], ...] = ()
    calls: int = 1
    terms: Terms = field(default_factory=Terms)
    unbilled: frozenset[str] = frozenset()
    timeout_s: float | None = None
    seed: str | None = field(default=None, repr=False)
    failed: tuple[Failure, ...] = ()
    after: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An action with what it is worth and costs for this request.

    Attributes:
        action: what would be sent.
        reward: R, expected quality in [0, 1]; None for a pinned model without a curve.
        cost: C, expected dollars.
        worst: what is held for it.
        value: the weight on R.
        source: where its curve comes from; the least certain of the types mixed.
        gamma: γ that `cost` contains: billed over predicted cost of such calls lately.
        declared: what would be held had no bill crossed it lately; None = that is what is held.
        raised: why more is held, in words.
    """

    action: Action
    reward: float | None
    cost: float
    worst: Pico
    value: float = 1.0
    source: CellSource = "measured"
    gamma: float = 1.0
    declared: Pico | None = None
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen candidate and what was seen when choosing.

    Attributes:
        id: generated; attempts are `id#1`, `id#2`, …
        route: name of the route.
        at: when, by the store's clock (aware UTC).
        chosen: the winner.
        runner_up: the next best that was affordable; None if there was no other.
        baseline: the baseline as a candidate; None where the code has none.
        types: (prompt type, weight), heaviest first.
        classified_by: which part of the classifier answered.
        shadow_price: λ used, reward per dollar.
        propensity: probability that this λ was drawn.
        flips_at: λ at which the runner-up would win; None if none does.
        reasons: action label → why it was gated out.
        why: one line in words.
        slots: where the reservation counts.
        limits: the limits behind the slots, in their order.
        tightest: name of the limit with the least left after the reservation; empty where nothing
            limits.
        left: pico-dollars that it has left; None where nothing limits.
        bound_by: name of the limit that the best candidate did not fit; empty where it did.
        priced_by: name of the paced limit whose λ it is.
        degraded: limits were exhausted, and this is the cheapest action beyond them.
        limit: the tightest paced limit in pico-dollars; None = unlimited.
        balance: its balance after the reservation.
        fallback: True when routing failed and the baseline was taken instead.
        input_tokens: expected input tokens before the action's own instruction.
        stepped_down: candidates passed over because they did not fit the budget.
        shadowed: in shadow mode, what would have been chosen; its holds and bills are virtual.
        unshadowed: in shadow mode, why there is no such decision: what `on` would have raised.
        images: images in the prompt, which `input_tokens` leaves out.
        calls: responses that one reservation covers.
        terms: what may be billed besides text, as it was asked for.
        after: the id of the decision that failed before in the same call; empty for its first.
    """

    id: str
    route: str
    at: datetime
    chosen: Candidate
    runner_up: Candidate | None = None
    baseline: Candidate | None = None
    types: tuple[tuple[str, float], ...] = ()
    classified_by: str = ""
    shadow_price: float = 0.0
    propensity: float = 1.0
    flips_at: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    slots: tuple[Slot, ...] = ()
    limits: tuple[Applied, ...] = field(default=(), repr=False)
    tightest: str = ""
    left: Pico | None = None
    bound_by: str = ""
    priced_by: str = "day"
    degraded: bool = False
    limit: Pico | None = None
    balance: Balance | None = None
    fallback: bool = False
    input_tokens: float = 0.0
    stepped_down: int = 0
    shadowed: Decision | None = None
    unshadowed: str = ""
    images: int = 0
    calls: int = 1
    terms: Terms = field(default_factory=Terms)
    after: str = ""

    @property
    def action(self) -> Action:
        """Return the chosen action."""
        return self.chosen.action

    @property
    def model(self) -> str:
        """Return the chosen model."""
        return self.chosen.action.model

    @property
    def max_tokens(self) -> int:
        """Return the chosen cap on output tokens."""
        return self.chosen.action.max_tokens

    @property
    def cot(self) -> bool:
        """Say whether the chosen action asks for step-by-step reasoning."""
        return self.chosen.action.cot

    @property
    def prompt_type(self) -> str:
        """Return the heaviest prompt type."""
        return self.types[0][0] if self.types else "general"

    @property
    def expected_usd(self) -> float:
        """Return the chosen action's expected cost."""
        return self.chosen.cost

    @property
    def worst_usd(self) -> float:
        """Return what is held for the call."""
        return usd_from_pico(self.chosen.worst)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a call cost.

    Attributes:
        decision: the decision's id.
        amount: what counts as spent, pico-dollars.
        source: `reported` usage, `timed` (an engine paid by time), `given` by the user, `partial` (counted from what a stream had
            delivered when it ended without usage), or `estimated` because there was nothing to count.
        usage: normalised usage; None when unknown.
        overshoot: billed beyond the worst case that was held.
        billed_as: price key that was applied.
        balance: the tightest paced slot after it; None where nothing is limited.
        repeated: the call had been settled before.
    """

    decision: str
    amount: Pico
    source: CostSource
    usage: Usage | None = None
    overshoot: Pico = 0
    billed_as: str = ""
    balance: Balance | None = None
    repeated: bool = False

    @property
    def usd(self) -> float:
        """Return what counts as spent, in dollars."""
        return usd_from_pico(self.amount)


@dataclass(frozen=True, slots=True)
class LimitWarning:
    """A share of a limit that spending has crossed, or a limit that refused; told once per period.

    Attributes:
        app: the app's name.
        limit: the limit's name: `day`, `week`, `month`, or that of its table.
        window: `day`, `week`, `month` or `total`.
        period: the period's id.
        share: the share that was crossed; at 1 the limit is used up or has refused a call.
        spent_usd: settled in the period.
        held_usd: held by calls in flight.
        limit_usd: the limit.
        is_soft: calls go on all the same.
        resets_at: when the limit starts anew (aware); None for a total.
        value: the tag's value, for a limit that is one of many; it is in no log.
    """

    app: str
    limit: str
    window: str
    period: str
    share: float
    spent_usd: float
    held_usd: float
    limit_usd: float
    is_soft: bool
    resets_at: datetime | None
    value: str | None = field(default=None, repr=False)
