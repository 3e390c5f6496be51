"""`budgetroute doctor`: what it checks, and when it fails."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import STORE, Answer, cli, cli_at, project
from helpers.world import MODELS, TINY, asked

from budgetroute.backends import versions as installed
from budgetroute.cli import setting
from budgetroute.config.show import effective
from budgetroute.records import Usage


def opened(world, **more):
    return world.router(more=more.pop("more", STORE), **more)


def diagnosed(world, *args, **more) -> dict:
    """The report of a world as JSON."""
    return cli_at(world, "doctor", "--json", *args, **more).json


def texts(section: dict, level: str) -> str:
    return " | ".join(check["text"] for check in section["checks"] if check["level"] == level)


def test_a_sound_set_up_is_exit_code_0(disk_world):
    """With everything in place, doctor says so and exits with 0."""
    opened(disk_world)
    answer = cli_at(disk_world, "doctor")
    assert answer.code == 0
    assert "ready to run" in answer.line


def test_every_value_has_its_origin(disk_world):
    """The configuration is listed whole, each value with where it came from."""
    config = opened(disk_world).config
    said = diagnosed(disk_world, BUDGETROUTE_STRICT="true")["config"]
    origins = {row["key"]: row["origin"] for row in said["values"]}
    assert origins.keys() == {key for key, _, _ in effective(config)}
    assert origins["budget.daily_usd"] == "budgetroute.toml"
    assert origins["strict"] == "env BUDGETROUTE_STRICT"
    assert origins["mode"] == "default"
    assert said["source"] == str(config.source)
    assert Path(said["schema"]).is_file()


def test_without_a_configuration_it_says_what_is_missing(tmp_path, monkeypatch):
    """In an empty folder doctor names what to run, checks the software and exits with 1."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    answer = cli("doctor")
    assert answer.code == 1
    assert "budgetroute init" in answer.line
    assert "litellm" in answer.line


def test_a_broken_configuration_is_reported(tmp_path):
    """An unknown key is a failed check with its suggestion, not a crash."""
    path = project(tmp_path, "[budget]\ndayly_usd = 1\n")
    answer = cli("doctor", "--config", path, "--json")
    assert answer.code == 1
    assert "did you mean `daily_usd`" in texts(answer.json["config"], "fail")
    assert answer.json["ok"] is False


def test_prices_are_shown_per_million(disk_world):
    """Each model has its price in dollars per million tokens, and where that is from."""
    opened(disk_world)
    models = {row["name"]: row for row in diagnosed(disk_world)["prices"]["models"]}
    assert models["mid"]["input_usd_per_million"] == 1.0
    assert models["mid"]["output_usd_per_million"] == 4.0
    assert models["mid"]["source"] == "config"
    assert "$40.00" in cli_at(disk_world, "doctor").line


def test_an_unpriced_model_fails_with_the_line_to_write(disk_world):
    """A model without a price fails the check and is told how to price it."""
    opened(disk_world)
    file = disk_world.folder / "budgetroute.toml"
    file.write_text(file.read_text() + '[models."unheard-of"]\nlike = "small"\n')
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "price = {" in texts(answer.json["prices"], "fail")
    assert "'unheard-of' has a price" in texts(answer.json["sendable"], "fail")


def test_a_model_past_its_retirement_is_a_warning(disk_world):
    """A retirement date that has passed is told; one to come is only listed."""
    opened(disk_world, models=MODELS + '[models.gone]\nlike = "small"\nprice_as = "gpt-4o-mini"\n')
    retires = next(
        row["deprecated_on"]
        for row in diagnosed(disk_world)["prices"]["models"]
        if row["name"] == "gone"
    )
    assert "retired" not in texts(diagnosed(disk_world)["prices"], "warn")
    disk_world.pass_time(days=3000)
    assert f"retired on {retires}" in texts(diagnosed(disk_world)["prices"], "warn")


def test_a_free_model_is_said_to_be_free(disk_world):
    """`price = "free"` shows as free, not as a price of the map."""
    opened(disk_world, models='[models.small]\nprice = "free"\n')
    (model,) = diagnosed(disk_world)["prices"]["models"]
    assert (model["source"], model["output_usd_per_million"]) == ("free", 0.0)


def test_the_profile_is_described(disk_world):
    """Name, date, types, models and actions of the profile are those of the file."""
    opened(disk_world)
    said = diagnosed(disk_world)["profile"]
    assert (said["name"], said["created"]) == ("tiny", "2026-03-04")
    assert said["types"] == ["chat", "general", "math"]
    assert said["models"] == ["small", "mid", "large"]
    assert said["actions"] == 5
    assert "no text classifier" in texts(said, "warn")


