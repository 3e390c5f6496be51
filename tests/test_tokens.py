"""Tokens: exact without a network, odd content, what is classified."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.records import InputSize
from budgetroute.tokens import O200k, measure_messages, prompt_text

O200K = O200k()


class Bytes:
    """A tokenizer whose tokens are bytes, for tests of what is counted."""

    def measure(self, text: str) -> InputSize:
        size = len(text.encode())
        return InputSize(size, size)


def counted(messages, **extra) -> InputSize:
    return measure_messages(messages, tokenizer=Bytes(), **extra)


@dataclass
class Dumped:
    """Stands for a pydantic object."""

    fields: dict

    def model_dump(self):
        return self.fields


def test_known_count():
    """A text has the tokens that o200k gives it, and its bytes."""
    assert O200K.measure("tiktoken is great!") == InputSize(6, 18)


def test_special_tokens_are_text():
    """The text of a special token is counted as text, where tiktoken's `encode` would raise."""
    assert O200K.measure("<|endoftext|>").tokens > 1


def test_lone_surrogates():
    """A text that is no valid Unicode is measured all the same."""
    assert O200K.measure("a\ud800b").utf8_bytes == 5


@given(st.text(max_size=200))
def test_tokens_never_exceed_bytes(text):
    """The byte bound holds for any text."""
    size = O200K.measure(text)
    assert size.tokens <= size.utf8_bytes


def test_long_text_is_extrapolated():
    """Over 200,000 characters the count is taken from the head and marked as a guess."""
    line = "The quick brown fox jumps over the lazy dog. "
    long, whole = line * 6000, O200K.measure(line * 4000)
    size = O200K.measure(long)
    assert whole.exact
    assert not size.exact
    assert size.utf8_bytes == len(long)
    assert size.tokens == pytest.approx(whole.tokens * 1.5, rel=0.01)


def test_no_network_and_no_trace_in_the_environment():
    """Loading neither opens a socket nor leaves TIKTOKEN_CACHE_DIR changed."""
    script = """
import os, socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from budgetroute.tokens import O200k
for before in (None, "/nowhere"):
    os.environ.pop("TIKTOKEN_CACHE_DIR", None)
    if before: os.environ["TIKTOKEN_CACHE_DIR"] = before
    assert O200k().measure("hello").exact
    assert os.environ.get("TIKTOKEN_CACHE_DIR") == before
print("litellm" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_missing_file_guesses_from_bytes(tmp_path, caplog):
    """Without the tokenizer file, tokens are bytes / 4 rounded up, marked, and warned of once."""
    guess = O200k(folder=tmp_path)
    assert not guess.load()
    assert guess.measure("héllo") == InputSize(2, 6, exact=False)
    assert guess.measure("") == InputSize(0, 0, exact=False)
    assert len(caplog.records) == 1


def test_damaged_file_is_left_alone(tmp_path):
    """A file with a wrong hash is not used, and not deleted and downloaded as tiktoken would."""
    file = tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790"
    file.write_bytes(b"YQ== 0\n")
    assert not O200k(folder=tmp_path).measure("hello").exact
    assert file.read_bytes() == b"YQ== 0\n"


def test_threads_share_one_load():
    """Many threads may ask first at once; all get exact counts."""
    fresh, found = O200k(), []
    threads = [
        threading.Thread(target=lambda: found.append(fresh.measure("hello world")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [InputSize(2, 11)] * 8


def test_plain_conversation():
    """Text counts by what it is, roles by a constant per message."""
    one = counted([{"role": "user", "content": "abc"}])
    two = counted([{"role": "system", "content": "de"}, {"role": "user", "content": "abc"}])
    assert (one.tokens, two.tokens) == (3, 6)
    assert two.framing - one.framing == one.framing - counted([]).framing > 0


def test_parts():
    """Text parts are counted, images are counted apart and not by their bytes."""
    parts = [
        {"type": "text", "text": "abc"},
        {"type": "input_text", "text": "de"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        {"type": "input_image", "file_id": "f"},
    ]
    size = counted([{"role": "user", "content": parts}])
    assert (size.tokens, size.images, size.exact) == (6, 3, True)


def test_inline_media_bound_by_bytes():
    """A sound sent inline counts with all its bytes, as a guess; it is not tokenized."""
    part = {"type": "input_audio", "input_audio": {"data": "A" * 4000, "format": "wav"}}
    size = counted([{"role": "user", "content": [part]}])
    assert not size.exact
    assert 4000 < size.utf8_bytes < 4200
    assert size.tokens < 1100


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
        {"type": "video_url", "video_url": {"url": "https://x/" + "y" * 3000}},
    ],
)
def test_referred_media_have_no_size(part):
    """A document that is only referred to counts as an image: its tokens cannot be known here."""
    assert counted([{"role": "user", "content": [part]}]).images == 1


def test_tool_results_are_walked_into():
    """Images and text inside a tool's result are found."""
    result = {
        "type": "tool_result",
        "content": [{"type": "text", "text": "abcd"}, {"type": "image", "source": {}}],
    }
    size = counted([{"role": "user", "content": [result]}])
    assert (size.tokens, size.images) == (4, 1)


