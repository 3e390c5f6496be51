"""What every store must do: one suite that all implementations pass.

A subclass provides two fixtures: `clock`, a ManualClock, and `store`, an empty store on it.
"""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from budgetroute.errors import StoreError
from budgetroute.protocols import Store
from budgetroute.records import (
    Arrival,
    Ask,
    Attempt,
    Balance,
    Bill,
    Grant,
    Limit,
    Option,
    Refusal,
    Slot,
    StoredPlan,
)
from budgetroute.units import micros_from_time

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
AT = micros_from_time(NOON)
MINUTE = 60 * 10**6
DAYS = 86_400 * 10**6
DAY, USER = Slot("app", "day:2026-11-29"), Slot("app/user:7", "day:2026-11-29")
TWO = (Limit(DAY, 1000), Limit(USER, 500))


def ask(name="d#1", *options, limits=TWO, at=AT, lease=15 * MINUTE, arrival=None, record="{}"):
    """Ask for (worst, expected) options; the decision is what stands before the #."""
    return Ask(
        name,
        name.partition("#")[0],
        at,
        at + lease,
        tuple(limits),
        tuple(Option(*option) for option in options or [(100, 10)]),
        record,
        arrival,
    )


def bill(name="d#1", billed=7, *, at=AT, slots=(DAY, USER), expected=10, worst=100, record="{}"):
    """Return a bill that matches `ask`."""
    return Bill(name, name.partition("#")[0], at, slots, billed, expected, worst, record)


