"""Streams of the real litellm: routed, and through completion and acompletion with their retries."""

import asyncio
import json

import openai
import pytest
from http_support import (
    HELLO,
    MINI,
    attempts,
    billed,
    cost,
    day,
    litellm_at_work,
    make_router,
)
from stream_support import TEXT, adrained, booked, counted, text_of, watched

from budgetroute import acompletion, completion, last_decision, pin, record, route
from budgetroute.loopback import Loopback, Response
from budgetroute.testing import ScriptedServer, cut, no_usage, ok, slow, status

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

USAGE = {"include_usage": True}
OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'


@pytest.fixture(scope="module")
def tools():
    with litellm_at_work() as found:
        yield found


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more=OPENAI_ONLY)


@pytest.fixture
def bills(router):
    return watched(router)


@pytest.fixture
def server():
    with ScriptedServer(after=ok(TEXT, input_tokens=40, output_tokens=81)) as running:
        yield running


@pytest.fixture(autouse=True)
def _pinned(monkeypatch):
    monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 0.0)
    with pin(model=MINI, max_tokens=512, cot=False):
        yield


class Stream:
    """A stream in either way; keeps the decision, which an async call makes in a context of its own."""

    def __init__(self, way, loop, make):
        self.way, self.loop, self.decision = way, loop, None
        self.inner = make() if way == "sync" else self.run(make)
        self.decision = self.decision or last_decision()

    def run(self, make):
        async def main():
            made = await make()
            self.decision = last_decision()
            return made

        return self.loop.run_until_complete(main())

    def __iter__(self):
        return self

    def __next__(self):
        if self.way == "sync":
            return next(self.inner)
        try:
            return self.loop.run_until_complete(anext(self.inner))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self):
        if self.way == "sync":
            self.inner.close()
        else:
            self.loop.run_until_complete(self.inner.aclose())


@pytest.fixture(params=["sync routed", "async routed", "sync completion", "async completion"])
def call(request, tools, server, router):
    """Call for a stream in each of the four ways."""
    litellm, loop = tools
    way, door = request.param.split()
    settings = {"api_base": server.base_url, "api_key": "none", "stream": True}

    def call(**more):
        passed = settings | more
        if door == "completion":
            fn = completion if way == "sync" else acompletion
            return Stream(way, loop, lambda: fn(HELLO, router=router, **passed))
        fn = litellm.completion if way == "sync" else litellm.acompletion
        routed = route("completion", router=router)(fn)
        passed |= {"model": MINI, "messages": HELLO, "max_retries": 0}
        return Stream(way, loop, lambda: routed(**passed))

    return call


class TestEndings:
    def test_drained(self, call, router, server, bills):
        """A stream read to its end is billed by its last chunk, which only we have asked for."""
        assert text_of(call()) == TEXT
        assert server.requests[0]["stream_options"] == USAGE
        assert booked(router, bills) == ("settled", billed(router, server), "reported")
        assert day(router).held == 0

    @pytest.mark.parametrize("way", ["close", "del"])
    def test_left_early(self, call, router, bills, way):
        """Closed or dropped, what was read is counted and booked as estimated, once."""
        stream = call()
        read = [next(stream), next(stream), next(stream)]
        decision = stream.decision
        if way == "close":
            stream.close()
        del stream
        amount = counted(router, text_of(read), decision=decision)
        assert booked(router, bills) == ("estimated", amount, "partial")

    def test_left_at_the_finish_reason(self, call, router, server, bills):
        """Who stops at the finish reason is billed exactly: the usage was fetched before."""
        for chunk in call():
            if chunk.choices[0].finish_reason:
                break
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_a_broken_connection(self, call, router, server, bills):
        """A break in the middle raises litellm's error once, without another try, and is counted."""
        server.then(cut(ok(TEXT), at=0.5))
        stream, read = call(), []
        with pytest.raises(openai.APIError):
            read.extend(stream)
        amount = counted(router, TEXT[:240], decision=stream.decision)
        assert booked(router, bills) == ("estimated", amount, "partial")
        assert len(server.requests) == 1

    def test_cancelled(self, tools, router, server, bills):
        """A step that is cancelled lands the call."""
        _, loop = tools
        server.then(slow(0.0, ok(TEXT), gap=0.01))

        async def main():
            stream = await acompletion(
                HELLO, stream=True, router=router, api_base=server.base_url, api_key="none"
            )
            step = asyncio.ensure_future(adrained(stream))
            await asyncio.sleep(0)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            return attempts(router)

        assert loop.run_until_complete(main()) == attempts(router)
        assert booked(router, bills)[0] == "estimated"


