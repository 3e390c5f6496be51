"""The configuration: where it is found, what overrides what, and what each error says."""

from __future__ import annotations

import copy
import os
import pickle
import string
import subprocess
import sys
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.config import (
    ClassifyConfig,
    Config,
    ModelConfig,
    PacingConfig,
    RouteConfig,
    TypeConfig,
    is_disabled,
    load_config,
)
from budgetroute.config.build import named_after
from budgetroute.config.environment import variables
from budgetroute.config.files import folders_upwards
from budgetroute.config.show import effective
from budgetroute.config.wording import dotted, masked
from budgetroute.errors import ConfigError

BUDGET = "[budget]\ndaily_usd = 25\n"
DAILY = "BUDGETROUTE_BUDGET_DAILY_USD"


class Folder:
    """A repository with a budgetroute.toml, and an environment that knows nothing else."""

    def __init__(self, root: Path) -> None:
        self.home = root
        self.path = root / "Answer Service"
        self.file = self.path / "budgetroute.toml"
        (self.path / ".git").mkdir(parents=True)

    def load(self, text: str | bytes | None = None, *, env=None, **overrides) -> Config:
        if text is not None:
            self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        named = {"HOME": str(self.home), **(env or {})}
        return load_config(cwd=self.path, env=named, overrides=overrides.get("overrides"))

    def error(self, text: str | bytes | None = None, **rest) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(text, **rest)
        return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# what is read


def test_defaults_are_the_documented_ones(folder: Folder) -> None:
    """A budget alone gives the documented defaults."""
    config = folder.load(BUDGET)
    assert config.budget.daily_usd == 25.0
    assert (config.profile, config.mode, config.strict) == ("broad", "on", False)
    assert config.unknown_capability == "allow"
    assert (config.budget.timezone, config.budget.reset_hour) == ("UTC", 0)
    assert (config.budget.on_exhausted, config.budget.hard_usd) == ("raise", None)
    assert config.store.on_store_error == "raise"
    assert config.store.url is None
    assert config.pacing == PacingConfig(
        pacer="solve",
        eta=None,
        period=300.0,
        warmup_periods=3,
        target="forecast",
        step="multiplicative",
        mix=True,
    )
    assert (config.models, config.types, config.routes) == ({}, {}, {})
    assert config.classify == ClassifyConfig(rules=(), hard_types=False, model=None)


WHOLE = """
name = "answer-service"
profile = "profiles/mine.json"
mode = "off"
strict = true
unknown_capability = "deny"
[budget]
daily_usd = 25.00
timezone = "Europe/Paris"
reset_hour = 4
on_exhausted = "degrade"
hard_usd = 30
calls_per_day = 2000
weekly_usd = 120
monthly_usd = 400
[store]
path = "state"
on_store_error = "open"
[pacing]
pacer = "fixed"
eta = 0.1
period = "90s"
alpha = 0.5
lambda_min = 0
lambda_max = 100
initial_lambda = 20
warmup_periods = 0
target = "flat"
step = "raw"
mix = false
[models."gpt-4.1"]
max_tokens = [256, 1024]
cot = [false, true]
reasoning_effort = ["none", "low"]
temperature = [0, 0.7]
n = [1, 3]
params = { top_p = 0.9, stop = ["END"] }
price = { input = 0.15, output = 0.60 }
like = "gpt-4o-mini"
price_as = "gpt-4o"
provider = "azure"
tags = ["eu"]
image_tokens = 1500
token_ratio = 1.2
enabled = false
[types.code]
models = ["gpt-4.1"]
max_tokens = 1024
cot = true
value = 2
[routes.answer]
profile = "profiles/answer.json"
floor = 0.80
prompt_type = "math"
require = ["eu"]
providers = ["openai"]
input_tokens = 100
allow = ["gpt-4.1"]
deny = []
timeout_s = 60
[classify]
hard_types = true
model = "profiles/answer.npz"
[[classify.rules]]
type = "code"
keywords = ["traceback"]
"""


def test_every_key_reaches_its_field(folder: Folder) -> None:
    """Every key of the file arrives in the field of its name."""
    config = folder.load(WHOLE)
    assert config.budget == msgspec.structs.replace(
        config.budget,
        daily_usd=25.0,
        timezone="Europe/Paris",
        reset_hour=4,
        on_exhausted="degrade",
        hard_usd=30.0,
        calls_per_day=2000.0,
        weekly_usd=120.0,
        monthly_usd=400.0,
    )
    assert config.pacing == PacingConfig(
        pacer="fixed",
        eta=0.1,
        period=90.0,
        alpha=0.5,
        lambda_min=0.0,
        lambda_max=100.0,
        initial_lambda=20.0,
        warmup_periods=0,
        target="flat",
        step="raw",
        mix=False,
    )
    assert config.models == {
        "gpt-4.1": ModelConfig(
            max_tokens=(256, 1024),
            cot=(False, True),
            reasoning_effort=("none", "low"),
            temperature=(0.0, 0.7),
            n=(1, 3),
            params={"top_p": 0.9, "stop": ["END"]},
            price={"input": 0.15, "output": 0.60},
            like="gpt-4o-mini",
            price_as="gpt-4o",
            provider="azure",
            tags=("eu",),
            image_tokens=1500,
            token_ratio=1.2,
            enabled=False,
        )
    }
    assert config.types == {
        "code": TypeConfig(models=("gpt-4.1",), max_tokens=(1024,), cot=(True,), value=2.0)
    }
    assert config.routes == {
        "answer": RouteConfig(
            profile="profiles/answer.json",
            floor=0.8,
            prompt_type="math",
            require=("eu",),
            providers=("openai",),
            input_tokens=100,
            allow=("gpt-4.1",),
            deny=(),
            timeout_s=60.0,
        )
    }
    assert config.classify == ClassifyConfig(
        rules=({"type": "code", "keywords": ["traceback"]},),
        hard_types=True,
        model="profiles/answer.npz",
    )
    assert (config.name, config.profile) == ("answer-service", "profiles/mine.json")
    assert (config.mode, config.strict, config.unknown_capability) == ("off", True, "deny")
    assert config.store.path == str(folder.path / "state")
    assert config.store.on_store_error == "open"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("max_tokens = 256", ModelConfig(max_tokens=(256,))),
        ("cot = true", ModelConfig(cot=(True,))),
        ('reasoning_effort = "low"', ModelConfig(reasoning_effort=("low",))),
        ("temperature = 0.5", ModelConfig(temperature=(0.5,))),
        ("n = 3", ModelConfig(n=(3,))),
        ('price = "free"', ModelConfig(price="free")),
        ("", ModelConfig()),
    ],
)
def test_a_single_value_stands_for_a_list_of_one(folder: Folder, text, found) -> None:
    """`max_tokens = 256` and its like mean a list of one."""
    assert folder.load(f"{BUDGET}[models.m]\n{text}\n").models["m"] == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [('"5m"', 300), ('"90s"', 90), ('"1h"', 3600), ("60", 60), ("1.5", 1.5), ('"2.5m"', 150)],
)
def test_periods_are_seconds_or_texts(folder: Folder, text, seconds) -> None:
    """A period is given in seconds, or as a text with its unit."""
    assert folder.load(f"{BUDGET}[pacing]\nperiod = {text}\n").pacing.period == seconds


