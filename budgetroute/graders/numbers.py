"""Numbers as models write them, read exactly.

Signs, thousands separators, decimal commas, fractions, mixed numbers, percent, powers of ten, words
of scale, LaTeX and currency. Values are `Fraction`s, so that 1/3 is 1/3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Number", "numbers_in", "only_number", "plain_latex"]

_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_MOST_DIGITS = 60
_HIGHEST_POWER = 60
_GROUP = 3
_MINUS = str.maketrans({"−": "-", "–": "-", "﹣": "-", "－": "-", "⁄": "/", "％": "%"})
_BLANKS = re.compile(r"(?<=\d)(?:[\u00a0\u2009\u202f]|\\[,;:! ]|\{,\})(?=\d{3}(?!\d))")
_SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3}){1,9}(?![\d/])")
_FRAC = re.compile(r"\\[dtc]?frac\s?\{\s?(-?[\d.,]{1,60})\s?\}\s?\{\s?(-?[\d.,]{1,60})\s?\}")
_SHORT_FRAC = re.compile(r"\\[dtc]?frac\s?(\d)\s?(\d)")
_WRAPPERS = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|textrm|operatorname)\s?(?=\{)")
_SPACES = re.compile(r"\\(?:left|right|displaystyle|quad|,|;|:|!|(?= ))")
_NUMBER = re.compile(
    r"""(?<![\w.,/^])
    (?P<sign>[-+]?)\s?(?P<money>[$€£¥₹]?)\s?(?P<inner>-?)
    (?P<body>\d{1,60}(?:[.,]\d{1,60})*|\.\d{1,60})(?!\d|[eE][-+]?\d{4})
    (?:\s?/\s?(?P<under>\d{1,60}(?:\.\d{1,60})?)(?![\d/])
      |[ ](?P<above>\d{1,9})\s?/\s?(?P<below>\d{1,9})(?![\d/]))?
    (?:[eE](?P<e>[-+]?\d{1,3})(?!\w)|\s?(?:×|x|\*|\\times|\\cdot|·)\s?10\s?(?:\^|\*\*)\s?\{?(?P<power>[-+]?\d{1,3})\}?)?
    (?:\s?(?P<scale>thousand|million|billion|trillion)\b)?
    (?P<percent>\s?\\?%|\s?percent\b)?
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number and where it stood.

    Attributes:
        value: exact.
        percent: a percent sign followed; `value` is what stood before it.
        start: index of the first character in the text that was searched.
        end: index after the last one.
    """

    value: Fraction
    percent: bool = False
    start: int = 0
    end: int = 0

    def key(self) -> str:
        """Return one spelling for equal values, by which answers are counted."""
        value = self.value / 100 if self.percent else self.value
        return str(value)


def plain_latex(text: str) -> str:
    r"""Take LaTeX and dollar signs off numbers: fractions, thin spaces, `\text`.

    >>> plain_latex(r"$\dfrac{3}{4}$ of \$1{,}200")
    '3/4 of 1,200'
    """
    text = _BLANKS.sub(lambda found: "," if found[0] == "{,}" else "", text.translate(_MINUS))
    text = _SPACED.sub(lambda found: found[0].replace(" ", ""), text)
    text = _SHORT_FRAC.sub(r"\1/\2", _FRAC.sub(r" \1/\2", text))
    text = _WRAPPERS.sub("", _SPACES.sub("", text))
    for mark in ("\\$", "$"):
        text = text.replace(mark, "")
    return text.replace("{", " ").replace("}", " ").strip()


def numbers_in(text: str) -> Iterator[Number]:
    """Yield the numbers of a text that was made plain, in order.

    >>> [str(each.value) for each in numbers_in("from $1,234.50 to 3/4, −2 and 1 1/2")]
    ['2469/2', '3/4', '-2', '3/2']
    """
    for found in _NUMBER.finditer(text.translate(_MINUS)):
        value = _value(found)
        if value is not None:
            yield Number(value, found["percent"] is not None, found.start(), found.end())


def only_number(text: str) -> Number | None:
    """Return the number that a text is, with a unit perhaps; None when it holds none or several."""
    found = list(numbers_in(plain_latex(text)))
    return found[0] if len(found) == 1 else None


def _value(found: re.Match[str]) -> Fraction | None:
    body = _decimal(found["body"])
    if body is None:
        return None
    value = _with_fraction(body, found)
    power = int(found["e"] or found["power"] or 0)
    if value is None or abs(power) > _HIGHEST_POWER:
        return None
    value *= Fraction(10) ** power * _SCALES.get((found["scale"] or "").lower(), 1)
    return -value if (found["sign"] == "-") != (found["inner"] == "-") else value


def _with_fraction(body: Fraction, found: re.Match[str]) -> Fraction | None:
    under, below = found["under"], found["below"]
    if under is not None:
        divisor = Fraction(under)
        return body / divisor if divisor else None
    if below is not None:
        return body + Fraction(int(found["above"]), int(below)) if int(below) else None
    return body


def _decimal(body: str) -> Fraction | None:
    """Read digits with points and commas; None when they are no number (1.2.3, an address)."""
    if len(body) > _MOST_DIGITS:
        return None
    if "," in body:
        body = _without_commas(body)
    elif body.count(".") > 1:
        body = _without_groups(body, ".")
    try:
        return Fraction(body)
    except ValueError:
        return None


def _without_commas(body: str) -> str:
    if "." in body and body.rfind(",") > body.rfind("."):
        return body.replace(".", "").replace(",", ".")
    whole, point, rest = body.partition(".")
    if not point and whole.count(",") == 1 and not _is_grouped(whole, ","):
        return whole.replace(",", ".")
    return _without_groups(whole, ",") + point + rest


def _without_groups(body: str, mark: str) -> str:
    """Drop thousands separators; a text that is not grouped comes back and is no number."""
    return body.replace(mark, "") if _is_grouped(body, mark) else body


def _is_grouped(body: str, mark: str) -> bool:
    """Say whether the parts are groups of thousands; India's have two digits before the last."""
    first, *middle, last = body.split(mark)
    sizes = {len(part) for part in middle}
    return (
        1 <= len(first) <= _GROUP
        and first != "0"
        and len(last) == _GROUP
        and len(sizes) <= 1
        and sizes <= {2, 3}
    )
