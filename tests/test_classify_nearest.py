"""SimHash and centroids: types of the nearest examples, without training."""

from __future__ import annotations

import pytest

from budgetroute.classify import Centroids, Chain, SimHash
from budgetroute.classify.nearest import BITS, NEIGHBOURS, simhash
from budgetroute.errors import ConfigError
from budgetroute.records import InputSize, Request

EXAMPLES = {
    "code": [
        "sort a list of names in python",
        "fix this python function that sorts a list",
        "why does my python loop never end",
    ],
    "mail": [
        "write a friendly letter to my landlord",
        "draft a polite email to a customer",
        "answer this email from my landlord politely",
    ],
}
AXES = ("python", "list", "email", "letter")


def request(text: str) -> Request:
    return Request(route="r", text=text, size=InputSize(9, 36))


def counted(text: str) -> list[float]:
    """Embed a text as counts of four words."""
    return [float(text.count(word)) for word in AXES]


def answer(classifier, text: str):
    found = classifier.classify(request(text))
    assert found is not None
    return found


def test_near_texts_differ_in_few_bits_and_unlike_ones_in_half() -> None:
    """Hashes of near texts are near; 128 bits of unlike ones differ like coins."""
    first = simhash("please sort a list of names in python for me")
    near = first ^ simhash("please sort the list of names in python for me")
    far = first ^ simhash("who painted the ceiling of that chapel, and when?")
    assert near.bit_count() < BITS / 4 < far.bit_count()


def test_simhash_gives_the_type_of_the_nearest_examples() -> None:
    """A text near one type's examples gets that type first; weights sum to 1."""
    weights, by = answer(SimHash(EXAMPLES), "sort a list of names in python please")
    assert weights[0][0] == "code"
    assert sum(weight for _, weight in weights) == pytest.approx(1.0)
    assert by == "simhash"


def test_simhash_passes_on_what_is_near_to_nothing() -> None:
    """A text whose hash is unlike all examples is left to the next part."""
    classifier = SimHash({"code": ["sort a list of names in python"]})
    far = [f"{word} " * 9 for word in ("lorem", "ipsum", "dolor", "sit", "amet", "elit", "magna")]
    assert any(classifier.classify(request(text)) is None for text in far)


def test_simhash_asks_no_more_than_its_neighbours() -> None:
    """With many examples only the nearest count: a lone near type wins over a crowd."""
    crowd = {**EXAMPLES, "mail": EXAMPLES["mail"] * NEIGHBOURS}
    assert answer(SimHash(crowd), EXAMPLES["code"][0])[0][0][1] <= 1.0


def test_simhash_without_examples_is_refused() -> None:
    """Nothing to be near to is an error when it is made, not at the first request."""
    with pytest.raises(ConfigError, match="example"):
        SimHash({"code": []})


def test_centroids_give_the_type_whose_mean_is_nearest() -> None:
    """The user's embedding decides; all types have a weight, and they sum to 1."""
    weights, by = answer(Centroids(EXAMPLES, embed=counted), "an email, or rather a letter")
    assert [name for name, _ in weights] == ["mail", "code"]
    assert sum(weight for _, weight in weights) == pytest.approx(1.0)
    assert by == "centroid"


def test_a_text_that_embeds_to_zero_is_passed_on() -> None:
    """Where the embedding says nothing, the next part is asked."""
    assert Centroids(EXAMPLES, embed=counted).classify(request("good morning")) is None


def test_vectors_of_different_lengths_are_refused() -> None:
    """An embed() that changes its mind about the length is an error."""
    with pytest.raises(ConfigError, match="length"):
        Centroids(EXAMPLES, embed=lambda text: [1.0] * (2 + len(text) % 2))


def test_an_example_without_direction_is_refused() -> None:
    """A zero vector has no direction to be near to."""
    with pytest.raises(ConfigError, match="zero"):
        Centroids({"code": ["hello"]}, embed=counted)


@pytest.mark.parametrize("make", [SimHash, lambda known: Centroids(known, embed=counted)])
def test_both_serve_in_a_chain(make) -> None:
    """They are parts like any other: the chain takes their answer and says who gave it."""
    chain = Chain(EXAMPLES, [make(EXAMPLES)])
    weights, by = chain.classify(request("sort a list of names in python"))
    assert weights[0][0] == "code"
    assert by in {"simhash", "centroid"}
