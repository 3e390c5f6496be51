"""Generator functions under @route, sync and async: when they decide, what they see, how they end."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import types

import openai
import pytest
from http_support import BIG, MINI, NOON, attempts, cost, day, make_router, reply, write_config
from stream_support import booked, tokens, watched

from budgetroute import (
    BudgetExceeded,
    BudgetRouteError,
    last_decision,
    pin,
    record,
    route,
    run,
)
from budgetroute.calls import meters
from budgetroute.calls.streams import aprime, prime
from budgetroute.clock import ManualClock, WallClock
from budgetroute.stores import DiskStore, MemoryStore

WORDS = ["one ", "two ", "three ", "four "]


def refused_connection():
    error = openai.APIConnectionError(request=None)
    error.__cause__ = ConnectionRefusedError()
    return error


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more="[routes.ask]\ninput_tokens = 100\n")


@pytest.fixture
def bills(router):
    return watched(router)


@pytest.fixture(autouse=True)
def _quiet_loop(caplog):
    """No task may be destroyed while it is pending, nor any other trouble of a loop be logged."""
    yield
    assert [r.getMessage() for r in caplog.get_records("call") if r.name == "asyncio"] == []


@pytest.fixture(autouse=True)
def _pinned():
    with pin(model=MINI, max_tokens=256):
        yield


def chunk(text=None, *, finish=None, usage=None, given=40, made=9):
    """Return one of OpenAI's chunks as a dict; usage=True makes it the last."""
    if usage:
        return {"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": made}}
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


CHUNKS = [*map(chunk, WORDS), chunk(finish="stop"), chunk(usage=True)]
PAID = ("settled", 11_400_000, "reported")
"""40 tokens in at $0.15 and 9 out at $0.60 a million."""


def of_chunks(router):
    @route("ask", router=router)
    def ask(question, *, model=MINI, max_tokens=256):
        yield from CHUNKS

    return ask


def of_async_chunks(router):
    @route("ask", router=router)
    async def ask(question, *, model=MINI, max_tokens=256):
        for item in CHUNKS:
            await asyncio.sleep(0)
            yield item

    return ask


def of_words(router, **options):
    @route("ask", router=router, **options)
    def ask(question, *, model=MINI, max_tokens=256):
        yield from WORDS

    return ask


def read_of(router, words):
    """Return what is booked when these words were read and nothing was reported."""
    given = round(last_decision().input_tokens + 100)
    return "estimated", cost(router, MINI, given, tokens("".join(words))), "partial"


class TestDeciding:
    def test_nothing_before_the_first_step(self, router):
        """Like its body, the decision waits for the first step; a generator never begun is free."""
        before, generator = last_decision(), of_chunks(router)("why?")
        assert attempts(router) == []
        generator.close()
        del generator
        assert attempts(router) == []
        assert last_decision() is before

    def test_nothing_before_the_first_async_step(self, router):
        """The same for async generators."""

        async def main():
            await of_async_chunks(router)("why?").aclose()

        asyncio.run(main())
        assert attempts(router) == []

    def test_it_gets_the_action(self, router):
        """The chosen action arrives in the parameters, at the first step."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield model, max_tokens

        with pin(model=BIG):
            generator = ask("why?")
        with pin(model=BIG):
            assert next(generator) == (BIG, 256)

    def test_refused_by_the_budget(self, router):
        """A budget that is spent raises at the first step, before the body."""
        generator = of_chunks(router)("why?")
        with run(usd=0.0), pytest.raises(BudgetExceeded):
            next(generator)

    def test_a_wrong_call(self, router):
        """A call that does not fit the function is a TypeError and costs nothing."""
        with pytest.raises(TypeError, match="colour"):
            next(of_chunks(router)("why?", colour="red"))
        with pytest.raises(TypeError, match="question"):
            next(of_chunks(router)())
        assert {state for state, _ in attempts(router)} <= {"released"}

    def test_off(self, router, monkeypatch):
        """Turned off, generators run as they are."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")
        assert list(of_chunks(router)("why?")) == CHUNKS

        async def main():
            return [item async for item in of_async_chunks(router)("why?")]

        assert asyncio.run(main()) == CHUNKS
        assert attempts(router) == []


