"""Price-tier priors: curves for a model that nobody measured, from the profile's priced models.

For a prompt type t, a cap m and one class (chain-of-thought, effort), the peers i are the
profile's models with price p_i (3 : 1 blend of input and output) and reward R_i(m):

    R*(m)  isotonic regression of R_i(m) on p_i: dearer is never worse
    μ(m)   = Σ h_i R*_i(m),   h_i ∝ exp(−(log p_i − log p)²/2b²),   b = BANDWIDTH, p held to the range
    σ²     = (k σ₀² + Σ e_i²)/(k + n) · (1 + d²),   k = DOUBT_WEIGHT, σ₀ = DOUBT
    R(m)   = μ(m) · max(0, 1 − σ/μ(M)),   M the largest cap

e_i are the errors of predicting each peer from the others at M, d how far (in bandwidths of log
price) p lies outside the peers' prices. Smoothing a monotone sequence with a Gaussian keeps it
monotone; isotonic regression and h keep the order of caps; one factor for all caps keeps both.
Every μ is a mean of what peers reach, so with the factor a prior stays below the best peer of its
type: the largest of several uncertain promises is otherwise the one that was overestimated (the
optimiser's curse). Tokens are the mean with weights h; tails are the worst peer's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from budgetroute.curves import interpolate_cap
from budgetroute.records import Cell
from budgetroute.units import TOKENS_PER_MILLION, usd_from_atto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from budgetroute.records import Price

Curves: TypeAlias = "Mapping[str, Mapping[int, Cell]]"
"""Prompt type → cap → cell."""
Kind: TypeAlias = "tuple[bool, str | None]"
"""A class of actions: (chain-of-thought, reasoning effort)."""

BANDWIDTH = 1.5
"""Width of a price tier in log price, a factor of 4.5.

The best when the shipped profile's models are left out one by one; 1 to 2 do nearly as well.
"""
DOUBT = 0.1
"""σ₀: how far models lie from their price tier's reward where that cannot be judged.

0.11 is what benchmarks/coldstart.py measures on the shipped profile.
"""
DOUBT_WEIGHT = 3.0
"""How many models σ₀ counts for."""
REASONING_FACTOR = 8.0
"""Output tokens of hidden reasoning over those of a written chain of thought.

