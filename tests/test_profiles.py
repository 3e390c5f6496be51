"""Profiles: what is read, what is refused and how, what is written, what lint says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.errors import ProfileError
from budgetroute.profiles import (
    classifier_path,
    dump_profile,
    lint_profile,
    load_profile,
    parse_profile,
    profile_path,
    save_profile,
    shipped,
)
from budgetroute.records import Action, Cell, ClassifierRef, Profile, PromptType


def document():
    """Return a small valid profile as it stands in a file."""
    cell = {"n": 50, "reward": 0.5, "reward_se": 0.07, "output_mean": 40.0}
    return {
        "format": "budgetroute-profile/1",
        "name": "small",
        "created": "2026-01-31",
        "provenance": {"notes": ["made up for tests"]},
        "types": {
            "math": {"share": 1.0, "input_tokens": 120.0, "value": 2.0, "sensitive": True},
            "general": {"share": 0.0, "input_tokens": 120.0},
        },
        "actions": [
            {"model": "small", "max_tokens": 64},
            {"model": "large", "max_tokens": 64, "cot": True, "params": {"top_p": 0.5}},
        ],
        "cells": {
            "math": [cell | {"action": 0}, cell | {"action": 1, "reward": 0.75}],
            "general": [cell | {"action": 1, "source": "pooled", "n": 0}],
        },
        "classifier": None,
    }


def parse(raw):
    return parse_profile(json.dumps(raw), origin="p.json")


def refusal(raw):
    with pytest.raises(ProfileError) as caught:
        parse(raw)
    return str(caught.value)


def changed(place, value):
    """Return the document with the value at a place (a sequence of keys) replaced."""
    raw = document()
    spot = raw
    for key in place[:-1]:
        spot = spot[key]
    spot[place[-1]] = value
    return raw


def test_a_profile_is_read_into_records():
    """Types, actions, cells by action index, defaults and provenance arrive."""
    profile = parse(document())
    assert profile.types["math"] == PromptType(1.0, 120.0, 2.0, sensitive=True)
    assert profile.actions[1] == Action("large", 64, cot=True, params=(("top_p", 0.5),))
    assert profile.cells["math"][1].reward == 0.75
    assert profile.cells["general"] == (
        None,
        Cell(0, 0.5, 0.07, 40.0, source="pooled"),
    )
    assert profile.provenance == {"notes": ["made up for tests"]}
    assert profile.classifier is None


def test_a_classifier_is_referred_to_by_name_and_hash():
    """The reference is read into its record."""
    ref = {"name": "t.npz", "sha256": "0" * 64}
    assert parse(changed(["classifier"], ref)).classifier == ClassifierRef("t.npz", "0" * 64)


WRONG = [
    (["cells", "math", 1, "reward"], 1.5, "cells.math[1].reward", "0 to 1"),
    (["cells", "math", 1, "reward"], -0.1, "cells.math[1].reward", "0 to 1"),
    (["cells", "math", 0, "reward"], "good", "cells.math[0].reward", "0 to 1"),
    (["cells", "math", 0, "reward"], True, "cells.math[0].reward", "0 to 1"),
    (["cells", "math", 0, "reward"], None, "cells.math[0].reward", "0 to 1"),
    (["cells", "math", 0, "output_mean"], -1, "cells.math[0].output_mean", "0 or more"),
    (["cells", "math", 0, "output_p99"], -1, "cells.math[0].output_p99", "or null"),
    (["cells", "math", 0, "output_mean"], 10**400, "cells.math[0].output_mean", "0 or more"),
    (["cells", "math", 0, "n"], 1.5, "cells.math[0].n", "whole number"),
    (["cells", "math", 0, "cut"], 2, "cells.math[0].cut", "0 to 1"),
    (["cells", "math", 0, "input_factor"], 0, "cells.math[0].input_factor", "above 0"),
    (["cells", "math", 0, "source"], "guessed", "cells.math[0].source", "measured"),
    (["cells", "math", 0, "token_basis"], "cl100k", "cells.math[0].token_basis", "o200k"),
    (["cells", "math", 0, "action"], 2, "cells.math[0].action", "0 to 1"),
    (["cells", "math", 0, "action"], -1, "cells.math[0].action", "0 or more"),
    (["cells", "math", 0, "action"], 1, "cells.math[1].action", "once per type"),
    (["cells", "math", 0, "rewrad"], 0.5, "cells.math[0].rewrad", "one of action"),
    (["cells", "math"], [], "cells.math", "at least one"),
    (["cells", "math"], [7], "cells.math[0]", "an object"),
    (["cells"], {}, "cells", "exactly the types"),
    (["actions"], [], "actions", "at least one"),
    (["actions", 0, "max_tokens"], 0, "actions[0].max_tokens", "1 or more"),
    (["actions", 0, "n"], 0, "actions[0].n", "1 or more"),
    (["actions", 0, "cot"], 1, "actions[0].cot", "true or false"),
    (["actions", 0, "temperature"], -1, "actions[0].temperature", "or null"),
    (["actions", 0, "model"], "", "actions[0].model", "printable"),
    (["actions", 0, "model"], "a\nb", "actions[0].model", "printable"),
    (["actions", 0, "params"], {"api_base": "x"}, "actions[0].params", "top_p"),
    (["types", "math", "share"], 0.5, "types.*.share", "sum to 1"),
    (["types", "math", "share"], -0.5, "types.math.share", "0 to 1"),
    (["types", "math", "value"], -1, "types.math.value", "0 or more"),
    (["types", "math", "sensitive"], "yes", "types.math.sensitive", "true or false"),
    (["types", "a b"], {"share": 0, "input_tokens": 1}, "types", "letters"),
    (["types"], {}, "types", "'general'"),
    (["types"], [], "types", "an object"),
    (["name"], "", "name", "printable"),
    (["created"], "yesterday", "created", "ISO date"),
    (["provenance"], "mine", "provenance", "an object"),
    (["classifier"], {"name": "../t.npz", "sha256": "0" * 64}, "classifier.name", "plain"),
    (["classifier"], {"name": "t.npz", "sha256": "0"}, "classifier.sha256", "hexadecimal"),
    (["classifier"], {}, "classifier.name", "plain"),
    (["extra"], 1, "extra", "one of format"),
    (["format"], "other/1", "format", "budgetroute-profile/1"),
    (["format"], 1, "format", "budgetroute-profile/1"),
]


@pytest.mark.parametrize(("place", "value", "named", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(place, value, named, allowed):
    """Every refusal says file, place, what was found and what may stand there."""
    text = refusal(changed(place, value))
    assert text.startswith(f"profile p.json: {named}: found ")
    assert allowed in text.split("; allowed is ", 1)[1]


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (["format"], "format"),
        (["types", "math", "share"], "types.math.share"),
        (["actions", 0, "model"], "actions[0].model"),
        (["cells", "general", 0, "reward"], "cells.general[0].reward"),
        (["cells", "general", 0, "output_mean"], "cells.general[0].output_mean"),
    ],
)
def test_a_missing_key_is_named(place, named):
    """What must be there and is not is a refusal, never a default."""
    raw = document()
    spot = raw
    for key in place[:-1]:
        spot = spot[key]
    del spot[place[-1]]
    assert f"p.json: {named}: found" in refusal(raw)


def test_a_newer_format_says_to_upgrade():
    """Format 2 is told apart from garbage."""
    text = refusal(changed(["format"], "budgetroute-profile/2"))
    assert "this package reads 1; upgrade budgetroute" in text


def test_a_newer_format_is_told_before_its_new_keys():
    """Keys this package does not know do not hide that the file is newer."""
    raw = changed(["format"], "budgetroute-profile/12") | {"news": 1}
    assert "upgrade budgetroute" in refusal(raw)


def test_an_action_twice_is_refused():
    """Two entries that send the same would have two truths."""
    raw = document()
    raw["actions"].append(dict(raw["actions"][0], temperature=None))
    assert "actions[2]: found 'small/64'; allowed is each action once" in refusal(raw)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        ("[" * 200_000, "nested too deep"),
        ('{"format": NaN}', "format: found nan"),
        ('{"name": 1, "name": 2}', "'name' twice"),
        ("[]", "budgetroute-profile/1"),
        ("7", "budgetroute-profile/1"),
        ('{"n": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_what_is_no_profile_at_all_is_a_profile_error(text, says):
    """Broken JSON, bottomless nesting, NaN and repeated keys end in one kind of error."""
    with pytest.raises(ProfileError, match=says):
        parse_profile(text, origin="p.json")


def test_a_huge_number_is_refused_in_place():
    """1e999 reads as infinity, which no field allows."""
    text = json.dumps(document()).replace("0.75", "1e999")
    with pytest.raises(ProfileError, match=r"cells\.math\[1\]\.reward: found inf"):
        parse_profile(text, origin="p.json")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_refused_in_place(constant):
    """NaN and the infinities, which Python's JSON reads, are no rewards."""
    text = json.dumps(document()).replace("0.75", constant)
    with pytest.raises(ProfileError, match=r"cells\.math\[1\]\.reward: found"):
        parse_profile(text, origin="p.json")


