"""Runs the `paretobandit` package on a stream; for its own environment, started by quality_rivals.py.

    PYTHON paretobandit_run.py IN.npz OUT.json

IN holds features, scores and dollars of the warm-up and of the stream, and the ceilings. As in its
paper the warm-up tells it every arm's reward; on the stream it learns the chosen arm's alone, and its
pacer sees what was billed.
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from pareto_bandit import BanditRouter
from pareto_bandit.budget_pacer import BudgetPacer
from pareto_bandit.feature_service import FeatureService

TOKENS = 600
"""Output tokens that `route` supposes; prices are set so that so many cost the arm's mean."""


def main() -> None:
    logging.disable(logging.WARNING)
    given = np.load(sys.argv[1], allow_pickle=False)
    found = [_run(given, float(ceiling)) for ceiling in given["ceilings"]]
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")


def _run(given: np.lib.npyio.NpzFile, ceiling: float) -> dict[str, float]:
    means = given["warm_costs"].mean(axis=0)
    arms = [f"arm{i}" for i in range(means.size)]
    prices = {
        arm: {"input_cost_per_m": 0.0, "output_cost_per_m": 1e6 * float(mean) / TOKENS}
        for arm, mean in zip(arms, means, strict=True)
    }
    features = FeatureService.for_precomputed(dimension=given["warm"].shape[1])
    router = BanditRouter.create(
        prices, priors="none", feature_service=features, budget_pacer=BudgetPacer(ceiling)
    )
    for x, scores in zip(given["warm"], given["warm_scores"], strict=True):
        for arm, score in zip(arms, scores, strict=True):
            router.update(arm, x, float(score))
    spent = earned = 0.0
    spans = []
    for x, scores, costs in zip(given["asked"], given["scores"], given["costs"], strict=True):
        begun = time.perf_counter_ns()
        arm, log = router.route(x, input_tokens=1, output_tokens=TOKENS)
        spans.append(time.perf_counter_ns() - begun)
        place = arms.index(arm)
        log.cost_usd = float(costs[place])
        router.process_feedback(log.request_id, reward=float(scores[place]))
        spent, earned = spent + float(costs[place]), earned + float(scores[place])
    count = len(given["asked"])
    return {"spent": spent / count, "earned": earned / count, "us": statistics.median(spans) / 1e3}


if __name__ == "__main__":
    main()
