"""wrap(): what else a client can do. What may cost money is refused before the wire, the rest passes."""

import asyncio
from types import SimpleNamespace

import httpx2
import openai
import pytest
from api_support import ApiServer
from http_support import MINI, async_client, attempts, make_router, openai_client

from budgetroute import ConfigError, wrap
from budgetroute.wrapping.paths import is_free

HOST = "api.openai.com"
PAID = {
    "embeddings": lambda c: c.embeddings.create(model="e", input="x"),
    "images": lambda c: c.images.generate(prompt="x"),
    "speech": lambda c: c.audio.speech.create(model="tts-1", voice="alloy", input="x"),
    "transcriptions": lambda c: c.audio.transcriptions.create(model="w", file=("a.mp3", b"x")),
    "legacy completions": lambda c: c.completions.create(model="m", prompt="x"),
    "batches": lambda c: c.batches.create(
        completion_window="24h", endpoint="/v1/chat/completions", input_file_id="f"
    ),
    "fine-tuning": lambda c: c.fine_tuning.jobs.create(model="m", training_file="f"),
    "assistants": lambda c: c.beta.assistants.create(model=MINI),
    "runs": lambda c: c.beta.threads.runs.create("t", assistant_id="a"),
    "runs with a poll": lambda c: c.beta.threads.create_and_run(assistant_id="a"),
    "beta responses": lambda c: c.beta.responses.create(model=MINI, input="x"),
    "compaction": lambda c: c.responses.compact(model=MINI, input="x"),
    "vector stores": lambda c: c.vector_stores.create(name="x"),
    "videos": lambda c: c.videos.create(prompt="x"),
    "moderations elsewhere": lambda c: c.moderations.create(input="x"),
    "containers": lambda c: c.containers.create(name="x"),
    "evals": lambda c: c.evals.runs.create("e", data_source={}),
    "realtime secrets": lambda c: c.realtime.client_secrets.create(),
    "raw embeddings": lambda c: c.embeddings.with_raw_response.create(model="e", input="x"),
    "post": lambda c: c.post("/chat/completions", cast_to=object, body={"model": MINI}),
    "post to elsewhere": lambda c: c.post("http://127.0.0.1:9/v1/x", cast_to=object),
    "put": lambda c: c.put("/anything", cast_to=object),
    "realtime": lambda c: c.realtime.connect(model="m"),
    "old realtime": lambda c: c.beta.realtime.connect(model="m"),
    "responses socket": lambda c: c.responses.connect(),
}
FREE = {
    "models": lambda c: c.models.list(),
    "a stored response": lambda c: c.responses.retrieve("resp_1"),
    "files": lambda c: c.files.list(),
    "an upload": lambda c: c.files.create(file=("a.jsonl", b"{}"), purpose="batch"),
    "a cancelled response": lambda c: c.responses.cancel("resp_1"),
    "a cancelled batch": lambda c: c.batches.cancel("b"),
    "a deleted response": lambda c: c.responses.delete("resp_1"),
    "metadata": lambda c: c.chat.completions.update("chatcmpl-1", metadata={"a": "b"}),
    "get": lambda c: c.get("/models", cast_to=object),
}


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ApiServer() as running:
        yield running


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of APIs that will go
class TestPaid:
    @pytest.mark.parametrize("what", PAID)
    def test_refused_before_the_wire(self, router, server, what):
        """An endpoint whose cost nobody has bounded is refused with what to do; nothing is sent."""
        with openai_client(server) as client:
            made = wrap(client, router=router)
            with pytest.raises(ConfigError, match="was given to wrap"):
                PAID[what](made)
        assert server.requests == server.reads == attempts(router) == []

    @pytest.mark.parametrize(
        "what", ["embeddings", "images", "batches", "post", "responses socket"]
    )
    def test_refused_before_the_wire_async(self, router, server, what):
        """The same holds for AsyncOpenAI."""

        async def called():
            async with async_client(server) as client:
                await PAID[what](wrap(client, router=router))

        with pytest.raises(ConfigError, match="was given to wrap"):
            asyncio.run(called())
        assert server.requests == []

    def test_a_web_socket_of_a_kind_unknown_today(self, router):
        """Every socket asks the client for its options first; there it is refused."""
        asked = openai.OpenAI(api_key="none")
        options = SimpleNamespace(method="get", url=f"wss://{HOST}/v1/anything")
        with asked as client, pytest.raises(ConfigError, match="GET wss"):
            wrap(client, router=router)._prepare_options(options)

    def test_the_users_client_still_can(self, router, server):
        """The message says to use the client that was wrapped; that works."""
        with openai_client(server) as client:
            wrap(client, router=router)
            client.images.generate(prompt="x")
        assert [path for path, _ in server.requests] == ["/v1/images/generations"]


