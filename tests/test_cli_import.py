"""`budgetroute profile import`: logs in, a table or a profile out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from cli_support import cli

from budgetroute.profiles import load_profile
from budgetroute.profiling import read_outcomes

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "imports"
QUIZ = sorted(EXAMPLES.glob("inspect_quiz_*.json"))
NAMED = ("--model", "openai/gpt-4o-mini=gpt-4o-mini", "--model", "openai/gpt-4o=gpt-4o")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A repository of its own, so that no configuration above is found."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_logs_become_a_table():
    """The table is written, and what was read, graded and covered is said."""
    answer = cli(
        "profile", "import", *QUIZ, "-o", "t.jsonl", "--scorer", "match", *NAMED, width=120
    )
    assert answer.code == 0
    assert "read 8 calls of inspect_ai" in answer.out
    assert "4 prompts × 2 actions, 100 % complete" in answer.out
    assert "type quiz: graded by match" in answer.out
    assert "no price" not in answer.out
    assert {row.way.model for row in read_outcomes("t.jsonl").rows} == {"gpt-4o", "gpt-4o-mini"}


def test_straight_to_a_profile(folder):
    """--fit writes a profile whose provenance says logs, graders, coverage and what was left out."""
    args = ("--type", "quiz", "--model", "mini=gpt-4o-mini", "--model", "thinks=o4-mini")
    answer = cli("profile", "import", EXAMPLES / "promptfoo.json", "--fit", "p.json", *args)
    assert answer.code == 0
    made = load_profile(folder / "p.json")
    assert {action.model for action in made.actions} == {"gpt-4o-mini", "o4-mini"}
    assert made.provenance["logs"] == ["promptfoo.json"]
    assert made.provenance["graders"] == {"quiz": "score"}
    assert made.provenance["coverage"] == "4 prompts × 2 actions, 88 % complete"
    assert list(made.provenance["left_out"].values()) == [1]
    assert "left out: 1 call: without usage" in answer.line


def test_in_json(folder):
    """`--json` prints one object; prompts go to a file of their own."""
    files = ("-o", "t.jsonl", "--fit", "p.json", "--prompts", "q.jsonl")
    answer = cli("profile", "import", *QUIZ, *files, "--scorer", "match", "--json")
    assert answer.json["written"] == ["t.jsonl", "q.jsonl", "p.json"]
    assert answer.json["coverage"] == {
        "prompts": 4,
        "actions": 2,
        "complete": 1.0,
        "only_one_model": 0,
    }
    assert answer.json["unpriced"] == []
    assert len((folder / "q.jsonl").read_text("utf-8").splitlines()) == 4


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "nothing to write"),
        (("-o", "t.csv"), "written as .jsonl or .parquet"),
        (("--fit", "p.txt"), "a profile is a .json file"),
        (("-o", "t.jsonl"), "2 scorers: brevity, match"),
        (("-o", "t.jsonl", "--model", "x"), "expected NAME=OURS"),
        (("-o", "t.jsonl", "--scale", "1,1"), "expected two numbers"),
        (("-o", "t.jsonl", "--scale", "a"), "expected two numbers"),
        (("-o", "there.jsonl"), "exists already"),
    ],
)
def test_what_cannot_be_is_told(folder, args, said):
    """Exit code 2, one line of what was asked and found, and nothing is written."""
    (folder / "there.jsonl").touch()
    before = sorted(folder.iterdir())
    answer = cli("profile", "import", *QUIZ, *args)
    assert answer.code == 2
    assert said in " ".join(answer.err.split())
    assert sorted(folder.iterdir()) == before


def test_the_examples_run_as_their_page_says(folder, monkeypatch):
    """Every command of examples/imports/README.md works as it stands there."""
    shutil.copytree(EXAMPLES, folder / "imports")
    monkeypatch.chdir(folder / "imports")
    text = (EXAMPLES / "README.md").read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"^ {4}budgetroute (.*)$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        words = [sorted(map(str, Path().glob(word))) or [word] for word in shlex.split(command)]
        answer = cli(*(word for found in words for word in found), "--force")
        assert answer.code == 0, answer.err
