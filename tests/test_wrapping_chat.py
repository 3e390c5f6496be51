"""wrap(OpenAI()): chat completions are routed through every face of the client, and settled once."""

import asyncio
import contextlib

import openai
import pydantic
import pytest
from api_support import ApiServer
from http_support import (
    BIG,
    CLAUDE,
    HELLO,
    MINI,
    REASONER,
    async_client,
    attempts,
    cost,
    day,
    make_router,
    openai_client,
)
from stream_support import ASYNC, SYNC, TEXT, aended, booked, ended, watched

from budgetroute import BudgetExceeded, ConfigError, last_decision, pin, route, run, wrap
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import cut, ok, slow, status, stopped

ASKED = {"model": MINI, "messages": HELLO}
SOON = {"retry_after_ms": "1"}


class Answer(pydantic.BaseModel):
    text: str


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server):
    with openai_client(server) as made:
        yield made


@pytest.fixture
def wrapped(client, router):
    return wrap(client, router=router)


def entered(manager, read):
    with manager as opened:
        return read(opened)


async def aentered(manager, read):
    async with manager as opened:
        return await read(opened)


FACES = {
    "create": lambda c: c.chat.completions.create(**ASKED).model,
    "parse": lambda c: c.chat.completions.parse(**ASKED, response_format=Answer).model,
    "stream": lambda c: entered(
        c.chat.completions.stream(**ASKED), lambda s: s.get_final_completion().model
    ),
    "create(stream)": lambda c: list(c.chat.completions.create(**ASKED, stream=True))[-1].model,
    "raw": lambda c: c.chat.completions.with_raw_response.create(**ASKED).parse().model,
    "raw of the client": lambda c: (
        c.with_raw_response.chat.completions.create(**ASKED).parse().model
    ),
    "raw parse": lambda c: (
        c.chat.completions.with_raw_response.parse(**ASKED, response_format=Answer).parse().model
    ),
    "raw stream": lambda c: (
        list(c.chat.completions.with_raw_response.create(**ASKED, stream=True).parse())[-1].model
    ),
    "streaming": lambda c: entered(
        c.chat.completions.with_streaming_response.create(**ASKED), lambda r: r.parse().model
    ),
    "streaming, as JSON": lambda c: entered(
        c.chat.with_streaming_response.completions.create(**ASKED), lambda r: r.json()["model"]
    ),
    "streaming stream": lambda c: entered(
        c.with_streaming_response.chat.completions.create(**ASKED, stream=True),
        lambda r: list(r.parse())[-1].model,
    ),
    "beta parse": lambda c: c.beta.chat.completions.parse(**ASKED, response_format=Answer).model,
    "beta stream": lambda c: entered(
        c.beta.chat.completions.stream(**ASKED), lambda s: s.get_final_completion().model
    ),
    "with_options": lambda c: c.with_options(timeout=5).chat.completions.create(**ASKED).model,
    "copy": lambda c: c.copy().chat.completions.create(**ASKED).model,
}


async def last_of(stream):
    return [item async for item in stream][-1].model


async def model_of(call):
    return (await call).model


async def parsed(raw):
    return raw.parse()


AFACES = {
    "create": lambda c: model_of(c.chat.completions.create(**ASKED)),
    "parse": lambda c: model_of(c.chat.completions.parse(**ASKED, response_format=Answer)),
    "stream": lambda c: aentered(
        c.chat.completions.stream(**ASKED), lambda s: model_of(s.get_final_completion())
    ),
    "streaming": lambda c: aentered(
        c.chat.completions.with_streaming_response.create(**ASKED), lambda r: model_of(r.parse())
    ),
    "beta parse": lambda c: model_of(
        c.beta.chat.completions.parse(**ASKED, response_format=Answer)
    ),
    "with_options": lambda c: model_of(c.with_options(timeout=5).chat.completions.create(**ASKED)),
}


