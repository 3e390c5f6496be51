"""From graded calls and prompts' texts to a profile whose router classifies and leans."""

from __future__ import annotations

import json
import random

import pytest
from cli_support import cli

from budgetroute.errors import ProfileError
from budgetroute.profiles import load_profile
from budgetroute.profiling import (
    FitSettings,
    fit_profile,
    fit_texts,
    outcomes_of,
    read_prompts,
    save_together,
)
from budgetroute.records import AXES, InputSize, Request
from budgetroute.router import Router

PRICES = {"small": (1e-7, 4e-7), "large": (3e-6, 1.2e-5)}
WORDS = {"code": "python list sort loop", "math": "sum price total per"}
EASY, HARD = "add two little ones", "prove integral theorem manifold"
PRIVATE = "zanzibar-4711"
CONFIG = """
[budget]
daily_usd = 50
[store]
path = "state"
[pacing]
pacer = "fixed"
initial_lambda = 300.0
[models.small]
price = { input = 0.1, output = 0.4 }
[models.large]
price = { input = 3.0, output = 12.0 }
[routes.answer]
profile = "mine.json"
"""


def calls(*, helps=True, per_type=120, kinds=tuple(WORDS)):
    """Return rows and texts; hard words need the large model and long answers, if `helps`."""
    luck = random.Random(4)
    rows, texts = [], {}
    for i in range(per_type * len(kinds)):
        kind, name = kinds[i % len(kinds)], f"p{i}"
        hard = luck.random() < 0.5
        words = luck.choices((WORDS[kind] + " " + (HARD if hard else EASY)).split(), k=14)
        texts[name] = " ".join(words)
        if not helps:
            hard = luck.random() < 0.5
        rows += [
            {
                "prompt_id": name, "type": kind, "model": model, "input_tokens": 60,
                "reward": float(model == "large" or not hard),
                "output_tokens": luck.randint(140, 180) if hard else luck.randint(80, 120),
            }
            for model in PRICES
        ]  # fmt: skip
    texts["p0"] += f" {PRIVATE}"
    return rows, texts


