"""`budgetroute explain`: a decision as the ledger remembers it."""

from __future__ import annotations

import json
import sqlite3

import pytest
from cli_support import STORE, cli_at
from helpers.world import asked

from budgetroute.records import Bill, Pins, Slot, Usage
from budgetroute.router import Router
from budgetroute.stores import MemoryStore
from budgetroute.units import micros_from_time, usd_from_pico

QUIET = "[pacing]\npacer = 'dual'\nwarmup_periods = 0\ninitial_lambda = 40.0\n" + STORE
"""λ stands at 40 and warm-up changes no ranking."""


def opened(world, budget="daily_usd = 10.0", more=QUIET):
    return world.router(budget=budget, more=more)


def served(router, request=None, **usage):
    """One call with a reported usage."""
    decision = router.decide(request or asked())
    router.settle(decision, [Usage(210, 100, model=decision.model, finish_reason="stop", **usage)])
    return decision


def told(world, decision, *more):
    answer = cli_at(world, "explain", decision if isinstance(decision, str) else decision.id, *more)
    assert answer.code == 0, answer.err
    return answer


def test_it_tells_the_decision_as_it_was_made(disk_world):
    """Chosen action, λ, candidates, their R and C, and the flip are those of the decision."""
    router = opened(disk_world)
    decision = served(router)
    said = told(disk_world, decision, "--json").json
    assert (said["id"], said["app"], said["route"]) == (decision.id, "test", "answer")
    assert said["chosen"] == decision.action.label
    assert said["lambda"] == decision.shadow_price
    assert said["why"] == decision.why
    first = next(row for row in said["ranked"] if row["chosen"])
    assert first["R"] == pytest.approx(decision.chosen.reward)
    assert first["C"] == pytest.approx(decision.chosen.cost)
    assert first["held_usd"] == pytest.approx(decision.worst_usd)
    assert said["flips_to"] == decision.runner_up.action.label
    assert said["flips_at"] == pytest.approx(decision.flips_at)


def test_a_raised_worst_case_is_told(disk_world):
    """What would be held, and which crossing of calls before it makes it more."""
    router = opened(disk_world)
    request = asked(prompt_type="math", pins=Pins(model="large"))
    router.settle(router.decide(request), [Usage(200, 5000)])
    decision = router.decide(request)
    said = told(disk_world, decision, "--json").json
    assert said["raised"]["declared_usd"] == pytest.approx(decision.chosen.declared / 1e12)
    assert said["raised"]["why"] == "4,374 output tokens beyond the cap"
    assert "4,374 output tokens beyond the cap" in told(disk_world, decision).line
    plain = router.decide(asked(prompt_type="math", pins=Pins(model="small")))
    assert told(disk_world, plain, "--json").json["raised"] is None


def test_the_columns_obey_the_rule(disk_world):
    """In every row R − λ·C is R minus λ·C, and the rows stand in its order."""
    said = told(disk_world, served(opened(disk_world)), "--json").json
    for row in said["ranked"]:
        assert row["lambda_C"] == pytest.approx(said["lambda"] * row["C"])
        assert row["surplus"] == pytest.approx(row["R"] - row["lambda_C"])
    surplus = [row["surplus"] for row in said["ranked"]]
    assert surplus == sorted(surplus, reverse=True)
    assert len(surplus) > 1


def test_weights_on_types_are_in_the_surplus(disk_world):
    """A type whose quality is worth twice shows twice its R in the surplus."""
    router = opened(disk_world, more="[types.math]\nvalue = 2.0\n" + QUIET)
    decision = served(router, asked(prompt_type="math"))
    said = told(disk_world, decision, "--json").json
    for row in said["ranked"]:
        assert row["surplus"] == pytest.approx(2 * row["R"] - row["lambda_C"])
    assert said["flips_at"] == pytest.approx(decision.flips_at)


