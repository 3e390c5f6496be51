"""From a held call to exactly one settlement: usage, records, exceptions, and what breaks afterwards."""

import asyncio
import contextvars
import logging
import shutil
import sqlite3

import pytest
from http_support import BIG, MINI, NOON, attempts, cost, day, make_router, reply

from budgetroute import BudgetRouteError, last_decision, record, route
from budgetroute.calls.flight import Flight
from budgetroute.calls.partial import Tally
from budgetroute.clock import ManualClock
from budgetroute.errors import StoreError
from budgetroute.records import Action, InputSize, Request, Usage
from budgetroute.stores import DiskStore, MemoryStore


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


def returning(router, result, **options):
    """Return a routed function that is pinned to MINI and returns `result`."""

    def ask(question, *, model=MINI, max_tokens=256):
        return result

    return lambda: route(router=router, **options)(ask)("why?", model=MINI, max_tokens=256)


def is_estimated(router):
    """Say whether one call was booked at its expected cost with the rest of its worst case held."""
    chosen, sums = last_decision().chosen, day(router)
    expected = round(chosen.cost * 1e12)
    booked = (sums.settled, sums.held, sums.estimated, sums.calls)
    return booked == (expected, chosen.worst - expected, 1, 1)


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "paid"),
        [
            ({"prompt_tokens": 100, "completion_tokens": 50}, (100, 50, 0)),
            (
                {
                    "prompt_tokens": 100,
                    "completion_tokens": 50,
                    "prompt_tokens_details": {"cached_tokens": 80},
                    "completion_tokens_details": {"reasoning_tokens": 20},
                    "novel": {"field": [1]},
                },
                (100, 50, 80),
            ),
            ({"input_tokens": 100, "output_tokens": 50}, (100, 50, 0)),
            ({"prompt_tokens": 0, "completion_tokens": 0}, (0, 0, 0)),
        ],
    )
    def test_reported(self, router, usage, paid):
        """What is reported is billed: cached reads apart, reasoning inside output, 0 as 0."""
        returning(router, {"model": MINI, "usage": usage})()
        given, made, cached = paid
        assert attempts(router) == [("settled", cost(router, MINI, given, made, cached=cached))]
        assert day(router).held == 0

    @pytest.mark.parametrize("result", [None, "an answer", {}, {"usage": {}}, {"model": MINI}, 3])
    def test_missing(self, router, result, caplog):
        """Without usage the expected cost is booked, the rest stays held, and a warning says so."""
        assert returning(router, result)() == result
        assert is_estimated(router)
        assert "record(response)" in caplog.text

    def test_impossible(self, router):
        """Counts that cannot be are unknown, not billed."""
        returning(router, reply(MINI, given=-1))()
        assert is_estimated(router)

    @pytest.mark.parametrize(
        ("asked", "answered", "billed_as", "warned"),
        [
            (MINI, BIG, BIG, True),
            (BIG, MINI, BIG, True),
            (MINI, "nobody-knows", MINI, True),
            (MINI, f"{MINI}-2024-07-18", MINI, False),
        ],
    )
    def test_another_model_in_the_response(
        self, router, asked, answered, billed_as, warned, caplog
    ):
        """Another model's price counts where it is known and higher; a snapshot is the same model."""

        def ask(question, *, model=MINI, max_tokens=256):
            return reply(answered, given=100, made=50)

        route(router=router)(ask)("why?", model=asked)
        assert attempts(router) == [("settled", cost(router, billed_as, 100, 50))]
        assert ("another model answered" in caplog.text) == warned

    def test_a_callable_reads_it(self, router):
        """usage= finds the usage in a result of the user's own shape."""
        seen = ("text", {"in": 7, "out": 3})
        returning(router, seen, usage=lambda r: Usage(r[1]["in"], r[1]["out"]))()
        assert attempts(router) == [("settled", cost(router, MINI, 7, 3))]

    @pytest.mark.parametrize("usage", [lambda r: None, lambda r: r["missing"], lambda r: 1 / 0])
    def test_a_callable_that_fails(self, router, usage):
        """A usage= that finds nothing, or breaks, leaves the usage unknown and the answer whole."""
        assert returning(router, {"text": "hi"}, usage=usage)() == {"text": "hi"}
        assert is_estimated(router)


