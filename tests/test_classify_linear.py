from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.classify import LinearClassifier
from budgetroute.classify.linear import HEAD, PATTERN, TAIL, prepared, terms
from budgetroute.classify.train import arrays_of, evaluate, fitted_pipeline, save_npz, train
from budgetroute.errors import ProfileError
from budgetroute.records import InputSize, Request

WORDS = {
    "math": "sum add total price percent equation solve integer number ratio 12 345 7,5 6.25",
    "code": "python function bug list return loop class compile def test_case naïve x_1",
    "chat": "dear email friend write poem letter story hello thanks café straße ПРИВЕТ",
}
COMMON = "the a of to and is please can you what how many in this"


def corpus(seed: int = 7, size: int = 60) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    texts, labels = [], []
    for label, own in WORDS.items():
        pool = own.split() + COMMON.split()
        for _ in range(size):
            texts.append(" ".join(draw.choices(pool, k=draw.randint(3, 40))))
            labels.append(label)
    return texts, labels


@pytest.fixture(scope="module")
def pipeline():
    return fitted_pipeline(*corpus())


@pytest.fixture(scope="module")
def model(pipeline) -> LinearClassifier:
    return LinearClassifier(arrays_of(pipeline))


def arrays(**changes):
    good = {
        "terms": np.frombuffer(b"sum\tbug", dtype=np.uint8),
        "idf": np.ones(2, np.float32),
        "coef": np.eye(2, dtype=np.float32),
        "intercept": np.zeros(2, np.float32),
        "meta": meta(),
    }
    return {name: array for name, array in {**good, **changes}.items() if array is not None}


def meta(text: str | None = None):
    text = text or (
        '{"format": "budgetroute-classifier/1", "classes": ["math", "code"], "sublinear": true}'
    )
    return np.frombuffer(text.encode(), dtype=np.uint8)


def ask(text: str) -> Request:
    return Request("main", text, InputSize(1, 4))


def test_probabilities_are_scikit_learns(pipeline, model):
    """On texts it has not seen, every probability is scikit-learn's to 1e-6."""
    texts, _ = corpus(seed=8)
    texts += ["x " * 5_000 + "python", "Sum!! 12,5%\n\tof_the PRICE  ", "İstanbul python ﬁle"]
    ours = np.array([model.probabilities(text) for text in texts])
    assert np.abs(ours - pipeline.predict_proba(texts)).max() < 1e-6


