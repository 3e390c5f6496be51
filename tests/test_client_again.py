"""When a model has failed, completion and acompletion decide again without it, inside the budget.

The real litellm against a local server: what is on the wire, what is booked, and what is raised.
"""

import io
from types import SimpleNamespace

import openai
import pytest
from http_support import (
    BIG,
    DEAR,
    HELLO,
    MINI,
    NOON,
    REASONER,
    attempts,
    billed,
    day,
    litellm_at_work,
    make_router,
)
from rich.console import Console

from budgetroute import BudgetExceeded, acompletion, completion, last_decision, pin, run
from budgetroute.calls.attempts import Attempts
from budgetroute.cli.explain import shown
from budgetroute.cli.history import story
from budgetroute.errors import StoreError
from budgetroute.records import InputSize, Request
from budgetroute.testing import ScriptedServer, cut, ok, slow, status

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'
BEST_FIRST = [REASONER, BIG, MINI]
"""The models of the small profile that OpenAI serves, in the order in which they are chosen at λ = 0."""
PRICE = "price = { input = 1.0, output = 2.0 }"
TWO_PROVIDERS = f"""
[models."openai/first"]
provider = "one"
like = "{BIG}"
{PRICE}
[models."openai/twin"]
provider = "one"
like = "{BIG}"
{PRICE}
[models."openai/other"]
provider = "two"
like = "{MINI}"
{PRICE}
"""
"""Chosen in this order; one address serves all."""
UNKNOWN = status(404, "The model `x` does not exist", reason="model_not_found")
TOO_LONG = status(
    400, "This model's maximum context length is 9 tokens", reason="context_length_exceeded"
)


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
def naps(monkeypatch):
    """The seconds that the sync client would have slept."""
    slept = []
    monkeypatch.setattr("budgetroute.calls.attempts.BACKOFF_S", 0.0)
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.fixture(params=["sync", "async"])
def call(request, loop, server, router):
    """Call completion or acompletion against the local server; remember the last decision."""

    def call(**passed):
        settings = {"api_base": server.base_url, "api_key": "none", "router": router} | passed
        if request.param == "sync":
            return completion(HELLO, **settings)

        async def main():
            try:
                return await acompletion(HELLO, **settings)
            finally:
                call.decision = last_decision()

        return loop.run_until_complete(main())

    call.decision = None
    return call


def decided(call):
    """Return the last decision of the only call: a task's own context keeps it."""
    return call.decision or last_decision()


def models(server):
    """Return the models that were asked, in order."""
    return [body["model"] for body in server.requests]


def decisions(router):
    """Return the ids of the decisions in the ledger, oldest first."""
    return list(dict.fromkeys(entry.decision for entry in reversed(router.store.recent(99))))


