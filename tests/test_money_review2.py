"""The seams between features read by an auditor: what one part does to the money of another."""

import json

import httpx
import openai
import pytest
from cli_support import STORE, cli_at
from helpers.fakes import FlakyStore
from helpers.world import MODELS, asked
from http_support import (
    BIG,
    HELLO,
    MINI,
    NOON,
    attempts,
    day,
    litellm_at_work,
    make_router,
    openai_client,
)

import budgetroute
from budgetroute import Router, completion, last_decision, route, wrap
from budgetroute.errors import StoreError
from budgetroute.records import Balance, InputSize, Pins, Price, Rates, Usage
from budgetroute.router.bills import Ended, billed
from budgetroute.testing import ScriptedServer, ok, status

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'
SOON = {"retry_after_ms": "1"}


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more=OPENAI_ONLY)


@pytest.fixture
def shadow(router):
    file = router.config.source
    file.write_text('mode = "shadow"\n' + file.read_text())
    return Router.from_config(file, store=router.store)


@pytest.fixture(scope="module")
def loop():
    with litellm_at_work() as (_, running):
        yield running


@pytest.mark.usefixtures("loop")
class TestSampledBaseline:
    """`completion(n=3)` without us asks for three answers, so that is the baseline."""

    def call(self, server, router, **passed):
        settings = {"api_base": server.base_url, "api_key": "none", "router": router}
        return completion(HELLO, model=BIG, max_tokens=256, **settings, **passed)

    def test_shadow_mode_holds_every_answer(self, server, shadow):
        """What is held for the baseline covers all that is sent, and the real bill is the virtual one."""
        self.call(server, shadow, n=3, temperature=0.7)
        decision = last_decision()
        assert (decision.action.n, decision.action.temperature) == (3, 0.7)
        assert decision.chosen.worst == decision.shadowed.chosen.worst
        assert shadow.status().virtual.spent_usd == shadow.status().spent_usd

    def test_savings_compare_like_with_like(self, server, router):
        """The same action for the same answers saves nothing."""
        self.call(server, router, n=3)
        assert router.status().savings.saved_usd == pytest.approx(0.0)


class TestShadowRetries:
    """Shadow mode changes nothing: a client's retries are its own, whatever our ledger does."""

    def test_a_lost_ledger_fails_no_retry(self, server, shadow, monkeypatch):
        """The first attempt is held; that a second could not be must not reach the caller."""
        reserve = shadow.store.reserve

        def once(ask):
            if ask.attempt.endswith("#2"):
                raise StoreError("no ledger")
            return reserve(ask)

        monkeypatch.setattr(shadow.store, "reserve", once)
        server.then(status(500, **SOON), ok())
        with openai_client(server, max_retries=1) as client:
            assert wrap(client, router=shadow).chat.completions.create(model=MINI, messages=HELLO)
        assert len(server.requests) == 2

    def test_the_sdk_decides_what_is_tried_again(self, server, shadow):
        """What its provider tells the SDK not to repeat is not repeated, as mode `on` would."""
        server.then(status(429, retry_after=0, x_should_retry="false"), ok())
        with openai_client(server, max_retries=1) as client, pytest.raises(openai.RateLimitError):
            wrap(client, router=shadow).chat.completions.create(model=MINI, messages=HELLO)
        assert len(server.requests) == 1
        assert (day(shadow).settled, shadow.status().held_usd) == (0, 0.0)


class TestUntouchedCompletion:
    """Off and in shadow mode, litellm gets what was passed, its own retries too."""

    @pytest.fixture(params=["off", "shadow"])
    def idle(self, request, router, monkeypatch):
        monkeypatch.setenv("BUDGETROUTE_MODE", request.param)
        return Router.from_config(router.config.source, store=router.store)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_the_callers_retries(self, server, idle, loop, is_async):
        """`num_retries=` is litellm's, and is sent to it."""
        server.then(status(500, **SOON), ok())
        passed = {"api_base": server.base_url, "api_key": "none", "router": idle}
        passed |= {"model": f"openai/{MINI}", "max_retries": 1}
        if is_async:
            answer = loop.run_until_complete(budgetroute.acompletion(HELLO, **passed))
        else:
            answer = completion(HELLO, **passed)
        assert answer.choices[0].message.content == "ok"
        assert len(server.requests) == 2

    def test_substitutes_are_not_refused(self, server, idle):
        """What mode `on` refuses passes: nothing is held that it could exceed."""
        passed = {"api_base": server.base_url, "api_key": "none", "router": idle}
        completion(HELLO, model=f"openai/{MINI}", fallbacks=[f"openai/{BIG}"], **passed)
        assert server.requests[0]["model"] == MINI


