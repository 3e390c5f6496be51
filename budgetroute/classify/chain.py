"""The classifier as the router sees it: the cheapest part that has an answer gives it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from budgetroute.classify.rules import GENERAL, Rules
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from budgetroute.protocols import Classifier
    from budgetroute.records import Guess, Request

__all__ = ["Chain", "tempered"]

SURE = 0.6
"""Largest probability from which an answer is taken as it is.

On everyday prompts of a kind the shipped model was not trained on, the heaviest type is right half
the time below this and 9 times in 10 above; probabilities from 0.7 up can be believed. The pull
costs 0.01 nats of log loss there (0.49 to 0.50), the price of not guessing on unlike prompts.
"""
LEAST_WEIGHT = 0.02
"""Types below this weight are dropped: they cost a curve lookup and move R by less than that."""


class Chain:
    """Explicit type → parts in order → `general`; the first that answers wins.

    Args:
        types: types of the profile; `general` is added if it is not among them.
        parts: rules, then text models. A part's answer that gives `general` no weight is pulled
            towards it when unsure (`tempered`).
        routes: route name → its configured type.
        hard_types: give the heaviest type the whole weight.

    Raises:
        ConfigError: if a route or rule names a type the profile lacks.
    """

    def __init__(
        self,
        types: Iterable[str],
        parts: Sequence[Classifier] = (),
        *,
        routes: Mapping[str, str] | None = None,
        hard_types: bool = False,
    ) -> None:
        self.types = tuple(dict.fromkeys((*types, GENERAL)))
        self.parts = tuple(parts)
        self.routes = dict(routes or {})
        self.hard_types = hard_types
        for route, name in self.routes.items():
            self._known(name, f"the route {route!r}")
        for rule in (rule for part in parts if isinstance(part, Rules) for rule in part.rules):
            self._known(rule.type, f"the rule {rule.name}")

    def classify(self, request: Request) -> tuple[tuple[tuple[str, float], ...], str]:
        """Return ((type, weight), … heaviest first, summing to 1) and which part answered.

        Raises:
            ConfigError: if the request names a type the profile lacks.
        """
        if request.prompt_type is not None:
            return ((self._known(request.prompt_type, "the call"), 1.0),), "explicit"
        if request.route in self.routes:
            return ((self.routes[request.route], 1.0),), "route"
        for part in self.parts:
            if (answer := part.classify(request)) is not None:
                return self._fitted(answer[0]), answer[1]
        return ((GENERAL, 1.0),), GENERAL

    def guess(self, request: Request) -> Guess | None:
        """Return what a text model guesses of this prompt beyond its type; None where none does.

        A part that can has a method `guess(request)`.
        """
        for part in self.parts:
            ask = getattr(part, "guess", None)
            if ask is not None and (found := ask(request)) is not None:
                return found  # type: ignore[no-any-return]
        return None

    def _known(self, name: str, who: str) -> str:
        if name in self.types:
            return name
        near = get_close_matches(name, self.types, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"{who} names the prompt type {name!r}, which the profile does not have; {hint}"
            f"known types: {', '.join(self.types)}."
        )

    def _fitted(self, weights: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        fitted = pruned(restricted(tempered(weights), self.types))
        return ((fitted[0][0], 1.0),) if self.hard_types else fitted


def tempered(weights: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    """Pull an unsure answer towards `general`: c·p + (1 − c)·general.

    c = clip((p_max − 1/K) / (0.6 − 1/K), 0, 1) over K types, so an answer no better than chance is
    all `general`. An answer that gives `general` a weight has said how sure it is and stays.

    >>> tempered((("math", 0.5), ("code", 0.5)))
    (('math', 0.0), ('code', 0.0), ('general', 1.0))
    >>> tempered((("math", 0.9), ("code", 0.1)))
    (('math', 0.9), ('code', 0.1), ('general', 0.0))
    """
    if len(weights) < 2 or any(name == GENERAL for name, _ in weights):  # noqa: PLR2004 - nothing to be unsure of
        return weights
    chance = 1.0 / len(weights)
    top = max(weight for _, weight in weights)
    sure = min(max((top - chance) / (SURE - chance), 0.0), 1.0)
    return (*((name, sure * weight) for name, weight in weights), (GENERAL, 1.0 - sure))


def restricted(
    weights: Iterable[tuple[str, float]], types: Iterable[str]
) -> tuple[tuple[str, float], ...]:
    """Give the weight of types that are not known to `general`, heaviest first.

    >>> restricted([("math", 0.75), ("law", 0.25)], ["math", "general"])
    (('math', 0.75), ('general', 0.25))
    """
    sums = dict.fromkeys(types, 0.0)
    sums.setdefault(GENERAL, 0.0)
    for name, weight in weights:
        sums[name if name in sums else GENERAL] += weight
    return tuple(sorted(sums.items(), key=lambda item: -item[1]))


def pruned(weights: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Drop weights below 0.02 and let the rest sum to 1; the heaviest, which stands first, stays.

    >>> pruned([("math", 0.99), ("code", 0.01)])
    (('math', 1.0),)
    """
    kept = [item for item in weights if item[1] >= LEAST_WEIGHT] or list(weights[:1])
    total = sum(weight for _, weight in kept)
    return tuple((name, weight / total) for name, weight in kept)
