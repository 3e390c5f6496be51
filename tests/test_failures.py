"""Failures: what real errors of openai and litellm mean for money and for trying again."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import warnings
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from budgetroute.backends.failures import (
    billing_of,
    fault_of,
    is_model_missing,
    is_retryable,
    retry_after,
)
from budgetroute.errors import BudgetExceeded, StoreError

# litellm leaves sockets and an event loop to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

MESSAGES = [{"role": "user", "content": "hi"}]
FACES = ["openai", "openai async", "litellm", "litellm async", "anthropic", "anthropic async"]
REFUSED = [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503, 529]
DOUBTFUL = [408, 504, 524]
PATIENCE = 0.3


class Provider(BaseHTTPRequestHandler):
    """Fails the way the first part of the path says."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    released = threading.Event()

    def log_message(self, *args):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        way = self.path.split("/")[1]
        if way == "hang":
            self.released.wait(10)
            self.close_connection = True
        elif way in {"cut", "drop"}:
            self.break_off(headers=way == "cut")
        elif way == "garbage":
            self.answer(200, b"<html>not json</html>")
        else:
            error = {
                "message": "no",
                "type": "t",
                "code": "model_not_found" if way == "404" else "c",
            }
            self.answer(int(way), json.dumps({"error": error}).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("retry-after", "7")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def break_off(self, *, headers):
        if headers:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "5000")
            self.end_headers()
            self.wfile.write(b'{"id": "x", "cho')
            self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


@pytest.fixture(scope="module")
def provider():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Provider.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module", autouse=True)
def swept():
    """Collect what litellm leaves behind before other modules treat it as an error."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def nobody():
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
def litellm():
    from budgetroute.backends.litellm_backend import LiteLLMBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LiteLLMBackend().load()


@pytest.fixture(scope="module")
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture(scope="module")
def fail(litellm, loop):
    """Call a face at an address and return what it raised."""
    import openai

    options = {"api_key": "k", "max_retries": 0, "timeout": PATIENCE}
    chat = {"model": "gpt-4o-mini", "messages": MESSAGES}

    def sdk(url):
        with openai.OpenAI(base_url=f"{url}/v1", **options) as client:
            client.chat.completions.create(**chat)

    async def sdk_async(url):
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", **options) as client:
            await client.chat.completions.create(**chat)

    def through(model, url):
        return {"model": model, "messages": MESSAGES, "api_base": url, "num_retries": 0, **options}

    calls = {
        "openai": sdk,
        "openai async": lambda url: loop.run_until_complete(sdk_async(url)),
    }
    for face, model, path in (
        ("litellm", "openai/gpt-4o-mini", "/v1"),
        ("anthropic", "anthropic/claude-sonnet-4-5", ""),
    ):
        calls[face] = lambda url, model=model, path=path: litellm.completion(
            **through(model, url + path)
        )
        calls[f"{face} async"] = lambda url, model=model, path=path: loop.run_until_complete(
            litellm.acompletion(**through(model, url + path))
        )

    def raised(face, url):
        with pytest.raises(Exception) as caught:
            calls[face](url)
        return caught.value

    return raised


@pytest.mark.parametrize("status", REFUSED)
@pytest.mark.parametrize("face", FACES)
def test_an_error_status_is_not_billed(fail, provider, face, status):
    """An error that the provider answered with costs nothing; 409, 429 and 5xx may be retried."""
    error = fail(face, f"{provider}/{status}")
    assert billing_of(error) == "refused"
    assert is_retryable(error) == (status in {409, 429} or status >= 500)
    assert is_model_missing(error) == (status == 404)
    assert retry_after(error) == 7


@pytest.mark.parametrize("status", DOUBTFUL)
@pytest.mark.parametrize("face", FACES)
def test_a_gateway_timeout_may_be_billed(fail, provider, face, status):
    """A status that means somebody gave up waiting leaves the bill unknown; it may be retried."""
    error = fail(face, f"{provider}/{status}")
    assert billing_of(error) == "unknown"
    assert is_retryable(error)


@pytest.mark.parametrize("way", ["hang", "cut", "drop"])
@pytest.mark.parametrize("face", FACES)
def test_a_lost_answer_may_be_billed(fail, provider, face, way):
    """A timeout, and a connection lost before or within the answer, leave the bill unknown."""
    error = fail(face, f"{provider}/{way}")
    assert billing_of(error) == "unknown"
    assert is_retryable(error)
    assert retry_after(error) is None
    assert not is_model_missing(error)


@pytest.mark.parametrize("face", FACES)
def test_a_refused_connection_is_not_billed(fail, nobody, face):
    """A request that never reached anybody costs nothing and may be retried."""
    error = fail(face, nobody)
    assert billing_of(error) == "not_sent"
    assert is_retryable(error)


@pytest.mark.parametrize("face", ["litellm", "litellm async", "anthropic"])
def test_an_unreadable_answer_may_be_billed(fail, provider, face):
    """An answer with status 200 that cannot be read was paid for, whatever litellm calls it."""
    assert billing_of(fail(face, f"{provider}/garbage")) == "unknown"


@pytest.mark.parametrize("face", FACES)
def test_an_older_failure_does_not_decide(fail, provider, nobody, face):
    """A lost answer stays unknown where it was asked for while a refused connection was handled."""
    refused = fail(face, nobody)
    try:
        raise_it(refused)
    except Exception:  # noqa: BLE001 - each SDK has its own tree
        newer = fail(face, f"{provider}/drop")
    assert billing_of(newer) == "unknown"
    with pytest.raises(type(newer)) as caught:
        raise_while_handling(newer, refused)
    assert caught.value.__context__ is refused or caught.value.__cause__ is not None
    assert billing_of(caught.value) == "unknown"


@pytest.mark.parametrize("face", ["openai", "litellm"])
def test_contexts_lead_inwards_only(fail, nobody, face):
    """From the transport, a context that is an SDK's error is an older failure."""
    import httpx

    lost = httpx.ReadTimeout("r")
    lost.__context__ = fail(face, nobody)
    assert billing_of(lost) == "unknown"