class StoreContract:
    """The suite; subclass it with a `store` fixture."""

    # reserve

    def test_it_is_a_store(self, store: Store, clock):
        """Time is the clock's."""
        assert store.now() == clock.now()

    def test_a_reservation_holds_the_worst_case_everywhere(self, store):
        """Every slot counts the hold, and the grant shows the slots after it."""
        held = Balance(held=100, expected=10, calls=1)
        assert store.reserve(ask()) == Grant(0, (held, held))
        assert store.snapshot([DAY, USER]) == (held, held)

    def test_the_first_option_that_fits_is_held(self, store):
        """What does not fit is passed over."""
        granted = store.reserve(ask("d#1", (600, 60), (450, 45), (1, 1)))
        assert granted.index == 1
        assert store.snapshot([USER]) == (Balance(held=450, expected=45, calls=1),)

    def test_a_refusal_changes_nothing(self, store):
        """What does not fit leaves no trace: no hold, no row, no arrival."""
        store.reserve(ask("d#1", (450, 45)))
        before = store.snapshot([DAY, USER])
        refused = store.reserve(ask("e#1", (51, 5), arrival=Arrival("g", "b")))
        assert refused == Refusal(TWO[1], before[1], needed=51)
        assert store.snapshot([DAY, USER]) == before
        assert store.find("e") == ()
        assert store.arrivals("") == {}

    def test_the_limit_itself_may_be_reached(self, store):
        """The comparison is ≤."""
        assert isinstance(store.reserve(ask("d#1", (500, 1))), Grant)
        assert isinstance(store.reserve(ask("e#1", (1, 1))), Refusal)

    def test_the_guard_spares_the_last_option(self, store):
        """Guarded money is open to the last option only."""
        limits = [Limit(DAY, 100, guard=60)]
        assert store.reserve(ask("d#1", (50, 1), (50, 1), limits=limits)).index == 1

    def test_an_attempt_is_reserved_once(self, store):
        """A second reservation of an id raises, whatever became of the first, and adds nothing."""
        store.reserve(ask())
        for change in (lambda: None, lambda: store.settle(bill())):
            change()
            before = store.snapshot([DAY])
            with pytest.raises(StoreError, match=r"'d#1'.*ledger already") as caught:
                store.reserve(ask())
            assert not caught.value.retryable
            assert store.snapshot([DAY]) == before

    def test_a_taken_id_is_an_error_even_where_nothing_fits(self, store):
        """An id's second use is told apart from an exhausted budget."""
        store.reserve(ask("d#1", (500, 1)))
        with pytest.raises(StoreError, match="ledger already"):
            store.reserve(ask("d#1", (500, 1)))

    def test_a_slot_with_two_limits_counts_once(self, store):
        """Two limits on one slot both bind, but the money is there once."""
        limits = [Limit(DAY, 1000), Limit(DAY, 100)]
        held = Balance(held=100, expected=10, calls=1)
        assert store.reserve(ask(limits=limits)) == Grant(0, (held, held))
        assert store.snapshot([DAY]) == (held,)
        assert isinstance(store.reserve(ask("e#1", (1, 1), limits=limits)), Refusal)

    def test_slots_without_a_limit_are_counted(self, store):
        """None is no limit."""
        assert store.reserve(ask(limits=[Limit(DAY, None)])).index == 0
        assert store.snapshot([DAY])[0].held == 100

    # settle

    def test_a_bill_replaces_its_hold(self, store):
        """After the bill nothing is held, and the booking shows the slots in the bill's order."""
        store.reserve(ask(limits=[*TWO, Limit(Slot("app/run", "once"), None)]))
        booked = store.settle(bill(slots=(USER, DAY)))
        assert (booked.amount, booked.state, booked.repeated) == (7, "settled", False)
        assert booked.balances == (Balance(settled=7, calls=1),) * 2
        assert store.snapshot([Slot("app/run", "once")])[0] == Balance(settled=7, calls=1)

    def test_a_bill_above_the_worst_case_is_booked_in_full(self, store):
        """What was billed counts, also beyond what was held."""
        store.reserve(ask())
        assert store.settle(bill(billed=5000)).balances[0].settled == 5000

    def test_a_bill_of_nothing_is_a_bill(self, store):
        """Zero is not unknown."""
        store.reserve(ask())
        booked = store.settle(bill(billed=0))
        assert (booked.amount, booked.state) == (0, "settled")
        assert booked.balances[0] == Balance(calls=1)

    def test_settling_twice_changes_nothing(self, store):
        """The second bill, even a different one, finds the attempt settled."""
        store.reserve(ask())
        store.settle(bill())
        for again in (bill(), bill(billed=9), bill(billed=None)):
            booked = store.settle(again)
            assert (booked.amount, booked.state, booked.repeated) == (7, "settled", True)
        assert store.snapshot([DAY, USER]) == (Balance(settled=7, calls=1),) * 2

    def test_unknown_usage_is_estimated(self, store):
        """The expected cost is booked, the rest of the worst case stays held."""
        store.reserve(ask())
        booked = store.settle(bill(billed=None))
        assert (booked.amount, booked.state, booked.repeated) == (10, "estimated", False)
        assert booked.balances[0] == Balance(settled=10, held=90, calls=1, estimated=1)
        assert store.settle(bill(billed=None)).repeated

    def test_an_estimate_of_its_own(self, store):
        """A better estimate than the expected cost is booked instead, and a bill still corrects it."""
        store.reserve(ask())
        booked = store.settle(replace(bill(billed=None), estimate=33))
        assert (booked.amount, booked.state) == (33, "estimated")
        assert booked.balances[0] == Balance(settled=33, held=67, calls=1, estimated=1)
        assert store.settle(replace(bill(), estimate=33)).balances[0] == Balance(settled=7, calls=1)

    def test_usage_that_comes_late_corrects_the_estimate(self, store):
        """Estimate and residue give way to the bill."""
        store.reserve(ask())
        store.settle(bill(billed=None))
        booked = store.settle(bill())
        assert (booked.amount, booked.state, booked.repeated) == (7, "settled", False)
        assert store.snapshot([DAY, USER]) == (Balance(settled=7, calls=1),) * 2

    def test_a_bill_without_a_hold_is_booked(self, store):
        """A ledger that lost the hold books the bill where it says, once."""
        assert store.settle(bill()).balances == (Balance(settled=7, calls=1),) * 2
        assert store.settle(bill()).repeated
        assert store.snapshot([DAY]) == (Balance(settled=7, calls=1),)

    def test_an_unknown_bill_without_a_hold_is_estimated(self, store):
        """So is a bill of unknown usage, with its residue, until usage arrives."""
        booked = store.settle(bill(billed=None))
        assert booked.balances[0] == Balance(settled=10, held=90, calls=1, estimated=1)
        assert store.settle(bill()).balances[0] == Balance(settled=7, calls=1)

    def test_a_negative_bill_is_refused(self, store):
        """Money never comes back by a bill; the hold stays."""
        store.reserve(ask())
        with pytest.raises(ValueError, match="below zero"):
            store.settle(bill(billed=-1))
        assert store.snapshot([DAY])[0].held == 100

    def test_a_call_belongs_to_the_period_of_its_reservation(self, store):
        """A bill that comes after the roll-over corrects the old period, not the new one."""
        tomorrow = Slot("app", "day:2026-11-30")
        store.reserve(ask("d#1", limits=[Limit(DAY, 1000)]))
        store.reserve(ask("e#1", limits=[Limit(tomorrow, 1000)], at=AT + DAYS))
        store.settle(bill(at=AT + DAYS, slots=(tomorrow,)))
        assert store.snapshot([DAY]) == (Balance(settled=7, calls=1),)
        assert store.snapshot([tomorrow]) == (Balance(held=100, expected=10, calls=1),)

    # release

    def test_a_release_undoes_the_reservation(self, store):
        """Taken and given back, the slots are as before; there is nothing to give back twice."""
        store.reserve(ask())
        assert store.release("d#1", AT)
        assert store.snapshot([DAY, USER]) == (Balance(), Balance())
        assert not store.release("d#1", AT)

    def test_only_what_is_held_is_released(self, store):
        """Neither an unknown nor a settled attempt can be given back."""
        store.reserve(ask("d#1"))
        store.settle(bill("d#1"))
        before = store.snapshot([DAY])
        assert not any(store.release(name, AT) for name in ("d#1", "nobody#1"))
        assert store.snapshot([DAY]) == before

    def test_a_release_after_the_lease_gives_the_estimate_back(self, store):
        """A call that waited too long and turns out to be free leaves nothing booked or held."""
        store.reserve(ask())
        store.sweep(AT + DAYS)
        assert store.release("d#1", AT + DAYS)
        assert store.snapshot([DAY, USER]) == (Balance(), Balance())
        assert store.find("d")[0].row.state == "released"

    def test_a_bill_after_a_release_is_booked(self, store):
        """The call was sent after all."""
        store.reserve(ask())
        store.release("d#1", AT)
        booked = store.settle(bill())
        assert not booked.repeated
        assert booked.balances == (Balance(settled=7, calls=1),) * 2

    # sweep

    def test_a_lease_that_ran_out_is_estimated(self, store):
        """From the end of its lease an abandoned hold counts as unknown usage; once."""
        store.reserve(ask("d#1", lease=MINUTE))
        store.reserve(ask("e#1", lease=2 * MINUTE))
        assert store.sweep(AT + MINUTE - 1) == 0
        assert store.sweep(AT + MINUTE) == 1
        assert store.sweep(AT + MINUTE) == 0
        assert store.snapshot([DAY])[0] == Balance(10, 190, 10, 2, 1)

    def test_many_abandoned_holds_are_swept_at_once(self, store):
        """One sweep takes them all."""
        for number in range(600):
            store.reserve(ask(f"d{number}#1", (1, 1), limits=[Limit(DAY, None)]))
        assert store.sweep(AT + DAYS) == 600
        assert store.snapshot([DAY]) == (Balance(settled=600, calls=600, estimated=600),)

    def test_a_bill_after_the_sweep_corrects_it(self, store):
        """A slow call that was taken for dead is billed in the end."""
        store.reserve(ask())
        store.sweep(AT + DAYS)
        booked = store.settle(bill(at=AT + DAYS))
        assert (booked.state, booked.repeated) == ("settled", False)
        assert store.snapshot([DAY]) == (Balance(settled=7, calls=1),)

    def test_rows_go_after_35_days_and_sums_stay(self, store):
        """Attempts and arrivals are dropped at a sweep; what was spent is never forgotten."""
        arrival = Arrival("g", "2026-11-29T12:00")
        store.reserve(ask("old#1", arrival=arrival))
        store.settle(bill("old#1"))
        store.reserve(ask("released#1"))
        store.release("released#1", AT)
        late = AT + DAYS
        store.reserve(ask("new#1", limits=[Limit(DAY, None)], at=late))
        store.settle(bill("new#1", slots=(DAY,), at=late))
        store.sweep(AT + 35 * DAYS)
        store.sweep(AT + 36 * DAYS)
        assert len(store.recent(9)) == 3
        store.sweep(AT + 36 * DAYS + 1)
        store.sweep(AT + 37 * DAYS + 1)
        assert [entry.attempt for entry in store.recent(9)] == ["new#1"]
        assert store.arrivals("") == {}
        assert store.snapshot([DAY]) == (Balance(settled=14, calls=2),)

    # what is kept

    def test_history_lists_the_periods_of_a_scope(self, store):
        """Every period of the scope, and of no other scope."""
        for name, period in [("d#1", "day:2026-11-28"), ("e#1", "day:2026-11-29")]:
            slots = (Slot("app", period), Slot("app2", period))
            store.reserve(ask(name, limits=[Limit(slot, None) for slot in slots]))
            store.settle(bill(name, slots=slots))
        spent = Balance(settled=7, calls=1)
        assert store.history("app") == {"day:2026-11-28": spent, "day:2026-11-29": spent}
        assert store.history("nobody") == {}

    def test_arrivals_are_counted_in_reserve(self, store):
        """Each granted request counts in its group and bucket, found by the bucket's start."""
        for number, (group, bucket) in enumerate(
            [("a", "2026-11-29T12:00"), ("a", "2026-11-29T12:00"), ("b", "2026-11-30T09:15")]
        ):
            store.reserve(ask(f"d{number}#1", arrival=Arrival(group, bucket)))
        assert store.arrivals("2026-11-29") == {("a", "2026-11-29T12:00"): 2}
        assert store.arrivals("") == {
            ("a", "2026-11-29T12:00"): 2,
            ("b", "2026-11-30T09:15"): 1,
        }
        assert store.arrivals("2027") == {}

    def test_an_entry_tells_the_whole_story(self, store):
        """Decision record, outcome, times, slots and which option was granted are kept."""
        store.reserve(ask("d#1", (501, 50), (100, 10), record='{"why": "λ"}'))
        held = store.find("d")[0]
        assert (held.attempt, held.decision, held.at) == ("d#1", "d", AT)
        assert held.row == Attempt("held", 100, 10, 0)
        assert (held.settled_at, held.outcome, held.chosen) == (None, None, 1)
        assert held.slots == (DAY, USER)
        store.settle(bill(at=AT + 5, record='{"tokens": 3}'))
        settled = store.find("d")[0]
        assert settled.row == Attempt("settled", 100, 10, 7)
        assert (settled.settled_at, settled.outcome) == (AT + 5, '{"tokens": 3}')
        assert settled.decided == '{"why": "λ"}'

    def test_a_released_attempt_has_no_settlement(self, store):
        """It stays in the ledger, without a time or record of settlement."""
        store.reserve(ask())
        store.release("d#1", AT + 5)
        (entry,) = store.find("d")
        assert (entry.row.state, entry.settled_at, entry.outcome) == ("released", None, None)

    def test_a_swept_attempt_says_why(self, store):
        """Its outcome is that the lease ran out."""
        store.reserve(ask())
        store.sweep(AT + DAYS)
        (entry,) = store.find("d")
        assert entry.settled_at == AT + DAYS
        assert "lease ran out" in entry.outcome

    def test_find_takes_the_start_of_an_id(self, store):
        """All attempts of the one decision, oldest first."""
        for name in ("abc#1", "abc#2", "xyz#1"):
            store.reserve(ask(name))
        assert [entry.attempt for entry in store.find("ab")] == ["abc#1", "abc#2"]
        assert store.find("nobody") == ()

    def test_find_refuses_to_guess(self, store):
        """Several decisions that start alike are an error that names them; a whole id is not."""
        for name in ("ab#1", "abc#1"):
            store.reserve(ask(name))
        with pytest.raises(StoreError, match="ambiguous: ab, abc"):
            store.find("a")
        assert [entry.attempt for entry in store.find("ab")] == ["ab#1"]

    def test_recent_is_newest_first(self, store):
        """No more than asked for."""
        for number in range(4):
            store.reserve(ask(f"d{number}#1", at=AT + number))
        assert [entry.attempt for entry in store.recent(2)] == ["d3#1", "d2#1"]
        assert store.recent(0) == ()

    # marks and the key of scopes

    def test_a_mark_is_new_once(self, store):
        """A slot's mark is new to the first who sets it; other slots and names have their own."""
        assert store.mark(DAY, "warn:0.8")
        assert not store.mark(DAY, "warn:0.8")
        assert store.mark(DAY, "warn:1")
        assert store.mark(USER, "warn:0.8")
        store.close()
        assert not store.mark(USER, "warn:0.8")

    def test_a_mark_is_new_to_one_of_many_threads(self, store):
        """Of eight threads that set it at once, one is told that it is new."""
        barrier, told = threading.Barrier(8), []

        def work():
            barrier.wait()
            told.append(store.mark(DAY, "warn:0.8"))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [False] * 7 + [True]

    def test_the_key_of_scopes_stays(self, store):
        """It has 32 bytes and is the same at every asking."""
        key = store.scope_key()
        assert len(key) == 32
        store.close()
        assert store.scope_key() == key

    def test_sums_of_scopes_that_are_one_of_many_go_after_35_days(self, store):
        """Of ended days, weeks and months; totals, runs and scopes of their own stay for ever."""
        periods = ["day:2026-11-29", "week:2026-W48", "week:2026-11-29", "month:2026-11", "total"]
        scopes = ["app|limit:a#1", "app|limit:a"]
        slots = [Slot(scope, period) for scope in scopes for period in [*periods, "once"]]
        store.reserve(ask("d#1", limits=[Limit(slot, None) for slot in slots]))
        store.settle(bill("d#1", slots=tuple(slots)))
        assert all(store.mark(slot, "warn:1") for slot in slots)
        store.sweep(AT + 40 * DAYS + 35 * DAYS)
        store.sweep(AT + 41 * DAYS + 35 * DAYS)
        assert sorted(store.history(scopes[0])) == ["once", "total"]
        assert len(store.history(scopes[1])) == 6
        assert [store.mark(slot, "warn:1") for slot in slots] == [True] * 4 + [False] * 8

    def test_a_clock_that_leaps_drops_nothing(self, store):
        """A year ahead for less than a day: no attempt, sum or mark goes, whoever sweeps then."""
        many = Slot("app|limit:a#1", "day:2026-11-29")
        store.reserve(ask(limits=[*TWO, Limit(many, 500)], arrival=Arrival("g", "b")))
        store.settle(bill(slots=(DAY, USER, many)))
        store.mark(many, "warn:1")
        for ahead in (0, 365, 365.9, 0, 365, 0.1):
            store.sweep(AT + int(ahead * DAYS))
            assert len(store.recent(9)) == 1
            assert store.arrivals("") == {("g", "b"): 1}
            assert store.snapshot([many]) == (Balance(settled=7, calls=1),)
            assert not store.mark(many, "warn:1")

    def test_sums_of_running_periods_stay(self, store):
        """Nothing of the last 35 days is dropped, nor of the week or month that began before."""
        slots = [
            Slot("app|limit:a#1", period)
            for period in ("day:2026-11-29", "week:2026-W48", "week:2026-11-23", "month:2026-11")
        ]
        store.reserve(ask("d#1", limits=[Limit(slot, None) for slot in slots]))
        store.sweep(AT + 35 * DAYS)
        assert len(store.history("app|limit:a#1")) == 4

    # the plan

    def test_a_plan_is_written_by_compare_and_set(self, store):
        """Whoever saw an older version does not overwrite a newer plan."""
        assert store.load_plan("app") == StoredPlan(None, 0)
        assert store.save_plan("app", "λ=1", expected_version=0)
        assert not store.save_plan("app", "λ=2", expected_version=0)
        assert store.load_plan("app") == StoredPlan("λ=1", 1)
        assert store.save_plan("app", "line\nline", expected_version=1)
        assert store.load_plan("app") == StoredPlan("line\nline", 2)

    def test_plans_of_different_keys_do_not_meet(self, store):
        """Each key has its own value and version."""
        store.save_plan("app", "a", expected_version=0)
        assert store.load_plan("shadow/app") == StoredPlan(None, 0)
        assert store.save_plan("shadow/app", "b", expected_version=0)
        assert store.load_plan("app") == StoredPlan("a", 1)

    def test_a_plan_may_be_large(self, store):
        """A plan with histograms of hundreds of groups is kept whole."""
        value = "x" * 200_000
        store.save_plan("app", value, expected_version=0)
        assert store.load_plan("app").value == value

    # life

    def test_a_closed_store_can_be_used_again(self, store):
        """Close releases; the next operation carries on with the same ledger."""
        store.reserve(ask())
        store.save_plan("app", "a", expected_version=0)
        store.close()
        store.close()
        assert store.settle(bill()).state == "settled"
        assert store.load_plan("app").version == 1
        store.close()

    def test_a_clock_that_goes_back_finds_its_sums(self, store, clock):
        """Records stay by period: yesterday's sums are there when it is yesterday again."""
        store.reserve(ask())
        clock.at = NOON + timedelta(days=1)
        store.reserve(ask("e#1", limits=[Limit(Slot("app", "day:2026-11-30"), 1000)]))
        clock.at = NOON
        assert store.reserve(ask("f#1")).balances[0].held == 200

    def test_threads_share_a_store(self, store):
        """Eight threads cross no limit and lose nothing."""
        limits = [Limit(DAY, 2200)]
        granted = []

        def work(thread):
            for number in range(25):
                name = f"t{thread}-{number}#1"
                if isinstance(store.reserve(ask(name, limits=limits)), Grant):
                    sums = store.snapshot([DAY])[0]
                    assert sums.settled + sums.held <= 2200
                    store.settle(bill(name, slots=(DAY,)))
                    granted.append(name)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == 200  # 200 · 7 + 8 · 100 fits
        assert store.snapshot([DAY])[0] == Balance(settled=1400, calls=200)