def test_lint_findings_are_gathered(disk_world):
    """What many actions have in common is one line on the screen and all lines in JSON."""
    thin = {name: tuple(replace(c, n=3) for c in row) for name, row in TINY.cells.items()}
    disk_world.profile = replace(TINY, cells=thin)
    opened(disk_world)
    said = diagnosed(disk_world)["profile"]
    lines = [line for line in said["lint"] if "fewer than" in line]
    assert len(lines) == 3
    assert texts(said, "warn").count("fewer than") == 1


def test_a_missing_profile_fails(disk_world):
    """A profile that is not there is one failed check; the rest is still looked at."""
    opened(disk_world)
    (disk_world.folder / "tiny.json").unlink()
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "tiny.json" in texts(answer.json["profile"], "fail")
    assert answer.json["prices"]["models"]
    assert "sendable" not in answer.json
    assert answer.json["store"]


def test_a_route_with_its_own_profile_is_looked_at(disk_world):
    """Profiles of routes are checked too."""
    opened(disk_world)
    file = disk_world.folder / "budgetroute.toml"
    file.write_text(file.read_text() + '[routes.answer]\nprofile = "own.json"\n')
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "own.json" in texts(answer.json["profile:own.json"], "fail")


def test_providers_say_how_they_are_reached(disk_world):
    """Models are listed by provider, with whether a client of its own or only litellm reaches it."""
    models = (
        '[models.small]\nprice_as = "gpt-4o-mini"\n'
        '[models.large]\nprovider = "anthropic"\nprice = { input = 3, output = 15 }\n'
    )
    opened(disk_world, models=models)
    providers = diagnosed(disk_world)["sendable"]["providers"]
    assert providers["openai"] == {"models": ["small"], "own_client": True, "litellm": True}
    assert providers["anthropic"] == {"models": ["large"], "own_client": False, "litellm": True}
    assert "one client serves one provider" in cli_at(disk_world, "doctor").line


# the store


def test_a_store_that_is_not_there_yet_is_not_made(disk_world):
    """doctor says where the ledger will be, and makes nothing."""
    opened(disk_world)
    said = diagnosed(disk_world)["store"]
    assert said["exists"] is False
    assert "will be made at the first call" in texts(said, "ok")
    assert not (disk_world.folder / "ledger").exists()


def test_a_ledger_is_counted(disk_world):
    """Calls and days of the app, and the newest entry, are those of the ledger."""
    router = opened(disk_world)
    for _ in range(3):
        router.settle(router.decide(asked()), [Usage(200, 50)])
    disk_world.pass_time(days=1)
    router.settle(router.decide(asked()), [Usage(200, 50)])
    said = diagnosed(disk_world)["store"]
    assert (said["calls"], said["days"]) == (4, 2)
    assert said["newest"] == "2026-03-05T12:00:00+00:00"


def test_a_folder_open_to_others_is_a_warning(disk_world):
    """Rights for other users on the store's folder are told with the command that takes them."""
    folder = disk_world.folder / "ledger"
    folder.mkdir()
    folder.chmod(0o755)
    opened(disk_world)
    assert f"chmod 700 {folder}" in texts(diagnosed(disk_world)["store"], "warn")


def test_a_file_in_the_stores_place_fails(disk_world):
    """A file where the folder should be is a failed check."""
    (disk_world.folder / "ledger").write_text("")
    opened(disk_world)
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "is not a folder" in texts(answer.json["store"], "fail")


@pytest.mark.parametrize(
    ("kind", "level", "words"),
    [
        ("nfs4", "fail", "network file system"),
        ("overlay", "warn", "ends with it"),
        ("tmpfs", "warn", "in memory"),
        ("ext4", "ok", "a local disk"),
    ],
)
def test_the_file_system_is_judged(disk_world, monkeypatch, kind, level, words):
    """Network file systems fail, passing ones warn, local disks are fine."""
    monkeypatch.setattr(setting, "filesystem_of", lambda path: kind)
    opened(disk_world)
    said = diagnosed(disk_world)["store"]
    assert said["filesystem"] == kind
    assert words in texts(said, level)


def test_the_sqlite_bug_is_told_where_it_is(disk_world, monkeypatch):
    """An SQLite with the WAL-reset bug is named as such; a mended one is not."""
    opened(disk_world)
    monkeypatch.setattr(setting, "wal_reset_bug", lambda: True)
    assert "WAL-reset bug" in texts(diagnosed(disk_world)["store"], "ok")
    monkeypatch.setattr(setting, "wal_reset_bug", lambda: False)
    assert "WAL-reset bug" not in texts(diagnosed(disk_world)["store"], "ok")


