"""`budgetroute prices`: what models cost, what is written over the map, and whether it can be meant."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from cli_support import cli, project

from budgetroute.prices import PriceBook

BUDGET = "[budget]\ndaily_usd = 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A repository of its own, so that no configuration above is found."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(folder, text):
    return project(folder, BUDGET + text)


class TestShow:
    def test_one_model_whole(self):
        """A named model has a row for each class and a column for each set of rates."""
        answer = cli("prices", "show", "gpt-5", width=120)
        assert answer.code == 0
        assert "gpt-5 · openai · map" in answer.out
        rows = {
            line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if "$" in line
        }
        assert rows["input"] == ["$1.25", "$0.625", "$2.50", "$0.625"]
        assert rows["output"] == ["$10.00", "$5.00", "$20.00", "$5.00"]
        assert "search $0.01 each" in answer.out

    def test_hours_and_tiers_are_columns(self):
        """Off-peak rates and context tiers are told apart from the standard ones."""
        assert (
            "off-peak (UTC, 1 = Monday): 00:00–01:00" in cli("prices", "show", "deepseek-flash").out
        )
        assert "> 200k" in cli("prices", "show", "gemini-2.5-pro", width=160).out

    def test_without_names_the_configured_models(self, folder):
        """In the order of the configuration, with where the price is from."""
        configured(
            folder,
            '[models."gpt-4o-mini"]\n[models.mine]\nprice = { input = 1.0, output = 2.0 }\n'
            'like = "gpt-4o"\n[models.ours]\nprice = { gpu_hour = 2.5, tokens_per_second = 50 }\n'
            'like = "gpt-4o"\n',
        )
        answer = cli("prices", "show", width=120)
        assert answer.code == 0
        lines = [line.split() for line in answer.out.splitlines()]
        assert [line[0] for line in lines[1:4]] == ["gpt-4o-mini", "mine", "ours"]
        assert lines[2][-1] == "config"
        assert "$2.5 an hour" in answer.out

    def test_works_without_a_configuration(self):
        """The map needs no budget; the profile's models are shown."""
        answer = cli("prices", "show")
        assert answer.code == 0
        assert "gpt-4o-mini" in answer.out

    def test_patterns_and_providers(self):
        """A pattern looks through the map; models without a price are not hits."""
        answer = cli("prices", "show", "gpt-5*", "--provider", "openai", "--json")
        names = {model["name"] for model in answer.json["models"]}
        assert {"gpt-5", "gpt-5-mini"} <= names
        assert all(model["price_key"] for model in answer.json["models"])
        assert {model["provider"] for model in answer.json["models"]} == {"openai"}

    def test_the_whole_map(self):
        """`--all` has thousands of models, all priced."""
        models = cli("prices", "show", "--all", "--json").json["models"]
        assert len(models) > 3000
        assert all(model["usd_per_million"]["output"] > 0 for model in models)

    def test_a_model_without_a_price_is_told(self):
        """Exit code 1, with the reason; the others are shown."""
        answer = cli("prices", "show", "nope", "gpt-4o", "gpt-5", "gpt-4.1")
        assert answer.code == 1
        assert "✗ model 'nope' has no price" in answer.line
        assert cli("prices", "show", "nope", "--json").json["models"][0]["price"] is None

    def test_a_pattern_without_hits(self):
        """Nothing found is no success."""
        assert cli("prices", "show", "nope*").code == 1

    def test_json_has_every_class(self):
        """JSON carries rates, tiers, services, hours and fees as numbers."""
        (found,) = cli("prices", "show", "gemini-2.5-pro", "--json").json["models"]
        assert found["usd_per_million"]["input"] == pytest.approx(1.25)
        assert found["above_input_tokens"][0]["above"] == 200_000
        assert found["services"]["batch"]["usd_per_million"]["output"] == pytest.approx(5.0)
        assert found["search_usd"]["medium"] == pytest.approx(0.035)
        assert (found["source"], found["second_usd"], found["off_peak"]) == ("map", None, None)

    def test_an_alias_of_the_config_shows_its_price(self, folder):
        """`price_as` is followed, and told."""
        configured(folder, '[models.mine]\nprice_as = "gpt-4o"\nlike = "gpt-4o"\n')
        assert "mine · openai · map as gpt-4o" in cli("prices", "show", "mine").out

    def test_wrong_usage(self):
        """Names and --all exclude each other; an unknown configuration is an error."""
        assert cli("prices", "show", "gpt-5", "--all").code == 2
        assert cli("prices", "show", "--config", "gone.toml").code == 2
        assert cli("prices", "nope").code == 2

    def test_control_characters_do_not_reach_the_terminal(self, folder):
        """A name of a stranger's configuration is shown escaped."""
        configured(
            folder,
            '[models."a\\u001b[31m"]\nprice = { input = 1.0, output = 2.0 }\nlike = "gpt-4o"\n',
        )
        assert "\x1b" not in cli("prices", "show").out


