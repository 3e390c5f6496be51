"""Any order of steps: no interleaving of what can happen to calls breaks an invariant.

The model is `budget`'s pure transitions over dictionaries. Memory and disk must agree with it after
every step, and the disk must pass its audit.
"""

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from budgetroute import budget
from budgetroute.clock import ManualClock
from budgetroute.records import (
    Arrival,
    Ask,
    Attempt,
    Balance,
    Bill,
    Grant,
    Limit,
    Option,
    Slot,
    StoredPlan,
)
from budgetroute.stores import DiskStore, MemoryStore
from budgetroute.stores.books import verify
from tests.store_contract import AT, MINUTE, NOON

LIMITS = {"app|all": 300, "app|limit:u#7": 120, "app|run:r": 500}
MANY = "app|limit:u#7"


@dataclass
class Kept:
    """An attempt as the model knows it."""

    attempt: Attempt
    slots: tuple[Slot, ...]
    at: int
    lease: int


class Model:
    """A ledger made of nothing but the pure transitions."""

    def __init__(self):
        self.rows = {}
        self.sums = defaultdict(Balance)
        self.forced = defaultdict(int)
        self.elapsed = budget.Elapsed()

    def reserve(self, ask):
        answer = budget.admit(ask, [self.sums[limit.slot] for limit in ask.limits])
        if isinstance(answer, Grant):
            attempt, change = budget.reserve(ask.options[answer.index])
            slots = budget.slots_of(ask)
            self.rows[ask.attempt] = Kept(attempt, slots, ask.at, ask.lease_until)
            self.count(slots, change)
        return answer

    def settle(self, bill):
        kept = self.rows.get(bill.attempt)
        before = kept.attempt if kept else None
        after, change = budget.settle(before, bill)
        if after is before:
            return after, True
        if kept is None:
            kept = self.rows[bill.attempt] = Kept(after, bill.slots, bill.at, bill.at)
        kept.attempt = after
        self.count(kept.slots, change)
        for slot in kept.slots:  # what a bill adds is not ours to refuse
            self.forced[slot] += max(0, change.settled + change.held)
        return after, False

    def release(self, name):
        kept = self.rows.get(name)
        released = budget.release(kept.attempt if kept else None)
        if released is None:
            return False
        kept.attempt, change = released
        self.count(kept.slots, change)
        return True

    def sweep(self, at):
        swept = [k for k in self.rows.values() if k.attempt.state == "held" and k.lease <= at]
        for kept in swept:
            kept.attempt, change = budget.expire(kept.attempt)
            self.count(kept.slots, change)
        self.elapsed = budget.elapsed(self.elapsed, at)
        before = self.elapsed.sure - budget.RETENTION
        self.rows = {
            name: kept
            for name, kept in self.rows.items()
            if kept.at >= before or kept.attempt.state == "held"
        }
        return len(swept)

    def count(self, slots, change):
        for slot in slots:
            self.sums[slot] += change


