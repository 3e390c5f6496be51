"""Streams of the real OpenAI client under @route: every way to end one, settled once and by its usage."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, Iterator

import openai
import pytest
from http_support import (
    BIG,
    HELLO,
    MINI,
    async_client,
    attempts,
    billed,
    cost,
    day,
    make_router,
    openai_client,
)
from stream_support import (
    ASYNC,
    SYNC,
    TEXT,
    adrained,
    aended,
    booked,
    counted,
    drained,
    ended,
    text_of,
    tokens,
    watched,
)

from budgetroute import last_decision, pin, record, route
from budgetroute.loopback import Loopback, Response
from budgetroute.testing import ScriptedServer, cut, no_usage, ok, slow, status, stopped

USAGE = {"include_usage": True}


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def bills(router):
    return watched(router)


@pytest.fixture
def server():
    with ScriptedServer(after=ok(TEXT, input_tokens=40, output_tokens=81)) as running:
        yield running


@pytest.fixture(autouse=True)
def _quiet_loop(caplog):
    """No task may be destroyed while it is pending; what the client leaves open is logged without us too."""
    yield
    said = [r.getMessage() for r in caplog.get_records("call") if r.name == "asyncio"]
    assert [text for text in said if "closing of asynchronous generator" not in text] == []


@pytest.fixture(autouse=True)
def _pinned():
    with pin(model=MINI, max_tokens=512, cot=False):
        yield


@pytest.fixture
def create(router, server):
    with openai_client(server) as client:
        yield route(router=router)(client.chat.completions.create)


def streaming(create, **more):
    return create(model=MINI, messages=HELLO, stream=True, **more)


def run_async(server, router, work, **settings):
    """Run `work(create)` with the routed method of the real async client, in a loop of its own."""

    async def main():
        async with async_client(server, **settings) as client:
            return await work(route(router=router)(client.chat.completions.create))

    return asyncio.run(main())


class TestSync:
    def test_drained(self, create, router, server, bills):
        """A stream read to its end is billed by its last chunk, which only we have asked for."""
        chunks = ended(drained, lambda: streaming(create))
        assert text_of(chunks) == TEXT
        assert server.requests[0]["stream_options"] == USAGE
        assert booked(router, bills) == ("settled", billed(router, server), "reported")
        assert day(router).held == 0

    @pytest.mark.parametrize("way", SYNC)
    def test_left_early(self, create, router, server, bills, way):
        """However it is left, what was read is counted and booked as estimated, once."""
        chunks = ended(way, lambda: streaming(create))
        amount = counted(router, text_of(chunks))
        assert booked(router, bills) == ("estimated", amount, "partial")
        assert 0 < day(router).settled + day(router).held == last_decision().chosen.worst

    def test_left_at_the_finish_reason(self, create, router, server, bills):
        """Who stops at the finish reason is billed exactly: the usage was fetched before."""
        for chunk in streaming(create):
            if chunk.choices[0].finish_reason:
                break
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_never_read(self, create, router, bills):
        """A stream that nobody reads may cost anything: the expected cost, the rest held."""
        ended(lambda stream: stream.close(), lambda: streaming(create))
        chosen = last_decision().chosen
        assert booked(router, bills) == ("estimated", round(chosen.cost * 1e12), "estimated")
        assert day(router).settled + day(router).held == chosen.worst

    def test_in_another_thread(self, create, router, server, bills):
        """A stream may be read in a thread that knows nothing of the call."""
        stream, read = streaming(create), []
        thread = threading.Thread(target=lambda: read.extend(stream))
        thread.start()
        thread.join()
        assert text_of(read) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_a_broken_connection(self, create, router, server, bills):
        """A connection that breaks raises the client's error, and what came is counted."""
        server.then(cut(ok(TEXT), at=0.5))
        read = []
        with pytest.raises(openai.APIConnectionError):
            read.extend(iter(streaming(create).__next__, None))
        stream_text = TEXT[:240]
        assert booked(router, bills) == ("estimated", counted(router, stream_text), "partial")

    def test_broken_before_the_first_chunk(self, create, router, server, bills):
        """A connection that breaks before anything came leaves the usage unknown."""
        server.then(cut(ok(TEXT), at=0.0))
        with pytest.raises(openai.APIConnectionError):
            list(streaming(create))
        assert booked(router, bills)[2] == "estimated"

    def test_broken_after_the_finish(self, create, router, server, bills):
        """A stream that breaks when all was said gives its last chunk first, then the error."""
        server.then(cut(ok(TEXT), at=0.8))
        stream, read = streaming(create), []
        with pytest.raises(openai.APIConnectionError):
            read.extend(stream)
        assert stream.__class__ is openai.Stream
        assert booked(router, bills) == ("estimated", counted(router, TEXT), "partial")

    @pytest.mark.parametrize("code", [400, 429, 500])
    def test_refused(self, create, router, server, bills, code):
        """A refused stream costs nothing."""
        server.then(status(code))
        with pytest.raises(openai.APIStatusError):
            streaming(create)
        assert attempts(router) == [("released", 0)]

    def test_many(self, create, router, server):
        """Over a mixed day Σ ledger = Σ billed for what was read, and the holds cover the rest."""
        script = [ok(TEXT, input_tokens=30 + i, output_tokens=81) for i in range(6)]
        server.then(*script, cut(ok(TEXT), at=0.3), no_usage(ok(TEXT)), status(429))
        for _ in range(8):
            try:
                list(streaming(create))
            except openai.APIError:
                continue
        with pytest.raises(openai.RateLimitError):
            streaming(create)
        rows = attempts(router)
        exact = [amount for state, amount in rows if state == "settled"]
        assert sum(exact) == sum(cost(router, MINI, 30 + i, 81) for i in range(6))
        assert [state for state, _ in rows[6:]] == ["estimated", "estimated", "released"]
        assert day(router).settled == sum(amount for _, amount in rows)
        assert day(router).settled + day(router).held >= billed(router, server)


