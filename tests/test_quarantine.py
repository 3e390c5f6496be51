"""Quarantine: a model that its provider does not know is out for a while, everywhere, and nothing else.

Real openai and litellm clients against a local server; routers that share a store; real processes.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import openai
import pytest
from cli_support import STORE, cli_at
from helpers.fakes import FlakyStore
from helpers.world import BASELINE, World, asked
from http_support import (
    BIG,
    CLAUDE,
    HELLO,
    MINI,
    async_client,
    attempts,
    litellm_at_work,
    make_router,
    openai_client,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute import completion, pin, route
from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded
from budgetroute.records import Pins, Usage
from budgetroute.router import Router
from budgetroute.stores import MemoryStore
from budgetroute.testing import ScriptedServer, ok, status

FREE = "[pacing]\npacer = 'fixed'\ninitial_lambda = 0.0\nwarmup_periods = 0\n"
"""Money is free: the best reward wins, which is `large`."""
KEY = "test|quarantine"
OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def opened(world, **more):
    return world.router(more=more.pop("more", FREE), **more)


def chosen(router, request=None):
    """The model of a call that is decided and given back."""
    decision = router.decide(request or asked())
    router.release(decision)
    return decision.model


def answered(router, request=None):
    decision = router.decide(request or asked())
    router.settle(decision, [Usage(10, 10, model=decision.model)])
    return decision.model


def unknown(model: str):
    """What a provider says of a model that it does not have."""
    return status(404, f"The model `{model}` does not exist", reason="model_not_found")


class TestHow:
    def test_it_is_out_for_ten_minutes(self, any_world):
        """The best model is out at once, for ten minutes, on every route; then it is asked again."""
        router = opened(any_world)
        assert chosen(router) == "large"
        router.quarantine.missed("large", "HTTP 404")
        assert chosen(router) == chosen(router, asked("other")) == "mid"
        any_world.pass_time(minutes=9, seconds=59)
        assert chosen(router) == "mid"
        any_world.pass_time(seconds=1)
        assert chosen(router) == "large"

    def test_it_doubles(self, world):
        """Missed again without an answer in between it is out for 20, 40, … minutes, at most a day."""
        router = opened(world)
        lasted = []
        for _ in range(10):
            router.quarantine.missed("large", "HTTP 404")
            until = router.status().quarantined["large"]
            lasted.append((until - world.clock.now()) / timedelta(minutes=1))
            world.clock.at = until
        assert lasted == [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440]

    def test_many_at_once_count_once(self, world, caplog):
        """Concurrent calls that miss the same model put it out once, with one warning."""
        router = opened(world)
        for _ in range(5):
            router.quarantine.missed("large", "HTTP 404")
        (until,) = router.status().quarantined.values()
        assert until - world.clock.now() == timedelta(minutes=10)
        (said,) = [r.getMessage() for r in caplog.records if "does not know it" in r.getMessage()]
        assert "'large'" in said
        assert "2026-03-04 12:10 UTC" in said

    def test_an_answer_ends_it(self, any_world):
        """A pinned call that is answered brings the model back, and its count starts anew."""
        router, other = opened(any_world), opened(any_world)
        router.quarantine.missed("large", "HTTP 404")
        any_world.pass_time(seconds=5)
        assert answered(router, asked(pins=Pins(model="large"))) == "large"
        assert chosen(router) == chosen(other) == "large"
        router.quarantine.missed("large", "HTTP 404")
        until = router.status().quarantined["large"]
        assert until - any_world.clock.now() == timedelta(minutes=10)

    def test_an_answer_elsewhere_ends_it(self, any_world):
        """What another process got an answer from is back here too."""
        router, other = opened(any_world), opened(any_world)
        router.quarantine.missed("large", "HTTP 404")
        any_world.pass_time(seconds=5)
        answered(other, asked(pins=Pins(model="large")))
        any_world.pass_time(seconds=1)
        assert chosen(router) == "large"

    def test_an_older_answer_does_not(self, world):
        """A call that was decided before the model was missed says nothing new."""
        router = opened(world)
        before = router.decide(asked())
        world.pass_time(seconds=5)
        router.quarantine.missed("large", "HTTP 404")
        router.settle(before, [Usage(10, 10, model="large")])
        assert chosen(router) == "mid"

    def test_no_usage_is_no_answer(self, world):
        """A call whose usage stayed unknown does not bring a model back."""
        router = opened(world)
        router.quarantine.missed("large", "HTTP 404")
        world.pass_time(seconds=5)
        router.settle(router.decide(asked(pins=Pins(model="large"))))
        assert chosen(router) == "mid"

    def test_it_is_forgotten(self, world):
        """A day after its time is up, how often it was missed is forgotten."""
        router = opened(world)
        router.quarantine.missed("large", "HTTP 404")
        world.pass_time(days=2)
        router.quarantine.missed("large", "HTTP 404")
        until = router.status().quarantined["large"]
        assert until - world.clock.now() == timedelta(minutes=10)


class TestWhatItLeaves:
    def test_never_nothing(self, world):
        """Where every candidate is out, they are candidates all the same."""
        router = opened(world)
        for model in ("small", "mid", "large"):
            router.quarantine.missed(model, "HTTP 404")
        assert chosen(router) == "large"

    def test_the_only_model_of_a_route(self, world):
        """A route that may send one model sends it, in quarantine or not."""
        router = opened(world, more=f'{FREE}[routes.narrow]\nallow = ["large"]\n')
        router.quarantine.missed("large", "HTTP 404")
        assert chosen(router, asked("narrow")) == "large"
        assert chosen(router) == "mid"

    def test_a_pin(self, world):
        """A pin is the user's will."""
        router = opened(world)
        router.quarantine.missed("large", "HTTP 404")
        assert chosen(router, asked(pins=Pins(model="large"))) == "large"
        assert chosen(router, asked(pins=Pins(max_tokens=1024))) == "mid"

    def test_the_baseline_where_routing_fails(self, world):
        """The baseline is sent as a last resort, in quarantine or not."""
        router = opened(world)
        router.quarantine.missed(BASELINE.model, "HTTP 404")
        decision = router.decide(asked(providers=frozenset({"nobody"})))
        assert (decision.model, decision.fallback) == (BASELINE.model, True)

    @given(
        steps=st.lists(
            st.tuples(
                st.sampled_from(["answer", "unknown", "refuse", "miss", "wait"]),
                st.sampled_from(["small", "mid", "large"]),
            ),
            max_size=40,
        ),
        limit=st.sampled_from([0.005, 0.05, 10.0]),
    )
    @settings(max_examples=50)
    def test_money_is_not_touched(self, tmp_path_factory, steps, limit):
        """Whatever is missed and when: the cap holds, and the spend is the sum of the ledger."""
        clock = ManualClock(NOON)
        world = World(tmp_path_factory.mktemp("w"), clock, MemoryStore(clock))
        router = opened(world, budget=f"daily_usd = {limit}")
        for step, model in steps:
            walk(world, router, step, model)
            slot = router.pace.slot(int(clock.now().timestamp()) * 10**6)
            (sums,) = world.store.snapshot([slot])
            assert sums.settled + sums.held <= limit * 10**12
        entries = world.store.recent(99)
        spent = round(router.status().spent_usd * 10**12)
        assert spent == sum(entry.row.amount for entry in entries)


