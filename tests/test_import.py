"""Importing budgetroute is quick, silent and small; its public names are exactly these."""

import json
import subprocess
import sys

import pytest

import budgetroute

HEAVY = (
    "litellm", "sklearn", "scipy", "numpy", "openai", "diskcache", "tenacity", "tiktoken",
    "msgspec", "typer", "rich", "sqlite3", "asyncio",
)  # fmt: skip
LIBRARIES = ("litellm", "sklearn", "scipy", "numpy", "openai", "tiktoken", "diskcache", "tenacity")
PUBLIC = [
    "Action", "BudgetExceeded", "BudgetRouteError", "ConfigError", "Decision", "LimitWarning", "NoEligibleAction",
    "Plan", "ProfileError", "Router", "StoreError", "UnpricedModel", "acompletion", "completion",
    "last_decision", "on_warning", "pin", "record", "route", "run", "tags", "wrap",
]  # fmt: skip


def fresh(code, *flags):
    """Run code in a new interpreter that treats warnings as errors; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *flags, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def loaded(code):
    """Return the top-level modules that a new interpreter has after running code."""
    printed = fresh(
        f"{code}\nimport json, sys\nprint(json.dumps([m.partition('.')[0] for m in sys.modules]))"
    )
    return set(json.loads(printed))


def test_import_loads_nothing_heavy():
    """`import budgetroute` loads neither a heavy library nor a database or an event loop."""
    assert loaded("import budgetroute").isdisjoint(HEAVY)


def test_the_decorator_loads_no_library():
    """Taking `route` and decorating loads none of the libraries: they come with the first call."""
    code = """
from budgetroute import route
@route
def ask(question, *, model="gpt-4o-mini", max_tokens=800): ...
@route("later")
async def later(question, *, model="gpt-4o-mini", max_tokens=800): ...
"""
    assert loaded(code).isdisjoint(LIBRARIES)


def test_every_name_without_a_library():
    """All public names together load none of the libraries either."""
    assert loaded("from budgetroute import *").isdisjoint(LIBRARIES)


def test_turned_off_loads_no_library():
    """With BUDGETROUTE_DISABLE=1 a routed call runs without any of the libraries."""
    code = """
import os
os.environ["BUDGETROUTE_DISABLE"] = "1"
from budgetroute import route
@route
def ask(question, *, model="gpt-4o-mini", max_tokens=800):
    return model
assert ask("why?") == "gpt-4o-mini"
"""
    assert loaded(code).isdisjoint(LIBRARIES)


def test_import_leaves_no_trace():
    """Importing changes no environment, starts no thread and configures no logging."""
    code = """
import os, threading, logging
before = dict(os.environ)
import budgetroute
budgetroute.route, budgetroute.Router, budgetroute.completion
assert dict(os.environ) == before
assert threading.active_count() == 1
assert not logging.getLogger().handlers
own = logging.getLogger("budgetroute")
assert [type(h).__name__ for h in own.handlers] == ["NullHandler"]
assert own.level == logging.NOTSET
"""
    assert fresh(code) == ""


def test_the_public_names():
    """__all__ is this list, sorted."""
    assert sorted(budgetroute.__all__) == PUBLIC


def test_star_import():
    """A star import brings the public names and nothing else."""
    names = fresh(
        "before = set(globals())\nfrom budgetroute import *\n"
        "print(*sorted(set(globals()) - before - {'before'}))"
    )
    assert names.split() == PUBLIC


def test_dir_shows_the_public_names():
    """dir() lists them before they are loaded."""
    assert set(PUBLIC) <= set(fresh("import budgetroute\nprint(*dir(budgetroute))").split())


def test_an_unknown_name():
    """A name that is not there is the usual AttributeError."""
    with pytest.raises(AttributeError, match="'budgetroute' has no attribute 'rout'"):
        _ = budgetroute.rout


def test_errors_are_one_tree():
    """Every error is a BudgetRouteError, so one except clause catches them all."""
    errors = [
        value
        for name in budgetroute.__all__
        if isinstance(value := getattr(budgetroute, name), type) and issubclass(value, Exception)
    ]
    assert len(errors) == 7
    assert all(issubclass(error, budgetroute.BudgetRouteError) for error in errors)


def test_graders_load_no_library():
    """Building graders loads no library of theirs, nor any other heavy one."""
    code = """
from budgetroute.graders import build_grader
for spec in ("exact", "rouge-l", "bertscore", "json-schema", "regex:a"):
    build_grader(spec)
"""
    assert loaded(code).isdisjoint(
        (*LIBRARIES, "jsonschema", "rouge_score", "nltk", "bert_score", "torch")
    )