class TestAsync:
    def test_drained(self, router, server, bills):
        """An async stream read to its end is billed by its usage."""
        chunks = run_async(server, router, lambda c: aended(adrained, lambda: streaming(c)))
        assert text_of(chunks) == TEXT
        assert server.requests[0]["stream_options"] == USAGE
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    @pytest.mark.parametrize("way", ASYNC)
    def test_left_early(self, router, server, bills, way):
        """However it is left, what was read is counted and booked as estimated, once."""

        async def work(create):
            chunks = await aended(way, lambda: streaming(create))
            return chunks, last_decision()

        chunks, decision = run_async(server, router, work)
        amount = counted(router, text_of(chunks), decision=decision)
        assert booked(router, bills) == ("estimated", amount, "partial")

    def test_left_at_the_finish_reason(self, router, server, bills):
        """Who stops at the finish reason is billed exactly."""

        async def work(create):
            async for chunk in await streaming(create):
                if chunk.choices[0].finish_reason:
                    break

        run_async(server, router, work)
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_timed_out(self, router, server, bills):
        """asyncio.timeout round the reader leaves the stream and counts what came before."""

        async def work(create):
            read = []

            async def reading():
                async with asyncio.timeout(0.02):
                    async for chunk in await streaming(create):
                        read.append(chunk)
                        if len(read) == 2:
                            await asyncio.Event().wait()

            with pytest.raises(TimeoutError):
                await reading()
            return read, last_decision()

        read, decision = run_async(server, router, work)
        amount = counted(router, text_of(read), decision=decision)
        assert booked(router, bills) == ("estimated", amount, "partial")

    def test_cancelled_inside_a_step(self, router, server, bills):
        """A step that is cancelled while it waits lands the call; the cancellation goes on."""
        server.then(slow(0.0, ok(TEXT), gap=30.0))

        async def work(create):
            stream = await streaming(create)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(stream)
            state = [row for row, _ in attempts(router)]
            await stream.close()
            return state

        assert run_async(server, router, work) == ["estimated"]
        assert len(bills.seen) == 1

    def test_in_a_task_group(self, router, server):
        """Streams read side by side in a TaskGroup are each billed by their own usage."""

        async def work(create):
            async def one():
                return text_of(await adrained(await streaming(create)))

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one()) for _ in range(10)]
            return {task.result() for task in tasks}

        assert run_async(server, router, work) == {TEXT}
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)

    def test_to_thread(self, create, router, server, bills):
        """A sync stream read through asyncio.to_thread is billed as usual."""

        async def main():
            return await asyncio.to_thread(lambda: list(streaming(create)))

        assert text_of(asyncio.run(main())) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_after_its_loop(self, router, server, bills):
        """A stream that outlives its event loop is counted when it is collected."""
        kept = []

        async def work(create):
            kept.append(await streaming(create))
            return await anext(kept[0])

        run_async(server, router, work)
        assert attempts(router)[0][0] == "held"
        kept.clear()
        assert booked(router, bills)[0] == "estimated"

    def test_no_task_is_made(self, router, server):
        """A step runs in the caller's task: no other is made for it."""

        async def work(create):
            stream = await streaming(create)
            before = asyncio.all_tasks()
            seen = [asyncio.all_tasks() - before async for _ in stream]
            return set().union(*seen)

        assert run_async(server, router, work) == set()