def walk(world, router, step, model):
    """One step of a day: a call that ends in one of three ways, a model that is missed, time."""
    if step == "miss":
        router.quarantine.missed(model, "HTTP 404")
    elif step == "wait":
        world.pass_time(minutes=7)
    else:
        try:
            decision = router.decide(asked())
        except BudgetExceeded:
            return
        if step == "refuse":
            router.release(decision)
        else:
            router.settle(decision, [Usage(150, 90)] if step == "answer" else ())


class TestWhoKnows:
    def test_other_routers_and_restarts(self, any_world):
        """Routers over the same store know within a second, and one that starts later at once."""
        router, other = opened(any_world), opened(any_world)
        assert chosen(other) == "large"
        router.quarantine.missed("large", "HTTP 404")
        any_world.pass_time(seconds=1)
        assert chosen(other) == chosen(opened(any_world)) == "mid"

    def test_another_app_does_not(self, world):
        """Apps of another name in the same store are not concerned."""
        opened(world).quarantine.missed("large", "HTTP 404")
        assert chosen(Router.from_config(second(world), store=world.store)) == "large"

    def test_several_models_of_several_processes(self, any_world):
        """What two processes miss at the same time is kept of both."""
        one, two = opened(any_world), opened(any_world)
        one.quarantine.missed("large", "HTTP 404")
        two.quarantine.missed("mid", "HTTP 404")
        any_world.pass_time(seconds=1)
        assert chosen(one) == chosen(two) == chosen(opened(any_world)) == "small"

    def test_a_real_process(self, disk_world):
        """A process of its own learns it from the disk, and this one learns from it."""
        router = opened(disk_world, more=FREE + STORE)
        router.quarantine.missed("large", "HTTP 404")
        code = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
            "from datetime import UTC, datetime\n"
            "from budgetroute.clock import ManualClock; from budgetroute.router import Router\n"
            "from budgetroute.stores import DiskStore; from helpers.world import asked\n"
            "folder = Path(sys.argv[2])\n"
            "store = DiskStore(folder / 'ledger', ManualClock(datetime(2026, 3, 4, 12, tzinfo=UTC)))\n"
            "router = Router.from_config(folder / 'budgetroute.toml', store=store)\n"
            "decision = router.decide(asked()); router.release(decision); print(decision.model)\n"
            "router.quarantine.missed('mid', 'HTTP 410')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent), str(disk_world.folder)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.stdout.strip(), done.returncode) == ("mid", 0), done.stderr
        disk_world.pass_time(seconds=1)
        assert chosen(router) == "small"

    def test_a_store_that_is_down(self, world):
        """Without the store this process still knows, and calls go on."""
        store = FlakyStore(world.store)
        router = opened(world, store=store)
        assert chosen(router) == "large"
        store.down = frozenset({"load_plan", "save_plan"})
        router.quarantine.missed("large", "HTTP 404")
        assert chosen(router) == "mid"
        store.down = frozenset()
        world.pass_time(seconds=2)
        assert chosen(router) == "mid"
        router.quarantine.missed("mid", "HTTP 404")
        assert chosen(opened(world)) == "small"

    def test_garbage(self, world, caplog):
        """What is kept and cannot be read starts over, with a warning."""
        world.store.save_plan(KEY, "[1", expected_version=0)
        router = opened(world)
        assert chosen(router) == "large"
        world.pass_time(minutes=1)
        chosen(router)
        assert caplog.text.count("quarantine cannot be read") == 1
        router.quarantine.missed("large", "HTTP 404")
        assert chosen(opened(world)) == "mid"

    def test_a_clock_that_was_wrong(self, world):
        """A time that lies years ahead does not take a model out for years."""
        router = opened(world)
        now = world.clock.at
        world.clock.at = now.replace(year=2031)
        router.quarantine.missed("large", "HTTP 404")
        world.clock.at = now
        assert chosen(router) == chosen(opened(world)) == "large"