@given(st.text(alphabet="ab1 _-.é\u0130日本\n\r\t'{=", max_size=60))
def test_terms_are_scikit_learns(text):
    """The analyser splits any text as scikit-learn's does, in the same order."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(preprocessor=prepared, token_pattern=PATTERN, ngram_range=(1, 2))
    analyse = vectorizer.build_analyzer()
    assert terms(prepared(text)) == analyse(text)


def test_two_classes_give_scikit_learns_probabilities():
    """With two classes scikit-learn keeps one row of weights; ours still gives both."""
    texts, labels = corpus()
    kept = [(text, label) for text, label in zip(texts, labels, strict=True) if label != "chat"]
    two = fitted_pipeline(*map(list, zip(*kept, strict=True)))
    model = LinearClassifier(arrays_of(two))
    ours = np.array([model.probabilities(text) for text, _ in kept])
    assert np.abs(ours - two.predict_proba([text for text, _ in kept])).max() < 1e-6


def test_a_file_gives_the_model_back(tmp_path, pipeline, model):
    """A saved model answers as before and keeps its provenance."""
    path = tmp_path / "model.npz"
    save_npz(path, arrays_of(pipeline, meta={"licence": "CC-BY"}))
    loaded = LinearClassifier.load(path)
    assert loaded.meta["licence"] == "CC-BY"
    assert loaded.classes == model.classes == ("chat", "code", "math")
    assert loaded.probabilities("solve the equation") == model.probabilities("solve the equation")


def test_the_same_training_gives_the_same_bytes(tmp_path):
    """Training twice on the same texts writes the same file."""
    digests = set()
    for name in ("one.npz", "two.npz"):
        save_npz(tmp_path / name, train(*corpus(), meta={"created": "2026-01-01"}))
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_classify_gives_every_class_heaviest_first(model):
    """The answer names all classes, sums to 1 and starts with the heaviest."""
    weights, who = model.classify(ask("solve the equation and total the price"))
    assert who == "linear"
    assert weights[0][0] == "math"
    assert {name for name, _ in weights} == set(model.classes)
    assert sum(share for _, share in weights) == pytest.approx(1.0)
    assert [share for _, share in weights] == sorted((w for _, w in weights), reverse=True)


@pytest.mark.parametrize("text", ["", " \n", "?!", "日", "zyxxy quux", "(zyxxy) ..."])
def test_a_text_without_known_words_is_passed_on(text):
    """Where no word is known the model says nothing, though it knows signs and lengths."""
    texts, labels = corpus()
    model = LinearClassifier(train([f"({text})?!\n..." for text in texts], labels))
    assert model.probabilities(text) is None
    assert model.classify(ask(text)) is None


def test_a_mostly_foreign_text_is_passed_on(model):
    """A text of whose tokens fewer than half are known is passed on, one of half is answered."""
    assert model.classify(ask("python Zeichenkette umdrehen")) is None
    assert model.classify(ask("python Zeichenkette")) is not None
    assert model.probabilities("python Zeichenkette umdrehen") is not None


def test_long_texts_are_read_at_both_ends(model):
    """Only head and tail count, so a megabyte costs what 4,000 characters cost."""
    head, tail = "solve equation ".ljust(HEAD), " python".rjust(TAIL)
    cut = prepared(head + "poem " * 200_000 + tail)
    assert len(cut) < HEAD + TAIL + len("\n \n \nlen20")
    assert "poem" not in cut
    assert cut.startswith("\nsolve")
    assert cut.endswith("python\nlen20")


def test_digits_count_by_shape():
    """Two numbers with as many digits are the same term, with more digits another."""
    assert terms(prepared("pay 12 or 1999")) == terms(prepared("pay 45 or 2024"))
    assert terms(prepared("pay 12")) != terms(prepared("pay 123"))


def test_rare_terms_are_not_kept():
    """A term of fewer prompts than asked for is not in the file, however often it occurs."""
    texts, labels = corpus()
    texts[0] += " secretname secretname secretname"
    texts[1] += " secretname"
    kept = bytes(train(texts, labels, min_prompts=3)["terms"]).decode().split("\t")
    assert "python" in kept
    assert not [term for term in kept if "secretname" in term]


def test_training_on_one_type_is_refused():
    """One type leaves nothing to tell apart, and the error says so."""
    with pytest.raises(ProfileError, match=r"two or more types, found \['math'\]"):
        train(["one and two", "two and two"], ["math", "math"])


def test_training_on_too_few_prompts_is_refused():
    """Where no term is shared by enough prompts, the error says what to change."""
    with pytest.raises(ProfileError, match=r"these 2 prompts .* lower min_prompts than 3"):
        train(["one and two", "a poem"], ["math", "chat"])


def test_serving_needs_no_heavy_library():
    """Importing the package loads neither numpy nor scikit-learn."""
    probe = "import sys, budgetroute.classify; print({'numpy', 'sklearn'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_weights_move_the_model():
    """A class whose prompts weigh more is given more."""
    texts, labels = corpus()
    heavy = [5.0 if label == "code" else 1.0 for label in labels]
    plain = LinearClassifier(train(texts, labels))
    moved = LinearClassifier(train(texts, labels, weights=heavy))
    code = plain.classes.index("code")
    assert moved.probabilities("please")[code] > plain.probabilities("please")[code]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"coef": None}, "has no array coef"),
        ({"coef": None, "idf": None}, "has no array idf, coef"),
        ({"meta": meta("{")}, "not text"),
        ({"meta": meta("[]")}, "format None"),
        ({"meta": meta('{"format": "budgetroute-classifier/2"}')}, "this package reads"),
        ({"terms": np.array([255, 10, 254], np.uint8)}, "not text"),
        ({"terms": np.frombuffer(b"sum", dtype=np.uint8)}, "idf has shape (2,)"),
        ({"terms": np.frombuffer(b"sum\tsum", dtype=np.uint8)}, "stands twice"),
        ({"coef": np.eye(3, dtype=np.float32)}, "coef has shape (3, 3)"),
        ({"intercept": np.zeros(3, np.float32)}, "intercept has shape (3,)"),
        ({"idf": np.array([1, np.nan], np.float32)}, "idf holds numbers that are not finite"),
        ({"coef": np.array([[1, np.inf], [0, 1]], np.float32)}, "coef holds numbers"),
        ({"intercept": np.zeros(2, np.int64)}, "intercept holds"),
        ({"meta": meta('{"format": "budgetroute-classifier/1"}')}, "classes must be names"),
        (
            {"meta": meta('{"format": "budgetroute-classifier/1", "classes": ["a"]}')},
            "two or more classes",
        ),
        (
            {"meta": meta('{"format": "budgetroute-classifier/1", "classes": ["a", "a"]}')},
            "two or more classes",
        ),
        (
            {"meta": meta('{"format": "budgetroute-classifier/1", "classes": ["a", "b"]}')},
            "lacks sublinear",
        ),
    ],
)
def test_a_broken_model_is_refused(changes, says):
    """Missing, misshapen, infinite or foreign arrays raise ProfileError that says which."""
    assert LinearClassifier(arrays()).probabilities("sum") is not None
    with pytest.raises(ProfileError, match="classifier broken") as caught:
        LinearClassifier(arrays(**changes), source="broken")
    assert says in str(caught.value)


def test_files_that_are_no_model_are_refused(tmp_path):
    """A missing file, other bytes and a pickle raise ProfileError with the path."""
    missing, junk, pickled = (tmp_path / name for name in ("no.npz", "junk.npz", "pickle.npz"))
    junk.write_bytes(b"not a zip")
    np.savez(pickled, terms=np.array([object()], dtype=object))
    for path in (missing, junk, pickled):
        with pytest.raises(ProfileError, match=path.name):
            LinearClassifier.load(path)


@pytest.mark.parametrize("keep", [10, 200, 2_000])
def test_a_cut_off_file_is_refused(tmp_path, pipeline, keep):
    """A file cut off anywhere raises ProfileError."""
    path = tmp_path / "model.npz"
    save_npz(path, arrays_of(pipeline))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ProfileError, match=r"model.npz"):
        LinearClassifier.load(path)


def test_the_digest_is_checked_when_given(tmp_path, pipeline):
    """A file whose sha256 is not the profile's is refused before it is read."""
    path = tmp_path / "model.npz"
    save_npz(path, arrays_of(pipeline))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert LinearClassifier.load(path, sha256=digest.upper()).classes
    with pytest.raises(ProfileError, match="the profile names 00"):
        LinearClassifier.load(path, sha256="00")


