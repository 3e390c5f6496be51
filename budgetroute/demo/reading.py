"""A passage and a question that it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetroute.demo.passages import FILLERS, NOTES, SETTINGS, TASKS
from budgetroute.demo.questions import choice_question, number_question
from budgetroute.demo.words import GOODS, MONTHS, NAMES, TOWNS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.demo.luck import Random
    from budgetroute.demo.questions import Question

_POOLS = {"day": WEEKDAYS, "month": MONTHS, "who": NAMES, "second": NAMES, "town": TOWNS}


def _facts(rng: Random) -> dict[str, str]:
    who, second = rng.sample(NAMES, 2)
    return {
        "town": rng.choice(TOWNS),
        "who": who,
        "second": second,
        "year": str(rng.randint(1890, 1998)),
        "count": str(rng.randint(2001, 9800)),
        "steps": str(rng.randint(31, 240)),
        "price": str(rng.randint(250, 1880)),
        "minutes": str(rng.randint(5, 19) * 5),
        "day": rng.choice(WEEKDAYS),
        "month": rng.choice(MONTHS),
    }


def _padding(rng: Random) -> list[str]:
    notes = [
        note.format(few=rng.randint(3, 19), goods=rng.choice(GOODS))
        for note in rng.sample(NOTES, rng.randint(0, len(NOTES)))
    ]
    padding = rng.sample(FILLERS, rng.randint(4, len(FILLERS))) + notes
    rng.shuffle(padding)
    return padding


def _passage(rng: Random, told: list[str]) -> str:
    """Strew the padding between the sentences that tell, and break the whole into paragraphs."""
    padding = _padding(rng)
    sentences: list[str] = []
    for sentence in told:
        taken = rng.randint(0, 2 * len(padding) // len(told))
        sentences += [sentence, *padding[:taken]]
        padding = padding[taken:]
    paragraphs: list[str] = []
    while sentences:
        size = rng.randint(3, 7)
        paragraphs.append(" ".join(sentences[:size]))
        sentences = sentences[size:]
    return "\n\n".join(paragraphs)


def _question(rng: Random, prompt: str, asked: str, facts: Mapping[str, str]) -> Question:
    if asked in _POOLS:
        return choice_question(rng, prompt, facts[asked], _POOLS[asked])
    return number_question(rng, prompt, int(facts[asked]))


def write(rng: Random) -> Question:
    """Write a passage of some hundred words with a question on one of its facts."""
    setting, facts = rng.choice(SETTINGS), _facts(rng)
    asked = rng.choice(list(setting.asks))
    passage = _passage(rng, [sentence.format(**facts) for sentence in setting.sentences])
    prompt = f"{rng.choice(TASKS)}\n\n{passage}\n\nQuestion: {setting.asks[asked]}"
    return _question(rng, prompt, asked, facts)