class TestRecord:
    def body(self, router, *responses, result="text", calls=1, name=None, **options):
        @route(name, router=router, calls=calls, **options)
        def ask(question, *, model=MINI, max_tokens=256):
            for response in responses:
                record(response)
            if isinstance(result, BaseException):
                raise result
            return result

        return lambda: ask("why?", model=MINI, max_tokens=256)

    def test_a_string_with_record(self, router):
        """A function that returns text reports its response and is billed by it."""
        assert self.body(router, reply(MINI))() == "text"
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]

    def test_what_is_recorded_counts_alone(self, router):
        """A recorded response that is also returned is billed once."""
        self.body(router, reply(MINI), result=reply(MINI))()
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]

    def test_a_recorded_response_needs_no_usage_option(self, router):
        """usage= reads results; record takes a provider's response as it is."""
        self.body(router, reply(MINI), usage=lambda r: r["own"])()
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]

    def test_a_recorded_response_without_usage(self, router):
        """One response that says nothing makes the whole call unknown."""
        self.body(router, reply(MINI), {"model": MINI})()
        assert is_estimated(router)

    def test_two_calls_two_records(self, router):
        """calls=2 holds twice the worst case and bills both responses."""
        self.body(router, reply(MINI), name="one")()
        one = last_decision().chosen.worst
        self.body(router, reply(MINI), reply(MINI, given=90), calls=2)()
        assert attempts(router)[1] == ("settled", cost(router, MINI, 100, 10))
        assert last_decision().chosen.worst == 2 * one

    def test_two_calls_one_record(self, router):
        """A body that needed only one of its declared calls pays for one."""
        self.body(router, reply(MINI), calls=2)()
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]

    def test_two_calls_no_record(self, router, caplog):
        """Of two declared calls the result shows one at most: unknown, and a warning says so."""
        self.body(router, result=reply(MINI), calls=2)()
        assert is_estimated(router)
        assert "2 declared call(s)" in caplog.text

    def test_more_than_was_held(self, router):
        """A response dearer than the worst case is billed whole."""
        self.body(router, reply(MINI, given=10**6))()
        assert attempts(router) == [("settled", cost(router, MINI, 10**6, 5))]
        assert attempts(router)[0][1] > last_decision().chosen.worst

    def test_outside_a_call(self):
        """record outside a routed call is an error that says where it belongs."""
        with pytest.raises(BudgetRouteError, match="outside a routed call"):
            record(reply(MINI))

    def test_a_failure_after_record(self, router):
        """A body that fails with its usage recorded pays what it used."""
        with pytest.raises(ZeroDivisionError):
            self.body(router, reply(MINI), result=ZeroDivisionError())()
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]

    def test_a_failure_between_two_calls(self, router):
        """With one of two calls recorded, an unknown failure may hide the other: estimated."""
        with pytest.raises(ZeroDivisionError):
            self.body(router, reply(MINI), result=ZeroDivisionError(), calls=2)()
        assert is_estimated(router)

    @pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt(), SystemExit()])
    def test_a_failure_before_record(self, router, error):
        """An exception that says nothing of the call leaves its usage unknown; it is not replaced."""
        with pytest.raises(type(error)) as caught:
            self.body(router, result=error)()
        assert caught.value is error
        assert is_estimated(router)


class TestNesting:
    def test_a_routed_call_inside_another(self, router):
        """Each call bills its own usage; record belongs to the innermost one running."""

        @route("inner", router=router)
        def inner(question, *, model=MINI, max_tokens=256):
            record(reply(MINI, given=1000))
            return "inner"

        @route("outer", router=router)
        def outer(question, *, model=MINI, max_tokens=256):
            inner(question, model=MINI)
            assert last_decision().route == "inner"
            record(reply(MINI, given=2000))
            return "outer"

        outer("why?", model=MINI)
        paid = [("settled", cost(router, MINI, given, 5)) for given in (2000, 1000)]
        assert attempts(router) == paid
        with pytest.raises(BudgetRouteError):
            record(reply(MINI))

    def test_an_inner_failure_that_is_caught(self, router):
        """A body that survives its inner call's failure is billed by its own response."""

        @route("inner", router=router)
        def inner(question, *, model=MINI, max_tokens=256):
            raise ZeroDivisionError

        @route("outer", router=router)
        def outer(question, *, model=MINI, max_tokens=256):
            with pytest.raises(ZeroDivisionError):
                inner(question)
            return reply(MINI)

        outer("why?", model=MINI)
        assert [state for state, _ in attempts(router)] == ["settled", "estimated"]