class TestItems:
    def test_the_same_objects(self, router, bills):
        """Every item of the user's generator comes out, the usage too: it was theirs to ask for."""
        got = list(of_chunks(router)("why?"))
        assert all(one is other for one, other in zip(got, CHUNKS, strict=True))
        assert booked(router, bills) == PAID

    def test_async(self, router, bills):
        """The same for async generators."""

        async def main():
            return [item async for item in of_async_chunks(router)("why?")]

        got = asyncio.run(main())
        assert all(one is other for one, other in zip(got, CHUNKS, strict=True))
        assert booked(router, bills) == PAID

    def test_send_throw_and_return(self, router):
        """send(), throw() and the return value pass both ways."""
        log = []

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            log.append((yield "a"))
            try:
                yield "b"
            except KeyError as err:
                log.append(err.args)
                yield "c"
            return "done"

        generator = ask("why?")
        assert (next(generator), generator.send(7), generator.throw(KeyError("k"))) == (
            "a",
            "b",
            "c",
        )
        with pytest.raises(StopIteration, match="done"):
            next(generator)
        assert log == [7, ("k",)]
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_asend_and_athrow(self, router):
        """asend() and athrow() reach the body of an async generator."""
        log = []

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            log.append((yield "a"))
            try:
                yield "b"
            except KeyError as err:
                log.append(err.args)
                yield "c"

        async def main():
            generator = ask("why?")
            read = [await anext(generator), await generator.asend(7)]
            read.append(await generator.athrow(KeyError("k")))
            return [*read, *[item async for item in generator]]

        assert asyncio.run(main()) == ["a", "b", "c"]
        assert log == [7, ("k",)]
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_in_a_chain(self, router, bills):
        """`yield from` over a routed generator works."""

        def outer():
            yield from of_chunks(router)("why?")

        assert list(outer()) == CHUNKS
        assert booked(router, bills) == PAID


