"""SECURITY.md names a test for each attack: they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "SECURITY.md"
ROWS = [
    line.split("|")[1:-1]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|")
]
ATTACKS = [[cell.strip() for cell in row] for row in ROWS[2:]]


@cache
def functions_of(name: str) -> frozenset[str]:
    tree = ast.parse((TESTS / f"test_{name}.py").read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize("attack", ATTACKS, ids=[row[1][:40] for row in ATTACKS])
def test_each_attack_has_a_test_that_exists(attack):
    """Every row says what is done and names at least one test by its file and name."""
    _, tried, done, shown = attack
    named = re.findall(r"`(\w+)::(\w+)`", shown)
    assert tried
    assert done
    assert named
    for file, name in named:
        assert f"test_{name}" in functions_of(file), f"{file}::{name}"


def test_the_table_is_read():
    """The table has its four columns, and every line of it is an attack."""
    assert [cell.strip() for cell in ROWS[0]] == ["who", "tries", "what is done", "shown by"]
    assert len(ATTACKS) > 20
    assert all(len(row) == 4 for row in ATTACKS)
