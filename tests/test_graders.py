"""Graders of text: what is worth 1, what 0, and what cannot be graded."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.errors import ConfigError
from budgetroute.graders import (
    KINDS,
    BertScore,
    CallableScorer,
    Choice,
    Contains,
    Exact,
    JsonSchema,
    Numeric,
    Panel,
    Regex,
    RougeL,
    build_grader,
    grader_spec,
)
from budgetroute.records import Grade, Pick, Reference, Response


def graded(scorer, text, *answers, **more):
    return Panel(scorer).grade([Response(text)], Reference(answers, **more)).reward


class TestText:
    def test_exact(self):
        """The final answer or the whole response must be one of the reference's."""
        assert graded(Exact(), "The answer is **Paris**.", "paris") == 1
        assert (
            graded(
                Exact(),
                "roses are red\nviolets are blue",
                "Roses are red, ",
                "Roses are red violets are blue",
            )
            == 1
        )
        assert graded(Exact(), "The answer is Paris, Texas.", "Paris") == 0

    @pytest.mark.parametrize(
        "text",
        [
            "\\boxed{St. John}\n\nThe correct answer is St. John. It is a town.",
            "The answer is St. John. It is a town.",
            "The answer is **St. John**, a town.",
            'The answer is "St. John" of course.',
            "Answer: St. John",
            "It is by the sea.\nSt. John",
        ],
    )
    def test_exact_with_reasons_behind(self, text):
        """What follows the answer in its line does not spoil it."""
        assert graded(Exact(), text, "St. John") == 1
        assert graded(Exact(), text, "Ottawa") == 0

    def test_a_cut_text(self):
        """Where the cap cut the text, its last line is no answer."""
        cut = Response("We add 3 and 4, that is\n7", "length")
        assert Panel(Numeric()).grade([cut], Reference(("7",))).reward == 0
        assert Panel(Numeric()).grade([Response(cut.text, "stop")], Reference(("7",))).reward == 1

    def test_numeric(self):
        """A number is right within its relative tolerance, and not beyond."""
        assert graded(Numeric(1e-3), "Answer: 1000.9", "1,000") == 1
        assert graded(Numeric(1e-3), "Answer: 1001.1", "1,000") == 0
        assert graded(Numeric(), "Answer: 0.0", "0") == 1
        assert graded(Numeric(), "Answer: 1/3", "0.3333333") == 1
        assert graded(Numeric(0.0), "Answer: 1/3", "0.3333333") == 0

    @pytest.mark.parametrize(
        ("said", "wanted", "reward"),
        [("50%", "50", 1), ("50%", "0.5", 1), ("50", "50%", 1), ("0.5", "50%", 1), ("5", "50%", 0), ("50%", "5", 0), ("50%", "50%", 1), ("0.5%", "50%", 0)],
    )  # fmt: skip
    def test_percent(self, said, wanted, reward):
        """Where only one of both says percent, both readings count."""
        assert graded(Numeric(), f"Answer: {said}", wanted) == reward

    def test_a_worked_reference(self):
        """A reference may be a worked solution that ends on its number."""
        assert graded(Numeric(), "so 18", "16 - 3 - 4 = 9, 9 * 2 = 18\n#### 18") == 1

    def test_choice(self):
        """The label counts; references may be wrapped too."""
        assert graded(Choice(), "The answer is (C).", "C") == 1
        assert graded(Choice(), "The answer is (C).", "(B)") == 0
        assert graded(Choice(), "Paris", "B", options=("Lyon", "Paris")) == 1

    def test_contains(self):
        """References are found as whole words; one will do, or all are asked for."""
        assert graded(Contains(), "I do not know", "no") == 0
        assert graded(Contains(), "Certainly no.", "no", "yes") == 1
        assert graded(Contains(all=True), "Certainly no.", "no", "yes") == 0
        assert graded(Contains(), "It is **New\u00a0York**", "new york") == 1

    def test_regex(self):
        """A pattern of the grader, or those of the reference, is searched for."""
        assert graded(Regex(r"\d{4}-\d\d"), "on 2026-11-29", "ignored") == 1
        assert graded(Regex(), "on 2026-11-29", r"^x", r"29$") == 1
        assert graded(Regex(r"^\d+$"), "on 2026", "") == 0
        with pytest.raises(ConfigError, match="no regular expression"):
            Regex("(")

    def test_thoughts_are_not_searched(self):
        """What stands between think tags is not part of the answer."""
        assert graded(Contains(), "<think>Paris?</think>Lyon", "Paris") == 0
        assert graded(Regex("Paris"), "<think>Paris?</think>Lyon") == 0

    @pytest.mark.parametrize(
        "scorer",
        [Exact(), Numeric(), Choice(), Contains(), Regex(), JsonSchema(), RougeL(), BertScore()],
    )
    def test_without_reference(self, scorer):
        """Without a reference there is no grade, which is not a 0."""
        assert graded(scorer, "42") is None

    @pytest.mark.parametrize("scorer", [Exact(), Numeric(), Choice()])
    def test_a_refusal(self, scorer):
        """A refusal is worth nothing."""
        assert (
            graded(
                scorer,
                "I'm sorry, but I can't help with that.",
                "A" if isinstance(scorer, Choice) else "7",
            )
            == 0
        )

    @pytest.mark.parametrize("scorer", [Numeric(), Choice()])
    def test_a_reference_that_cannot_be_met(self, scorer):
        """A reference without number or label is the data's fault, not the model's."""
        assert graded(scorer, "42", "none of it") is None


