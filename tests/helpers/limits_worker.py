"""A process that makes calls of several users against limits; `test_limits_processes` starts several.

    python limits_worker.py FOLDER COUNT SEED

Prints one JSON object: bills by user, refusals by limit, and the warnings that came to it.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from budgetroute import BudgetExceeded, Router, on_warning, route, tags
from budgetroute.clock import ManualClock
from budgetroute.stores import DiskStore

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
USERS, TEAMS = ("ann", "ben", "eve"), ("ads", "hr")
PICO_PER_TOKEN = {"small": (100_000, 400_000), "mid": (1_000_000, 4_000_000)}


def main(folder: Path, count: int, seed: int) -> None:
    luck = random.Random(seed)
    router = Router.from_config(
        folder / "budgetroute.toml", store=DiskStore(folder / "s", ManualClock(NOON))
    )
    billed: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    warned: list[tuple[str, str, float, str | None]] = []
    on_warning(lambda w: warned.append((w.limit, w.window, w.share, w.value)))

    @route(router=router)
    def answer(question: str, *, model: str = "small", max_tokens: int = 1024):
        given, made = luck.randrange(1, 200), luck.randrange(max_tokens)
        per_in, per_out = PICO_PER_TOKEN[model]
        bill = given * per_in + made * per_out
        billed[user] += bill
        billed[team] += bill
        billed["all"] += bill
        return {"usage": {"prompt_tokens": given, "completion_tokens": made}}

    for _ in range(count):
        user, team = luck.choice(USERS), luck.choice(TEAMS)
        try:
            with tags(user=user, team=team):
                answer("what is it? " * 40)
        except BudgetExceeded as error:
            refused[error.scope] += 1
    sys.stdout.write(json.dumps({"billed": billed, "refused": refused, "warned": warned}))
    router.store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
