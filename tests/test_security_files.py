"""Attacks by files: a stranger's configuration, a made-up profile, a classifier that is a bomb."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.world import TINY

from budgetroute import files
from budgetroute.classify import LinearClassifier
from budgetroute.config import load_config
from budgetroute.config.show import effective
from budgetroute.config.wording import masked, without_secrets
from budgetroute.errors import ConfigError, ProfileError
from budgetroute.profiles import dump_profile, load_profile, parse_profile, save_profile
from budgetroute.router.equipment import Equipment

BUDGET = "[budget]\ndaily_usd = 1\n"
LARGEST = 990_000
"""Bytes of a hostile configuration: the most that is read, less what stands around them."""


def found(folder: Path, text: str, **env: str):
    """Load a configuration as a search finds it."""
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "budgetroute.toml").write_text(text, encoding="utf-8")
    return load_config(cwd=folder, env={"HOME": str(folder), **env})


# a stranger's configuration


@pytest.mark.parametrize(
    "line",
    [
        'api_base = "http://evil.example/v1"',
        'base_url = "http://evil.example/v1"',
        'api_key = "sk-theirs"',
        'extra_headers = { x-forward = "1" }',
        'custom_llm_provider = "openai"',
        'azure_endpoint = "https://evil.example"',
        'aws_bedrock_runtime_endpoint = "https://evil.example"',
        'vertex_credentials = "x"',
        "ssl_verify = false",
    ],
)
def test_a_found_config_cannot_redirect_prompts_or_keys(tmp_path, line):
    """Where prompts and keys go may be written only in a file that was named."""
    text = f"{BUDGET}[models.m.params]\n{line}\n"
    with pytest.raises(ConfigError, match=r"found by searching.*BUDGETROUTE_CONFIG="):
        found(tmp_path, text)
    named = found(tmp_path, text, BUDGETROUTE_CONFIG="budgetroute.toml")
    assert len(named.models["m"].params) == 1


def test_a_found_config_may_tune_and_code_may_redirect(tmp_path):
    """Sampling parameters are anybody's, and what code says is the code's author's."""
    text = f"{BUDGET}[models.m.params]\ntop_p = 0.9\nstop_token_ids = [1]\n"
    assert found(tmp_path, text).models["m"].params == {"top_p": 0.9, "stop_token_ids": [1]}
    here = {'models."m".params': {"api_base": "http://localhost:8000/v1"}}
    config = load_config(cwd=tmp_path, env={}, overrides=here)
    assert config.models["m"].params["api_base"].endswith(":8000/v1")


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * (LARGEST // 2)) + " = 1",
        "[" + ".".join(['"a"'] * (LARGEST // 4)) + "]",
        "x = {" + ".".join(["a"] * (LARGEST // 2)) + " = 1}",
        '[store]\nurl = "' + "://" * (LARGEST // 3) + '"',
        '[store]\nurl = "' + "?pass" * (LARGEST // 5) + '"',
        "[models.m]\nmax_tokens = [" + ",".join(["7", *map(str, range(1, LARGEST // 7))]) + "]",
        "x = " + "[" * LARGEST,
        "x = " + "{a=" * (LARGEST // 3),
    ],
    ids=["key", "header", "inline key", "url", "query", "repeats", "lists", "tables"],
)
def test_no_configuration_takes_more_than_a_moment(tmp_path, text):
    """A megabyte made to keep a parser or a pattern busy is refused, in less than 20 s of CPU.

    Each took minutes where time grew with the square of the size.
    """
    (tmp_path / "budgetroute.toml").write_text(f"{text}\n", encoding="utf-8")
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "from budgetroute.config import load_config\n"
        "from budgetroute.errors import ConfigError\n"
        "try:\n    load_config('budgetroute.toml', env={})\n"
        "except ConfigError as err:\n    print(len(str(err)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert 0 < int(done.stdout) < 5000


def test_a_name_is_one_line(tmp_path):
    """The name stands in keys and logs: a line break at its end is no part of it."""
    with pytest.raises(ConfigError, match="name"):
        found(tmp_path, f'name = "app\\n"\n{BUDGET}')


SECRETS = {
    "extra_headers": {"x-api-key": "s3cret", "Cookie": "s3cret", "Authorization": "s3cret"},
    "api_key": "s3cret",
    "hf_token": "s3cret",
    "aws_session_token": "s3cret",
    "Ocp-Apim-Subscription-Key": "s3cret",
    "authToken": "s3cret",
    "base_url": "https://me:s3cret@host/?sig=1&api_key=s3cret",
    "list": [{"password": "s3cret"}],
}


def test_a_config_shows_no_secret(tmp_path):
    """Neither the listing of doctor nor the repr in a traceback holds a key or a password."""
    lines = "\n".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in SECRETS.items())
    (tmp_path / "c.toml").write_text(f"{BUDGET}[models.m.params]\n{lines}\n", encoding="utf-8")
    config = load_config(tmp_path / "c.toml", env={})
    assert config.models["m"].params["api_key"] == "s3cret"
    assert "s3cret" not in repr(effective(config))
    assert "s3cret" not in repr(config)
    assert "max_tokens" in repr(without_secrets({"max_tokens": 5}))


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)


def test_masking_keeps_what_is_no_secret():
    """Only the part of a query that is a secret is hidden."""
    assert masked("redis://h/0?db=1&password=x&ssl=no") == "redis://h/0?db=1&password=***&ssl=no"
    assert masked("a?b?token=x") == "a?b?token=***"


# a profile that somebody made


def document() -> dict:
    return json.loads(dump_profile(TINY))


def test_a_profile_names_its_repeated_key_at_once():
    """200,000 keys of which the last stands twice: no search of each among all."""
    text = "{" + ",".join(f'"k{i}":1' for i in range(200_000)) + ',"z":1,"z":2}'
    with pytest.raises(ProfileError, match="'z' twice"):
        parse_profile(text, origin="x")


@pytest.mark.parametrize("place", ["", '{"provenance":', '{"actions":[{"params":{"stop":'])
def test_deep_nesting_is_refused(place):
    """However deep a profile nests, and where, it is an error in words."""
    with pytest.raises(ProfileError):
        parse_profile(place + "[" * 100_000, origin="x")


def test_a_profile_is_at_most_ten_megabytes(tmp_path):
    """JSON takes 25 times its size in memory; what is larger is not even read."""
    (tmp_path / "p.json").write_bytes(b"[" + b"[]," * (11 * 2**20 // 3) + b"[]]")
    with pytest.raises(ProfileError, match="more than 10,485,760 bytes"):
        load_profile(tmp_path / "p.json")


@pytest.mark.parametrize("name", ["../x.npz", "/etc/x.npz", "a/b.npz", "x.npz\n", "x\u202e.npz"])
def test_a_classifier_lies_beside_its_profile(name):
    """The name of the classifier leads to no other folder."""
    raw = document() | {"classifier": {"name": name, "sha256": "0" * 64}}
    with pytest.raises(ProfileError, match=r"classifier\.name"):
        parse_profile(json.dumps(raw), origin="x")


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a\0b", "a\0b.json", "\udcff.json", "~nobody/x.json"]
)
def test_odd_profile_names_are_no_profiles(tmp_path, name):
    """No name of a profile reaches another folder of the package or ends in a traceback."""
    with pytest.raises(ProfileError):
        load_profile(name, base=tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("reader", ["profile", "classifier"])
def test_what_is_no_file_is_not_read(tmp_path, kind, reader):
    """An archive can hold pipes and links to devices: none blocks, none is read without end."""
    path = tmp_path / ("p.json" if reader == "profile" else "c.npz")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(ProfileError, match=r"no file|not a regular file|directory"):
        load_profile(path) if reader == "profile" else LinearClassifier.load(path)


def test_drafts_have_names_that_nobody_foresees(tmp_path):
    """In a folder that others may write, a link in the draft's place must not be written through."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".p.json.{os.getpid()}.tmp", ".p.json.tmp"):
        (tmp_path / name).symlink_to(victim)
    save_profile(TINY, tmp_path / "p.json")
    names = []
    for _ in range(2):
        with files.draft_of(tmp_path / "p.json", "x") as draft:
            names.append(draft.name)
    assert victim.read_text() == "mine"
    assert load_profile(tmp_path / "p.json") == TINY
    assert len(set(names)) == 2


# a classifier that somebody made

META = {"format": "budgetroute-classifier/1", "classes": ["math", "code"], "sublinear": True}


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    made = {
        "terms": np.frombuffer(b"x\ty", np.uint8),
        "idf": np.ones(2),
        "coef": np.ones((2, 2)),
        "intercept": np.zeros(2),
        "meta": np.frombuffer(json.dumps(META).encode(), np.uint8),
    }
    return made | changes


def packed(path: Path, **changes: np.ndarray) -> Path:
    np.savez_compressed(path, **arrays(**changes))
    return path


def test_a_bomb_is_not_unpacked(tmp_path):
    """100 MB of zeros in 100 kB of file: the stated sizes are summed up first."""
    bomb = packed(tmp_path / "c.npz", coef=np.zeros((6_500_000, 2)))
    assert bomb.stat().st_size < 200_000
    with pytest.raises(ProfileError, match="unpacks to 104,"):
        LinearClassifier.load(bomb)


def test_a_stated_size_that_is_a_lie_gains_nothing(tmp_path):
    """A member is not read beyond the size that it states."""
    raw = bytearray(packed(tmp_path / "c.npz", coef=np.zeros((6_500_000, 2))).read_bytes())
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        member = archive.getinfo("coef.npy")
    size = member.file_size.to_bytes(4, "little")
    (tmp_path / "lie.npz").write_bytes(bytes(raw).replace(size, (200).to_bytes(4, "little")))
    with pytest.raises(ProfileError, match=r"not an \.npz"):
        LinearClassifier.load(tmp_path / "lie.npz")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("meta", np.array(10**9)),
        ("terms", np.array(10**9)),
        ("meta", np.frombuffer(b"[" * 100_000, np.uint8)),
        ("terms", np.zeros(3, "M8[s]")),
        ("coef", np.array([[{}, {}], [{}, {}]], dtype=object)),
        ("coef", np.full((2, 2), np.nan)),
    ],
    ids=["size as meta", "size as terms", "deep meta", "times", "objects", "not a number"],
)
def test_arrays_of_another_kind_are_refused(tmp_path, name, array):
    """A number in place of bytes would be taken for a size to allocate; objects are pickles."""
    with pytest.raises(ProfileError):
        LinearClassifier.load(packed(tmp_path / "c.npz", **{name: array}))


def test_no_damage_is_more_than_a_profile_error(tmp_path):
    """600 damaged archives: each is read or refused in words, whatever zip, zlib and numpy raise."""
    raw = packed(tmp_path / "c.npz").read_bytes()
    luck = random.Random(1)
    refused = 0
    for _ in range(600):
        damaged = bytearray(raw)
        for _ in range(luck.randint(1, 6)):
            damaged[luck.randrange(len(raw))] = luck.randrange(256)
        (tmp_path / "d.npz").write_bytes(damaged)
        try:
            LinearClassifier.load(tmp_path / "d.npz")
        except ProfileError:
            refused += 1
    assert refused > 300


def test_a_classifier_swapped_after_its_check_is_refused(tmp_path, monkeypatch):
    """What is loaded is hashed again: the file may change between two looks."""
    import hashlib

    good = packed(tmp_path / "c.npz").read_bytes()
    ref = {"name": "c.npz", "sha256": hashlib.sha256(good).hexdigest()}
    (tmp_path / "p.json").write_text(json.dumps(document() | {"classifier": ref}))
    (tmp_path / "b.toml").write_text(f'profile = "p.json"\n{BUDGET}')
    equipment = Equipment(load_config(tmp_path / "b.toml", env={}), prices=None)
    real = equipment.profile

    def checked_then_swapped(*args, **kwargs):
        path = tmp_path / "c.npz"
        packed(path, intercept=np.ones(2))
        return path

    monkeypatch.setattr("budgetroute.router.equipment.classifier_path", checked_then_swapped)
    assert real().classifier is not None
    with pytest.raises(ProfileError, match="sha256"):
        equipment._text_model("answer")