4.4 to 5 in the shipped profile (o4-mini, high); 8, so that cost and cap are rather too large.
"""
PER_RUNG = 2.0
"""Tokens of one effort over the next lower one, as providers size their thinking budgets."""
EFFORTS: tuple[str, ...] = ("minimal", "low", "medium", "high", "xhigh")
PLAIN: tuple[str | None, ...] = (None, "none")


class Peer(NamedTuple):
    """A profile model of one class of actions.

    Attributes:
        price: blended dollars per million tokens, positive.
        curves: its cells.
    """

    price: float
    curves: Curves


def blended_price(price: Price) -> float:
    """Return dollars per million tokens, three of input for one of output.

    >>> from budgetroute.records import Price, Rates
    >>> round(blended_price(Price("mini", Rates(150 * 10**9, 600 * 10**9))), 4)
    0.2625
    """
    rates = price.rates
    return usd_from_atto(3 * rates.input + rates.output) / 4 * TOKENS_PER_MILLION


def nearest(prices: Mapping[str, float], price: float, *, count: int = 2) -> tuple[str, ...]:
    """Return the models nearest in price, by ratio; of equally near ones the first.

    >>> nearest({"small": 0.3, "mid": 4.0, "large": 40.0}, 6.0)
    ('mid', 'large')
    """
    ordered = sorted(prices, key=lambda name: abs(math.log(prices[name] / price)))
    return tuple(ordered[:count])


def prior_kinds(
    by_kind: Mapping[Kind, Sequence[Peer]],
    price: float,
    *,
    reasons: bool,
    efforts: Sequence[str] = (),
) -> dict[Kind, Curves]:
    """Return the curves of every class of actions that a model of this price can be sent.

    A reasoning model takes the profile's reasoning classes. An effort that the profile lacks takes
    the nearest one, with more doubt for each rung and, above it, PER_RUNG times its tokens. Without
    any reasoning class it takes the chain-of-thought class with REASONING_FACTOR times its tokens,
    at caps as much larger, for what is measured at a cap says nothing of hidden reasoning under it.

    Args:
        by_kind: (cot, effort) → the profile's models.
        price: blended dollars per million tokens, positive.
        reasons: whether the model thinks before it answers.
        efforts: the efforts to be sent; none = the profile's, and sending no effort at all.
    """
    plain = {kind: peers for kind, peers in by_kind.items() if kind[1] in PLAIN}
    thinking = {kind: peers for kind, peers in by_kind.items() if kind[1] not in PLAIN}
    if not reasons:
        return _made({kind: prior_curves(peers, price) for kind, peers in plain.items()})
    profiled = tuple(dict.fromkeys(effort for _, effort in thinking))
    made: dict[Kind, Curves] = {}
    if thinking and not efforts:  # no effort is sent: the model's own, medium as a rule
        unsaid = _at_effort(thinking, "medium", price)
        made = {(cot, None): curves for (cot, _), curves in unsaid.items()}
    for effort in tuple(efforts) or profiled or (None,):
        if effort == "none":
            made |= {(cot, effort): prior_curves(p, price) for (cot, _), p in plain.items()}
        elif effort is not None and thinking:
            made |= _at_effort(thinking, effort, price)
        else:
            peers = plain.get((True, None)) or plain.get((False, None)) or ()
            made[False, effort] = _longer(prior_curves(peers, price), REASONING_FACTOR)
    return _made(made)


def _made(curves: Mapping[Kind, Curves]) -> dict[Kind, Curves]:
    return {kind: by_type for kind, by_type in curves.items() if by_type}


def _at_effort(
    thinking: Mapping[Kind, Sequence[Peer]], effort: str, price: float
) -> dict[Kind, Curves]:
    """Return the curves of an effort, or of the nearest one that the profile has.

    Of two equally near ones the higher lends, for its tokens are rather too many.
    """
    known = {have for _, have in thinking if have is not None}
    rung = _rung(effort)
    lent = min(
        sorted(known),
        key=lambda have: (have != effort, abs(_rung(have) - rung), -_rung(have)),
    )
    steps = rung - _rung(lent)
    return {
        (cot, effort): _longer(
            prior_curves(peers, price, doubts=abs(steps)), PER_RUNG ** max(0, steps)
        )
        for (cot, have), peers in thinking.items()
        if have == lent
    }


def _rung(effort: str) -> int:
    """Return the place of an effort; a word that no provider is known for counts as medium."""
    return EFFORTS.index(effort if effort in EFFORTS else "medium")


def _longer(curves: Curves, factor: float) -> Curves:
    """Return the curves of answers so many times longer, at caps so many times larger."""
    return {
        name: {round(cap * factor): _stretched(cell, factor) for cap, cell in cells.items()}
        for name, cells in curves.items()
    }


def _stretched(cell: Cell, factor: float) -> Cell:
    def times(value: float | None) -> float | None:
        return None if value is None else value * factor

    return replace(
        cell,
        output_mean=cell.output_mean * factor,
        output_p95=times(cell.output_p95),
        output_p99=times(cell.output_p99),
        latency_mean=times(cell.latency_mean),
        latency_p95=times(cell.latency_p95),
    )


def prior_curves(
    peers: Sequence[Peer], price: float, *, doubts: float = 0.0
) -> dict[str, dict[int, Cell]]:
    """Return prompt type → cap → prior cell of a model of this price (formula above).

    A type has the peers' caps from the one on that is large enough for each of them; a type
    without peers is absent.

    Args:
        peers: the profile's models of one class.
        price: blended dollars per million tokens, positive.
        doubts: further distance d, in bandwidths, for what makes the peers less alike.

    >>> peers = [Peer(1.0, {"math": {256: Cell(99, 0.4, 0.05, 90.0)}}),
    ...          Peer(8.0, {"math": {256: Cell(99, 0.8, 0.05, 110.0)}})]
    >>> cell = prior_curves(peers, 2.8)["math"][256]
    >>> round(cell.reward, 2), round(cell.output_mean), cell.source
    (0.33, 100, 'prior')
    """
    by_type: dict[str, list[Peer]] = defaultdict(list)
    for peer in peers:
        for name, cells in peer.curves.items():
            if cells:
                by_type[name].append(peer)
    return {
        name: _type_curve(
            [math.log(peer.price) for peer in group],
            [peer.curves[name] for peer in group],
            math.log(price),
            doubts=doubts,
        )
        for name, group in by_type.items()
    }


def _type_curve(
    places: Sequence[float], curves: Sequence[Mapping[int, Cell]], place: float, *, doubts: float
) -> dict[int, Cell]:
    least = max(min(cells) for cells in curves)
    caps = sorted({cap for cells in curves for cap in cells if cap >= least})
    rows = {
        cap: [cell for cells in curves if (cell := interpolate_cap(cells, cap)) is not None]
        for cap in caps
    }
    top = [cell.reward for cell in rows[caps[-1]]]
    expected = _tier_mean(places, isotonic(places, top), place)
    outside = max(0.0, min(places) - place, place - max(places)) / BANDWIDTH
    doubt = _scatter(places, top) * math.sqrt(1 + outside**2 + doubts**2)
    kept = max(0.0, 1 - doubt / expected) if expected > 0 else 0.0
    return {cap: _cell(places, row, place, kept=kept, doubt=doubt) for cap, row in rows.items()}


def _cell(
    places: Sequence[float], row: Sequence[Cell], place: float, *, kept: float, doubt: float
) -> Cell:
    def mean(read: Callable[[Cell], float]) -> float:
        return _tier_mean(places, [read(cell) for cell in row], place)

    def worst(found: Iterable[float | None]) -> float | None:
        return max((value for value in found if value is not None), default=None)

    return Cell(
        n=0,
        reward=kept * _tier_mean(places, isotonic(places, [c.reward for c in row]), place),
        reward_se=doubt,
        output_mean=mean(lambda cell: cell.output_mean),
        output_p95=worst(cell.output_p95 for cell in row),
        output_p99=worst(cell.output_p99 for cell in row),
        cut=worst(cell.cut for cell in row),
        input_factor=mean(lambda cell: cell.input_factor),
        latency_mean=worst(cell.latency_mean for cell in row),
        latency_p95=worst(cell.latency_p95 for cell in row),
        token_basis=row[0].token_basis if len({cell.token_basis for cell in row}) == 1 else "o200k",
        source="prior",
    )


def _scatter(places: Sequence[float], rewards: Sequence[float]) -> float:
    """Return σ at d = 0: how far peers lie from what the others would have promised for them."""
    squares = [DOUBT_WEIGHT * DOUBT**2]
    for i in range(len(places) if len(places) > 1 else 0):
        others, seen = [*places[:i], *places[i + 1 :]], [*rewards[:i], *rewards[i + 1 :]]
        promised = _tier_mean(others, isotonic(others, seen), places[i])
        squares.append((rewards[i] - promised) ** 2)
    return math.sqrt(math.fsum(squares) / (DOUBT_WEIGHT + len(squares) - 1))


def _tier_mean(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """Return the mean with weights h around a place, held to the range of places."""
    held = min(max(place, min(places)), max(places))
    squares = [((at - held) / BANDWIDTH) ** 2 for at in places]
    mass = [math.exp((min(squares) - square) / 2) for square in squares]
    return math.fsum(m * value for m, value in zip(mass, values, strict=True)) / math.fsum(mass)


def isotonic(places: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return the nearest values that never fall as places rise (pool adjacent violators).

    Equal places have equal values.

    >>> isotonic([1, 2, 3, 4], [0.2, 0.6, 0.4, 0.9])
    [0.2, 0.5, 0.5, 0.9]
    """
    blocks: list[tuple[float, list[int]]] = []
    order = sorted(range(len(places)), key=lambda i: places[i])
    for _, tied in groupby(order, key=lambda i: places[i]):
        members = list(tied)
        level = math.fsum(values[i] for i in members) / len(members)
        while blocks and blocks[-1][0] > level:
            members = blocks.pop()[1] + members
            level = math.fsum(values[i] for i in members) / len(members)
        blocks.append((level, members))
    found = {i: level for level, members in blocks for i in members}
    return [found[i] for i in range(len(values))]
