"""Cost truth: every text model × 34 usages costs what litellm says, or differs for a stated reason."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import warnings
from pathlib import Path

import pytest

from budgetroute.records import Fees, Price, Rates, Usage

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cost-differences.md"


@pytest.fixture(scope="module")
def truth():
    """The script that compares, which also makes the page."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("cost_truth")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def result(truth):
    """The whole comparison; 20 s of CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return truth.compare(truth.load_litellm())


@pytest.mark.slow
def test_every_difference_is_explained(truth, result):
    """Where both price the same usage and differ, a class says why; ours is the dearer if it must be."""
    assert truth.problems(result) == []
    assert not result.failed
    assert result.models >= 200
    assert len(truth.SHAPES) >= 20
    assert result.compared == result.models * len(truth.SHAPES)


@pytest.mark.slow
def test_most_bills_are_equal(result):
    """Batches apart, of which the map prices few, at least 98 of 100 bills are equal."""
    batches = sum(len(cases) for name, cases in result.found.items() if name.startswith("batch"))
    assert result.equal >= 0.98 * (result.compared - batches)


@pytest.mark.slow
def test_the_page_is_what_the_script_makes(truth, result):
    """docs/cost-differences.md is today's comparison, if it was made with this litellm."""
    version = importlib.metadata.version("litellm")
    text = PAGE.read_text(encoding="utf-8")
    if f"litellm {version}: " not in text:
        pytest.skip(f"the page was made with another litellm than {version}")
    assert text == truth.page(result, version)


def test_the_page_explains_every_class(truth):
    """Whatever litellm is installed, the page has the classes of the script, and no other."""
    rows = PAGE.read_text(encoding="utf-8").split("## Examples")[0].splitlines()
    told = {row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")}
    assert told - {"class"} <= set(truth.CLASSES)
    assert len(told) > 5


PLAIN = Price("m", Rates(1, 2))


@pytest.mark.parametrize(
    ("usage", "price", "provider", "name"),
    [
        (Usage(1, 1), PLAIN, "openai", "unexplained"),
        (Usage(1, 1, service_tier="batch"), PLAIN, "openai", "batch without rates"),
        (Usage(1, 1, searches=1), PLAIN, "xai", "searches without a fee"),
        (Usage(1, 1, searches=1), Price("m", PLAIN.rates, fees=Fees({"low": 1})), "openai",
         "unexplained"),
        (Usage(1, 1, service_tier="priority"), PLAIN, "openai", "unexplained"),
    ],
)  # fmt: skip
def test_what_no_class_covers_is_unexplained(truth, usage, price, provider, name):
    """A class never covers a difference of another kind."""
    assert truth.explain("m", usage, price, provider=provider, known=frozenset()) == name


def test_a_wrong_bill_is_a_problem(truth):
    """A difference without a class fails, and so does a lower bill where ours must be the dearer."""
    result = truth.Result()
    result.found["unexplained"].append(("m", "text", 1.0, 2.0))
    result.found["batch without rates"] += [("m", "batch", 1.0, 2.0), ("m", "batch", 2.0, 1.0)]
    result.found["searches without a fee"].append(("m", "one search", 1.0, 2.0))
    assert [text.partition(":")[0] for text in truth.problems(result)] == ["m (text)", "m (batch)"]
