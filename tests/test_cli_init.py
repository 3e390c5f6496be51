"""`budgetroute init`: the file it writes, and what it says about it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from cli_support import cli, project
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.cli.template import Written, config_text
from budgetroute.config import load_config
from budgetroute.prices import PriceBook
from budgetroute.profiles import load_profile
from budgetroute.router import Router
from budgetroute.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

BROAD = load_profile("broad")
MODELS = [m for m in dict.fromkeys(a.model for a in BROAD.actions) if PriceBook().known(m)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of a repository, to stand in."""
    home = tmp_path / "Answer Service"
    home.mkdir()
    (home / ".git").mkdir()
    monkeypatch.chdir(home)
    return home


def loaded(folder: Path):
    return load_config(cwd=folder, env={"HOME": str(folder.parent)})


def test_the_file_loads_with_what_was_asked(folder):
    """Budget, zone, name and models stand in the file as they were asked for."""
    args = ["--daily", "25", "--timezone", "Europe/Paris", "--name", "qa", "--models"]
    answer = cli("init", *args, ",".join(MODELS[:2]))
    assert answer.code == 0, answer.out
    config = loaded(folder)
    assert (config.name, config.budget.daily_usd) == ("qa", 25.0)
    assert config.budget.timezone == "Europe/Paris"
    assert list(config.models) == MODELS[:2]


def test_it_asks_nothing_and_says_what_it_took(folder):
    """Without options the file has defaults, and the output names those about money."""
    answer = cli("init")
    config = loaded(folder)
    assert answer.code == 0
    assert (config.name, config.budget.daily_usd) == ("answer-service", 5.0)
    assert "$5.00 a day" in answer.out
    assert "no --daily was given" in answer.out


def test_a_router_runs_on_the_file(folder, clock):
    """What init writes is enough to build a router."""
    cli("init", "--daily", "3", "--models", MODELS[0])
    router = Router.from_config(folder / "budgetroute.toml", store=MemoryStore(clock))
    assert set(router.equipment.table().facts) == {MODELS[0]}


def settings_on(text: str) -> str:
    """The file with every setting switched on, as its head tells users to do it."""
    lines = text.splitlines()
    off = [line for line in lines if line.startswith("#") and not line.startswith(("# ", "#\n"))]
    assert len(off) > 20
    return "\n".join(line[1:] if line in off and line != "#" else line for line in lines)


@pytest.mark.parametrize("models", [[], MODELS[:1], MODELS[:3]])
def test_every_setting_in_it_can_be_switched_on(folder, models):
    """With all comment signs taken off its settings, the file still loads."""
    cli("init", *(["--models", ",".join(models)] if models else []))
    file = folder / "budgetroute.toml"
    file.write_text(settings_on(file.read_text()))
    config = loaded(folder)
    assert config.budget.on_exhausted == "degrade"
    assert config.routes["answer"].floor == 0.8
    assert config.types["code"].value == 2.0
    assert config.models


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(
    daily=st.floats(0, 9_000_000, allow_nan=False),
    models=st.lists(NAMES, max_size=3, unique=True),
)
def test_any_budget_and_model_names_give_a_file_that_loads(tmp_path_factory, daily, models):
    """Whatever the model's names and the budget, the text is TOML and loads to the same values."""
    folder = tmp_path_factory.mktemp("any")
    text = config_text(Written("app", daily, "UTC", models=models))
    file = project(folder, text)
    config = load_config(file, env={})
    assert config.budget.daily_usd == daily
    assert list(config.models) == models


def test_no_setting_is_longer_than_the_page(folder):
    """Lines stay below 100 characters."""
    cli("init")
    lines = (folder / "budgetroute.toml").read_text().splitlines()
    assert max(map(len, lines)) < 100


def test_an_existing_file_is_left_alone(folder):
    """A second init is refused, exit code 2, and changes nothing."""
    project(folder, "[budget]\ndaily_usd = 1\n")
    answer = cli("init", "--daily", "9")
    assert (answer.code, answer.out) == (2, "")
    assert "--force" in answer.err
    assert (folder / "budgetroute.toml").read_text() == "[budget]\ndaily_usd = 1\n"


def test_force_replaces_it(folder):
    """With --force the file is replaced in one step, and nothing else is left behind."""
    project(folder)
    assert cli("init", "--force", "--daily", "9").code == 0
    assert loaded(folder).budget.daily_usd == 9.0
    assert {path.name for path in folder.iterdir()} == {".git", "budgetroute.toml"}