def test_the_bill_is_told_with_its_tokens(disk_world):
    """What was billed, by which usage, at which price, next to what was expected and held."""
    router = opened(disk_world)
    decision = served(router, cached_tokens=30)
    (attempt,) = told(disk_world, decision, "--json").json["attempts"]
    (entry,) = router.store.find(decision.id)
    assert attempt["state"] == "settled"
    assert attempt["spent_usd"] == usd_from_pico(entry.row.amount)
    seen = attempt["outcome"]
    assert (seen["input"], seen["cached"], seen["output"]) == (210, 30, 100)
    assert (seen["source"], seen["billed_as"]) == ("reported", decision.model)
    text = told(disk_world, decision).line
    assert "210 in (30 cached), 100 out" in text
    assert "by the usage that was reported" in text


@pytest.mark.parametrize(
    ("settle", "words"),
    [
        (lambda router, d: None, "in flight, or its process died"),
        (lambda router, d: router.release(d), "given back"),
        (lambda router, d: router.settle(d), "estimated, no usage was reported"),
        (lambda router, d: router.settle(d, given=7), "as you gave it"),
    ],
)
def test_every_end_is_told(disk_world, settle, words):
    """Calls in flight, released, estimated and given by hand are each told as what they are."""
    router = opened(disk_world)
    decision = router.decide(asked())
    settle(router, decision)
    assert words in told(disk_world, decision).line


def test_overshoot_is_told(disk_world):
    """A bill above what was held says by how much."""
    router = opened(disk_world)
    decision = router.decide(asked())
    router.settle(decision, given=decision.chosen.worst + 5_000_000_000)
    assert "$0.005 above what was held" in told(disk_world, decision).line


def test_attempts_are_told_one_by_one(disk_world):
    """A retried decision lists its attempts and adds them up."""
    router = opened(disk_world)
    request = asked()
    decision = router.decide(request)
    router.settle(decision)
    router.settle(router.again(decision, request, attempt=2), [Usage(200, 50)], attempt=2)
    said = told(disk_world, decision, "--json").json
    assert [a["attempt"] for a in said["attempts"]] == [f"{decision.id}#1", f"{decision.id}#2"]
    assert said["spent_usd"] == pytest.approx(sum(a["spent_usd"] for a in said["attempts"]))
    text = told(disk_world, f"{decision.id}#2").line
    assert "Attempt 1" in text
    assert "Together" in text


def test_gates_are_tallied_by_reason(disk_world):
    """What was gated out stands under its reason."""
    request = asked(sendable=frozenset({"model", "max_tokens"}))
    decision = served(opened(disk_world), request)
    said = told(disk_world, decision, "--json").json
    assert said["gated"] == {"this function has no parameter that carries cot": ["mid/1024/cot"]}
    assert "mid/1024/cot: this function has no parameter" in told(disk_world, decision).line


def test_a_step_down_is_told(disk_world):
    """When the best did not fit the budget, the marker stands at what was granted."""
    router = opened(disk_world, "daily_usd = 0.1", QUIET.replace("40.0", "0.1"))
    best = router.decide(asked())
    decision = next(d for _ in range(9) if (d := router.decide(asked())).stepped_down)
    said = told(disk_world, decision, "--json").json
    assert said["passed_over"] == decision.stepped_down
    assert said["chosen"] == decision.action.label != best.action.label
    text = told(disk_world, decision)
    assert "did not fit what was left of the budget" in text.line
    marked = next(line for line in text.out.splitlines() if line.startswith("▶"))
    assert decision.action.label in marked


def test_a_warm_up_that_bought_its_share_is_told(disk_world):
    """Where warm-up raised λ to its ceiling, explain says so and still shows R − λ·C."""
    router = opened(disk_world, "daily_usd = 0.5", "[pacing]\ninitial_lambda = 0.01\n" + STORE)
    decision = served(router)
    for _ in range(40):
        if decision.action.label == "small/256":
            break
        decision = served(router)
    said = told(disk_world, decision, "--json").json
    for row in said["ranked"]:
        assert row["surplus"] == pytest.approx(row["R"] - said["lambda"] * row["C"])
    assert "warm-up" in told(disk_world, decision).line


