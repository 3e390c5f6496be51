"""budgetroute.testing against the real clients, and the loopback HTTP core under it."""

import asyncio
import http.client
import importlib
import json
import os
import socket
import subprocess
import sys
import warnings

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.loopback import Loopback, Response, served
from budgetroute.loopback.http import MalformedRequest, frames, parse
from budgetroute.testing import ScriptedServer, cut, no_usage, ok, slow, status, stopped

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as made:
        yield made


def ask(client, **parameters):
    return client.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, **parameters)


@pytest.fixture(scope="module")
def litellm():
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import warns about its own types
        return importlib.import_module("litellm")


def ask_litellm(litellm, server, **parameters):
    return litellm.completion(
        model="openai/gpt-4o-mini",
        messages=MESSAGES,
        api_base=server.base_url,
        api_key="none",
        max_retries=0,
        timeout=10,
        **parameters,
    )


class TestOpenAI:
    def test_a_reply_reaches_the_sync_client(self, server, client):
        """Text, usage with details, finish reason and unknown fields arrive as scripted."""
        reply = ok(
            "hi", input_tokens=100, output_tokens=50, cached=80, reasoning=20, novel={"a": 1}
        )
        server.then(stopped("length", reply))
        got = ask(client)
        assert got.choices[0].message.content == "hi"
        assert got.choices[0].finish_reason == "length"
        assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (100, 50)
        assert got.usage.prompt_tokens_details.cached_tokens == 80
        assert got.usage.completion_tokens_details.reasoning_tokens == 20
        assert got.model_extra["novel"] == {"a": 1}

    def test_a_reply_reaches_the_async_client(self, server):
        """Twenty concurrent calls of the async client are each answered."""

        async def main():
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
                return await asyncio.gather(*(ask(client) for _ in range(20)))

        assert [one.choices[0].message.content for one in asyncio.run(main())] == ["ok"] * 20
        assert len(server.requests) == 20

    def test_requests_and_bills_are_kept(self, server, client):
        """The bodies, the headers and the true usage of every answered request can be read."""
        server.then(no_usage(ok(input_tokens=7, output_tokens=3)))
        got = ask(client, max_tokens=64)
        assert got.usage is None
        assert server.requests == [{"model": "gpt-4o-mini", "messages": MESSAGES, "max_tokens": 64}]
        assert server.headers[0]["authorization"] == "Bearer none"
        assert server.billed[0].model == "gpt-4o-mini"
        assert server.billed[0].usage["total_tokens"] == 10

    def test_another_model_may_answer(self, server, client):
        """The response claims the scripted name; without one it echoes the request's."""
        server.then(ok(model="gpt-4o-2024-08-06"))
        assert [ask(client).model for _ in range(2)] == ["gpt-4o-2024-08-06", "gpt-4o-mini"]

    def test_a_step_may_look_at_the_request(self, server, client):
        """A function as a step answers by the body it is given, n choices by the request's n."""
        server.then(lambda body: ok(f"cap {body['max_tokens']}", output_tokens=body["max_tokens"]))
        got = ask(client, max_tokens=9, n=2)
        assert [choice.message.content for choice in got.choices] == ["cap 9", "cap 9"]
        assert got.usage.completion_tokens == 9

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (400, openai.BadRequestError),
            (408, openai.APIStatusError),
            (409, openai.ConflictError),
            (429, openai.RateLimitError),
            (500, openai.InternalServerError),
            (529, openai.InternalServerError),
        ],
    )
    def test_a_status_is_raised(self, server, client, code, error):
        """Each status reaches the caller as the client's own error, with its message and headers."""
        server.then(status(code, "no luck", retry_after=1.5, x_request_id="r7"))
        with pytest.raises(error, match="no luck") as caught:
            ask(client)
        assert caught.value.status_code == code
        assert caught.value.response.headers["retry-after"] == "1.5"
        assert caught.value.request_id == "r7"
        assert server.billed == []

    def test_the_client_retries_a_status(self, server):
        """A retrying client sees the script's next step: two failures, then the answer."""
        server.then(status(429, retry_after=0.001), status(500, retry_after=0.001), ok("third"))
        with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=2) as client:
            assert ask(client).choices[0].message.content == "third"
        assert len(server.requests) == 3

    def test_a_slow_reply_times_out(self, server, client):
        """A reply slower than the client's patience is a timeout, and the server goes on."""
        server.then(slow(30))
        with pytest.raises(openai.APITimeoutError):
            ask(client, timeout=0.05)
        assert ask(client).choices[0].message.content == "ok"

    def test_a_delayed_reply_arrives(self, server, client):
        """A reply within the patience arrives whole."""
        server.then(slow(0.02, ok("late")))
        assert ask(client).choices[0].message.content == "late"

    def test_a_cut_reply_is_a_connection_error(self, server, client):
        """A body that ends early is a connection error, though it was billed."""
        server.then(cut(ok("x" * 1000)))
        with pytest.raises(openai.APIConnectionError):
            ask(client)
        assert len(server.billed) == 1

    def test_models_are_listed(self, server, client):
        """The model list holds what was asked for so far."""
        ask(client)
        assert [model.id for model in client.models.list()] == ["gpt-4o-mini"]

    def test_other_endpoints_are_refused(self, client):
        """An endpoint that is not served is a 404 that says what is."""
        with pytest.raises(openai.NotFoundError, match="only chat completions and models"):
            client.embeddings.create(model="text-embedding-3-small", input="x")