def second(world):
    """The configuration of another app in the same folder."""
    path = world.folder / "budgetroute.toml"
    path.write_text(path.read_text().replace('name = "test"', 'name = "second"', 1))
    return path


class TestWhereItShows:
    def test_status(self, disk_world):
        """status names the model and when it is asked again, in words and as JSON."""
        router = opened(disk_world, more=FREE + STORE)
        chosen(router)
        router.quarantine.missed("large", "HTTP 404")
        said = cli_at(disk_world, "status")
        assert "large: its provider does not know it; asked again 12:10" in said.line
        json = cli_at(disk_world, "status", "--json").json
        assert json["quarantined"] == {"large": "2026-03-04T12:10:00+00:00"}
        assert opened(disk_world).status()["quarantined"].keys() == {"large"}

    def test_explain(self, disk_world):
        """explain gives the reason beside the actions that are out."""
        router = opened(disk_world, more=FREE + STORE)
        router.quarantine.missed("large", "HTTP 404")
        decision = router.decide(asked())
        said = cli_at(disk_world, "explain", decision.id).line
        reason = "its provider does not know it (HTTP 404); out until 2026-03-04 12:10 UTC"
        assert f"large/1024: {reason}" in said
        assert decision.reasons["large/1024"] == reason

    def test_doctor(self, disk_world):
        """doctor warns, and says what to mend."""
        router = opened(disk_world, more=FREE + STORE)
        router.decide(asked())
        router.quarantine.missed("large", "HTTP 404")
        answer = cli_at(disk_world, "doctor", "--json")
        assert answer.json["store"]["out"] == {"large": "2026-03-04T12:10:00+00:00"}
        told = [c["text"] for c in answer.json["store"]["checks"] if c["level"] == "warn"]
        assert any("large is out until 2026-03-04 12:10" in text for text in told)
        assert answer.code == 0


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


