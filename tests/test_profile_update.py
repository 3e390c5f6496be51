"""New outcomes make the next version of a profile; the old one stays."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from cli_support import cli

from budgetroute.profiles import dump_profile, load_profile, parse_profile, save_profile
from budgetroute.profiling import FitSettings, fit_profile, outcomes_of
from budgetroute.profiling.updating import update_profile, version_of
from budgetroute.records import Action

PRICES = {"small": (1e-7, 4e-7), "large": (3e-6, 1.2e-5), "new": (2e-7, 5e-7)}


def rows(able, *, kinds=("law", "math"), prompts=60, seed=1, start=0):
    luck = random.Random(seed)
    return [
        {
            "prompt_id": f"{kind}{start + i}",
            "type": kind,
            "model": model,
            "max_tokens": 256,
            "reward": float(luck.random() < chance),
            "output_tokens": luck.randint(20, 200),
            "input_tokens": 90,
        }
        for kind in kinds
        for i in range(prompts)
        for model, chance in able.items()
    ]


def table(made):
    return outcomes_of(enumerate(made, start=1))


@pytest.fixture
def old():
    settings = FitSettings("mine", created="2026-01-01", caps=(256,), provenance={"licence": "own"})
    made = table(rows({"small": 0.5, "large": 0.8}))
    return fit_profile(made, settings, rates=PRICES.get).profile


def updated(old, made, **said):
    return update_profile(old, table(made), rates=PRICES.get, created="2026-02-01", **said)


def cell(profile, kind, model):
    return profile.cells[kind][profile.actions.index(Action(model, 256))]


def test_measured_twice_is_the_mean_by_counts(old):
    """Old and new answers weigh by their number; the error shrinks; the old profile is not touched."""
    before = dump_profile(old)
    made = rows({"small": 0.5, "large": 0.8}, prompts=180, seed=2, start=100)
    new = updated(old, made).profile
    alone = updated(old, made, anew=True).profile
    was, came, both = (cell(p, "math", "large") for p in (old, alone, new))
    assert (was.n, came.n, both.n) == (60, 180, 240)
    assert both.reward == pytest.approx((was.reward + 3 * came.reward) / 4)
    assert both.output_mean == pytest.approx((was.output_mean + 3 * came.output_mean) / 4)
    assert both.reward_se < min(was.reward_se, came.reward_se)
    assert both.output_p99 == max(was.output_p99, came.output_p99)
    assert dump_profile(old) == before


def test_what_is_not_measured_again_stays(old):
    """Cells, types and provenance that new outcomes say nothing of are kept."""
    new = updated(old, rows({"small": 0.5}, kinds=("law",), seed=3)).profile
    assert cell(new, "math", "large") == cell(old, "math", "large")
    assert cell(new, "law", "large").n == 60
    assert cell(new, "law", "small").n == 120
    assert new.provenance["licence"] == "own"
    assert {k: t.share for k, t in new.types.items()} == {k: t.share for k, t in old.types.items()}


def test_new_ways_and_types_come_in(old):
    """A new model and a new type are added; general goes on comparing all on the same types."""
    made = rows({"new": 0.9}, kinds=("law", "code"), seed=4)
    result = updated(old, made)
    new = result.profile
    assert {a.model for a in new.actions} == {"small", "large", "new"}
    assert sum(t.share for t in new.types.values()) == pytest.approx(1)
    assert new.types["code"].share == pytest.approx(1 / 3)
    assert cell(new, "general", "large").reward == pytest.approx(
        cell(old, "general", "large").reward
    )
    assert cell(new, "general", "new") is None
    assert any(note.startswith("code: no part of general") for note in result.notes)
    assert parse_profile(dump_profile(new).encode(), origin="new").types.keys() == new.types.keys()


def test_general_is_mixed_again(old):
    """General is the mixture by share of the types as they are now."""
    new = updated(old, rows({"small": 1.0, "large": 1.0}, prompts=200, seed=5)).profile
    mixed = cell(new, "general", "large")
    parts = [(new.types[k].share, cell(new, k, "large")) for k in ("law", "math")]
    assert mixed.reward == pytest.approx(sum(share * part.reward for share, part in parts))
    assert mixed.output_mean == pytest.approx(
        sum(share * part.output_mean for share, part in parts)
    )
    assert mixed.n == sum(part.n for _, part in parts)


def test_a_model_that_changed_is_told(old):
    """A mean that moved beyond chance is named; the same model again is not."""
    same = updated(old, rows({"small": 0.5, "large": 0.8}, seed=6, start=100))
    assert not same.drifted
    other = updated(old, rows({"small": 0.5, "large": 0.2}, seed=6, start=100))
    assert {(c.type, c.action.model) for c in other.drifted} == {
        ("law", "large"),
        ("math", "large"),
    }


def test_versions_count_and_name_what_they_came_from(old):
    """Each version says its number and the hash of the file before it."""
    second = updated(old, rows({"small": 0.5}, seed=7)).profile
    third = updated(second, rows({"small": 0.5}, seed=8)).profile
    assert [version_of(p) for p in (old, second, third)] == [1, 2, 3]
    hashes = [step["from"]["sha256"] for step in third.provenance["updates"]]
    assert hashes == [hashlib.sha256(dump_profile(p).encode()).hexdigest() for p in (old, second)]


class TestCommand:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch, old):
        (tmp_path / ".git").mkdir()
        monkeypatch.chdir(tmp_path)
        save_profile(old, tmp_path / "mine.json")
        lines = map(json.dumps, rows({"small": 0.5, "large": 0.1}, seed=9, start=100))
        (tmp_path / "new.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return tmp_path

    def test_the_next_version_lies_beside_the_old(self, folder):
        """Versions follow each other as files, the old ones as they were, and the diff is shown."""
        before = (folder / "mine.json").read_bytes()
        answer = cli("profile", "update", "mine.json", "new.jsonl", width=120)
        assert answer.code == 0
        assert "mine-v2.json: version 2" in answer.out
        assert "math, large/256: " in answer.out
        assert "--anew takes the new outcomes alone" in answer.out
        assert "cells differ" in answer.out
        assert cli("profile", "update", "mine-v2.json", "new.jsonl").code == 0
        assert (folder / "mine.json").read_bytes() == before
        assert version_of(load_profile(folder / "mine-v3.json")) == 3

    def test_in_json(self):
        """`--json` prints one object."""
        answer = cli("profile", "update", "mine.json", "new.jsonl", "--anew", "--json")
        assert (answer.json["written"], answer.json["version"]) == ("mine-v2.json", 2)
        assert len(answer.json["drifted"]) == 2

    def test_a_shipped_profile_keeps_its_classifier(self, folder):
        """The next version of a shipped profile is written here, its classifier beside it."""
        assert cli("profile", "update", "broad", "new.jsonl").code == 0
        made = load_profile(folder / "broad-v2.json")
        assert made.classifier
        held = (folder / made.classifier.name).read_bytes()
        assert hashlib.sha256(held).hexdigest() == made.classifier.sha256

    @pytest.mark.parametrize("flags", [("-o", "mine.json", "--force"), ("-o", "new.jsonl")])
    def test_nothing_is_overwritten(self, folder, flags):
        """The old version is not replaced, whatever is said; nor is a table."""
        before = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
        assert cli("profile", "update", "mine.json", "new.jsonl", *flags).code == 2
        assert {path.name: path.read_bytes() for path in folder.glob("*.json*")} == before