class TestStreams:
    def test_usage_comes_on_request(self, server, client):
        """With include_usage the last chunk has the usage and no choices; the text is whole."""
        text = "one two three " * 40
        server.then(ok(text, input_tokens=11, output_tokens=120))
        chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == 120
        assert all(chunk.usage is None for chunk in chunks[:-1])
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == text
        assert chunks[-2].choices[0].finish_reason == "stop"

    def test_usage_stays_away_unasked(self, server, client):
        """Without include_usage no chunk has usage."""
        assert [chunk.usage for chunk in ask(client, stream=True)] == [None] * 3

    def test_a_provider_may_not_count(self, server, client):
        """A stream without usage ends without it, even when it was asked for."""
        server.then(no_usage())
        chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
        assert all(chunk.usage is None for chunk in chunks)

    def test_a_cut_stream_breaks_midway(self, server, client):
        """Half of the pieces arrive, then the connection breaks."""
        server.then(cut(ok("word " * 200)))
        seen = []
        with pytest.raises(openai.APIError):  # noqa: PT012 - the loop is what breaks
            for chunk in ask(client, stream=True):
                seen.append(chunk)  # noqa: PERF402 - what came before the break is wanted
        assert 3 < len(seen) < 12

    def test_a_dripping_stream_can_be_left(self, server, client):
        """A client that leaves a slow stream early leaves a server that still answers."""
        server.then(slow(0, ok("word " * 200), gap=0.01))
        with ask(client, stream=True) as stream:
            next(iter(stream))
        assert ask(client).choices[0].message.content == "ok"

    def test_a_dripping_stream_arrives(self, server, client):
        """Pieces sent apart add up to the text."""
        server.then(slow(0, ok("word " * 40), gap=0.001))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, stream=True))
        assert text == "word " * 40


@pytest.mark.filterwarnings("ignore")  # litellm steps on pydantic's deprecations; not ours to mend
class TestLiteLLM:
    def test_a_reply_reaches_litellm(self, server, litellm):
        """litellm.completion over api_base returns the text and the usage."""
        server.then(ok("hi", input_tokens=100, output_tokens=50, cached=80, novel=1))
        got = ask_litellm(litellm, server)
        assert got.choices[0].message.content == "hi"
        assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (100, 50)
        assert got.usage.prompt_tokens_details.cached_tokens == 80
        assert server.requests[0]["model"] == "gpt-4o-mini"

    def test_a_stream_reaches_litellm(self, server, litellm):
        """A litellm stream with include_usage ends with the scripted usage."""
        server.then(ok("a b c", input_tokens=9, output_tokens=4))
        chunks = list(
            ask_litellm(litellm, server, stream=True, stream_options={"include_usage": True})
        )
        assert chunks[-1].usage.completion_tokens == 4

    @pytest.mark.parametrize(
        ("code", "name"),
        [
            (429, "RateLimitError"),
            (500, "InternalServerError"),
            (400, "BadRequestError"),
            (408, "Timeout"),
        ],
    )
    def test_a_status_is_raised(self, server, litellm, code, name):
        """A scripted status becomes litellm's error of that kind, after one request."""
        server.then(status(code))
        with pytest.raises(getattr(litellm, name)):
            ask_litellm(litellm, server)
        assert len(server.requests) == 1

    def test_the_async_twin_is_answered(self, server, litellm):
        """litellm.acompletion is answered too."""

        async def main():
            return await litellm.acompletion(
                model="openai/gpt-4o-mini",
                messages=MESSAGES,
                api_base=server.base_url,
                api_key="none",
            )

        assert asyncio.run(main()).choices[0].message.content == "ok"


REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello"


class TestHTTP:
    @given(st.integers(1, len(REQUEST) - 1))
    def test_part_of_a_request_waits(self, size):
        """No proper prefix of a request is taken for one."""
        assert parse(REQUEST[:size]) is None

    @given(st.binary(max_size=50))
    def test_what_follows_is_left(self, rest):
        """A request is read up to its length and no further."""
        received, taken = parse(REQUEST + rest)
        assert (received.body, taken) == (b"hello", len(REQUEST))
        assert received.headers["host"] == "here"

    @pytest.mark.parametrize(
        ("raw", "code"),
        [
            (b"nonsense\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
            (b"x" * 70_000, 431),
        ],
    )
    def test_what_is_no_request_is_refused(self, raw, code):
        """Each malformed request is told apart by its status."""
        with pytest.raises(MalformedRequest) as caught:
            parse(raw)
        assert caught.value.status == code

    def test_a_refusal_reaches_the_client(self, server):
        """A client that does not speak HTTP gets an answer and a closed connection."""
        with socket.create_connection(server.base_url[7:-3].split(":")) as raw:
            raw.sendall(b"nonsense\r\n\r\n")
            assert raw.makefile("rb").read().startswith(b"HTTP/1.1 400 Bad Request")

    def test_requests_sent_together_are_answered_in_order(self):
        """Pipelined requests on one connection get their answers in order, slow ones too."""

        def respond(received):
            return Response(body=received.body, delay=0.01 if received.body == b"1" else 0)

        with (
            Loopback(respond) as running,
            socket.create_connection(("127.0.0.1", running.port)) as raw,
        ):
            raw.sendall(
                b"".join(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d" % n for n in range(3))
                + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
            )
            bodies = [part[:1] for part in raw.makefile("rb").read().split(b"\r\n\r\n")[1:]]
        assert bodies == [b"0", b"1", b"2", b""]

    def test_a_connection_is_kept(self):
        """Many requests go over one connection; megabytes fit."""
        with Loopback(lambda received: Response(body=received.body)) as running:
            connection = http.client.HTTPConnection("127.0.0.1", running.port)
            for size in (0, 1, 3_000_000):
                connection.request("POST", "/", body=b"x" * size)
                assert len(connection.getresponse().read()) == size
            connection.close()

    def test_a_stream_ends_with_its_last_chunk(self):
        """A whole stream is closed by the empty chunk, a cut one is not; empty parts are left out."""
        whole = frames(Response(parts=(b"ab", b"", b"c")))
        assert whole[1:] == (b"2\r\nab\r\n", b"1\r\nc\r\n", b"0\r\n\r\n")
        assert frames(Response(parts=(b"ab", b"c"), cut=1))[1:] == (b"2\r\nab\r\n",)

    def test_a_server_can_be_entered_again(self):
        """Left and entered again, the same server answers; inside and outside are told apart."""
        running = Loopback(lambda received: Response(body=b"here"))
        for _ in range(2):
            with running, socket.create_connection(("127.0.0.1", running.port)) as raw:
                raw.sendall(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
                assert raw.makefile("rb").read().endswith(b"here")
                with pytest.raises(RuntimeError, match="already runs"):
                    running.__enter__()
        with pytest.raises(RuntimeError, match="`with` block"):
            running.base_url  # noqa: B018 - the look is what raises

    def test_bad_bodies_are_refused(self, server):
        """No JSON and no messages are 400s that say what is missing."""
        host, port = server.base_url[7:-3].split(":")
        connection = http.client.HTTPConnection(host, int(port))
        for body, said in (
            (b"{", "not JSON"),
            (b'{"model": "m"}', "messages"),
            (b"[]", "messages"),
        ):
            connection.request("POST", "/v1/chat/completions", body=body)
            got = connection.getresponse()
            assert (got.status, said in json.loads(got.read())["error"]["message"]) == (400, True)
        connection.close()


class TestProcess:
    def test_a_module_that_does_not_serve_is_an_error(self):
        """A child that ends without a port is reported, not waited for."""
        with pytest.raises(RuntimeError, match="instead of a port"), served("this"):
            pass

    def test_the_child_ends_with_its_input(self):
        """A server process serves until its standard input closes, whoever closes it."""
        code = (
            "from budgetroute.loopback import serve_until_eof, Response\n"
            "serve_until_eof(lambda received: Response(body=b'child'))"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            port = int(child.stdout.readline())
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"child"
            connection.close()
            child.stdin.close()
            assert child.wait(10) == 0