class TestRoutedFunctions:
    @pytest.fixture
    def router(self, tmp_path):
        return make_router(tmp_path)

    @pytest.fixture
    def ask(self, router, server):
        """A routed function with the real client; its best model is BIG."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(messages, *, model=MINI, max_tokens=1024):
                return client.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=messages
                )

            yield ask

    def test_the_error_is_the_users(self, ask, router, server):
        """The function's own exception is raised; its next call goes to another model."""
        server.then(unknown(BIG))
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            ask(HELLO)
        ask(HELLO)
        assert [body["model"] for body in server.requests] == [BIG, MINI]
        assert [state for state, _ in attempts(router)] == ["released", "settled"]

    def test_async(self, router, server):
        """The same for a coroutine function."""
        import asyncio

        async def main():
            async with async_client(server) as client:

                @route(router=router)
                async def ask(messages, *, model=MINI, max_tokens=1024):
                    return await client.chat.completions.create(
                        model=model, max_tokens=max_tokens, messages=messages
                    )

                with pytest.raises(openai.NotFoundError):
                    await ask(HELLO)
                await ask(HELLO)

        server.then(unknown(BIG))
        asyncio.run(main())
        assert [body["model"] for body in server.requests] == [BIG, MINI]

    def test_a_stream(self, router, server):
        """A stream that is refused where it is opened counts too."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(messages, *, model=MINI, max_tokens=1024):
                stream = client.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=messages, stream=True
                )
                yield from stream

            server.then(unknown(BIG))
            with pytest.raises(openai.NotFoundError):
                list(ask(HELLO))
            list(ask(HELLO))
        assert [body["model"] for body in server.requests] == [BIG, MINI]

    @pytest.mark.parametrize(
        "answer",
        [
            status(404, "404 page not found"),
            status(404, "No such File object: file-123"),
            unknown(f"{BIG}-audio"),
            unknown(f"my-{BIG}"),
            unknown("text-embedding-3-small"),
            status(403, f"{BIG} is not for you"),
            status(400, f"{BIG} does not take this"),
            status(503, f"{BIG} is overloaded"),
        ],
        ids=["address", "file", "longer", "prefixed", "other", "403", "400", "503"],
    )
    def test_what_is_not_this_model(self, ask, server, answer):
        """A wrong address, a missing file, another model's name and other errors put nothing out."""
        server.then(answer)
        with pytest.raises(openai.APIError):
            ask(HELLO)
        ask(HELLO)
        assert [body["model"] for body in server.requests] == [BIG, BIG]

    @pytest.mark.parametrize(
        "answer",
        [
            unknown(BIG),
            status(404, f"{BIG} was not found."),
            status(410, f"the model {BIG}, which you asked for, is gone"),
            status(400, f"Invalid model: {BIG}", reason="invalid_model"),
            status(403, f"no access to {BIG}", reason="model_not_found"),
            status(404, "The API deployment does not exist", reason="DeploymentNotFound"),
        ],
        ids=["code", "404", "410", "400", "403", "deployment"],
    )
    def test_what_is_this_model(self, ask, server, answer):
        """The provider's words for a model that it does not have, each with the model's name."""
        server.then(answer)
        with pytest.raises(openai.APIError):
            ask(HELLO)
        ask(HELLO)
        assert [body["model"] for body in server.requests] == [BIG, MINI]

    def test_an_error_that_cannot_be_read(self, router):
        """An exception of the user's that breaks when it is read is raised as it is."""

        class MuteError(Exception):
            status_code = 404

            def __str__(self):
                raise RuntimeError("no words")

        @route(router=router)
        def ask(messages, *, model=MINI, max_tokens=1024):
            raise MuteError

        with pytest.raises(MuteError):
            ask(HELLO)
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_the_bodys_own_words(self, router):
        """An error of the body's own, however it reads, says nothing of the model."""

        @route(router=router)
        def ask(messages, *, model=MINI, max_tokens=1024):
            error = LookupError(f"404: the model {model} does not exist")
            error.status_code, error.code = 404, "model_not_found"
            raise error

        with pytest.raises(LookupError):
            ask(HELLO)
        assert router.status().quarantined == {}


