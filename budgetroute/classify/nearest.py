"""Classifiers that need no training: the nearest example by SimHash, the nearest centroid by embedding.

Both take examples of each type. SimHash compares the words themselves (a few hundred examples, a
bit for each of 128 random directions); centroids take any `embed` function of the user's.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

from budgetroute.classify.linear import prepared, terms
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from budgetroute.records import Request

    Weights = tuple[tuple[str, float], ...]

__all__ = ["Centroids", "SimHash"]

BITS = 128
NEIGHBOURS = 7
FURTHEST = 0.45
"""Share of differing bits from which two texts have nothing in common; chance is 0.5."""
SHARPNESS = 20.0
"""What a cosine is multiplied by before shares are taken of its exponentials."""


class SimHash:
    """Gives the types of the nearest examples, by the bits in which their SimHashes differ.

    Args:
        examples: type → its example texts; 10 to 1,000 of them make sense.

    Raises:
        ConfigError: there is no example.
    """

    def __init__(self, examples: Mapping[str, Iterable[str]]) -> None:
        self._known = [
            (simhash(text), name) for name, texts in examples.items() for text in texts if text
        ]
        if not self._known:
            raise ConfigError("a SimHash classifier needs an example text of at least one type.")

    def classify(self, request: Request) -> tuple[Weights, str] | None:
        """Return the types of the 7 nearest examples, by how near they are; None when none is."""
        own = simhash(request.text)
        nearest = sorted([((own ^ other).bit_count(), name) for other, name in self._known])
        near = [pair for pair in nearest[:NEIGHBOURS] if pair[0] <= FURTHEST * BITS]
        if not near:
            return None
        sums: dict[str, float] = {}
        for bits, name in near:  # squared: an example at half the way to chance counts a quarter
            sums[name] = sums.get(name, 0.0) + (1.0 - 2.0 * bits / BITS) ** 2
        total = sum(sums.values())
        shares = [(name, value / total) for name, value in sums.items()]
        return tuple(sorted(shares, key=lambda share: -share[1])), "simhash"


def simhash(text: str) -> int:
    """Return 128 bits, each the sign of a random projection of a text's tokens and pairs.

    >>> near = simhash("sort a list of names") ^ simhash("sort the list of names")
    >>> far = simhash("sort a list of names") ^ simhash("who painted the ceiling?")
    >>> near.bit_count() < far.bit_count()
    True
    """
    import numpy as np

    own = {term.encode() for term in terms(prepared(text))}
    digests = b"".join([hashlib.blake2b(term, digest_size=BITS // 8).digest() for term in own])
    signs = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, BITS // 8), axis=1)
    bits = np.packbits(2 * signs.sum(axis=0, dtype=np.int64) > len(own))
    return int.from_bytes(bits.tobytes())


class Centroids:
    """Gives the types whose mean embedding is nearest.

    Args:
        examples: type → its example texts.
        embed: text → vector; called once per example here, and once per request.

    Raises:
        ConfigError: there is no example, or vectors differ in length or are zero.
    """

    def __init__(
        self,
        examples: Mapping[str, Iterable[str]],
        *,
        embed: Callable[[str], Sequence[float]],
    ) -> None:
        self._embed = embed
        self._centroids = {
            name: _mean([_unit(embed(text)) for text in texts]) for name, texts in examples.items()
        }
        if len({len(vector) for vector in self._centroids.values()}) != 1:
            raise ConfigError(
                "centroids need an example of at least one type, and vectors of one length; found "
                f"{ {name: len(vector) for name, vector in self._centroids.items()} }."
            )

    def classify(self, request: Request) -> tuple[Weights, str] | None:
        """Return every type by the softmax of 20 × cosine; None for a text that embeds to zero."""
        vector = self._embed(request.text)
        if not any(vector):
            return None
        own = _unit(vector)
        near = {name: _cosine(own, other) for name, other in self._centroids.items()}
        top = max(near.values())
        raised = {name: math.exp(SHARPNESS * (value - top)) for name, value in near.items()}
        total = math.fsum(raised.values())
        shares = [(name, value / total) for name, value in raised.items()]
        return tuple(sorted(shares, key=lambda share: -share[1])), "centroid"


def _unit(vector: Sequence[float]) -> list[float]:
    size = math.sqrt(math.fsum(value * value for value in vector))
    if not size or not math.isfinite(size):
        raise ConfigError("an example's embedding is zero or not finite; leave the example out.")
    return [float(value) / size for value in vector]


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def _mean(vectors: Sequence[Sequence[float]]) -> list[float]:
    if len({len(vector) for vector in vectors}) > 1:
        raise ConfigError("embed() gave vectors of different lengths.")
    sums = [math.fsum(column) for column in zip(*vectors, strict=True)]
    return _unit(sums) if sums else []
