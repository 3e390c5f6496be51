"""@route over the real OpenAI client: what is sent, what is billed, and what a failure costs."""

import asyncio
import operator
import socket

import openai
import pydantic
import pytest
from http_support import (
    BIG,
    CLAUDE,
    DEAR,
    HELLO,
    MINI,
    REASONER,
    async_client,
    attempts,
    billed,
    cost,
    day,
    make_router,
    openai_client,
)

from budgetroute import ConfigError, UnpricedModel, last_decision, pin, record, route
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import ScriptedServer, cut, no_usage, ok, slow, status

CAPS = {"max_tokens", "max_completion_tokens"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def create(router, server):
    with openai_client(server) as client:
        yield route(router=router)(client.chat.completions.create)


def check_sent(request, decision):
    """Assert that the wire carries the decision and nothing of the baseline it replaced."""
    action = decision.action
    assert request["model"] == action.model
    assert [request[name] for name in CAPS if name in request] == [action.max_tokens]
    assert action.model != REASONER or "max_completion_tokens" in request
    assert request.get("reasoning_effort", "absent") == (action.reasoning_effort or "absent")
    assert (COT_INSTRUCTION in request["messages"][-1]["content"]) == action.cot
    assert None not in request.values()


class TestSent:
    @pytest.mark.parametrize("price", [0.0, 30.0, 300.0, DEAR])
    @pytest.mark.parametrize(
        "passed",
        [
            {"model": MINI},
            {"model": MINI, "max_tokens": 5000},
            {"model": BIG, "max_tokens": 256},
            {"model": MINI, "max_completion_tokens": 1024},
            {"model": REASONER, "max_completion_tokens": 5000, "reasoning_effort": "low"},
            {"model": REASONER, "max_tokens": openai.NOT_GIVEN, "reasoning_effort": openai.omit},
        ],
    )
    def test_the_wire_carries_the_decision(self, tmp_path, server, price, passed):
        """Model, cap and effort on the wire are the decision's; the cap never exceeds the caller's."""
        router = make_router(tmp_path, price=price)
        with openai_client(server) as client:
            route(router=router)(client.chat.completions.create)(messages=HELLO, **passed)
        check_sent(server.requests[0], last_decision())
        ceiling = [passed[n] for n in CAPS if isinstance(passed.get(n), int)] or [10**9]
        assert last_decision().max_tokens <= ceiling[0]
        assert last_decision().model != CLAUDE
        assert not last_decision().fallback

    def test_only_pin_pins(self, create, server):
        """The passed model is a baseline; pin() fixes model, cap, effort and instruction."""
        create(model=MINI, max_tokens=5000, messages=HELLO)
        assert server.requests[-1]["model"] == REASONER
        with pin(model=MINI, cot=True):
            create(model=BIG, max_tokens=5000, messages=HELLO)
        check_sent(server.requests[-1], last_decision())
        assert last_decision().action.label == f"{MINI}/1024/cot"
        with pin(model=REASONER, reasoning_effort="low", max_tokens=700):
            create(model=MINI, messages=HELLO)
        check_sent(server.requests[-1], last_decision())
        assert server.requests[-1]["max_completion_tokens"] == 700

    def test_other_arguments_pass(self, create, server):
        """Tools, sampling, user and extra_body reach the wire as they were passed."""
        rest = {"tools": [TOOL], "temperature": 0.5, "n": 2, "user": "u1", "seed": 7}
        with pin(model=BIG):
            create(model=MINI, messages=HELLO, extra_body={"own": 1}, **rest)
        assert server.requests[0] == rest | {
            "model": BIG,
            "max_tokens": 1024,
            "messages": HELLO,
            "own": 1,
        }
        assert last_decision().action.n == 2

    def test_parameters_from_config(self, tmp_path, server):
        """A parameter of the API goes by its name, a foreign one through extra_body."""
        table = f'[models."{MINI}"]\nparams = {{ top_p = 0.9, top_k = 40 }}\n'
        router = make_router(tmp_path, more=table)
        with openai_client(server) as client:
            create = route(router=router)(client.chat.completions.create)
            create(model=MINI, messages=HELLO, extra_body={"own": 1})
        sent = server.requests[0]
        assert (sent["top_p"], sent["top_k"], sent["own"]) == (0.9, 40, 1)

    def test_the_callers_messages_stay(self, create, server):
        """The instruction is added to a copy; an iterator of messages is sent whole."""
        with pin(model=MINI, cot=True):
            create(model=MINI, messages=HELLO)
            create(model=MINI, messages=iter(HELLO))
        assert HELLO == [{"role": "user", "content": "hello"}]
        assert server.requests[0]["messages"] == server.requests[1]["messages"]

    def test_a_schema_gets_no_instruction(self, create, server):
        """parse() with a model class works as before, without the instruction."""

        class Answer(pydantic.BaseModel):
            text: str

        with openai_client(server) as client, pin(model=MINI):
            server.then(ok('{"text": "hi"}'))
            parse = route(router=create.__budgetroute__.options.router)(
                client.chat.completions.parse
            )
            got = parse(model=MINI, messages=HELLO, response_format=Answer)
        assert got.choices[0].message.parsed == Answer(text="hi")
        assert last_decision().cot is False
        assert server.requests[0]["response_format"]["type"] == "json_schema"

    def test_an_unpriced_model(self, create, server):
        """A baseline without a price is an error that names the line to write; nothing is sent."""
        with pytest.raises(UnpricedModel, match=r'\[models."my-deployment"\]'):
            create(model="my-deployment", messages=HELLO)
        assert server.requests == []

    def test_the_async_client(self, router, server):
        """The async twin is routed alike; twenty calls at once are each billed."""

        async def main():
            async with async_client(server) as client:
                create = route(router=router)(client.chat.completions.create)
                return await asyncio.gather(
                    *(create(model=MINI, max_tokens=5000, messages=HELLO) for _ in range(20))
                )

        answers = asyncio.run(main())
        assert {answer.model for answer in answers} == {REASONER}
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)

    @pytest.mark.parametrize(
        "path", ["beta.responses.create", "embeddings.create", "completions.create"]
    )
    def test_other_endpoints_are_refused(self, server, path):
        """Endpoints whose prompt, cap or usage is unknown are refused when decorating."""
        with openai_client(server) as client:
            method = operator.attrgetter(path)(client)
            with pytest.raises(ConfigError, match="ask a language model once"):
                route(method)


