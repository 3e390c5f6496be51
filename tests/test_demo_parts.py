"""The demo's prompts, its day and its simulated models."""

import contextlib
import datetime as dt
import io
import json
import math
import re
import statistics
from collections import Counter
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetroute.demo import coding, maths, reading, reasoning
from budgetroute.demo.day import arrivals, day, day_shape, shares_of
from budgetroute.demo.filler import filler
from budgetroute.demo.lengths import capped_mean, fit_length
from budgetroute.demo.luck import seeded, uniforms
from budgetroute.demo.prompts import WRITERS, write_task
from budgetroute.demo.questions import Question, near
from budgetroute.demo.server import responder, simulated_day
from budgetroute.demo.simulated import SimulatedModels, conduct_of
from budgetroute.demo.words import WEEKDAYS
from budgetroute.errors import ProfileError
from budgetroute.loopback import Loopback
from budgetroute.profiles import load_profile
from budgetroute.records import Action, Cell, Profile, PromptType
from budgetroute.router.table import COT_INSTRUCTION

SHARED = Path(__file__).resolve().parents[2] / "shared"
SERIES = SHARED / "data" / "traces" / "servegen_rate_m-mid.parquet"
SEEDS = range(200)


def numbers(text):
    return [int(found) for found in re.findall(r"\d+", text)]


def asked(write):
    return [write(seeded("test", number)) for number in SEEDS]


@pytest.fixture(scope="module")
def tasks():
    return [write_task(kind, seed=5, number=n) for kind in WRITERS for n in range(1000)]


WORD_PROBLEMS = {
    maths.equation: lambda x, a, b, c, right: a * x + b == c * x + right,
    maths.shopping: lambda back, a, p, b, q, paid: a * p + b * q + back == paid and back > 0,
    maths.journey: lambda km, s, v, t, w: s * v + t * w == km,
    maths.ages: lambda young, factor, ahead, total: (
        (young + ahead) + (factor * young + ahead) == total
    ),
    maths.tank: lambda minutes, held, fill, leak, full: held + minutes * (fill - leak) == full,
    maths.savings: lambda total, first, more, weeks: (
        sum(first + more * week for week in range(weeks)) == total
    ),
    maths.workers: lambda days, people, each, more, schools: people * each * schools == days * more,
    maths.discount: lambda now, price, off, then: (
        price * (100 - off) * (100 + then) == now * 10_000
    ),
    maths.average: lambda score, count, mean, _, new: count * mean + score == new * (count + 1),
    maths.rectangle: lambda cost, a, b, fence, lawn: cost == (a + b) * 2 * fence + a * b * lawn,
    maths.remainder: lambda left, total, broken, size: (
        (total - broken - left) % size == 0 and 0 < left < size
    ),
    maths.divisors: lambda found, _, bound, a, b: found == bound // a - bound // math.lcm(a, b),
}


