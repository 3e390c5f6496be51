"""Open requests: a good reply mentions everything that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.demo.questions import Question
from budgetroute.demo.words import NAMES, TOWNS, WEEKDAYS

if TYPE_CHECKING:
    from budgetroute.demo.luck import Random

_MOODS = ("friendly", "short and warm", "polite", "cheerful", "calm and clear", "light-hearted")
_NOTES = (
    ("an invitation to a housewarming party", ("Saturday evening", "the new address", "vegetarian food", "parking behind the church", "a phone number")),
    ("a thank-you note to a colleague who is leaving", ("the project in spring", "the lunch breaks", "good wishes", "the farewell card", "staying in touch")),
    ("an apology for a late delivery", ("the broken axle", "the new delivery date", "a voucher", "the hotline", "the order number")),
    ("a message to the neighbours about building work", ("the scaffolding", "the noise until noon", "the blocked stairwell", "the end of the month", "earplugs at the door")),
    ("a toast for a wedding anniversary", ("forty years", "the first flat", "the leaking tent", "the grandchildren", "a raised glass")),
    ("an e-mail to a landlord about a dripping tap", ("the kitchen tap", "the water bill", "a plumber", "an appointment", "a photo")),
    ("a farewell speech for a football coach", ("the cup final", "the muddy pitch", "the whistle", "the new coach", "three cheers")),
    ("a reply to a customer who wants a refund", ("the receipt", "the return label", "five working days", "the original card", "an apology")),
)  # fmt: skip
_ADVICE = (
    ("planning a week of cheap dinners for two", ("a shopping list", "lentils", "leftovers", "the freezer", "seasonal vegetables")),
    ("learning to swim as an adult", ("shallow water", "breathing out", "a teacher", "goggles", "short sessions")),
    ("preparing for a first job interview", ("the company's website", "two questions of your own", "an example of teamwork", "arriving early", "sleep")),
    ("keeping houseplants alive over a long holiday", ("a neighbour", "watering the evening before", "shade", "a wick in a jar", "grouping the pots")),
    ("moving to another city with two cats", ("a carrier", "a quiet room first", "the vet", "familiar blankets", "patience")),
    ("getting better sleep", ("a fixed bedtime", "less coffee", "a dark room", "no screens", "fresh air")),
    ("starting a small vegetable garden", ("good soil", "radishes", "a watering plan", "slugs", "sunlight")),
    ("a day trip with small children", ("snacks", "spare clothes", "short walks", "a playground", "rain jackets")),
)  # fmt: skip
_WAYS = (
    "In what you write, bring up {}.",
    "Please make sure to mention {}.",
    "It should touch on {}.",
    "Don't forget {}.",
)


def _listed(points: tuple[str, ...]) -> str:
    return ", ".join(points[:-1]) + " and " + points[-1]


def note(rng: Random) -> Question:
    """Ask for a message of a given mood with given points."""
    what, pool = rng.choice(_NOTES)
    points = tuple(rng.sample(pool, rng.randint(3, 5)))
    prompt = (
        f"Could you write {what} for me? It is for {rng.choice(NAMES)} in {rng.choice(TOWNS)} and "
        f"should sound {rng.choice(_MOODS)}. {rng.choice(_WAYS).format(_listed(points))} I would "
        f"like to send it on {rng.choice(WEEKDAYS)}."
    )
    return Question(prompt, points=points)


def advice(rng: Random) -> Question:
    """Ask for advice that covers given points."""
    what, pool = rng.choice(_ADVICE)
    points = tuple(rng.sample(pool, rng.randint(3, 5)))
    prompt = (
        f"Hi! My friend {rng.choice(NAMES)} from {rng.choice(TOWNS)} needs some advice on {what}. "
        f"Can you put together a few {rng.choice(_MOODS)} paragraphs? "
        f"{rng.choice(_WAYS).format(_listed(points))}"
    )
    return Question(prompt, points=points)


def write(rng: Random) -> Question:
    """Write an open request."""
    return rng.choice((note, advice))(rng)
