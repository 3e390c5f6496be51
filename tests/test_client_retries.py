"""Retries of completion and acompletion: one owner, one reservation per attempt, a total deadline.

What is asked when a model has failed is in `test_client_again`.
"""

import asyncio
from types import SimpleNamespace

import openai
import pytest
from http_support import BIG, HELLO, MINI, attempts, billed, cost, day, litellm_at_work, make_router

from budgetroute import BudgetExceeded, acompletion, completion, pin, run
from budgetroute.calls.attempts import Attempts
from budgetroute.records import InputSize, Request
from budgetroute.testing import ScriptedServer, cut, ok, slow, status

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'


@pytest.fixture(scope="module")
def loop():
    with litellm_at_work() as (_, loop):
        yield loop


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more=OPENAI_ONLY)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 0.0)


@pytest.fixture(params=["sync", "async"])
def call(request, loop, server, router):
    """Call completion or acompletion against the local server."""

    def call(messages=HELLO, **passed):
        settings = {"api_base": server.base_url, "api_key": "none", "router": router}
        if request.param == "sync":
            return completion(messages, **(settings | passed))
        return loop.run_until_complete(acompletion(messages, **(settings | passed)))

    return call


@pytest.fixture
def naps(monkeypatch):
    """The seconds that the sync client would have slept."""
    slept = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=slept.append))
    return slept


class TestCounts:
    @pytest.mark.parametrize("code", [408, 409, 429, 500, 503])
    @pytest.mark.parametrize("tries", [1, 3, 4])
    def test_exactly_so_many_requests(self, call, router, server, code, tries):
        """A failure that may pass is tried so many times and no more, each with its own hold."""
        server.then(*[status(code)] * 9)
        with pytest.raises(openai.APIError):
            call(attempts=tries)
        assert len(server.requests) == tries
        state = "estimated" if code == 408 else "released"
        assert [s for s, _ in attempts(router)] == [state] * tries

    @pytest.mark.parametrize("asked_for", [{}, {"num_retries": 5}, {"max_retries": 5}])
    def test_litellm_does_not_multiply(self, call, server, asked_for):
        """Three attempts are three requests, whatever litellm or the SDK are asked for."""
        server.then(*[status(500)] * 20)
        with pytest.raises(openai.APIError):
            call(**asked_for)
        assert len(server.requests) == 3

    @pytest.mark.parametrize("code", [400, 401, 402, 422])
    def test_what_will_not_pass_is_tried_once(self, call, router, server, code):
        """A request that is wrong stays wrong: one attempt, released."""
        server.then(status(code))
        with pytest.raises(openai.APIError):
            call()
        assert len(server.requests) == 1
        assert attempts(router) == [("released", 0)]

    def test_the_answer_ends_it(self, call, router, server):
        """After two refusals the third attempt answers: its bill is all that is spent."""
        server.then(status(429), status(500), ok())
        assert call().choices[0].message.content == "ok"
        assert [s for s, _ in attempts(router)] == ["released", "released", "settled"]
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)

    def test_every_attempt_is_the_same_action(self, call, router, server):
        """All attempts of a model belong to one decision and send what was decided."""
        server.then(status(429), cut(), ok())
        with pin(model=MINI):
            call()
        assert server.requests[0] == server.requests[1] == server.requests[2]
        entries = router.store.recent(9)
        assert len({entry.decision for entry in entries}) == 1
        assert sorted(e.attempt.partition("#")[2] for e in entries) == ["1", "2", "3"]

    def test_attempts_that_may_be_billed(self, call, router, server):
        """Broken connections are tried again; each stays on the books, so holds cover the bills."""
        server.then(cut(), cut(at=0.0), ok())
        call()
        assert [s for s, _ in attempts(router)] == ["estimated", "estimated", "settled"]
        assert day(router).settled + day(router).held >= billed(router, server)

    def test_nobody_listens(self, call, router, server):
        """A refused connection is tried again and costs nothing."""
        with pytest.raises(openai.APIError):
            call(api_base="http://127.0.0.1:9/v1")
        assert attempts(router) == [("released", 0)] * 3