class TestPrompts:
    def test_right_is_1_and_wrong_is_0(self, tasks):
        """A reply that meets k of the parts of a question is graded k of them."""
        for task in tasks:
            question = task.question
            for met in range(question.parts + 1):
                assert question.grade(question.reply(met)) == met / question.parts, task

    def test_filler_is_worth_nothing(self, tasks):
        """Padding alone is graded 0, and before or after an answer it changes nothing."""
        padding = filler(500, 0.3)
        for task in tasks:
            question = task.question
            assert question.grade(padding) == 0, task
            for met in (0, question.parts):
                said = question.reply(met)
                grade = question.grade(said)
                assert question.grade(f"{said}\n\n{padding}") == grade, task
                assert question.grade(f"{padding}\n\n{said}") == grade, task

    def test_thousands_differ(self, tasks):
        """Of 1,000 prompts of a type, 900 or more are different; no type writes another's."""
        kinds = {}
        for task in tasks:
            kinds.setdefault(task.prompt, set()).add(task.kind)
        counts = Counter(kind for found in kinds.values() for kind in found)
        assert all(len(found) == 1 for found in kinds.values())
        assert min(counts.values()) >= 900

    def test_a_seed_decides(self):
        """The same seed writes the same task, another seed another one."""
        one, same, other = (write_task("reading", seed=seed, number=1) for seed in (1, 1, 2))
        assert one == same != other

    def test_reading_is_long(self):
        """Reading passages are hundreds of words long and vary in length."""
        words = [len(question.prompt.split()) for question in asked(reading.write)]
        assert min(words) > 120
        assert statistics.quantiles(words, n=10)[-1] > 2 * statistics.quantiles(words, n=10)[0]

    def test_the_passage_holds_the_answer(self):
        """The answer to a reading question stands in its passage, the wrong one as answer does not."""
        for question in asked(reading.write):
            passage, _, _ = question.prompt.rpartition("Question:")
            assert re.search(rf"\b{question.answer}\b", passage)

    def test_no_prompt_asks_for_steps(self, tasks):
        """No prompt by itself looks as if it had the chain-of-thought instruction."""
        assert not [task for task in tasks if "step by step" in task.prompt.casefold()]

    def test_code_is_answered_by_python(self):
        """What a program is said to print is what Python prints."""
        checked = 0
        for question in asked(coding.write):
            found = re.search(r"```python\n(.*)\n```", question.prompt, re.DOTALL)
            if found and "has a bug" not in question.prompt:
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    exec(found[1], {})  # noqa: S102 - the demo's own programs
                assert said.getvalue().strip() == question.answer, found[1]
                checked += 1
        assert checked > 80

    def test_functions_are_answered_by_another_way(self):
        """Fractions, digits, medians and runs agree with an independent computation."""
        for question in asked(coding.fractions):
            top, bottom = numbers(question.prompt)
            assert int(question.answer) == Fraction(top, bottom).numerator
        for question in asked(coding.digits):
            base, number = numbers(question.prompt)
            kept = [int(digit) for digit in str(number)]
            assert int(question.answer) == sum(kept) - sum(d for d in kept if d % base == 0)
        for question in asked(coding.bug):
            values = numbers(re.search(r"\(\[(.*)\]\)", question.prompt)[1])
            assert int(question.answer) == statistics.median(values)
        for question in asked(coding.runs):
            bits = re.search('"(.*)"', question.prompt)[1]
            found = re.findall(r"a+|b+", bits)
            assert int(question.answer) == len(max(found, key=len))

    @pytest.mark.parametrize("write", WORD_PROBLEMS)
    def test_word_problems_add_up(self, write):
        """Word problems agree with an independent computation from the numbers in their text."""
        for question in asked(write):
            assert WORD_PROBLEMS[write](int(question.answer), *numbers(question.prompt))

    def test_weekdays_follow_the_calendar(self):
        """Days of the week agree with the calendar."""
        monday = dt.date(2024, 1, 1)
        for question in asked(reasoning.weekday):
            (days,) = numbers(question.prompt)
            today = monday + dt.timedelta(
                WEEKDAYS.index(re.search(r"is (\w+)", question.prompt)[1])
            )
            sign = -1 if "ago" in question.prompt else 1
            assert (today + dt.timedelta(sign * days)).strftime("%A") == question.answer

    def test_seats_have_one_solution(self):
        """The clues about seats leave one seating, and it has the answer in the asked seat."""
        tests = {
            r"(\w+) sits directly beside (\w+)": lambda a, b: abs(a - b) == 1,
            r"(\w+) and (\w+) do not sit beside": lambda a, b: abs(a - b) != 1,
            r"(\w+) sits somewhere to the left of (\w+)": lambda a, b: a < b,
            r"one seat between (\w+) and (\w+)": lambda a, b: abs(a - b) == 2,
            r"(\w+) sits at one of the ends and (\w+) does not": lambda a, b: (
                a in {0, 3} and b in {1, 2}
            ),
        }
        for question in asked(reasoning.seats):
            people = re.match(r"(\w+), (\w+), (\w+) and (\w+) sit", question.prompt).groups()
            clues = [
                (found.group(1), found.group(2), holds)
                for pattern, holds in tests.items()
                for found in re.finditer(pattern, question.prompt)
            ]
            (seated,) = [
                row
                for row in permutations(people)
                if all(holds(row.index(a), row.index(b)) for a, b, holds in clues)
            ]
            assert seated[numbers(question.prompt)[-1] - 1] == question.answer

    @given(st.integers(0, 10**6), st.integers())
    def test_a_slip_is_never_right(self, value, seed):
        """A wrong number is another number, and not below zero where the right one is not."""
        slip = near(seeded(seed), value)
        assert slip != value
        assert slip >= 0

    @pytest.mark.parametrize(
        ("reply", "grade"),
        [
            ("Answer: 1200", 1),
            ("so\nAnswer: 1,200.\nthat is it", 1),
            ("It is 1200", 1),
            ("1200\nor 1300", 0),
            ("Answer: 11200", 0),
            ("Answer: 1200.5", 0),
            ("Answer: -1200", 0),
            ("", 0),
        ],
    )
    def test_grading_reads_the_conclusion(self, reply, grade):
        """The last line, or what follows `Answer:`, holds the answer as a whole number or not."""
        assert Question("?", "1200", "1").grade(reply) == grade