class TestEndings:
    def test_text(self, router, bills, caplog):
        """Text without usage is counted, and a warning says how to report it."""
        assert list(of_words(router)("why?")) == WORDS
        assert booked(router, bills) == read_of(router, WORDS)
        assert "record(stream)" in caplog.text
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    @pytest.mark.parametrize("way", ["close", "del", "cycle", "throw"])
    def test_left_early(self, router, bills, way):
        """close(), dropping it, the cyclic collector and a thrown error count what was read."""
        generator = of_words(router)("why?")
        assert [next(generator), next(generator)] == WORDS[:2]
        if way == "close":
            generator.close()
        elif way == "throw":
            with pytest.raises(ZeroDivisionError):
                generator.throw(ZeroDivisionError())
        elif way == "cycle":
            cycle = [generator]
            cycle.append(cycle)
            del cycle
        del generator
        gc.collect()
        assert booked(router, bills) == read_of(router, WORDS[:2])

    @pytest.mark.parametrize("way", ["aclose", "break", "cycle", "athrow"])
    def test_left_early_async(self, router, bills, way):
        """The same for async generators, with the loop's own hooks for what is dropped."""

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            for word in WORDS:
                await asyncio.sleep(0)
                yield word

        async def main():
            generator = ask("why?")
            assert [await anext(generator), await anext(generator)] == WORDS[:2]
            if way == "aclose":
                await generator.aclose()
            elif way == "athrow":
                with pytest.raises(ZeroDivisionError):
                    await generator.athrow(ZeroDivisionError())
            elif way == "cycle":
                cycle = [generator]
                cycle.append(cycle)
                del cycle
            del generator
            gc.collect()
            await asyncio.sleep(0)
            return read_of(router, WORDS[:2])

        assert asyncio.run(main()) == booked(router, bills)

    def test_without_its_loop(self, router, bills):
        """An async generator that outlives its loop is counted when it is collected."""
        loop = asyncio.new_event_loop()
        generator = of_async_chunks(router)("why?")
        loop.run_until_complete(anext(generator))
        loop.close()
        assert [state for state, _ in attempts(router)] == ["held"]
        del generator
        gc.collect()
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_without_any_loop(self, router, bills):
        """An async generator that was driven by hand is counted when it is collected."""

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            yield "one "
            yield "two "

        generator = ask("why?")
        with pytest.raises(StopIteration, match="one "):
            anext(generator).send(None)
        expected = read_of(router, ["one "])
        del generator
        gc.collect()
        assert booked(router, bills) == expected

    def test_a_failure_in_the_body(self, router, bills):
        """An error of the body passes, and what was read before is counted."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield "one "
            raise ZeroDivisionError

        generator = ask("why?")
        next(generator)
        with pytest.raises(ZeroDivisionError):
            next(generator)
        assert booked(router, bills) == read_of(router, ["one "])
        assert list(generator) == []

    @pytest.mark.parametrize(
        ("error", "state"),
        [(refused_connection(), "released"), (ZeroDivisionError(), "estimated")],
    )
    def test_a_failure_before_the_first_item(self, router, error, state):
        """Before anything came, the error says whether it can have cost something."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            raise error
            yield

        with pytest.raises(type(error)):
            list(ask("why?"))
        assert [row for row, _ in attempts(router)] == [state]

    def test_nothing_yielded(self, router, bills):
        """A generator that yields nothing and reports nothing leaves the usage unknown."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield from ()

        assert list(ask("why?")) == []
        assert booked(router, bills)[2] == "estimated"

    @pytest.mark.parametrize(("text", "reported"), [(40, 3), (2, 200)])
    def test_a_count_in_passing(self, router, bills, text, reported):
        """Of a count that was reported on the way and the counted text, the larger is the output."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield chunk("word " * text) | {
                "usage": {"prompt_tokens": 70, "completion_tokens": reported}
            }
            yield "never read"

        generator = ask("why?")
        next(generator)
        generator.close()
        made = max(tokens("word " * text), reported)
        assert booked(router, bills) == ("estimated", cost(router, MINI, 70, made), "partial")

    def test_things_that_say_nothing(self, router, bills):
        """Items of the user's own without text or usage: the expected cost."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield object()
            yield 3
            yield b"bytes"

        list(ask("why?"))
        assert booked(router, bills)[2] == "estimated"

    def test_cancelled(self, router, bills):
        """A cancelled consumer ends the generator; the cancellation goes on."""

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            yield "one "
            await asyncio.Event().wait()

        async def main():
            async with asyncio.timeout(0.01):
                async for _ in ask("why?"):
                    pass

        with pytest.raises(TimeoutError):
            asyncio.run(main())
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_a_timeout_inside_the_body(self, router, bills):
        """asyncio.timeout inside the body works: each step runs in the consumer's task."""

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            try:
                async with asyncio.timeout(0.01):
                    yield "one "
                    await asyncio.Event().wait()
            except TimeoutError:
                yield "two "

        async def main():
            return [item async for item in ask("why?")], read_of(router, ["one ", "two "])

        read, expected = asyncio.run(main())
        assert read == ["one ", "two "]
        assert booked(router, bills) == expected

    def test_the_release_of_what_it_holds(self, router):
        """Closing runs the body's `finally`, in which record() still reaches the call."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            try:
                yield "one "
                yield "two "
            finally:
                record(reply(MINI))

        generator = ask("why?")
        next(generator)
        generator.close()
        assert attempts(router) == [("settled", cost(router, MINI, 10, 5))]


class TestRecord:
    def test_a_response(self, router, bills):
        """A recorded response counts, and the text that is yielded does not."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield from WORDS
            record(reply(MINI))

        assert list(ask("why?")) == WORDS
        assert booked(router, bills) == ("settled", cost(router, MINI, 10, 5), "reported")

    def test_chunks(self, router, bills):
        """A body that reports each chunk and yields its text is billed by the usage."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            for item in CHUNKS:
                assert record(item) is item
                if item["choices"]:
                    yield item["choices"][0]["delta"]["content"]

        assert list(ask("why?")) == [*WORDS, None]
        assert booked(router, bills) == PAID

    def test_chunks_left_early(self, router, bills):
        """Left early, the recorded chunks are counted, not the text a second time."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            for item in CHUNKS:
                record(item)
                yield item["choices"][0]["delta"]["content"]

        generator = ask("why?")
        read = [next(generator), next(generator)]
        generator.close()
        assert booked(router, bills) == read_of(router, read)

    def test_a_stream(self, router, bills):
        """record(stream) hands the stream's items on and is billed by its usage."""

        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            yield from record(iter(CHUNKS))

        assert list(ask("why?")) == CHUNKS
        assert booked(router, bills) == PAID

    def test_an_async_stream(self, router, bills):
        """The same with an async stream."""

        async def stream():
            for item in CHUNKS:
                yield item

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            async for item in record(stream()):
                yield item

        async def main():
            return [item async for item in ask("why?")]

        assert asyncio.run(main()) == CHUNKS
        assert booked(router, bills) == PAID

    def test_two_streams_need_two_calls(self, router, bills):
        """calls=2 with two recorded streams is billed for both; unrecorded it is unknown."""

        @route("ask", router=router, calls=2)
        def ask(question, *, model=MINI, max_tokens=256):
            for _ in range(2):
                yield from record(iter(CHUNKS))

        list(ask("why?"))
        assert booked(router, bills) == ("settled", 2 * PAID[1], "reported")

    def test_several_calls_without_record(self, router, bills, caplog):
        """calls=2 without record: what passes cannot be told apart, so the usage is unknown."""
        list(of_words(router, calls=2)("why?"))
        assert booked(router, bills)[2] == "estimated"
        assert "2 declared call(s)" in caplog.text

    def test_usage_of_items(self, router, bills):
        """usage= is asked for each item; what raises or says nothing is passed over."""

        @route("ask", router=router, usage=lambda item: item["mine"])
        def ask(question, *, model=MINI, max_tokens=256):
            yield "text"
            yield {"mine": None}
            yield {"mine": {"prompt_tokens": 40, "completion_tokens": 9}}

        list(ask("why?"))
        assert booked(router, bills) == PAID

    def test_outside(self, router):
        """After the last step, and between steps, record() is outside the call."""
        generator = of_words(router)("why?")
        next(generator)
        with pytest.raises(BudgetRouteError, match="outside a routed call"):
            record(reply(MINI))
        generator.close()


