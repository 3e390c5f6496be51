"""How well pacing spends a day's budget: the solving pacer, step rules and rivals on one workload.

    python benchmarks/pacing.py [--quick] [--json] [--scenarios base,wild] [--policies solve,...]

The workload is synthetic (`workload.py`), the optimum is the linear program of each day in
hindsight (`pacing_lp.py`), every row runs under the same hard cap (`pacing_sim.py`). A figure is the
mean over 6 seeds and the days after the first; `--quick` takes one seed (5/day: 6) and 8 days.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import Figure, at_least, at_most, exactly, median_us, report, say
from pacing_lp import crowds, optimum
from pacing_sim import run
from rivals import OURS, ROWS
from workload import SCENARIOS, days, table

from budgetroute.pacing import fill, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pacing_sim import Outcome
    from workload import Day, Scenario

SEEDS = 6
QUICK_DAYS = 8
QUICK_SCENARIOS = ("base", "x3noon", "price", "5")
CORES = 2
ORACLE = "solve, true counts"
QUICK_SKIPS = (ORACLE, "solve, no calibration")
BIG = "1M"
BIG_ROWS = (OURS, ORACLE)
HINTS = ("hint/20", "hint*20")
ROUNDING = 1e-9  # dollars


@dataclass(frozen=True, slots=True)
class Column:
    """Days [first, last) of a scenario."""

    name: str
    scenario: str
    first: int = 1
    last: int = 10_000


COLUMNS = (
    Column("base", "base"),
    Column("x3 day", "x3", 7, 8),
    Column("x3 after", "x3", 8),
    Column("x0.2 day", "x0.2", 7, 8),
    Column("x3noon", "x3noon", 7, 8),
    Column("wild", "wild"),
    Column("price day", "price", 7, 8),
    Column("price after", "price", 8),
    Column("bias+50", "bias50"),
    Column("tight", "tight"),
    Column("loose", "loose"),
    Column("200/day", "200"),
    Column("5/day", "5", 0),
    Column("1M/day", "1M"),
    Column("hint/20", "hint/20", 0),
    Column("hint*20", "hint*20", 0),
)


@dataclass(frozen=True, slots=True)
class Score:
    """One day of one run; shares are of 1.

    Attributes:
        day: its number.
        net: reward less overspend at the program's price, over the program's reward.
        miss: spend / budget − 1.
        over: dollars above the limit.
        rejected: share of requests.
        floor: share at the cheapest action minus the program's.
        early: dollars of the first hour over an even share of the budget.
    """

    day: int
    net: float
    miss: float
    over: float
    rejected: float
    floor: float
    early: float


@dataclass(frozen=True, slots=True)
class Task:
    """A run of one policy on one drawing of one scenario."""

    scenario: Scenario
    seed: int
    row: str


def work(task: Task) -> tuple[Task, list[Score]]:
    """Run a task and score its days; with a bank, all days against the program of all."""
    scenario = task.scenario
    traffic = days(scenario, task.seed)
    outcomes = run(scenario, traffic, ROWS[task.row].make(traffic), table=table())
    if scenario.carry_over:
        return task, [_pooled(scenario, traffic, outcomes)]
    scores = []
    for day, outcome in zip(traffic, outcomes, strict=True):
        best = optimum(crowds(day), scenario.budget)
        over = max(0.0, outcome.spend - outcome.limit - ROUNDING)
        scores.append(
            Score(
                day.number,
                (outcome.reward - best.price * over) / best.reward,
                outcome.spend / scenario.budget - 1.0,
                over,
                outcome.rejected / outcome.requests,
                (outcome.floor - best.floor) / outcome.requests,
                24 * outcome.early / scenario.budget,
            )
        )
    return task, scores


def _pooled(scenario: Scenario, traffic: Sequence[Day], outcomes: Sequence[Outcome]) -> Score:
    budget = scenario.budget * len(outcomes)
    best = optimum([crowd for day in traffic for crowd in crowds(day)], budget)
    requests = sum(outcome.requests for outcome in outcomes)
    return Score(
        0,
        sum(outcome.reward for outcome in outcomes) / best.reward,
        sum(outcome.spend for outcome in outcomes) / budget - 1.0,
        max(max(0.0, outcome.spend - outcome.limit - ROUNDING) for outcome in outcomes),
        sum(outcome.rejected for outcome in outcomes) / requests,
        (sum(outcome.floor for outcome in outcomes) - best.floor) / requests,
        24 * outcomes[0].early / scenario.budget,
    )


Cells = dict[tuple[str, str], list[Score]]  # (row, column) → scored days of all seeds


def tasks(names: Iterable[str], rows: Sequence[str], *, quick: bool) -> list[Task]:
    """List the runs, longest first."""
    listed = []
    for name in names:
        scenario = SCENARIOS[name]
        if quick and not scenario.carry_over:
            scenario = replace(scenario, days=min(QUICK_DAYS, scenario.days))
        for row in rows:
            if _fits(name, row):
                drawn = range(_seeds(scenario, row, quick=quick))
                listed += [Task(scenario, seed, row) for seed in drawn]
    return sorted(listed, key=lambda task: (-task.scenario.volume, not task.row.startswith(OURS)))


def _seeds(scenario: Scenario, row: str, *, quick: bool) -> int:
    """Return how often a scenario is drawn; a judged row with few requests needs all draws."""
    if quick:
        return SEEDS if scenario.carry_over and row == OURS else 1
    return 1 if scenario.name == BIG else SEEDS


def _fits(name: str, row: str) -> bool:
    """Say whether a row is run in a scenario: some show only what the solving pacer does."""
    if name == BIG:
        return row in BIG_ROWS
    return name not in HINTS or row == OURS


def collect(listed: Sequence[Task]) -> Cells:
    """Run the tasks on all cores and sort the scored days into cells."""
    cells: Cells = {}
    with multiprocessing.Pool(CORES) as pool:
        for place, (task, scores) in enumerate(pool.imap_unordered(work, listed), 1):
            say(f"{place}/{len(listed)} {task.scenario.name} seed {task.seed}: {task.row}")
            for column in COLUMNS:
                if column.scenario == task.scenario.name:
                    kept = [s for s in scores if column.first <= s.day < column.last]
                    cells.setdefault((task.row, column.name), []).extend(kept)
    return {key: scores for key, scores in cells.items() if scores}


MEASURES: dict[str, Callable[[list[Score]], str]] = {
    "reward less overspend, % of the hindsight optimum": lambda scores: (
        f"{100 * statistics.fmean(s.net for s in scores):.2f}"
    ),
    "mean |spend/B − 1| %, worst day": lambda scores: (
        f"{100 * statistics.fmean(abs(s.miss) for s in scores):.2f} "
        f"({100 * max((s.miss for s in scores), key=abs):+.1f})"
    ),
    "days within ±1 % of B, %": lambda scores: (
        f"{100 * statistics.fmean(abs(s.miss) <= 0.01 for s in scores):.0f}"
    ),
    "rejected %": lambda scores: f"{100 * statistics.fmean(s.rejected for s in scores):.2f}",
    "share at the floor minus the optimum's, points": lambda scores: (
        f"{100 * statistics.fmean(s.floor for s in scores):+.1f}"
    ),
}


def show(cells: Cells) -> None:
    """Print one table per measure."""
    rows = [row for row in ROWS if any(key[0] == row for key in cells)]
    columns = [c.name for c in COLUMNS if any(key[1] == c.name for key in cells)]
    for title, text in MEASURES.items():
        print(f"\n{title}")
        lines = [["policy", "carry-over", *columns]]
        for row in rows:
            found = [cells.get((row, column)) for column in columns]
            lines.append([row, ROWS[row].carry_over, *(text(s) if s else "" for s in found)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            ends = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
            print("  ".join([line[0].ljust(widths[0]), line[1].ljust(widths[1]), *ends]))
    print()


LEAST = {
    "base": 99.8,
    "x3noon": 98.0,
    "price day": 99.6,
    "price after": 99.6,
    "bias+50": 99.6,
    "wild": 96.0,
    "5/day": 98.5,
}


def judged(cells: Cells) -> list[Figure]:
    """Return the solving pacer's figures with what they should reach."""
    ours = {column: scores for (row, column), scores in cells.items() if row == OURS}
    if not ours:
        return []
    over = max(score.over for scores in ours.values() for score in scores)
    figures = [exactly("overspend, all scenarios", over, "$", 0.0)]
    for column, least in LEAST.items():
        if column in ours:
            net = 100 * statistics.fmean(score.net for score in ours[column])
            figures.append(at_least(f"reward / optimum, {column}", net, "%", least))
    if "base" in ours:
        miss = 100 * max(abs(score.miss) for score in ours["base"])
        figures.append(at_most("worst day's |spend/B − 1|, base", miss, "%", 1.0))
    if "wild" in ours:
        rejected = 100 * statistics.fmean(score.rejected for score in ours["wild"])
        figures.append(at_most("rejected, wild", rejected, "%", 1.0))
    hinted = [score.early for name in HINTS for score in ours.get(name, ())]
    if hinted:
        figures.append(at_most("first hour over even share, wrong hints", max(hinted), "×", 1.5))
    return figures


