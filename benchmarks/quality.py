"""How good curves, types and residual are, on real answers of many models to the same prompts.

    python benchmarks/quality.py --data DIR [--quick] [--json]

Half of the prompts is fitted, the other half judged, in 5 random halves. Reward is compared at equal
dollars paid, over 9 budgets. See quality_judge.py for how, quality_rows.py for what is compared,
quality_data.py for the sets. `--quick`: one half, without the largest set.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import quality_estimation
import quality_misses
import quality_pairs
import quality_rivals
import quality_rows as rows
from harness import Figure, at_least, report, say
from quality_data import FILES, SETS, read_matrix
from quality_judge import best_single, interval, judge

if TYPE_CHECKING:
    from quality_data import Matrix
    from quality_ours import Expected
    from workload import Floats

HALVES = 5
TARGETS = {"zeroeval": 4.0, "mmlu_pro": 2.5, "paretobandit": 1.5}
TYPES, RESIDUAL = "ours: types", "ours: types + residual"
QUICK_SETS = ("zeroeval", "paretobandit")
EVERY = ("k-means types", "SimHash types", "kNN, TF-IDF", "logistic per model")


class Tally:
    """What the halves of one set came to."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.leads: dict[str, list[Floats]] = defaultdict(list)
        self.parts: dict[str, list[tuple[np.ndarray, Floats]]] = defaultdict(list)
        self.micros: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, expected: Expected, judged: Matrix, where: np.ndarray) -> None:
        verdict = judge(expected, judged)
        self.leads[name].append(verdict.lead)
        self.parts[name].append((where, verdict.each))
        self.micros[name].append(expected.micros)

    def lead(self, name: str) -> float:
        return float(np.mean(self.leads[name]))

    def interval(self, name: str, less: str = "") -> tuple[float, float]:
        parts = self.parts[name]
        if less:
            parts = [(w, e - o) for (w, e), (_, o) in zip(parts, self.parts[less], strict=True)]
        return interval(parts, len(self.matrix.texts))


def run_set(matrix: Matrix, halves: int) -> Tally:
    """Judge every way on every half."""
    tally = Tally(matrix)
    for seed in range(halves):
        fit_rows, judged_rows = matrix.split(seed)
        fit, judged = matrix.at(fit_rows), matrix.at(judged_rows)
        plain, fuller, residual = rows.ours(fit, judged)
        say(
            f"{matrix.name}, half {seed}: residual gain {residual.gain:+.4f} ± {residual.gain_se:.4f}"
        )
        if seed == 0:
            say("\n".join(quality_misses.lines(plain, fuller, judged)))
        found = {TYPES: plain, RESIDUAL: fuller, "true-label types": rows.true_types(fit, judged)}
        makers = (rows.k_means, rows.sim_hash, rows.neighbours, rows.logistic)
        found |= {name: make(fit, judged) for name, make in zip(EVERY, makers, strict=True)}
        found["oracle"] = rows.oracle(judged)
        tally.leads["best single action"].append(best_single(judged))
        for name, expected in found.items():
            tally.add(name, expected, judged, judged_rows)
    return tally


def table(tally: Tally) -> str:
    """Return one line per way: points over the mix with their interval, by budget, time."""
    head = f"{tally.matrix.name}: {len(tally.matrix.texts):,} prompts × {len(tally.matrix.actions)} actions"
    lines = [head, f"{'':<24}{'lead':>7}  {'95 % interval':>15}  {'us':>7}   by budget"]
    for name in tally.leads:
        by = " ".join(f"{value:>5.1f}" for value in np.mean(tally.leads[name], axis=0))
        low, high = tally.interval(name) if name in tally.parts else (np.nan, np.nan)
        span = f"{low:>6.2f} … {high:<6.2f}" if name in tally.parts else ""
        micros = np.median(tally.micros[name]) if name in tally.parts else 0.0
        lines.append(f"{name:<24}{tally.lead(name):>7.2f}  {span:>15}  {micros:>7.0f}   {by}")
    low, high = tally.interval(RESIDUAL, less=TYPES)
    more = tally.lead(RESIDUAL) - tally.lead(TYPES)
    lines.append(f"{'residual over types':<24}{more:>7.2f}  {low:>6.2f} … {high:<6.2f}")
    return "\n".join(lines)


def figures_of(tally: Tally) -> list[Figure]:
    name, unit = tally.matrix.name, "points"
    target = TARGETS.get(name)
    what = f"{name}, ours over the best random mix"
    lead = tally.lead(RESIDUAL)
    made = [at_least(what, lead, unit, target) if target else Figure(what, lead, unit)]
    low, high = tally.interval(RESIDUAL, less=TYPES)
    more = tally.lead(RESIDUAL) - tally.lead(TYPES)
    what = f"{name}, residual over types alone (worst of 95 %: {low:+.2f})"
    made.append(Figure(what, more, unit, "its interval reaches 0", high >= 0))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of real outcomes")
    parser.add_argument("--quick", action="store_true", help="end within 50 s")
    parser.add_argument("--json", action="store_true", help="print figures as one JSON object")
    parser.add_argument("--only", choices=[*SETS, "pairs", "estimation", "rivals"], help="one part")
    arguments = parser.parse_args()
    if missing := [name for name in FILES if not (arguments.data / name).is_file()]:
        parser.error(f"{arguments.data} has no {', '.join(missing)}")
    figures: list[Figure] = []
    for name in QUICK_SETS if arguments.quick else SETS:
        if arguments.only in {None, name}:
            tally = run_set(read_matrix(arguments.data, name), 1 if arguments.quick else HALVES)
            say(table(tally) + "\n")
            figures += figures_of(tally)
    parts = {"pairs": quality_pairs, "estimation": quality_estimation, "rivals": quality_rivals}
    for name, part in parts.items():
        if arguments.only in {None, name}:
            figures += part.figures(arguments.data, quick=arguments.quick)
    report(figures, as_json=arguments.json)


if __name__ == "__main__":
    main()