def seeing(router, name):
    """Return a routed generator that yields the route of the decision its body sees."""

    @route(name, router=router)
    def ask(question, *, model=MINI, max_tokens=256):
        while True:
            record(chunk("x"))
            yield last_decision().route

    return ask("why?")


class TestContext:
    def test_interleaved(self, router):
        """Two generators that take turns see their own flights; the caller sees the newest."""
        one, two = seeing(router, "one"), seeing(router, "two")
        assert [next(one), next(two)] == ["one", "two"]
        assert last_decision().route == "two"
        assert [next(one), next(two), next(one)] == ["one", "two", "one"]
        assert last_decision().route == "two"
        one.close()
        two.close()
        assert [state for state, _ in attempts(router)] == ["estimated", "estimated"]

    def test_a_call_inside_the_body(self, router):
        """A routed call inside the body is the latest decision there, and stays it."""

        @route("inner", router=router)
        def inner(question, *, model=MINI, max_tokens=256):
            return reply(MINI)

        @route("outer", router=router)
        def outer(question, *, model=MINI, max_tokens=256):
            yield last_decision().route
            inner("and this?")
            yield last_decision().route
            yield last_decision().route

        generator = outer("why?")
        assert next(generator) == "outer"
        assert [next(generator), last_decision().route] == ["inner", "inner"]
        assert [next(generator), last_decision().route] == ["inner", "inner"]
        generator.close()

    def test_interleaved_tasks(self, router):
        """Async generators in tasks of a TaskGroup see their own flights."""

        @route("ask", router=router)
        async def ask(name, *, model=MINI, max_tokens=256):
            for _ in range(3):
                await asyncio.sleep(0)
                mine = last_decision().id
                record(chunk("x"))
                await asyncio.sleep(0)
                assert last_decision().id == mine
                yield mine

        async def ids(name):
            return {item async for item in ask(name)}

        async def main():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ids(str(i))) for i in range(10)]
            return [task.result() for task in tasks]

        seen = asyncio.run(main())
        assert [len(one) for one in seen] == [1] * 10
        assert len(set.union(*seen)) == 10

    def test_handed_to_another_task(self, router, bills):
        """A generator begun in one task and finished in another is settled once."""

        async def rest(generator):
            return [item async for item in generator]

        async def main():
            generator = of_async_chunks(router)("why?")
            first = await anext(generator)
            return [first, *await asyncio.create_task(rest(generator))]

        assert asyncio.run(main()) == CHUNKS
        assert booked(router, bills) == PAID

    def test_handed_to_another_thread(self, router, bills):
        """A generator begun in one thread and finished in another is settled once."""
        generator, read = of_chunks(router)("why?"), []
        read.append(next(generator))
        thread = threading.Thread(target=lambda: read.extend(generator))
        thread.start()
        thread.join()
        assert read == CHUNKS
        assert booked(router, bills) == PAID

    def test_closed_in_another_context(self, router, bills):
        """A generator closed in another context, as by a collector, is settled."""
        generator = of_words(router)("why?")
        contextvars.copy_context().run(next, generator)
        contextvars.copy_context().run(generator.close)
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_to_thread(self, router, bills):
        """asyncio.to_thread over a sync generator works."""

        async def main():
            return await asyncio.to_thread(lambda: list(of_chunks(router)("why?")))

        assert asyncio.run(main()) == CHUNKS
        assert booked(router, bills) == PAID

    def test_no_task_is_made(self, router):
        """No step of an async generator runs in another task."""

        @route("ask", router=router)
        async def ask(question, *, model=MINI, max_tokens=256):
            yield asyncio.current_task()

        async def main():
            return [task async for task in ask("why?")] == [asyncio.current_task()]

        assert asyncio.run(main())