class TestSilence:
    def test_cut_before_the_answer(self):
        """An empty answer with finish reason length is worth 0, and no grader is asked."""
        panel = Panel(CallableScorer(lambda *_: 1 / 0))
        assert panel.grade([Response(" \n", "length")], Reference(("1",))) == Grade(
            0.0, "empty: the cap cut it before the answer"
        )
        assert panel.grade([Response("", "stop")], Reference(("1",))).reward == 0

    def test_no_text(self):
        """A response without text cannot be graded."""
        assert (
            Panel(Exact()).grade([Response(None, "tool_calls")], Reference(("1",))).reward is None
        )
        assert Panel(Exact()).grade([], Reference(("1",))).reward is None


class Longest:
    """A verifier that takes the longest response, for 5 pico-dollars."""

    def pick(self, responses, prompt):
        lengths = [len(each.text) for each in responses]
        return Pick(lengths.index(max(lengths)), "longest", 5)


class TestSeveral:
    def vote(self, *texts, wanted="7", scorer=None):
        return Panel(scorer or Numeric()).grade(
            [Response(text) for text in texts], Reference((wanted,))
        )

    def test_majority(self):
        """The answer with the most votes is graded, counted after normalising."""
        assert self.vote("Answer: 7", "so 7.0", "8").reward == 1
        assert self.vote("7", "Answer: 8", "8.00").reward == 0

    def test_no_answer_has_no_vote(self):
        """What has no answer does not vote, however often it comes."""
        assert self.vote("7", "sorry", "sorry", "", "I cannot").reward == 1
        assert self.vote("sorry", "no").reward == 0

    def test_a_tie(self):
        """A tie is worth the mean of the tied answers."""
        assert self.vote("7", "8").reward == 0.5

    @given(
        st.lists(
            st.sampled_from(["7", "Answer: 7.0", "8", "9", "700%", "none"]), min_size=2, max_size=7
        ),
        st.randoms(),
    )
    def test_order_plays_no_part(self, texts, luck):
        """Any order of the responses gives the same grade."""
        shuffled = luck.sample(texts, len(texts))
        assert self.vote(*texts) == self.vote(*shuffled)

    def test_votes_that_cannot_be_graded(self):
        """Where the elected answer cannot be graded there is no grade."""
        assert self.vote("7", "7", "8", wanted="none").reward is None

    def test_a_verifier(self):
        """A verifier's pick is graded and its cost counted."""
        panel = Panel(Numeric(), verifier=Longest())
        grade = panel.grade(
            [Response("7"), Response("8"), Response("The answer is 7")], Reference(("7",))
        )
        assert (grade.reward, grade.cost) == (1, 5)

    def test_what_cannot_vote(self):
        """Answers that cannot be counted need a verifier."""
        grade = self.vote("7", "8", scorer=Contains())
        assert grade.reward is None
        assert "verifier" in grade.reason
        assert (
            Panel(Contains(), verifier=Longest())
            .grade([Response("7"), Response("88")], Reference(("88",)))
            .reward
            == 1
        )


SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


class TestJson:
    @pytest.mark.parametrize(
        ("text", "reward"),
        [
            ('{"age": 3}', 1),
            ('Here it is:\n```json\n{"age": 3}\n```\nAnything else?', 1),
            ('For {you}: {"age": 3} is it.', 1),
            ('{"age": "3"}', 0),
            ("[]", 0),
            ('{"age": 3', 0),
            ("no JSON", 0),
            ('{"age": NaN}', 0),
            ("[" * 100_000, 0),
        ],
    )
    def test_schema(self, text, reward):
        """JSON alone, in a block or in prose is held against the schema."""
        assert graded(JsonSchema(SCHEMA), text) == reward
        assert graded(JsonSchema(), text, json.dumps(SCHEMA)) == reward

    def test_nothing_is_fetched(self, monkeypatch):
        """A reference to an address is not followed."""

        def urlopen(*_, **__):
            pytest.fail("a schema was fetched")

        monkeypatch.setattr("urllib.request.urlopen", urlopen)
        assert graded(JsonSchema({"$ref": "http://127.0.0.1:9/schema.json"}), "{}") is None

    def test_no_schema(self):
        """What is no schema is refused before anything is graded."""
        with pytest.raises(ConfigError, match="no JSON schema"):
            JsonSchema({"type": "objekt"})


class TestLikeness:
    def test_rouge(self):
        """ROUGE-L takes the best reference; equal texts get 1, unlike ones 0."""
        pytest.importorskip("rouge_score", reason="the extra 'graders' is not installed")
        assert graded(RougeL(), "The cat sat", "A dog", "the cat sat") == 1
        assert graded(RougeL(), "the cat sat", "some dogs bark") == 0
        # 2 words in order of 3 and 2: P = 2/3, R = 1, F = 0.8
        assert graded(RougeL(), "the black cat", "the cat") == pytest.approx(0.8)

    @pytest.mark.parametrize(
        ("f1", "reward"), [(0.7, 0.7), (-0.2, 0.0), (1.00001, 1.0), (float("nan"), None)]
    )
    def test_bertscore(self, monkeypatch, f1, reward):
        """BERTScore's F1 is asked for all references at once and cut to [0, 1]."""
        asked = []

        class BERTScorer:
            def __init__(self, **given):
                asked.append(given)

            def score(self, said, wanted):
                asked.append((said, wanted))
                return [0.0], [0.0], [f1]

        library = ModuleType("bert_score")
        library.BERTScorer = BERTScorer
        monkeypatch.setitem(sys.modules, "bert_score", library)
        assert graded(BertScore(), "hi", "hello", "hey") == reward
        assert asked == [
            {"lang": "en", "rescale_with_baseline": True},
            (["hi"], [["hello", "hey"]]),
        ]

    @pytest.mark.parametrize(
        ("scorer", "module", "extra"),
        [(RougeL, "rouge_score", "graders"), (BertScore, "bert_score", "bertscore")],
    )
    def test_a_missing_library(self, monkeypatch, scorer, module, extra):
        """A library that is not there is an error that names the extra."""
        for name in [module, f"{module}.rouge_scorer"]:
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ConfigError, match=rf"budgetroute\[{extra}\]"):
            graded(scorer(), "a", "a")


class TestFunction:
    @pytest.mark.parametrize(
        ("said", "reward"),
        [(True, 1.0), (False, 0.0), (0.25, 0.25), (None, None), (Grade(0.5, "half"), 0.5)],
    )
    def test_what_it_says(self, said, reward):
        """True, False, a number, None and a Grade are taken."""
        assert graded(CallableScorer(lambda text, reference: said), "x") == reward

    @pytest.mark.parametrize("said", [1.5, -0.1, float("nan"), "yes", Grade(7.0, "out of range")])
    def test_what_is_no_grade(self, said):
        """Anything else is an error, not a grade."""
        with pytest.raises(ConfigError, match="a grading function returned"):
            graded(CallableScorer(lambda text, reference: said), "x")


