"""What routing is worth: sums per arm, kept exactly over processes, and what they are taken to say."""

from __future__ import annotations

import dataclasses
import multiprocessing

import pytest
from helpers.world import asked
from hypothesis import given
from hypothesis import strategies as st

from budgetroute import savings
from budgetroute.records import Pins
from budgetroute.router.comparing import Comparing
from budgetroute.savings import Arm, Comparison, savings_of

amounts = st.floats(0, 1e6, allow_nan=False)
arms = st.builds(Arm, st.integers(0, 10**6), amounts, amounts, amounts)
comparisons = st.builds(
    Comparison, arms, arms, arms, st.dictionaries(st.sampled_from("abc"), arms), st.integers(0, 99)
)


@given(comparisons, comparisons)
def test_sums_do_not_depend_on_the_order(one, other):
    """Processes may write in any order."""
    left, right = one + other, other + one
    assert dataclasses.replace(left, singles=dict(sorted(left.singles.items()))) == (
        dataclasses.replace(right, singles=dict(sorted(right.singles.items())))
    )


def test_the_best_single_action_costs_no_more_and_serves_all():
    """Neither a dearer one nor one that was no candidate for some call counts."""
    seen = Comparison(
        routed=Arm(10, 1.0, 7.0, 10.0),
        singles={
            "cheap": Arm(10, 0.2, 5.0, 10.0),
            "fair": Arm(10, 0.9, 6.0, 10.0),
            "dear": Arm(10, 3.0, 8.0, 10.0),
            "dearer": Arm(10, 4.0, 8.5, 10.0),
            "sometimes": Arm(9, 0.1, 8.9, 9.0),
        },
    )
    found = savings_of(seen)
    assert found.single == savings.Single("fair", 0.9, 0.6)
    assert found.as_good == savings.Single("dear", 3.0, 0.8)


def test_without_calls_nothing_is_claimed():
    """An empty window has neither savings nor single actions."""
    found = savings_of(Comparison())
    assert (found.single, found.as_good, found.saved_usd, found.reward) == (None, None, 0.0, 0.0)


def test_single_actions_are_summed_over_every_call(any_world):
    """Each action's arm is what choosing it for every call would have come to."""
    router = any_world.router()
    kinds = ["math", "chat", "math"]
    for kind in kinds:
        router.release(router.decide(asked(prompt_type=kind)))
    window = router.status().window
    singles = router.comparing.of(window).singles
    rewards = {"math": 0.85, "chat": 0.88}
    assert singles["large/1024"].calls == 3
    assert singles["large/1024"].gain == pytest.approx(sum(rewards[kind] for kind in kinds))
    assert len(singles) == 5


def test_calls_that_were_not_free_to_choose_are_left_out(any_world):
    """A pinned model says nothing of choosing; a caller's temperature does not matter."""
    router = any_world.router()
    router.release(router.decide(asked(pins=Pins(model="mid"))))
    assert router.status().savings is None
    router.release(router.decide(asked(pins=Pins(temperature=0.5))))
    router.release(router.decide(asked()))
    assert router.status().savings.calls == 2
    assert router.status().savings.single is not None or router.status().savings.as_good is not None


def test_a_baseline_without_a_curve_is_not_guessed(any_world):
    """Its quality is unknown, so such calls are told apart instead of compared."""
    from budgetroute.records import Action

    router = any_world.router()
    router.release(router.decide(asked(baseline=Action("elsewhere", 500))))
    router.release(router.decide(asked()))
    seen = router.status().savings
    assert (seen.calls, seen.compared) == (2, 1)


def test_every_process_adds_its_part(disk_world):
    """What other routers over the store have seen counts too, written or not yet."""
    for _ in range(3):
        router = disk_world.router()
        for _ in range(5):
            router.release(router.decide(asked()))
        router.comparing.flush()
    assert disk_world.router().status().savings.calls == 15


def _child(comparing, window, queue):
    queue.put(comparing.of(window).refused)
    comparing.refused(window)
    comparing.flush()


def test_a_forked_child_does_not_count_its_parents_calls_again(disk_world):
    """What the parent had not written yet is written by the parent alone."""
    comparing = Comparing(disk_world.store, app="test")
    for _ in range(100):
        comparing.refused("day:1")
    assert comparing.of("day:1").refused == 100
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(comparing, "day:1", queue))
    child.start()
    seen = queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0
    assert seen <= 100
    comparing.flush()
    assert Comparing(disk_world.store, app="test").of("day:1").refused == 101


def test_a_window_that_ended_is_written_as_its_own(any_world):
    """Yesterday's calls stay yesterday's."""
    router = any_world.router()
    router.release(router.decide(asked()))
    before = router.status().window
    any_world.pass_time(days=1)
    router.release(router.decide(asked()))
    router.release(router.decide(asked()))
    assert router.status().savings.calls == 2
    assert router.comparing.of(before).routed.calls == 1