class TestEngineTime:
    ENGINE = MODELS.replace(
        "price = { input = 0.1, output = 0.4 }",
        "price = { gpu_hour = 3.6, tokens_per_second = 60 }",
    )
    LONG = "[routes.answer]\ntimeout_s = 3600\n"
    SECOND = 10**9  # pico-dollars, at $3.60 an hour

    def engine(self, world):
        return world.router(models=self.ENGINE, more=self.LONG, budget="daily_usd = 1000.0")

    def request(self):
        return asked(pins=Pins(model="small", max_tokens=256))

    @pytest.mark.parametrize("again", [False, True])
    def test_a_long_call_shares_to_its_end(self, world, again):
        """With the route's own hour a call of half an hour is not given up after a quarter."""
        router = self.engine(world)
        first, second = (router.decide(self.request()) for _ in range(2))
        attempt = 1
        if again:
            router.release(first)
            router.release(second)
            attempt = 2
            first = router.again(first, self.request(), attempt=2)
            second = router.again(second, self.request(), attempt=2)
        world.pass_time(minutes=30)
        usage = [Usage(10, 10)]
        bills = [router.settle(d, usage, attempt=attempt).amount for d in (first, second)]
        assert sum(bills) == 1800 * self.SECOND

    def test_the_hold_of_a_retry_lasts_as_long_as_the_first(self, world):
        """Half an hour later neither of them was given up."""
        router = self.engine(world)
        decision = router.decide(self.request())
        router.again(decision, self.request(), attempt=2)
        world.pass_time(minutes=30)
        assert world.store.sweep(int(world.clock.at.timestamp() * 10**6)) == 0

    def test_a_cached_answer_takes_no_time_from_the_next(self):
        """Of two answers, one out of a cache on this side, the other pays the engine's time."""
        price = Price("engine", Rates(0, 0), source="time", second=10**15)
        cached, made = Usage(10, 10, from_cache=True), Usage(10, 10)
        for usages in ([cached, made], [made, cached]):
            total, _ = billed(
                usages, model="engine", price=price, fixed=True, facts=None, ended=Ended(NOON, 7.0)
            )
            assert total == 7 * self.SECOND


def test_virtual_money_is_no_spending_of_any_app(disk_world):
    """Over all apps a call of shadow mode counts once: what was sent, not what `on` would send."""
    router = disk_world.router(top='mode = "shadow"', more=STORE)
    router.settle(router.decide(asked()), [Usage(200, 100)])
    total = cli_at(disk_world, "ledger", "sum", "--all-apps", "--json").json["total"]
    assert total["calls"] == 1
    assert total["spent_usd"] == pytest.approx(router.status().spent_usd)


class TestAfterAnOutage:
    """What a store that was down for a moment owes: holds given back, retries counted."""

    OPEN = '[store]\non_store_error = "open"\n'

    @pytest.mark.parametrize("mode", ["on", "shadow"])
    def test_a_release_waits_like_a_bill(self, world, mode):
        """A refused call is not booked as estimated only because nobody could give its hold back."""
        store = FlakyStore(world.store)
        router = world.router(store=store, top=f'mode = "{mode}"')
        decision = router.decide(asked())
        store.down = FlakyStore.EVERYTHING
        router.release(decision)
        store.down = frozenset()
        world.pass_time(hours=1)
        status = router.status()
        assert (status.spent_usd, status.held_usd, status.calls) == (0.0, 0.0, 0)
        virtual = router.store.snapshot(decision.shadowed.slots if decision.shadowed else [])
        assert [b for b in virtual if b != Balance()] == []

    def test_a_virtual_hold_waits_too(self, world):
        """The baseline cannot be held; what stands beside it is given back when that can be."""
        store = FlakyStore(world.store)
        router = world.router(store=store, top='mode = "shadow"')
        reserve = store.inner.reserve

        def fails(ask):
            if not ask.attempt.startswith("shadow-"):
                store.down = FlakyStore.EVERYTHING
                raise StoreError("no ledger")
            return reserve(ask)

        world.store.reserve = fails
        with pytest.raises(StoreError):
            router.decide(asked())
        store.down = frozenset()
        assert router.status().virtual.held_usd == 0.0

    def test_one_bill_that_cannot_be_booked_keeps_no_other_waiting(self, world):
        """A damaged row fails for good; what came after it is booked all the same."""
        store = FlakyStore(world.store)
        router = world.router(store=store)
        damaged, *others = [router.decide(asked()) for _ in range(3)]
        settle, is_damaged = world.store.settle, True

        def strange(bill):
            if is_damaged and bill.decision == damaged.id:
                raise StoreError("the ledger holds what budgetroute never writes")
            return settle(bill)

        world.store.settle = strange
        store.down = FlakyStore.EVERYTHING
        for decision in (damaged, *others):
            router.settle(decision, [Usage(200, 100)])
        store.down = frozenset()
        router.cash.book_pending()
        states = {e.decision: e.row.state for e in world.store.recent(10)}
        assert [states[d.id] for d in (damaged, *others)] == ["held", "settled", "settled"]
        is_damaged = False
        assert router.status().held_usd == 0.0

    def test_a_retry_is_held_once_the_ledger_is_back(self, world):
        """A first attempt that nobody could count is no reason to let the next run uncounted."""
        store = FlakyStore(world.store)
        router = world.router(store=store, more=self.OPEN)
        store.down = FlakyStore.EVERYTHING
        decision = router.decide(asked())
        assert router.again(decision, asked(), attempt=2).slots == ()
        assert router.uncounted == 2
        store.down = frozenset()
        again = router.again(decision, asked(), attempt=3)
        router.settle(again, [Usage(200, 100)], attempt=3)
        assert (router.status().calls, router.status().spent_usd > 0) == (1, True)


