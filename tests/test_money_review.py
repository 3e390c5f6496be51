"""The money path read by an attacker: what is sent beyond what was held, what is billed and lost."""

import contextlib
import functools
import gc
import os
import signal
import warnings
from datetime import timedelta

import openai
import pytest
from helpers.world import MODELS, World, asked
from http_support import (
    BIG,
    DEAR,
    HELLO,
    MINI,
    NOON,
    attempts,
    make_router,
    openai_client,
    reply,
)

from budgetroute import ConfigError, last_decision, pin, record, route
from budgetroute.clock import ManualClock
from budgetroute.records import Usage
from budgetroute.router.bills import billed
from budgetroute.router.overheads import Overheads
from budgetroute.stores import DiskStore
from budgetroute.terms import services_asked
from budgetroute.testing import ScriptedServer, cut, status
from budgetroute.units import micros_from_time, pico_from_usd

LONG_TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "x" * 40_000, "parameters": {"type": "object"}},
}


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def client(server):
    with openai_client(server) as made:
        yield made


class TestSentIsHeld:
    def test_pinned_n_replaces_the_callers(self, router, server, client):
        """`pin(n=1)` holds one answer, so the caller's n=3 must not reach the wire."""
        create = route(router=router)(client.chat.completions.create)
        with pin(n=1):
            create(model=MINI, messages=HELLO, n=3)
        assert last_decision().action.n == 1
        assert server.requests[0].get("n", 1) == 1

    def test_one_cap_is_sent(self, router):
        """A second cap of the caller's under another name would outlast the one that is held."""

        @route(router=router)
        def answer(question, *, model=MINI, **rest):
            return reply(model) | {"rest": rest}

        sent = answer("why?", max_tokens=100, max_output_tokens=99_999)["rest"]
        assert [sent[name] for name in sent if name.startswith("max_")] == [100]

    @pytest.mark.parametrize("hidden", [{"max_tokens": 99_999}, {"n": 9}, {"model": BIG}])
    def test_extra_body_cannot_replace_the_decision(self, router, server, client, hidden):
        """The OpenAI client sends `extra_body` over its parameters: refused, nothing is sent."""
        create = route(router=router)(client.chat.completions.create)
        with pytest.raises(ConfigError, match="extra_body"):
            create(model=MINI, messages=HELLO, extra_body=hidden)
        with pytest.raises(ConfigError, match="extra_body"):
            route(router=router)(
                functools.partial(client.chat.completions.create, extra_body=hidden)
            )
        assert (server.requests, attempts(router)) == ([], [])


class TestStandingArguments:
    def worst_of(self, folder, call, **arguments):
        router = make_router(folder, price=DEAR)
        with pin(model=BIG, max_tokens=256):
            route(router=router)(call)(model=BIG, **arguments)
        return last_decision().chosen.worst

    @pytest.mark.parametrize(
        "standing",
        [{"service_tier": "priority"}, {"tools": [LONG_TOOL]}, {"messages": HELLO * 50}],
    )
    def test_a_partial_holds_what_its_arguments_cost(self, tmp_path, client, standing):
        """A service tier, tools or messages cost the same, passed now or bound beforehand."""
        create = client.chat.completions.create
        given = {"messages": HELLO} | standing
        rest = {name: value for name, value in given.items() if name not in standing}
        now = self.worst_of(tmp_path, create, **given)
        before = self.worst_of(tmp_path, functools.partial(create, **standing), **rest)
        assert before == now > self.worst_of(tmp_path, create, messages=HELLO)

    def test_a_default_service_tier_is_held(self, tmp_path):
        """A function's own default tier is sent, so its rates are held."""

        def plain(question, *, model=BIG, max_tokens=256):
            return reply(model)

        def dear(question, *, model=BIG, max_tokens=256, service_tier="priority"):
            return reply(model)

        assert self.worst_of(tmp_path, dear, question="why?") > self.worst_of(
            tmp_path, plain, question="why?"
        )

    @pytest.mark.parametrize(
        ("parameters", "tiers"),
        [
            ({"service_tier": "flex"}, {"flex"}),
            ({"extra_body": {"service_tier": "priority"}}, {"priority"}),
            ({"speed": "fast"}, {"fast"}),
            ({"speed": "fast", "inference_geo": "us"}, {"fast", "us", "fast us"}),
            ({"service_tier": None, "speed": 3}, set()),
        ],
    )
    def test_every_dearer_tier_counts(self, parameters, tiers):
        """Anthropic's speed and region are billed like tiers, so they are held like tiers."""
        assert services_asked(parameters) == tiers


class TestParams:
    @pytest.mark.parametrize(
        "params", ["max_tokens = 99999", "n = 8", 'model = "o3"', "extra_body = { n = 8 }"]
    )
    def test_configured_params_are_no_part_of_the_action(self, tmp_path, params):
        """They are sent last, so a cap or a count among them would replace the one that is held."""
        with pytest.raises(ConfigError, match="in place of what is chosen"):
            make_router(tmp_path, more=f'[models."{BIG}"]\nparams = {{ {params} }}\n')

    def test_other_params_stay(self, tmp_path):
        """What is no part of an action is sent as it stands."""
        more = f'[models."{BIG}"]\nparams = {{ top_p = 0.9, extra_body = {{ own = 1 }} }}\n'
        assert make_router(tmp_path, more=more).config.models[BIG].params["top_p"] == 0.9


