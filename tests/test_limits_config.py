"""[limits.NAME]: what is read, and what each error says to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetroute.config import LimitConfig, load_config
from budgetroute.errors import ConfigError

BUDGET = "[budget]\ndaily_usd = 25\n"


@pytest.fixture
def load(tmp_path: Path):
    """Load a configuration from its text."""
    (tmp_path / ".git").mkdir()

    def read(text: str, *, budget: str = BUDGET, env=None, **overrides):
        (tmp_path / "budgetroute.toml").write_text(budget + text, encoding="utf-8")
        env = {"HOME": str(tmp_path), **(env or {})}
        return load_config(cwd=tmp_path, env=env, overrides=overrides)

    return read


def test_every_key_of_a_limit_is_read(load):
    """Names may be any text; a single warning is a list of one."""
    config = load(
        '[limits."team: search"]\nper = "user"\nmatch = { team = ["a", "b"], route = "r" }\n'
        "daily_usd = 0.5\nweekly_usd = 2\nmonthly_usd = 5\ntotal_usd = 9\nsoft = true\nwarn = 0.8\n"
        '[limits.hard]\ndaily_usd = 1\non_exhausted = "degrade"\nhard_usd = 2\nwarn = [0.5, 1.5]\n'
        "[limits.paced]\ndaily_usd = 1\npace = true\ncalls_per_day = 10\n"
    )
    assert config.limits == {
        "team: search": LimitConfig(
            per="user",
            match={"team": ("a", "b"), "route": "r"},
            daily_usd=0.5,
            weekly_usd=2.0,
            monthly_usd=5.0,
            total_usd=9.0,
            soft=True,
            warn=(0.8,),
        ),
        "hard": LimitConfig(daily_usd=1.0, on_exhausted="degrade", hard_usd=2.0, warn=(0.5, 1.5)),
        "paced": LimitConfig(daily_usd=1.0, pace=True, calls_per_day=10.0),
    }
    assert config.origins['limits."team: search".per'] == "budgetroute.toml"


def test_the_budget_has_warnings_and_the_start_of_the_week(load):
    """In [budget], and from the environment where it is one value."""
    budget = BUDGET + 'warn = [0.5, 1.0]\nweek_start = "sunday"\n'
    config = load("", budget=budget, env={"BUDGETROUTE_BUDGET_WEEK_START": "saturday"})
    assert config.budget.warn == (0.5, 1.0)
    assert config.budget.window("week").week_start == 5


def test_arguments_can_set_limits(load):
    """By dotted key, over the file."""
    config = load(
        "[limits.a]\ndaily_usd = 1\n", **{"limits.a.daily_usd": 2, "limits.b.total_usd": 3}
    )
    assert (config.limits["a"].daily_usd, config.limits["b"].total_usd) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[limits.a]\n", "limits nothing. Write at least one of daily_usd"),
        ("[limits.day]\ndaily_usd = 1\n", "name of a limit of [budget]"),
        ("[limits.run]\ndaily_usd = 1\n", "name of a limit of [budget]"),
        ('[limits.a]\nper = "model"\ndaily_usd = 1\n', "known only after the choice"),
        ('[limits.a]\nmatch = { provider = "x" }\ndaily_usd = 1\n', "known only after the choice"),
        ('[limits.a]\nmatch = { run = "x" }\ndaily_usd = 1\n', 'Write `per = "run"`'),
        ("[limits.a]\nmatch = { team = 3 }\ndaily_usd = 1\n", "or a list of such values"),
        ("[limits.a]\nmatch = { team = [] }\ndaily_usd = 1\n", "or a list of such values"),
        ("[limits.a]\ndaily_usd = -1\n", "expected a number from 0"),
        ("[limits.a]\ndaily_usd = 1\nwarn = 1.5\n", "Write shares up to 1.0, or `soft = true`"),
        ("[limits.a]\ndaily_usd = 1\nwarn = 0\n", "above 0"),
        ("[limits.a]\ndaily_usd = 1\nwarn = [0.5, 0.5]\n", "lists 0.5 twice"),
        ("[limits.a]\ndayly_usd = 1\n", "did you mean `daily_usd`?"),
        ("[limits.a]\ndaily_usd = 1\ntimezone = 'UTC'\n", "it belongs in [budget]"),
        ("[limits.a]\nper = 'user'\ndaily_usd = 1\npace = true\n", "would need a plan for each"),
        ("[limits.a]\nweekly_usd = 1\npace = true\n", "daily_usd says none"),
        ("[limits.a]\ndaily_usd = 1\ncalls_per_day = 9\n", "Write `pace = true` too"),
        ("[limits.a]\ndaily_usd = 1\non_exhausted = 'degrade'\n", "`hard_usd` is missing"),
        ("[limits.a]\ndaily_usd = 1\nhard_usd = 2\n", 'on_exhausted is "raise"'),
        (
            "[limits.a]\ndaily_usd = 1\non_exhausted = 'degrade'\nhard_usd = 0.5\n",
            "less than daily_usd",
        ),
        (
            "[limits.a]\ndaily_usd = 1\ntotal_usd = 5\non_exhausted = 'degrade'\nhard_usd = 2\n",
            "for several windows",
        ),
        (
            "[limits.a]\ndaily_usd = 1\nsoft = true\non_exhausted = 'degrade'\nhard_usd = 2\n",
            "a soft limit never refuses",
        ),
        ("[[limits]]\ndaily_usd = 1\n", "Write [limits.NAME]"),
        ("[[scopes]]\ndaily_usd = 1\n", "stand in [limits.NAME]"),
        ("[routes.answer]\ndaily_usd = 1\n", '[limits.NAME] with `match = { route = "answer" }`'),
    ],
)
def test_errors_say_what_to_write(load, text, says):
    """Each names the place, what was found and the remedy."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert says in str(caught.value)
    assert "budgetroute.toml" in str(caught.value)


def test_the_environment_cannot_set_limits(load):
    """It says where they are written."""
    with pytest.raises(ConfigError, match=r"limits.*cannot be set by the environment"):
        load("", env={"BUDGETROUTE_LIMITS_A_DAILY_USD": "1"})


DOCS = Path(__file__).resolve().parents[1] / "docs" / "limits.md"


def test_the_examples_of_the_page_load(load):
    """Every TOML example of docs/limits.md is a configuration; every Python one is Python."""
    import re

    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        assert load(block, budget="").limits
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(block, "limits.md", "exec")
