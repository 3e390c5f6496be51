"""What a prompt looks like, in numbers: how long it is, how many figures, signs and lines it has.

Answers to long sums are long, whatever words stand in them; these numbers say so where terms cannot.
The list is part of a residual's format: a change here is a new version there.
"""

from __future__ import annotations

import math
import re

__all__ = ["SHAPES", "shape_of_text"]

HEAD = 4_000
"""Characters read; they bound the time a long prompt takes."""
_words = re.compile(r"\w+").findall
_numbers = re.compile(r"\d+").findall
_signs = re.compile(r"[^\w\s]").findall
_capitals = re.compile(r"[A-Z]").findall
_COUNTED = ("\n", "\\", "(", ".", "[", "?", "for ", "if ")
SHAPES = 10 + len(_COUNTED)
"""Numbers in a shape."""


def shape_of_text(text: str) -> tuple[float, ...]:
    """Return the shape of a text: logarithms of counts, and three means.

    >>> len(shape_of_text("What is 12 + 345?")) == SHAPES
    True
    """
    head = text[:HEAD]
    words, numbers = _words(head), _numbers(head)
    digits = [len(number) for number in numbers]
    counts = (
        len(text),
        len(words),
        len(numbers),
        sum(digits),
        max(digits, default=0),
        len(_signs(head)),
        len(_capitals(head)),
        *[head.count(mark) for mark in _COUNTED],
    )
    means = (
        sum(digits) / max(1, len(digits)),
        sum(map(len, words)) / max(1, len(words)),
        len(set(words)) / (len(words) + 1),
    )
    return (*map(math.log1p, counts), *means)