def rest(cells: Cells) -> list[Figure]:
    """Return every cell's reward, without a target."""
    return [
        Figure(
            f"reward / optimum, {column}: {row}", 100 * statistics.fmean(s.net for s in scores), "%"
        )
        for (row, column), scores in cells.items()
    ]


def speed() -> list[Figure]:
    """Time one solve of the linear program."""
    known = table()
    curves = [
        tuple(zip(costs, rewards, strict=True))
        for costs, rewards in zip(known.costs, known.rewards, strict=True)
    ]
    large = [
        tuple((c * (1 + n / 50 + m / 3), r * (1 + m / 50)) for m in range(3) for c, r in curve)[:20]
        for n in range(10)
        for curve in curves
    ]
    return [*_timed(curves, "5 × 8", 50), *_timed(large, "50 × 20", 500)]


def _timed(
    curves: Sequence[Sequence[tuple[float, float]]], size: str, limit: float
) -> list[Figure]:
    program, counts = prepare(curves), [20_000 / len(curves)] * len(curves)
    again = median_us(lambda: fill(program, counts, 20.0), times=300)
    anew = median_us(lambda: fill(prepare(curves), counts, 20.0), times=100)
    return [
        at_most(f"solve for new counts and money, {size}", again, "µs", limit),
        at_most(f"solve with new curves too, {size}", anew, "µs", limit),
    ]


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="end within 50 s")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--scenarios", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--policies", help=f"separated by ;, of {'; '.join(ROWS)}")
    return parser.parse_args()


def main() -> None:
    told = asked()
    usual = QUICK_SCENARIOS if told.quick else tuple(SCENARIOS)
    names = told.scenarios.split(",") if told.scenarios else usual
    rows = [row for row in ROWS if not (told.quick and row in QUICK_SKIPS)]
    if told.policies:
        rows = [name.strip() for name in told.policies.split(";")]
    cells = collect(tasks(names, rows, quick=told.quick))
    if not told.json:
        show(cells)
    extra = rest(cells) if told.json else []
    report(judged(cells) + speed() + extra, as_json=told.json)


if __name__ == "__main__":
    main()
