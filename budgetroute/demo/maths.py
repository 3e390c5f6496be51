"""Word problems whose answer is a whole number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.demo.questions import number_question
from budgetroute.demo.words import GOODS, NAMES, TOWNS

if TYPE_CHECKING:
    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question


def shopping(rng: Random) -> Question:
    """Ask for the change after buying two kinds of things."""
    who, (first, second) = rng.choice(NAMES), rng.sample(GOODS, 2)
    a, b, p, q = rng.randint(3, 19), rng.randint(2, 14), rng.randint(2, 12), rng.randint(3, 15)
    paid = -(-(a * p + b * q) // 50) * 50 + 50
    return number_question(
        rng,
        f"{who} buys {a} {first} at ${p} each and {b} {second} at ${q} each and pays with ${paid}. "
        f"How many dollars of change does {who} get back?",
        paid - a * p - b * q,
    )


def journey(rng: Random) -> Question:
    """Ask for a distance covered at two speeds."""
    start, end = rng.sample(TOWNS, 2)
    v, w, s, t = rng.randint(40, 95), rng.randint(50, 120), rng.randint(2, 6), rng.randint(2, 5)
    return number_question(
        rng,
        f"A coach leaves {start} and travels for {s} hours at {v} km per hour. After a break it "
        f"travels another {t} hours at {w} km per hour and arrives in {end}. How many kilometres "
        f"has it covered?",
        v * s + w * t,
    )


def workers(rng: Random) -> Question:
    """Ask how long a larger team takes for a larger job."""
    people, days, factor = rng.randint(3, 9), rng.randint(4, 12), rng.randint(2, 4)
    more = people * factor
    job = rng.randint(2, 5)
    return number_question(
        rng,
        f"{people} painters need {days * factor} days to paint a school. All painters work at the "
        f"same rate. How many days do {more} painters need to paint {job} such schools?",
        days * job,
    )


def discount(rng: Random) -> Question:
    """Ask for a price after two percentages in a row."""
    price, off = rng.randint(2, 18) * 400, rng.choice((10, 20, 25, 30, 40))
    then = rng.choice((10, 20, 30, 50))
    final = price * (100 - off) * (100 + then) // 10000
    return number_question(
        rng,
        f"A machine costs ${price}. Its price is cut by {off} %, and a month later the new price is "
        f"raised by {then} %. What does the machine cost now, in dollars?",
        final,
    )


def ages(rng: Random) -> Question:
    """Ask for an age from a sum and a multiple."""
    elder, younger = rng.sample(NAMES, 2)
    young, factor, ahead = rng.randint(4, 15), rng.randint(2, 5), rng.randint(2, 9)
    total = young * (factor + 1) + 2 * ahead
    return number_question(
        rng,
        f"{elder} is {factor} times as old as {younger}. In {ahead} years their ages will add up to "
        f"{total}. How old is {younger} today?",
        young,
    )


def tank(rng: Random) -> Question:
    """Ask when a tank with an inflow and a leak is full."""
    fill, leak, minutes = rng.randint(12, 40), rng.randint(2, 9), rng.randint(15, 80)
    held = rng.randint(1, 9) * 10
    return number_question(
        rng,
        f"A tank already holds {held} litres. A pump adds {fill} litres per minute while a leak "
        f"loses {leak} litres per minute. The tank's capacity is {held + (fill - leak) * minutes} "
        f"litres. After how many minutes is it full?",
        minutes,
    )


def savings(rng: Random) -> Question:
    """Ask for weeks of saving at a rising rate."""
    who, first, more, weeks = (
        rng.choice(NAMES), rng.randint(3, 20), rng.randint(1, 6), rng.randint(5, 16),
    )  # fmt: skip
    return number_question(
        rng,
        f"{who} saves ${first} in the first week and ${more} more in every week than in the week "
        f"before. How many dollars has {who} saved in total after {weeks} weeks?",
        weeks * first + more * weeks * (weeks - 1) // 2,
    )


def rectangle(rng: Random) -> Question:
    """Ask for the cost of a fence and a lawn."""
    a, b, fence, lawn = (
        rng.randint(6, 40), rng.randint(5, 30), rng.randint(4, 18), rng.randint(2, 9),
    )  # fmt: skip
    return number_question(
        rng,
        f"A rectangular garden is {a} m long and {b} m wide. Fencing costs ${fence} per metre and "
        f"turf costs ${lawn} per square metre. What do a fence all around and turf for the whole "
        f"garden cost together, in dollars?",
        2 * (a + b) * fence + a * b * lawn,
    )


def remainder(rng: Random) -> Question:
    """Ask what is left over after packing boxes."""
    goods, size = rng.choice(GOODS), rng.randint(7, 24)
    boxes, left, broken = rng.randint(11, 60), rng.randint(1, size - 1), rng.randint(2, 30)
    total = boxes * size + left + broken
    return number_question(
        rng,
        f"A warehouse receives {total} {goods}, of which {broken} are damaged and thrown away. The "
        f"rest is packed into boxes of {size}. How many {goods} are left over when no further box "
        f"can be filled?",
        left,
    )


def average(rng: Random) -> Question:
    """Ask for the score that brings a mean to a mark."""
    count, mean, lift = rng.randint(3, 8), rng.randint(60, 82), rng.randint(1, 3)
    needed = (mean + lift) * (count + 1) - mean * count
    return number_question(
        rng,
        f"{rng.choice(NAMES)} has taken {count} tests with a mean score of {mean}. Which score in "
        f"the next test lifts the mean of all {count + 1} tests to {mean + lift}?",
        needed,
    )


def equation(rng: Random) -> Question:
    """Ask for the solution of a linear equation."""
    x, a, c, b = rng.randint(2, 40), rng.randint(4, 15), rng.randint(2, 3), rng.randint(3, 90)
    right = (a - c) * x + b
    return number_question(
        rng, f"Solve for x: {a}x + {b} = {c}x + {right}. What is the value of x?", x
    )


def divisors(rng: Random) -> Question:
    """Ask how many numbers up to a bound are divisible by one number and not by another."""
    bound, (a, b) = rng.randint(100, 900), rng.sample((2, 3, 4, 5, 6, 7, 9, 11), 2)
    return number_question(
        rng,
        f"How many whole numbers from 1 to {bound} are divisible by {a} but not by {b}?",
        sum(n % a == 0 and n % b != 0 for n in range(1, bound + 1)),
    )


_KINDS = (
    shopping, journey, workers, discount, ages, tank,
    savings, rectangle, remainder, average, equation, divisors,
)  # fmt: skip


def write(rng: Random) -> Question:
    """Write a word problem."""
    return rng.choice(_KINDS)(rng)