class TestRouted:
    @pytest.mark.parametrize("face", FACES)
    def test_every_face(self, wrapped, router, server, face):
        """However it is called, the decision is on the wire and the reported usage is booked once."""
        server.then(ok('{"text": "hi"}'))
        bills = watched(router)
        answered = FACES[face](wrapped)
        ((path, sent),) = server.requests
        action = last_decision().action
        assert (path, answered, sent["model"]) == ("/v1/chat/completions", REASONER, REASONER)
        assert sent["max_completion_tokens"] == action.max_tokens
        assert sent["reasoning_effort"] == action.reasoning_effort
        assert booked(router, bills) == ("settled", cost(router, REASONER, 12, 5), "reported")

    @pytest.mark.parametrize("face", AFACES)
    def test_every_face_async(self, router, server, face):
        """The same holds for AsyncOpenAI."""

        async def called():
            async with async_client(server) as client:
                return await AFACES[face](wrap(client, router=router))

        server.then(ok('{"text": "hi"}'))
        bills = watched(router)
        assert asyncio.run(called()) == REASONER
        assert [sent["model"] for sent in server.bodies] == [REASONER]
        assert booked(router, bills) == ("settled", cost(router, REASONER, 12, 5), "reported")

    def test_baseline_and_ceiling(self, wrapped, server):
        """A passed model is a baseline, a passed cap a ceiling; only pin() pins."""
        wrapped.chat.completions.create(model=CLAUDE, messages=HELLO, max_tokens=1024)
        assert last_decision().action.label == f"{CLAUDE}/1024"
        wrapped.chat.completions.create(model=MINI, messages=HELLO, max_tokens=300)
        assert last_decision().action.label == f"{BIG}/256"
        with pin(model=MINI, cot=True):
            wrapped.chat.completions.create(model=BIG, messages=HELLO, max_tokens=1024)
        assert server.bodies[-1]["model"] == MINI
        assert server.bodies[-1]["messages"][-1]["content"].endswith(COT_INSTRUCTION)

    def test_options(self, client, router):
        """What wrap() is told holds for each call: name, type, floor, required tags, providers."""
        made = wrap(
            client, route="support", prompt_type="math", providers=["anthropic"], router=router
        )
        made.chat.completions.create(**ASKED)
        decision = last_decision()
        assert (decision.route, decision.prompt_type, decision.model) == ("support", "math", CLAUDE)
        with pytest.raises(ConfigError, match="floor"):
            wrap(client, floor=2.0, router=router)
        with pytest.raises(ConfigError, match="require"):
            wrap(client, require="eu", router=router)

    def test_a_call_without_a_model(self, client, wrapped, router, server):
        """The passed model says whose models the client reaches; without it somebody else must."""
        with pytest.raises(ConfigError, match="without model="):
            wrapped.chat.completions.create(messages=HELLO)
        with pytest.raises(ConfigError, match="without model="):
            wrapped.responses.create(input="hello")
        assert server.requests == []
        with pin(model=MINI):
            wrapped.chat.completions.create(messages=HELLO)
        wrap(client, providers=["openai"], router=router).chat.completions.create(messages=HELLO)
        assert [body["model"] for body in server.bodies] == [MINI, REASONER]

    @pytest.mark.parametrize("raw", [False, True])
    def test_an_answer_that_parse_refuses(self, wrapped, router, server, raw):
        """An answer that was cut at its cap cannot be parsed, and is billed by its usage."""
        server.then(stopped("length", ok('{"te', output_tokens=9)))
        completions = wrapped.chat.completions
        parse = (completions.with_raw_response if raw else completions).parse
        with contextlib.nullcontext() if raw else pytest.raises(openai.LengthFinishReasonError):
            parse(**ASKED, response_format=Answer)
        assert attempts(router) == [("settled", cost(router, REASONER, 12, 9))]

    def test_messages_in_extra_body(self, wrapped, server):
        """They would be sent in place of those that were counted."""
        with pytest.raises(ConfigError, match="extra_body holds messages"):
            wrapped.chat.completions.create(**ASKED, extra_body={"messages": HELLO * 1000})
        assert server.requests == []

    def test_nothing_is_sent_without_money(self, wrapped, server):
        """A call that does not fit is refused before the wire."""
        with run(usd=0), pytest.raises(BudgetExceeded):
            wrapped.chat.completions.create(**ASKED)
        assert server.requests == []

    @pytest.mark.parametrize("way", SYNC, ids=lambda way: way.__name__)
    def test_streams_that_are_left(self, wrapped, router, server, way):
        """A stream that is left half read is booked once, as counted."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        ended(way, lambda: wrapped.chat.completions.create(**ASKED, stream=True))
        assert booked(router, bills)[::2] == ("estimated", "partial")

    @pytest.mark.parametrize("way", ASYNC, ids=lambda way: way.__name__)
    def test_async_streams_that_are_left(self, router, server, way):
        """The same holds for async streams."""

        async def called():
            async with async_client(server) as client:
                create = wrap(client, router=router).chat.completions.create
                await aended(way, lambda: create(**ASKED, stream=True))

        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        asyncio.run(called())
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_a_streaming_response_that_is_not_read(self, wrapped, router):
        """A raw body that nobody reads is of unknown usage: estimated, and the rest stays held."""
        bills = watched(router)
        with wrapped.chat.completions.with_streaming_response.create(**ASKED):
            assert day(router).held == last_decision().chosen.worst
        assert booked(router, bills)[::2] == ("estimated", "estimated")
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    def test_a_user_function_inside_a_run(self, wrapped, router):
        """A function that is not routed itself spends the run's money through the wrapped client."""

        def answer():
            return wrapped.chat.completions.create(**ASKED)

        with run(usd=1.0) as scope:
            answer()
        assert scope.limit == 10**12
        assert [state for state, _ in attempts(router)] == ["settled"]