def test_zero_budget_is_a_budget(folder: Folder) -> None:
    """daily_usd = 0 is allowed: everything is refused."""
    assert folder.load("[budget]\ndaily_usd = 0\n").budget.daily_usd == 0.0


def test_models_keep_their_order(folder: Folder) -> None:
    """Models stand in the order in which they were written."""
    text = BUDGET + "".join(f"[models.{name}]\n" for name in "zax")
    assert list(folder.load(text).models) == ["z", "a", "x"]


def test_zone_is_the_named_zone(folder: Folder) -> None:
    """`budget.zone` is the ZoneInfo of `timezone`."""
    config = folder.load(BUDGET + 'timezone = "Europe/Paris"\n')
    assert config.budget.zone == ZoneInfo("Europe/Paris")


def test_route_without_a_table_gets_the_defaults(folder: Folder) -> None:
    """`config.route(name)` answers for every name."""
    config = folder.load(BUDGET + "[routes.answer]\nfloor = 0.5\n")
    assert config.route("answer").floor == 0.5
    assert config.route("other") == RouteConfig(input_tokens=4000)


def test_paths_start_at_the_config_folder(folder: Folder) -> None:
    """`resolve` reads relative paths from the config's folder and leaves absolute ones."""
    config = folder.load(BUDGET)
    assert config.resolve("profiles/a.json") == folder.path / "profiles" / "a.json"
    assert config.resolve("/srv/a.json") == Path("/srv/a.json")


def test_byte_order_mark_is_skipped(folder: Folder) -> None:
    """A file saved with a byte order mark is read."""
    assert folder.load(b"\xef\xbb\xbf" + BUDGET.encode()).budget.daily_usd == 25.0


def test_config_is_frozen(folder: Folder) -> None:
    """Neither fields nor tables of a loaded config can be changed."""
    config = folder.load(BUDGET + "[models.m]\nparams = { top_p = 1 }\n")
    with pytest.raises(AttributeError):
        config.mode = "off"
    with pytest.raises(AttributeError):
        config.budget.daily_usd = 99.0
    for table in (config.models, config.routes, config.origins, config.models["m"].params):
        with pytest.raises(TypeError, match="frozen"):
            table["x"] = 1
        with pytest.raises(TypeError, match="frozen"):
            table.update(x=1)
        with pytest.raises(TypeError, match="frozen"):
            table.pop("x", None)


def test_config_travels_to_other_processes(folder: Folder) -> None:
    """A config survives pickle and deepcopy unchanged and still frozen."""
    config = folder.load(WHOLE)
    unpickled = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own bytes
    for twin in (unpickled, copy.deepcopy(config)):
        assert twin == config
        with pytest.raises(TypeError, match="frozen"):
            twin.models["x"] = ModelConfig()


# names


@pytest.mark.parametrize(
    ("folder_name", "name"),
    [
        ("Answer Service", "answer-service"),
        ("café_2", "cafe_2"),
        (".hidden", "hidden"),
        ("a" * 90, "a" * 64),
        ("v1.2", "v1.2"),
    ],
)
def test_name_is_made_of_the_folders(folder_name, name) -> None:
    """Without `name`, the folder's name is cleaned to the characters a name may have."""
    assert named_after(Path("/srv") / folder_name) == name


def test_folders_without_letters_get_different_names() -> None:
    """Two folders whose names leave nothing do not share a budget."""
    one, other = named_after(Path("/srv/日本")), named_after(Path("/srv/中国"))
    assert one != other
    assert one.startswith("app-")


@given(st.text(min_size=1).filter(lambda text: "/" not in text and "\0" not in text))
def test_made_names_are_allowed_names(text: str) -> None:
    """Whatever a folder is called, the name made of it is one that could be written."""
    field = next(f for f in msgspec.structs.fields(Config) if f.name == "name")
    name = named_after(Path("/srv") / text)
    assert msgspec.convert(name, field.type) == name


def test_default_name_is_marked_as_default(folder: Folder) -> None:
    """The name made of the folder has the origin `default`."""
    config = folder.load(BUDGET)
    assert (config.name, config.origins["name"]) == ("answer-service", "default")


# where the file is found


def test_found_upwards(folder: Folder) -> None:
    """A file in a folder above is found, and its folder is the config's."""
    folder.file.write_text(BUDGET)
    below = folder.path / "src" / "deep"
    below.mkdir(parents=True)
    config = load_config(cwd=below, env={})
    assert (config.source, config.folder) == (folder.file, folder.path)


def test_the_nearest_file_wins(folder: Folder) -> None:
    """Of two files on the way up the nearer one holds, alone."""
    folder.file.write_text(f'profile = "far"\n{BUDGET}')
    below = folder.path / "src"
    below.mkdir()
    (below / "budgetroute.toml").write_text("[budget]\ndaily_usd = 7\n")
    config = load_config(cwd=below, env={})
    assert (config.budget.daily_usd, config.profile) == (7.0, "broad")


def test_the_search_ends_at_the_repository(folder: Folder) -> None:
    """A file above the repository root is not found."""
    (folder.home / "budgetroute.toml").write_text(BUDGET)
    assert "no configuration found" in folder.error()


def test_a_worktree_ends_the_search_too(tmp_path: Path) -> None:
    """`.git` may be a file, as in worktrees."""
    (tmp_path / "budgetroute.toml").write_text(BUDGET)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: elsewhere\n")
    with pytest.raises(ConfigError, match="no configuration found"):
        load_config(cwd=tree, env={})


def test_the_search_ends_at_home(tmp_path: Path) -> None:
    """Home is looked at, the folder above it is not."""
    home = tmp_path / "home"
    below = home / "project"
    below.mkdir(parents=True)
    (tmp_path / "budgetroute.toml").write_text(BUDGET)
    with pytest.raises(ConfigError, match="no configuration found"):
        load_config(cwd=below, env={"HOME": str(home)})
    (home / "budgetroute.toml").write_text("[budget]\ndaily_usd = 3\n")
    assert load_config(cwd=below, env={"HOME": str(home)}).budget.daily_usd == 3.0


def test_without_home_and_repository_the_search_ends_at_the_root() -> None:
    """Outside of home and repositories all folders above are looked at."""
    folders = list(folders_upwards(Path("/nowhere/deep"), None))
    assert folders == [Path("/nowhere/deep"), Path("/nowhere"), Path("/")]


