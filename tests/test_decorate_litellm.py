"""@route over the real litellm, sync and async: what is sent, what is billed, what a failure costs."""

import asyncio
import contextlib
import socket

import openai
import pytest
from http_support import (
    BIG,
    CLAUDE,
    DEAR,
    HELLO,
    MINI,
    REASONER,
    attempts,
    billed,
    cost,
    day,
    litellm_at_work,
    make_router,
)

from budgetroute import ConfigError, last_decision, pin, record, route
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import ScriptedServer, cut, no_usage, ok, slow, status

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

CLONE = "openai/claude-clone"
OPENAI_ONLY = (
    '[routes.completion]\nproviders = ["openai"]\n[routes.acompletion]\nproviders = ["openai"]\n'
)
WITH_CLONE = (
    f'[models."{MINI}"]\n[models."{CLONE}"]\n'
    f'like = "{CLAUDE}"\nprice_as = "{CLAUDE}"\nprovider = "anthropic"\n'
)


@pytest.fixture(scope="module")
def tools():
    with litellm_at_work() as found:
        yield found


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more=OPENAI_ONLY)


@pytest.fixture(params=["sync", "async"])
def call(request, tools, server, router):
    """Call the routed litellm function in either way; litellm's own retries are off."""
    litellm, loop = tools
    fn = litellm.completion if request.param == "sync" else litellm.acompletion

    def call(router=router, **passed):
        settings = {"api_base": server.base_url, "api_key": "none", "max_retries": 0, "timeout": 10}
        routed = route(router=router)(fn)
        if request.param == "sync":
            return routed(**(settings | passed))

        async def main():
            answer = await routed(**(settings | passed))
            call.decision = last_decision()
            return answer

        return loop.run_until_complete(main())

    call.decision = None
    return call


def decided(call, router):
    """Return the decision of the only call: a task's own context keeps its last decision."""
    return call.decision or last_decision()


class TestSent:
    @pytest.mark.parametrize("price", [0.0, 30.0, DEAR])
    @pytest.mark.parametrize(
        "passed",
        [
            {"model": MINI},
            {"model": MINI, "max_tokens": 5000},
            {"model": BIG, "max_completion_tokens": 256},
            {"model": REASONER, "max_tokens": 5000, "reasoning_effort": "low"},
        ],
    )
    def test_the_wire_carries_the_decision(self, call, tmp_path, server, price, passed):
        """Model, cap and effort on the wire are the decision's, whatever was passed."""
        router = make_router(tmp_path, price=price, more=OPENAI_ONLY)
        call(router=router, messages=HELLO, **passed)
        (sent,), action = server.requests, decided(call, router).action
        assert sent["model"] == action.model
        caps = [sent[n] for n in ("max_tokens", "max_completion_tokens") if n in sent]
        assert caps == [action.max_tokens]
        assert sent.get("reasoning_effort", "absent") == (action.reasoning_effort or "absent")
        assert (COT_INSTRUCTION in sent["messages"][-1]["content"]) == action.cot
        assert None not in sent.values()
        assert not decided(call, router).fallback

    def test_only_pin_pins(self, call, router, server):
        """The passed model is a baseline; pin() fixes what it names."""
        with pin(model=MINI, max_tokens=700, cot=False):
            call(model=BIG, max_tokens=900, messages=HELLO)
        assert (server.requests[0]["model"], server.requests[0]["max_tokens"]) == (MINI, 700)

    def test_every_provider_is_reachable(self, call, tmp_path, server):
        """litellm reaches all providers, so a model of another one than the baseline's may win."""
        router = make_router(tmp_path, more=WITH_CLONE)
        call(router=router, model=MINI, messages=HELLO)
        assert server.requests[0]["model"] == "claude-clone"
        assert attempts(router) == [("settled", cost(router, CLAUDE, 12, 5))]

    def test_providers_narrow_it(self, tools, server, tmp_path):
        """providers=[…] keeps it to those named."""
        litellm, _ = tools
        routed = route(router=make_router(tmp_path, more=WITH_CLONE), providers=["openai"])(
            litellm.completion
        )
        routed(model=MINI, messages=HELLO, api_base=server.base_url, api_key="none")
        assert server.requests[0]["model"] == MINI
        assert "provider anthropic" in last_decision().reasons[f"{CLONE}/1024"]

    def test_other_endpoints_are_refused(self, tools):
        """Of litellm's functions only chat completions are routed."""
        litellm, _ = tools
        for fn in (litellm.embedding, litellm.text_completion, litellm.responses):
            with pytest.raises(ConfigError, match="ask a language model once"):
                route(fn)


