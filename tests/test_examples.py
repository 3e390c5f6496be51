"""Every script under examples/ runs as its first lines say, against a local server; the README's too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from budgetroute.testing import ScriptedServer, ok

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def server():
    with ScriptedServer(after=ok("It is so.", input_tokens=30, output_tokens=12)) as running:
        yield running


def run_example(name, folder, server=None):
    """Run an example as a user would, in an empty folder with a home of its own."""
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BUDGETROUTE_BUDGET_DAILY_USD": "5",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_OFFLINE_MODE": "true",
    }
    if server is not None:
        settings |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_quickstart(tmp_path):
    """The quickstart runs without key and network, and says what it took and why."""
    lines = run_example("quickstart.py", tmp_path)
    assert len(lines) == 2
    assert all(re.match(r"gpt-\S+/\d+\S* because ", line) for line in lines)


def test_the_readme_shows_the_quickstart():
    """The README's first example is the file, word for word, and short."""
    shown = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert shown is not None
    file = (EXAMPLES / "quickstart.py").read_text("utf-8").partition("# ruff:")[0]
    assert shown[1].split() == file.split()
    assert len(shown[1].splitlines()) <= 12


def test_openai_client(tmp_path, server):
    """Both ways of routing the OpenAI client send what was decided, to OpenAI models only."""
    lines = run_example("openai_client.py", tmp_path, server)
    assert lines[0] == lines[2] == "It is so."
    for line, sent in zip((lines[1], lines[3]), server.requests, strict=True):
        assert line.startswith(f"answered by {sent['model']}/")
        assert sent["max_tokens"] > 0
    assert server.requests[1]["max_tokens"] <= 1024


def test_async_openai(tmp_path, server):
    """Three calls at once and one pinned, each with its own decision."""
    lines = run_example("async_openai.py", tmp_path, server)
    assert [line.partition(":")[0] for line in lines] == ["ann", "bo", "cy", "cy"]
    assert "gpt-4o-mini/64" in lines[3]
    assert server.requests[3]["max_tokens"] == 64


@pytest.mark.slow
def test_litellm_completion(tmp_path, server):
    """Two questions through litellm; the status counts both and what they cost."""
    lines = run_example("litellm_completion.py", tmp_path, server)
    assert lines[0] == lines[2] == "It is so."
    assert re.fullmatch(r"\$0\.0\d+ of \$5\.00 spent in 2 calls", lines[-1])
    assert len(server.requests) == 2


def test_run_caps(tmp_path, server):
    """The job steps down to cheaper actions and stops at its cap; no request is sent beyond."""
    lines = run_example("run_caps.py", tmp_path, server)
    stop = next(line for line in lines if line.startswith("stopped at step"))
    assert len(server.requests) == int(stop.split()[3].rstrip(":"))
    assert len(lines) >= 4


def test_streaming(tmp_path, server):
    """The client's stream and a generator of text are billed by their usage; one left early is counted."""
    lines = run_example("streaming.py", tmp_path, server)
    assert lines[0] == lines[2] == lines[4] == "It is so."
    assert re.fullmatch(r"3 calls, 1 of them estimated: \$0\.0\d+ spent", lines[-1])
    assert [sent["stream_options"] for sent in server.requests] == [{"include_usage": True}] * 3
    for line, sent in zip((lines[1], lines[3]), server.requests, strict=False):
        assert line.startswith(f"answered by {sent['model']}/")


def test_wrapped_client(tmp_path, server):
    """A wrapped client's call and helper are routed and booked; an embedding never reaches the wire."""
    lines = run_example("wrapped_client.py", tmp_path, server)
    assert lines[0] == lines[2] == "It is so."
    for line, sent in zip((lines[1], lines[3]), server.requests, strict=True):
        assert line.startswith(f"answered by {sent['model']}/")
    assert lines[4].startswith("refused: POST /embeddings")
    assert re.fullmatch(r"\$0\.0\d+ of \$5\.00 spent in 2 calls", lines[5])


def test_every_example_is_tested():
    """A new example needs a test here."""
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