class TestTheClient:
    def test_it_reads_like_the_client(self, client, wrapped):
        """isinstance, class name and settings are the client's own."""
        assert isinstance(wrapped, openai.OpenAI)
        assert type(wrapped).__name__ == "OpenAI"
        assert (wrapped.base_url, wrapped.api_key) == (client.base_url, client.api_key)
        assert (wrapped.timeout, wrapped.max_retries) == (client.timeout, client.max_retries)
        assert isinstance(wrap(openai.AsyncOpenAI(api_key="none")), openai.AsyncOpenAI)

    def test_the_users_client_is_untouched(self, client, wrapped, router, server):
        """The client that was given sends what it is told, unbudgeted, before and after."""
        wrapped.chat.completions.create(**ASKED)
        client.chat.completions.create(**ASKED)
        assert server.bodies[-1] == ASKED
        assert not hasattr(client.chat.completions.create, "__budgetroute__")
        assert len(attempts(router)) == 1

    def test_other_settings_stay_wrapped(self, wrapped, server):
        """with_options() and copy() change what they say and nothing else; they can be repeated."""
        again = wrapped.with_options(default_headers={"x-team": "a"}).copy(max_retries=5)
        again.chat.completions.create(**ASKED)
        assert server.headers[-1]["x-team"] == "a"
        assert again.max_retries == 5
        assert wrapped.max_retries == 0
        with pytest.raises(ConfigError, match="POST /embeddings"):
            again.embeddings.create(model="e", input="x")

    def test_a_block(self, server, router):
        """A wrapped client closes what it holds when its block is left."""
        with wrap(openai.OpenAI(base_url=server.base_url, api_key="none"), router=router) as made:
            made.chat.completions.create(**ASKED)
        assert made.is_closed()

    def test_wrapped_or_routed_twice(self, client, wrapped):
        """A second wrap, and a route over a wrapped method, would count twice: refused."""
        with pytest.raises(ConfigError, match="wrapped already"):
            wrap(wrapped)
        with pytest.raises(ConfigError, match="wrapped already"):
            wrap(wrapped.with_options(timeout=3))
        with pytest.raises(ConfigError, match="routed already"):
            route(wrapped.chat.completions.create)

    @pytest.mark.parametrize("thing", [object(), openai, "client", openai.OpenAI])
    def test_what_is_no_client(self, thing):
        """Whatever is no such client is refused with what to do."""
        with pytest.raises(ConfigError, match="a client of OpenAI or Anthropic"):
            wrap(thing)

    def test_a_subclass(self, server, router):
        """A client class of the user's own keeps its methods."""

        class Ours(openai.OpenAI):
            def ask(self, text):
                return self.chat.completions.create(
                    model=MINI, messages=[{"role": "user", "content": text}]
                )

        with Ours(base_url=server.base_url, api_key="none") as ours:
            made = wrap(ours, router=router)
            assert isinstance(made, Ours)
            assert made.ask("hi").model == REASONER
        assert len(attempts(router)) == 1