def raise_it(error):
    raise error


def raise_while_handling(newer, older):
    try:
        raise_it(older)
    finally:
        raise_it(newer)


@pytest.mark.parametrize("face", ["openai", "litellm"])
def test_wrapped_errors_are_seen_through(fail, provider, face):
    """A user's own error raised from an SDK's means what the SDK's means."""
    error = fail(face, f"{provider}/429")
    own = ValueError("no answer")
    own.__cause__ = error
    assert billing_of(own) == "refused"
    assert is_retryable(own)
    assert retry_after(own) == 7


def test_unrelated_context_is_not_followed(fail, nobody):
    """An error that merely happened while another was handled says nothing of the call."""
    own = ValueError("bug in the handler")
    own.__context__ = fail("openai", nobody)
    assert billing_of(own) == "unknown"
    assert not is_retryable(own)


def test_litellm_connect_timeouts_are_not_sent(litellm):
    """A timeout while connecting is told from one while waiting for the answer."""
    import httpx

    error = litellm.Timeout(message="m", model="m", llm_provider="openai")
    error.__context__ = httpx.ConnectTimeout("c")
    assert billing_of(error) == "not_sent"
    error.__context__ = httpx.ReadTimeout("r")
    assert billing_of(error) == "unknown"


def test_half_delivered_streams_are_not_retried(litellm):
    """A stream that broke after its first chunk was billed, though litellm calls it unavailable."""
    error = litellm.exceptions.MidStreamFallbackError(
        message="m", model="m", llm_provider="openai", generated_content="x"
    )
    assert isinstance(error, litellm.ServiceUnavailableError)
    assert billing_of(error) == "unknown"
    assert not is_retryable(error)


@pytest.mark.parametrize(
    ("name", "billing", "retryable"),
    [
        ("RateLimitError", "refused", True),
        ("ServiceUnavailableError", "refused", True),
        ("AuthenticationError", "refused", False),
        ("ContentPolicyViolationError", "refused", False),
        ("ContextWindowExceededError", "refused", False),
        ("Timeout", "unknown", True),
        ("InternalServerError", "unknown", True),
    ],
)
def test_litellm_errors_without_a_cause(litellm, name, billing, retryable):
    """Where nothing else is known litellm is believed, but for 500, its word for anything."""
    error = getattr(litellm, name)(message="m", model="m", llm_provider="openai")
    assert billing_of(error) == billing
    assert is_retryable(error) == retryable


def test_exhausted_quota_is_not_retried():
    """A quota that is used up comes as 429, but waiting does not help."""
    error = status_error(429)
    assert is_retryable(error)
    error.code = "insufficient_quota"
    assert not is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        GeneratorExit(),
        ValueError("x"),
        TypeError("unexpected keyword"),
        BudgetExceeded("day", spent_usd=1, held_usd=0, limit_usd=1, needed_usd=1, resets_at=None),
        StoreError("down", retryable=True),
    ],
)
def test_what_is_no_providers_error(error):
    """Cancellation, our own and unknown errors leave the bill unknown and are not retried."""
    assert billing_of(error) == "unknown"
    assert not is_retryable(error)
    assert not is_model_missing(error)
    assert retry_after(error) is None


def test_bare_timeouts_may_be_billed():
    """A caller's own timeout leaves the bill unknown; the call may be tried again."""
    assert billing_of(TimeoutError()) == "unknown"
    assert is_retryable(TimeoutError())


class StatusError(Exception):
    """An SDK error by shape."""


def status_error(status, **headers):
    error = StatusError("e")
    error.status_code = status
    error.response = SimpleNamespace(status_code=status, headers=headers)
    return error


def test_other_sdks_by_shape():
    """google-genai keeps the status in `code`, botocore in its response dict."""
    google = StatusError("e")
    google.code = 429
    boto = StatusError("e")
    boto.response = {"ResponseMetadata": {"HTTPStatusCode": 503}}
    assert billing_of(google) == billing_of(boto) == "refused"
    assert is_retryable(google)
    assert is_retryable(boto)


@pytest.mark.parametrize("code", ["model_not_found", "DeploymentNotFound"])
def test_missing_models_by_code(code):
    """A provider may say by its code alone that it does not know the model."""
    error = status_error(400)
    assert not is_model_missing(error)
    error.code = code
    assert is_model_missing(error)


