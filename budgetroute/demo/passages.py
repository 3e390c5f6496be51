"""The settings, sentences and questions that reading passages are put together from."""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """A place with its story.

    Attributes:
        sentences: the story's sentences, with a placeholder for every fact.
        asks: fact → the question for it.
    """

    sentences: tuple[str, ...]
    asks: dict[str, str]


SETTINGS = (
    Setting(
        (
            (
                "The lighthouse museum of {town} opened its doors in {year}, after {who} had talked the "
                "harbour board into giving up the old keeper's house."
            ),
            "In its first summer {count} visitors climbed the spiral stair, which has {steps} steps.",
            "The lamp itself was bought back from a dealer for ${price}.",
            "Guided tours start every {day} and last {minutes} minutes.",
            "{second} looks after the lens and polishes it before each tour.",
            "The busiest month on record was {month}, when a film crew stayed in the village.",
        ),
        {
            "year": "In which year did the lighthouse museum open?",
            "who": "Who persuaded the harbour board?",
            "count": "How many visitors came in the first summer?",
            "steps": "How many steps does the stair have?",
            "price": "How many dollars were paid for the lamp?",
            "day": "On which day of the week are there guided tours?",
            "second": "Who polishes the lens?",
            "month": "In which month did the film crew stay in the village?",
        },
    ),
    Setting(
        (
            (
                "When {who} took over the bakery in {town} in {year}, the oven had been cold for two "
                "winters."
            ),
            "The first batch held {count} rolls, and all were gone before the church bell rang.",
            "A path of {steps} paving stones leads from the square to the shop.",
            "A new mixer cost ${price}, paid off in small sums.",
            (
                "The shop is closed every {day}, when the flour is delivered and unloaded within "
                "{minutes} minutes."
            ),
            "{second} joined as an apprentice and now bakes all the rye bread.",
            "Sales are best in {month}, when the walkers come through the valley.",
        ),
        {
            "year": "When did the bakery change hands?",
            "town": "Where is the bakery?",
            "count": "How many rolls were in the first batch?",
            "steps": "How many paving stones lead to the shop?",
            "price": "What did the mixer cost, in dollars?",
            "day": "On which day of the week is the bakery closed?",
            "minutes": "Within how many minutes is the flour unloaded?",
            "second": "Who bakes the rye bread?",
        },
    ),
    Setting(
        (
            "The hiking club of {town} was founded in {year}, and {who} was its first chair.",
            "It counts {count} members today, and the register is kept on paper.",
            "The hardest climb of the programme has {steps} steps cut into the rock.",
            "The hut on the ridge was repaired for ${price} with the help of the parish.",
            "The club meets every {day} and leaves {minutes} minutes after the last bus has come in.",
            "{second} plans the routes and walks each of them alone beforehand.",
            "The long crossing takes place in {month}, if the river is low enough.",
        ),
        {
            "year": "When was the club founded?",
            "who": "Who chaired the club first?",
            "count": "How many members does the club have?",
            "price": "How many dollars did the repair of the hut cost?",
            "day": "On which day of the week does the club meet?",
            "minutes": "How many minutes after the last bus does the club set out?",
            "second": "Who walks the routes alone beforehand?",
            "month": "In which month is the long crossing?",
        },
    ),
    Setting(
        (
            (
                "The public library in {town} goes back to {year}, when {who} left a house full of books "
                "to the town."
            ),
            "At the last count it lent {count} volumes in a single week.",
            "From the entrance {steps} steps lead up to the reading room under the roof.",
            "The roof was mended for ${price} after the great storm.",
            "Every {day} there is a story hour of {minutes} minutes for the youngest.",
            "{second} reads the stories and keeps the catalogue.",
            "Most new readers sign up in {month}, when the schools hand out the lists.",
        ),
        {
            "who": "Whose books was the library founded with?",
            "town": "In which town is the library?",
            "count": "How many volumes did the library lend in one week?",
            "steps": "How many steps lead up to the reading room?",
            "price": "How many dollars did it take to mend the roof?",
            "day": "On which day of the week is the story hour?",
            "minutes": "How long is the story hour, in minutes?",
            "month": "In which month do most new readers sign up?",
        },
    ),
    Setting(
        (
            (
                "{who} started the repair workshop in {town} in {year} with two benches and a borrowed "
                "lathe."
            ),
            "Since then {count} radios, kettles and bicycles have been brought back to life.",
            "It lies {steps} steps below the street, in what used to be a wine cellar.",
            "The most expensive tool on the wall was bought for ${price}.",
            "It is open to everybody on {day}, and a repair takes {minutes} minutes on average.",
            "{second} teaches soldering to whoever asks.",
            "In {month} the workshop moves outdoors for a week.",
        ),
        {
            "year": "In which year was the workshop started?",
            "who": "Who started the workshop?",
            "count": "How many things have been repaired since the start?",
            "steps": "How many steps below the street does the workshop lie?",
            "price": "What did the most expensive tool cost, in dollars?",
            "minutes": "How many minutes does a repair take on average?",
            "second": "Who teaches soldering?",
            "month": "In which month does the workshop move outdoors?",
        },
    ),
)

