"""Small Python programs and functions with an output that can be checked."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from budgetroute.demo.questions import number_question

if TYPE_CHECKING:
    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question

_PRINTS = (
    "What does this Python program print?",
    "What is the output of the following Python code?",
    "Trace this Python code and give what it prints.",
)
_WORDS = (
    "banana", "harbour", "committee", "orchestra", "lighthouse", "mississippi", "successful",
    "bookkeeper", "parallel", "engineer", "tomorrow", "occurrence",
)  # fmt: skip


def _printed(rng: Random, code: str, value: int) -> Question:
    return number_question(rng, f"{rng.choice(_PRINTS)}\n\n```python\n{code}\n```", value)


def filtered_sum(rng: Random) -> Question:
    """Ask for a sum over a filtered range."""
    low, high, by = rng.randint(1, 20), rng.randint(25, 60), rng.randint(3, 7)
    rest = rng.randrange(by)
    code = (
        f"total = 0\nfor x in range({low}, {high}):\n    if x % {by} == {rest}:\n"
        f"        total += x\nprint(total)"
    )
    return _printed(rng, code, sum(x for x in range(low, high) if x % by == rest))


def collatz(rng: Random) -> Question:
    """Ask for the number of steps of a loop."""
    start = n = rng.randint(5, 60)
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    code = (
        f"n = {start}\nsteps = 0\nwhile n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
        f"    steps += 1\nprint(steps)"
    )
    return _printed(rng, code, steps)


def letters(rng: Random) -> Question:
    """Ask for a count of letters that occur often."""
    word, least = rng.choice(_WORDS) + rng.choice(_WORDS), rng.randint(1, 3)
    counts = {letter: word.count(letter) for letter in word}
    code = (
        f'word = "{word}"\ncounts = {{}}\nfor letter in word:\n'
        f"    counts[letter] = counts.get(letter, 0) + 1\n"
        f"print(len([c for c in counts.values() if c > {least}]))"
    )
    return _printed(rng, code, sum(count > least for count in counts.values()))


def recursion(rng: Random) -> Question:
    """Ask for the value of a recursive function."""
    a, b, n = rng.randint(1, 5), rng.randint(1, 5), rng.randint(6, 14)
    row = [a, b]
    while len(row) <= n:
        row.append(row[-1] + row[-2])
    code = (
        f"def f(n):\n    if n == 0:\n        return {a}\n    if n == 1:\n        return {b}\n"
        f"    return f(n - 1) + f(n - 2)\n\nprint(f({n}))"
    )
    return _printed(rng, code, row[n])


def shared_default(rng: Random) -> Question:
    """Ask for the trap of a mutable default argument."""
    values, apart = rng.sample(range(2, 40), 3), rng.randint(1, 9)
    code = (
        f"def add(item, seen=[]):\n    seen.append(item)\n    return sum(seen)\n\n"
        f"add({values[0]})\nadd({values[1]}, [{apart}])\nprint(add({values[2]}))"
    )
    return _printed(rng, code, values[0] + values[2])


def slices(rng: Random) -> Question:
    """Ask for a sum over slices of a list."""
    numbers = [rng.randint(1, 30) for _ in range(rng.randint(7, 10))]
    low, high, step = rng.randint(0, 2), rng.randint(5, 7), rng.randint(2, 3)
    code = f"numbers = {numbers}\nprint(sum(numbers[{low}:{high}]) - sum(numbers[::-{step}]))"
    return _printed(rng, code, sum(numbers[low:high]) - sum(numbers[::-step]))


def fractions(rng: Random) -> Question:
    """Ask for a function that reduces a fraction, and one value of it."""
    common, (p, q) = rng.randint(3, 24), rng.sample(range(7, 60), 2)
    top, bottom = common * p, common * q
    return number_question(
        rng,
        f"Write a Python function `reduced(a, b)` that returns the fraction a/b in lowest terms as a "
        f"tuple of numerator and denominator, without importing anything. Then say which numerator "
        f"`reduced({top}, {bottom})` returns.",
        top // gcd(top, bottom),
    )


def digits(rng: Random) -> Question:
    """Ask for a function over digits, and one value of it."""
    number, base = rng.randint(10_000, 9_999_999), rng.choice((2, 3, 5))
    digit_sum = sum(int(digit) for digit in str(number) if int(digit) % base)
    return number_question(
        rng,
        f"Implement `digit_sum(n: int) -> int` in Python: it adds up the decimal digits of n that "
        f"are not divisible by {base}. Handle negative numbers as well. What does "
        f"`digit_sum({number})` return?",
        digit_sum,
    )


def runs(rng: Random) -> Question:
    """Ask for a function that finds the longest run, and one value of it."""
    bits = "".join(rng.choice("ab") for _ in range(rng.randint(14, 24)))
    longest = max(len(run) for run in bits.replace("ab", "a b").replace("ba", "b a").split())
    return number_question(
        rng,
        f"Write a function in Python that takes a string and returns the length of its longest run "
        f'of equal characters. What is the result for "{bits}"?',
        longest,
    )


def bug(rng: Random) -> Question:
    """Ask for the value that a corrected function returns."""
    numbers = sorted(rng.sample(range(3, 90), rng.choice((5, 7, 9))))
    shuffled = rng.sample(numbers, len(numbers))
    code = (
        "def median(values):\n    middle = len(values) // 2\n    return values[middle]\n\n"
        f"print(median({shuffled}))"
    )
    return number_question(
        rng,
        f"This function is meant to return the median of a list of odd length, but it has a bug. "
        f"Fix it and say what the corrected program prints.\n\n```python\n{code}\n```",
        numbers[len(numbers) // 2],
    )


_KINDS = (
    filtered_sum, collatz, letters, recursion, shared_default,
    slices, fractions, digits, runs, bug,
)  # fmt: skip


def write(rng: Random) -> Question:
    """Write a programming question."""
    return rng.choice(_KINDS)(rng)