class TestDiff:
    def test_classes_side_by_side(self, folder):
        """Yours, the map's and the factor of each class that differs."""
        configured(
            folder,
            '[models."gpt-4o-mini"]\nprice = { input = 0.075, output = 0.60 }\nlike = "gpt-4o-mini"\n',
        )
        answer = cli("prices", "diff", width=120)
        assert answer.code == 0
        rows = [line.split() for line in answer.out.splitlines()]
        assert ["gpt-4o-mini", "input", "$0.075", "$0.15", "×0.5"] in rows
        assert ["gpt-4o-mini", "cached_input", "–", "$0.075"] in rows
        assert not any("output" in row for row in rows)

    @pytest.mark.parametrize(("price", "mark"), [("input = 3.75", "!"), ("input = 150.0", "✗")])
    def test_odd_factors_fail(self, folder, price, mark):
        """A factor of 25 is looked at, one of 1,000 refused elsewhere; both exit 1 here."""
        configured(folder, f'[models."gpt-4o-mini"]\nprice = {{ {price}, output = 0.60 }}\n')
        answer = cli("prices", "diff")
        assert answer.code == 1
        assert f"{mark} gpt-4o-mini: input is ×" in answer.line

    def test_other_sources_are_named(self, folder):
        """Free, by time, unknown to the map, and the same as the map's."""
        configured(
            folder,
            '[models.a]\nprice = "free"\n[models.b]\nprice = { gpu_hour = 1.0 }\n'
            "[models.c]\nprice = { input = 1.0, output = 2.0 }\n"
            '[models."gpt-4"]\nprice = { input = 30.0, output = 60.0 }\n',
        )
        answer = cli("prices", "diff")
        assert answer.code == 0
        for text in ("a: free", "b: priced by time", "c: not in the map", "gpt-4: the same"):
            assert f"✓ {text}" in answer.line

    def test_nothing_written(self, folder):
        """Without written prices there is nothing to compare."""
        configured(folder, "")
        assert "the map's hold" in cli("prices", "diff").line

    def test_json(self, folder):
        """Factors as numbers."""
        configured(folder, '[models."gpt-4o-mini"]\nprice = { input = 0.075, output = 0.60 }\n')
        found = cli("prices", "diff", "--json").json
        first = found["models"][0]["classes"][0]
        assert (found["ok"], first["class"], first["factor"]) == (True, "input", 0.5)
        assert found["map"]["names"] > 4000


class TestCheck:
    def test_all_is_well(self, folder):
        """The map's age and each model's price, as ticks."""
        configured(folder, '[models."gpt-4o-mini"]\n')
        answer = cli("prices", "check")
        assert answer.code == 0
        assert "✓ prices of litellm" in answer.out
        assert "✓ gpt-4o-mini: $0.15 in, $0.60 out (map)" in answer.out

    def test_an_old_map_is_told(self, folder):
        """A map of half a year ago is looked at, and not a failure."""
        configured(folder, '[models."gpt-4o-mini"]\n')
        with time_machine.travel(datetime.now(UTC) + timedelta(days=180), tick=False):
            answer = cli("prices", "check")
        assert answer.code == 0
        assert "pip install -U litellm" in answer.line

    def test_what_must_be_mended(self, folder):
        """A model without a price, and one in another unit, exit 1."""
        configured(folder, '[models.nope]\nlike = "gpt-4o"\n')
        assert cli("prices", "check").code == 1
        configured(folder, '[models."gpt-4o-mini"]\nprice = { input = 0.00015, output = 0.0006 }\n')
        answer = cli("prices", "check", "--json")
        assert (answer.code, answer.json["ok"]) == (1, False)
        assert any("another unit" in check["text"] for check in answer.json["checks"])

    def test_age_is_that_of_the_file(self):
        """JSON says when the map was installed."""
        path = PriceBook().map_path()
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        assert json.loads(cli("prices", "check", "--json").out)["map"]["installed_on"] == day
