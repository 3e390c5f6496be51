"""Anthropic's own client: in the body of a function under @route, and its methods routed directly."""

import asyncio
import contextlib
import functools

import anthropic
import pytest
from api_support import ApiServer
from http_support import (
    CLAUDE,
    HELLO,
    MINI,
    attempts,
    cost,
    day,
    make_router,
)
from stream_support import ASYNC, SYNC, TEXT, aended, booked, counted, ended, watched

from budgetroute import ConfigError, last_decision, pin, record, route, wrap
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import cut, no_usage, ok, slow, status, stopped

ASKED = {"model": CLAUDE, "max_tokens": 2000, "messages": HELLO}
CACHED = {
    "input_tokens": 10,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 500,
    "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 5,
}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
OPUS = "claude-opus-4-8"


def cached_cost(router):
    """10 plain, 1,000 read, 300 written for minutes and 200 for an hour, 5 out; input excludes them."""
    rates = router.equipment.prices.price(CLAUDE).rates
    parts = (10 * rates.input, 1000 * rates.cached_input, 300 * rates.cache_write)
    return (sum(parts) + 200 * rates.cache_write_long + 5 * rates.output) // 10**6


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ApiServer() as running:
        yield running


@contextlib.contextmanager
def made(server, **settings):
    settings = {"max_retries": 0, "timeout": 10.0} | settings
    with anthropic.Anthropic(base_url=server.root, api_key="none", **settings) as client:
        yield client


def async_made(server, **settings):
    settings = {"max_retries": 0, "timeout": 10.0} | settings
    return anthropic.AsyncAnthropic(base_url=server.root, api_key="none", **settings)


@pytest.fixture
def client(server):
    with made(server) as running:
        yield running


@pytest.fixture
def answer(client, router):
    """A user's function whose body makes the call that `how` names."""

    def answer(how, *, model=CLAUDE, max_tokens=2000):
        return how(client.messages, model=model, max_tokens=max_tokens, messages=HELLO)

    return route("answer", router=router)(answer)


def read_text(api, **asked):
    with api.stream(**asked) as stream:
        return record(stream.get_final_message())


def read_events(api, **asked):
    with api.stream(**asked) as stream:
        for event in record(stream):
            assert event.type
    return "text"


BODIES = {
    "create": lambda m, **asked: m.create(**asked),
    "create(stream)": lambda m, **asked: m.create(**asked, stream=True),
    "stream": lambda m, **asked: m.stream(**asked),
    "raw": lambda m, **asked: m.with_raw_response.create(**asked),
    "final message": read_text,
    "recorded stream": read_events,
}


def drained(result):
    """Read whatever a body returned to its end."""
    if hasattr(result, "__enter__") and not hasattr(result, "__next__"):
        with result as stream:
            return list(stream)
    return list(result) if hasattr(result, "__next__") else result