def test_pyproject_is_the_second_choice(folder: Folder) -> None:
    """[tool.budgetroute] is read, with its own header in errors, when no budgetroute.toml is there."""
    pyproject = folder.path / "pyproject.toml"
    pyproject.write_text("[tool.budgetroute.budget]\ndaily_usd = 4\n")
    config = folder.load()
    assert (config.budget.daily_usd, config.source) == (4.0, pyproject)
    assert config.origins["budget.daily_usd"] == "pyproject.toml"
    assert folder.load(BUDGET).budget.daily_usd == 25.0


def test_budgetroute_toml_above_wins_over_pyproject(folder: Folder) -> None:
    """A budgetroute.toml further up is preferred to a pyproject.toml nearby."""
    folder.file.write_text(BUDGET)
    below = folder.path / "src"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.budgetroute.budget]\ndaily_usd = 4\n")
    assert load_config(cwd=below, env={}).budget.daily_usd == 25.0


def test_pyproject_of_others_is_passed_by(folder: Folder) -> None:
    """A pyproject.toml without our table, even a broken one, does not stop the search."""
    (folder.path / "pyproject.toml").write_text("[tool.budgetroute.budget]\ndaily_usd = 4\n")
    below = folder.path / "src"
    below.mkdir()
    (below / "pyproject.toml").write_text('[project]\ndependencies = ["budgetroute"]\n')
    assert load_config(cwd=below, env={}).budget.daily_usd == 4.0
    (below / "pyproject.toml").write_text("not = = toml")
    assert load_config(cwd=below, env={}).budget.daily_usd == 4.0


def test_pyproject_errors_name_the_full_header(folder: Folder) -> None:
    """An error in pyproject.toml names the header as it stands there."""
    (folder.path / "pyproject.toml").write_text("[tool.budgetroute.budget]\ndaily_usd = -1\n")
    text = folder.error()
    assert str(folder.path / "pyproject.toml") in text
    assert "under [tool.budgetroute.budget]" in text


def test_tool_table_of_the_wrong_kind(folder: Folder) -> None:
    """`tool.budgetroute = 3` is refused."""
    (folder.path / "pyproject.toml").write_text("[tool]\nbudgetroute = 3\n")
    assert "`tool.budgetroute` is not a table" in folder.error()


def test_links_are_followed(folder: Folder, tmp_path: Path) -> None:
    """A link to a file is read; relative paths start where the link stands."""
    target = tmp_path / "elsewhere.toml"
    target.write_text(BUDGET + '[store]\npath = "state"\n')
    folder.file.symlink_to(target)
    config = folder.load()
    assert config.source == folder.file
    assert config.store.path == str(folder.path / "state")


def test_a_link_to_nothing_is_an_error(folder: Folder) -> None:
    """A dangling link is not silently passed by."""
    folder.file.symlink_to(folder.path / "gone.toml")
    text = folder.error()
    assert f"{folder.file} does not exist (a link to nothing)" in text


def test_files_of_others_are_refused(folder: Folder, monkeypatch) -> None:
    """A file found on the way up that belongs to another user is refused, with the way out."""
    folder.file.write_text(BUDGET)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    text = folder.error()
    assert f"{folder.file} was found on the way up but belongs to user id {me}" in text
    assert f"BUDGETROUTE_CONFIG={folder.file}" in text
    assert folder.load(env={"BUDGETROUTE_CONFIG": str(folder.file)}).budget.daily_usd == 25.0


def test_pyproject_of_others_is_refused_only_with_our_table(folder: Folder, monkeypatch) -> None:
    """Another user's pyproject.toml is refused when it would be used, else passed by."""
    pyproject = folder.path / "pyproject.toml"
    pyproject.write_text("[tool.budgetroute.budget]\ndaily_usd = 4\n")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert f"{pyproject} was found on the way up" in folder.error()
    pyproject.write_text("[project]\n")
    assert "no configuration found" in folder.error()


def test_no_file_says_where_it_looked(folder: Folder) -> None:
    """Without a file and a budget, the error names the folders, `init` and the variables."""
    below = folder.path / "src"
    below.mkdir()
    with pytest.raises(ConfigError) as caught:
        load_config(cwd=below, env={})
    text = str(caught.value)
    assert f"from {below} up to {folder.path}" in text
    assert "`budgetroute init` writes a budgetroute.toml" in text
    assert f"{DAILY}=25.0" in text
    assert "BUDGETROUTE_CONFIG" in text


def test_a_budget_in_the_environment_needs_no_file(folder: Folder) -> None:
    """daily_usd from the environment alone suffices."""
    config = folder.load(env={DAILY: "30"})
    assert config.budget.daily_usd == 30.0
    assert (config.source, config.folder, config.name) == (None, folder.path, "answer-service")


def test_a_budget_as_argument_needs_no_file(folder: Folder) -> None:
    """daily_usd as an argument alone suffices."""
    assert folder.load(overrides={"budget.daily_usd": 3}).budget.daily_usd == 3.0


def test_a_vanished_folder_is_told(tmp_path: Path) -> None:
    """A current folder that was deleted is an error in words."""
    code = (
        "import os, tempfile\n"
        "d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)\n"
        "from budgetroute.config import load_config\n"
        "from budgetroute.errors import ConfigError\n"
        "try: load_config()\n"
        "except ConfigError as err: print(err)\n"
    )
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(root), "PATH": "", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the current folder no longer exists" in done.stdout


# files that cannot be read


def test_a_named_file_must_exist(folder: Folder) -> None:
    """BUDGETROUTE_CONFIG and `path` must name a file; relative names start at the folder."""
    text = folder.error(env={"BUDGETROUTE_CONFIG": "other.toml"})
    assert f"{folder.path / 'other.toml'} does not exist" in text
    assert "`budgetroute init`" in text
    with pytest.raises(ConfigError, match="does not exist"):
        load_config("nope.toml", cwd=folder.path, env={})


def test_a_named_file_is_read(folder: Folder) -> None:
    """The argument wins over BUDGETROUTE_CONFIG, which wins over the search; `~` is home."""
    folder.file.write_text(BUDGET)
    (folder.home / "one.toml").write_text("[budget]\ndaily_usd = 1\n")
    (folder.home / "two.toml").write_text("[budget]\ndaily_usd = 2\n")
    env = {"HOME": str(folder.home), "BUDGETROUTE_CONFIG": "~/one.toml"}
    config = load_config(cwd=folder.path, env=env)
    assert (config.budget.daily_usd, config.origins["budget.daily_usd"]) == (1.0, "one.toml")
    named = load_config(folder.home / "two.toml", cwd=folder.path, env=env)
    assert named.budget.daily_usd == 2.0


def test_an_empty_budgetroute_config_is_unset(folder: Folder) -> None:
    """BUDGETROUTE_CONFIG set to nothing is as good as unset."""
    assert folder.load(BUDGET, env={"BUDGETROUTE_CONFIG": ""}).source == folder.file