class TestAzure:
    def azure(self, server, **more):
        return openai.AzureOpenAI(
            azure_endpoint=server.base_url.removesuffix("/v1"),
            api_key="none",
            api_version="2024-10-21",
            max_retries=0,
            **more,
        )

    def test_the_chosen_deployment_is_called(self, server, router):
        """The address follows the decision, since Azure names the deployment there."""
        with self.azure(server) as client:
            made = wrap(client, router=router)
            assert isinstance(made, openai.AzureOpenAI)
            made.chat.completions.create(**ASKED)
        ((path, sent),) = server.requests
        assert path == f"/openai/deployments/{REASONER}/chat/completions"
        assert sent["model"] == REASONER

    @pytest.mark.parametrize("wrapping", [True, False])
    def test_a_client_of_one_deployment(self, server, router, wrapping):
        """Where the address names the deployment only the rest of the action is chosen."""
        with self.azure(server, azure_deployment="ours") as client:
            made = wrap(client, router=router) if wrapping else client
            create = made.chat.completions.create
            create = create if wrapping else route(router=router)(create)
            create(**ASKED)
        ((path, sent),) = server.requests
        assert path == "/openai/deployments/ours/chat/completions"
        assert sent["model"] == last_decision().model == MINI


class TestRetries:
    def test_each_attempt_has_its_own_hold(self, server, router):
        """The client's retries are ours: a refusal is released, the next attempt held and billed."""
        server.then(status(429, **SOON), status(503, **SOON), ok())
        with openai_client(server, max_retries=2) as client:
            wrap(client, router=router).chat.completions.create(**ASKED)
        assert len(server.requests) == 3
        assert attempts(router) == [
            ("released", 0),
            ("released", 0),
            ("settled", cost(router, REASONER, 12, 5)),
        ]
        assert last_decision().model == REASONER

    def test_each_attempt_has_its_own_hold_async(self, server, router):
        """The same holds for AsyncOpenAI."""

        async def called():
            async with async_client(server, max_retries=2) as client:
                await wrap(client, router=router).chat.completions.create(**ASKED)

        server.then(status(429, **SOON), status(503, **SOON), ok())
        asyncio.run(called())
        assert [state for state, _ in attempts(router)] == ["released", "released", "settled"]

    def test_timeouts_are_held_one_by_one(self, server, router):
        """Attempts that may have been billed stay counted, each with its worst case."""
        server.then(slow(5.0), cut(at=0.0), ok())
        with openai_client(server, max_retries=2, timeout=0.4) as client:
            wrap(client, router=router).chat.completions.create(**ASKED)
        worst = last_decision().chosen.worst
        states = [state for state, _ in attempts(router)]
        assert states == ["estimated", "estimated", "settled"]
        settled = cost(router, REASONER, 12, 5)
        assert day(router).settled + day(router).held == 2 * worst + settled

    def test_the_last_error_is_the_clients(self, server, router):
        """After the last attempt the SDK's own error is raised; what is not retryable is tried once."""
        server.then(*[status(500, **SOON)] * 3, status(400), ok())
        with openai_client(server, max_retries=2) as client:
            create = wrap(client, router=router).chat.completions.create
            with pytest.raises(openai.InternalServerError):
                create(**ASKED)
            assert len(server.requests) == 3
            with pytest.raises(openai.BadRequestError):
                create(**ASKED)
        assert len(server.requests) == 4
        assert day(router).held == day(router).settled == 0

    def test_no_money_for_another_attempt(self, tmp_path, server):
        """An attempt that no longer fits is not sent."""
        router = make_router(tmp_path)
        with openai_client(server, max_retries=3, timeout=0.4) as client:
            create = wrap(client, router=router).chat.completions.create
            create(**ASKED)
            worst = last_decision().worst_usd
            server.then(cut(at=0.0), cut(at=0.0), ok())
            with run(usd=1.5 * worst), pytest.raises(BudgetExceeded):
                create(**ASKED)
        assert len(server.requests) == 2

    def test_a_provider_that_asks_for_too_much_patience(self, server, router):
        """A wait of more than a minute is not waited; the error says so at once."""
        server.then(status(429, retry_after=3600), ok())
        with (
            openai_client(server, max_retries=2) as client,
            pytest.raises(openai.RateLimitError),
        ):
            wrap(client, router=router).chat.completions.create(**ASKED)
        assert len(server.requests) == 1

    def test_helpers_are_tried_once(self, server, router):
        """stream() sends when its block is entered, once."""
        server.then(status(503, **SOON), ok())
        with openai_client(server, max_retries=2) as client:
            manager = wrap(client, router=router).chat.completions.stream(**ASKED)
            with pytest.raises(openai.InternalServerError), manager:
                pass
        assert len(server.requests) == 1
        assert attempts(router) == [("released", 0)]