class TestInAFunction:
    @pytest.mark.parametrize("body", BODIES)
    def test_the_decision_is_sent_and_the_usage_billed(self, answer, router, server, body):
        """Model and cap reach the wire; input that excludes cached parts is billed as it is."""
        server.then(ok(TEXT, usage=CACHED))
        bills = watched(router)
        drained(answer(BODIES[body]))
        assert server.bodies[0]["model"] == CLAUDE
        assert server.bodies[0]["max_tokens"] == last_decision().max_tokens == 1024
        assert booked(router, bills) == ("settled", cached_cost(router), "reported")
        usage = bills.seen[0].usage
        assert (usage.input_tokens, usage.cached_tokens) == (1510, 1000)
        assert (usage.cache_write_tokens, usage.cache_write_long_tokens) == (500, 200)

    def test_only_anthropics_models(self, answer, server):
        """The client serves Claude only; others are gated out with the reason."""
        answer(BODIES["create"])
        assert "provider openai" in last_decision().reasons[f"{MINI}/256"]

    @pytest.mark.parametrize("way", SYNC, ids=lambda way: way.__name__)
    def test_streams_that_are_left(self, answer, router, server, way):
        """A returned stream that is left half read is booked once, as counted."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        ended(way, lambda: answer(BODIES["create(stream)"]))
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_text_that_was_read(self, answer, router, server):
        """Of a helper's text stream that is left, what its snapshot holds counts at least."""
        server.then(ok(TEXT, input_tokens=30, output_tokens=80))
        bills = watched(router)
        with answer(BODIES["stream"]) as stream:
            texts = stream.text_stream
            read = next(texts) + next(texts)
        assert len(read) == 160
        state, amount, source = booked(router, bills)
        assert (state, source) == ("estimated", "partial")
        assert cost(router, CLAUDE, 30, 30) < amount < last_decision().chosen.worst

    @pytest.mark.parametrize("code", [400, 401, 404, 413, 429, 500, 529])
    def test_refused(self, answer, router, server, code):
        """What Anthropic refused costs nothing, 529 (overloaded) as well."""
        server.then(status(code))
        with pytest.raises(anthropic.APIStatusError) as caught:
            answer(BODIES["create"])
        assert caught.value.status_code == code
        assert attempts(router) == [("released", 0)]

    def test_refused_in_a_stream(self, answer, router, server):
        """A helper's request is made in its block; refused there, it costs nothing."""
        server.then(status(529))
        with pytest.raises(anthropic.APIStatusError), answer(BODIES["stream"]):
            pass
        assert attempts(router) == [("released", 0)]

    @pytest.mark.parametrize("reply", [slow(5.0), cut(), cut(at=0.0), status(408), status(504)])
    def test_perhaps_billed(self, router, server, reply):
        """After a timeout or a broken connection the call may have been billed: estimated."""
        server.then(reply)
        with made(server, timeout=0.3) as client:

            @route(router=router)
            def answer(question, *, model=CLAUDE, max_tokens=2000):
                return client.messages.create(model=model, max_tokens=max_tokens, messages=HELLO)

            with pytest.raises(anthropic.APIError):
                answer("why?")
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    def test_a_stream_that_broke(self, answer, router, server):
        """A stream cut in the middle is booked once, as counted."""
        server.then(cut(ok(TEXT, output_tokens=80), at=0.6))
        bills = watched(router)
        with pytest.raises(Exception) as caught:
            list(answer(BODIES["create(stream)"]))
        assert type(caught.value).__module__.partition(".")[0] in {"anthropic", "httpx2"}
        assert booked(router, bills)[0] == "estimated"

    def test_an_error_in_a_stream(self, answer, router, server):
        """An error event after the first text is no refusal: what was delivered is booked."""
        server.then(stopped("overloaded_error", ok(TEXT, output_tokens=80)))
        bills = watched(router)
        with pytest.raises(anthropic.APIStatusError):
            list(answer(BODIES["create(stream)"]))
        assert booked(router, bills)[::2] == ("estimated", "partial")