def fitted(rows, texts):
    table = outcomes_of(enumerate(rows, start=1))
    profile = fit_profile(table, FitSettings("mine", created="2026-01-01"), rates=PRICES.get)
    return profile.profile, fit_texts(profile.profile, table, texts, rates=PRICES.get)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A repository of its own with graded calls, their prompts and a configuration."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    write(tmp_path, *calls())
    (tmp_path / "budgetroute.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def write(folder, rows, texts):
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    lines = [json.dumps({"prompt_id": name, "prompt": text}) for name, text in texts.items()]
    (folder / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")


def fit(*args):
    return cli("profile", "fit", "rows.jsonl", "-o", "mine.json", *args, width=400)


def request(text):
    return Request(route="answer", text=text, size=InputSize(60, 240), sendable=AXES)


class TestCommand:
    @pytest.fixture(autouse=True)
    def _prices(self, folder):
        """`mine.json` is only there once it was made: the fit reads prices from elsewhere."""
        plain = CONFIG.partition("[routes.answer]")[0]
        (folder / "prices.toml").write_text(plain, encoding="utf-8")

    def fit(self, *args):
        return fit("--prompts", "prompts.jsonl", "--config", "prices.toml", *args)

    def test_the_router_classifies_and_leans(self, folder):
        """One command, one line of configuration: types are told apart, hard prompts go to large."""
        answer = self.fit()
        assert answer.code == 0, answer.err
        assert "classifier: 240 prompts of 2 types, macro-F1 1.00 on a fifth held out" in answer.out
        assert "residual of lengths and rewards: on left-out prompts" in answer.out
        assert "mine-types.npz: keep it beside the profile" in answer.out
        router = Router.from_config(folder / "budgetroute.toml")
        easy, hard = (
            router.decide(request(f"{WORDS['code']} {words} {words}")) for words in (EASY, HARD)
        )
        assert max(easy.types, key=lambda pair: pair[1])[0] == "code"
        assert (easy.action.model, hard.action.model) == ("small", "large")

    def test_a_changed_classifier_is_refused(self, folder):
        """The router does not start on an npz that is not the one the profile was made with."""
        self.fit()
        with (folder / "mine-types.npz").open("ab") as file:
            file.write(b"x")
        with pytest.raises(ProfileError, match="sha256"):
            Router.from_config(folder / "budgetroute.toml").decide(request("x"))

    def test_json_says_what_was_made(self, folder):
        """`--json` has the file, the types, the figures; the profile names the file."""
        said = self.fit("--json").json["classifier"]
        assert said["written"] == load_profile(folder / "mine.json").classifier.name
        assert (said["types"], said["prompts"]) == (["code", "math"], 240)
        assert said["residual"]["rewards"] is True
        assert said["residual"]["gain"] > 2 * said["residual"]["gain_se"]
        assert said["warnings"] == []

    def test_without_prompts_nothing_changes(self, folder):
        """No option, no classifier: neither in the profile, nor beside it, nor in the report."""
        made = fit("--config", "prices.toml", "--json").json
        assert "classifier" not in made
        assert load_profile(folder / "mine.json").classifier is None
        assert not (folder / "mine-types.npz").exists()

    def test_files_that_are_there_are_kept(self, folder):
        """An npz of that name is replaced with --force only, and nothing is written before."""
        (folder / "mine-types.npz").write_bytes(b"precious")
        answer = self.fit()
        assert (answer.code, "mine-types.npz exists already" in answer.err) == (2, True)
        assert not (folder / "mine.json").exists()
        assert self.fit("--force").code == 0
        assert (folder / "mine-types.npz").read_bytes() != b"precious"

    def test_the_same_fit_gives_the_same_files(self, folder):
        """Two runs write the same bytes, so that a diff shows what changed."""
        self.fit()
        first = (folder / "mine-types.npz").read_bytes()
        self.fit("--force")
        assert (folder / "mine-types.npz").read_bytes() == first

    def test_no_text_of_one_prompt_is_kept(self, folder):
        """A word of a single prompt is in neither file; words that three share are in the npz."""
        self.fit()
        kept = (folder / "mine-types.npz").read_bytes()
        assert b"manifold" in kept
        for raw in (kept, (folder / "mine.json").read_bytes()):
            assert b"zanzibar" not in raw
        assert b"manifold" not in (folder / "mine.json").read_bytes()


class TestFit:
    def test_a_residual_that_does_not_help_is_left_out(self):
        """Difficulty that is not in the words: a classifier without a residual, and the figure."""
        _, made = fitted(*calls(helps=False))
        assert made.arrays
        assert not any(name.startswith("residual") for name in made.arrays)
        assert made.notes[-1].startswith("no residual, it does not help: on left-out prompts")

    def test_prompts_without_text_and_texts_without_prompts_are_counted(self):
        """Both numbers are in the result and in words."""
        rows, texts = calls()
        for name in ("p1", "p2", "p3"):
            texts[f"other-{name}"] = texts.pop(name) + " another"
        _, made = fitted(rows, texts)
        assert (made.without_text, made.unused, made.prompts) == (3, 3, 237)
        assert "prompts without a text: 3 of 240" in made.warnings[0]
        assert "outcomes do not have: 3" in made.warnings[1]

    def test_one_type_has_no_classifier(self):
        """With nothing to tell apart there is none, and it says why; the profile is saved plain."""
        _, made = fitted(*calls(kinds=("math",)))
        assert made.arrays == {}
        assert "two or more types" in made.warnings[-1]

    def test_few_prompts_have_no_classifier(self, tmp_path):
        """Types of ten prompts are named, and nothing is trained on them."""
        profile, made = fitted(*calls(per_type=10))
        assert [line.partition(":")[0] for line in made.warnings] == [
            "type code", "type math", "no classifier is made",
        ]  # fmt: skip
        saved = save_together(profile, tmp_path / "mine.json", made.arrays)
        assert saved.classifier is None
        assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]

    def test_few_prompts_in_common_have_no_residual(self):
        """Fewer than 100 prompts that two models answered: a classifier alone, said so."""
        _, made = fitted(*calls(per_type=40))
        assert made.arrays
        assert made.notes[-1] == (
            "no residual: 80 prompts have a text and answers of 2 models; it takes 100"
        )

    def test_one_text_under_many_ids_counts_once(self):
        """What a single text says is not kept for being there three times."""
        rows, texts = calls()
        texts |= dict.fromkeys(("p1", "p2", "p3"), f"sum price {PRIVATE}")
        _, made = fitted(rows, texts)
        assert made.prompts == 238
        assert b"zanzibar" not in made.arrays["terms"].tobytes()

    def test_a_model_with_few_answers_does_not_cost_the_residual(self):
        """A third model that answered eight prompts is left out of the table, not the others."""
        rows, texts = calls()
        third = [row | {"model": "third"} for row in rows[:16:2]]
        prices = PRICES | {"third": (1e-6, 4e-6)}
        table = outcomes_of(enumerate(rows + third, start=1))
        settings = FitSettings("mine", created="2026-01-01", prune=False)
        profile = fit_profile(table, settings, rates=prices.get).profile
        made = fit_texts(profile, table, texts, rates=prices.get)
        assert made.residual is not None
        assert made.residual.families == ("large", "small")
        assert made.residual.prompts == 240

    def test_each_prompt_counts_under_its_largest_cap(self):
        """Answers that a smaller cap cut do not make a prompt look hard."""
        rows, texts = calls()
        cut = [row | {"max_tokens": 32, "output_tokens": 32, "reward": 0.0} for row in rows]
        capped = [row | {"max_tokens": 4096} for row in rows]
        _, whole = fitted(capped, texts)
        _, both = fitted(capped + cut, texts)
        assert whole.residual is not None
        assert both.residual is not None
        assert both.residual.gain == pytest.approx(whole.residual.gain)

    def test_other_people_s_prompts_are_an_error(self):
        """No id in common: the wrong file, told without any text."""
        rows, texts = calls()
        with pytest.raises(ProfileError, match="none of the 240 prompts") as caught:
            fitted(rows, {f"x{name}": text for name, text in texts.items()})
        assert "manifold" not in str(caught.value)


class TestReading:
    @pytest.mark.parametrize(
        "content",
        ['prompt_id,prompt\na,"sort this, then stop"\n', 'id,text\na,"sort this, then stop"\n'],
    )
    def test_a_csv_will_do(self, tmp_path, content):
        """Both pairs of column names."""
        path = tmp_path / "prompts.csv"
        path.write_text(content, encoding="utf-8")
        assert read_prompts(path) == {"a": "sort this, then stop"}

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("p.jsonl", '{"prompt_id": "a"}', "row 1: expected prompt_id and prompt"),
            ("p.jsonl", '{"prompt_id": "a", "prompt": ["secret"]}', "row 1: expected prompt_id"),
            (
                "p.jsonl",
                '{"id": 1, "text": "secret"}\n{"id": "1", "text": "secrets"}',
                "row 2: its prompt_id has another text",
            ),
            ("p.parquet", "", "expected a .jsonl or .csv"),
            ("p.jsonl", "secret", "row 1: not JSON"),
        ],
    )
    def test_what_cannot_be_used_is_told_without_its_text(self, tmp_path, name, content, said):
        """The row and what is expected; never a prompt."""
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(ProfileError) as caught:
            read_prompts(tmp_path / name)
        assert said in str(caught.value)
        assert "secret" not in str(caught.value)