class Heartbeat:
    """An async iterator that survives the cancellation of a step, as one over a queue does."""

    def __init__(self):
        self.left = [*CHUNKS]
        self.stuck = True

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.stuck:
            self.stuck = False
            await asyncio.Event().wait()
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


class TestReturned:
    @staticmethod
    def returning(router, made):
        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            return made

        return ask("why?")

    def test_an_iterator(self, router, bills):
        """Any returned iterator is counted; its items are the same objects."""
        got = list(self.returning(router, iter(CHUNKS)))
        assert all(one is other for one, other in zip(got, CHUNKS, strict=True))
        assert booked(router, bills) == PAID

    def test_a_generator_that_records(self, router, bills):
        """A returned generator still runs inside the flight: record() reaches it."""

        def inner():
            yield "text"
            record(reply(MINI))

        stream = self.returning(router, inner())
        assert isinstance(stream, types.GeneratorType)
        assert list(stream) == ["text"]
        assert booked(router, bills) == ("settled", cost(router, MINI, 10, 5), "reported")

    def test_a_list_is_no_stream(self, router, bills):
        """A list is an answer like any other."""
        made = [1, 2]
        assert self.returning(router, made) is made
        assert booked(router, bills)[2] == "estimated"

    def test_a_step_that_is_cancelled_and_tried_again(self, router, bills):
        """A stream that goes on after a cancelled step is booked as estimated, then corrected."""

        async def main():
            stream = self.returning(router, Heartbeat())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), timeout=0.01)
            state = attempts(router)
            return state, [item async for item in stream]

        state, read = asyncio.run(main())
        assert [row for row, _ in state] == ["estimated"]
        assert read == CHUNKS
        assert attempts(router) == [PAID[:2]]
        assert (day(router).settled, day(router).held) == (PAID[1], 0)
        assert [s.source for s in bills.seen] == ["estimated", "reported"]