class TestFree:
    @pytest.mark.parametrize("what", FREE)
    def test_passes(self, router, server, what):
        """Reading, deleting, cancelling and storing files cost nothing, and pass unbudgeted."""
        with openai_client(server) as client:
            FREE[what](wrap(client, router=router))
        assert len(server.requests) + len(server.reads) == 1
        assert attempts(router) == []

    def test_pages(self, router, server):
        """Further pages of a list are requests of the wrapped client too."""

        async def called():
            async with async_client(server) as client:
                return [model async for model in wrap(client, router=router).models.list()]

        assert asyncio.run(called()) == []
        assert server.reads == ["/v1/models"]


class TestPaths:
    @pytest.mark.parametrize(
        ("method", "url", "host", "free"),
        [
            ("post", "/moderations", HOST, True),
            ("post", "/moderations", f"eu.{HOST}", True),
            ("post", "/moderations", "api.mistral.ai", False),
            ("post", "/moderations", f"not-{HOST}", False),
            ("post", "files", HOST, True),
            ("post", "/uploads/u/parts", HOST, True),
            ("post", "/vector_stores/v/files", HOST, False),
            ("post", "/chat/completions", HOST, False),
            ("post", "/chat/completions/", HOST, False),
            ("post", "/chat/completions/chatcmpl-1", HOST, True),
            ("post", "/responses/r/cancel", HOST, True),
            ("post", "/cancelled", HOST, False),
            ("post", f"https://{HOST}/v1/chat/completions", HOST, False),
            ("post", "", HOST, False),
            ("patch", "/anything", HOST, False),
            ("get", f"wss://{HOST}/v1/realtime", HOST, False),
            ("get", "ws://x/v1/realtime", "x", False),
            ("delete", "/models/m", HOST, True),
            ("GET", "/models", HOST, True),
            ("post", "/v1/messages/count_tokens", "api.anthropic.com", True),
            ("post", "/v1/messages/batches/b/cancel", "api.anthropic.com", True),
            ("post", "/v1/messages/batches", "api.anthropic.com", False),
            ("post", "/v1/messages", "api.anthropic.com", False),
            ("post", "/v1/files", "api.anthropic.com", True),
            ("post", "/v1/count_tokens_not", "api.anthropic.com", False),
        ],
    )
    def test_what_is_free(self, method, url, host, free):
        """Only what is known to cost nothing is free, whatever it is called."""
        assert is_free(method, url, host=host) == free


def test_the_sdk_still_asks_in_these_places():
    """The hooks that wrap() stands in are there, and called: the SDK's request and its options."""
    seen = []

    class Spy(openai.OpenAI):
        def request(self, *args, **kwargs):
            seen.append("request")
            return super().request(*args, **kwargs)

        def _prepare_options(self, options):
            seen.append("options")
            return super()._prepare_options(options)

    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json={"data": []}))
    with Spy(api_key="none", http_client=httpx2.Client(transport=transport)) as spy:
        spy.models.list()
    assert seen == ["request", "options"]