@pytest.mark.parametrize(
    ("status", "lies_with", "may_pass"),
    [
        (400, "call", False),
        (401, "provider", False),
        (402, "provider", False),
        (403, "model", False),
        (404, "model", False),
        (408, "model", True),
        (409, "model", True),
        (410, "model", False),
        (413, "model", False),
        (422, "call", False),
        (429, "model", True),
        (500, "model", True),
        (503, "model", True),
        (529, "model", True),
    ],
)
@pytest.mark.parametrize("face", ["litellm", "anthropic"])
def test_with_whom_a_failure_lies(fail, provider, face, status, lies_with, may_pass):
    """Each status lies with the call, its model or its provider, and passes or does not."""
    fault = fault_of(fail(face, f"{provider}/{status}"))
    assert (fault.lies_with, fault.may_pass) == (lies_with, may_pass)
    assert fault.why == f"HTTP {status}"


def test_nobody_listens_lies_with_the_provider(fail, nobody):
    """An address where nobody listens serves none of the provider's models."""
    fault = fault_of(fail("litellm", nobody))
    assert (fault.lies_with, fault.may_pass, fault.why) == ("provider", True, "no connection")


@pytest.mark.parametrize(
    ("name", "lies_with"),
    [
        ("ContextWindowExceededError", "model"),
        ("UnsupportedParamsError", "model"),
        ("ContentPolicyViolationError", "call"),
        ("AuthenticationError", "provider"),
    ],
)
def test_litellms_own_refusals(litellm, name, lies_with):
    """What litellm refuses before or instead of the provider lies with whom it concerns."""
    error = getattr(litellm, name)(message="m", model="m", llm_provider="openai")
    fault = fault_of(error)
    assert (fault.lies_with, fault.may_pass) == (lies_with, False)
    assert fault.is_too_long == (name == "ContextWindowExceededError")


def test_a_name_that_litellm_does_not_know(litellm):
    """A model that litellm cannot place is missing, like one that its provider does not know."""
    with pytest.raises(litellm.BadRequestError) as caught:
        litellm.completion(model="gpt-99", messages=MESSAGES, api_key="k")
    assert fault_of(caught.value).lies_with == "model"
    assert is_model_missing(caught.value, "gpt-99")
    assert not is_model_missing(caught.value, "gpt-9")


def test_an_address_names_no_model(litellm):
    """That the model stands in the address which was not found says nothing of the model."""
    error = litellm.NotFoundError(message="not here", model="g-x", llm_provider="gemini")
    address = type("HTTPStatusError", (Exception,), {"__module__": "litellm.llms"})
    error.__cause__ = address("404 for url http://host/v1/models/g-x")
    assert is_model_missing(error)
    assert not is_model_missing(error, "g-x")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('GroqException - {"error": {"message": "x", "code": "model_decommissioned"}}', True),
        ('MistralException - {"message": "Invalid model: x", "type": "invalid_model"}', True),
        ('X - {"error": {"message": "{\\"code\\": \\"model_not_found\\"}"}}', False),
        ('X - {"prompt": {"error": {"code": "model_not_found"}}}', False),
        ("X - " + '{"a":' * 100_000, False),
        ("X - {]", False),
    ],
    ids=["groq", "mistral", "quoted", "nested", "deep", "broken"],
)
def test_codes_in_the_text(litellm, text, missing):
    """Where no SDK has read the error object, its codes are read; a prompt inside it is not."""
    error = litellm.BadRequestError(message=text, model="x", llm_provider="groq")
    assert is_model_missing(error) == missing


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        ValueError("x"),
        StoreError("down", retryable=True),
    ],
)
def test_what_another_model_cannot_heal(error):
    """Cancellation, our own and unknown errors are the call's."""
    assert fault_of(error).lies_with == "call"


DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
BEFORE = "Wed, 21 Oct 2026 07:27:30 GMT"
NOW = datetime(2026, 10, 21, 7, 27, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "now", "seconds"),
    [
        ({}, None, None),
        ({"Retry-After": "1.5"}, None, 1.5),
        ({"retry-after": "0"}, None, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, None, 0.25),
        ({"retry-after": DATE, "date": BEFORE}, None, 30.0),
        ({"retry-after": DATE, "date": BEFORE}, NOW, 30.0),
        ({"retry-after": DATE}, NOW, 10.0),
        ({"retry-after": BEFORE}, NOW, 0.0),
        ({"retry-after": DATE}, None, None),
        ({"retry-after": "soon"}, NOW, None),
        ({"retry-after": "-3"}, NOW, None),
        ({"retry-after": "nan"}, NOW, None),
        ({"retry-after": "inf"}, NOW, None),
    ],
)
def test_retry_after(headers, now, seconds):
    """Seconds, milliseconds and dates are read; what makes no sense says nothing."""
    assert retry_after(status_error(429, **headers), now=now) == seconds


def test_circular_causes_end():
    """A chain of causes that bites its tail is walked no further than it is long."""
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert billing_of(one) == "unknown"
