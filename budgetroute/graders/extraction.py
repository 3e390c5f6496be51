r"""The final answer in what a model wrote.

Models wrap it in many ways. First comes what is a marker and nothing else, of those the last:

    \boxed{42}   <answer>42</answer>   {"answer": "42"}

then what is said, again the last, since later words correct earlier ones:

    #### 42   Answer: 42   The answer is (C).   **Final answer:** 42   ### Answer, and 42 in the next line

Without a marker the last line that is not empty is taken. Reasoning between <think> tags is left out;
a <think> that never ends was cut before the answer. Only the last 20,000 characters are looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Found", "final_answer", "unfenced", "without_thoughts"]

_LONGEST = 20_000
_LONGEST_ANSWER = 2_000
_MOST_MARKERS = 50
"""Of each kind, the last ones; thousands of open braces would take seconds."""
_THINK = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_TAG = re.compile(r"<(?:final_)?answer>", re.IGNORECASE)
_TAG_END = re.compile(r"</(?:final_)?answer>", re.IGNORECASE)
_HASHES = re.compile(r"^[ \t]{0,9}####(?!#)", re.MULTILINE)
_KEY = re.compile(r'"(?:final_?)?answer"\s?:\s?', re.IGNORECASE)
_MARK = r"[\s*_`]{0,4}"
_SPOKEN = re.compile(
    rf"""\b(?:answers?|(?:correct|right|best)\s(?:option|choice)){_MARK}(?:choice|option)?{_MARK}
    (?:[:：=]|(?:(?:to|for)\s[^\n:]{{1,80}}?\s)?\b(?:is|are|was|would\sbe|should\sbe|must\sbe|will\sbe)\b(?!\s(?:not|n't)\b)
       {_MARK}(?:therefore|thus|then|simply|just|option|choice)?{_MARK}:?)[*_]{{0,3}}""",
    re.VERBOSE | re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"\b(?:Antwort|r[ée]ponse|respuesta|resposta|risposta)[\s*_]{0,4}(?:(?:finale?|correcta?|richtige)\s)?"
    r"(?::|(?:ist|lautet|est|es|é|è)\b[\s*_]{0,4}:?)[*_]{0,3}|答案(?:是|为|為|：|:)[：:]?",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t]{0,3}|\*\*)(?:(?:final|correct|the)\s){0,2}answer[*:]{0,4}[ \t]{0,9}$",
    re.MULTILINE | re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[ \t]{0,3}([\w+#.-]{0,30})[^\n]{0,80}$", re.MULTILINE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.){0,2000})"')


@dataclass(frozen=True, slots=True)
class Found:
    """A stretch of text that holds the answer.

    Attributes:
        text: the stretch, trimmed.
        marked: a marker announced it; False = it is the last line.
    """

    text: str
    marked: bool


def final_answer(text: str, *, cut: bool = False) -> Found | None:
    r"""Return where the final answer stands; None when there is nothing to look at.

    Args:
        text: what the model wrote.
        cut: it was cut by its cap: then its last line is no answer, nor is one whose end may be missing.

    >>> final_answer("12 + 30 is 42.\nThe answer is \\boxed{42}.")
    Found(text='42', marked=True)
    >>> final_answer("So we get\n42 apples")
    Found(text='42 apples', marked=False)
    """
    text = without_thoughts(text)[-_LONGEST:].rstrip()
    for markers in (_explicit(text), _spoken(text, cut=cut)):
        answers = [answer for _, answer in sorted(markers) if answer]
        if answers:
            return Found(answers[-1], marked=True)
    lines = [] if cut else [line.strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if _says_something(line)), None)
    return None if last is None else Found(last[:_LONGEST_ANSWER], marked=False)


def without_thoughts(text: str) -> str:
    """Return what follows the last <think> block; empty when it never ended."""
    tags = list(_THINK.finditer(text))
    if not tags:
        return text
    return text[tags[-1].end() :] if tags[-1][1] else text[: tags[0].start()]


def unfenced(text: str, *languages: str) -> str | None:
    """Return the last whole code block, of one of these languages if any is; None without one.

    A block that never ends was cut and counts to the end of the text.
    """
    blocks = list(_blocks(text))
    named = [body for language, body in blocks if language.lower() in languages]
    bodies = named or [body for _, body in blocks]
    return bodies[-1] if bodies else None


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2]:
            yield opened[2], text[opened.end() : fence.start()].strip("\n")
            opened = None
    if opened is not None:
        yield opened[2], text[opened.end() :].strip("\n")


def _explicit(text: str) -> Iterator[tuple[int, str]]:
    """Yield (where, answer) of every marker that is nothing else; one without an end was cut."""
    for found in _last(_BOX, text):
        yield found.start(), _unbraced(_in_braces(text, found.end()))
    for found in _last(_TAG, text):
        end = _TAG_END.search(text, found.end())
        yield found.start(), text[found.end() : end.start()].strip() if end else ""
    for found in _last(_KEY, text):
        yield found.start(), _json_value(text, found.end())


def _spoken(text: str, *, cut: bool) -> Iterator[tuple[int, str]]:
    """Yield (where, answer) of every marker in words."""
    for pattern in (_HASHES, _SPOKEN, _FOREIGN, _HEADING):
        for found in _last(pattern, text):
            answer = _rest_of_line(text, found.end())
            whole = not (cut and text.endswith(answer) and answer[-1:].isalnum())
            yield found.start(), answer if whole else ""


def _last(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    return list(pattern.finditer(text))[-_MOST_MARKERS:]


def _in_braces(text: str, start: int) -> str:
    """Return what stands up to the brace that closes; empty when none does."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST_ANSWER)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place].strip()
    return ""


def _unbraced(text: str) -> str:
    """Take off a second pair of braces, which templates leave behind."""
    return text[1:-1].strip() if text.startswith("{") and text.endswith("}") else text


def _json_value(text: str, start: int) -> str:
    """Return a text or a number of JSON; empty when it has no end."""
    quoted = _QUOTED.match(text, start)
    if quoted:
        return quoted[1].replace('\\"', '"').replace("\\\\", "\\").strip()
    bare = re.compile(r'([^",}\n]{1,200})[,}\n]').match(text, start)
    return bare[1].strip() if bare else ""


def _rest_of_line(text: str, start: int) -> str:
    """Return the rest of the line, or the next line that says something."""
    for line in text[start : start + _LONGEST_ANSWER].split("\n"):
        if _says_something(line):
            return line.strip()
    return ""


def _says_something(line: str) -> bool:
    r"""Say whether a line is more than fences, rules and the brackets of a formula."""
    return re.search(
        r"[^\W_]|[∅∞]", re.sub(r"\\[\[\]()]", "", line)
    ) is not None and not _FENCE.match(line)
