"""Python programs that are not trusted, run in a process of their own with limits.

What `cage` does not hold back: where namespaces are refused (macOS, some containers) the program has
the network and the rights of the user who runs it, and a child that starts its own session outlives the
time limit. Everywhere it can read what that user can read. Hence code grading is off by default.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Limits", "Ran", "run_python"]

_CAGE = Path(__file__).with_name("cage.py")
_SCRIPT = "script.py"
_LONGEST_OUTPUT = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use.

    Attributes:
        wall_s: seconds by the clock.
        cpu_s: seconds of CPU.
        memory_bytes: address space of each process.
        disk_bytes: all its files together where it is isolated, else each of them.
        processes: processes and threads of the user.
    """

    wall_s: float = 10.0
    cpu_s: int = 10
    memory_bytes: int = 512 << 20
    disk_bytes: int = 16 << 20
    processes: int = 64


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended.

    Attributes:
        code: its exit status, None when it was ended at the time limit.
        output: what it printed, the first mebibyte.
        isolated: it had no network and could change no file.
    """

    code: int | None
    output: str
    isolated: bool


def run_python(files: Mapping[str, str], *, stdin: str = "", limits: Limits | None = None) -> Ran:
    """Run `script.py` of these files and wait for its end; its environment has no variables of ours.

    Raises:
        ConfigError: the system has no resource limits (Windows).
    """
    if os.name != "posix":
        raise ConfigError(
            "code tests need limits on processes, which Windows has not; run them under WSL or Linux."
        )
    limits = limits or Limits()
    with TemporaryDirectory(prefix="budgetroute-code-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        (folder / "box").mkdir()
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8", errors="replace")
        (folder / "stdin").write_text(stdin, encoding="utf-8", errors="replace")
        return _waited(folder, limits)


def _waited(folder: Path, limits: Limits) -> Ran:
    output, told = folder / "stdout", folder / "stderr"
    command = [
        sys.executable,
        "-I",
        "-S",
        str(_CAGE),
        json.dumps(asdict(limits)),
        str(folder / _SCRIPT),
    ]
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder / "box"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with (folder / "stdin").open("rb") as source, output.open("wb") as out, told.open("wb") as err:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            command,
            stdin=source,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limits.wall_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    with output.open("rb") as printed, told.open("rb") as said:
        text = printed.read(_LONGEST_OUTPUT).decode("utf-8", "replace")
        return Ran(code, text, said.readline() == b"isolated\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