class TestBilledIsBooked:
    def test_a_failing_pacer_does_not_lose_the_bill(self, router, caplog):
        """Pacing comes before booking in time, not in rank."""

        def broken(at):
            raise ValueError("a curve that cannot be read")

        @route(router=router)
        def answer(question, *, model=MINI, max_tokens=256):
            router.pace.catch_up = broken
            return reply(model)

        answer("why?")
        assert [state for state, _ in attempts(router)] == ["settled"]
        assert "pacing of" in caplog.text

    def test_a_name_that_utf8_cannot_carry_does_not_lose_the_bill(self, router):
        """JSON may hold half a surrogate pair; the ledger holds UTF-8."""

        @route(router=router)
        def answer(question, *, model=MINI, max_tokens=256):
            return reply(f"{model}\ud800")

        answer("why?")
        assert [state for state, _ in attempts(router)] == ["settled"]

    def test_what_was_recorded_is_billed_though_a_manager_is_never_entered(self, router):
        """The manager's own request was not sent; the one before it was answered."""

        @contextlib.contextmanager
        def manager():
            yield

        @route(router=router)
        def answer(question, *, model=MINI, max_tokens=256):
            record(reply(model))
            return manager()

        answer("why?")
        gc.collect()
        assert [state for state, _ in attempts(router)] == ["settled"]


class WebError(Exception):
    """What web frameworks raise, FastAPI's HTTPException for one."""

    status_code = 422


class TestFailuresAfterTheAnswer:
    @pytest.mark.parametrize("error", [WebError(), ConnectionRefusedError("database")])
    def test_a_body_that_fails_for_its_own_reasons_is_not_given_its_money_back(
        self, router, server, client, error
    ):
        """The answer was billed; that a database then refused proves nothing about it."""

        @route(router=router)
        def answer(question, *, model=MINI, max_completion_tokens=256):
            client.chat.completions.create(
                model=model, messages=HELLO, max_completion_tokens=max_completion_tokens
            )
            raise error

        with pytest.raises(type(error)):
            answer("why?")
        assert len(server.billed) == 1
        assert [state for state, _ in attempts(router)] == ["estimated"]

    @pytest.mark.parametrize(("step", "state"), [(status(429), "released"), (cut(), "estimated")])
    def test_what_the_providers_sdk_says_is_believed(self, router, server, client, step, state):
        """Its error counts, not the body's own one round it: refused is free, a broken line is not."""
        server.then(step)

        @route(router=router)
        def answer(question, *, model=MINI, max_completion_tokens=256):
            try:
                client.chat.completions.create(model=model, messages=HELLO)
            except openai.APIError as err:
                raise WebError from err

        with pytest.raises(WebError):
            answer("why?")
        assert [row for row, _ in attempts(router)] == [state]


def test_a_dearer_variant_is_no_snapshot_of_the_planned_model(world):
    """`mid-32k` answered where `mid` was asked is billed at its own, known price."""
    more = '[models."mid-32k"]\nprice = { input = 2.0, output = 8.0 }\nlike = "mid"\n'
    facts = world.router(models=MODELS + more).equipment.facts
    usage = Usage(100, 10, model="mid-32k")
    amount, key = billed([usage], model="mid", price=facts("mid").price, fixed=False, facts=facts)
    assert (amount, key) == (pico_from_usd("0.00028"), "mid-32k")


def test_processes_that_start_together_keep_the_largest_overhead(world):
    """The second to write must not forget the most that the first one saw: it is what is reserved."""
    one, other = (Overheads(world.store, app="test") for _ in range(2))
    for overheads in (one, other):
        overheads.of("answer", default=4000)
    one.learn("answer", reported=10_000, counted=0)
    other.learn("answer", reported=10, counted=0)
    later = Overheads(world.store, app="test")
    assert min(each.of("answer", default=4000).bound for each in (other, later)) >= 10_000


class TestBank:
    BUDGET = "daily_usd = 10.0\ncarry_over = 1"

    def tomorrow(self, world):
        world.clock.at += timedelta(days=1)
        return world.router(budget=self.BUDGET)

    def limit(self, router):
        return router.till.limit_at(micros_from_time(router.store.now()))

    def test_money_that_is_held_at_midnight_is_not_carried_over(self, world):
        """A call on its way may yet cost its worst case, so the bank is without it."""
        decision = world.router(budget=self.BUDGET).decide(asked())
        after = self.tomorrow(world)
        assert self.limit(after) == 2 * after.till.daily - decision.chosen.worst

    def test_what_an_estimate_left_held_is_carried_over(self, world):
        """The rest of an unknown bill ends with its window."""
        router = world.router(budget=self.BUDGET)
        settlement = router.settle(router.decide(asked()))
        after = self.tomorrow(world)
        assert self.limit(after) == 2 * after.till.daily - settlement.amount


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_another_thread_solves_leaves_the_child_working(tmp_path):
    """Nobody in the child could free a lock that a thread of the parent held."""
    clock = ManualClock(NOON)
    router = World(tmp_path, clock, DiskStore(tmp_path / "store", clock)).router()
    router.settle(router.decide(asked()), [Usage(200, 100)])
    with router.pace.solver._solving, router.pace.solver._lock:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(30)
                clock.at += timedelta(minutes=2)  # the plan is due
                router.settle(router.decide(asked()), [Usage(200, 100)])
                status = 0
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert router.status().calls == 2
