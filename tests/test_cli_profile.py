"""`budgetroute profile`: fit, show, lint, diff, plot, list."""

from __future__ import annotations

import builtins
import json
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import time_machine
from cli_support import cli

from budgetroute.profiles import load_profile, save_profile, shipped
from budgetroute.records import Action, Cell, Profile, PromptType

MODELS = {"gpt-4o-mini": 0.5, "gpt-4o": 0.8}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A repository of its own, so that no configuration above is found."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(folder):
    """Graded calls of two models on two types, as a user would have them."""
    luck = random.Random(1)
    lines = []
    for kind in ("math", "law"):
        for i in range(60):
            for model, able in MODELS.items():
                length = luck.randint(20, 700)
                lines.append({
                    "id": f"{kind}{i}", "type": kind, "model": model,
                    "score": int(luck.random() < able), "output_tokens": length,
                    "complete_tokens": length, "input_tokens": 90, "shoe_size": 43,
                })  # fmt: skip
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def profile(*rewards, model="gpt-4o-mini", name="small", effort=None):
    """Return a profile with one type and a cap per reward."""
    actions = tuple(Action(model, 64 * 4**i, reasoning_effort=effort) for i in range(len(rewards)))
    row = tuple(Cell(400, r, 0.02, 50.0 * 4**i) for i, r in enumerate(rewards))
    return Profile(
        name, "2026-01-01", {"general": PromptType(1.0, 100.0)}, actions, {"general": row}
    )


def saved(folder, made, name="small.json"):
    save_profile(made, folder / name)
    return name


class TestFit:
    def test_a_table_becomes_a_profile(self, folder, rows):
        """The file is written, read back, and what was not used is told."""
        answer = cli("profile", "fit", rows, "-o", "mine.json", "--licence", "own", width=200)
        assert answer.code == 0
        made = load_profile(folder / "mine.json")
        assert (made.name, sorted(made.types)) == ("mine", ["general", "law", "math"])
        assert made.provenance["licence"] == "own"
        assert made.provenance["table"] == "rows.jsonl"
        assert "240 graded calls of 120 prompts" in answer.out
        assert "columns not used: shoe_size" in answer.out

    def test_in_json_nothing_else_is_printed(self, rows):
        """`--json` prints one object with what was written and what is weak."""
        answer = cli("profile", "fit", rows, "-o", "mine.json", "--caps", "128,1024", "--json")
        assert answer.json["written"] == "mine.json"
        assert answer.json["types"] == ["general", "law", "math"]
        assert {label.split("/")[1] for label in answer.json["actions"]} <= {"128", "1024"}

    def test_an_existing_file_is_kept(self, folder, rows):
        """Without --force an existing profile is not replaced."""
        (folder / "mine.json").write_text("precious")
        answer = cli("profile", "fit", rows, "-o", "mine.json")
        assert (answer.code, "--force" in answer.err) == (2, True)
        assert (folder / "mine.json").read_text() == "precious"
        assert cli("profile", "fit", rows, "-o", "mine.json", "--force").code == 0

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            (["-o", "mine.txt"], "a .json file"),
            (["-o", "mine.json", "--caps", "few"], "whole numbers"),
            (["-o", "mine.json", "--types", "none.csv"], "none.csv: cannot be read"),
        ],
    )
    def test_wrong_usage_is_told(self, rows, args, said):
        """Exit code 2 and a line that says what was expected."""
        answer = cli("profile", "fit", rows, *args)
        assert answer.code == 2
        assert said in " ".join(answer.err.split())

    def test_bad_rows_are_listed(self, folder):
        """The row numbers reach the user."""
        (folder / "bad.csv").write_text("id,model,score,output_tokens\na,m,11,4\n")
        answer = cli("profile", "fit", "bad.csv", "-o", "mine.json")
        assert answer.code == 2
        assert "row 2: score is '11'; allowed is 0 to 1" in " ".join(answer.err.split())

    def test_prices_of_the_configuration_count(self, folder, rows):
        """A model that only the configuration prices is shrunk over cost like the others."""
        text = rows.read_text().replace("gpt-4o-mini", "ours")
        rows.write_text(text)
        assert cli("profile", "fit", rows, "-o", "a.json", "--json").json["unpriced"] == ["ours"]
        (folder / "budgetroute.toml").write_text(
            "[budget]\ndaily_usd = 1\n[models.ours]\nprice = { input = 0.1, output = 0.4 }\n"
        )
        assert cli("profile", "fit", rows, "-o", "b.json", "--json").json["unpriced"] == []