class TestInACoroutine:
    def run(self, server, router, body, way=None):
        async def called():
            async with async_made(server) as client:

                @route(router=router)
                async def answer(question, *, model=CLAUDE, max_tokens=2000):
                    return await body(
                        client.messages, model=model, max_tokens=max_tokens, messages=HELLO
                    )

                if way is not None:
                    return await aended(way, lambda: answer("why?"))
                found = await answer("why?")
                return [e async for e in found] if hasattr(found, "__anext__") else found

        return asyncio.run(called())

    def test_create(self, router, server):
        """Cached parts are billed as in the sync client."""
        server.then(ok(usage=CACHED))
        self.run(server, router, lambda m, **asked: m.create(**asked))
        assert attempts(router) == [("settled", cached_cost(router))]

    def test_create_stream(self, router, server):
        """A stream's usage comes in two parts; both are billed."""
        server.then(ok(TEXT, usage=CACHED))
        self.run(server, router, lambda m, **asked: m.create(**asked, stream=True))
        assert attempts(router) == [("settled", cached_cost(router))]

    def test_raw(self, router, server):
        """A raw response, which can only be parsed in a loop, is billed all the same."""
        server.then(ok(usage=CACHED))
        self.run(server, router, lambda m, **asked: m.with_raw_response.create(**asked))
        assert attempts(router) == [("settled", cached_cost(router))]

    def test_stream(self, router, server):
        """A helper that is used inside the body is recorded by its final message."""

        async def body(api, **asked):
            async with api.stream(**asked) as stream:
                return record(await stream.get_final_message())

        server.then(ok(TEXT, usage=CACHED))
        self.run(server, router, body)
        assert attempts(router) == [("settled", cached_cost(router))]

    @pytest.mark.parametrize("way", ASYNC, ids=lambda way: way.__name__)
    def test_streams_that_are_left(self, router, server, way):
        """A stream that is left half read is booked once, as counted."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        self.run(server, router, lambda m, **asked: m.create(**asked, stream=True), way)
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_cancelled(self, router, server):
        """A cancelled call may have been billed."""
        server.then(slow(5.0))

        async def body(api, **asked):
            async with asyncio.timeout(0.2):
                return await api.create(**asked)

        with pytest.raises(TimeoutError):
            self.run(server, router, body)
        assert [state for state, _ in attempts(router)] == ["estimated"]


class TestRoutedMethods:
    def test_create(self, client, router, server):
        """The passed model is a baseline and the cap a ceiling, sent by its own name."""
        route(router=router)(client.messages.create)(**ASKED)
        assert server.requests == [("/v1/messages", {**ASKED, "max_tokens": 1024})]
        assert attempts(router) == [("settled", cost(router, CLAUDE, 12, 5))]
        with pytest.raises(TypeError, match="max_tokens"):
            client.messages.create(model=CLAUDE, messages=HELLO)

    def test_pin(self, client, router, server):
        """Only pin() pins, to any of Anthropic's models that has a price."""
        with pin(model=OPUS):
            route(router=router)(client.messages.create)(**ASKED)
        assert server.bodies[0]["model"] == OPUS
        assert attempts(router) == [("settled", cost(router, OPUS, 12, 5))]

    def test_stream_and_beta(self, client, router, server):
        """stream(), stream=True and the beta's create are routed too, each settled once."""
        server.then(*[ok(TEXT, usage=CACHED)] * 4)
        with route(router=router)(client.messages.stream)(**ASKED) as stream:
            assert "".join(stream.text_stream) == TEXT
        with route(router=router)(client.messages.stream)(**ASKED) as stream:
            assert stream.get_final_text() == TEXT
        list(route(router=router)(client.messages.create)(**ASKED, stream=True))
        route(router=router)(client.beta.messages.create)(**ASKED)
        assert attempts(router) == [("settled", cached_cost(router))] * 4

    def test_async(self, router, server):
        """The async client's methods are routed, helpers included."""

        async def called():
            async with async_made(server) as client:
                await route(router=router)(client.messages.create)(**ASKED)
                async with route(router=router)(client.messages.stream)(**ASKED) as stream:
                    assert await stream.get_final_text() == TEXT

        server.then(ok(usage=CACHED), ok(TEXT, usage=CACHED))
        asyncio.run(called())
        assert attempts(router) == [("settled", cached_cost(router))] * 2

    def test_the_system_prompt_counts(self, client, router, server):
        """Text and parts of the system prompt are input, and stay where they were."""
        create = route(router=router)(client.messages.create)
        sizes = []
        part = {"type": "text", "text": "word " * 800, "cache_control": {"type": "ephemeral"}}
        for system in (anthropic.NOT_GIVEN, "word " * 600, [part], iter([part])):
            create(**ASKED, system=system)
            sizes.append(last_decision().input_tokens)
        assert sizes[0] < 50
        assert sizes[0] + 550 < sizes[1] < sizes[2]
        assert sizes[2] == sizes[3]
        assert server.bodies[2]["system"] == server.bodies[3]["system"] == [part]
        assert all(body["messages"] == HELLO for body in server.bodies)

    def test_the_instruction(self, tmp_path, client, server):
        """The chain-of-thought instruction joins the last user turn, not the system prompt."""
        cot = f'[models."{CLAUDE}"]\ncot = [true]\nlike = "{MINI}"\n'
        router = make_router(tmp_path, more=cot)
        with pin(cot=True):
            route(router=router)(client.messages.create)(**ASKED, system="Be brief.")
        (sent,) = server.bodies
        assert sent["system"] == "Be brief."
        assert sent["messages"] == [{"role": "user", "content": f"hello\n\n{COT_INSTRUCTION}"}]

    @pytest.mark.parametrize(
        ("more", "cap"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 1600}}, 2000),
            ({"thinking": {"type": "disabled"}}, 1024),
            ({"output_config": {"effort": "low"}}, 1024),
        ],
    )
    def test_thinking_keeps_model_and_cap(self, client, router, server, more, cap):
        """Thinking needs its room under the cap, and efforts are one model's own."""
        route(router=router)(client.messages.create)(**ASKED, **more)
        assert server.bodies[0]["max_tokens"] == cap
        assert {key: server.bodies[0][key] for key in more} == more

    @pytest.mark.parametrize("path", ["count_tokens", "batches.create"])
    def test_other_methods_are_refused(self, client, path):
        """What asks no model, or asks later, is refused when routing."""
        with pytest.raises(ConfigError, match="ask a language model once"):
            route(functools.reduce(getattr, path.split("."), client.messages))

    def test_what_cannot_be_held_for(self, client, router, server):
        """Tools that Anthropic runs are refused; the caller's own pass."""
        create = route(router=router)(client.messages.create)
        search = {"type": "web_search_20250305", "name": "web_search"}
        with pytest.raises(ConfigError, match="web_search"):
            create(**ASKED, tools=[TOOL, search])
        create(**ASKED, tools=[TOOL])
        assert len(server.requests) == 1

    def test_no_usage(self, client, router, server):
        """A message without usage is unknown, never zero."""
        server.then(no_usage())
        route(router=router)(client.messages.create)(**ASKED)
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_a_raw_stream_that_is_left(self, client, router, server):
        """A raw response whose stream is left is booked as counted."""
        server.then(ok(TEXT, input_tokens=30, output_tokens=80))
        bills = watched(router)
        create = route(router=router)(client.messages.with_raw_response.create)
        stream = create(**ASKED, stream=True).parse()
        for _ in range(4):
            next(stream)
        stream.close()
        assert booked(router, bills)[::2] == ("estimated", "partial")
        assert counted(router, TEXT[:80]) <= bills.seen[0].amount