def test_a_dangling_link_is_not_followed_silently(folder):
    """A link named budgetroute.toml counts as an existing file."""
    (folder / "budgetroute.toml").symlink_to(folder / "elsewhere.toml")
    assert cli("init").code == 2
    assert not (folder / "elsewhere.toml").exists()


def test_force_writes_through_a_link(folder):
    """--force replaces what a link points to, and keeps the link."""
    target = folder / "shared.toml"
    target.write_text("")
    (folder / "budgetroute.toml").symlink_to(target)
    assert cli("init", "--force").code == 0
    assert (folder / "budgetroute.toml").is_symlink()
    assert "daily_usd" in target.read_text()


def test_the_file_can_be_read_by_others(folder):
    """The configuration holds no secret: it gets the usual rights of a new file."""
    old = os.umask(0o022)
    try:
        cli("init")
    finally:
        os.umask(old)
    mode = stat.S_IMODE((folder / "budgetroute.toml").stat().st_mode)
    assert mode == 0o644


def test_named_models_are_looked_up(folder):
    """For each model the output says its price and how many actions the profile has."""
    answer = cli("init", "--models", MODELS[0])
    actions = sum(a.model == MODELS[0] for a in BROAD.actions)
    assert f"{MODELS[0]} (" in answer.out
    assert f"{actions} actions in profile 'broad'" in answer.out


def test_a_model_that_lacks_something_is_exit_code_1(folder):
    """An unknown model is written, with the lines it needs, and the exit code says so."""
    answer = cli("init", "--models", f"{MODELS[0]},no-such-model")
    assert answer.code == 1
    assert "no-such-model: no price is known" in answer.out
    assert "has no curve for it" in answer.out
    text = (folder / "budgetroute.toml").read_text()
    below = text.split("[models.no-such-model]")[1].split("#[routes")[0]
    assert "#price = {" in below
    assert "#like = " in below
    assert "no-such-model" in loaded(folder).models


def test_a_priced_model_without_a_curve_is_usable(folder):
    """It starts on a guess from its price, which is worth a warning and a line for `like`."""
    answer = cli("init", "--models", f"{MODELS[0]},gpt-4.1-nano")
    assert answer.code == 0
    assert "! gpt-4.1-nano: profile 'broad' has no curve for it" in answer.out
    assert "unless you write `like`" in answer.out
    below = (folder / "budgetroute.toml").read_text().split('[models."gpt-4.1-nano"]')[1]
    assert "#like = " in below
    assert "#price = {" not in below


def test_json_is_one_object(folder):
    """--json prints what was written and found, and nothing else."""
    said = cli("init", "--json", "--daily", "2.5", "--models", f"{MODELS[0]},nope").json
    assert said["written"] == str(folder / "budgetroute.toml")
    assert (said["daily_usd"], said["ok"]) == (2.5, False)
    known, unknown = said["models"]
    assert known["priced"] is True
    assert known["input_usd_per_million"] > 0
    assert unknown == {
        "name": "nope",
        "provider": "custom",
        "priced": False,
        "input_usd_per_million": None,
        "output_usd_per_million": None,
        "profile_actions": 0,
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--daily", "-1"], "expected dollars per day"),
        (["--daily", "nan"], "expected dollars per day"),
        (["--daily", "1e12"], "expected dollars per day"),
        (["--timezone", "Paris"], "Europe/Paris"),
        (["--timezone", "../etc/passwd"], "expected an IANA time zone"),
        (["--timezone", ""], "expected an IANA time zone"),
        (["--name", "Bad Name"], "beginning with a letter or digit"),
        (["--models", " , "], "names with commas"),
    ],
)
def test_wishes_that_cannot_be_written_are_refused(folder, args, words):
    """A wrong option is one line on stderr with what to write, exit code 2; no file is made."""
    answer = cli("init", *args)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
    assert [path.name for path in folder.iterdir()] == [".git"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(folder):
    """Without the right to write, the error says where to run it."""
    folder.chmod(0o500)
    answer = cli("init")
    folder.chmod(0o700)
    assert answer.code == 2
    assert "cannot be written" in answer.err


def test_a_configuration_above_is_told_of(tmp_path, monkeypatch):
    """If a file further up held for this folder so far, init says that the new one takes over."""
    above = project(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    answer = cli("init")
    assert answer.code == 0
    assert f"{above} holds for the folders above" in answer.out