class Ledgers(RuleBasedStateMachine):
    """Drives model, memory and disk through the same steps."""

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(NOON)
        self.model = Model()
        self.memory = MemoryStore(self.clock)
        path = Path(self.folder.name) / "store"
        self.disks = [DiskStore(path, self.clock) for _ in range(2)]  # two processes, one ledger
        self.turn = 0
        self.made = {}
        self.version = 0

    def teardown(self):
        if hasattr(self, "disks"):
            for disk in self.disks:
                disk.close()
            self.folder.cleanup()

    @property
    def disk(self):
        self.turn += 1
        return self.disks[self.turn % 2]

    def both(self, operation):
        one, two = operation(self.memory), operation(self.disk)
        assert one == two
        return one

    @property
    def at(self):
        return AT + (self.clock.at - NOON) // timedelta(microseconds=1)

    def slots(self, scopes):
        day = f"day:{self.clock.at:%Y-%m-%d}"
        return tuple(Slot(name, "once" if "run" in name else day) for name in scopes)

    # what a call does

    @rule(
        options=st.lists(
            st.tuples(st.integers(0, 60), st.integers(0, 100)).map(
                lambda pair: Option(pair[0], pair[0] * pair[1] // 100)
            ),
            min_size=1,
            max_size=3,
        ),
        guard=st.integers(-5, 50),
        lease=st.integers(1, 90),
        scopes=st.lists(st.sampled_from(list(LIMITS)), min_size=1, max_size=4),
    )
    def reserve(self, options, guard, lease, scopes):
        name = f"d{len(self.made):03}"
        limits = tuple(Limit(slot, LIMITS[slot.scope], guard) for slot in self.slots(scopes))
        arrival = Arrival("g", f"{self.clock.at:%Y-%m-%dT%H}")
        at, until = self.at, self.at + lease * MINUTE
        ask = Ask(f"{name}#1", name, at, until, limits, tuple(options), '{"v":1}', arrival)
        answer = self.both(lambda store: store.reserve(ask))
        assert answer == self.model.reserve(ask)
        if isinstance(answer, Grant):
            self.made[ask.attempt] = (budget.slots_of(ask), options[answer.index])

    @precondition(lambda self: self.made)
    @rule(
        data=st.data(),
        share=st.one_of(st.none(), st.integers(0, 130)),
        estimate=st.one_of(st.none(), st.integers(0, 60)),
        times=st.integers(1, 2),
    )
    def settle(self, data, share, estimate, times):
        """A bill: early, late, twice, above the worst case, for a hold that is gone, or unknown."""
        name = data.draw(st.sampled_from(list(self.made)))
        slots, option = self.made[name]
        amount = None if share is None else option.worst * share // 100
        bill = Bill(name, name[:-2], self.at, slots, amount, option.expected, option.worst,
                    "{}", estimate)  # fmt: skip
        for _ in range(times):
            booked = self.both(lambda store: store.settle(bill))
            after, repeated = self.model.settle(bill)
            assert (booked.amount, booked.state, booked.repeated) == (
                after.amount, after.state, repeated,
            )  # fmt: skip

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def release(self, data):
        name = data.draw(st.sampled_from(list(self.made)))
        assert self.both(lambda store: store.release(name, self.at)) == self.model.release(name)

    # what happens beside it

    @rule()
    def sweep(self):
        assert self.both(lambda store: store.sweep(self.at)) == self.model.sweep(self.at)
        self.forget_outlived()

    @rule(hours=st.sampled_from([0.02, 1, 7, 30, 36 * 24]))
    def time_passes(self, hours):
        self.clock.at += timedelta(hours=hours)

    @rule(hours=st.sampled_from([-1, -24, -24 * 365, 24 * 365]))
    def clock_leaps(self, hours):
        self.clock.at += timedelta(hours=hours)

    @rule()
    def reopen(self):
        self.disk.close()

    @rule(stale=st.booleans())
    def plan(self, stale):
        """A plan is written by who saw the last version, and by nobody else."""
        seen = self.version - stale
        wrote = self.both(
            lambda store: store.save_plan("app|all", f"λ{self.version}", expected_version=seen)
        )
        assert wrote is (seen == self.version)
        self.version += wrote

    def forget_outlived(self):
        """Sums of one of many may be dropped long after their period; see which the disk dropped."""
        over = budget.outlived(NOON + timedelta(microseconds=self.model.elapsed.sure - AT)
                               - timedelta(microseconds=budget.RETENTION))  # fmt: skip
        for slot in list(self.model.sums):
            if slot.scope == MANY and any(first <= slot.period < last for first, last in over):
                del self.model.sums[slot]
                self.memory._sums.pop(slot, None)  # it looks only once an hour

    # what must hold

    @invariant()
    def every_sum_is_the_models(self):
        if not hasattr(self, "disks"):
            return
        slots = list(self.model.sums)
        found = self.both(lambda store: store.snapshot(slots))
        assert dict(zip(slots, found, strict=True)) == dict(self.model.sums)

    @invariant()
    def no_cap_is_crossed_but_by_bills(self):
        for slot, sums in getattr(self, "model", Model()).sums.items():
            assert min(sums.settled, sums.held, sums.expected, sums.calls, sums.estimated) >= 0
            assert sums.expected <= sums.held
            assert sums.settled + sums.held <= LIMITS[slot.scope] + self.model.forced[slot]

    @invariant()
    def every_attempt_is_the_models(self):
        if not hasattr(self, "disks"):
            return
        entries = self.both(lambda store: store.recent(10**6))
        assert {entry.attempt: entry.row for entry in entries} == {
            name: kept.attempt for name, kept in self.model.rows.items()
        }
        self.both(lambda store: store.arrivals(""))

    @invariant()
    def the_audit_is_clean(self):
        ledger = Path(self.folder.name) / "store" / "ledger.db" if hasattr(self, "folder") else None
        if ledger is not None and ledger.exists():
            assert verify(ledger, now=self.at).faults == ()

    @invariant()
    def the_plan_is_there(self):
        if hasattr(self, "disks"):
            kept = self.both(lambda store: store.load_plan("app|all"))
            value = f"λ{self.version - 1}" if self.version else None
            assert kept == StoredPlan(value, self.version)


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
