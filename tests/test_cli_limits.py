"""`status` and `explain` of limits: what they show, for all and for one call; nobody is named."""

from __future__ import annotations

import pytest
from cli_support import STORE, cli_at
from helpers.spending import spend
from helpers.world import asked

from budgetroute.errors import BudgetExceeded

BEST = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
LIMITS = """
[limits.users]
per = "user"
daily_usd = 0.02
monthly_usd = 0.2
[limits.ads]
match = { team = "ads" }
daily_usd = 0.05
soft = true
[limits.project]
total_usd = 50
"""


def limited(world, limits=LIMITS):
    return world.router(more=f"{BEST}{STORE}\n{limits}")


def test_status_shows_every_limit(disk_world):
    """Limits of tables with their windows; those per tag as a rule, without a sum."""
    router = limited(disk_world)
    spend(router, 0.07, tags={"team": "ads"})
    seen = cli_at(disk_world, "status", width=120)
    assert seen.code == 0
    assert "ads $0.07 of $0.05" in seen.line
    assert "day · $0.02 over · resets" in seen.line
    assert "project $0.07 of $50.00" in seen.line
    assert "users $0.02 a day and $0.20 a month for each user" in seen.line
    said = cli_at(disk_world, "status", "--json").json
    assert [limit["name"] for limit in said["limits"]] == ["day", "ads", "project"]
    assert said["limits"][1]["over_usd"] == pytest.approx(0.02)
    assert said["limits"][1]["hard_usd"] is None
    assert said["limits"][2]["resets_at"] is None
    assert said["limits_each"] == {"users": "$0.02 a day and $0.20 a month for each user"}


def test_status_of_one_call(disk_world):
    """--tag and --route show what such a call counts in, by computing its hash; 3 if it is refused."""
    router = limited(disk_world)
    spend(router, 0.02, tags={"user": "ann"})
    asked_for = ["status", "--tag", "user=ann", "--json"]
    said = cli_at(disk_world, *asked_for)
    assert [(x["name"], x["window"]) for x in said.json["limits"]] == [
        ("day", "day"), ("users", "day"), ("users", "month"), ("project", "total"),
    ]  # fmt: skip
    assert (said.code, said.json["exhausted"]) == (3, True)
    assert "limit users is left" in cli_at(disk_world, "status", "--tag", "user=ann").line
    assert "[limits.users]" in cli_at(disk_world, "status", "--tag", "user=ann").line
    assert cli_at(disk_world, "status", "--tag", "user=ben", "--route", "answer").code == 0
    assert cli_at(disk_world, "status").code == 0


def test_a_limit_of_some_calls_does_not_exhaust_the_budget(disk_world):
    """The exit code is about all calls: one team's empty limit is none of the others' business."""
    limits = '[limits.ads]\nmatch = { team = "ads" }\ndaily_usd = 0\n'
    router = limited(disk_world, limits)
    spend(router, 0.01)
    assert cli_at(disk_world, "status").code == 0
    assert cli_at(disk_world, "status", "--tag", "team=ads").code == 3


@pytest.mark.parametrize("tag", ["user", "=ann", ""])
def test_a_tag_is_written_with_its_value(disk_world, tag):
    """Anything else is a wrong usage that says how."""
    limited(disk_world)
    seen = cli_at(disk_world, "status", "--tag", tag)
    assert seen.code == 2
    assert "NAME=VALUE" in seen.err


def test_explain_names_what_bound(disk_world):
    """The limit that the best action did not fit, and where all limits of the call stand."""
    router = limited(disk_world)
    tags = {"user": "ann", "team": "ads"}
    decision = router.decide(asked(prompt_type="math", tags=tags))
    router.settle(decision, given=10**10)
    seen = cli_at(disk_world, "explain", decision.id, width=120)
    assert "Bound by users (day): $0.02 was left, the best needed $0.0442" in seen.line
    assert "Limits day · day:2026-03-04: $0.01 of $10.00 now" in seen.line
    assert "users · month:2026-03: $0.01 of $0.20 now" in seen.line
    assert "project · total: $0.01 of $50.00 now" in seen.line
    assert "ann" not in seen.out
    said = cli_at(disk_world, "explain", decision.id, "--json").json
    assert said["bound_by"]["limit"] == "users"
    assert [x["name"] for x in said["limits"]] == ["day", "users", "users", "ads", "project"]
    assert said["degraded"] is False


def test_explain_of_a_limit_that_is_gone(disk_world):
    """A limit that was taken out of the configuration since has no name any more."""
    router = limited(disk_world)
    decision = spend(router, 0.01, tags={"user": "ann"})
    limited(disk_world, "")
    said = cli_at(disk_world, "explain", decision.id, "--json").json
    assert [(x["name"], x["limit_usd"]) for x in said["limits"]][1] == ("–", None)
    assert "no limit in the configuration" in cli_at(disk_world, "explain", "last", width=120).line


def test_explain_of_degraded_service(disk_world):
    """It says that the limits were exhausted."""
    limits = (
        '[limits.users]\nper = "user"\ndaily_usd = 0.01\nsoft = true\non_exhausted = "degrade"\n'
    )
    router = limited(disk_world, limits)
    spend(router, 0.01, tags={"user": "ann"})
    decision = router.decide(asked(prompt_type="math", tags={"user": "ann"}))
    router.release(decision)
    assert "limits were exhausted" in cli_at(disk_world, "explain", decision.id, width=120).line


def test_looking_at_runs(disk_world):
    """A run is a limit like others."""
    router = limited(disk_world, "")
    decision = spend(router, 0.01, run_limits=(("job", 10**12),))
    said = cli_at(disk_world, "explain", decision.id, "--json").json
    assert [x["name"] for x in said["limits"]] == ["day", "run:job"]


def test_looking_before_the_first_call_makes_nothing(disk_world):
    """Neither ledger nor key is made by looking."""
    limited(disk_world)
    assert cli_at(disk_world, "status", "--tag", "user=ann").code == 0
    assert not (disk_world.folder / "ledger").exists()


def test_the_log_names_the_limits(disk_world, caplog):
    """The decision's line says what bound and what is tightest; a refusal has a line of its own."""
    router = limited(disk_world)
    with caplog.at_level("DEBUG", "budgetroute.decide"):
        router.release(router.decide(asked(prompt_type="math", tags={"user": "ann"})))
        spend(router, 0.02, tags={"user": "ann"})
        with pytest.raises(BudgetExceeded):
            spend(router, 0.02, tags={"user": "ann"})
    first, _, last = [record.getMessage() for record in caplog.records]
    assert "bound_by=users" in first
    assert 'tightest="users(' in first
    assert last.startswith("refused=answer limit=users window=day spent=$0.020000")
    assert "ann" not in caplog.text
