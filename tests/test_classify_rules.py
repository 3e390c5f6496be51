from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.classify import Rule, Rules, rule_from_config
from budgetroute.errors import ConfigError
from budgetroute.records import InputSize, Request


def ask(text: str = "hello there", *, route: str = "main", whole: int | None = None, **tags: str):
    size = len(text.encode()) if whole is None else whole
    return Request(route, text, InputSize(size // 4, size), tags=tags)


def heaviest(rule: Rule, request: Request) -> str | None:
    answer = Rules([rule]).classify(request)
    return None if answer is None else answer[0][0][0]


def test_first_holding_rule_answers():
    """Rules are tried in order and the first that holds names the type and itself."""
    rules = Rules(
        [
            rule_from_config(0, {"type": "code", "keywords": ["traceback"]}),
            rule_from_config(1, {"type": "math", "route": "main"}),
            rule_from_config(2, {"type": "chat", "route": "main"}),
        ]
    )
    assert rules.classify(ask("a Traceback here")) == ((("code", 1.0),), "rules[0]")
    assert rules.classify(ask("two plus two")) == ((("math", 1.0),), "rules[1]")
    assert rules.classify(ask("x", route="other")) is None


def test_every_condition_must_hold():
    """A rule with two conditions passes unless both hold."""
    rule = Rule("code", routes=("main",), tags={"tier": ("paid",)})
    assert heaviest(rule, ask(tier="paid")) == "code"
    assert heaviest(rule, ask(tier="free")) is None
    assert heaviest(rule, ask(route="other", tier="paid")) is None


@pytest.mark.parametrize("key", ["tier", "channel", "endpoint", "user"])
def test_named_tags_stand_for_tags(key):
    """`tier`, `channel`, `endpoint` and `user` are the tags of these names."""
    rule = rule_from_config(0, {"type": "chat", key: ["a", "b"]})
    assert rule.tags == {key: ("a", "b")}
    assert heaviest(rule, ask(**{key: "b"})) == "chat"
    assert heaviest(rule, ask(**{key: "c"})) is None
    assert heaviest(rule, ask()) is None


def test_numbers_in_tags_compare_as_text():
    """A tag value written as a number matches the tag's text."""
    rule = rule_from_config(0, {"type": "chat", "tags": {"tenant": 42}})
    assert heaviest(rule, ask(tenant="42")) == "chat"


@pytest.mark.parametrize(
    ("deadline", "held"),
    [("4.9", True), ("5", False), ("5.1", False), ("soon", False), ("nan", False), (None, False)],
)
def test_deadline_is_compared_as_a_number(deadline, held):
    """Only a numeric deadline below the limit holds; a missing or unreadable one does not."""
    rule = rule_from_config(0, {"type": "chat", "deadline_below_s": 5})
    request = ask() if deadline is None else ask(deadline_s=deadline)
    assert (heaviest(rule, request) == "chat") is held


@pytest.mark.parametrize(("length", "held"), [(9, False), (10, True), (20, True), (21, False)])
def test_length_limits_are_inclusive(length, held):
    """`min_chars` and `max_chars` hold at their own value."""
    rule = rule_from_config(0, {"type": "reading", "min_chars": 10, "max_chars": 20})
    assert (heaviest(rule, ask("é" * length)) == "reading") is held


def test_length_counts_the_whole_prompt():
    """A text that arrives cut counts with the characters of the whole prompt."""
    rule = Rule("reading", min_chars=10_000)
    assert heaviest(rule, ask("é" * 4_000, whole=20_000)) == "reading"
    assert heaviest(rule, ask("é" * 4_000, whole=19_000)) is None


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("My SQL query fails", True),
        ("mysql is slow", False),
        ("sql", True),
        ("(sql)", True),
        ("sqlite", False),
        ("open a pull\n request", True),
        ("what does c++ do", True),
        ("c+ is a grade", False),
    ],
)
def test_keywords_are_literal_whole_words(text, held):
    """Keywords match whole words whatever their case, and regex characters mean themselves."""
    rule = rule_from_config(0, {"type": "code", "keywords": ["SQL", "pull request", "C++"]})
    assert (heaviest(rule, ask(text)) == "code") is held


def test_all_keywords_must_all_occur():
    """`all_keywords` holds only where every one occurs, in any order."""
    rule = rule_from_config(0, {"type": "reading", "all_keywords": ["summarise", "contract"]})
    assert heaviest(rule, ask("this Contract, summarise it")) == "reading"
    assert heaviest(rule, ask("summarise this letter")) is None


def test_weight_below_one_leaves_the_rest_to_general():
    """A rule's weight is the type's share and `general` gets the rest, heaviest first."""
    rule = rule_from_config(0, {"type": "math", "weight": 0.25, "route": "main"})
    assert Rules([rule]).classify(ask()) == ((("general", 0.75), ("math", 0.25)), "rules[0]")


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"type": "code", "keyword": ["x"]}, "did you mean 'keywords'"),
        ({"type": "code", "zzz": 1}, "known keys: type, weight"),
        ({"keywords": ["x"]}, "names no prompt type"),
        ({"type": "code"}, "no condition"),
        ({"type": "code", "weight": 0.5}, "no condition"),
        ({"type": "", "route": "r"}, "type must be a text"),
        ({"type": True, "route": "r"}, "type must be a text"),
        ({"type": "code", "route": []}, "route is an empty list"),
        ({"type": "code", "keywords": [" "]}, "keywords must be a text that is not empty"),
        ({"type": "code", "keywords": 1.5}, "keywords must be a text"),
        ({"type": "code", "tags": "paid"}, "tags must be a table"),
        ({"type": "code", "tags": {"tier": True}}, "tier must be a text"),
        ({"type": "code", "tags": {"tier": "a"}, "tier": "b"}, "stands both by itself and in tags"),
        ({"type": "code", "tags": {}}, "no condition"),
        ({"type": "code", "min_chars": 1.5}, "whole number"),
        ({"type": "code", "min_chars": "9"}, "must be a number"),
        ({"type": "code", "min_chars": True}, "must be a number"),
        ({"type": "code", "max_chars": -1}, "above 0"),
        ({"type": "code", "min_chars": 9, "max_chars": 8}, "no prompt can match"),
        ({"type": "code", "deadline_below_s": float("inf")}, "must be a number"),
        ({"type": "code", "route": "r", "weight": 1.2}, "at most 1"),
        ({"type": "code", "route": "r", "weight": 0}, "above 0"),
    ],
)
def test_a_bad_rule_is_refused_with_its_place(mapping, says):
    """A rule that cannot be meant raises ConfigError naming its place and what to write."""
    with pytest.raises(ConfigError, match=r"\[\[classify.rules\]\] number 3") as caught:
        rule_from_config(2, mapping)
    assert says in str(caught.value)


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_any_keyword_compiles_and_finds_itself(keyword, rest):
    """Whatever a user writes as a keyword is found where it stands by itself."""
    rule = Rule("code", keywords=(keyword,))
    assert heaviest(rule, ask(f"{rest} {keyword} {rest}")) == "code"
    assert heaviest(rule, ask(keyword)) == "code"


def test_types_are_listed_once_in_order():
    """`types` names each type once, in the order of the rules."""
    rules = Rules([Rule("b", routes=("x",)), Rule("a", routes=("y",)), Rule("b", routes=("z",))])
    assert rules.types == ("b", "a")