class TestHidden:
    """A function that declares stream_options: the usage that only we asked for stays hidden."""

    @staticmethod
    def asked(router, made):
        @route("ask", router=router)
        def ask(question, *, model=MINI, max_tokens=256, stream=True, stream_options=None):
            assert stream_options == {"include_usage": True}
            return made

        return ask("why?")

    def test_send(self, router, bills):
        """send() skips it as well."""

        def echo():
            got = yield chunk("a")
            yield chunk(usage=True)
            yield chunk(got)

        stream = self.asked(router, echo())
        assert next(stream) == chunk("a")
        assert stream.send("b") == chunk("b")
        assert list(stream) == []
        assert booked(router, bills) == PAID

    def test_asend(self, router, bills):
        """So does asend()."""

        async def echo():
            got = yield chunk("a")
            yield chunk(usage=True)
            yield chunk(got)

        async def main():
            stream = self.asked(router, echo())
            read = [await anext(stream), await stream.asend("b")]
            return [*read, *[item async for item in stream]]

        assert asyncio.run(main()) == [chunk("a"), chunk("b")]
        assert booked(router, bills) == PAID

    def test_nothing_at_all(self, router, bills):
        """A stream without items that is primed comes back empty."""
        stream = self.asked(router, iter(()))
        prime(stream)
        assert list(stream) == []
        assert booked(router, bills)[2] == "estimated"

    def test_nothing_at_all_async(self, router, bills):
        """The same with an async stream."""

        async def nothing():
            return
            yield

        async def main():
            stream = self.asked(router, nothing())
            await aprime(stream)
            return [item async for item in stream]

        assert asyncio.run(main()) == []
        assert booked(router, bills)[2] == "estimated"

    def test_an_error_met_ahead(self, router, bills):
        """An error that is met while the usage is fetched comes after the last chunk."""

        def broken():
            yield chunk("a")
            yield chunk(finish="stop")
            raise ZeroDivisionError

        stream = self.asked(router, broken())
        assert [next(stream), next(stream)] == [chunk("a"), chunk(finish="stop")]
        with pytest.raises(ZeroDivisionError):
            next(stream)
        assert list(stream) == []
        assert booked(router, bills)[::2] == ("estimated", "partial")

    def test_what_follows_the_finish(self, router, bills):
        """What comes between the finish reason and the usage is handed out in its order."""
        said = [chunk("a"), chunk(finish="stop"), chunk("late"), chunk(usage=True), chunk("later")]
        assert list(self.asked(router, iter(said))) == [*said[:3], said[4]]
        assert booked(router, bills) == PAID


class Watching(MemoryStore):
    """A store in the middle of whose work a garbage collection takes place."""

    collect = False

    def settle(self, bill):
        with self._lock:
            if self.collect:
                self.collect = False
                gc.collect()
        return super().settle(bill)


@pytest.mark.parametrize("lands", ["the next call", "the end of the process"])
def test_collected_inside_our_own_lock(tmp_path, lands, request):
    """A stream that is collected while the ledger is locked lands a little later, without deadlock."""
    gc.disable()  # it is collected where the store says, not before
    request.addfinalizer(gc.enable)
    store = Watching(ManualClock(NOON))
    router = make_router(tmp_path, store)
    bills = watched(router)
    generator = of_words(router)("why?")
    next(generator)
    lost = [generator]
    lost.append(lost)
    del generator, lost
    store.collect = True
    list(of_chunks(router)("why?"))
    assert sorted(state for state, _ in attempts(router)) == ["held", "settled"]
    if lands == "the next call":
        with run(usd=0.0), pytest.raises(BudgetExceeded):
            next(of_chunks(router)("why?"))
    else:
        meters.land_waiting()  # what atexit runs
    assert sorted(state for state, _ in attempts(router)) == ["estimated", "settled"]
    assert len(bills.seen) == 2


LEAVING = """
import sys
from budgetroute import route
from budgetroute.router import Router

router = Router.from_config(sys.argv[1])

@route(router=router)
def ask(question, *, model="gpt-4o-mini", max_tokens=256):
    yield "one "
    yield "two "

left = ask("why?")
next(left)
"""


def test_left_open_by_a_process(tmp_path):
    """A stream that is open when the process ends is counted before it does."""
    config = write_config(tmp_path)
    text = config.read_text().replace('url = "memory:"', f'path = "{tmp_path / "ledger"}"')
    config.write_text(text)
    subprocess.run([sys.executable, "-c", LEAVING, str(config)], check=True, timeout=60)
    store = DiskStore(tmp_path / "ledger", WallClock())
    (entry,) = store.recent(9)
    store.close()
    assert entry.row.state == "estimated"
    assert '"source":"partial"' in entry.outcome