class TestUsage:
    def test_what_litellm_counts_itself(self, call, router, server, bills):
        """Where the provider reports nothing, litellm's own last chunk is not taken for a report."""
        server.then(no_usage(ok(TEXT)))
        stream = call(stream_options=USAGE)
        chunks = list(stream)
        assert chunks[-1].usage.completion_tokens > 0
        amount = counted(router, TEXT, decision=stream.decision)
        assert booked(router, bills) == ("estimated", amount, "partial")

    def test_what_the_caller_asked_for_passes(self, call, router, server, bills):
        """A caller who asks for the usage gets its chunk."""
        assert list(call(stream_options=USAGE))[-1].usage.completion_tokens == 81
        assert booked(router, bills) == ("settled", billed(router, server), "reported")

    def test_details(self, call, router, server, bills):
        """Cached tokens of a stream are billed at their rate."""
        server.then(ok(TEXT, input_tokens=100, output_tokens=50, cached=80))
        list(call())
        assert attempts(router) == [("settled", cost(router, MINI, 100, 50, cached=80))]

    def test_a_recorded_stream(self, tools, router, server, bills):
        """A body that turns litellm's stream into text passes it through record()."""
        litellm, _ = tools

        @route("completion", router=router)
        def ask(question, *, model=MINI, max_tokens=512):
            stream = litellm.completion(
                model=model,
                max_tokens=max_tokens,
                messages=HELLO,
                stream=True,
                api_base=server.base_url,
                api_key="none",
                stream_options=USAGE,
            )
            return "".join(c.choices[0].delta.content or "" for c in record(stream) if c.choices)

        assert ask("why?") == TEXT
        assert booked(router, bills) == ("settled", billed(router, server), "reported")


@pytest.fixture(params=["sync", "async"])
def complete(request, tools, server, router):
    """Call completion or acompletion for a stream."""
    _, loop = tools
    passed = {"api_base": server.base_url, "api_key": "none", "stream": True, "router": router}

    def complete(**more):
        fn = completion if request.param == "sync" else acompletion
        return Stream(request.param, loop, lambda: fn(HELLO, **(passed | more)))

    return complete


class TestRetries:
    @pytest.mark.parametrize(
        ("first", "state"),
        [
            (status(429), "released"),
            (status(503), "released"),
            (cut(ok(TEXT), at=0.0), "estimated"),
        ],
    )
    def test_before_the_first_chunk(self, complete, router, server, first, state):
        """What fails before the first chunk is tried again, with a reservation of its own."""
        server.then(first)
        assert text_of(complete()) == TEXT
        states = [row for row, _ in attempts(router)]
        assert states == [state, "settled"]
        assert attempts(router)[1][1] == cost(router, MINI, 40, 81)
        assert len(server.requests) == 2

    def test_refused_every_time(self, complete, router, server):
        """The last attempt's error is raised by the call, and nothing is held."""
        server.then(*[status(500)] * 3)
        with pytest.raises(openai.APIError):
            complete(attempts=3)
        assert [row for row, _ in attempts(router)] == ["released"] * 3
        assert (day(router).settled, day(router).held) == (0, 0)

    def test_not_after_the_first_chunk(self, complete, router, server):
        """What was delivered in part is not asked for again."""
        server.then(cut(ok(TEXT), at=0.3))
        stream = complete()
        with pytest.raises(openai.APIError):
            list(stream)
        assert len(server.requests) == 1
        assert [row for row, _ in attempts(router)] == ["estimated"]

    def test_an_empty_answer(self, complete, router, server):
        """An answer without text or usage comes back empty, and its usage is unknown."""
        server.then(no_usage(ok("")))
        assert text_of(complete()) == ""
        assert [row for row, _ in attempts(router)] == ["estimated"]

    def test_all_chunks_are_there(self, complete, server):
        """The chunk that was fetched inside the attempt comes first."""
        chunks = list(complete())
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-1].choices[0].finish_reason == "stop"


def sse(*events):
    """Lay out Anthropic's events."""
    parts = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
    return Response(parts=parts, content_type="text/event-stream")


CLAUDE = "claude-haiku-4-5"
START = {
    "type": "message_start",
    "message": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": [],
        "usage": {"input_tokens": 30, "cache_read_input_tokens": 70, "output_tokens": 1},
    },
}
SAID = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in ("one two ", "three")
    ),
    {"type": "content_block_stop", "index": 0},
]
STOP = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 25},
    },
    {"type": "message_stop"},
]


class TestAnthropic:
    """litellm over Anthropic's own wire format: usage at the start and at the end."""

    @pytest.fixture
    def ask(self, tools, tmp_path):
        litellm, _ = tools
        self.router = make_router(tmp_path)
        self.bills = watched(self.router)
        with Loopback(lambda received: sse(START, *SAID, *STOP)) as loopback, pin(model=CLAUDE):
            routed = route(router=self.router)(litellm.completion)
            yield lambda: routed(
                model=CLAUDE,
                messages=HELLO,
                stream=True,
                api_base=f"http://127.0.0.1:{loopback.port}",
                api_key="none",
                max_retries=0,
            )

    def test_drained(self, ask):
        """Read to its end it is billed for both halves of the usage."""
        assert text_of(ask()) == "one two three"
        amount = cost(self.router, CLAUDE, 100, 25, cached=70)
        assert booked(self.router, self.bills) == ("settled", amount, "reported")

    def test_left_early(self, ask):
        """Left early, the input that the start reported and the counted text are booked."""
        stream = ask()
        while not next(stream).choices[0].delta.content:
            pass
        stream.close()
        state, amount, source = booked(self.router, self.bills)
        least = cost(self.router, CLAUDE, 100, 1, cached=70)
        most = cost(self.router, CLAUDE, 100, 24, cached=70)
        assert (state, source) == ("estimated", "partial")
        assert least <= amount <= max(most, round(last_decision().chosen.cost * 1e12))