class TestUsageAsked:
    def test_what_the_caller_asked_for_passes(self, create, router, server, bills):
        """A caller who asks for the usage gets its chunk, without choices, as the provider sent it."""
        chunks = list(streaming(create, stream_options=USAGE))
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == 81
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_a_caller_who_refuses(self, create, router, server, bills, caplog):
        """include_usage=False is respected: the text is counted, and a warning says what to write."""
        chunks = list(streaming(create, stream_options={"include_usage": False}))
        assert server.requests[0]["stream_options"] == {"include_usage": False}
        assert text_of(chunks) == TEXT
        assert booked(router, bills) == ("estimated", counted(router, TEXT), "partial")
        assert "include_usage" in caplog.text

    def test_other_options_stay(self, create, server):
        """The caller's other stream options are sent along."""
        list(streaming(create, stream_options={"include_obfuscation": False}))
        assert server.requests[0]["stream_options"] == {"include_obfuscation": False} | USAGE

    def test_not_without_a_stream(self, create, server):
        """A call that does not stream gets no stream options."""
        create(model=MINI, messages=HELLO)
        create(model=MINI, messages=HELLO, stream=False)
        create(model=MINI, messages=HELLO, stream=openai.NOT_GIVEN)
        assert all("stream_options" not in sent for sent in server.requests)

    def test_a_provider_that_refuses_the_question(self, server, tmp_path):
        """Mistral reports without being asked, and refuses what it does not know: it is not asked."""
        table = (
            '[models."mistral-small-latest"]\nprovider = "mistral"\nlike = "gpt-4o-mini"\n'
            "price = { input = 0.1, output = 0.3 }\n"
        )
        router = make_router(tmp_path, more=table)
        with openai_client(server) as client, pin(model="mistral-small-latest", cot=False):
            create = route(router=router)(client.chat.completions.create)
            list(create(model="mistral-small-latest", messages=HELLO, stream=True))
        assert "stream_options" not in server.requests[0]
        assert server.requests[0]["model"] == "mistral-small-latest"

    def test_a_provider_that_does_not_count(self, create, router, server, bills):
        """A provider without usage: all chunks pass, and the text is counted."""
        server.then(no_usage(ok(TEXT)))
        assert text_of(streaming(create)) == TEXT
        assert booked(router, bills) == ("estimated", counted(router, TEXT), "partial")

    @pytest.mark.parametrize(
        ("fn", "passed", "asked"),
        [
            (lambda client: lambda q, *, model=MINI, **kw: (model, kw), {"stream": True}, True),
            (lambda client: lambda q, *, model=MINI, **kw: (model, kw), {}, False),
            (lambda client: lambda q, *, model=MINI, stream=True, **kw: (model, kw), {}, False),
        ],
    )
    def test_functions_with_keywords(self, router, fn, passed, asked):
        """A function that hands `stream` on unseen is asked for usage; one that knows it is not."""
        _, got = route(router=router, max_tokens=512)(fn(None))("why?", **passed)
        assert ("stream_options" in got) == asked

    def test_a_function_that_declares_it(self, router, server, bills):
        """A function that declares stream_options gets it when it streams, and hides it again."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512, stream=True, stream_options=None):
                return client.chat.completions.create(
                    model=model,
                    max_tokens=max_tokens,
                    messages=HELLO,
                    stream=stream,
                    stream_options=stream_options,
                )

            assert text_of(ask("why?")) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_no_finish_reason(self, create, router, server, bills):
        """A provider that gives no finish reason is billed by its usage, which stays hidden."""
        server.then(stopped(None, ok(TEXT, input_tokens=40, output_tokens=81)))
        assert text_of(streaming(create)) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_no_finish_reason_async(self, router, server, bills):
        """The same with the async client."""
        server.then(stopped(None, ok(TEXT, input_tokens=40, output_tokens=81)))

        async def work(create):
            return text_of(await adrained(await streaming(create)))

        assert run_async(server, router, work) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_several_choices(self, create, router, server, bills):
        """With n=2 the usage comes after both finish reasons, and both texts are handed out."""
        chunks = list(streaming(create, n=2))
        both = [[c for c in chunks if c.choices[0].index == i] for i in (0, 1)]
        assert [text_of(one) for one in both] == [TEXT, TEXT]
        assert booked(router, bills)[2] == "reported"


class TestLooks:
    def test_it_is_the_clients_stream(self, create, server):
        """Attributes, isinstance and repr are the stream's; so is each chunk's class."""
        stream = streaming(create)
        assert isinstance(stream, openai.Stream)
        assert isinstance(stream, Iterator)
        assert not isinstance(stream, AsyncIterable)
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert "openai" in repr(stream)
        assert "response" in dir(stream)
        assert not hasattr(stream, "nothing")
        stream.mine = 7
        assert stream.mine == 7
        assert {type(chunk) for chunk in stream} == {openai.types.chat.ChatCompletionChunk}

    def test_the_async_one(self, router, server):
        """The async stand-in is no sync iterator: frameworks choose by that."""

        async def work(create):
            stream = await streaming(create)
            await stream.aclose()
            return stream

        stream = run_async(server, router, work)
        assert isinstance(stream, openai.AsyncStream)
        assert isinstance(stream, AsyncIterable)
        assert not isinstance(stream, Iterator)
        assert inspect.isawaitable(stream) is False


class TestRaw:
    def test_a_raw_response(self, router, server, bills):
        """with_raw_response: the headers at once, the stream by parse(), billed by its usage."""
        with openai_client(server) as client:
            raw = streaming(route(router=router)(client.chat.completions.with_raw_response.create))
            assert raw.headers["content-type"].startswith("text/event-stream")
            assert attempts(router)[0][0] == "held"
            stream = raw.parse()
            assert isinstance(stream, openai.Stream)
            assert text_of(stream) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_a_raw_response_left(self, router, server, bills):
        """A raw response that is dropped without parse() leaves the usage unknown."""
        with openai_client(server) as client:
            raw = streaming(route(router=router)(client.chat.completions.with_raw_response.create))
            raw.http_response.close()
            del raw
        assert booked(router, bills)[2] == "estimated"

    def test_a_raw_response_that_is_no_json(self, router):
        """A body that cannot be parsed is the caller's to find: the response comes back as it is."""
        odd = Response(body=b"not json")
        with Loopback(lambda received: odd) as broken, openai_client(broken) as client:
            method = client.chat.completions.with_raw_response.create
            raw = route(router=router)(method)(model=MINI, messages=HELLO)
            assert raw.text == "not json"
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_async(self, router, server, bills):
        """The async client's raw response is counted too."""

        async def main():
            async with async_client(server) as client:
                create = route(router=router)(client.chat.completions.with_raw_response.create)
                raw = await streaming(create)
                return text_of(await adrained(raw.parse()))

        assert asyncio.run(main()) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    @pytest.mark.parametrize("stream", [True, False])
    def test_with_streaming_response(self, router, server, bills, stream):
        """with_streaming_response: parse() inside the block, with and without a stream."""
        with openai_client(server) as client:
            create = route(router=router)(client.chat.completions.with_streaming_response.create)
            with create(model=MINI, messages=HELLO, stream=stream) as response:
                parsed = response.parse()
                text = text_of(parsed) if stream else parsed.choices[0].message.content
        assert text == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_with_streaming_response_async(self, router, server, bills):
        """The same with the async client, whose parse() is awaited."""

        async def main():
            async with async_client(server) as client:
                method = client.chat.completions.with_streaming_response.create
                async with streaming(route(router=router)(method)) as response:
                    return text_of(await adrained(await response.parse()))

        assert asyncio.run(main()) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_raw_bytes(self, router, server, bills):
        """A body that is read as bytes is not understood: the expected cost is booked."""
        with openai_client(server) as client:
            create = route(router=router)(client.chat.completions.with_streaming_response.create)
            with streaming(create) as response:
                assert b"[DONE]" in b"".join(response.iter_bytes())
        assert booked(router, bills)[2] == "estimated"

    def test_never_entered(self, router, server, bills):
        """A block that is never entered sends nothing: released."""
        with openai_client(server) as client:
            streaming(route(router=router)(client.chat.completions.with_streaming_response.create))
        assert (server.requests, attempts(router)) == ([], [("released", 0)])

    @pytest.mark.parametrize("code", [429, 500])
    def test_refused_on_entry(self, router, server, code):
        """A block whose request is refused costs nothing."""
        server.then(status(code))
        with openai_client(server) as client:
            create = route(router=router)(client.chat.completions.with_streaming_response.create)
            manager = streaming(create)
            with pytest.raises(openai.APIStatusError):
                manager.__enter__()
        assert attempts(router) == [("released", 0)]