def test_last_is_the_newest_of_this_app(disk_world):
    """`last` takes the newest decision of the configured app, not of another in the same store."""
    router = opened(disk_world)
    served(router)
    newest = served(router)
    file = disk_world.folder / "budgetroute.toml"
    mine = file.read_text()
    file.write_text(mine.replace('name = "test"', 'name = "other"'))
    served(Router.from_config(file, store=disk_world.store))
    file.write_text(mine)
    assert told(disk_world, "last", "--json").json["id"] == newest.id


def test_the_beginning_of_an_id_is_enough(disk_world):
    """A prefix that only one decision has names it."""
    decision = served(opened(disk_world))
    assert told(disk_world, decision.id[:5], "--json").json["id"] == decision.id


def test_an_ambiguous_beginning_lists_the_decisions(disk_world):
    """A prefix of several decisions is refused with their ids, exit code 2."""
    router = opened(disk_world)
    ids = iter(["abc111", "abc222"])
    router._new_id = lambda: next(ids)
    served(router)
    served(router)
    answer = cli_at(disk_world, "explain", "abc")
    assert (answer.code, answer.out) == (2, "")
    assert "abc111" in answer.err
    assert "abc222" in answer.err


@pytest.mark.parametrize("asked_for", ["nope", "", " ", "last"])
def test_an_unknown_id_is_exit_code_2(disk_world, asked_for):
    """Ids that name nothing are refused on stderr, with where was looked, and nothing is made."""
    opened(disk_world)
    answer = cli_at(disk_world, "explain", asked_for, "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "ledger.db" in answer.err
    assert not (disk_world.folder / "ledger").exists()


def test_an_unknown_id_names_the_newest(disk_world):
    """Where there are decisions, the error names the newest ones."""
    decision = served(opened(disk_world))
    answer = cli_at(disk_world, "explain", "nope")
    assert decision.id in answer.err
    assert "explain last" in answer.err


def test_a_bill_without_a_record_is_told(disk_world):
    """A call whose hold was lost has a bill but no record: explain says so and shows the bill."""
    opened(disk_world)
    at = micros_from_time(disk_world.clock.now())
    slots = (Slot("test|all", "day:2026-03-04"),)
    disk_world.store.settle(Bill("lost#1", "lost", at, slots, billed=5_000, expected=4, worst=9))
    answer = told(disk_world, "lost")
    assert "kept no record" in answer.line
    assert told(disk_world, "lost", "--json").json["chosen"] is None


def test_a_record_of_another_shape_is_no_crash(disk_world):
    """A decision record that cannot be read is treated as none."""
    decision = served(opened(disk_world))
    disk_world.store.close()
    with sqlite3.connect(disk_world.folder / "ledger" / "ledger.db") as ledger:
        ledger.execute("UPDATE attempts SET decided = '[1]', outcome = '{\"input\":\"x\"}'")
    ledger.close()
    assert "kept no record" in told(disk_world, decision).line


def test_names_cannot_reach_the_terminal_raw(disk_world):
    """Control characters in a route's name are escaped."""
    decision = served(opened(disk_world), asked("bad\x1b[31mname"))
    answer = told(disk_world, decision)
    assert "\x1b" not in answer.out
    assert "\\x1b" in answer.out


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_width(disk_world, width):
    """No line is wider than the screen."""
    decision = served(opened(disk_world), asked(sendable=frozenset({"model", "max_tokens"})))
    answer = cli_at(disk_world, "explain", decision.id, width=width)
    assert max(map(len, answer.out.splitlines())) <= width


def test_json_survives_a_round_trip(disk_world):
    """The JSON has no value that JSON lacks, such as NaN."""
    answer = told(disk_world, served(opened(disk_world)), "--json")
    assert json.loads(json.dumps(answer.json, allow_nan=False)) == answer.json


def test_a_store_in_memory_has_no_past(disk_world):
    """With `memory:` there is nothing to explain from another process, and the error says why."""
    disk_world.router(more='[store]\nurl = "memory:"', store=MemoryStore(disk_world.clock))
    answer = cli_at(disk_world, "explain", "last")
    assert answer.code == 2
    assert "lives and ends with its process" in answer.err
