"""Shadow mode: the baseline is sent and booked without a limit, `on` is computed beside it."""

from __future__ import annotations

import json

import pytest
from helpers.world import BASELINE, asked

from budgetroute.errors import NoEligibleAction, UnpricedModel
from budgetroute.records import Action, Usage

SHADOW = 'mode = "shadow"'
CHEAP = '[pacing]\npacer = "fixed"\ninitial_lambda = 1e6\n'
DEAR = '[pacing]\npacer = "fixed"\ninitial_lambda = 0.0\n'
USED = [Usage(200, 300)]
USED_USD = 0.0014


def shadowed(world, **more):
    return world.router(top=SHADOW, **more)


def test_the_baseline_is_the_decision_and_the_virtual_one_stands_beside_it(any_world):
    """What is to be sent is what the code says; what `on` would have taken is told with its price."""
    decision = shadowed(any_world, more=CHEAP).decide(asked(prompt_type="math"))
    assert decision.action == BASELINE
    assert decision.shadowed.action == Action("small", 256)
    assert decision.baseline.cost == decision.chosen.cost > decision.shadowed.chosen.cost > 0
    assert "on would have taken small/256: $" in decision.why
    assert "less, -30.0 points" in decision.why


def test_real_money_and_virtual_money_are_counted_apart(any_world):
    """The bill lies under the app's own keys, the prediction under `shadow/`."""
    router = shadowed(any_world, more=CHEAP)
    decision = router.decide(asked(prompt_type="math"))
    settlement = router.settle(decision, USED)
    status = router.status()
    assert settlement.usd == status.spent_usd == pytest.approx(USED_USD)
    assert status.virtual.spent_usd == pytest.approx(decision.shadowed.chosen.cost)
    assert (status.held_usd, status.virtual.held_usd) == (0.0, 0.0)
    assert (status.calls, status.virtual.calls) == (1, 1)
    scopes = {slot.scope for entry in router.store.recent(9) for slot in entry.slots}
    assert scopes == {"test|all", "shadow/test|all"}


def test_the_same_action_is_billed_the_same(any_world):
    """Where `on` would have taken the baseline too, the real bill is the virtual one."""
    router = any_world.router(
        top=SHADOW, more='[pacing]\npacer = "fixed"\ninitial_lambda = 120.0\n'
    )
    decision = router.decide(asked(prompt_type="chat"))
    if decision.shadowed.action != decision.action:
        decision = router.decide(asked(prompt_type="chat", baseline=decision.shadowed.action))
    assert decision.shadowed.action == decision.action
    before = router.status().virtual.spent_usd
    settlement = router.settle(decision, [Usage(200, 77)])
    assert router.status().virtual.spent_usd - before == pytest.approx(settlement.usd)


def test_nothing_is_refused_for_real(any_world):
    """An exhausted budget refuses virtual calls only; they are counted and told."""
    router = shadowed(any_world, budget="daily_usd = 0.0004", more=DEAR)
    for _ in range(6):
        router.settle(router.decide(asked(prompt_type="math", tokens=20)), [Usage(20, 1000)])
    last = router.decide(asked(prompt_type="math", tokens=20))
    assert last.action == BASELINE
    assert last.shadowed is None
    assert "on would have raised" in last.why
    status = router.status()
    assert status.spent_usd > status.limit_usd
    assert status.virtual.spent_usd <= status.limit_usd
    assert status.virtual.refused >= 1
    assert status.virtual.calls + status.virtual.refused == 7


def test_a_run_does_not_refuse_either(any_world):
    """`run()` caps are virtual too."""
    router = shadowed(any_world)
    decision = router.decide(asked(run_limits=(("r", 0),)))
    assert decision.action == BASELINE
    assert decision.shadowed is None


def test_an_unsent_call_gives_back_both_holds(any_world):
    """A release frees the real and the virtual hold."""
    router = shadowed(any_world)
    router.release(router.decide(asked()))
    status = router.status()
    assert (status.held_usd, status.virtual.held_usd, status.spent_usd) == (0.0, 0.0, 0.0)
    assert (status.calls, status.virtual.calls) == (0, 0)


def test_the_virtual_price_follows_the_virtual_spend(any_world):
    """λ is planned from what `on` would have spent, however dear the baseline is."""
    router = shadowed(any_world, budget="daily_usd = 1.0\ncalls_per_day = 1000")
    for _ in range(30):
        any_world.pass_time(minutes=2)
        decision = router.decide(asked(prompt_type="math"))
        router.settle(decision, [Usage(200, 300)])
    assert decision.shadowed.shadow_price > 0
    assert router.pace.known() is not None
    keys = [key for key in ("test|all", "shadow/test|all") if router.store.load_plan(key).value]
    assert keys == ["shadow/test|all"]


def test_turning_on_starts_from_what_was_counted(any_world):
    """The real spend of the day counts when `on` takes over, and so does the traffic."""
    router = shadowed(any_world)
    router.settle(router.decide(asked()), USED)
    on = any_world.router()
    assert on.status().spent_usd == pytest.approx(USED_USD)
    assert any(group.startswith("test|") for group, _ in on.store.arrivals("day:"))


def test_without_a_known_baseline_there_is_no_decision(any_world):
    """What the code does must be known and priced to be booked; else the caller is told."""
    router = shadowed(any_world)
    with pytest.raises(NoEligibleAction, match="what the code does without routing is not known"):
        router.decide(asked(baseline=None))
    with pytest.raises(UnpricedModel):
        router.decide(asked(baseline=Action("nobody-knows", 100)))
    status = router.status()
    assert (status.held_usd, status.virtual.held_usd) == (0.0, 0.0)


def test_the_record_keeps_both_arms(any_world):
    """`explain` can show what was sent and what `on` would have taken, each with its price."""
    router = shadowed(any_world, more=CHEAP)
    decision = router.decide(asked(prompt_type="math"))
    (entry,) = router.store.find(decision.id)
    seen = json.loads(entry.decided)
    assert seen["steps"] == ["mid/1024"]
    assert seen["shadow"]["action"] == "small/256"
    assert seen["shadow"]["C"] == decision.shadowed.chosen.cost
    assert router.store.find(seen["shadow"]["decision"])[0].row.expected > 0