def test_a_named_pyproject_needs_our_table(folder: Folder) -> None:
    """A pyproject.toml that is named must hold [tool.budgetroute]."""
    (folder.path / "pyproject.toml").write_text("[project]\n")
    text = folder.error(env={"BUDGETROUTE_CONFIG": "pyproject.toml"})
    assert f"{folder.path / 'pyproject.toml'} has no table [tool.budgetroute]" in text
    assert "[tool.budgetroute.budget]" in text


def test_a_directory_is_no_file(folder: Folder) -> None:
    """A directory in the file's place is refused, found or named."""
    folder.file.mkdir()
    assert f"{folder.file} is a directory, not a file" in folder.error()
    assert "is a directory" in folder.error(env={"BUDGETROUTE_CONFIG": str(folder.home)})


def test_a_pipe_is_no_file(folder: Folder) -> None:
    """A named pipe is refused instead of waited on."""
    os.mkfifo(folder.file)
    assert f"{folder.file} is a device or pipe" in folder.error()


def test_permission_denied_is_told(folder: Folder, monkeypatch) -> None:
    """A file that may not be read is an error with the remedy."""

    def denied(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    folder.file.write_text(BUDGET)
    monkeypatch.setattr("budgetroute.files.os.open", denied)
    text = folder.error()
    assert f"{folder.file} cannot be read: permission denied" in text
    assert f"chmod u+r {folder.file}" in text


def test_a_loop_of_links_is_told(folder: Folder) -> None:
    """Any other failure of reading names the file and the reason."""
    folder.file.symlink_to(folder.file)
    assert f"{folder.file} cannot be read: " in folder.error()


def test_a_huge_file_is_refused(folder: Folder) -> None:
    """More than a megabyte is no configuration; a megabyte is read."""
    padding = "#" * (1_000_000 - len(BUDGET))
    assert folder.load(BUDGET + padding).budget.daily_usd == 25.0
    text = folder.error(BUDGET + padding + "#")
    assert f"{folder.file} is larger than 1,000,000 bytes" in text


def test_not_utf8_is_told_with_its_line(folder: Folder) -> None:
    """A byte that is not UTF-8 is named with its line."""
    text = folder.error(b"# one\n# caf\xe9\n")
    assert f"{folder.file} is not UTF-8: byte 0xe9 in line 2. Save it as UTF-8." in text


def test_toml_errors_name_the_line(folder: Folder) -> None:
    """A syntax error names file and line."""
    text = folder.error("[budget]\ndaily_usd = \n")
    assert f"{folder.file} is not valid TOML" in text
    assert "at line 2" in text


@pytest.mark.parametrize("text", ["x = " + "[" * 50_000, "x = 1" + "0" * 5000])
def test_hostile_toml_is_a_config_error(folder: Folder, text) -> None:
    """Nesting and digits without end are refused in words, not with a traceback of the parser."""
    assert str(folder.file) in folder.error(text)


# unknown keys


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "[budget]\ndayly_usd = 3\n",
            [
                "unknown key `dayly_usd` in [budget]",
                "did you mean `daily_usd`? Allowed: daily_usd,",
            ],
        ),
        ("daily_usd = 3\n", ["unknown key `daily_usd`", "it belongs in [budget]"]),
        ("[budgets]\ndaily_usd = 3\n", ["unknown key `budgets`", "did you mean `budget`?"]),
        (
            f"{BUDGET}[pacing]\nshadow = 1\n",
            ["unknown key `shadow` in [pacing]", "Allowed: pacer,"],
        ),
        (
            f"{BUDGET}[models.gpt-4.1]\nn = 1\n",
            ["unknown key `1` in [models.gpt-4]", '[models."gpt-4.1"]'],
        ),
        (
            f"{BUDGET}[models.m]\nmax_token = 1\n",
            ["unknown key `max_token` in [models.m]", "did you mean `max_tokens`?"],
        ),
        (f"{BUDGET}[routes.r]\nmode = 'on'\n", ["unknown key `mode` in [routes.r]"]),
        (f"{BUDGET}source = '/x'\n", ["unknown key `source` in [budget]"]),
        ("origins = {}\n", ["unknown key `origins`", "Allowed: name, profile,"]),
        ("'' = 1\n", ['unknown key `""`']),
    ],
)
def test_unknown_keys_are_errors_with_a_hint(folder: Folder, text, parts) -> None:
    """An unknown key names its table, the file, the likely key and the allowed ones."""
    message = folder.error(text)
    assert str(folder.file) in message
    assert "Allowed: " in message
    for part in parts:
        assert part in message


# values