def test_a_number_that_is_none_is_refused_where_nothing_else_is_checked():
    """Provenance is free in form, but it must be writable again."""
    with pytest.raises(ProfileError, match="provenance: found 'NaN'"):
        parse(changed(["provenance"], {"x": [float("nan")]}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
places = st.sampled_from([tuple(place) for place, *_ in WRONG])


@given(places, json_values)
def test_any_value_anywhere_is_read_or_refused(place, value):
    """No value at any place gets anything but a profile or a ProfileError out of the reader."""
    text = json.dumps(changed(place, value))
    try:
        profile = parse_profile(text, origin="p.json")
    except ProfileError:
        return
    assert parse_profile(dump_profile(profile), origin="again") is not None


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    """Arbitrary text raises ProfileError."""
    with pytest.raises(ProfileError):
        parse_profile(text, origin="p.json")


def test_writing_and_reading_gives_the_same_profile():
    """A profile of short numbers survives the file unchanged."""
    profile = parse(document())
    assert parse_profile(dump_profile(profile), origin="again") == profile


rewards = st.floats(0, 1)
tokens = st.floats(0, 1e6)


@given(rewards, rewards, tokens, st.none() | tokens, st.integers(0, 10**6))
def test_what_is_written_reads_the_same_forever(reward, error, mean, p99, n):
    """Dump → parse → dump is the identity, and numbers keep 6 significant digits."""
    cell = Cell(n, reward, error, mean, output_p99=p99)
    profile = replace(parse(document()), cells={"math": (cell, cell), "general": (cell, None)})
    text = dump_profile(profile)
    again = parse_profile(text, origin="again")
    assert dump_profile(again) == text
    assert again.cells["math"][0].reward == pytest.approx(reward, rel=1e-5)


def test_a_change_of_one_cell_is_a_change_of_one_line():
    """The file is made to be read in a diff."""
    raw = document()
    before = dump_profile(parse(raw)).splitlines()
    raw["cells"]["math"][0]["reward"] = 0.51
    after = dump_profile(parse(raw)).splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_a_third_of_the_traffic_stays_a_third():
    """Shares are written in full, so that they still sum to 1 when read."""
    names = [f"t{i}" for i in range(6)]
    raw = document()
    raw["types"] |= {name: {"share": 1 / 6, "input_tokens": 1.0} for name in names}
    raw["types"]["math"]["share"] = 0.0
    raw["cells"] |= dict.fromkeys(names, raw["cells"]["math"])
    profile = parse(raw)
    assert parse_profile(dump_profile(profile), origin="again") == profile


def test_a_path_is_relative_to_the_base(tmp_path):
    """A profile named in a config is looked for beside it."""
    (tmp_path / "in").mkdir()
    save_profile(parse(document()), tmp_path / "in" / "p.json")
    assert load_profile("in/p.json", base=tmp_path).name == "small"


def test_saving_leaves_no_draft_behind(tmp_path):
    """After writing, the profile is the only file."""
    save_profile(parse(document()), tmp_path / "p.json")
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_what_cannot_be_written_is_a_profile_error(tmp_path):
    """A missing folder is named."""
    with pytest.raises(ProfileError, match="cannot be written"):
        save_profile(parse(document()), tmp_path / "none" / "p.json")


def test_a_missing_file_is_named_with_its_place(tmp_path):
    """The error says where it was looked for."""
    with pytest.raises(ProfileError, match=r"no file at .*gone\.json"):
        load_profile("gone.json", base=tmp_path)


def test_an_unknown_bare_name_lists_what_ships():
    """A name without a suffix is one of the package's."""
    with pytest.raises(ProfileError, match=r"no such profile ships; there are: .*broad"):
        load_profile("narrow")


def test_a_bare_name_never_leaves_the_package(tmp_path, monkeypatch):
    """A file in the working directory cannot stand in for a shipped profile."""
    monkeypatch.chdir(tmp_path)
    Path("broad").write_text("{}", encoding="utf-8")
    assert profile_path("broad").parent != tmp_path
    assert "broad" in shipped()


def test_a_file_too_large_is_not_read(tmp_path, monkeypatch):
    """The limit is on the file's size, before its content is read."""
    monkeypatch.setattr("budgetroute.profiles.files.MAX_BYTES", 10)
    (tmp_path / "p.json").write_text("x" * 11, encoding="utf-8")
    with pytest.raises(ProfileError, match="more than 10 bytes"):
        load_profile("p.json", base=tmp_path)


def with_classifier(folder, content=b"arrays"):
    ref = ClassifierRef("t.npz", hashlib.sha256(b"arrays").hexdigest())
    profile = replace(parse(document()), classifier=ref)
    save_profile(profile, folder / "p.json")
    if content is not None:
        (folder / "t.npz").write_bytes(content)
    return profile


def test_the_classifier_lies_beside_the_profile(tmp_path):
    """With the right hash the path is returned."""
    profile = with_classifier(tmp_path)
    assert classifier_path(profile, "p.json", base=tmp_path) == tmp_path / "t.npz"


def test_another_classifier_is_refused(tmp_path):
    """A changed file no longer belongs to the profile."""
    profile = with_classifier(tmp_path, b"other arrays")
    with pytest.raises(ProfileError, match=r"has sha256 .* rebuild both"):
        classifier_path(profile, "p.json", base=tmp_path)


def test_a_missing_classifier_is_a_profile_error(tmp_path):
    """The file that cannot be read is named."""
    profile = with_classifier(tmp_path, None)
    with pytest.raises(ProfileError, match=r"t\.npz: cannot be read"):
        classifier_path(profile, "p.json", base=tmp_path)


def test_a_profile_may_have_no_classifier(tmp_path):
    """None is an answer."""
    save_profile(parse(document()), tmp_path / "p.json")
    profile = load_profile(tmp_path / "p.json")
    assert classifier_path(profile, tmp_path / "p.json") is None


def curve(*rewards, n=500, source="measured"):
    """Return a profile of one type whose actions cost 1, 10, 100 … and earn these rewards."""
    row = tuple(
        reward if reward is None else Cell(n, reward, 0.01, 10.0 ** (i + 1), source=source)
        for i, reward in enumerate(rewards)
    )
    return Profile(
        "p",
        "2026-01-31",
        types={"general": PromptType(1.0, 100.0)},
        actions=tuple(Action(f"m{i}", 64) for i in range(len(rewards))),
        cells={"general": row},
    )


def by_tokens(action, cell, kind):
    return cell.output_mean


def test_lint_finds_nothing_in_a_sound_profile():
    """Three measured actions on a wide hull need no remark."""
    assert lint_profile(curve(0.2, 0.6, 0.8), by_tokens) == []


@pytest.mark.parametrize(
    ("profile", "cost_of", "says"),
    [
        (curve(0.2, 0.6, None, 0.8), by_tokens, "1 of 4 actions have no cell"),
        (curve(0.2, 0.6, 0.8, n=49), by_tokens, "3 measured cells have fewer than 50 samples"),
        (curve(0.2, 0.6, 0.8, source="pooled"), by_tokens, "no cell is measured"),
        (curve(0.2, 0.8), by_tokens, "only 2 actions can ever win"),
        (curve(0.2, 0.6, 0.5, 0.8), by_tokens, "m2/64: dead"),
        (curve(0.5, 0.505, 0.51), by_tokens, "within the noise"),
        (curve(0.2, 0.6, 0.8), lambda a, c, t: c.output_mean**0.1, "span only 1.6×"),
        (curve(0.2, 0.6, 0.8), lambda a, c, t: None, "m0: some of its actions have no cost"),
    ],
)
def test_lint_names_each_weakness(profile, cost_of, says):
    """Each kind of weakness has its remark."""
    assert any(says in remark for remark in lint_profile(profile, cost_of))


def test_lint_finds_caps_that_change_nothing():
    """Two caps with the same cells in every type are one action."""
    same = Cell(500, 0.5, 0.01, 10.0)
    profile = replace(
        curve(0.2),
        actions=(Action("m", 64), Action("m", 256), Action("m", 64, cot=True)),
        cells={"general": (same, same, same)},
    )
    remarks = lint_profile(profile, by_tokens)
    assert "m/256: never differs from m/64" in remarks
    assert not any("cot: never" in remark for remark in remarks)