def test_a_store_in_memory_is_a_warning(disk_world):
    """`memory:` is told to hold nothing beyond a process."""
    opened(disk_world, more='[store]\nurl = "memory:"')
    assert "forgets it" in texts(diagnosed(disk_world)["store"], "warn")


def test_open_on_store_errors_is_a_warning(disk_world):
    """`on_store_error = "open"` is told to let calls run uncounted."""
    opened(disk_world, more=f'{STORE}\non_store_error = "open"')
    assert "uncounted" in texts(diagnosed(disk_world)["store"], "warn")


# the day and the software


def test_the_day_is_told_in_its_zone(disk_world):
    """The next reset is midnight of the configured zone."""
    opened(disk_world, budget='daily_usd = 5\ntimezone = "America/New_York"')
    said = diagnosed(disk_world)["day"]
    assert said["resets_at"] == "2026-03-05T00:00:00-05:00"
    assert "ends at 00:00, in 17 h 0 min" in texts(said, "ok")


def test_a_day_of_another_length_is_told(disk_world):
    """On the day the clocks change its length is told."""
    opened(disk_world, budget='daily_usd = 5\ntimezone = "Europe/Paris"')
    disk_world.pass_time(days=25)
    assert "this day has 23 hours" in texts(diagnosed(disk_world)["day"], "ok")


def test_malicious_litellm_fails(disk_world, monkeypatch):
    """A litellm version that carried malware fails the check."""
    real = installed._version
    monkeypatch.setattr(
        installed, "_version", lambda name: "1.82.8" if name == "litellm" else real(name)
    )
    opened(disk_world)
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "treat every secret" in texts(answer.json["software"], "fail")


def test_a_missing_library_fails(disk_world, monkeypatch):
    """A library that is not installed is named with the command that installs it."""
    real = installed._version
    monkeypatch.setattr(
        installed, "_version", lambda name: None if name == "tenacity" else real(name)
    )
    opened(disk_world)
    answer = cli_at(disk_world, "doctor", "--json")
    assert answer.code == 1
    assert "pip install tenacity" in texts(answer.json["software"], "fail")


def test_odd_budgets_are_warnings(disk_world):
    """A week that holds less than a day, and a budget of nothing, are told."""
    opened(disk_world, budget="daily_usd = 10\nweekly_usd = 7")
    assert "less than one day" in texts(diagnosed(disk_world)["config"], "warn")
    opened(disk_world, budget="daily_usd = 0")
    assert "every call is refused" in texts(diagnosed(disk_world)["config"], "warn")


# --app


APP = """
import budgetroute
from budgetroute import route
print("noise on stdout")

@route
def plain(question, *, model="mid", max_tokens=1024):
    raise AssertionError("doctor must not call it")

@route("talk", prompt=lambda chat: chat["text"])
async def talk(chat, *, plan=None, model="mid", max_tokens=1024):
    raise AssertionError("doctor must not call it")

class Service:
    @route
    def method(self, messages, *, model="mid", max_tokens=1024):
        raise AssertionError("doctor must not call it")

    @staticmethod
    @route("fixed", model="large", max_tokens=300)
    def fixed(text): ...

def unrouted(question): ...
again = plain
"""


@pytest.fixture
def app(disk_world, monkeypatch):
    """A world with an app beside its configuration, to stand in."""
    opened(disk_world)
    (disk_world.folder / "shop.py").write_text(APP)
    monkeypatch.chdir(disk_world.folder)
    yield disk_world
    for name in [n for n in sys.modules if n.split(".")[0] in {"shop", "pack"}]:
        del sys.modules[name]


def inspected(world, name="shop") -> tuple[Answer, dict]:
    answer = cli_at(world, "doctor", "--json", "--app", name)
    functions = {f["function"]: f for f in answer.json["routes"].get("functions", ())}
    return answer, functions


@pytest.mark.parametrize("name", ["shop", "shop.py"])
def test_routed_functions_are_listed_once(app, name):
    """Functions, methods and static methods under @route are found, aliases and others are not."""
    answer, functions = inspected(app, name)
    assert answer.code == 0, answer.out
    names = {"shop.plain", "shop.talk", "shop.Service.method", "shop.Service.fixed"}
    assert set(functions) == names
    assert "noise on stdout" in answer.err