BAD = [
    (
        "[budget]\ndaily_usd = -1",
        "budget.daily_usd",
        "is -1; expected a number from 0 to 9,000,000",
    ),
    ("[budget]\ndaily_usd = nan", "budget.daily_usd", "is nan"),
    ("[budget]\ndaily_usd = inf", "budget.daily_usd", "is inf"),
    ("[budget]\ndaily_usd = 1e8", "budget.daily_usd", "is 100000000.0"),
    ("[budget]\ndaily_usd = true", "budget.daily_usd", "is the boolean true"),
    ("[budget]\ndaily_usd = '25'", "budget.daily_usd", 'is the string "25"'),
    ("[budget]\ndaily_usd = []", "budget.daily_usd", "is an empty list"),
    ("[budget]\ndaily_usd = {}", "budget.daily_usd", "is an empty table"),
    ("[budget]\ndaily_usd = 1" + "0" * 400, "budget.daily_usd", "too many digits"),
    (f"{BUDGET}reset_hour = 24", "budget.reset_hour", "expected a whole number from 0 to 23"),
    (f"{BUDGET}reset_hour = 1.0", "budget.reset_hour", "is 1.0"),
    (f"{BUDGET}on_exhausted = 'wait'", "budget.on_exhausted", '"degrade" or "raise"'),
    (f"{BUDGET}calls_per_day = 0", "budget.calls_per_day", "expected a number above 0"),
    (f"{BUDGET}weekly_usd = -3", "budget.weekly_usd", "is -3"),
    (f"{BUDGET}monthly_usd = nan", "budget.monthly_usd", "is nan"),
    (f"{BUDGET}timezone = ''", "budget.timezone", "is an empty string"),
    (f"{BUDGET}timezone = 1979-05-27", "budget.timezone", "is 1979-05-27"),
    ("mode = 'of'", "mode", "did you mean `off`?"),
    ("strict = 1", "strict", "is 1; expected true or false"),
    ("strict = 'true'", "strict", 'is the string "true"'),
    ("name = 'Ab c'", "name", "beginning with a letter or digit"),
    ("profile = ''", "profile", "expected a non-empty string"),
    ("unknown_capability = true", "unknown_capability", 'expected "allow" or "deny"'),
    ("budget = 25", "budget", "is 25; expected a table"),
    ("models = []", "models", "is an empty list; expected a table"),
    ("[[budget]]\ndaily_usd = 1", "budget", "is a list of tables or lists; expected a table"),
    ("[models]\nm = 3", "models.m", "is 3; expected a table"),
    ('[models."gpt-4.1"]\nn = 0', 'models."gpt-4.1".n', "is 0"),
    ('[models.""]', 'models.""', "has no name"),
    ("[models.m]\nmax_tokens = []", "models.m.max_tokens", "is an empty list"),
    ("[models.m]\nmax_tokens = 0", "models.m.max_tokens", "is 0; expected a whole number from 1"),
    ("[models.m]\nmax_tokens = [256, -1]", "models.m.max_tokens", "is the list [256, -1]"),
    ("[models.m]\nmax_tokens = [256, 256]", "models.m.max_tokens", "lists 256 twice"),
    ("[models.m]\nmax_tokens = true", "models.m.max_tokens", "is the boolean true"),
    ("[models.m]\nmax_tokens = 256.0", "models.m.max_tokens", "is 256.0"),
    ("[models.m]\nmax_tokens = ['256']", "models.m.max_tokens", 'is the list ["256"]'),
    ("[models.m]\ncot = 'yes'", "models.m.cot", "true or false, or a list of such values"),
    ("[models.m]\ncot = [true, true]", "models.m.cot", "lists the boolean true twice"),
    ("[models.m]\nreasoning_effort = ''", "models.m.reasoning_effort", "is an empty string"),
    ("[models.m]\ntemperature = 3", "models.m.temperature", "a number from 0 to 2"),
    ("[models.m]\ntemperature = [0, 0.0]", "models.m.temperature", "lists 0.0 twice"),
    ("[models.m]\ntemperature = nan", "models.m.temperature", "is nan"),
    ("[models.m]\nparams = 3", "models.m.params", "expected a table"),
    ("[models.m]\nparams = { a = [1, inf] }", "models.m.params", "is a table; expected a table"),
    ("[models.m]\nprice = 'fre'", "models.m.price", "did you mean `free`?"),
    ("[models.m]\nprice = 0", "models.m.price", 'is 0; expected a table or "free"'),
    ("[models.m]\nprice = { input = nan }", "models.m.price", "is a table"),
    ("[models.m]\ntags = 'eu'", "models.m.tags", "expected a list of strings"),
    ("[models.m]\nimage_tokens = 0", "models.m.image_tokens", "is 0"),
    ("[models.m]\ntoken_ratio = 0", "models.m.token_ratio", "expected a number above 0"),
    ("[models.m]\nenabled = 'no'", "models.m.enabled", "expected true or false"),
    ("[types.t]\nmodels = []", "types.t.models", "expected a list (not empty) of strings"),
    ("[types.t]\nvalue = -1", "types.t.value", "expected a number of at least 0"),
    ("[routes.r]\nfloor = 1.5", "routes.r.floor", "expected a number from 0 to 1"),
    ("[routes.r]\nfloor = true", "routes.r.floor", "is the boolean true"),
    ("[routes.r]\ninput_tokens = -1", "routes.r.input_tokens", "is -1"),
    ("[routes.r]\nproviders = []", "routes.r.providers", "is an empty list"),
    ("[routes.r]\nallow = []", "routes.r.allow", "is an empty list"),
    ("[routes.r]\ntimeout_s = 0", "routes.r.timeout_s", "expected a number above 0"),
    ("[pacing]\neta = 0", "pacing.eta", "expected a number above 0"),
    ("[pacing]\neta = inf", "pacing.eta", "is inf"),
    ("[pacing]\nalpha = 1", "pacing.alpha", "of at least 0 and below 1"),
    ("[pacing]\nalpha = -0.1", "pacing.alpha", "is -0.1"),
    ("[pacing]\nperiod = '5 min'", "pacing.period", 'is the string "5 min"'),
    ("[pacing]\nperiod = '0s'", "pacing.period", "expected a number from 1 to 86,400 or a text"),
    ("[pacing]\nperiod = 0.5", "pacing.period", "is 0.5"),
    ("[pacing]\nperiod = true", "pacing.period", "is the boolean true"),
    ("[pacing]\nwarmup_periods = -1", "pacing.warmup_periods", "is -1"),
    ("[pacing]\nlambda_min = -1", "pacing.lambda_min", "is -1"),
    ("[pacing]\nlambda_max = inf", "pacing.lambda_max", "is inf"),
    ("[pacing]\nstep = 'mult'", "pacing.step", '"multiplicative" or "raw" or "relative"'),
    ("[pacing]\ntarget = 'forcast'", "pacing.target", "did you mean `forecast`?"),
    ("[pacing]\nmix = 0", "pacing.mix", "expected true or false"),
    ("[store]\non_store_error = 'closed'", "store.on_store_error", '"open" or "raise"'),
    ("[store]\npath = 3", "store.path", "is 3"),
    ("[classify]\nrules = [3]", "classify.rules", "expected a list of tables"),
    ("[classify]\nhard_types = 1", "classify.hard_types", "expected true or false"),
]


@pytest.mark.parametrize(("text", "key", "problem"), BAD, ids=[row[0][-40:] for row in BAD])
def test_bad_values_are_named(folder: Folder, text, key, problem) -> None:
    """A bad value's error names file, dotted key, what was found, and what to write."""
    message = folder.error(text)
    assert message.startswith(f"{folder.file}: `{key}` ")
    assert problem in message
    assert "Write " in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[store]\nurl = 'redis://h:6379/0'", "redis stores are not in this version"),
    ],
)
def test_what_comes_later_is_refused_with_the_reason(folder: Folder, text, why) -> None:
    """Values of later versions are refused by saying so, not as typing errors."""
    whole = text if text.startswith("mode") else f"{BUDGET}{text}"
    message = folder.error(whole)
    assert why in message
    assert "Write" in message


def test_advice_can_be_pasted(folder: Folder) -> None:
    """The line that an error proposes is one that loads."""
    message = folder.error("[budget]\ndaily_usd = -1\n")
    line = message.split("`")[3]
    assert line == "daily_usd = 25.0"
    assert folder.load(f"[budget]\n{line}\n").budget.daily_usd == 25.0


def test_a_missing_budget_names_the_file_and_the_line(folder: Folder) -> None:
    """A file without daily_usd is refused with the line to write."""
    message = folder.error("[budget]\n")
    assert message.startswith(f"{folder.file}: `budget.daily_usd` is missing")
    assert "`daily_usd = 25.0` under [budget]" in message
    assert f"{DAILY}=25.0" in message


# rules between keys