class TestRoutedInsideRouted:
    """A wrapped client in a function under @route: two decisions, two bills for one answer."""

    def answer_of(self, server, router, inner):
        @route(router=router)
        def answer(question, *, model=MINI, max_tokens=256):
            with openai_client(server) as client:
                made = wrap(client, router=inner) if inner else client
                asked_ = [{"role": "user", "content": question}]
                return made.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=asked_
                )

        return answer("why?")

    def test_it_is_told(self, server, router, caplog):
        """Both count, since limits may name either route; the warning says what to change."""
        self.answer_of(server, router, router)
        assert len(attempts(router)) == 2
        assert "counts twice" in caplog.text

    def test_another_budget_or_a_plain_client_is_not(self, server, router, tmp_path, caplog):
        """Two budgets each count their own; a plain client counts once."""
        other = tmp_path / "other"
        other.mkdir()
        self.answer_of(server, router, make_router(other))
        self.answer_of(server, router, None)
        assert len(attempts(router)) == 2
        assert "counts twice" not in caplog.text


def test_computed_pins_make_no_group_for_each_call(world):
    """A cap or a temperature that is computed anew for each call must not fill memory and store."""
    router = world.router()
    for i in range(200):
        router.decide(asked(pins=Pins(max_tokens=300 + i, temperature=i / 200)))
    router.decide(asked(pins=Pins(max_tokens=3000)))
    assert len(world.store.arrivals("day:")) == 2


class TestOneEstimate:
    RATIO = MODELS.replace('[models."mid"]', '[models."mid"]\ntoken_ratio = 2.0')

    def test_what_reports_taught_is_not_multiplied_again(self, world):
        """The function adds 1,000 of the model's own tokens; `token_ratio` is for what we count."""
        router = world.router(models=self.RATIO)
        pins = Pins(model="mid", max_tokens=1024, cot=False)
        request = asked(hidden_input=True, prompt_type="math", pins=pins)
        first = router.decide(request)
        router.settle(first, [Usage(2 * 200 + 1000, 320)])
        second = router.decide(request)
        assert second.expected_usd == pytest.approx((1400 * 1.0 + 320 * 4.0) / 1e6)
        counted = router.counted(second, request, text=0)
        assert counted.input_tokens == 1400

    def test_a_plan_and_a_call_expect_the_same(self, world):
        """The solver's curve of a group costs what its calls are expected to cost, tools and all."""
        router = world.router(budget="daily_usd = 100.0")
        size = InputSize(200, 800, framing=40_000)
        decision = router.decide(asked(size=size, prompt_type="math"))
        world.pass_time(minutes=2)
        router.decide(asked(size=size, prompt_type="math"))
        (group,) = {group for group, _ in world.store.arrivals("day:")}
        points = json.loads(world.store.load_plan(f"test|curve|{group}").value)["points"]
        nearest = min(abs(usd / decision.expected_usd - 1) for _, usd, _ in points)
        assert nearest < 0.06  # sizes of a group are rounded to a twentieth


class UnprintableError(openai.NotFoundError):
    """An SDK's error whose words cannot be had."""

    __module__ = "openai"

    def __str__(self):
        raise ValueError("not printable")


def test_an_error_that_cannot_be_printed_is_the_callers(router):
    """Reading it for quarantine must neither replace it nor leave the hold behind."""
    answered = httpx.Response(404, request=httpx.Request("POST", "http://x"))

    @route(router=router)
    def answer(question, *, model=MINI, max_tokens=256):
        raise UnprintableError("no", response=answered, body=None)

    with pytest.raises(UnprintableError):
        answer("why?")
    assert [state for state, _ in attempts(router)] == ["released"]