class TestAnotherModel:
    @pytest.mark.parametrize("failure", [status(503), status(529), status(429), cut(), status(504)])
    def test_after_two_tries(self, call, router, server, failure):
        """A failure that may pass is tried twice, then the best of the other models is asked."""
        server.then(failure, failure, ok("hi"))
        assert call().choices[0].message.content == "hi"
        assert models(server) == [REASONER, REASONER, BIG]
        assert decided(call).model == BIG
        assert day(router).settled + day(router).held >= billed(router, server)

    @pytest.mark.parametrize(
        "failure",
        [
            UNKNOWN,
            status(404),
            status(410),
            status(413),
            status(403),
            status(400, "Unsupported parameter: 'x'", reason="unsupported_parameter"),
        ],
        ids=["unknown", "404", "410", "413", "403", "unsupported"],
    )
    def test_at_once(self, call, router, server, failure):
        """What will not pass for this model, but may for another, is tried once."""
        server.then(failure, ok())
        call()
        assert models(server) == [REASONER, BIG]
        assert [state for state, _ in attempts(router)] == ["released", "settled"]
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)

    @pytest.mark.parametrize(
        "failure",
        [status(400), status(422), status(400, "no", reason="content_policy_violation")],
        ids=["400", "422", "content"],
    )
    def test_the_callers_own(self, call, server, failure):
        """A bad request, and content that was refused, are the caller's: raised, nobody else asked."""
        server.then(failure)
        with pytest.raises(openai.APIError):
            call()
        assert models(server) == [REASONER]

    def test_a_smaller_context_is_not_asked(self, call, server, tmp_path):
        """A prompt that is too long for a model is not sent to one that is known to take no more."""
        names = f'[models."{BIG}"]\n[models."{MINI}"]\n[models."gpt-4.1-mini"]\nlike = "{MINI}"\n'
        server.then(TOO_LONG, ok())
        call(router=make_router(tmp_path, more=OPENAI_ONLY + names))
        assert models(server) == [BIG, "gpt-4.1-mini"]

    def test_a_failed_model_is_not_asked_again(self, call, router, server):
        """Tries of a model are used up once: the cycle does not start over, whatever is left."""
        server.then(*[status(503)] * 20)
        with pytest.raises(openai.APIError):
            call(attempts=6)
        assert models(server) == [REASONER, REASONER, BIG, BIG, MINI, MINI]
        assert day(router).held == 0

    @pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 9])
    def test_a_total_bound(self, call, server, most):
        """attempts= bounds the requests of the whole call; the last one left goes to another model."""
        server.then(*[status(503)] * 20)
        with pytest.raises(openai.APIError):
            call(attempts=most)
        assert len(server.requests) == most
        assert len(set(models(server))) == {1: 1, 2: 2, 3: 2, 4: 2, 5: 3, 9: 3}[most]

    def test_one_error_each(self, call, server):
        """Nothing is left after every model is unknown: the last provider's error is raised."""
        server.then(*[status(404, f"no {i}") for i in range(9)])
        with pytest.raises(openai.NotFoundError) as caught:
            call(attempts=9)
        assert models(server) == BEST_FIRST
        assert caught.value.__notes__ == [
            f"budgetroute asked other models before. {REASONER}: HTTP 404; {BIG}: HTTP 404"
        ]

    def test_the_only_model_is_tried_on(self, call, server, tmp_path):
        """Where nothing else is left, a failure that may pass is tried to the end."""
        router = make_router(tmp_path, more=f'{OPENAI_ONLY}allow = ["{MINI}"]\n')
        server.then(status(503), status(503), status(503), ok())
        call(router=router, attempts=4)
        assert models(server) == [MINI] * 4

    def test_a_pin_is_not_replaced(self, call, server):
        """A pinned model is asked and nothing else, whether the failure may pass or not."""
        server.then(status(503), status(503), status(503), UNKNOWN)
        with pin(model=MINI):
            with pytest.raises(openai.APIError):
                call()
            with pytest.raises(openai.NotFoundError):
                call()
        assert models(server) == [MINI] * 4

    def test_other_pins_hold(self, call, server):
        """What else is pinned stays pinned when another model is asked."""
        server.then(UNKNOWN, ok())
        with pin(max_tokens=300):
            call(temperature=0.5)
        assert [body["max_tokens"] for body in server.requests] == [300, 300]
        assert [body["temperature"] for body in server.requests] == [0.5, 0.5]

    def test_a_baseline_that_failed_is_not_asked_again(self, call, server):
        """Where routing itself fails and the baseline does too, its error is raised."""
        server.then(UNKNOWN)
        with pytest.raises(openai.NotFoundError):
            call(providers=["nobody"], model=MINI)
        assert models(server) == [MINI]


class TestAnotherProvider:
    @pytest.fixture
    def router(self, tmp_path):
        return make_router(tmp_path, more=TWO_PROVIDERS)

    @pytest.mark.parametrize(
        "failure",
        [status(401), status(402), status(429, "used up", reason="insufficient_quota")],
        ids=["key", "payment", "quota"],
    )
    def test_a_refused_account(self, call, server, failure):
        """A refused key or a used-up quota takes out all the models of its provider."""
        server.then(failure, ok())
        call()
        assert models(server) == ["first", "other"]

    def test_a_failed_model_leaves_its_provider(self, call, server):
        """What fails for one model only does not take out its provider."""
        server.then(status(403), ok())
        call()
        assert models(server) == ["first", "twin"]

    def test_nobody_listens(self, call, router):
        """Where nobody listens, another provider is asked after the tries are used up."""
        with pytest.raises(openai.APIError):
            call(api_base="http://127.0.0.1:9/v1")
        second = router.store.find(decided(call).id)
        assert decided(call).model == "openai/other"
        assert attempts(router) == [("released", 0)] * 3
        assert len(second) == 1

    def test_the_baseline_is_the_last_resort(self, call, server):
        """Where gates leave nothing but what failed, the code's own model answers."""
        server.then(UNKNOWN, UNKNOWN, ok())
        call(providers=["one"], model="openai/other", max_tokens=256)
        assert models(server) == ["first", "twin", "other"]
        assert decided(call).fallback

    def test_servers_of_ones_own(self, call, server, tmp_path):
        """Models without a known provider share nothing: a refused key takes out one of them."""
        own = TWO_PROVIDERS.replace('provider = "one"\n', 'provider = "custom"\n')
        server.then(status(401), ok())
        call(router=make_router(tmp_path, more=own))
        assert models(server) == ["first", "twin"]