@pytest.mark.parametrize(
    ("text", "key", "problem", "advice"),
    [
        (
            "on_exhausted = 'degrade'",
            "budget.on_exhausted",
            "`hard_usd` is missing",
            "hard_usd = 30",
        ),
        ("hard_usd = 30", "budget.hard_usd", 'on_exhausted is "raise"', 'on_exhausted = "degrade"'),
        (
            "on_exhausted = 'degrade'\nhard_usd = 24.5",
            "budget.hard_usd",
            "is 24.5, less than daily_usd = 25",
            "hard_usd = 30",
        ),
        (
            "[pacing]\nlambda_min = 3\nlambda_max = 1",
            "pacing.lambda_min",
            "is 3, above lambda_max = 1",
            "Lower lambda_min",
        ),
        (
            "[pacing]\nlambda_min = 3\ninitial_lambda = 1",
            "pacing.initial_lambda",
            "is 1, below lambda_min = 3",
            "Write 3 or more",
        ),
        (
            "[pacing]\nlambda_max = 3\ninitial_lambda = 4",
            "pacing.initial_lambda",
            "is 4, above lambda_max = 3",
            "Write 3 or less",
        ),
        (
            "[models.gpt-a]\n[types.t]\nmodels = ['gpt-b']",
            "types.t.models",
            'names the string "gpt-b", which has no table in [models]; did you mean `gpt-a`?',
            "Add [models.gpt-b]",
        ),
        (
            "[models.m]\n[routes.r]\nallow = ['x']",
            "routes.r.allow",
            'names the string "x"',
            "Known models: m.",
        ),
        (
            "[models.m]\n[routes.r]\ndeny = ['x']",
            "routes.r.deny",
            'names the string "x"',
            "Known models: m.",
        ),
        (
            "[routes.r]\nallow = ['x', 'y']\ndeny = ['y']",
            "routes.r.deny",
            'names the string "y", which `allow` names too',
            "one of the two lists",
        ),
        (
            "[store]\npath = 'x'\nurl = 'memory:'",
            "store.url",
            "stands beside `store.path`",
            "one of the two",
        ),
    ],
)
def test_rules_between_keys(folder: Folder, text, key, problem, advice) -> None:
    """Keys that contradict each other are named with what to change."""
    message = folder.error(f"{BUDGET}{text}\n")
    assert message.startswith(f"{folder.file}: `{key}` ")
    assert problem in message
    assert advice in message


def test_equal_bounds_are_allowed(folder: Folder) -> None:
    """Rules compare with ≤: equal caps and equal bounds are fine."""
    text = (
        f"{BUDGET}on_exhausted = 'degrade'\nhard_usd = 25\n"
        "[pacing]\nlambda_min = 3\nlambda_max = 3\ninitial_lambda = 3\n"
    )
    config = folder.load(text)
    assert config.budget.hard_usd == config.budget.daily_usd
    assert config.pacing.lambda_min == config.pacing.lambda_max


def test_names_are_free_without_models(folder: Folder) -> None:
    """Without [models] the profile decides what there is, so any name may be listed."""
    config = folder.load(f"{BUDGET}[types.t]\nmodels = ['anything']\n")
    assert config.types["t"].models == ("anything",)


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("Europe/Pariss", "Europe/Paris"),
        ("europe/paris", "Europe/Paris"),
        ("paris", "Europe/Paris"),
        ("new york", "America/New_York"),
        ("Europe", "Europe/"),
    ],
)
def test_bad_time_zones_get_close_matches(folder: Folder, zone, near) -> None:
    """An unknown time zone is refused with the zones it may have meant."""
    message = folder.error(f"{BUDGET}timezone = '{zone}'\n")
    assert f'`budget.timezone` is the string "{zone}"; expected an IANA time zone' in message
    assert f"close matches: {near}" in message


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/localtime", "a\\u0000b", "."])
def test_time_zones_are_no_paths(folder: Folder, zone) -> None:
    """A time zone that is a path is refused like any unknown one."""
    message = folder.error(f'{BUDGET}timezone = "{zone}"\n')
    assert "expected an IANA time zone" in message


def test_a_machine_without_zones_is_told_what_to_install(folder: Folder, monkeypatch) -> None:
    """Without a time zone database the error says how to get one, and UTC works all the same."""

    def unknown(key: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(key)

    monkeypatch.setattr("budgetroute.config.budget.ZoneInfo", unknown)
    monkeypatch.setattr("budgetroute.config.checks.available_timezones", set)
    message = folder.error(f"{BUDGET}timezone = 'Europe/Paris'\n")
    assert "`budget.timezone`" in message
    assert "pip install tzdata" in message
    assert folder.load(BUDGET).budget.zone is UTC


# the store


def test_default_store_respects_xdg(folder: Folder) -> None:
    """The default store lies in XDG_STATE_HOME, else below home; a relative one is ignored."""
    assert folder.load(BUDGET).store.path == str(folder.home / ".local/state/budgetroute")
    config = folder.load(BUDGET, env={"XDG_STATE_HOME": "/var/state"})
    assert config.store.path == "/var/state/budgetroute"
    config = folder.load(BUDGET, env={"XDG_STATE_HOME": "relative"})
    assert config.store.path == str(folder.home / ".local/state/budgetroute")
    assert config.origins["store.path"] == "default"


def test_tilde_is_home(folder: Folder) -> None:
    """`~` in the store's path is the home of the environment that was given."""
    config = folder.load(f"{BUDGET}[store]\npath = '~/state'\n")
    assert config.store.path == str(folder.home / "state")


def test_a_home_that_is_not_known_is_told(folder: Folder, monkeypatch) -> None:
    """Where no home folder is known, a path that needs one is refused with the remedy."""

    def unknown(_cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    assert "~nobody.here/x: no home folder is known" in folder.error(
        f"{BUDGET}[store]\npath = '~nobody.here/x'\n"
    )
    monkeypatch.setattr(Path, "home", classmethod(unknown))
    text = f"{BUDGET}[store]\npath = 'state'\n"
    assert folder.load(text, env={"HOME": ""}).store.path == str(folder.path / "state")


def test_memory_store(folder: Folder) -> None:
    """`url = "memory:"` leaves no path."""
    store = folder.load(f"{BUDGET}[store]\nurl = 'memory:'\n").store
    assert (store.url, store.path) == ("memory:", None)


def test_a_later_layer_swaps_path_and_url(folder: Folder) -> None:
    """The environment's url takes the place of the file's path, and the other way round."""
    path = f"{BUDGET}[store]\npath = 'x'\n"
    store = folder.load(path, env={"BUDGETROUTE_STORE_URL": "memory:"}).store
    assert (store.url, store.path) == ("memory:", None)
    url = f"{BUDGET}[store]\nurl = 'memory:'\n"
    store = folder.load(url, env={"BUDGETROUTE_STORE_PATH": "/x"}).store
    assert (store.url, store.path) == (None, "/x")
    store = folder.load(url, overrides={"store.path": Path("/y")}).store
    assert (store.url, store.path) == (None, "/y")


def test_store_url_is_filled_from_the_environment(folder: Folder) -> None:
    """`${NAME}` in store.url is replaced."""
    text = f"{BUDGET}[store]\nurl = '${{KIND}}:'\n"
    assert folder.load(text, env={"KIND": "memory"}).store.url == "memory:"


def test_a_missing_variable_of_the_url_is_named(folder: Folder) -> None:
    """`${NAME}` without a variable of that name is refused."""
    message = folder.error(f"{BUDGET}[store]\nurl = '${{STORE}}'\n")
    assert f"{folder.file}: `store.url` names ${{STORE}}, which is not set" in message
    assert "Set STORE" in message


def test_other_keys_are_not_filled_in(folder: Folder) -> None:
    """`${NAME}` elsewhere stays as it is written."""
    assert folder.load("profile = '${X}'\n" + BUDGET, env={"X": "y"}).profile == "${X}"


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("redis://me:s3cret@host:6379/0", "redis"),
        ("redis://:s3cret@host", "redis"),
        ("rediss://me:p@s3cret@host/0?x=1", "rediss"),
        ("redis://host/0?password=s3cret&db=1", "redis"),
        ("postgres://me:s3cret@host/db", "no store has such an address"),
        ("redis://me:${WORD}@host", "redis"),
        ("${ADDRESS}", "redis"),
    ],
)
def test_secrets_of_the_store_are_never_echoed(folder: Folder, url, scheme) -> None:
    """Passwords in store.url, written or filled in, appear in no error."""
    secrets = {"WORD": "s3cret", "ADDRESS": "redis://me:s3cret@host"}
    message = folder.error(f"{BUDGET}[store]\nurl = '{url}'\n", env=secrets)
    assert "s3cret" not in message
    assert scheme in message
    assert str(folder.file) in message
    assert "`store.url`" in message
    named = folder.error(BUDGET, env={**secrets, "BUDGETROUTE_STORE_URL": url})
    assert "s3cret" not in named
    assert "BUDGETROUTE_STORE_URL" in named


