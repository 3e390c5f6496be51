"""The JSON Schema and the reference page say what the loader does."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import NODEFAULT

from budgetroute.config import load_config
from budgetroute.config.environment import RESERVED, variables
from budgetroute.config.model import Config
from budgetroute.config.origins import Origin
from budgetroute.config.schema import SCHEMA_FILE, schema, schema_text, write_schema
from budgetroute.config.shape import described, example_of, keys_of, section_of, table_of
from budgetroute.config.values import read_value, schema_of
from budgetroute.config.wording import expected, toml
from budgetroute.errors import ConfigError

DOCS = Path(__file__).resolve().parents[1] / "docs" / "config.md"
ORIGIN = Origin("argument")


def leaves(struct=Config, above=()):
    for name, field in keys_of(struct).items():
        below = section_of(field) or table_of(field)
        if below is None:
            yield (*above, name), field
        else:
            yield from leaves(below, (*above, name))


LEAVES = dict(leaves())
IDS = [".".join(path) for path in LEAVES]


def accepts(path, value) -> bool:
    try:
        read_value(value, LEAVES[path], path=path, origin=ORIGIN)
    except ConfigError:
        return False
    return True


def test_the_committed_schema_is_current() -> None:
    """The file equals what the Structs give; `write_schema()` writes it anew."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), (
        'run: python -c "from budgetroute.config.schema import write_schema; write_schema()"'
    )


def test_write_schema_writes_the_text(tmp_path: Path) -> None:
    """`write_schema` writes what `schema_text` returns."""
    write_schema(tmp_path / "x.json")
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == schema_text()


def test_the_schema_lies_in_the_package() -> None:
    """The schema is a resource of the package, so that a wheel carries it."""
    text = (files("budgetroute.config") / "budgetroute.schema.json").read_text("utf-8")
    assert json.loads(text) == json.loads(schema_text())


def test_the_schema_is_a_schema() -> None:
    """It is valid draft 2020-12."""
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema())


def test_every_level_is_described_and_closed() -> None:
    """Every table of fixed keys has a description and takes no unknown key."""

    def walk(part):
        if "properties" in part:
            assert part["additionalProperties"] is False
            for key in part["properties"].values():
                assert key["description"].endswith((".", '"')), key
                walk(key)
        if isinstance(part.get("additionalProperties"), dict):
            walk(part["additionalProperties"])

    walk(schema())


@pytest.mark.parametrize("path", LEAVES, ids=IDS)
def test_examples_are_accepted(path) -> None:
    """The example of every key is accepted by the loader and by the schema."""
    field = LEAVES[path]
    assert described(field).description
    example = example_of(field)
    assert accepts(path, example)
    assert Draft202012Validator(schema_of(field)).is_valid(example)


DEFAULTS = [path for path, field in LEAVES.items() if field.default not in {NODEFAULT, None, ()}]


@pytest.mark.parametrize("path", DEFAULTS, ids=".".join)
def test_defaults_are_accepted(path) -> None:
    """The default of every key, where it is a value, is one that could be written."""
    assert accepts(path, LEAVES[path].default)


numbers = st.integers(-3, 3) | st.sampled_from(
    [4000, 10**6, 10**8, 10**9, 0.5, 1.5, -0.5, 1e7 + 0.5]
)
words = st.sampled_from(
    ["", "a", "on", "off", "raise", "open", "dual", "free", "5m", "5 m", "1.5", "Ab", "x" * 65]
)
plain = numbers | words | st.booleans()
values = plain | st.lists(plain, max_size=3) | st.dictionaries(st.just("a"), plain, max_size=1)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(LEAVES)), values)
def test_schema_and_loader_agree(path, value) -> None:
    """What the schema accepts the loader accepts, and the other way round."""
    assert Draft202012Validator(schema_of(LEAVES[path])).is_valid(value) == accepts(path, value)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("[budget]\ndaily_usd = 1", True),
        ("", True),
        ("[budget]\ndayly_usd = 1", False),
        ("[budget]\ndaily_usd = '1'", False),
        ('[models."gpt-4.1"]\nmax_tokens = 256', True),
        ('[models."gpt-4.1"]\nmax_tokens = []', False),
        ("[models]\nm = 3", False),
        ("[pacing]\npacer = 'solve'", True),
        ("[models.m]\nprice = { input = -1 }", False),
    ],
)
def test_whole_files(text, valid) -> None:
    """Whole files are judged as an editor would."""
    assert Draft202012Validator(schema()).is_valid(tomllib.loads(text)) is valid


# the reference page


def row(name, field) -> str:
    """Return a key's row of the reference."""
    default = field.default
    if default is NODEFAULT:
        said = "required" if name == "daily_usd" else "see text"
        said = "" if field.default_factory is not NODEFAULT else said
    else:
        said = "" if default in {None, ()} else f"`{toml(default)}`"
    meta = described(field)
    kind = expected(schema_of(field)).replace("|", "\\|")
    return f"| `{name}` | {kind} | {said} | {meta.description} | `{toml(example_of(field))}` |"


@pytest.mark.parametrize("path", LEAVES, ids=IDS)
def test_the_reference_has_every_key(path) -> None:
    """docs/config.md has a row for every key with type, default, meaning and example."""
    expected_row = row(path[-1], LEAVES[path])
    assert expected_row in DOCS.read_text(encoding="utf-8").splitlines(), expected_row


def test_the_reference_has_every_variable() -> None:
    """docs/config.md names every environment variable."""
    text = DOCS.read_text(encoding="utf-8")
    for name in [*variables(), *RESERVED]:
        assert name in text


def test_the_examples_of_the_reference_load(tmp_path: Path) -> None:
    """Every TOML example of docs/config.md loads."""
    blocks = re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    (tmp_path / ".git").mkdir()
    for block in blocks:
        pyproject = "[tool.budgetroute" in block
        file = tmp_path / ("pyproject.toml" if pyproject else "budgetroute.toml")
        file.write_text(block, encoding="utf-8")
        config = load_config(cwd=tmp_path, env={"HOME": str(tmp_path)})
        assert config.budget.daily_usd > 0
        file.unlink()
