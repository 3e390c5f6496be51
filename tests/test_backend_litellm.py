"""The litellm backend: one request per call, no substitutes, a silent import, safe versions."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from budgetroute.backends import versions as versions_module
from budgetroute.backends.litellm_backend import LiteLLMBackend, _own_price_map
from budgetroute.backends.usage import read_usage
from budgetroute.backends.versions import litellm_problem, versions
from budgetroute.errors import ConfigError

# litellm leaves sockets and an event loop to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}


class Provider(BaseHTTPRequestHandler):
    """Answers with the status in the first part of the path, or hangs; keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    asked: list[dict] = []  # noqa: RUF012 - one server per module
    released = threading.Event()

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append(json.loads(body))
        way = self.path.split("/")[1]
        if way == "hang":
            self.released.wait(10)
            self.close_connection = True
            return
        answer = json.dumps(ANSWER if way == "200" else {"error": {"message": "no"}}).encode()
        self.send_response(int(way))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture(scope="module")
def server():
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


@pytest.fixture
def asked(server):
    Provider.asked.clear()
    return Provider.asked


@pytest.fixture(scope="module")
def backend():
    backend = LiteLLMBackend()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backend.load()
    return backend


def asking(url, **extra):
    return {
        "model": "openai/gpt-4o-mini",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 7,
        "api_base": f"{url}/v1",
        "api_key": "k",
        **extra,
    }


@pytest.fixture(scope="module")
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(params=["sync", "async"])
def call(request, loop):
    """Call a backend in either way."""

    def sync_call(backend, **kwargs):
        return backend.complete(**kwargs)

    def async_call(backend, **kwargs):
        return loop.run_until_complete(backend.acomplete(**kwargs))

    return sync_call if request.param == "sync" else async_call


def test_a_call_reaches_the_provider(backend, server, asked, call):
    """A request goes out as it is, and its usage can be read from what comes back."""
    usage = read_usage(call(backend, **asking(f"{server}/200")))
    assert (usage.input_tokens, usage.output_tokens) == (9, 2)
    assert [(sent["model"], sent["max_tokens"]) for sent in asked] == [("gpt-4o-mini", 7)]


@pytest.mark.parametrize("asked_for", [{}, {"num_retries": 2}, {"max_retries": 3}])
@pytest.mark.parametrize("way", ["429", "500", "hang"])
def test_one_request_on_the_wire(backend, server, asked, call, way, asked_for):
    """Neither litellm nor the OpenAI SDK tries again, whatever the caller asks for."""
    with pytest.raises(Exception, match="litellm"):
        call(backend, **asking(f"{server}/{way}", timeout=0.2, **asked_for))
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["fallbacks", "context_window_fallback_dict", "model_list"])
def test_substitutes_are_refused(call, name):
    """Another model behind the caller's back is refused with the reason, before litellm is loaded."""
    backend = LiteLLMBackend()
    with pytest.raises(ConfigError, match=rf"{name}= was given.*no budget has seen"):
        call(backend, model="m", messages=[], **{name: ["gpt-4o"]})
    assert backend._litellm is None


def passed(**kwargs):
    backend = LiteLLMBackend()
    backend._litellm = SimpleNamespace(completion=lambda **sent: sent)
    return backend.complete(**kwargs)


def test_what_litellm_is_given():
    """Retries are 0, a missing timeout is ten minutes, an empty fallback list passes."""
    sent = passed(model="m", stream=True, num_retries=4, retry_policy=object(), fallbacks=[])
    assert sent == {
        "model": "m",
        "stream": True,
        "fallbacks": [],
        "num_retries": 0,
        "max_retries": 0,
        "timeout": 600.0,
    }


@pytest.mark.parametrize(("given", "sent"), [(None, 600.0), (3, 3), (0.5, 0.5)])
def test_timeout(given, sent):
    """The caller's timeout is kept."""
    assert passed(model="m", timeout=given)["timeout"] == sent


def test_callers_arguments_are_left_alone():
    """The caller's own mapping is not written to."""
    kwargs = {"model": "m", "num_retries": 3}
    passed(**kwargs)
    assert kwargs == {"model": "m", "num_retries": 3}


def test_first_awaited_call_loads(server, asked, loop):
    """A backend whose first call is awaited loads litellm, off the event loop, and answers."""
    fresh = LiteLLMBackend()
    loop.run_until_complete(fresh.acomplete(**asking(f"{server}/200")))
    assert fresh._litellm is not None
    assert len(asked) == 1


def test_load_is_silent(backend):
    """litellm prints no provider lists."""
    assert backend.load().suppress_debug_info is True


def test_users_price_map_setting_is_kept(monkeypatch):
    """A setting of the user's own holds while litellm is imported, and after."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "False")
    with _own_price_map():
        assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "False"
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "False"


@pytest.mark.slow
def test_import_fetches_nothing_and_leaves_the_environment():
    """Importing litellm here asks nobody for prices; done plainly it would."""
    script = """
import http.server, os, sys, threading
hits = []
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        hits.append(self.path); self.send_response(500); self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/map.json"
os.environ["LITELLM_MODEL_COST_MAP_URL"] = url
from budgetroute.backends import failures, litellm_backend, usage, versions
early = [name for name in ("litellm", "openai") if name in sys.modules]
before = dict(os.environ)
litellm_backend.LiteLLMBackend().load()
first, kept = len(hits), dict(os.environ) == before
os.environ.pop("LITELLM_LOCAL_MODEL_COST_MAP", None)
from litellm.litellm_core_utils.get_model_cost_map import get_model_cost_map
get_model_cost_map(url)
print(early, first, kept, len(hits) > 0, flush=True)
os._exit(0)
"""
    env = {name: value for name, value in os.environ.items() if "LITELLM" not in name}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.stdout.strip() == "[] 0 True True", done.stderr


@pytest.fixture
def installed(monkeypatch):
    """Pretend that another version of litellm is installed."""

    def pretend(version):
        def found(name):
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(versions_module.importlib.metadata, "version", found)

    return pretend


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8", "1.107.0", "1.107.12"])
def test_malicious_versions_are_refused(installed, version):
    """The releases that carried malware are named, and not imported."""
    installed(version)
    assert version in litellm_problem()
    with pytest.raises(ConfigError, match="stolen"):
        LiteLLMBackend().complete(model="m", messages=[])


@pytest.mark.parametrize("version", ["1.82.6", "1.82.70", "1.108.14", "1.110.2", "1.10.7"])
def test_other_versions_may_run(installed, version):
    """Releases around the malicious ones are no problem."""
    installed(version)
    assert litellm_problem() is None


def test_missing_litellm_says_how_to_install(installed):
    """Without litellm the problem is the line that installs it."""
    installed(None)
    assert "pip install" in litellm_problem()
    assert versions()["litellm"] == "missing"


def test_versions():
    """doctor sees Python and every library that calls go through."""
    found = versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["litellm"] == importlib.metadata.version("litellm")
    assert "missing" not in found.values()