@given(st.text(alphabet=string.ascii_letters + string.digits + "@:/?#%", min_size=8))
def test_masked_urls_hold_no_password(password: str) -> None:
    """Whatever characters a password has, masking removes it."""
    assert password not in masked(f"redis://user:{password}@h")


@pytest.mark.parametrize("key", ["api_key", "client_secret", "password", "Authorization"])
def test_secrets_in_wrong_places_are_not_echoed(folder: Folder, key) -> None:
    """A value under a secret's name is kept out of errors wherever it stands."""
    for text in (
        f"{BUDGET}[models.m]\n{key} = 's3cret'\n",
        f"{BUDGET}[models.m]\nparams = [{{ {key} = 's3cret' }}]\n",
        f"{BUDGET}[models]\n{key} = 's3cret'\n",
    ):
        assert "s3cret" not in folder.error(text)


# environment


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        (DAILY, "30", "budget.daily_usd", 30.0),
        (DAILY, " 0.5 ", "budget.daily_usd", 0.5),
        ("BUDGETROUTE_BUDGET_RESET_HOUR", "4", "budget.reset_hour", 4),
        ("BUDGETROUTE_BUDGET_TIMEZONE", "Asia/Tokyo", "budget.timezone", "Asia/Tokyo"),
        ("BUDGETROUTE_MODE", "off", "mode", "off"),
        ("BUDGETROUTE_NAME", "other", "name", "other"),
        ("BUDGETROUTE_PROFILE", "null", "profile", "null"),
        ("BUDGETROUTE_STRICT", "1", "strict", True),
        ("BUDGETROUTE_STRICT", "False", "strict", False),
        ("BUDGETROUTE_PACING_ETA", "0.2", "pacing.eta", 0.2),
        ("BUDGETROUTE_PACING_PERIOD", "10m", "pacing.period", 600.0),
        ("BUDGETROUTE_PACING_PERIOD", "60", "pacing.period", 60.0),
        ("BUDGETROUTE_PACING_WARMUP_PERIODS", "0", "pacing.warmup_periods", 0),
        ("BUDGETROUTE_PACING_MIX", "no", "pacing.mix", False),
        ("BUDGETROUTE_STORE_PATH", "/x", "store.path", "/x"),
        ("BUDGETROUTE_CLASSIFY_HARD_TYPES", "true", "classify.hard_types", True),
    ],
)
def test_variables_override_the_file(folder: Folder, name, text, key, value) -> None:
    """A variable is parsed as its key's type, wins over the file, and is named as the origin."""
    config = folder.load(
        f'name = "x"\nprofile = "p"\nmode = "on"\n{BUDGET}timezone = "UTC"\n[pacing]\nperiod = 5\n',
        env={name: text},
    )
    found: object = config
    for part in key.split("."):
        found = getattr(found, part)
    assert (found, type(found)) == (value, type(value))
    assert config.origins[key] == f"env {name}"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (DAILY, "abc", '`budget.daily_usd` is the string "abc"; expected a number from 0'),
        (DAILY, "", "is an empty string"),
        (DAILY, "-1", "is -1.0"),
        (DAILY, "nan", "is nan"),
        (DAILY, "1e999", "is inf"),
        (DAILY, "null", 'is the string "null"'),
        (DAILY, "true", 'is the string "true"'),
        ("BUDGETROUTE_BUDGET_HARD_USD", "null", 'is the string "null"'),
        ("BUDGETROUTE_BUDGET_RESET_HOUR", "4.5", 'is the string "4.5"'),
        ("BUDGETROUTE_STRICT", "maybe", '`strict` is the string "maybe"; expected true or false'),
        ("BUDGETROUTE_MODE", "shade", '`mode` is the string "shade"'),
        ("BUDGETROUTE_PACING_PERIOD", "5min", 'is the string "5min"'),
        ("BUDGETROUTE_BUDGET_TIMEZONE", "Mars/Base", "expected an IANA time zone"),
    ],
)
def test_bad_variables_are_named(folder: Folder, name, text, problem) -> None:
    """A bad variable's error names the variable, the key, what was found and what to set."""
    message = folder.error(BUDGET, env={name: text})
    assert message.startswith(f"environment variable {name}: ")
    assert problem in message
    assert f"Set for example {name}=" in message


def test_unknown_variables_are_errors(folder: Folder) -> None:
    """An unknown BUDGETROUTE_ variable is refused with the likely one."""
    message = folder.error(BUDGET, env={"BUDGETROUTE_DAILY_USD": "3"})
    assert "unknown environment variable BUDGETROUTE_DAILY_USD; did you mean" in message
    assert f"`{DAILY}`?" in message
    assert "BUDGETROUTE_LOG" in message


@pytest.mark.parametrize("name", ["MODELS_GPT4_N", "TYPES_CODE_VALUE", "ROUTES_ANSWER_FLOOR"])
def test_tables_are_not_set_by_variables(folder: Folder, name) -> None:
    """Models, types and routes belong in the file, and the error says so."""
    message = folder.error(BUDGET, env={f"BUDGETROUTE_{name}": "1"})
    assert "cannot be set by the environment" in message
    assert f"BUDGETROUTE_{name}" in message