class TestBilled:
    def test_the_response_is_the_clients(self, create, router, server):
        """The caller gets the client's own object, with every field; cached tokens cost less."""
        server.then(ok("hi", input_tokens=100, output_tokens=50, cached=80, reasoning=20, novel=1))
        with pin(model=MINI):
            answer = create(model=MINI, messages=HELLO)
        assert isinstance(answer, openai.types.chat.ChatCompletion)
        assert answer.model_extra["novel"] == 1
        assert attempts(router) == [("settled", cost(router, MINI, 100, 50, cached=80))]

    def test_a_raw_response(self, router, server):
        """with_raw_response is billed too, and can still be parsed."""
        with openai_client(server) as client, pin(model=MINI):
            create = route(router=router)(client.chat.completions.with_raw_response.create)
            raw = create(model=MINI, messages=HELLO)
        assert raw.headers["content-type"] == "application/json"
        assert raw.parse().choices[0].message.content == "ok"
        assert attempts(router) == [("settled", cost(router, MINI, 12, 5))]

    def test_missing_usage(self, create, router, server):
        """A provider that does not count leaves an estimate and a hold that covers the bill."""
        server.then(no_usage())
        create(model=MINI, messages=HELLO)
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    def test_reported_zero(self, create, router, server):
        """A reported 0 is 0, not missing."""
        server.then(ok(input_tokens=0, output_tokens=0))
        create(model=MINI, messages=HELLO)
        assert attempts(router) == [("settled", 0)]

    @pytest.mark.parametrize(
        ("asked", "answered", "billed_as"),
        [(MINI, BIG, BIG), (BIG, MINI, BIG), (MINI, "unheard-of", MINI)],
    )
    def test_another_model_answers(self, create, router, server, asked, answered, billed_as):
        """The dearer of the asked and the answering model is billed, as far as prices are known."""
        server.then(ok(model=answered))
        with pin(model=asked):
            create(model=MINI, messages=HELLO)
        assert attempts(router) == [("settled", cost(router, billed_as, 12, 5))]

    def test_a_stream(self, create, router, server):
        """A stream reaches the caller whole, and is billed by the usage that was asked for."""
        server.then(ok("hello"))
        stream = create(model=MINI, messages=HELLO, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "hello"
        assert attempts(router) == [("settled", billed(router, server))]

    def test_a_function_of_the_users(self, router, server):
        """A function that returns text and records its response is billed to the pico-dollar."""
        with openai_client(server) as client:

            @route(router=router)
            def answer(question, *, model=MINI, max_tokens=512):
                response = client.chat.completions.create(
                    model=model,
                    max_tokens=max_tokens,
                    messages=[{"role": "user", "content": question}],
                )
                record(response)
                return response.choices[0].message.content

            assert answer("why?") == "ok"
        assert server.requests[0]["max_tokens"] == last_decision().max_tokens
        assert day(router).settled == billed(router, server)


REFUSED = [400, 401, 403, 404, 409, 422, 429, 500, 503]


class TestFaults:
    @pytest.mark.parametrize("code", REFUSED)
    def test_refused(self, create, router, server, code):
        """What the provider refused costs nothing: the hold is released, the error is the client's."""
        server.then(status(code))
        with pytest.raises(openai.APIStatusError) as caught:
            create(model=MINI, messages=HELLO)
        assert caught.value.status_code == code
        assert attempts(router) == [("released", 0)]
        assert (day(router).settled, day(router).held, day(router).calls) == (0, 0, 0)

    @pytest.mark.parametrize("reply", [status(408), status(504), slow(5.0), cut(), cut(at=0.0)])
    def test_perhaps_billed(self, router, server, reply):
        """After a timeout or a broken connection the provider may have answered: estimated."""
        server.then(reply)
        with openai_client(server, timeout=0.3) as client, pytest.raises(openai.APIError):
            route(router=router)(client.chat.completions.create)(model=MINI, messages=HELLO)
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    def test_never_connected(self, router):
        """Where nobody listens nothing was sent: released."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                create = route(router=router)(client.chat.completions.create)
                with pytest.raises(openai.APIConnectionError):
                    create(model=MINI, messages=HELLO)
        assert attempts(router) == [("released", 0)]

    def test_the_clients_own_retries(self, router, server):
        """Attempts that the client repeats after refusals cost nothing; the answer is billed once."""
        again = {"retry_after_ms": "1"}
        server.then(status(429, **again), status(500, **again), ok())
        with openai_client(server, max_retries=2) as client:
            route(router=router)(client.chat.completions.create)(model=MINI, messages=HELLO)
        assert len(server.requests) == 3
        assert [state for state, _ in attempts(router)] == ["settled"]
        assert day(router).settled == billed(router, server)

    def test_a_refusal_inside_a_users_function(self, router, server):
        """The same holds where the client is called in the body of a routed function."""
        server.then(status(429), cut())
        with openai_client(server) as client:

            @route(router=router)
            def answer(question, *, model=MINI, max_tokens=512):
                return client.chat.completions.create(
                    model=model, max_tokens=max_tokens, messages=HELLO
                )

            for _ in range(2):
                with pytest.raises(openai.APIError):
                    answer("why?")
        assert [state for state, _ in attempts(router)] == ["released", "estimated"]

    def test_a_mixed_day(self, router, server):
        """After answers, refusals and timeouts the ledger is the bills, and holds cover the rest."""
        script = [ok(input_tokens=40), status(429), no_usage(), status(500), ok(), cut(), ok()] * 3
        server.then(*script)
        with openai_client(server) as client:
            create = route(router=router)(client.chat.completions.create)
            for _ in script:
                try:
                    create(model=MINI, max_tokens=1024, messages=HELLO)
                except openai.APIError:
                    continue
        rows = attempts(router)
        known = sum(amount for state, amount in rows if state == "settled")
        assert known == 3 * sum(cost(router, BIG, given, 5) for given in (40, 12, 12))
        assert day(router).settled == sum(amount for _, amount in rows)
        assert day(router).settled + day(router).held >= billed(router, server)
        assert (day(router).calls, day(router).estimated) == (15, 6)