def test_tool_calls_count():
    """A message of tool calls alone counts by its calls, each a few bytes more than its arguments."""
    calls = [{"id": "1", "function": {"name": "f", "arguments": "x" * 100}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    assert 100 < counted([message]).tokens < 200


def test_tools_and_schema_are_framing():
    """Tools and answer schemas are bounded by the bytes of their JSON."""
    tools = [{"type": "function", "function": {"name": "f", "description": "é" * 100}}]
    bare = counted([]).framing
    assert counted([], response_format={"type": "json_object"}).framing == bare + 23
    assert counted([], tools=tools).framing > bare + 200
    assert counted([], tools=[]).framing == bare


def test_schema_classes_count_by_their_schema():
    """A model class as answer format counts by the JSON schema it stands for."""

    class Answer:
        @staticmethod
        def model_json_schema():
            return {"properties": {"answer": {"description": "x" * 500}}}

    assert counted([], response_format=Answer).framing > 500


def test_objects_count_like_dicts():
    """A pydantic message counts like the dict it dumps to."""
    fields = {"role": "user", "content": [{"type": "text", "text": "abc"}], "name": None}
    assert counted([Dumped(fields)]) == counted([fields])


class Unhelpful:
    """Has a `model_dump` that fails."""

    def model_dump(self):
        raise ValueError

    def __repr__(self):
        return "unhelpful"


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("messages", "least"),
    [
        (None, 0),
        ("abc", 3),
        (b"abc", 3),
        (42, 2),
        ({"role": "user", "content": "abc"}, 3),
        ([42], 2),
        ([None], 0),
        ([Unhelpful()], 9),
        ([{"role": "user"}], 0),
        ([{"role": "user", "content": 7}], 1),
        ([{"role": "user", "content": {"text": "abc"}}], 3),
        ([{"role": "user", "content": [None, 1.5, b"xy", Unhelpful()]}], 14),
        ([{"role": "user", "content": [{"type": "new", "payload": "abc"}]}], 3),
        ([{"role": "user", "content": {1: object()}}], 5),
        ([{"role": "user", "parts": [{"text": "abc"}]}], 3),
        ([{"role": "user", "content": LOOP}], 1),
        ([{"type": "function_call_output", "call_id": "c", "output": "abc"}], 3),
    ],
)
def test_odd_content_is_counted(messages, least):
    """Whatever is passed has a size, and prompt text, and raises nothing."""
    assert counted(messages).tokens >= least
    assert isinstance(prompt_text(messages), str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_has_a_size(value):
    """No JSON value makes measuring or reading raise."""
    assert counted(value).tokens >= 0
    assert len(prompt_text(value)) <= 4001


@given(st.lists(st.text(max_size=50), max_size=5))
def test_text_is_never_under_bounded(texts):
    """The byte bound covers every text of the conversation."""
    size = counted([{"role": "user", "content": text} for text in texts])
    assert size.utf8_bytes >= sum(len(text.encode()) for text in texts)


def test_prompt_text_takes_system_and_last_user_turns():
    """The system text and the last three user turns are read, answers are not."""
    turns = [{"role": "system", "content": "S"}]
    for number in range(5):
        turns += [
            {"role": "user", "content": f"u{number}"},
            {"role": "assistant", "content": f"a{number}"},
        ]
    assert prompt_text(turns) == "S\nu2\nu3\nu4"


def test_prompt_text_keeps_the_question():
    """A long system text leaves half the head to the question, whose end is always read."""
    turns = [
        {"role": "system", "content": "s" * 9000},
        {"role": "user", "content": "q" * 9000 + "end"},
    ]
    text = prompt_text(turns)
    assert text.count("s") == 1000
    assert text.endswith("qend")
    assert len(text) == 4001


def test_prompt_text_reads_parts():
    """Text parts are read, images are not."""
    parts = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "What?"}]
    assert prompt_text([{"role": "user", "content": parts}]) == "What?"


def test_environment_survives_a_missing_tiktoken(monkeypatch):
    """Where tiktoken is not installed the count is a guess and the environment is as before."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert not O200k().measure("hello").exact
    assert "TIKTOKEN_CACHE_DIR" not in os.environ