@pytest.mark.parametrize(
    "name",
    [
        "BUDGETROUTE_LOG",
        "BUDGETROUTE_SERVICE_HOST",
        "BUDGETROUTE_PORT",
        "BUDGETROUTE_PORT_80_TCP_ADDR",
        "BUDGETROUTE_DB_SERVICE_PORT_HTTP",
        "budgetroute_x",
        "OTHER",
    ],
)
def test_foreign_variables_are_left_alone(folder: Folder, name) -> None:
    """The log's variable and the links a cluster puts beside a service are no errors."""
    assert folder.load(BUDGET, env={name: "x"}).budget.daily_usd == 25.0


def test_every_plain_key_has_a_variable() -> None:
    """Every key of a fixed table that takes one value can be set by the environment."""
    paths = {path for path, _ in variables().values()}
    assert ("budget", "daily_usd") in paths
    assert ("classify", "rules") not in paths
    assert len(paths) == 31


@pytest.mark.parametrize(
    ("text", "off"),
    [("1", True), ("true", True), ("YES", True), ("0", False), ("false", False), ("", False)],
)
def test_disable_turns_off(folder: Folder, text, off) -> None:
    """BUDGETROUTE_DISABLE wins over file and arguments."""
    env = {"BUDGETROUTE_DISABLE": text}
    config = folder.load(BUDGET, env=env, overrides={"mode": "on"})
    assert (config.mode == "off") is off is is_disabled(env)
    assert config.origins["mode"] == ("env BUDGETROUTE_DISABLE" if off else "argument")


def test_disable_must_be_clear(folder: Folder) -> None:
    """A BUDGETROUTE_DISABLE that is neither yes nor no is refused."""
    message = folder.error(BUDGET, env={"BUDGETROUTE_DISABLE": "maybe"})
    assert 'environment variable BUDGETROUTE_DISABLE is the string "maybe"' in message
    assert "BUDGETROUTE_DISABLE=1" in message


def test_off_needs_no_budget(folder: Folder) -> None:
    """With routing off, a missing file or budget is no error; the budget is then 0."""
    assert folder.load(env={"BUDGETROUTE_DISABLE": "1"}).budget.daily_usd == 0.0
    config = folder.load('mode = "off"\n')
    assert (config.budget.daily_usd, config.origins["budget.daily_usd"]) == (0.0, "default")


# arguments


def test_arguments_win_over_all(folder: Folder) -> None:
    """An argument wins over the environment and the file."""
    config = folder.load(BUDGET, env={DAILY: "30"}, overrides={"budget.daily_usd": 40})
    assert config.budget.daily_usd == 40.0
    assert config.origins["budget.daily_usd"] == "argument"


def test_arguments_merge_into_tables(folder: Folder) -> None:
    """Dotted keys, quoted names and whole tables change only what they name."""
    config = folder.load(
        f'{BUDGET}[models."gpt-4.1"]\nn = 2\ntags = ["eu"]\n',
        overrides={
            'models."gpt-4.1".n': (1, 3),
            "models.new": {},
            "routes": {"answer": {"floor": 0.5}},
            "budget.calls_per_day": Decimal(10),
            "pacing.eta": None,
        },
    )
    assert config.models["gpt-4.1"] == ModelConfig(n=(1, 3), tags=("eu",))
    assert config.models["new"] == ModelConfig()
    assert config.routes["answer"].floor == 0.5
    assert config.budget.calls_per_day == 10.0
    assert config.pacing.eta is None
    assert config.origins['models."gpt-4.1".n'] == "argument"
    assert config.origins['models."gpt-4.1".tags'] == "budgetroute.toml"
    assert config.origins["pacing.eta"] == "default"


@pytest.mark.parametrize("name", ["", ".", "a..b", "budget.", ".budget", 'models."x', 'a"b".c'])
def test_broken_dotted_keys_are_refused(folder: Folder, name) -> None:
    """A key that cannot be split is refused with an example."""
    message = folder.error(BUDGET, overrides={name: 1})
    assert f"{name!r} is not a dotted key" in message
    assert "'budget.daily_usd'" in message


def test_bad_arguments_are_named(folder: Folder) -> None:
    """A bad argument's error says that it was one and shows the form."""
    message = folder.error(BUDGET, overrides={"budget.daily_usd": float("nan")})
    assert message.startswith("the arguments of load_config: `budget.daily_usd` is nan")
    assert "overrides={'budget.daily_usd': 25.0}" in message
    message = folder.error(BUDGET, overrides={"budget.daily": 3})
    assert "unknown key `daily` in [budget] of the arguments of load_config" in message
    message = folder.error(BUDGET, overrides={"models.gpt-4.1.n": 3})
    assert '[models."gpt-4.1"]' in message


@given(st.lists(st.text(string.printable, min_size=1), min_size=1, max_size=3))
def test_dotted_keys_of_origins_are_unambiguous(path: list[str]) -> None:
    """Two key paths never share a dotted key."""
    joined = dotted(path)
    assert joined != dotted([*path[:-1], path[-1] + ".x"])
    assert joined != dotted([*path, "x"])


# origins


def test_origins_name_every_key(folder: Folder) -> None:
    """Each key that holds has its origin: file, variable, argument or default."""
    config = folder.load(
        f"{BUDGET}[models.m]\nn = 1\n",
        env={"BUDGETROUTE_PROFILE": "p"},
        overrides={"strict": True},
    )
    assert config.origins["budget.daily_usd"] == "budgetroute.toml"
    assert config.origins["models.m.n"] == "budgetroute.toml"
    assert config.origins["models.m.cot"] == "default"
    assert config.origins["profile"] == "env BUDGETROUTE_PROFILE"
    assert config.origins["strict"] == "argument"
    assert config.origins["pacing.step"] == "default"
    assert "classify.rules" in config.origins


def test_effective_shows_what_holds(folder: Folder) -> None:
    """`effective` lists key, value and origin, leaves out what is unset, and masks secrets."""
    folder.file.write_text(
        f"{BUDGET}[models.m]\nparams = {{ api_key = 's3cret', top_p = 1, urls = ['http://a:s3cret@h'] }}\n"
    )
    config = folder.load(env={"BUDGETROUTE_CONFIG": str(folder.file)})
    rows = {key: (value, origin) for key, value, origin in effective(config)}
    assert rows["budget.daily_usd"] == ("25.0", "budgetroute.toml")
    assert rows["pacing.mix"] == ("true", "default")
    assert rows["models.m.params"][0] == ('{ api_key = "***", top_p = 1, urls = ["http://***@h"] }')
    assert "pacing.eta" not in rows
    assert "models.m.max_tokens" not in rows


# the import


def test_import_is_light() -> None:
    """Importing the package loads none of the heavy libraries."""
    code = (
        "import sys, budgetroute.config\n"
        "heavy = {'numpy', 'litellm', 'sklearn', 'openai', 'tiktoken', 'diskcache', 'difflib'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
