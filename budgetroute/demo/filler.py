"""Text that says nothing, to the length that is asked for."""

from __future__ import annotations

_TEXT = (
    "Let me go through this with care before I say what I think. First we should be clear about what "
    "is given and what is being asked, because it is easy to miss a small part of it. There is more "
    "than one way to look at the problem, and it helps to begin with the one that needs the least "
    "work. We take what we know, put it in order, and see what follows from it. Then we ask whether "
    "anything has been left out, and whether the result still makes sense when we look at it from the "
    "other side. So far nothing speaks against it. It is worth going over the same ground again, as "
    "this is where mistakes tend to be made. What we have found up to here fits with what was said at "
    "the start, and that is a good sign. Next we turn to the part that was put aside and deal with it "
    "in the same way. If we had made other choices along the way, we would have come to the same "
    "place, only with more effort. Putting all of this together, we can now say what comes out of it, "
    "and there is little reason to doubt it. "
)
_WORDS = tuple(_TEXT.split())


def filler(words: int, offset: float) -> str:
    """Return so many words of neutral text, starting at a share `offset` in [0, 1) of it.

    Most words are one token of current tokenizers. No answer of the demo's questions occurs in it.

    >>> filler(3, 0.0)
    'Let me go'
    """
    if words <= 0:
        return ""
    start = int(offset * len(_WORDS))
    turns = -(-(start + words) // len(_WORDS))
    return " ".join((_WORDS * turns)[start : start + words])