def test_evaluate_counts_as_scikit_learn_does(model):
    """Accuracy and macro-F1 are scikit-learn's."""
    from sklearn.metrics import accuracy_score, f1_score

    texts, labels = corpus(seed=9)
    labels[:20] = ["chat"] * 20
    found = [model.classify(ask(text))[0][0][0] for text in texts]
    result = evaluate(model, texts, labels)
    assert result.accuracy == pytest.approx(accuracy_score(labels, found))
    assert result.macro_f1 == pytest.approx(f1_score(labels, found, average="macro"))
    assert sum(result.confusion.values()) == len(texts)


HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "profiles" / "broad-types.npz"
TYPES = ("chat", "code", "knowledge", "math", "reading", "reasoning")


@pytest.fixture(scope="module")
def shipped() -> LinearClassifier:
    return LinearClassifier.load(SHIPPED)


def everyday() -> tuple[list[str], list[str]]:
    lines = (HERE / "everyday_prompts.txt").read_text("utf-8").splitlines()
    pairs = [line.split(" | ", 1) for line in lines if not line.startswith("#")]
    return [text for _, text in pairs], [label for label, _ in pairs]


def test_the_shipped_model_sorts_everyday_prompts(shipped):
    """At least three in four everyday prompts, written after its training text, are sorted right."""
    texts, labels = everyday()
    assert {kind: labels.count(kind) for kind in TYPES} == dict.fromkeys(TYPES, 10)
    assert evaluate(shipped, texts, labels).accuracy >= 0.75


def test_no_type_of_the_shipped_model_is_lost(shipped):
    """Every type is found in at least half of its everyday prompts."""
    texts, labels = everyday()
    confusion = evaluate(shipped, texts, labels).confusion
    assert {kind: confusion.get((kind, kind), 0) >= 5 for kind in TYPES} == dict.fromkeys(
        TYPES, True
    )


def test_everyday_prompts_are_not_trained_on():
    """No prompt the model is judged by stands in its training text."""
    training = (SHIPPED.parent / "everyday.txt").read_text("utf-8").lower()
    assert not [text for text in everyday()[0] if text.lower() in training]


def test_the_shipped_model_is_small_and_says_where_it_is_from(shipped):
    """The file stays below 1.5 MB and names its sources, licences and held-out quality."""
    assert SHIPPED.stat().st_size < 1_500_000
    assert shipped.classes == TYPES
    assert shipped.meta["held_out"]["macro_f1"] > 0.85
    assert all("from" in source for source in shipped.meta["sources"].values())


@pytest.mark.parametrize(
    "text",
    ["Wie komme ich am schnellsten zum Bahnhof?", "写一首关于春天的诗", "Напиши письмо начальнику"],
)
def test_the_shipped_model_passes_on_other_languages(shipped, text):
    """A prompt in a language it was not trained on is passed on."""
    assert shipped.classify(ask(text)) is None