class TestShow:
    def test_a_type_has_its_hull(self, folder):
        """Actions that can win are shown with interval and cost; the rest is counted."""
        name = saved(folder, profile(0.4, 0.7, 0.6))
        answer = cli("profile", "show", name, width=160)
        lines = [line for line in answer.out.splitlines() if "gpt-4o-mini/" in line]
        assert len(lines) == 2
        assert "0.700  0.65–0.74" in lines[1]
        assert "1 action more" in answer.out
        everything = cli("profile", "show", name, "--all", width=160).out
        assert everything.count("gpt-4o-mini/") == 3

    def test_all_of_it_in_json(self, folder):
        """`--json` has every action with cost, interval and how sure its place on the hull is."""
        name = saved(folder, profile(0.4, 0.7, 0.6))
        found = cli("profile", "show", name, "--json").json["types"]["general"]["actions"]
        assert [line["on_hull"] for line in found] == [True, True, False]
        assert found[0]["cost_usd"] == pytest.approx(100 * 0.15e-6 + 50 * 0.6e-6)
        assert found[1]["on_hull_share"] > 0.9
        assert found[2]["on_hull_share"] < 0.1
        low, high = found[0]["interval"]
        assert low < 0.4 < high

    def test_without_a_name_the_configured_one(self, folder):
        """The profile of the configuration is shown; without one, broad."""
        saved(folder, profile(0.4, 0.7))
        assert cli("profile", "show", "--json").json["name"] == "broad"
        (folder / "budgetroute.toml").write_text(
            'profile = "small.json"\n[budget]\ndaily_usd = 1\n'
        )
        assert cli("profile", "show", "--json").json["name"] == "small"

    def test_a_type_that_is_not_there_is_told(self):
        """Exit code 2 with the types there are."""
        answer = cli("profile", "show", "broad", "--type", "poetry")
        assert (answer.code, "it has chat" in " ".join(answer.err.split())) == (2, True)

    def test_every_shipped_profile_is_listed(self):
        """`list` names them all, with what each is good for."""
        found = cli("profile", "list", "--json").json["profiles"]
        assert [each["profile"] for each in found] == shipped()
        assert all(name in cli("profile", "list", width=160).out for name in shipped())


class TestLint:
    def test_weakness_is_a_warning(self, folder):
        """Weak numbers are told with exit code 0, 1 if --strict."""
        name = saved(folder, profile(0.4, 0.7))
        answer = cli("profile", "lint", name, "--json")
        assert answer.code == 0
        assert {flaw["check"] for flaw in answer.json["flaws"]} == {"choice"}
        assert cli("profile", "lint", name, "--strict").code == 1

    @pytest.mark.parametrize(
        ("made", "check", "text"),
        [
            (profile(0.4, 0.7, model="gpt-5", effort="xhigh"), "sendable", "effort 'xhigh'"),
            (profile(*[0.1 * i for i in range(8)]), "sendable", "writes at most 16,384 tokens"),
            (profile(0.4, 0.7, model="nobody-knows"), "price", "give the model a price"),
        ],
    )
    def test_what_cannot_work_fails(self, folder, made, check, text):
        """Efforts and caps that an API refuses, and models without a price: exit code 1."""
        answer = cli("profile", "lint", saved(folder, made), "--json")
        failed = [flaw for flaw in answer.json["flaws"] if flaw["level"] == "fail"]
        assert answer.code == 1
        assert any(flaw["check"] == check and text in flaw["text"] for flaw in failed)

    def test_actions_that_are_one_call_fail(self, folder):
        """Two efforts that this provider is sent alike are the same action twice."""
        made = profile(0.4, 0.7, model="claude-sonnet-4-5", effort="low")
        twin = replace(made.actions[1], reasoning_effort="minimal")
        twice = replace(
            made,
            actions=(*made.actions, twin),
            cells={"general": (*made.cells["general"], made.cells["general"][1])},
        )
        answer = cli("profile", "lint", saved(folder, twice), "--json")
        assert answer.code == 1
        assert any("the same call as" in flaw["text"] for flaw in answer.json["flaws"])

    def test_a_retired_model_is_told(self, folder):
        """A model past its retirement date is a warning with the date."""
        name = saved(folder, profile(0.4, 0.7, model="gpt-4"))
        with time_machine.travel(datetime(2024, 1, 1, tzinfo=UTC)):
            assert "retired" not in cli("profile", "lint", name, width=200).out
        with time_machine.travel(datetime(2034, 1, 1, tzinfo=UTC)):
            assert "gpt-4: was to be retired on 20" in cli("profile", "lint", name, width=200).out

    def test_lines_that_share_a_text_are_one(self, folder):
        """Many subjects of one finding are gathered."""
        name = saved(folder, profile(0.7, 0.6, 0.5, 0.4, 0.3, 0.2))
        answer = cli("profile", "lint", name, width=200)
        assert "and 2 more: dead" in answer.out


