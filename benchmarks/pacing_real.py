"""Pacing on real traffic with real answers: the library's own Router, call by call.

    python benchmarks/pacing_real.py --data DIR [--quick] [--json] [--budgets N]

Arrivals are the real 14-day series of rates (`series.py`) scaled to 20,000 requests on a mean day;
each request is a real prompt whose answer, tokens and list price are known for every action
(`real_outcomes.py`). Curves come from one half of the prompts, the other half is asked and judged,
then the halves change places. `Router.decide` and `Router.settle` run over a memory store and a clock
that follows the series; settled is what the answer's tokens cost; a hard cap, `carry_over = 0`, no
hint of the volume. Budgets lie on a log grid between the cheapest plan and the one with the most
reward. Rewards are the realised ones. `real_optimum.py` says what they are held against.

Without the data nothing is measured: exit status 3 and a line that says how to get them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Figure, at_least, at_most, exactly, report, say
from real_optimum import Day
from real_outcomes import has_outcomes
from real_run import OURS, ROUTED, TEXTBOOK, UNROUTED, routed, unrouted, world
from series import no_data, read_series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CORES = 2
ROUNDING = 1e-9  # dollars


@dataclass(frozen=True, slots=True)
class Score:
    """A day of one row; shares are of 1, over the yardstick of that name.

    Attributes:
        swapped: whether it is the other half that is judged; only our row runs on both.
        day: 0 = the first, without a past.
        requests: that arrived.
        used: spend / budget.
        over: dollars above the budget at any time, holds included.
        early: first hour's dollars over an even share.
        same: reward / counts known, the router's curves.
        true: reward / counts known, true curves.
        known: reward / every outcome known.
        mix: points per request over the best random mix at equal dollars.
        single: points per request over the best single action at the budget.
        rejected: share of requests.
    """

    swapped: bool
    day: int
    requests: int
    used: float
    over: float
    early: float
    same: float
    true: float
    known: float
    mix: float
    single: float
    rejected: float


@dataclass(frozen=True, slots=True)
class Task:
    """One row, run on one half at one budget of the grid."""

    folder: Path
    swapped: bool
    quick: bool
    row: str
    place: int
    places: int


def work(task: Task) -> tuple[Task, list[Score]]:
    """Run a task and hold its days against the yardsticks."""
    here = world(task.folder, swapped=task.swapped, quick=task.quick)
    budget = here.grid(task.places)[task.place]
    if task.row in UNROUTED:
        results = unrouted(here, budget, UNROUTED[task.row])
    else:
        results = routed(here, budget, ROUTED[task.row](here))
    costs, rewards = here.costs, here.rewards
    scores = []
    for number, (drawn, got) in enumerate(zip(here.drawn, results, strict=True)):
        day = Day(here.half, drawn)
        scores.append(
            Score(
                swapped=task.swapped,
                day=number,
                requests=got.requests,
                used=got.spend / budget,
                over=max(0.0, got.highest - budget - ROUNDING),
                early=24 * got.early / budget,
                same=got.reward / day.bought(costs, rewards, budget),
                true=got.reward / day.true_curves(budget),
                known=got.reward / day.every_outcome(budget),
                mix=100 * (got.reward - day.random_mix(got.spend)) / day.requests,
                single=100 * (got.reward - day.single(budget)) / day.requests,
                rejected=got.rejected / day.requests,
            )
        )
    return task, scores


Cells = dict[tuple[str, int], list[Score]]  # (row, place on the grid) → days of both halves


def collect(listed: Sequence[Task]) -> Cells:
    cells: Cells = {}
    with multiprocessing.Pool(CORES) as pool:
        for place, (task, scores) in enumerate(pool.imap_unordered(work, listed), 1):
            say(f"{place}/{len(listed)} budget {task.place + 1}: {task.row}")
            cells.setdefault((task.row, task.place), []).extend(scores)
    return cells


MEASURES: dict[str, Callable[[Score], float]] = {
    "spend/B %": lambda s: 100 * s.used,
    "1st hour ×": lambda s: s.early,
    "same curves %": lambda s: 100 * s.same,
    "true curves %": lambda s: 100 * s.true,
    "all known %": lambda s: 100 * s.known,
    "over mix": lambda s: s.mix,
    "over single": lambda s: s.single,
    "rejected %": lambda s: 100 * s.rejected,
}


def later(scores: Sequence[Score]) -> list[Score]:
    """Return the days with a past, of the half that all rows run on."""
    return [score for score in scores if score.day and not score.swapped]


def mean(scores: Sequence[Score], measure: Callable[[Score], float]) -> float:
    return statistics.fmean(map(measure, scores))


def show(cells: Cells, budgets: Sequence[float]) -> None:
    """Print a table of rows and one of days for each budget."""
    for place, budget in enumerate(budgets):
        print(f"\n${budget:.2f} a day, days after the first")
        rows = [(row, cells[row, place]) for row in (*ROUTED, *UNROUTED)]
        table([(row, later(scores)) for row, scores in rows])
        print(f"\n${budget:.2f} a day, {OURS}, by day, both halves")
        days = sorted({score.day for score in rows[0][1]})
        table([(str(day + 1), [s for s in rows[0][1] if s.day == day]) for day in days])
    print()


def table(rows: Sequence[tuple[str, Sequence[Score]]]) -> None:
    lines = [["", *MEASURES]]
    lines += [
        [name, *(f"{mean(scores, measure):.2f}" for measure in MEASURES.values())]
        for name, scores in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *padded]))


def figures(cells: Cells, budgets: Sequence[float]) -> list[Figure]:
    over = max(score.over for scores in cells.values() for score in scores)
    found = [exactly("overspend, all rows and days, holds included", over, "$", 0.0)]
    for place, budget in enumerate(budgets):
        found += figures_at(cells, place, f"${budget:.2f}")
    return found


def figures_at(cells: Cells, place: int, name: str) -> list[Figure]:
    """Return one budget's figures; rivals are held against us on the half that all run on."""
    ours = cells[OURS, place]
    missed = 100 * max(abs(score.used - 1.0) for score in ours)
    early = max(score.early for score in ours if score.day == 0)
    paced = {
        row: mean(later(scores), MEASURES["same curves %"])
        for (row, where), scores in cells.items()
        if where == place
    }
    mine = paced.pop(OURS)
    both = [score for score in ours if score.day]
    means = {measure: mean(both, MEASURES[measure]) for measure in MEASURES}
    return [
        at_most(f"worst day's |spend/B − 1|, {name}", missed, "%", 1.0),
        at_most(f"first hour over even share, 1st day, {name}", early, "×", 1.5),
        at_least(f"reward / the textbook rule's, {name}", mine / paced[TEXTBOOK], "×", 1.0),
        Figure(f"reward / the best rival's, {name}", mine / max(paced.values()), "×"),
        Figure(f"reward / counts known, same curves, {name}", means["same curves %"], "%"),
        Figure(f"reward / counts known, true curves, {name}", means["true curves %"], "%"),
        Figure(f"reward / every outcome known, {name}", means["all known %"], "%"),
        Figure(f"over the best random mix, {name}", means["over mix"], "points"),
        Figure(f"over the best single action, {name}", means["over single"], "points"),
    ]


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 days of 2,000 requests, one half")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--data", type=Path, help="folder with outcomes and traces")
    parser.add_argument("--budgets", type=int, default=3, help="how many, on the log grid")
    return parser.parse_args()


def main() -> int:
    told = asked()
    if not has_outcomes(told.data) or not read_series(told.data):
        return no_data(told.data, "real outcomes and arrivals")
    listed = [
        Task(told.data, swapped, told.quick, row, place, told.budgets)
        for row in (*ROUTED, *UNROUTED)
        for place in range(told.budgets)
        for swapped in ((False,) if told.quick or row != OURS else (False, True))
    ]
    cells = collect(listed)
    budgets = world(told.data, swapped=False, quick=told.quick).grid(told.budgets)
    if not told.json:
        show(cells, budgets)
    report(figures(cells, budgets), as_json=told.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