class Waiting:
    """Something to await that never comes, without an event loop."""

    def __await__(self):
        yield


class TestCancelled:
    @staticmethod
    def slow(router, started):
        @route(router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            started.set()
            await asyncio.Event().wait()

        return ask

    def test_wait_for(self, router):
        """A call cut off by wait_for may have been billed: unknown usage."""

        async def main():
            ask = self.slow(router, asyncio.Event())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ask("why?"), timeout=0.01)
            return last_decision()

        asyncio.run(main())
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).held > 0

    def test_task_cancel(self, router):
        """A cancelled task stays cancelled, and its call counts as unknown."""

        async def main():
            started = asyncio.Event()
            task = asyncio.create_task(self.slow(router, started)("why?"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_cancelled_before_it_began(self, router):
        """A task cancelled before its first step holds nothing."""

        async def main():
            task = asyncio.create_task(self.slow(router, asyncio.Event())("why?"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert attempts(router) == []

    def test_closed_from_elsewhere(self, router):
        """A coroutine closed in another context, as a garbage collector does, is settled too."""

        @route(router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            await Waiting()

        coroutine = ask("why?")
        contextvars.copy_context().run(coroutine.send, None)
        contextvars.copy_context().run(coroutine.close)
        assert [state for state, _ in attempts(router)] == ["estimated"]


class Breaking(MemoryStore):
    """A store whose settlements and releases fail with a given error."""

    error: Exception

    def settle(self, bill):
        raise self.error

    def release(self, attempt, at):
        raise self.error


@pytest.mark.parametrize(
    "error",
    [StoreError("gone"), sqlite3.OperationalError("disk I/O error"), OSError(28, "full")],
    ids=lambda e: type(e).__name__,
)
class TestBrokenStore:
    @pytest.fixture
    def router(self, tmp_path, error):
        store = Breaking(ManualClock(NOON))
        store.error = error
        return make_router(tmp_path, store)

    def test_the_answer_is_not_lost(self, router, caplog):
        """A settlement that fails is logged, its hold stays, and the answer comes back."""
        assert returning(router, reply(MINI))() == reply(MINI)
        assert [state for state, _ in attempts(router)] == ["held"]
        assert "hold stays" in caplog.text

    def test_the_error_is_not_replaced(self, router):
        """A call that fails while the store does shows its own error, refused or unknown."""

        @route(router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            raise error

        for error in (ZeroDivisionError(), ConnectionRefusedError()):
            with pytest.raises(type(error)):
                ask("why?")


def test_a_store_that_vanishes_during_the_call(tmp_path, caplog):
    """A ledger whose folder turns into a file while the call runs does not cost the answer."""
    folder = tmp_path / "ledger"
    store = DiskStore(folder, ManualClock(NOON))
    router = make_router(tmp_path, store)

    @route(router=router)
    def ask(question, *, model=MINI, max_tokens=256):
        record(reply(model))
        store.close()
        shutil.rmtree(folder)
        folder.write_text("not a folder")
        return "the answer"

    with caplog.at_level(logging.WARNING, "budgetroute"):
        assert ask("why?") == "the answer"
    assert "settlement" in caplog.text


def test_a_stream_that_went_on_gives_nothing_back(router):
    """What was sent before it went on may be billed, however free the later failure is."""
    request = Request(
        "ask", "why?", InputSize(5, 20), baseline=Action(MINI, 256), sendable=frozenset({"model"})
    )
    flight = Flight(router, request, unsent=(ConnectionRefusedError,))
    flight.land(Tally(1), TimeoutError())
    booked = day(router)
    assert booked.estimated == 1
    flight.go_on()
    flight.land(Tally(1), ConnectionRefusedError())
    assert day(router) == booked
