"""Types from outcomes: found where prompts differ in who answers them, merged where they do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from budgetroute.errors import ProfileError
from budgetroute.profiling import Graded, discover_types, merge_types

WORDS = {
    "sums": "add price total number apples coins each buys",
    "proofs": "prove theorem integral manifold converge lemma bounded",
    "poems": "rhyme verse moon love stanza haiku autumn",
}
RIGHT = {"sums": (0.9, 0.95), "proofs": (0.1, 0.8), "poems": (0.9, 0.95)}
"""Chance of (small, big) to be right: sums and poems do not differ, proofs do."""


def graded(size: int = 360, labels: dict[str, str] | None = None) -> Graded:
    draw, luck = random.Random(11), np.random.default_rng(11)
    kinds = [list(WORDS)[i % 3] for i in range(size)]
    texts = [" ".join(draw.choices(WORDS[kind].split(), k=14)) for kind in kinds]
    scores = (luck.random((size, 2)) < np.array([RIGHT[kind] for kind in kinds])).astype(float)
    tokens = np.full((size, 2), 100.0) * luck.uniform(0.8, 1.25, (size, 1))
    named = [kind if labels is None else labels[kind] for kind in kinds]
    return Graded(texts, named, ("small", "big"), scores, tokens * [1e-6, 1e-5], tokens)


def test_prompts_with_other_outcomes_become_another_type() -> None:
    """Proofs, which only the big model solves, end up apart from sums and poems."""
    table = graded()
    found = discover_types(table)
    apart = [t for t, kind in zip(found, table.labels, strict=True) if kind == "proofs"]
    home = max(set(apart), key=apart.count)
    inside = [kind for t, kind in zip(found, table.labels, strict=True) if t == home]
    assert apart.count(home) > 0.9 * len(apart)
    assert inside.count("proofs") > 0.9 * len(inside)


def test_what_does_not_differ_is_one_type() -> None:
    """Sums and poems, alike in who answers them, are merged; proofs stay."""
    assert set(merge_types(graded())) == {"poems+sums", "proofs"}


def test_outcomes_alike_everywhere_leave_one_type(monkeypatch) -> None:
    """Where no type differs in more than luck, all are one."""
    for kind in RIGHT:
        monkeypatch.setitem(RIGHT, kind, (0.7, 0.7))
    assert len(set(merge_types(graded()))) == 1


def test_labels_are_not_looked_at_when_types_are_found() -> None:
    """Found types come from text and outcomes: other labels, same types."""
    renamed = graded(labels=dict.fromkeys(WORDS, "all"))
    assert discover_types(renamed) == discover_types(graded())


def test_a_small_type_joins_its_nearest() -> None:
    """A type of few prompts has no curve of its own."""
    table = graded(size=90)
    assert all("+" in name for name in merge_types(table))


def test_too_few_prompts_are_refused() -> None:
    """Types of a handful of prompts would be luck."""
    with pytest.raises(ProfileError, match="too few"):
        discover_types(graded(size=60))
