"""Small puzzles whose answer follows from what is said."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from budgetroute.demo.questions import choice_question, lettered, number_question
from budgetroute.demo.words import COLOURS, NAMES, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question

_SCALES = (
    ("taller than", "tallest", "shortest"),
    ("older than", "oldest", "youngest"),
    ("faster than", "fastest", "slowest"),
    ("heavier than", "heaviest", "lightest"),
)
_ENDS = (0, 3)
_ONE_BETWEEN = 2
_POINTS = ("north", "east", "south", "west")


def order(rng: Random) -> Question:
    """Ask for an end or the middle of an order that neighbours' comparisons fix."""
    people = rng.sample(NAMES, rng.choice((3, 5, 5, 7)))
    than, most, least = rng.choice(_SCALES)
    clues = [f"{a} is {than} {b}." for a, b in pairwise(people)]
    rng.shuffle(clues)
    asked = rng.choice(
        (
            (f"Who is the {most} of them?", people[0]),
            (f"Who is the {least} of them?", people[-1]),
            (f"Who is exactly in the middle, from {most} to {least}?", people[len(people) // 2]),
        )
    )
    return choice_question(rng, " ".join([*clues, asked[0]]), asked[1], people)


def weekday(rng: Random) -> Question:
    """Ask for a day of the week some days away."""
    today, days = rng.randrange(7), rng.randint(10, 400)
    forward = rng.random() < 0.7  # noqa: PLR2004 - most people plan ahead
    answer = WEEKDAYS[(today + (days if forward else -days)) % 7]
    when = f"will it be {days} days from now" if forward else f"was it {days} days ago"
    return choice_question(
        rng, f"Today is {WEEKDAYS[today]}. Which day of the week {when}?", answer, WEEKDAYS
    )


def sequence(rng: Random) -> Question:
    """Ask for the next number of a sequence."""
    start, step = rng.randint(1, 30), rng.randint(2, 9)
    factor, second = rng.randint(2, 3), rng.randint(1, 5)
    rules = (
        [start + step * k + second * k * (k - 1) // 2 for k in range(7)],
        [start * factor**k + step for k in range(6)],
        [start + step * k * k for k in range(7)],
        [start + (step * (k // 2) if k % 2 == 0 else second + factor * k) for k in range(9)],
    )
    *shown, answer = rng.choice(rules)
    listed = ", ".join(map(str, shown))
    return number_question(
        rng, f"Find the rule behind this sequence and give the next number: {listed}, …", answer
    )


def swaps(rng: Random) -> Question:
    """Ask who holds a ball at the end of some swaps."""
    people, colours = rng.sample(NAMES, 4), rng.sample(COLOURS, 4)
    holds = dict(zip(people, colours, strict=True))
    lines = [f"{who} has the {colour} ball." for who, colour in holds.items()]
    for _ in range(rng.randint(3, 7)):
        a, b = rng.sample(people, 2)
        holds[a], holds[b] = holds[b], holds[a]
        lines.append(f"Then {a} and {b} swap their balls.")
    who = rng.choice(people)
    lines.append(f"Which colour is the ball that {who} holds at the end?")
    return choice_question(rng, " ".join(lines), holds[who], colours)


def walk(rng: Random) -> Question:
    """Ask which way somebody faces after some turns."""
    facing = rng.randrange(4)
    lines = [f"{rng.choice(NAMES)} stands facing {_POINTS[facing]}."]
    for _ in range(rng.randint(3, 7)):
        word, turn = rng.choice((("left", -1), ("right", 1), ("around", 2)))
        facing = (facing + turn) % 4
        lines.append(f"Turn {word}.")
    lines.append("Which direction is that in the end?")
    return choice_question(rng, " ".join(lines), _POINTS[facing], _POINTS)


def syllogism(rng: Random) -> Question:
    """Ask which conclusion follows from nested classes."""
    a, b, c = rng.sample(
        ("glips", "marns", "tovers", "plinks", "dreels", "zorfs", "quandies", "brims", "wugs"), 3
    )
    who = rng.choice(NAMES)
    return lettered(
        rng,
        f"All {a} are {b}. No {b} are {c}. {who} keeps one of the {a}. Which statement must be "
        f"true?",
        f"What {who} keeps does not belong to the {c}.",
        (
            f"What {who} keeps belongs to the {c}.",
            f"All {b} are {a}.",
            f"Some {c} are {a}.",
            f"What {who} keeps belongs to neither the {b} nor the {c}.",
        ),
    )


def seats(rng: Random) -> Question:
    """Ask who sits in a seat that the clues fix; clues are added until one seating is left."""
    people = rng.sample(NAMES, 4)
    truth = tuple(rng.sample(people, 4))
    possible, clues = list(permutations(people)), []
    while len(possible) > 1:
        clue, first, second = rng.choice(list(_CLUES)), *rng.sample(people, 2)
        left = [row for row in possible if _CLUES[clue](row.index(first), row.index(second))]
        if truth in left and len(left) < len(possible):
            possible = left
            clues.append(clue.format(first, second))
    seat = rng.randrange(4)
    listed = ", ".join(people[:-1]) + f" and {people[-1]}"
    return choice_question(
        rng,
        f"{listed} sit in a row of four seats, numbered 1 to 4 from left to right. "
        f"{' '.join(clues)} Who sits in seat {seat + 1}?",
        truth[seat],
        people,
    )


_CLUES: dict[str, Callable[[int, int], bool]] = {
    "{0} sits directly beside {1}.": lambda first, second: abs(first - second) == 1,
    "{0} and {1} do not sit beside each other.": lambda first, second: abs(first - second) > 1,
    "{0} sits somewhere to the left of {1}.": lambda first, second: first < second,
    "There is exactly one seat between {0} and {1}.": (
        lambda first, second: abs(first - second) == _ONE_BETWEEN
    ),
    "{0} sits at one of the ends and {1} does not.": lambda first, second: (
        first in _ENDS and second not in _ENDS
    ),
}

_KINDS = (order, weekday, sequence, swaps, walk, seats, syllogism)


def write(rng: Random) -> Question:
    """Write a puzzle."""
    return rng.choice(_KINDS)(rng)
