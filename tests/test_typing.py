"""Type checkers keep the signature of routed functions: mypy and pyright over tests/typing_samples."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = sorted((ROOT / "tests" / "typing_samples").glob("*.py"))
WRONG = """
from typing import assert_type
from budgetroute import route

@route
def ask(question: str, *, model: str = "m", max_tokens: int = 800) -> int:
    return len(question)

assert_type(ask("why?"), str)
"""


def mypy(path):
    return [sys.executable, "-m", "mypy", "--strict", str(path)]


def pyright(path):
    if shutil.which("node") is None:
        pytest.skip("pyright needs Node.js, which is not installed")
    return [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)]


def checked(command):
    """Run a checker in the project; skip where it is not installed or cannot start offline."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    if "No module named" in done.stderr or "getaddrinfo" in done.stderr:
        pytest.skip(f"{command[2]} does not run here: {done.stderr.strip()[-200:]}")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
class TestSamples:
    def test_right_and_wrong_calls_are_told_apart(self, checker):
        """Right calls pass with their types kept; wrong ones are errors, or the ignore is reported."""
        for sample in SAMPLES:
            done = checked(checker(sample))
            assert done.returncode == 0, done.stdout

    def test_the_check_can_fail(self, checker, tmp_path):
        """A wrong assertion about a routed function's result is found."""
        sample = tmp_path / "wrong.py"
        sample.write_text(WRONG)
        done = checked(checker(sample))
        assert done.returncode == 1, done.stderr
        assert "int" in done.stdout


def test_the_package_says_that_it_is_typed():
    """py.typed ships with the package."""
    assert (ROOT / "budgetroute" / "py.typed").is_file()
