"""Wires config, profiles, prices and classifiers into the lanes of a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.classify import Chain, LinearClassifier, Rules, rule_from_config
from budgetroute.pacing import Group, PacingRule
from budgetroute.profiles import classifier_path, load_profile
from budgetroute.router.gates import Gates, TypeGate
from budgetroute.router.lanes import Lane
from budgetroute.router.tables import build_table, facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budgetroute.config import Config
    from budgetroute.protocols import Classifier, PriceSource
    from budgetroute.records import Profile
    from budgetroute.router.table import ModelFacts, Row, Table


class Equipment:
    """Everything a router needs that does not change while it runs; built on first use, kept.

    Args:
        config: the configuration.
        prices: prices and model cards, config's own prices included.
        classifiers: the user's own, asked after the rules and before the profile's text model.
    """

    def __init__(
        self, config: Config, prices: PriceSource, *, classifiers: Sequence[Classifier] = ()
    ) -> None:
        self.config = config
        self.prices = prices
        self.classifiers = tuple(classifiers)
        self._profiles: dict[str, Profile] = {}
        self._tables: dict[str, Table] = {}
        self._models: dict[str, LinearClassifier | None] = {}
        self._facts: dict[str, ModelFacts] = {}
        self._lanes: dict[str, Lane] = {}

    def lane(self, route: str) -> Lane:
        """Return a route's lane."""
        lane = self._lanes.get(route)
        return lane if lane is not None else self._lanes.setdefault(route, self._make_lane(route))

    def profile(self, route: str | None = None) -> Profile:
        """Return a route's profile, or the common one."""
        name = self._profile_name(route)
        if name not in self._profiles:
            self._profiles[name] = load_profile(name, base=self.config.folder)
        return self._profiles[name]

    def table(self, route: str | None = None) -> Table:
        """Return the table of a route's profile."""
        name = self._profile_name(route)
        if name not in self._tables:
            self._tables[name] = build_table(self.profile(route), self.config, self.prices)
        return self._tables[name]

    def facts(self, model: str) -> ModelFacts:
        """Return a model's price and card; raises UnpricedModel."""
        if model not in self._facts:
            self._facts[model] = facts_of(model, self.config, self.prices)
        return self._facts[model]

    def rule(self) -> PacingRule:
        """Return the pacer's settings."""
        said = self.config.pacing
        return PacingRule(
            pacer=said.pacer,
            step=said.step,
            target=said.target,
            eta=said.eta,
            period_s=said.period,
            alpha=said.alpha,
            lambda_min=said.lambda_min,
            lambda_max=said.lambda_max,
            initial_lambda=said.initial_lambda,
            warmup_periods=said.warmup_periods,
            mix=said.mix,
        )

    def groups(self, calls: float, rows: Sequence[Row], *, route: str | None = None) -> list[Group]:
        """Return so many calls of a route over these rows by prompt type, for the start-up program."""
        table = self.table(route)
        made = []
        for name, share in table.share.items():
            tokens = table.mean_input[name]
            points = tuple(
                (
                    row.cost(
                        input_tokens=tokens * row.facts.ratio * cell.input_factor,
                        output_tokens=cell.output_mean,
                        seconds=row.seconds(cell) or 0.0,
                    ),
                    cell.reward * table.types[name],
                )
                for row in rows
                if (cell := row.cells.get(name)) is not None
            )
            if points and share > 0:
                made.append(Group(calls * share, points))
        return made

    def _profile_name(self, route: str | None) -> str:
        own = None if route is None else self.config.route(route).profile
        return own or self.config.profile

    def _make_lane(self, route: str) -> Lane:
        said = self.config.route(route)
        table = self.table(route)
        return Lane(
            route,
            settings=said,
            table=table,
            gates=Gates(
                allow=frozenset(said.allow),
                deny=frozenset(said.deny),
                unknown_capability=self.config.unknown_capability,
                by_type={
                    name: TypeGate(models=t.models, max_tokens=t.max_tokens, cot=t.cot)
                    for name, t in self.config.types.items()
                },
            ),
            chain=self._chain(route, table),
            facts=self.facts,
        )

    def _chain(self, route: str, table: Table) -> Chain:
        said = self.config.classify
        rules = Rules([rule_from_config(i, rule) for i, rule in enumerate(said.rules)])
        model = self._text_model(route)
        parts: Sequence[Classifier] = [rules, *self.classifiers, *([model] if model else [])]
        own = self.config.route(route).prompt_type
        return Chain(
            table.types,
            parts,
            routes={route: own} if own else {},
            hard_types=said.hard_types,
        )

    def _text_model(self, route: str) -> LinearClassifier | None:
        name = self._profile_name(route)
        if name not in self._models:
            said, profile = self.config.classify.model, self.profile(route)
            path = (
                self.config.resolve(said)
                if said
                else classifier_path(profile, name, base=self.config.folder)
            )
            digest = profile.classifier.sha256 if profile.classifier and not said else None
            self._models[name] = (
                None if path is None else LinearClassifier.load(path, sha256=digest)
            )
        return self._models[name]
