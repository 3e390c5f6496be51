"""Code answers, run against tests. Off unless switched on: it runs what a model wrote."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from budgetroute.errors import ConfigError
from budgetroute.graders.extraction import unfenced, without_thoughts
from budgetroute.graders.sandbox import Limits, Ran, run_python
from budgetroute.records import Grade

if TYPE_CHECKING:
    from budgetroute.records import Reference, Response

__all__ = ["CodeTests", "program_in"]

OFF = (
    "grader 'code' runs what a model wrote, on this machine, with your rights to read files; it is off "
    "until you say so: allow_code=True. Grade code on a machine that holds no secrets."
)

Case: TypeAlias = "dict[str, str]"

_RUNNER = """\
import hashlib, pathlib, sys
digest, out = hashlib.sha256, sys.stdout
here = pathlib.Path(__file__).parent
solution, tests = ((here / name).read_text("utf-8") for name in ("solution.txt", "tests.txt"))
space = {"__name__": "solution"}
exec(compile(solution, "solution.py", "exec"), space)
exec(compile(tests, "tests.py", "exec"), space)
out.write("\\n" + digest(sys.stdin.readline().encode()).hexdigest())
out.flush()
"""


@dataclass(frozen=True, slots=True)
class CodeTests:
    """The Python code of a response passes the reference's tests.

    Tests are statements that raise when the code is wrong (`assert add(1, 2) == 3`), run after it in
    the same names; or a JSON list of `{"stdin": …, "stdout": …}`, each run on its own, output compared
    line by line without trailing blanks. All must pass.

    A program that sets out to deceive its tests can, for it shares their process; one that exits early
    or hides exceptions does not pass.

    Attributes:
        allow_code: must be True; the error says why.
        limits: for each run.
    """

    allow_code: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.allow_code:
            raise ConfigError(OFF)

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 when all tests pass, else 0; blocks until they ended."""
        if not reference.answers:
            return Grade(None, "the reference has no tests")
        program = program_in(response.text or "")
        grades = [self._against(program, tests) for tests in reference.answers]
        return next((grade for grade in grades if grade.reward != 1), grades[0])

    def _against(self, program: str, tests: str) -> Grade:
        cases = _cases(tests)
        if cases is None:
            return self._asserted(program, tests)
        for number, case in enumerate(cases, 1):
            ran = run_python({"script.py": program}, stdin=case["stdin"], limits=self.limits)
            if ran.code != 0 or _lines(ran.output) != _lines(case["stdout"]):
                return _failed(ran, f"case {number} of {len(cases)}")
        return Grade(1.0, f"{len(cases)} cases pass")

    def _asserted(self, program: str, tests: str) -> Grade:
        token = secrets.token_hex(16)
        files = {"script.py": _RUNNER, "solution.txt": program, "tests.txt": tests}
        ran = run_python(files, stdin=token, limits=self.limits)
        proof = hashlib.sha256(token.encode()).hexdigest()
        if ran.code == 0 and ran.output.endswith("\n" + proof):
            return Grade(1.0, "tests pass")
        return _failed(ran, "tests")


def program_in(text: str) -> str:
    """Return the code of a response: its last Python block, its last block, or all of it."""
    text = without_thoughts(text)
    block = unfenced(text, "python", "py", "python3")
    return text if block is None else block


def _cases(tests: str) -> list[Case] | None:
    """Return the cases of a JSON list; None when the tests are code."""
    try:
        read = json.loads(tests)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, list) or not read:
        return None
    if all(isinstance(case, dict) and {"stdin", "stdout"} == set(case) for case in read):
        return [{name: str(value) for name, value in case.items()} for case in read]
    raise ConfigError(
        'code: test cases must be a list of {"stdin": "…", "stdout": "…"}, found other keys.'
    )


def _lines(output: str) -> list[str]:
    return [line.rstrip() for line in output.rstrip().splitlines()]


def _failed(ran: Ran, what: str) -> Grade:
    ended = (
        "ran out of time"
        if ran.code is None
        else f"exit status {ran.code}"
        if ran.code
        else "wrong output"
    )
    return Grade(0.0, f"{what}: {ended}{'' if ran.isolated else ', not isolated'}")