class TestHelper:
    """`client.chat.completions.stream(…)`."""

    @pytest.fixture
    def stream(self, router, server):
        with openai_client(server) as client:
            yield route(router=router)(client.chat.completions.stream)

    def test_events(self, stream, router, server, bills):
        """Its events pass but for the usage's, and it is billed by the usage."""
        with stream(model=MINI, messages=HELLO) as helper:
            events = list(helper)
            assert helper.get_final_completion().usage.completion_tokens == 81
        assert text_of(e.chunk for e in events if e.type == "chunk") == TEXT
        assert "".join(e.delta for e in events if e.type == "content.delta") == TEXT
        assert server.requests[0]["stream_options"] == USAGE
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_the_final_completion_alone(self, stream, router, server, bills):
        """get_final_completion() reads past us; its snapshot says what was used."""
        with stream(model=MINI, messages=HELLO) as helper:
            assert helper.get_final_completion().choices[0].message.content == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_not_read(self, stream, router, server, bills):
        """A block in which nothing is read leaves the usage unknown."""
        with stream(model=MINI, messages=HELLO):
            pass
        assert booked(router, bills)[2] == "estimated"

    def test_left(self, stream, router, server, bills):
        """A block that is left early counts what came, each piece once."""
        with stream(model=MINI, messages=HELLO) as helper:
            for event in helper:
                if event.type == "content.delta" and event.delta:
                    break
        assert booked(router, bills) == ("estimated", counted(router, TEXT[:80]), "partial")

    def test_left_at_the_finish(self, stream, router, server, bills):
        """A block that is left at the finish reason is billed exactly."""
        with stream(model=MINI, messages=HELLO) as helper:
            for event in helper:
                if event.type == "content.done":
                    break
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_async(self, router, server, bills):
        """The async helper is billed by its usage."""

        async def main():
            async with async_client(server) as client:
                stream = route(router=router)(client.chat.completions.stream)
                async with stream(model=MINI, messages=HELLO) as helper:
                    events = [event async for event in helper]
            return "".join(e.delta for e in events if e.type == "content.delta")

        assert asyncio.run(main()) == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_refused(self, stream, router, server):
        """A helper whose request is refused costs nothing."""
        server.then(status(429))
        with pytest.raises(openai.RateLimitError), stream(model=MINI, messages=HELLO):
            pass
        assert attempts(router) == [("released", 0)]


