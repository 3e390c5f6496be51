"""Questions that one knows the answer to or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.demo.questions import choice_question, lettered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question

CAPITALS = {
    "Argentina": "Buenos Aires", "Armenia": "Yerevan", "Australia": "Canberra", "Austria": "Vienna",
    "Bangladesh": "Dhaka", "Belgium": "Brussels", "Brazil": "Brasília", "Bulgaria": "Sofia",
    "Cambodia": "Phnom Penh", "Canada": "Ottawa", "Chile": "Santiago", "Colombia": "Bogotá",
    "Croatia": "Zagreb", "Cuba": "Havana", "Denmark": "Copenhagen", "Ecuador": "Quito",
    "Egypt": "Cairo", "Estonia": "Tallinn", "Ethiopia": "Addis Ababa", "Finland": "Helsinki",
    "Georgia": "Tbilisi", "Ghana": "Accra", "Greece": "Athens", "Hungary": "Budapest",
    "Iceland": "Reykjavik", "India": "New Delhi", "Iran": "Tehran", "Iraq": "Baghdad",
    "Ireland": "Dublin", "Italy": "Rome", "Japan": "Tokyo", "Kenya": "Nairobi",
    "Latvia": "Riga", "Lebanon": "Beirut", "Lithuania": "Vilnius", "Mongolia": "Ulaanbaatar",
    "Morocco": "Rabat", "Nepal": "Kathmandu", "New Zealand": "Wellington", "Norway": "Oslo",
    "Pakistan": "Islamabad", "Peru": "Lima", "Poland": "Warsaw", "Portugal": "Lisbon",
    "Romania": "Bucharest", "Senegal": "Dakar", "Serbia": "Belgrade", "Slovakia": "Bratislava",
    "Slovenia": "Ljubljana", "South Korea": "Seoul", "Spain": "Madrid", "Sweden": "Stockholm",
    "Thailand": "Bangkok", "Tunisia": "Tunis", "Turkey": "Ankara", "Uganda": "Kampala",
    "Ukraine": "Kyiv", "Uruguay": "Montevideo", "Vietnam": "Hanoi", "Zambia": "Lusaka",
}  # fmt: skip

ELEMENTS = (
    ("hydrogen", "H"), ("helium", "He"), ("lithium", "Li"), ("beryllium", "Be"), ("boron", "B"),
    ("carbon", "C"), ("nitrogen", "N"), ("oxygen", "O"), ("fluorine", "F"), ("neon", "Ne"),
    ("sodium", "Na"), ("magnesium", "Mg"), ("aluminium", "Al"), ("silicon", "Si"),
    ("phosphorus", "P"), ("sulfur", "S"), ("chlorine", "Cl"), ("argon", "Ar"), ("potassium", "K"),
    ("calcium", "Ca"), ("scandium", "Sc"), ("titanium", "Ti"), ("vanadium", "V"),
    ("chromium", "Cr"), ("manganese", "Mn"), ("iron", "Fe"), ("cobalt", "Co"), ("nickel", "Ni"),
    ("copper", "Cu"), ("zinc", "Zn"), ("gallium", "Ga"), ("germanium", "Ge"), ("arsenic", "As"),
    ("selenium", "Se"), ("bromine", "Br"), ("krypton", "Kr"),
)  # fmt: skip
"""In the order of their atomic numbers, from 1."""

AUTHORS = {
    "Don Quixote": "Miguel de Cervantes", "Hamlet": "William Shakespeare",
    "Pride and Prejudice": "Jane Austen", "War and Peace": "Leo Tolstoy",
    "Crime and Punishment": "Fyodor Dostoevsky", "Moby-Dick": "Herman Melville",
    "Frankenstein": "Mary Shelley", "Faust": "Johann Wolfgang von Goethe",
    "Les Misérables": "Victor Hugo", "Madame Bovary": "Gustave Flaubert",
    "Great Expectations": "Charles Dickens", "Jane Eyre": "Charlotte Brontë",
    "Wuthering Heights": "Emily Brontë", "Dracula": "Bram Stoker",
    "The Odyssey": "Homer", "The Divine Comedy": "Dante Alighieri",
    "Middlemarch": "George Eliot", "The Metamorphosis": "Franz Kafka",
    "Ulysses": "James Joyce", "A Doll's House": "Henrik Ibsen",
}  # fmt: skip

RIVERS = {
    "Paris": "Seine", "London": "Thames", "Rome": "Tiber", "Cairo": "Nile", "Vienna": "Danube",
    "Prague": "Vltava", "Hamburg": "Elbe", "Florence": "Arno", "Cologne": "Rhine",
    "Warsaw": "Vistula", "Baghdad": "Tigris", "Turin": "Po", "Dublin": "Liffey",
    "Lisbon": "Tagus", "Seville": "Guadalquivir", "Bordeaux": "Garonne",
}  # fmt: skip

DISCOVERERS = {
    "the law of universal gravitation": "Isaac Newton",
    "the theory of general relativity": "Albert Einstein",
    "penicillin": "Alexander Fleming",
    "the periodic table of the elements": "Dmitri Mendeleev",
    "the laws of planetary motion": "Johannes Kepler",
    "natural selection": "Charles Darwin",
    "the electron": "J. J. Thomson",
    "the laws of inheritance in peas": "Gregor Mendel",
    "electromagnetic induction": "Michael Faraday",
    "X-rays": "Wilhelm Röntgen",
    "the circulation of the blood": "William Harvey",
    "polonium and radium": "Marie Curie",
    "the expansion of the universe from redshifts": "Edwin Hubble",
    "the smallpox vaccine": "Edward Jenner",
}  # fmt: skip

FACTS = {
    "Which planet of the solar system is the largest?": ("Jupiter", "Saturn", "Neptune", "Earth"),
    "Which planet is closest to the Sun?": ("Mercury", "Venus", "Mars", "Earth"),
    "Which organ of the human body makes insulin?": ("pancreas", "liver", "kidney", "spleen"),
    "Which gas makes up most of the Earth's atmosphere?": ("nitrogen", "oxygen", "argon", "helium"),
    "What is the SI unit of force?": ("newton", "joule", "watt", "pascal"),
    "What is the SI unit of electrical resistance?": ("ohm", "volt", "ampere", "farad"),
    "Which ocean is the largest?": ("Pacific", "Atlantic", "Indian", "Arctic"),
    "Which part of a cell holds most of its DNA?": ("nucleus", "membrane", "ribosome", "vacuole"),
    "How many bones does an adult human have?": ("206", "178", "231", "254"),
    "In which year did the Berlin Wall fall?": ("1989", "1987", "1991", "1985"),
    "In which year did human beings first land on the Moon?": ("1969", "1965", "1972", "1961"),
    "Which blood cells carry oxygen?": ("red cells", "white cells", "platelets", "lymphocytes"),
    "Which metal is liquid at room temperature?": ("mercury", "tin", "lead", "zinc"),
    "Which language has the most native speakers?": ("Mandarin", "English", "Hindi", "Spanish"),
    "What does the Richter scale describe?": ("earthquakes", "wind", "rainfall", "acidity"),
    "Which vitamin does skin make in sunlight?": ("vitamin D", "vitamin C", "vitamin A", "vitamin K"),
    "Which instrument measures air pressure?": ("barometer", "hygrometer", "anemometer", "sextant"),
    "Which number system do computers use inside?": ("binary", "decimal", "octal", "ternary"),
}  # fmt: skip

_OPENINGS = ("", "", "Quick question: ", "For a quiz: ", "I am checking a fact sheet. ", "Trivia: ")


def _pick(rng: Random, table: Mapping[str, str], ask: Sequence[str]) -> Question:
    """Ask for a value of a table, open or with four options."""
    key = rng.choice(list(table))
    answer, others = table[key], sorted(set(table.values()) - {table[key]})
    text = rng.choice(_OPENINGS) + rng.choice(ask).format(key)
    if rng.random() < 0.75:  # noqa: PLR2004 - most are multiple choice, as in exams
        return lettered(rng, text, answer, rng.sample(others, 3))
    return choice_question(rng, text, answer, others)


def capital(rng: Random) -> Question:
    """Ask for a capital."""
    return _pick(rng, CAPITALS, ("What is the capital of {}?", "Which city is the capital of {}?"))


def author(rng: Random) -> Question:
    """Ask who wrote a book."""
    return _pick(rng, AUTHORS, ("Who wrote {}?", "Who is the author of {}?"))


def river(rng: Random) -> Question:
    """Ask for the river of a city."""
    return _pick(rng, RIVERS, ("Which river flows through {}?", "On which river does {} lie?"))


def discoverer(rng: Random) -> Question:
    """Ask whom a discovery is credited to."""
    return _pick(
        rng, DISCOVERERS, ("Who is credited with {}?", "Whose name is tied to the work on {}?")
    )


def element(rng: Random) -> Question:
    """Ask for an element's symbol or number."""
    number = rng.randrange(len(ELEMENTS))
    name, symbol = ELEMENTS[number]
    opening = rng.choice(_OPENINGS)
    if rng.random() < 0.5:  # noqa: PLR2004 - one or the other
        others = rng.sample([other for _, other in ELEMENTS if other != symbol], 3)
        return lettered(rng, f"{opening}What is the chemical symbol of {name}?", symbol, others)
    others = rng.sample([other for other, _ in ELEMENTS if other != name], 4)
    ask = f"{opening}Which chemical element has the atomic number {number + 1}?"
    return lettered(rng, ask, name, others)


def fact(rng: Random) -> Question:
    """Ask for a fact of general knowledge."""
    ask = rng.choice(list(FACTS))
    answer, *others = FACTS[ask]
    return lettered(rng, rng.choice(_OPENINGS) + ask, answer, others)


def match(rng: Random) -> Question:
    """Ask which country and capital belong together."""
    right, *rest = rng.sample(sorted(CAPITALS), 5)
    shifted = [*rest[1:], rest[0]]
    others = [f"{land}: {CAPITALS[other]}" for land, other in zip(rest, shifted, strict=True)]
    return lettered(
        rng,
        rng.choice(_OPENINGS) + "Which of these pairs of a country and its capital is correct?",
        f"{right}: {CAPITALS[right]}",
        others,
    )


_KINDS = (capital, capital, author, river, discoverer, element, fact, match)


def write(rng: Random) -> Question:
    """Write a question of general knowledge."""
    return rng.choice(_KINDS)(rng)
