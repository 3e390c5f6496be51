"""The loop body: decide → settle or release. No network; the store and the clock are handed in."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from budgetroute.errors import StoreError
from budgetroute.records import (
    Bill,
    Decision,
    Request,
    Settlement,
    Usage,
)
from budgetroute.router import shadow
from budgetroute.router.bills import billed, doubts, merged
from budgetroute.router.choosing import Chooser
from budgetroute.router.comparing import Comparing
from budgetroute.router.crossings import Crossings
from budgetroute.router.engines import Engines
from budgetroute.router.herald import Herald
from budgetroute.router.holding import hold, hold_again, option
from budgetroute.router.learning import learn
from budgetroute.router.overheads import Overheads
from budgetroute.router.paced import paces_of
from budgetroute.router.picks import draw_of
from budgetroute.router.quarantine import Quarantine
from budgetroute.router.status import Status, limits_of, status_of
from budgetroute.router.till import Till
from budgetroute.router.words import settlement_record
from budgetroute.units import micros_from_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from budgetroute.protocols import Classifier, Clock, Observer, Store
    from budgetroute.records import CostSource
    from budgetroute.router.bills import Ended
    from budgetroute.router.equipment import Equipment
    from budgetroute.router.status import LimitStatus
    from budgetroute.units import Pico

_NO_USAGE = Usage(0, 0)
_BILLED = frozenset({"reported", "timed"})


class Router:
    """Decides, settles and releases for one app.

    Args:
        equipment: config, profiles, prices and classifiers.
        store: the ledger and the plan.
        observers: told of decisions, settlements and steps; what they raise is logged, not passed.
        new_id: makes decision ids.

    Attributes:
        till: the limits that choosing goes by; virtual in shadow mode.
        cash: where real money is counted; the same but for shadow mode.
        is_shadow: the baseline is sent, and choosing is only computed.
    """

    def __init__(
        self,
        equipment: Equipment,
        store: Store,
        *,
        observers: Sequence[Observer] = (),
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        config = equipment.config
        self.config = config
        self.equipment = equipment
        self.store = store
        self.herald = Herald(observers)
        self.is_shadow = config.mode == "shadow"
        app = f"{shadow.KEY_PREFIX}{config.name}" if self.is_shadow else config.name
        till = partial(Till, store, budget=config.budget, limits=config.limits)
        self.till = till(app=app)
        self.cash = till(app=config.name, is_enforced=False) if self.is_shadow else self.till
        self.comparing = Comparing(store, app=app)
        self.overheads = Overheads(store, app=config.name)
        self.paces = paces_of(equipment, self.till, observers=(self.herald,))
        self.pace = self.paces.main
        self.crossings = Crossings(store, app=config.name)
        self.quarantine = Quarantine(
            store, app=config.name, zone=self.till.day.zone, warn=self.herald.warn
        )
        self.chooser = Chooser(
            equipment,
            self.paces,
            overheads=self.overheads,
            crossings=self.crossings,
            quarantine=self.quarantine,
        )
        self.engines = Engines(equipment, store)
        self.uncounted = 0
        self._new_id = new_id

    @classmethod
    def from_config(
        cls,
        path: str | Path | None = None,
        *,
        overrides: Mapping[str, Any] | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        observers: Sequence[Observer] | None = None,
        classifiers: Sequence[Classifier] = (),
    ) -> Router:
        """Build a router from budgetroute.toml, found as the documentation says if not named.

        Args:
            path: a config file.
            overrides: dotted key → value, over file and environment.
            store: a store to use instead of the configured one.
            clock: a clock for the store that is opened; the machine's by default.
            observers: told instead of the debug log.
            classifiers: asked after the rules and before the profile's text model.

        Raises:
            ConfigError: what is wrong in the configuration, where, and what to write.
            ProfileError: the profile is missing or unfit.
            UnpricedModel: a configured model has no price.
        """
        from budgetroute.router.assembly import assemble

        equipment, opened, told = assemble(
            path, overrides=overrides, store=store, clock=clock, classifiers=classifiers
        )
        return cls(equipment, opened, observers=told if observers is None else observers)

    def decide(self, request: Request) -> Decision:
        """Choose an action and hold its worst case.

        Raises:
            BudgetExceeded: nothing fits the tightest limit.
            NoEligibleAction: gates left nothing, and the code has no baseline or `strict` is set.
            UnpricedModel: a pinned model has no price.
            ConfigError: the request names a type that the profile lacks.
            StoreError: the ledger cannot be reached (unless `on_store_error = "open"`).
        """
        self.cash.book_pending()
        decision_id = self._new_id()
        if self.is_shadow:
            decision = shadow.decide(self, request, decision_id)
            return self._decided(decision, request)
        draw = draw_of(request.seed or decision_id)
        try:
            at = micros_from_time(self.store.now())
            pick = self.chooser.pick(request, draw, at)
            decision = hold(self, pick, decision_id, at)
            self.comparing.saw(pick, decision.chosen, self.pace.period(at).id)
        except StoreError as err:
            decision = self._uncounted(request, decision_id, draw, err)
        return self._decided(decision, request)

    def _decided(self, decision: Decision, request: Request) -> Decision:
        self.engines.begin(decision, request, decision.at)
        self.herald.decided(decision)
        self._say_unbilled(request, decision)
        return decision

    def again(self, decision: Decision, request: Request, *, attempt: int) -> Decision:
        """Hold the chosen action's worst case for one more attempt; return where it counts.

        Raises:
            BudgetExceeded: the attempt does not fit.
            StoreError: the ledger cannot be reached (unless `on_store_error = "open"`).
        """
        try:
            return hold_again(self, decision, request, attempt=attempt)
        except StoreError as err:
            self._let_through(err)
            return replace(decision, slots=(), balance=None)

    def settle(
        self,
        decision: Decision,
        usages: Sequence[Usage] = (),
        *,
        attempt: int = 1,
        given: Pico | None = None,
        partial: bool = False,
        over: bool = False,
    ) -> Settlement:
        """Replace the hold by what was billed.

        Args:
            decision: what was decided.
            usages: what the responses reported; none = unknown, the expected cost is booked as
                estimated and the rest of the worst case stays held.
            attempt: which attempt of the decision.
            given: the bill itself, if the user knows it.
            partial: some of the usages were counted here: their price is booked as estimated, and
                the rest of the worst case stays held.
            over: the call has ended, so that its time is known even where its usage is not.
        """
        ended = self.engines.end(decision, attempt, is_known=over or bool(usages))
        amount, key, source = self._bill(decision, usages, given, ended)
        guess = option(decision.chosen).expected
        if partial and amount is not None and source != "timed":
            guess, amount, source = self._guess(decision, amount), None, "partial"
        settlement = Settlement(
            decision=decision.id,
            amount=guess if amount is None else amount,
            source=source,
            usage=merged(usages),
            overshoot=max(0, (amount or 0) - decision.chosen.worst),
            billed_as=key,
        )
        if decision.slots:
            settlement = self._book(decision, settlement, amount, attempt)
        if decision.shadowed is not None:
            shadow.settle(self, decision, settlement)
        learn(self, decision, settlement, usages)
        if usages or given is not None:
            self.quarantine.answered(decision)
        self.herald.settled(decision, settlement)
        return settlement

    def counted(
        self, decision: Decision, request: Request, *, text: int, seen: Usage | None = None
    ) -> Usage:
        """Return what a call that did not report its whole usage has probably used.

        Args:
            decision: what was decided.
            request: what was asked.
            text: tokens of the text that it delivered, counted with o200k.
            seen: what it reported on the way; None = nothing.

        Raises:
            StoreError: what the route's function adds cannot be read.
        """
        facts = self.equipment.facts(decision.model)
        output = round(text * facts.ratio)
        if seen is not None:
            return replace(seen, output_tokens=max(output, seen.output_tokens))
        default = self.config.route(decision.route).input_tokens if request.hidden_input else 0
        hidden = self.overheads.of(decision.route, default=default).expected
        given = max(0.0, decision.input_tokens * facts.ratio + hidden)
        given += decision.images * (facts.image_tokens or 0)
        return Usage(round(given), output)

    def release(self, decision: Decision, *, attempt: int = 1) -> None:
        """Give back the hold of a call that was not sent or not billed."""
        self.engines.end(decision, attempt)
        if decision.slots:
            at = self._now(decision)
            self.cash.release(f"{decision.id}#{attempt}", at)
            shadow.release(self, decision, at)

    def _now(self, decision: Decision) -> int:
        try:
            return micros_from_time(self.store.now())
        except StoreError:  # the till says so if the store cannot be reached
            return micros_from_time(decision.at)

    def status(self) -> Status:
        """Return where the paced budget stands.

        Raises:
            StoreError: the ledger cannot be reached.
        """
        self.cash.book_pending()
        self.comparing.flush()
        return status_of(self)

    def _say_unbilled(self, request: Request, decision: Decision) -> None:
        if decision.terms.searches and not self.equipment.facts(decision.model).price.fees.search:
            self.herald.warn(
                f"{decision.model}: the call may search, and the fee of a search is not known: none "
                f'is held. Write price = {{ …, search = 0.01 }} ($ each) under [models."{decision.model}"].'
            )
        for tool in sorted(request.unbilled):
            self.herald.warn(
                f"route {request.route!r}: the provider bills each use of {tool}, and the price map "
                "does not say how much: it is neither held nor billed. Leave room in daily_usd."
            )

    def limits(
        self, *, route: str = "", tags: Mapping[str, str] | None = None
    ) -> tuple[LimitStatus, ...]:
        """Return where every limit stands that a call of this route with these tags counts in.

        Raises:
            StoreError: the ledger cannot be reached.
        """
        return limits_of(self, route, tags or {})

    def _bill(
        self, decision: Decision, usages: Sequence[Usage], given: Pico | None, ended: Ended
    ) -> tuple[Pico | None, str, CostSource]:
        model = decision.chosen.action.model
        facts = self.equipment.facts(model)
        if given is not None:
            return given, facts.price.key, "given"
        timed = facts.price.second is not None
        if (timed and ended.seconds is None) or not (usages or timed):
            return None, facts.price.key, "estimated"
        said = self.config.models.get(model)
        fixed = said is not None and (said.price_as is not None or said.price is not None)
        amount, key = billed(
            usages or [_NO_USAGE],
            model=model,
            price=facts.price,
            fixed=fixed,
            facts=self.equipment.facts,
            ended=ended,
        )
        for text in doubts(usages, model=model, price=facts.price):
            self.herald.warn(text)
        return amount, key, "timed" if timed else "reported"

    def _guess(self, decision: Decision, counted: Pico) -> Pico:
        """Return what to book for counted text: hidden reasoning leaves none, so not below expected."""
        money, action = option(decision.chosen), decision.action
        thinks = self.equipment.facts(action.model).card.supports.get("reasoning")
        least = money.expected if thinks and action.reasoning_effort != "none" else 0
        return min(money.worst, max(counted, least))

    def _book(
        self, decision: Decision, settlement: Settlement, amount: Pico | None, attempt: int
    ) -> Settlement:
        at = self._caught_up(decision)
        money = option(decision.chosen)
        booked = self.cash.book(
            Bill(
                attempt=f"{decision.id}#{attempt}",
                decision=decision.id,
                at=at,
                slots=decision.slots,
                billed=amount,
                expected=money.expected,
                worst=money.worst,
                record=settlement_record(decision, settlement),
                estimate=settlement.amount,
            )
        )
        if booked is None:
            return settlement
        self.paces.saw(at, decision.slots, booked.balances)
        for warning in self.cash.crossed(decision, booked.balances, at):
            self.herald.warned(warning)
        return replace(
            settlement,
            amount=booked.amount,
            balance=booked.balances[0],
            repeated=booked.repeated,
        )

    def _caught_up(self, decision: Decision) -> int:
        """Step a period that has ended before this bill counts in the next; return the time."""
        at = micros_from_time(decision.at)
        try:
            at = micros_from_time(self.store.now())
            self.paces.catch_up(at, decision.slots)
        except StoreError:  # the till says so if the bill cannot be booked either
            pass
        except Exception as err:  # noqa: BLE001 - whatever the pacer meets, the bill is booked
            self.herald.warn(f"pacing of {decision.id} failed: {type(err).__name__}")
        return at

    def _uncounted(
        self, request: Request, decision_id: str, draw: float, err: StoreError
    ) -> Decision:
        self._let_through(err)
        return self.chooser.without_store(request, decision_id, draw)

    def _let_through(self, err: StoreError) -> None:
        """Count a call that runs without a ledger, if the user wrote `on_store_error = "open"`."""
        if self.config.store.on_store_error != "open":
            raise err
        self.uncounted += 1
        self.herald.let_through(self.uncounted, err)