class TestDay:
    @pytest.mark.parametrize("index", [0, 9, 13])
    def test_bins_get_their_share(self, index):
        """Every ten-minute bin has its share of the day's calls to within one; they come in order."""
        times = arrivals(4000, day_index=index, seed=3)
        counts = Counter(int(second // 600) for second in times)
        shape = day_shape(index)
        assert len(times) == 4000
        assert times == sorted(times)
        assert all(
            abs(counts[place] - 4000 * share / sum(shape)) < 1 for place, share in enumerate(shape)
        )

    def test_times_are_seeded(self):
        """The same seed gives the same times, another seed others; inside a bin they are spread."""
        assert arrivals(50, seed=1) == arrivals(50, seed=1) != arrivals(50, seed=2)
        inside = [second % 600 / 600 for second in arrivals(4000)]
        assert abs(statistics.mean(inside) - 0.5) < 3 * math.sqrt(1 / 12 / 4000)

    def test_a_day_off_the_series_is_refused(self):
        """A day that is not in the series is an error that says which are."""
        with pytest.raises(ValueError, match="days 0 to 13"):
            arrivals(10, day_index=14)

    @pytest.mark.skipif(not SERIES.is_file(), reason="the trace is not beside the checkout")
    def test_the_shapes_are_the_series(self):
        """The shipped shapes follow from the rates by the derivation that the file states."""
        pq = pytest.importorskip("pyarrow.parquet")
        rates = pq.read_table(SERIES).column("rate_rps").to_pylist()
        for index in range(14):
            of_day = rates[index * 144 : (index + 1) * 144]
            assert list(day_shape(index)) == [round(r / sum(of_day) * 100_000) for r in of_day]

    def test_the_mix_is_the_profiles(self):
        """Over the day types come by their shares, within 3 standard errors plus the drift."""
        shares = {"math": 0.5, "code": 0.2, "chat": 0.2, "reading": 0.1}
        calls = day(shares, calls=4000, seed=2)
        counts = Counter(call.task.kind for call in calls)
        for kind, share in shares.items():
            allowed = 3 * math.sqrt(share * (1 - share) / 4000) + 0.02 * share
            assert abs(counts[kind] / 4000 - share) < allowed

    def test_the_mix_drifts(self):
        """A type's share differs between parts of the day, and by less than half."""
        kinds = dict.fromkeys(WRITERS, 1 / 6)
        calls = day(kinds, calls=40_000)
        eighths = [[c.task.kind for c in calls if c.second // 10_800 == n] for n in range(8)]
        parts = [part.count("code") / len(part) * 6 for part in eighths]
        assert max(parts) - min(parts) > 0.1
        assert all(0.5 < part < 1.5 for part in parts)

    def test_no_prompt_comes_twice(self):
        """A day of 4,000 calls has 4,000 different prompts; the same seed gives the same day."""
        shares = shares_of(load_profile("broad"))
        calls = day(shares)
        assert len({call.task.prompt for call in calls}) == 4000
        assert calls == day(shares)

    def test_a_profile_of_other_types_is_refused(self):
        """A profile without a type of the demo's is an error that names both."""
        odd = Profile("odd", "2026-01-01", {"general": PromptType(1.0, 10)}, (), {})
        with pytest.raises(ProfileError, match="math"):
            shares_of(odd)


CELLS = st.builds(
    lambda cap, mean, cut: (cap, Cell(100, 0.5, 0.05, 1 + mean * (cap - 1), cut=cut)),
    st.integers(2, 8192),
    st.floats(0.001, 0.999),
    st.none() | st.floats(0.0, 1.0),
)


class TestLengths:
    @given(CELLS)
    def test_the_mean_under_the_cap_is_the_cells(self, given_cell):
        """Whatever else a cell says, the fitted mean under its cap is its output_mean."""
        cap, cell = given_cell
        length = fit_length(cell, cap)
        mean = 1 + capped_mean(length.centre, length.spread, cap - 1)
        assert mean == pytest.approx(cell.output_mean, rel=1e-6)

    @pytest.mark.parametrize(("mean", "cut"), [(183.0, 0.29), (60.0, 0.02), (246.0, 0.9)])
    def test_the_cut_share_is_the_cells(self, mean, cut):
        """Where mean and cut share go together, the fitted cut share is the cell's."""
        length = fit_length(Cell(100, 0.5, 0.05, mean, cut=cut), 256)
        assert length.exceeds(256) == pytest.approx(cut, rel=1e-6)

    def test_the_p95_is_the_cells(self):
        """Without cut answers the fitted p95 is the cell's."""
        length = fit_length(Cell(100, 0.5, 0.05, 300.0, output_p95=620.0, cut=0.0), 4096)
        assert length.at(0.95) == pytest.approx(620, rel=0.01)

    def test_extremes_are_points(self):
        """A mean at the cap is always cut; a mean of one token is always one token."""
        full, single = Cell(9, 0.5, 0.1, 256.0), Cell(9, 0.5, 0.1, 1.0)
        assert (fit_length(full, 256).exceeds(256), fit_length(full, 256).at(0.01)) == (1, math.inf)
        assert (fit_length(single, 256).exceeds(256), fit_length(single, 256).at(0.99)) == (0, 1)

    @given(CELLS, st.floats(0.0, 1.0))
    def test_reward_is_split_and_kept(self, given_cell, reward):
        """Whole and cut answers together have the cell's reward; cut ones earn only the overflow."""
        cap, cell = given_cell
        conduct = conduct_of(Cell(9, reward, 0.1, cell.output_mean, cut=cell.cut), cap)
        cut = conduct.length.exceeds(cap)
        assert conduct.whole * (1 - cut) + conduct.cut * cut == pytest.approx(reward, abs=1e-9)
        assert 0 <= conduct.cut <= conduct.whole <= 1 + 1e-12 or cut == 1


ACTIONS = tuple(
    Action(model, cap, cot, effort)
    for model, effort in (("small", None), ("large", None), ("thinker", "low"))
    for cap in (64, 512)
    for cot in (False, True)
)


def made_up():
    kinds = sorted(WRITERS)
    cells = {}
    for place, kind in enumerate(kinds):
        row = []
        for index, action in enumerate(ACTIONS):
            big = action.max_tokens == 512
            mean = (9 + 10 * index if big else 8 + 4 * index) + 40 * big * action.cot
            reward = 0.2 + 0.055 * index + 0.02 * place
            cut = None if index % 2 else 0.01 * index
            row.append(Cell(500, reward, 0.02, mean, cut=cut))
        cells[kind] = tuple(row)
    cells["general"] = tuple(Cell(0, 0.5, 0.1, 30.0) for _ in ACTIONS)
    types = {kind: PromptType(1 / 6, 100) for kind in kinds} | {"general": PromptType(0.0, 100)}
    return Profile("made-up", "2026-01-01", types, ACTIONS, cells)


def deviations(profile, draws):
    """Return by how many standard errors rewards and tokens of every cell are off."""
    models = SimulatedModels(profile, seed=11)
    for kind in shares_of(profile):
        asked = [write_task(kind, seed=8, number=number) for number in range(draws)]
        for action, cell in zip(profile.actions, profile.cells[kind], strict=True):
            if cell is None:
                continue
            answers = [models.answer(task, action) for task in asked]
            grades = [
                task.question.grade(answer.text)
                for task, answer in zip(asked, answers, strict=True)
            ]
            assert max(answer.output_tokens for answer in answers) <= action.max_tokens
            yield _off(grades, cell.reward)
            yield _off([answer.output_tokens for answer in answers], cell.output_mean)


def _off(sample, mean):
    error = max(statistics.stdev(sample) / math.sqrt(len(sample)), 1e-6)
    return (statistics.mean(sample) - mean) / error


class TestSimulatedModels:
    def test_answers_follow_the_profile(self):
        """Over 2,000 tasks each type and action's reward and tokens are the cell's within 3 errors."""
        off = list(deviations(made_up(), 2000))
        assert len(off) == 2 * 6 * len(ACTIONS)
        assert max(map(abs, off)) < 3

    @pytest.mark.slow
    def test_answers_follow_the_shipped_profile(self):
        """The same for every cell of `broad`; of so many, few may lie beyond 3 errors by chance."""
        off = list(deviations(load_profile("broad"), 2000))
        beyond = sum(abs(one) > 3 for one in off)
        assert beyond <= max(2, 0.02 * len(off))
        assert max(map(abs, off)) < 4.5

    def test_answers_are_determined(self):
        """Seed, task and action decide an answer; another seed or choice gives another one."""
        task, action = write_task("math", seed=0, number=1), ACTIONS[3]
        first = SimulatedModels(made_up(), seed=1).answer(task, action)
        models = SimulatedModels(made_up(), seed=1)
        assert models.answer(task, action) == first
        assert models.answer(task, action, choice=1) != first
        assert SimulatedModels(made_up(), seed=2).answer(task, action) != first

    def test_hard_prompts_are_hard_for_all(self):
        """Two models are right on the same prompts more often than by chance."""
        models = SimulatedModels(made_up())
        rights = []
        for number in range(1000):
            task = write_task("math", seed=0, number=number)
            rights.append(
                [task.question.grade(models.answer(task, ACTIONS[i]).text) for i in (2, 6)]
            )
        assert statistics.correlation(*zip(*rights, strict=True)) > 0.15

    def test_a_cut_answer_ends_at_the_cap(self):
        """A cut answer bills the cap and is right only where the profile leaves no other way."""
        models = SimulatedModels(made_up())
        action = Action("large", 64)
        seen = [
            (answer, task.question.grade(answer.text))
            for task in (write_task("code", seed=0, number=n) for n in range(1000))
            if (answer := models.answer(task, action)).cut
        ]
        assert len(seen) > 20
        assert {answer.output_tokens for answer, _ in seen} == {64}
        assert sum(grade for _, grade in seen) == 0

    def test_hidden_reasoning_is_billed(self):
        """A model with a reasoning effort bills tokens that its short text does not show."""
        models = SimulatedModels(made_up())
        answer = models.answer(write_task("math", seed=0, number=0), ACTIONS[-1])
        assert 0 < answer.output_tokens - answer.reasoning_tokens < answer.output_tokens
        assert len(answer.text) < 40

    def test_texts_are_as_long_as_they_are_billed(self):
        """Visible text has about the billed tokens, counted as one for four characters."""
        models = SimulatedModels(made_up())
        for number in range(50):
            answer = models.answer(write_task("math", seed=0, number=number), ACTIONS[7])
            assert len(answer.text) / 4 == pytest.approx(answer.output_tokens, rel=0.35, abs=6)

    @pytest.mark.parametrize(
        ("action", "like"),
        [
            (Action("small", 4096), Action("small", 512)),
            (Action("small", 16), Action("small", 64)),
            (Action("small", 512, cot=False, reasoning_effort="high"), Action("small", 512)),
        ],
    )
    def test_an_unprofiled_action_is_like_its_neighbour(self, action, like):
        """Caps outside the profile and efforts it lacks take the nearest cell."""
        models = SimulatedModels(made_up())
        assert models.conduct("math", action) == models.conduct("math", like)

    def test_a_cap_between_is_interpolated(self):
        """A cap between two profiled ones has a reward between theirs, as the router expects."""
        models = SimulatedModels(made_up())
        low, mid, high = (
            models.conduct("math", Action("large", cap, cot=True)) for cap in (64, 200, 512)
        )
        rewards = [
            c.whole * (1 - c.length.exceeds(cap)) + c.cut * c.length.exceeds(cap)
            for c, cap in ((low, 64), (mid, 200), (high, 512))
        ]
        assert rewards == sorted(rewards)

    def test_an_unknown_type_is_general(self):
        """A type that the profile lacks behaves like general."""
        models = SimulatedModels(made_up())
        assert models.conduct("poetry", ACTIONS[0]) == models.conduct("general", ACTIONS[0])

    def test_a_profile_without_cells_is_refused(self):
        """Without a single cell there is nothing to follow."""
        empty = Profile("empty", "2026-01-01", {}, ACTIONS, {"math": (None,) * len(ACTIONS)})
        with pytest.raises(ProfileError, match="empty"):
            SimulatedModels(empty)

    def test_uniforms_are_uniform(self):
        """Hashed luck has the mean and spread of uniform numbers and differs by key."""
        drawn = [u for number in range(2000) for u in uniforms("x", number)]
        assert abs(statistics.mean(drawn) - 0.5) < 3 * math.sqrt(1 / 12 / len(drawn))
        assert statistics.pstdev(drawn) == pytest.approx(math.sqrt(1 / 12), rel=0.02)


MATH = write_task("math", seed=0, number=7)
READING = write_task("reading", seed=0, number=7)


@pytest.fixture(scope="module")
def client():
    models = SimulatedModels(made_up())
    with (
        Loopback(responder(models, [MATH, READING])) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as made,
    ):
        yield made


def ask(client, *texts, **parameters):
    messages = [{"role": "user", "content": text} for text in texts]
    parameters = {"model": "large", "max_tokens": 512} | parameters
    return client.chat.completions.create(messages=messages, **parameters)


def expected(action, task=MATH):
    return SimulatedModels(made_up()).answer(task, action)


class TestServer:
    @pytest.mark.parametrize("task", [MATH, READING])
    def test_a_task_is_recognised(self, client, task):
        """A known prompt gets the model's answer to that task, with its tokens as usage."""
        got = ask(client, task.prompt)
        answer = expected(Action("large", 512), task)
        assert got.choices[0].message.content == answer.text
        assert got.usage.completion_tokens == answer.output_tokens
        assert got.choices[0].finish_reason == ("length" if answer.cut else "stop")

    @pytest.mark.parametrize(
        "messages",
        [
            [{"role": "user", "content": f"{MATH.prompt}\n\n{COT_INSTRUCTION}"}],
            [
                {"role": "user", "content": MATH.prompt},
                {"role": "user", "content": COT_INSTRUCTION},
            ],
            [
                {"role": "system", "content": COT_INSTRUCTION},
                {"role": "user", "content": MATH.prompt},
            ],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": MATH.prompt},
                        {"type": "text", "text": COT_INSTRUCTION},
                    ],
                }
            ],
        ],
    )
    def test_the_instruction_is_recognised(self, client, messages):
        """The chain-of-thought instruction, wherever it stands, asks for the cot action."""
        got = client.chat.completions.create(model="large", max_tokens=512, messages=messages)
        assert got.choices[0].message.content == expected(Action("large", 512, cot=True)).text

    def test_prompt_tokens_are_counted(self, client):
        """Prompt tokens are o200k's and a little framing; the instruction adds its own."""
        tiktoken = pytest.importorskip("tiktoken")
        plain, steps = (
            ask(client, text).usage.prompt_tokens
            for text in (READING.prompt, f"{READING.prompt}\n\n{COT_INSTRUCTION}")
        )
        counted = len(tiktoken.get_encoding("o200k_base").encode(READING.prompt))
        assert plain == counted + 7
        assert 10 < steps - plain < 20

    def test_the_effort_is_honoured(self, client):
        """A reasoning effort picks that variant and its hidden tokens are reported."""
        got = ask(client, MATH.prompt, model="thinker", reasoning_effort="low")
        answer = expected(Action("thinker", 512, reasoning_effort="low"))
        assert got.usage.completion_tokens_details.reasoning_tokens == answer.reasoning_tokens
        assert got.usage.completion_tokens == answer.output_tokens

    def test_the_newer_cap_name_counts(self, client):
        """max_completion_tokens caps; without any cap the largest profiled one holds."""
        capped = ask(client, MATH.prompt, max_tokens=openai.omit, max_completion_tokens=64)
        free = ask(client, MATH.prompt, max_tokens=openai.omit)
        assert capped.usage.completion_tokens == expected(Action("large", 64)).output_tokens
        assert free.usage.completion_tokens == expected(Action("large", 512)).output_tokens

    def test_choices_are_summed(self, client):
        """n choices are drawn apart and billed together."""
        models = SimulatedModels(made_up())
        got = ask(client, MATH.prompt, n=3)
        drawn = [models.answer(MATH, Action("large", 512), choice=i) for i in range(3)]
        assert [choice.message.content for choice in got.choices] == [a.text for a in drawn]
        assert got.usage.completion_tokens == sum(a.output_tokens for a in drawn)

    def test_a_stream_adds_up(self, client):
        """A stream carries the same text and, on request, the same usage."""
        chunks = list(ask(client, MATH.prompt, stream=True, stream_options={"include_usage": True}))
        answer = expected(Action("large", 512))
        assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == answer.text
        assert chunks[-1].usage.completion_tokens == answer.output_tokens

    def test_an_unknown_prompt_is_general(self, client):
        """A prompt that is none of the tasks is answered too, as a general one."""
        got = ask(client, "Who goes there?")
        assert got.usage.completion_tokens > 0
        assert got.choices[0].message.content

    def test_bad_requests_are_told(self, client):
        """An unknown model is a 404 that names the known ones, a senseless cap a 400."""
        with pytest.raises(openai.NotFoundError, match="large, small, thinker"):
            ask(client, MATH.prompt, model="gpt-99")
        with pytest.raises(openai.BadRequestError, match="positive integer"):
            ask(client, MATH.prompt, max_tokens=0)

    def test_the_models_are_listed(self, client):
        """The model list is the profile's."""
        assert [model.id for model in client.models.list()] == ["large", "small", "thinker"]

    def test_another_process_serves_the_day(self):
        """A server process answers the tasks of its day as this process would."""
        profile = load_profile("broad")
        calls = day(shares_of(profile), calls=40, seed=4)
        models = SimulatedModels(profile, seed=4)
        action = next(act for act in profile.actions if not act.cot and not act.reasoning_effort)
        with (
            simulated_day("broad", calls=40, seed=4) as url,
            openai.OpenAI(base_url=url, api_key="none", max_retries=0) as made,
        ):
            for call in calls:
                got = ask(made, call.task.prompt, model=action.model, max_tokens=action.max_tokens)
                answer = models.answer(call.task, action)
                assert got.choices[0].message.content == answer.text
                assert got.usage.completion_tokens == answer.output_tokens


def test_the_shapes_name_their_source():
    """The file of day shapes names source, licence and derivation."""
    text = (Path(__file__).parents[1] / "budgetroute/demo/day_shapes.json").read_text()
    told = json.loads(text)
    assert "ServeGen" in told["source"]
    assert "Apache-2.0" in told["source"]
    assert len(told["days"]) == 14
