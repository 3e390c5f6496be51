"""One spelling for answers that mean the same, and the letter or number an answer comes down to."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

from budgetroute.graders.extraction import Found, final_answer, without_thoughts
from budgetroute.graders.numbers import Number, numbers_in, plain_latex

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LABELS", "choice_of", "normalised", "number_of"]

LABELS = "ABCDEFGHIJ"
_LONGEST = 5_000
"""Characters of an answer; what is longer is prose, and only folded."""
_LATEX = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s?\{([^{}]{0,500})\}"
    r"|\\[dt](frac)(?![a-z])|\\(?:left|right)(?![a-z])|\\[,;:!]|\^\s?\{?\\circ\}?"
)
_EDGES = " \t\n.,;:!?*_`\"'“”‘’«»$"
_PAIRS = (("(", ")"), ("[", "]"), ("\\(", "\\)"), ("\\[", "\\]"), ("{", "}"))
_DECIDING = r"\b(?i:with|choose|pick|select|is|therefore|thus|so|hence)"
_EQUALS = re.compile(r"[=≈]|\\approx")
_JOINT = re.compile(r"[\s*_`]{0,4}(?:or|oder|ou)\b[\s*_`]{0,4}", re.IGNORECASE)


def normalised(text: str) -> str:
    r"""Return one spelling: NFKC, case folded, one space, no markup, quotes or stops around it.

    Applied twice it changes nothing more.

    >>> normalised("**The  Eiffel Tower.**"), normalised(r"$\text{Paris}$")
    ('the eiffel tower', 'paris')
    """
    text = _settled(text, _folded)
    return text if len(text) > _LONGEST else _settled(text, _simpler)


def number_of(text: str, *, cut: bool = False) -> Number | None:
    """Return the number that a response ends on; None when there is none, or two are offered.

    After a marker the first number counts (after the last equals sign, if there is one); in a last
    line without marker, the last.
    """
    found = final_answer(text, cut=cut)
    if found is None:
        return None
    plain = _after_equals(plain_latex(found.text))
    numbers = list(numbers_in(plain))
    if not numbers:
        return None
    chosen = numbers[0] if found.marked else numbers[-1]
    return None if _is_hedged(plain, numbers) else chosen


def choice_of(
    text: str, *, labels: str = LABELS, options: tuple[str, ...] = (), cut: bool = False
) -> str | None:
    """Return the label that a response chooses; None when it chooses none, or two.

    An answer that is an option's text chooses its label. Without a marker a label that opens the
    response counts too.
    """
    found = final_answer(text, cut=cut)
    by_text = _option_named(found.text, labels, options) if found else None
    if by_text is not None:
        return by_text
    letters = _letters(found, labels) if found else []
    if not letters and not (found and found.marked):
        letters = _leading(without_thoughts(text), labels)
    return letters[0] if len(set(letters)) == 1 else None


def _settled(text: str, step: Callable[[str], str]) -> str:
    """Apply a step until it changes nothing."""
    while (simpler := step(text)) != text:
        text = simpler
    return text


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text.replace("−", "-")).casefold().split())


def _simpler(text: str) -> str:
    text = _LATEX.sub(lambda found: f"\\{found[2]}" if found[2] else found[1] or "", text)
    text = _folded(text).strip(_EDGES)
    for opening, closing in _PAIRS:
        inner = text[len(opening) : -len(closing)]
        if (
            text.startswith(opening)
            and text.endswith(closing)
            and not set(inner) & set(opening + closing)
        ):
            return inner.strip(_EDGES)
    return text


def _after_equals(text: str) -> str:
    """Return what follows the last equals sign, where a number does."""
    parts = _EQUALS.split(text)
    return parts[-1] if next(numbers_in(parts[-1]), None) is not None else text


def _is_hedged(text: str, numbers: list[Number]) -> bool:
    return any(
        _JOINT.fullmatch(text[one.end : two.start]) and one.value != two.value
        for one, two in pairwise(numbers)
    )


def _option_named(text: str, labels: str, options: tuple[str, ...]) -> str | None:
    said = normalised(text)
    named = [
        label for label, option in zip(labels, options, strict=False) if normalised(option) == said
    ]
    return named[0] if len(named) == 1 and len(said) > 1 else None


def _letters(found: Found, labels: str) -> list[str]:
    """Return the labels chosen in a stretch: one, several that stand side by side, or none."""
    plain = re.sub(r"[*_`$]|\\(?:text\w{0,2}|mathrm|mathbf)\b", "", found.text).strip()
    plain = plain.strip("\"'“”«»").translate(str.maketrans("{}", "()"))
    among = f"[{re.escape(labels)}{re.escape(labels.lower())}]"
    first = re.match(
        rf"(?:(?:option|choice|answer|letter)\s)?[(\[]?\s?({among})\s?(?:[)\].:,;]|$|\s(?:[-–—:(]|(?:because|since|as|is|or|and|with)\b))",
        plain,
        re.IGNORECASE,
    )
    if first:
        beside = rf"[\s)\]]{{0,3}}(?:,|,?\s?(?:or|and|&))\s?[(\[]?([{re.escape(labels)}])(?=[)\].,;]|\s*$)"
        more = re.match(beside, plain[first.end(1) :])
        return [each[1].upper() for each in (first, more) if each]
    pattern = rf"[(\[]\s?({among})\s?[)\]]|\b(?:option|choice)\s[(\[]?({among})\b"
    spoken = [(a or b).upper() for a, b in re.findall(pattern, plain, re.IGNORECASE)]
    if found.marked or spoken:
        return spoken if found.marked else spoken[-1:]
    decided = re.search(rf"{_DECIDING}\W{{1,4}}([{re.escape(labels)}])\W{{0,4}}$", plain)
    return [decided[1]] if decided else []


def _leading(text: str, labels: str) -> list[str]:
    """Return the label that a response opens with (`B. Paris`, and then why)."""
    opening = re.match(
        rf"[\s*_`(\[]{{0,6}}([{re.escape(labels)}])[*_`]{{0,3}}(?:[)\].:]|\s?$)", text, re.MULTILINE
    )
    return [opening[1]] if opening else []