class TestCompletion:
    @pytest.fixture(scope="class", autouse=True)
    def _litellm(self):
        with litellm_at_work():
            yield

    pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

    @pytest.fixture
    def router(self, tmp_path):
        return make_router(tmp_path, more=OPENAI_ONLY + f'deny = ["o4-mini", "{CLAUDE}"]\n')

    def test_the_next_call_does_not_ask(self, router, server):
        """The call that meets an unknown model is answered by another; the next one asks that first."""
        server.then(unknown(BIG))
        for _ in range(2):
            completion(HELLO, router=router, api_base=server.base_url, api_key="none")
        assert [body["model"] for body in server.requests] == [BIG, MINI, MINI]

    def test_a_wrong_address(self, router, server):
        """404 for everything, with no word of a model, puts nothing out."""
        server.then(*[status(404, "404 page not found")] * 4)
        for _ in range(2):
            with pytest.raises(openai.NotFoundError):
                completion(HELLO, router=router, api_base=server.base_url, api_key="none")
        assert [body["model"] for body in server.requests] == [BIG, MINI] * 2
        assert router.status().quarantined == {}

    def test_every_model_is_unknown(self, router, server):
        """Where all of them are out, calls go out as before, and an answer brings a model back."""
        server.then(unknown(BIG), unknown(MINI), unknown(BIG), ok(), ok())
        settings = {"router": router, "api_base": server.base_url, "api_key": "none"}
        with pytest.raises(openai.NotFoundError):
            completion(HELLO, **settings)
        router.store._clock.at += timedelta(seconds=1)
        completion(HELLO, **settings)
        assert list(router.status().quarantined) == [BIG]
        completion(HELLO, **settings)
        assert [body["model"] for body in server.requests] == [BIG, MINI, BIG, MINI, MINI]

    def test_a_pinned_model_is_put_out_for_others(self, router, server):
        """What a pinned call finds out, unpinned ones know; pinned ones go on asking."""
        server.then(unknown(BIG), unknown(BIG))
        settings = {"router": router, "api_base": server.base_url, "api_key": "none"}
        for _ in range(2):
            with pin(model=BIG), pytest.raises(openai.NotFoundError):
                completion(HELLO, **settings)
        completion(HELLO, **settings)
        assert [body["model"] for body in server.requests] == [BIG, BIG, MINI]