FILLERS = (
    "Nobody remembers who painted the sign above the door, though several families lay claim to it.",
    "The floorboards creak in a way that regulars say they would miss.",
    "A grey cat has made itself at home and is fed by everyone and owned by no one.",
    "On wet afternoons the windows fog up and the talk grows longer.",
    "The council has promised a new street lamp for years, and the promise is renewed every spring.",
    "Letters of thanks hang on the wall, some of them in languages that no one there can read.",
    "The old telephone still works, but it rings so seldom that people stop talking when it does.",
    "Somebody always brings a cake, and somebody always says that it was not necessary.",
    "The accounts are kept in a green ledger with careful handwriting.",
    "From the back room one sees the orchard and, on clear days, the sea.",
    "A visitor from abroad once stayed for a fortnight and helped without being asked.",
    "The heating is a matter of constant debate, as the stove warms only half of the room.",
    "Newcomers are given the worst chair first and, after a season, a better one.",
    "There was talk of selling the place, but the talk stopped as suddenly as it had begun.",
    "The clock by the entrance runs fast on purpose, so that nobody misses the ferry.",
    "Children from the school have drawn a map of the place that is more charming than correct.",
    "In the evenings the light falls through the coloured glass and leaves patches on the floor.",
    "A brass plate recalls the flood, with a line to show how high the water stood.",
    "The garden behind the house is small, but it has a pear tree that is older than the house.",
    "People who moved away still send cards, which are read aloud and then pinned to a beam.",
    "The key hangs on a nail that everyone knows about and nobody mentions.",
    "Once a reporter came to write about the place and forgot to take any notes.",
    "It is said that the cellar goes on further than anybody has cared to look.",
    "Whoever is last to leave closes the shutters and waters the geraniums.",
    "The sign says that dogs must stay outside, and the dogs, as a rule, do not read it.",
    "A piano without its two lowest keys stands by the wall and is played all the same.",
    "The coffee is strong, the cups are chipped, and both are part of the reputation.",
    "On the notice board there is a request for a lost glove that has been there for ages.",
    "The paint on the gate was chosen by vote, and the vote was close.",
    "What cannot be mended is kept in a box marked with a question mark.",
)
"""Sentences that answer none of the questions."""

NOTES = (
    "In the cupboard by the stairs there were {few} {goods}, which were given to the neighbours.",
    "A raffle for the roof fund had {few} prizes, most of them {goods}.",
    "The oldest photograph shows {few} people holding {goods} and looking into the sun.",
    "A storm once blew {few} {goods} into the harbour, and a boy rowed out to fetch them.",
    "For the anniversary somebody arranged {few} {goods} in the shape of a star.",
    "An inventory lists {few} {goods}, a ladder and a stuffed owl.",
    "The mayor gave a speech that ran to {few} pages and mentioned {goods} twice.",
    "A class of {few} pupils came by and counted the {goods} on the shelves.",
)
"""Sentences with small numbers that answer none of the questions either."""

TASKS = (
    "Read the passage and answer the question below.",
    "Here is a passage from a local newspaper. Answer the question using only the passage.",
    "Please read this text carefully; a question follows.",
    "Answer the question at the end from the following text.",
)