def test_axes_and_baseline_are_those_of_the_function(app):
    """What a function can send follows its parameters; its defaults are the baseline."""
    _, functions = inspected(app)
    plain, method = functions["shop.plain"], functions["shop.Service.method"]
    assert plain["sendable"] == ["model", "max_tokens"]
    assert plain["baseline"] == "mid/1024"
    assert method["sendable"] == ["model", "max_tokens", "cot"]
    assert functions["shop.talk"]["route"] == "talk"
    assert "cot" in functions["shop.talk"]["sendable"]


def test_what_is_gated_out_is_what_the_router_would_gate(app):
    """The reasons are the router's own, for the actions it would refuse."""
    _, functions = inspected(app)
    (out,) = functions["shop.plain"]["out"]
    assert out == {
        "type": None,
        "reason": "this function has no parameter that carries cot",
        "actions": ["mid/1024/cot"],
    }
    assert functions["shop.plain"]["actions_open"] == 4
    assert functions["shop.Service.method"]["actions_open"] == 5


def test_reasons_of_one_type_are_told_for_that_type(app):
    """What [types] restricts is told for that type alone."""
    file = app.folder / "budgetroute.toml"
    file.write_text(file.read_text() + '[types.math]\nmodels = ["large"]\n')
    _, functions = inspected(app)
    own = [out for out in functions["shop.Service.method"]["out"] if out["type"] == "math"]
    assert own
    assert all("types.math" in out["reason"] for out in own)
    assert functions["shop.Service.method"]["actions_open"] == 5


def test_a_function_that_nothing_can_serve_fails(app):
    """If the gates leave nothing for a function, the check fails."""
    file = app.folder / "budgetroute.toml"
    file.write_text(file.read_text() + '[routes.plain]\nrequire = ["eu"]\n')
    answer, functions = inspected(app)
    assert answer.code == 1
    assert functions["shop.plain"]["actions_open"] == 0


def test_a_route_without_a_function_is_a_warning(app):
    """[routes.X] that no function has is told: a typing error would go unnoticed otherwise."""
    file = app.folder / "budgetroute.toml"
    file.write_text(file.read_text() + "[routes.plian]\nfloor = 0.5\n")
    answer, _ = inspected(app)
    assert "[routes.plian]" in texts(answer.json["routes"], "warn")


def test_submodules_are_searched(app):
    """A package's own submodules are looked at when it imports them."""
    pack = app.folder / "pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("from pack import inner\n")
    (pack / "inner.py").write_text(
        "from budgetroute import route\n\n@route\ndef deep(q, *, model='mid', max_tokens=9): ...\n"
    )
    _, functions = inspected(app, "pack")
    assert list(functions) == ["pack.inner.deep"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("from budgetroute import route\n@route\ndef f(q, *, model='mid'): ...", "max_tokens"),
    ],
)
def test_an_app_that_cannot_be_imported_fails(app, source, words):
    """What an import raises is a failed check with the reason; doctor itself goes on."""
    (app.folder / "shop.py").write_text(source)
    answer, _ = inspected(app)
    assert answer.code == 1
    assert words in texts(answer.json["routes"], "fail")
    assert answer.json["store"]


def test_an_app_that_is_not_there_fails(app):
    """A module or file that does not exist is told with what to name."""
    assert "my_package.answers" in texts(inspected(app, "nothere")[0].json["routes"], "fail")
    assert "no such file" in texts(inspected(app, "nothere.py")[0].json["routes"], "fail")


def test_an_app_without_routes_is_a_warning(app):
    """A module without @route is told."""
    (app.folder / "shop.py").write_text("x = 1\n")
    answer, _ = inspected(app)
    assert answer.code == 0
    assert "no function under @route" in texts(answer.json["routes"], "warn")


def test_looking_at_an_app_stores_nothing(app):
    """The ledger is not made by looking, and the import path is left as it was."""
    before = list(sys.path)
    inspected(app)
    assert sys.path == before
    assert not (app.folder / "ledger").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_width(app, width):
    """No line is wider than the screen."""
    answer = cli_at(app, "doctor", "--app", "shop", width=width)
    assert max(map(len, answer.out.splitlines())) <= width


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_fails(disk_world):
    """A store's folder without the right to write fails the check."""
    folder = disk_world.folder / "ledger"
    folder.mkdir()
    folder.chmod(0o500)
    opened(disk_world)
    answer = cli_at(disk_world, "doctor", "--json")
    folder.chmod(0o700)
    assert "not writable" in texts(answer.json["store"], "fail")
