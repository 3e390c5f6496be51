"""Finding the answer in the formats that models write, and giving equal answers one spelling."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.graders import choice_of, final_answer, normalised, number_of, unfenced

NUMBERS = [
    ("42", "42"),
    ("The answer is 42.", "42"),
    ("Answer: 42", "42"),
    ("**Answer:** 42", "42"),
    ("**Final Answer: 42**", "42"),
    ("The final answer is: **42**", "42"),
    ("#### 42", "42"),
    ("<answer>42</answer>", "42"),
    ("<answer>\n42\n</answer>", "42"),
    ("### Final Answer\n\n42", "42"),
    ("**Answer**\n\n42 apples", "42"),
    ("Answer:\n```\n42\n```", "42"),
    ("The answer to the riddle is 42.", "42"),
    ("The correct answer is therefore 42", "42"),
    (r"\boxed{42}", "42"),
    (r"So $x = \boxed{42}$, as was to be shown.", "42"),
    (r"\boxed{{4.13}}", "413/100"),
    (r"\[ \boxed{\text{total} \;=\; 19} \]", "19"),
    (r"\boxed{\dfrac{3}{4}}", "3/4"),
    (r"\boxed{-\frac{1}{2}}", "-1/2"),
    (r"\boxed{\frac12}", "1/2"),
    (r"\boxed{1{,}234}", "1234"),
    (r"\boxed{12\,500}", "12500"),
    (r"\boxed{\$1,234.50}", "2469/2"),
    (r"\boxed{50\%}", "1/2"),
    ('{"reasoning": "6 times 7", "answer": "42"}', "42"),
    ('```json\n{"answer": 42}\n```', "42"),
    ("12 boxes of 3 make 36.\nThen 36 + 6 = 42", "42"),
    ("First 6.\nThen 7.\n\nSo there are 42 apples.\n", "42"),
    ("I first thought the answer is 41. Checking again:\nThe answer is 42.", "42"),
    (r"\boxed{41} is wrong. Rather \boxed{42}", "42"),
    ("\\boxed{42}\n\nThe correct answer is 42. This comes from 6 rows of 7.", "42"),
    ("The correct answer is 42, not the 41 of \\boxed{", "42"),
    ("<think>maybe the answer is 41</think>\n42", "42"),
    ("maybe 41</think>\nThe answer is 42", "42"),
    ("The answer is 40 + 2 = 42.", "42"),
    ("The answer is approximately 3.14 (to 2 places).", "157/50"),
    ("Answer: x ≈ 3.5", "7/2"),
    ("The answer is 1,234,567.", "1234567"),
    ("The answer is 12,34,567.", "1234567"),
    ("The answer is 1.234,50 €", "2469/2"),
    ("The answer is 3,5", "7/2"),
    ("The answer is 10 000 m", "10000"),
    ("The answer is 1\u202f234", "1234"),
    ("The answer is $18.", "18"),
    ("The answer is -$18.", "-18"),
    ("The answer is −18 °C.", "-18"),
    ("The answer is 18 km/h", "18"),
    ("The answer is 50%.", "1/2"),
    ("The answer is 50 percent.", "1/2"),
    ("The answer is 1 1/2 cups.", "3/2"),
    ("The answer is 3/4.", "3/4"),
    ("The answer is .5", "1/2"),
    ("The answer is 2.5 × 10^3.", "2500"),
    (r"The answer is $2.5 \times 10^{-3}$.", "1/400"),
    ("The answer is 1e-3", "1/1000"),
    ("The answer is 5 million people.", "5000000"),
]  # fmt: skip
NO_NUMBER = [
    "",
    "I'm sorry, but I can't help with that.",
    "The answer is 4 or 5.",
    "<think>it may be 42",
    "1/0",
    "The answer is 1e999999999",
    "9" * 5000,
]
CHOICES = [
    ("B", "B"),
    ("b", "B"),
    ("**B**", "B"),
    ("(B)", "B"),
    ("B.", "B"),
    ("B) Paris", "B"),
    ("B. Paris\n\nIt has been the capital since long ago, A is not.", "B"),
    ("**B**\n\nIt is the only one that fits", "B"),
    ("Answer: B", "B"),
    ("ANSWER: $B$", "B"),
    ("**Answer: B**", "B"),
    ("**Answer:** (B) Paris", "B"),
    ("The answer is (B).", "B"),
    ("The answer is **(b)**", "B"),
    ("The answer is B because A is too small.", "B"),
    ("The answer is B - Paris", "B"),
    ("The correct option is B", "B"),
    ("So the best choice is: option B.", "B"),
    ("The correct answer is **B. Paris**\n\nLyon is smaller.", "B"),
    (r"The correct answer is \boxed{B}. Lyon is smaller.", "B"),
    (r"\boxed{\text{B}}", "B"),
    (r"$\boxed{\textbf{(B)}}$", "B"),
    ("Options A, C and D do not fit.\n\n\\boxed{B}", "B"),
    ("A and C are wrong, which leaves\nOption B", "B"),
    ("Weighing all, I choose (B).", "B"),
    ("<answer>B</answer>", "B"),
    ('{"answer": "B"}', "B"),
    ("The answer is I", "I"),
    ('The answer is "B"', "B"),
    ("I would go with B.", "B"),
    ("Therefore **B**", "B"),
    ("正确答案是 B", "B"),
    ("Die Antwort ist (B).", "B"),
    ("La réponse est **B**", "B"),
    ("Respuesta: B", "B"),
]  # fmt: skip
NO_CHOICE = [
    "",
    "The answer is A or B.",
    "Answer: (A) and (B)",
    "Answer: A, C",
    "The answer is not A.",
    "The answer is a matter of taste",
    "The answer is I do not know",
    "I cannot answer this question.",
    "Paris",
    "Answer: Z",
    "Oranges have vitamin C",
    "It is a",
]
words = st.text(st.characters(codec="utf-8"), max_size=60)


@pytest.mark.parametrize(("text", "key"), NUMBERS)
def test_the_number_of_a_response(text, key):
    """The final number is found and read exactly, whatever it is wrapped in."""
    assert number_of(text).key() == key


@pytest.mark.parametrize("text", NO_NUMBER)
def test_no_number(text):
    """Refusals, hedges, thoughts that never end and absurd numbers are no answer."""
    assert number_of(text) is None


@pytest.mark.parametrize(("text", "label"), CHOICES)
def test_the_choice_of_a_response(text, label):
    """The chosen label is found, whatever it is wrapped in."""
    assert choice_of(text) == label


@pytest.mark.parametrize("text", NO_CHOICE)
def test_no_choice(text):
    """Two labels, none, a pronoun and an article are no choice."""
    assert choice_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["So far 40.\nThen we add 2 and get 4", "The answer is 4", "Answer: 4", r"So \boxed{4", '{"answer": "4', "<answer>4", '{"answer": 4'],
)  # fmt: skip
def test_cut_by_its_cap(text):
    """A text that its cap cut has no answer where more digits may have been to come."""
    assert number_of(text, cut=True) is None


@pytest.mark.parametrize(
    "text", ["The answer is 42.", "Answer: 42\nThis foll", r"\boxed{42} beca", "#### 42\n\n"]
)
def test_cut_after_its_answer(text):
    """An answer that was whole before the cut counts; blanks at the end say nothing."""
    assert (number_of(text, cut=True) is None) is text.startswith("####")


def test_a_choice_that_opens_a_cut_text():
    """A label that opens the response counts, however the reasons after it ended."""
    assert choice_of("B. Paris\n\nIt has been the cap", cut=True) == "B"
    assert choice_of("It may be (B) or", cut=True) is None


def test_an_option_by_its_text():
    """An answer that is the text of an option chooses its label; two equal options choose none."""
    assert choice_of("The answer is **Paris**.", options=("Lyon", "Paris")) == "B"
    assert choice_of("The answer is Paris.", options=("Paris", "Paris")) is None


def test_other_labels():
    """Labels may be digits, and those that are not among the labels choose nothing."""
    assert choice_of("Answer: (3)", labels="1234") == "3"
    assert choice_of("Answer: E", labels="ABCD") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("**The  Eiffel Tower.**", "the eiffel tower"),
        (r"$\text{Paris}$", "Paris"),
        ("“Yes”", "yes"),
        ("(x + 1)", "x + 1"),
        (r"\dfrac{a}{b}", r"\frac{a}{b}"),
        ("ﬁne", "FINE"),
        ("a\u00a0b", "a b"),
        (r"\left(1, 2\right)", "(1, 2)"),
    ],
)
def test_one_spelling(one, other):
    """Case, spaces, markup, quotes and LaTeX wrappers make no difference."""
    assert normalised(one) == normalised(other)


def test_what_differs_stays_different():
    """Normalising keeps signs, digits and inner punctuation."""
    said = ["-1", "1", "1.5", "15", "a-b", "ab", "(1, 2)", "(1), (2)", "x^2", "x2"]
    assert len({normalised(each) for each in said}) == len(said)


@given(words)
def test_normalising_twice(text):
    """Normalising is idempotent."""
    assert normalised(normalised(text)) == normalised(text)


@given(st.decimals(-(10**12), 10**12, places=3))
def test_numbers_survive_their_spelling(value):
    """A decimal is read back exactly, with thousands separators or without."""
    assert number_of(f"The answer is {value:.3f}").value == Fraction(value)
    assert number_of(f"Answer: **{value:,.3f}**").value == Fraction(value)


@given(words, st.integers(-(10**9), 10**9))
def test_the_last_marker_wins(before, value):
    """Whatever came before, a box at the end is the answer."""
    text = before.replace("\\", "").replace("<", "").replace('"', "") + f"\n\\boxed{{{value}}}"
    assert number_of(text).value == value


@given(st.text('<>/think{}\\boxed answer:is\n#*`~"0123456789.,/', max_size=300))
def test_nothing_breaks_it(text):
    """No text makes the search raise."""
    final_answer(text), number_of(text), choice_of(text), unfenced(text)


@pytest.mark.parametrize(
    "part",
    ["\\boxed{", "(", "<think>", "the answer is ", "1,", "```\n", '"answer": "', "\\text{", "$", "#### ", "1 ", "answer to a "],
)  # fmt: skip
def test_long_texts_end(part):
    """Text made to blow the search up is searched in linear time: it ends at all."""
    text = part * (200_000 // len(part))
    number_of(text), choice_of(text), normalised(text[:20_000]), normalised(text[:5_000])


def test_code_blocks():
    """The last block of the language wins over others, a cut block counts to its end."""
    text = "```python\na = 1\n```\ntext\n```py\na = 2\n```\n```bash\nrun\n```"
    assert unfenced(text, "python", "py") == "a = 2"
    assert unfenced(text) == "run"
    assert unfenced("```python\na = 3") == "a = 3"
    assert unfenced("no code") is None
    assert unfenced("````md\n```\nx\n```\n````") == "```\nx\n```"