class TestOff:
    @pytest.mark.parametrize("variable", [("DISABLE", "1"), ("MODE", "off")])
    def test_everything_goes_straight_through(self, tmp_path, server, monkeypatch, variable):
        """Off, a wrapped client is the client: its retries and its other endpoints, nothing booked."""
        monkeypatch.setenv(f"BUDGETROUTE_{variable[0]}", variable[1])
        router = make_router(tmp_path)
        server.then(status(500, **SOON), ok())
        with openai_client(server, max_retries=1) as client:
            made = wrap(client, router=router)
            assert made.chat.completions.create(**ASKED).model == MINI
            made.images.generate(prompt="x")
        assert server.bodies[:2] == [ASKED, ASKED]
        assert server.requests[2][0] == "/v1/images/generations"
        assert attempts(router) == []


class TestShadow:
    @pytest.fixture
    def router(self, tmp_path, monkeypatch):
        monkeypatch.setenv("BUDGETROUTE_MODE", "shadow")
        return make_router(tmp_path)

    def test_nothing_changes(self, router, server):
        """The call goes out as it came and is booked; each retry is an attempt of its own."""
        server.then(status(500, **SOON), ok())
        with openai_client(server, max_retries=1) as client:
            assert wrap(client, router=router).chat.completions.create(**ASKED).model == MINI
        assert server.bodies == [ASKED, ASKED]
        assert last_decision().shadowed is not None
        status_now = router.status()
        spent = cost(router, MINI, 12, 5) / 10**12
        assert (status_now.spent_usd, status_now.held_usd) == (pytest.approx(spent), 0)

    def test_nothing_is_refused(self, router, server, caplog):
        """What `on` refuses passes uncounted, with the client's own retries, and is told."""
        asked = {"model": MINI, "input": "hello", "previous_response_id": "resp_1"}
        server.then(status(500, **SOON), ok())
        with openai_client(server, max_retries=1) as client:
            made = wrap(client, router=router)
            made.responses.create(**asked)
            made.images.generate(prompt="x")
        assert [path for path, _ in server.requests] == [
            "/v1/responses",
            "/v1/responses",
            "/v1/images/generations",
        ]
        assert server.bodies[1] == asked
        assert router.status().calls == 0
        assert "previous_response_id" in caplog.text
        assert "POST /images/generations" in caplog.text

    def test_input_that_is_read_once(self, router, server):
        """An iterator is read for counting, and sent whole."""
        with openai_client(server) as client:
            made = wrap(client, router=router)
            made.chat.completions.create(model=MINI, messages=iter(HELLO))
            made.responses.create(model=MINI, input=iter(HELLO))
        assert [body.get("messages") or body["input"] for body in server.bodies] == [HELLO, HELLO]