class TestTime:
    def test_another_model_is_asked_without_waiting(self, server, router, naps):
        """Retry-After holds for the model that says it; another one is asked at once."""
        server.then(status(429, retry_after=7), status(429, retry_after=9), ok())
        completion(HELLO, router=router, api_base=server.base_url, api_key="none")
        assert models(server) == [REASONER, REASONER, BIG]
        assert naps == [7.0, 0.0]

    def test_a_wait_beyond_the_deadline(self, call, server):
        """A model that asks for more time than there is, is left at once for another."""
        server.then(status(429, retry_after=3600), ok())
        call(timeout=30)
        assert models(server) == [REASONER, BIG]

    def test_the_deadline_covers_all_models(self, call, server):
        """Once the time is used up nobody else is asked."""
        server.then(status(503), slow(5.0), ok())
        with pytest.raises(openai.APITimeoutError):
            call(timeout=0.5, attempts=5)
        assert len(server.requests) == 2

    def test_what_is_left_of_the_time(self, call, router, server, monkeypatch):
        """The second model gets what the first one left of the time."""
        seen = []
        monkeypatch.setattr(
            "budgetroute.backends.litellm_backend._one_request",
            lambda kwargs: seen.append(kwargs["timeout"]) or {**kwargs, "max_retries": 0},
        )
        server.then(slow(0.05, status(404)), ok())
        call(timeout=30)
        first, second = seen
        assert 0 < second <= first - 0.05 < 30


class TestBudget:
    def test_nothing_else_fits(self, call, server, tmp_path, monkeypatch):
        """Another model could answer, but does not fit: BudgetExceeded, from the provider's error.

        No limit is told to be used up: what failed would have fitted.
        """
        ample = make_router(tmp_path, price=DEAR, more=OPENAI_ONLY)
        call(router=ample, max_tokens=256)
        worst = ample.store.recent(1)[0].row.worst
        usd = f"{worst * 1.1 / 1e12}\nwarn = [1.0]"
        router = make_router(tmp_path, price=DEAR, usd=usd, more=OPENAI_ONLY)
        told = []
        monkeypatch.setattr(router.herald, "warned", told.append)
        server.then(UNKNOWN)
        with pytest.raises(BudgetExceeded) as caught:
            call(router=router, max_tokens=256)
        assert models(server) == [MINI, MINI]
        assert isinstance(caught.value.__cause__, openai.NotFoundError)
        assert attempts(router) == [("released", 0)]
        assert day(router).held == 0
        assert told == []

    def test_nothing_else_fits_but_the_same(self, call, server, tmp_path):
        """A failure that may pass is tried on where no other model fits the budget."""
        router = make_router(tmp_path, price=DEAR, more=OPENAI_ONLY)
        call(router=router, max_tokens=256)
        worst = router.store.recent(1)[0].row.worst
        server.then(status(503), status(503), ok())
        with run(usd=worst * 1.1 / 1e12):
            call(router=router, max_tokens=256)
        assert models(server) == [MINI] * 4

    def test_the_same_does_not_fit_but_another_does(self, call, router, server):
        """An attempt whose repetition does not fit beside what it may have cost is made cheaper."""
        with pin(model=BIG):
            call(max_tokens=256)
        worst = router.store.recent(1)[0].row.worst
        server.then(cut(), ok())
        with run(usd=worst * 1.5 / 1e12):
            call(max_tokens=256)
        assert models(server)[1:] == [BIG, MINI]
        held = day(router).settled + day(router).held
        assert held >= billed(router, server)

    def test_the_cap_holds_over_all_decisions(self, call, router, server):
        """What timed-out attempts may still cost is kept beside the next decision's hold."""
        server.then(*[cut()] * 9)
        with run(usd=0.05), pytest.raises((openai.APIError, BudgetExceeded)):
            call(attempts=9)
        assert 0 < day(router).settled + day(router).held <= 0.05 * 1e12

    def test_a_store_that_fails_meanwhile(self, call, router, server, monkeypatch):
        """A ledger that cannot be reached for the second decision is told, from the provider's error."""
        reserve = router.store.reserve

        def breaking(ask):
            if server.requests:
                raise StoreError("down")
            return reserve(ask)

        monkeypatch.setattr(router.store, "reserve", breaking)
        server.then(UNKNOWN)
        with pytest.raises(StoreError) as caught:
            call()
        assert isinstance(caught.value.__cause__, openai.NotFoundError)

    def test_given_back_when_it_never_begins(self, router):
        """Money that is held for another model is given back if the call is broken off before."""
        asked = Request("completion", "Hi", InputSize(1, 2), sendable=frozenset({"model"}))
        error = openai.NotFoundError(
            "no", response=SimpleNamespace(request=None, status_code=404, headers={}), body=None
        )
        state = SimpleNamespace(outcome=SimpleNamespace(exception=lambda: error))
        with Attempts(router, asked, most=3, deadline=1e12) as made:
            made.begin().fail(error)
            assert made.go_on(state)
            assert day(router).held > 0
        assert attempts(router) == [("released", 0)] * 2


