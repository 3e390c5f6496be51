"""Every profile that ships: found by name, in the wheel, told where it comes from, and rebuilt."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from budgetroute.classify import LinearClassifier
from budgetroute.prices import PriceBook
from budgetroute.profiles import (
    classifier_path,
    dump_profile,
    judge_profile,
    load_profile,
    profile_path,
    shipped,
)
from budgetroute.profiling import cost_by, token_rates

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
NAMES = ["billed", "broad", "cot"]


@pytest.fixture(scope="module", params=NAMES)
def each(request):
    return load_profile(request.param)


def cells(profile, kind):
    return dict(zip(profile.actions, profile.cells[kind], strict=True))


def test_these_ship():
    """A name in a configuration finds them."""
    assert shipped() == NAMES


def test_they_are_in_the_wheel():
    """What is read at run time is packed, and nothing else of the folder."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packed = said["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {Path(name).name for name in packed} == {
        *(f"{name}.json" for name in NAMES), "broad-types.npz", "README.md",
    }  # fmt: skip
    assert all((ROOT / name).is_file() for name in packed)


def test_it_is_called_what_its_file_is(each):
    """The name in the log is the name in the configuration."""
    assert each.name in NAMES
    assert load_profile(each.name) == each


def test_no_hand_has_edited_it(each):
    """Reading and writing gives the same bytes."""
    assert profile_path(each.name).read_text(encoding="utf-8") == dump_profile(each)


def test_it_says_where_it_comes_from_and_what_for(each):
    """Sources with repository, commit and licence, a date, what it is good for and what not."""
    said = each.provenance
    assert all(row["licence"] and row["commit"] and row["repo"] for row in said["sources"])
    assert said["good_for"]
    assert said["not_for"]
    assert each.created >= "2026-11-29"


def test_nothing_in_it_cannot_work(each):
    """Every model has a price, every cap and effort is taken, no two actions are one call."""
    book = PriceBook()
    flaws = judge_profile(each, cost_by(token_rates(book)), card_of=book.card, today=each.created)
    assert [flaw.line for flaw in flaws if flaw.level == "fail"] == []


def test_its_classifier_knows_its_types(each):
    """The text model beside it has the hash that it names, and a class for each type."""
    model = LinearClassifier.load(classifier_path(each, each.name), sha256=each.classifier.sha256)
    assert set(each.types) - {"general"} <= set(model.classes)


def test_its_documentation_names_it(each):
    """docs/profiles.md and the folder's README say what it is."""
    for page in (ROOT / "docs" / "profiles.md", ROOT / "profiles" / "README.md"):
        assert f"`{each.name}`" in page.read_text("utf-8")


class TestCot:
    """What the paired runs of two models say."""

    @pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4"])
    @pytest.mark.parametrize("kind", ["math", "knowledge", "reasoning", "reading"])
    def test_both_answers_are_measured(self, model, kind):
        """Direct and reasoned cells rest on over 1,900 answers each."""
        row = cells(load_profile("cot"), kind)
        counts = {a.cot: (c.source, c.n) for a, c in row.items() if a.model == model}
        assert {source for source, _ in counts.values()} == {"measured"}
        assert set(counts) == {False, True}
        assert min(n for _, n in counts.values()) > 1900

    @pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4"])
    def test_chain_of_thought_helps_in_math_only(self, model):
        """More than 15 points in math, less than 3 anywhere else."""
        gains = {}
        for kind in ("math", "knowledge", "reasoning", "reading"):
            best = {False: 0.0, True: 0.0}
            for action, cell in cells(load_profile("cot"), kind).items():
                if action.model == model:
                    best[action.cot] = max(best[action.cot], cell.reward)
            gains[kind] = best[True] - best[False]
        assert gains.pop("math") > 0.15
        assert max(gains.values()) < 0.03


class TestBilled:
    """Tokens told from bills give the bills."""

    def test_a_call_costs_what_was_billed(self):
        """Over all prompts the cheapest cost $0.00003, the dearest $0.015 a call."""
        profile = load_profile("billed")
        cost = cost_by(token_rates(PriceBook()))
        row = cells(profile, "general")
        costs = sorted(cost(a, c, profile.types["general"]) for a, c in row.items())
        assert costs[0] == pytest.approx(3.0e-5, rel=0.1)
        assert costs[-1] == pytest.approx(1.48e-2, rel=0.1)

    def test_every_model_has_the_one_action_that_ran(self):
        """No cap was varied, so none is promised."""
        models = [action.model for action in load_profile("billed").actions]
        assert len(models) == len(set(models)) == 4


@pytest.mark.slow
def test_the_script_rebuilds_them(tmp_path):
    """From the public outcomes one script makes the committed files, byte for byte."""
    if not (DATA / "outcomes.parquet").is_file():
        pytest.skip("the folder of public outcomes is not here")
    pytest.importorskip("pyarrow", reason="reading the outcomes needs pyarrow")
    home = ROOT / "profiles"
    for path in home.glob("*.npz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, home / "build.py", "--data", DATA, "--out", tmp_path]
    subprocess.run(command, check=True)
    for name in NAMES:
        assert (tmp_path / f"{name}.json").read_bytes() == (home / f"{name}.json").read_bytes()


@pytest.mark.slow
def test_the_script_relinks_them(tmp_path):
    """A retrained classifier's hash is written into all of them, and nothing else changes."""
    home = ROOT / "profiles"
    for name in NAMES:
        (tmp_path / f"{name}.json").write_bytes((home / f"{name}.json").read_bytes())
    (tmp_path / "broad-types.npz").write_bytes(b"another")
    command = [sys.executable, home / "build.py", "--relink", "--out", tmp_path]
    subprocess.run(command, check=True)
    for name in NAMES:
        before, after = load_profile(name), load_profile(tmp_path / f"{name}.json")
        assert after.classifier.sha256 != before.classifier.sha256
        assert after.cells == before.cells