FACES = {
    "create": lambda c: c.messages.create(**ASKED).content[0].text,
    "stream=True": lambda c: "".join(
        e.delta.text
        for e in c.messages.create(**ASKED, stream=True)
        if e.type == "content_block_delta"
    ),
    "raw": lambda c: c.with_raw_response.messages.create(**ASKED).parse().content[0].text,
    "parse": lambda c: c.messages.parse(**ASKED).content[0].text,
    "beta": lambda c: c.beta.messages.create(**ASKED).content[0].text,
    "with_options": lambda c: c.with_options(timeout=3).messages.create(**ASKED).content[0].text,
    "tool runner": lambda c: (
        c.beta.messages.tool_runner(**ASKED, tools=[]).until_done().content[0].text
    ),
}


class TestWrapped:
    @pytest.mark.parametrize("face", FACES)
    def test_every_face(self, client, router, server, face):
        """wrap(Anthropic()) routes its messages, each settled once."""
        server.then(ok(TEXT, usage=CACHED))
        bills = watched(router)
        wrapped = wrap(client, router=router)
        assert isinstance(wrapped, anthropic.Anthropic)
        assert FACES[face](wrapped) == TEXT
        assert server.bodies[0]["max_tokens"] == last_decision().max_tokens == 1024
        assert booked(router, bills) == ("settled", cached_cost(router), "reported")
        assert last_decision().route == "anthropic"

    def test_helpers(self, client, router, server):
        """stream() is routed as its block is entered."""
        server.then(ok(TEXT, usage=CACHED))
        with wrap(client, router=router).messages.stream(**ASKED) as stream:
            assert "".join(stream.text_stream) == TEXT
        assert attempts(router) == [("settled", cached_cost(router))]

    def test_async(self, router, server):
        """The async client is wrapped likewise, its retries held one by one."""

        async def called():
            async with async_made(server, max_retries=1) as client:
                wrapped = wrap(client, router=router)
                await wrapped.messages.create(**ASKED)
                async with wrapped.messages.stream(**ASKED) as stream:
                    assert await stream.get_final_text() == TEXT

        server.then(status(529, retry_after_ms="1"), ok(usage=CACHED), ok(TEXT, usage=CACHED))
        asyncio.run(called())
        settled = ("settled", cached_cost(router))
        assert attempts(router) == [("released", 0), settled, settled]

    def test_other_endpoints(self, client, router, server):
        """Batches are refused; counting tokens and reading pass."""
        wrapped = wrap(client, router=router)
        with pytest.raises(ConfigError, match="POST /v1/messages/batches"):
            wrapped.messages.batches.create(requests=[])
        with pytest.raises(ConfigError, match="POST /v1/messages"):
            wrapped.post("/v1/messages", cast_to=object, body={})
        wrapped.messages.count_tokens(model=CLAUDE, messages=HELLO)
        wrapped.models.list()
        assert [path for path, _ in server.requests] == ["/v1/messages/count_tokens"]
        assert server.reads == ["/v1/models"]
        assert attempts(router) == []