class TestBilled:
    def test_usage_in_full(self, call, router, server):
        """Cached tokens are billed at their rate; the response is litellm's own, every field kept."""
        server.then(ok("hi", input_tokens=100, output_tokens=50, cached=80, reasoning=20, novel=1))
        with pin(model=MINI):
            answer = call(model=MINI, messages=HELLO)
        assert answer.choices[0].message.content == "hi"
        assert type(answer).__name__ == "ModelResponse"
        assert attempts(router) == [("settled", cost(router, MINI, 100, 50, cached=80))]

    def test_missing_usage(self, call, router, server):
        """litellm fills in 0 for a provider that does not count: still unknown, not free."""
        server.then(no_usage())
        answer = call(model=MINI, messages=HELLO)
        assert answer.usage.prompt_tokens == 0
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled > 0

    @pytest.mark.parametrize(
        ("asked", "answered", "billed_as"),
        [(MINI, BIG, BIG), (BIG, MINI, BIG), (MINI, "unheard-of", MINI)],
    )
    def test_another_model_answers(self, call, router, server, asked, answered, billed_as):
        """The dearer of the asked and the answering model is billed, as far as prices are known."""
        server.then(ok(model=answered))
        with pin(model=asked):
            call(model=MINI, messages=HELLO)
        assert attempts(router) == [("settled", cost(router, billed_as, 12, 5))]

    def test_a_function_of_the_users(self, tools, router, server):
        """An async function that calls litellm and records is billed to the pico-dollar."""
        litellm, loop = tools

        @route("completion", router=router)
        async def answer(question, *, model=MINI, max_tokens=512):
            response = await litellm.acompletion(
                model=model,
                max_tokens=max_tokens,
                messages=[{"role": "user", "content": question}],
                api_base=server.base_url,
                api_key="none",
            )
            record(response)
            return response.choices[0].message.content

        async def main():
            return await asyncio.gather(*(answer(f"question {i}") for i in range(10)))

        assert loop.run_until_complete(main()) == ["ok"] * 10
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)


class TestFaults:
    @pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422, 429, 500, 503])
    def test_refused(self, call, router, server, code):
        """What the provider refused costs nothing."""
        server.then(status(code))
        with pytest.raises(Exception, match="litellm"):
            call(model=MINI, messages=HELLO)
        assert len(server.requests) == 1
        assert attempts(router) == [("released", 0)]

    @pytest.mark.parametrize("reply", [status(408), status(504), slow(5.0), cut(), cut(at=0.0)])
    def test_perhaps_billed(self, call, router, server, reply):
        """After a timeout or a broken connection the provider may have answered: estimated."""
        server.then(reply)
        with pytest.raises(Exception, match="litellm"):
            call(model=MINI, messages=HELLO, timeout=0.3)
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held >= billed(router, server)

    def test_never_connected(self, call, router):
        """Where nobody listens nothing was sent: released."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
            with pytest.raises(Exception, match="litellm"):
                call(model=MINI, messages=HELLO, api_base=url)
        assert attempts(router) == [("released", 0)]

    def test_refused_by_litellm_itself(self, tools, router, server):
        """A parameter that litellm does not pass on fails before anything is sent: released."""
        litellm, _ = tools
        routed = route("completion", router=router)(litellm.completion)
        with pin(model=MINI, cot=False), pytest.raises(litellm.UnsupportedParamsError):
            routed(
                model=MINI,
                messages=HELLO,
                thinking={"type": "enabled"},
                api_base=server.base_url,
                api_key="none",
            )
        assert server.requests == []
        assert attempts(router) == [("released", 0)]

    def test_cancelled(self, tools, router, server):
        """A cancelled call may have been billed: estimated, and the cancellation goes on."""
        litellm, loop = tools
        server.then(slow(5.0))
        routed = route(router=router)(litellm.acompletion)

        async def main():
            call = routed(
                model=MINI, messages=HELLO, api_base=server.base_url, api_key="none", max_retries=0
            )
            await asyncio.wait_for(call, timeout=0.3)

        with pytest.raises(TimeoutError):
            loop.run_until_complete(main())
        assert [state for state, _ in attempts(router)] == ["estimated"]

    def test_a_mixed_day(self, call, router, server):
        """After answers, refusals and timeouts the ledger is the bills, and holds cover the rest."""
        script = [ok(input_tokens=40), status(429), no_usage(), status(500), cut(), ok()]
        server.then(*script)
        for _ in script:
            with contextlib.suppress(openai.APIError):  # litellm's errors derive from it
                call(model=MINI, max_tokens=1024, messages=HELLO)
        rows = attempts(router)
        known = [amount for state, amount in rows if state == "settled"]
        assert known == [cost(router, BIG, given, 5) for given in (40, 12)]
        assert day(router).settled == sum(amount for _, amount in rows)
        assert day(router).settled + day(router).held >= billed(router, server)