def shortest(text, reference):
    return len(text) < 3


class TestSpecs:
    @pytest.mark.parametrize(
        ("spec", "text", "answers"),
        [
            ("exact", "Paris", ["paris"]),
            ("numeric", "42", ["42"]),
            ("numeric:1e-2", "100.5", ["100"]),
            ("choice", "(J)", ["J"]),
            ("choice:abcd", "(B)", ["B"]),
            ("regex", "aab", ["a+b"]),
            ("regex:a{2}:b", "aa:b", []),
            ("contains", "a b", ["b", "c"]),
            ("contains:all", "a b", ["b", "a"]),
            ("json-schema", "3", ['{"type": "integer"}']),
            ({"kind": "json-schema", "schema": {"type": "integer"}}, "3", []),
            ('{"kind": "numeric", "tolerance": 0.01}', "100.5", ["100"]),
            (f"python:{__name__}:shortest", "ab", []),
        ],
    )
    def test_forms(self, spec, text, answers, monkeypatch):
        """Each short or JSON form builds its grader, and survives a trip through JSON."""
        monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())
        read = grader_spec(spec)
        again = grader_spec(json.loads(json.dumps(read.as_json())))
        assert again == read
        assert build_grader(again).grade([Response(text)], Reference(tuple(answers))).reward == 1

    def test_a_schema_file(self, tmp_path):
        """json-schema:PATH reads the schema from a file."""
        (tmp_path / "s.json").write_text('{"type": "integer"}')
        grader = build_grader(f"json-schema:{tmp_path / 's.json'}")
        assert grader.grade([Response("3")], Reference()).reward == 1
        assert grader.grade([Response('"3"')], Reference()).reward == 0

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("exakt", "did you mean 'exact'"),
            ("", "known are: exact, numeric"),
            ("exact:yes", "takes nothing after a colon"),
            ("numeric:", "tolerance is missing"),
            ("numeric:much", "tolerance must be a number, found 'much'"),
            ("numeric:nan", "must lie in"),
            ("numeric:-1", "must lie in"),
            ("choice:A", "different letters"),
            ("choice:AA", "different letters"),
            ("regex:(", "no regular expression"),
            ("contains:some", "contains:any or contains:all"),
            ("json-schema:/nowhere.json", "cannot be read"),
            ("judge:gpt-4o-mini", "bench="),
            ("pairwise:gpt-4o-mini", "bench="),
            ("judge", "names no model"),
            ("code", "allow_code=True"),
            ("code:-3", "wall_s"),
            ("python:os", "package.module:function"),
            ("python:os:nothing", "cannot be imported"),
            ("python:nowhere.at_all:f", "cannot be imported"),
            ("python:os:sep", "not a function"),
            ("{broken", "starts like JSON"),
            ({"kind": "numeric", "tolerence": 1}, "did you mean 'tolerance'"),
            ({"kind": "json-schema", "path": "a", "schema": {}}, "not both"),
            ({"kind": "code", "allow_code": True}, "no option 'allow_code'"),
            ({"tolerance": 1}, "grader None is not known"),
        ],
    )
    def test_mistakes(self, spec, message):
        """A mistake is told with what was found and what to write."""
        with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
            build_grader(spec)

    def test_every_kind_is_described(self):
        """docs/graders.md has a line for each kind."""
        from pathlib import Path

        page = (Path(__file__).parents[1] / "docs" / "graders.md").read_text()
        assert [kind for kind in KINDS if f"| `{kind}" not in page] == []


def _this():
    module = ModuleType(__name__)
    module.shortest = shortest
    return module


def test_the_examples_of_the_page():
    """The Python of docs/graders.md runs."""
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "graders.md").read_text()
    examples = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "docs/graders.md", "exec"), {})  # noqa: S102 - our own page