class TestBudget:
    def test_a_refusal_of_ours_is_final(self, call, server):
        """BudgetExceeded before the call is not tried again."""
        with run(usd=0.0), pytest.raises(BudgetExceeded):
            call()
        assert server.requests == []

    def test_an_attempt_that_does_not_fit(self, call, router, server):
        """Where the next attempt does not fit beside what is still held, BudgetExceeded ends it."""
        server.then(ok(), cut(), ok())
        with pin(model=BIG, max_tokens=256, cot=False):
            call()
            worst = router.store.recent(1)[0].row.worst
            with run(usd=worst * 1.5 / 1e12), pytest.raises(BudgetExceeded) as caught:
                call()
        assert caught.value.scope.startswith("run:")
        assert len(server.requests) == 2
        assert [s for s, _ in attempts(router)] == ["settled", "estimated"]

    def test_holds_are_never_both_there(self, call, router, server):
        """A released attempt makes room for the next: one worst case suffices for any number."""
        with pin(model=BIG, max_tokens=256, cot=False):
            call()
            worst = router.store.recent(1)[0].row.worst
            server.then(status(429), status(429), ok())
            with run(usd=worst * 1.01 / 1e12):
                call()
        assert [s for s, _ in attempts(router)] == ["settled", "released", "released", "settled"]


class TestWaiting:
    def test_what_the_provider_asks(self, router, server, naps):
        """Retry-After is honoured to the second, and to the millisecond where that is sent."""
        server.then(status(429, retry_after=7), status(503, retry_after_ms="250"), ok())
        with pin(model=MINI):
            completion(HELLO, router=router, api_base=server.base_url, api_key="none")
        assert naps == [7.0, 0.25]

    def test_a_growing_back_off(self, router, server, naps, monkeypatch):
        """Without a word from the provider the wait doubles, jittered down by half at most."""
        monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 0.5)
        server.then(*[status(500)] * 7, ok())
        settings = {"api_base": server.base_url, "api_key": "none", "attempts": 8}
        with pin(model=MINI):
            completion(HELLO, router=router, **settings)
        for nap, top in zip(naps, (1, 2, 4, 8, 8, 8, 8), strict=True):
            assert top / 2 <= nap <= top

    def test_a_wait_beyond_the_deadline(self, call, server):
        """A wait that would outlast the deadline is not begun: the error comes at once."""
        server.then(status(429, retry_after=3600), ok())
        with pin(model=MINI), pytest.raises(openai.RateLimitError):
            call(timeout=30)
        assert len(server.requests) == 1

    def test_the_deadline_covers_all_attempts(self, call, router, server):
        """A hung attempt eats the whole deadline: there is no second one."""
        server.then(slow(5.0), ok())
        with pytest.raises(openai.APITimeoutError):
            call(timeout=0.3)
        assert len(server.requests) == 1
        assert [s for s, _ in attempts(router)] == ["estimated"]

    def test_the_routes_deadline(self, call, server, tmp_path):
        """Without timeout= the route's timeout_s holds."""
        router = make_router(tmp_path, more=f"{OPENAI_ONLY}timeout_s = 0.3\n")
        server.then(slow(5.0), ok())
        with pytest.raises(openai.APITimeoutError):
            call(router=router)
        assert len(server.requests) == 1

    def test_cancelled_while_waiting(self, loop, router, server, monkeypatch):
        """A call cancelled between two attempts holds nothing and sends nothing more."""
        monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 30.0)
        server.then(status(429), ok())

        async def main():
            call = acompletion(HELLO, router=router, api_base=server.base_url, api_key="none")
            await asyncio.wait_for(call, timeout=0.3)

        with pytest.raises(TimeoutError):
            loop.run_until_complete(main())
        assert len(server.requests) == 1
        assert attempts(router) == [("released", 0)]
        assert day(router).held == 0


def test_many_at_once(loop, router, server):
    """Fifty concurrent calls with failures in between: the ledger is exactly what was billed."""
    server.then(*[status(429), ok(), status(500), ok(input_tokens=99)] * 10)

    async def main():
        calls = (
            acompletion(HELLO, router=router, api_base=server.base_url, api_key="none", attempts=9)
            for _ in range(50)
        )
        return await asyncio.gather(*calls)

    with pin(model=MINI, cot=False):
        answers = loop.run_until_complete(main())
    assert len(answers) == 50
    assert len(server.requests) == 70
    assert (day(router).settled, day(router).held) == (billed(router, server), 0)
    assert day(router).settled == 40 * cost(router, MINI, 12, 5) + 10 * cost(router, MINI, 99, 5)


def test_the_last_error_is_raised_as_it_is(call, server):
    """Callers catch litellm's own errors, not a wrapper round them."""
    server.then(status(500, "first"), status(500, "second"), status(429, "third"))
    with pytest.raises(openai.RateLimitError, match="third"):
        call()


def test_the_wait_that_was_judged_is_the_wait_that_is_taken(router, monkeypatch):
    """One draw of jitter serves a whole call: an attempt is never held for past its deadline."""
    monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 0.5)
    request = Request("completion", "Hi", InputSize(1, 2))
    with pin(model=MINI), Attempts(router, request, most=3, deadline=5.0) as attempts:
        waits = {attempts._wait(ValueError()) for _ in range(20)}
    assert len(waits) == 1
