"""Code answers: run against tests, in a process that has little and ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from budgetroute.errors import ConfigError
from budgetroute.graders import CodeTests, Limits, Panel, build_grader, run_python
from budgetroute.records import Reference, Response

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs limits on processes")

SHORT = Limits(wall_s=2.0, cpu_s=2)
ADD = "Here you go:\n```python\ndef add(a, b):\n    return a + b\n```\nIt adds."
TESTS = "assert add(1, 2) == 3\nassert add(-1, 1) == 0"


def graded(text, tests=TESTS, limits=SHORT):
    return Panel(CodeTests(allow_code=True, limits=limits)).grade(
        [Response(text)], Reference((tests,))
    )


def ran(code, **more):
    return run_python({"script.py": code}, limits=more.pop("limits", SHORT), **more)


def needs_isolation():
    if not ran("").isolated:
        pytest.skip("this kernel gives an ordinary user no namespaces")


def test_off_by_default():
    """Code is not run until its caller allows it, and the error says why."""
    with pytest.raises(ConfigError, match="runs what a model wrote"):
        CodeTests()
    with pytest.raises(ConfigError, match="allow_code=True"):
        build_grader("code")
    assert (
        build_grader("code", allow_code=True).grade([Response(ADD)], Reference((TESTS,))).reward
        == 1
    )


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (ADD, 1),
        ("def add(a, b):\n    return a + b", 1),
        (ADD.replace("+", "-"), 0),
        (ADD.replace("return a + b", "return a +"), 0),
        ("I cannot write code.", 0),
        ("```python\nimport sys\nsys.exit(0)\n```", 0),
        ("```python\nimport os\ndef add(a, b): os._exit(0)\n```", 0),
        ("```python\nadd = lambda a, b: 3 if input() else 0\n```", 0),
        ("```python\nprint(input())\n```", 0),
        ("```python\nprint('noise')\ndef add(a, b): return a + b\n```", 1),
    ],
)
def test_asserts(text, reward):
    """Code that passes all asserts gets 1; leaving early, or printing what it was told, does not pass."""
    assert graded(text).reward == reward


@pytest.mark.parametrize(
    ("code", "reward"),
    [
        ("print(int(input()) * 2)", 1),
        ("print(4)", 0),
        ("x = int(input()); print(x * 2); print()", 1),
        ("print(int(input()) * 2); exit(3)", 0),
    ],
)
def test_input_and_output(code, reward):
    """Each case's output must be right, blanks at the ends apart."""
    cases = '[{"stdin": "2\\n", "stdout": "4\\n"}, {"stdin": "5", "stdout": "10"}]'
    assert graded(f"```python\n{code}\n```", cases).reward == reward


def test_cases_with_other_keys():
    """Test cases that are not understood are an error, not a failure of the code."""
    with pytest.raises(ConfigError, match="stdin"):
        graded(ADD, '[{"in": "1", "out": "1"}]')


def test_it_ends():
    """A loop ends at the time limit, and so does what it started."""
    assert ran("while True: pass", limits=Limits(wall_s=0.5)).code is None
    assert (
        "ran out of time"
        in graded("```python\nwhile True: pass\n```", limits=Limits(wall_s=0.5)).reason
    )


def test_memory_and_output_end():
    """Memory and output have limits, and only a mebibyte of output is read."""
    assert ran("x = 'a' * (1 << 30)").code != 0
    flood = ran("import sys\nwhile True: sys.stdout.write('a' * 10**6)")
    assert flood.code != 0
    assert len(flood.output) == 1 << 20


def test_no_key_is_inherited(monkeypatch):
    """The environment of the caller, where API keys are, is not the program's."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in ran("import os; print(dict(os.environ))").output


def test_nothing_of_ours_is_imported(tmp_path, monkeypatch):
    """The program starts in a folder of its own, without the caller's path."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.py").write_text("")
    assert ran("import secret").code == 1


def test_no_network():
    """Where it is isolated the program cannot reach even this machine."""
    needs_isolation()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        assert ran(code).code == 1


def test_no_file_is_changed(tmp_path):
    """Where it is isolated the program writes nowhere but in its own folder, which is gone afterwards."""
    needs_isolation()
    target = tmp_path / "target"
    target.write_text("mine")
    assert ran(f"open({str(target)!r}, 'w')").code == 1
    assert ran(f"import os; os.remove({str(target)!r})").code == 1
    assert target.read_text() == "mine"
    own = ran("open('own', 'w').write('x'); import os; print(os.getcwd())")
    assert own.code == 0
    assert not Path(own.output.strip()).exists()


def test_no_process_outlives_it(tmp_path):
    """Where it is isolated a child in a session of its own dies with the program."""
    needs_isolation()
    marker = f"budgetroute-orphan-{os.getpid()}"
    code = f"import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}])\ntime.sleep(60)"
    assert ran(code, limits=Limits(wall_s=0.7)).code is None
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(marker.encode() in line for line in running)


def test_rights_do_not_come_back():
    """Where it is isolated the program cannot mount, nor see the caller's processes."""
    needs_isolation()
    code = "import ctypes, os\nc = ctypes.CDLL(None)\nprint(c.mount(b'none', b'/', None, 4096 | 32, None), c.umount(b'/run'), os.getpid() < 10)"
    assert ran(code).output.split() == ["-1", "-1", "True"]


def test_where_the_kernel_refuses_half(monkeypatch, tmp_path):
    """Where namespaces are refused half-way the program runs with limits alone, unhurt, and it is told."""
    from budgetroute.graders import sandbox

    other = sandbox._CAGE.read_text().replace("= 442,", "= 9999,")
    assert "= 9999," in other
    (tmp_path / "cage.py").write_text(other)
    monkeypatch.setattr(sandbox, "_CAGE", tmp_path / "cage.py")
    code = "import subprocess, sys\nopen('own', 'w').write('x')\nfor _ in range(2): subprocess.run([sys.executable, '-c', ''], check=True)\nprint('fine')"
    seen = ran(code, limits=Limits(wall_s=10))
    assert (seen.code, seen.output, seen.isolated) == (0, "fine\n", False)
    assert ran("x = 'a' * (1 << 30)").code != 0


def test_not_isolated_is_said(monkeypatch):
    """Where the kernel refuses isolation a failure says so."""
    from budgetroute.graders import programs
    from budgetroute.graders.sandbox import Ran

    monkeypatch.setattr(programs, "run_python", lambda *_, **__: Ran(1, "", isolated=False))
    assert graded(ADD).reason == "tests: exit status 1, not isolated"