class TestDiff:
    def test_equal_profiles_choose_alike(self, folder):
        """No cell differs, no choice changes."""
        one, two = saved(folder, profile(0.4, 0.7)), saved(folder, profile(0.4, 0.7), "two.json")
        assert cli("profile", "diff", one, two, "--json").json["cells"] == []
        assert (
            "same actions would be chosen at every shadow price"
            in cli("profile", "diff", one, two, width=120).out
        )

    def test_a_change_is_told_in_errors_and_choices(self, folder):
        """A cell that rose by many errors is listed, with the λ at which another action wins."""
        one = saved(folder, profile(0.4, 0.5))
        two = saved(folder, profile(0.4, 0.9), "two.json")
        found = cli("profile", "diff", one, two, "--json").json
        (cell,) = found["cells"]
        assert cell["errors"] == pytest.approx(0.4 / (0.02 * 2**0.5))
        (choice,) = found["choices"]
        assert (choice["before"], choice["after"]) == ("gpt-4o-mini/64", "gpt-4o-mini/256")
        # switching pays below ΔR/ΔC, which is 0.1 and then 0.5 over 150 tokens at $0.6 per million
        assert 0.1 / 9e-5 < choice["lambda_from"] <= choice["lambda_to"] < 0.5 / 9e-5
        shown = cli("profile", "diff", one, two, width=160).out
        assert "1 by more than two standard errors" in shown
        assert "+14.1" in shown


class TestPlot:
    def test_an_svg_with_a_panel_per_type(self, folder, rows):
        """The picture is XML, drawn the same twice, and every type has a panel."""
        pytest.importorskip("matplotlib")
        cli("profile", "fit", rows, "-o", "mine.json")
        answer = cli("profile", "plot", "mine.json", "--json")
        assert answer.json == {
            "profile": "mine",
            "written": "mine.svg",
            "types": ["law", "math", "general"],
        }
        first = (folder / "mine.svg").read_bytes()
        tree = ET.fromstring(first)  # noqa: S314 - our own file
        groups = [g.get("id", "") for g in tree.iter("{http://www.w3.org/2000/svg}g")]
        assert sum(name.startswith("axes_") for name in groups) == 3
        cli("profile", "plot", "mine.json")
        assert (folder / "mine.svg").read_bytes() == first

    def test_a_png_where_asked(self, folder):
        """The suffix says which."""
        pytest.importorskip("matplotlib")
        name = saved(folder, profile(0.4, 0.7))
        assert cli("profile", "plot", name, "-o", "p.png").code == 0
        assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")

    def test_dollars_in_names_are_no_formulas(self, folder):
        """A name with dollar signs is drawn as it is."""
        pytest.importorskip("matplotlib")
        name = saved(folder, profile(0.4, 0.7, name=r"$\oops$ {"))
        assert cli("profile", "plot", name, "-o", "p.svg").code == 0

    def test_another_suffix_is_refused(self, folder):
        """A PDF is no form of it."""
        answer = cli("profile", "plot", "broad", "-o", "p.pdf")
        assert (answer.code, ".svg or .png" in answer.err) == (2, True)

    def test_without_matplotlib_it_says_what_to_install(self, monkeypatch):
        """The extra is named; nothing is written."""
        real = builtins.__import__

        def without(name, *rest, **more):
            if name.startswith("matplotlib"):
                raise ImportError(name)
            return real(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        answer = cli("profile", "plot", "broad")
        assert answer.code == 2
        assert "budgetroute[report]" in answer.err