class TestStreams:
    def drained(self, loop, stream):
        async def drain():
            return [chunk async for chunk in stream]

        chunks = loop.run_until_complete(drain()) if hasattr(stream, "__anext__") else list(stream)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    def test_before_the_first_chunk(self, call, loop, router, server):
        """A stream that is refused is asked of another model."""
        server.then(UNKNOWN, ok("hello"))
        assert self.drained(loop, call(stream=True)) == "hello"
        assert models(server) == [REASONER, BIG]
        assert day(router).settled == billed(router, server)

    def test_after_the_first_chunk(self, call, loop, router, server):
        """A stream that breaks in the middle is not asked again, of any model."""
        server.then(cut(ok("hello, this is a longer answer"), at=0.6))
        stream = call(stream=True)
        with pytest.raises(Exception):  # noqa: B017 - litellm's own, by version
            self.drained(loop, stream)
        assert len(server.requests) == 1


class TestRecord:
    def test_linked_decisions(self, call, router, server):
        """Each decision is one record with its own attempts; the later names the one before."""
        server.then(status(503), status(503), UNKNOWN, ok())
        call(attempts=4)
        first, second, third = decisions(router)
        assert decided(call).id == third
        assert decided(call).after == second
        told = [story(each, router.config, router.store) for each in (first, second, third)]
        assert [len(each.attempts) for each in told] == [2, 1, 1]
        assert [each.record.after for each in told] == ["", first, second]
        assert [each.then for each in told] == [second, third, None]

    def test_explain_says_what_failed(self, call, router, server):
        """explain shows why the other models are out, and what came before."""
        server.then(status(503), status(503), ok())
        call()
        first, second = decisions(router)
        found = story(second, router.config, router.store)
        assert any(
            f"{REASONER}/4096/high" in labels
            for why, labels in found.record.gated.items()
            if why == "failed in this call: HTTP 503"
        )
        assert found.to_json()["after"] == first
        text = printed(found)
        assert f"decision {first}, which failed in the same call" in text
        before = printed(story(first, router.config, router.store))
        assert f"decision {second} was made in the same call" in before

    def test_one_request_is_one_arrival(self, call, router, server):
        """The forecast and the savings count a call once, however often it is decided."""
        server.then(UNKNOWN, UNKNOWN, ok())
        call()
        assert len(decisions(router)) == 3
        bucket = router.pace.period(int(NOON.timestamp()) * 10**6).id
        assert list(router.store.arrivals(bucket).values()) == [1]
        assert router.comparing.of(bucket).routed.calls == 1

    def test_the_log_links_them(self, call, server, caplog):
        """The line of a later decision names the one before."""
        server.then(UNKNOWN, ok())
        with caplog.at_level("DEBUG", "budgetroute.decide"):
            call()
        lines = [r.budgetroute for r in caplog.records if hasattr(r, "budgetroute")]
        assert [line.get("after") for line in lines] == [None, lines[0]["id"]]


def printed(found):
    console = Console(width=200, file=io.StringIO())
    console.print(shown(found))
    return console.file.getvalue()