class TestFunctions:
    def test_a_function_that_returns_a_stream(self, router, server, bills):
        """A function of the user's that returns a stream gets nothing that it does not declare."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512):
                return client.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=HELLO, stream=True
                )

            assert text_of(ask("why?")) == TEXT
        assert "stream_options" not in server.requests[0]
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_a_stream_that_is_recorded(self, router, server, bills):
        """A body that turns the stream into text passes it through record()."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512):
                stream = client.chat.completions.create(
                    model=model,
                    max_tokens=max_tokens,
                    messages=HELLO,
                    stream=True,
                    stream_options=USAGE,
                )
                return "".join(
                    c.choices[0].delta.content or "" for c in record(stream) if c.choices
                )

            assert ask("why?") == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_chunks_that_are_recorded(self, router, server, bills):
        """The same with each chunk reported."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512):
                stream = client.chat.completions.create(
                    model=model,
                    max_tokens=max_tokens,
                    messages=HELLO,
                    stream=True,
                    stream_options=USAGE,
                )
                return [record(chunk).choices for chunk in stream][-1]

            assert ask("why?") == []
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_a_recorded_stream_that_breaks(self, router, server, bills):
        """A body that fails in the middle of a recorded stream pays what came."""
        server.then(cut(ok(TEXT), at=0.5))
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512):
                stream = client.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=HELLO, stream=True
                )
                return list(record(stream))

            with pytest.raises(openai.APIConnectionError):
                ask("why?")
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_a_recorded_stream_that_is_returned(self, router, server, bills):
        """record() and return together count once."""
        with openai_client(server) as client:

            @route(router=router)
            def ask(question, *, model=MINI, max_tokens=512):
                stream = client.chat.completions.create(
                    model=model,
                    max_tokens=max_tokens,
                    messages=HELLO,
                    stream=True,
                    stream_options=USAGE,
                )
                return record(stream)

            assert len(list(ask("why?"))) == 8
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_two_streams(self, router, server, bills):
        """calls=2: two recorded streams are billed together."""
        with openai_client(server) as client:

            @route(router=router, calls=2)
            def ask(question, *, model=MINI, max_tokens=512):
                for _ in range(2):
                    stream = client.chat.completions.create(
                        model=model,
                        max_tokens=max_tokens,
                        messages=HELLO,
                        stream=True,
                        stream_options=USAGE,
                    )
                    for chunk in stream:
                        record(chunk)
                return "text"

            ask("why?")
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_another_model_answers(self, create, router, server, bills):
        """A dearer model's name in the chunks is billed at its price."""
        server.then(ok(TEXT, model=BIG, input_tokens=40, output_tokens=81))
        list(streaming(create))
        assert booked(router, bills) == ("settled", cost(router, BIG, 40, 81), "reported")


def test_text_is_counted_in_o200k():
    """The counted text of these tests is not empty, so that equal sums mean something."""
    assert tokens(TEXT) > 60
