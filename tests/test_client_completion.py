"""completion and acompletion over the real litellm and a local server: what is sent and what is billed."""

import pydantic
import pytest
from http_support import (
    BIG,
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

import budgetroute
from budgetroute import (
    BudgetExceeded,
    BudgetRouteError,
    ConfigError,
    NoEligibleAction,
    acompletion,
    completion,
    last_decision,
    pin,
    run,
)
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import ScriptedServer, no_usage, ok

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own: see litellm_at_work

OPENAI_ONLY = '[routes.completion]\nproviders = ["openai"]\n'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PICTURE = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }
]


class Answer(pydantic.BaseModel):
    """What a structured answer looks like."""

    text: str


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


@pytest.fixture(params=["sync", "async"])
def call(request, loop, server, router):
    """Call completion or acompletion against the local server; remember the decision."""

    def call(messages=HELLO, **passed):
        settings = {"api_base": server.base_url, "api_key": "none", "router": router}
        if request.param == "sync":
            return completion(messages, **(settings | passed))

        async def main():
            try:
                return await acompletion(messages, **(settings | passed))
            finally:
                call.decision = last_decision()

        return loop.run_until_complete(main())

    call.decision = None
    return call


def decided(call):
    """Return the decision of the only call: a task's own context keeps its last decision."""
    return call.decision or last_decision()


class TestSent:
    def test_messages_alone(self, call, router, server):
        """Messages suffice: the best affordable action is sent, capped, and billed."""
        answer = call()
        assert answer.choices[0].message.content == "ok"
        assert server.requests == [
            {
                "model": REASONER,
                "max_completion_tokens": 4096,
                "reasoning_effort": "high",
                "messages": HELLO,
            }
        ]
        assert (day(router).settled, day(router).held) == (billed(router, server), 0)

    def test_the_cheapest_when_money_is_dear(self, call, server, tmp_path):
        """At a high shadow price the cheapest action is sent."""
        call(router=make_router(tmp_path, price=DEAR, more=OPENAI_ONLY), model=BIG)
        assert (server.requests[0]["model"], server.requests[0]["max_tokens"]) == (MINI, 256)

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    def test_a_ceiling(self, call, server, name):
        """A passed cap is a ceiling, under either name."""
        call(**{name: 300})
        assert (server.requests[0]["model"], server.requests[0]["max_tokens"]) == (BIG, 256)

    def test_pins(self, call, server):
        """pin() fixes model, cap and instruction; temperature and n are fixed by passing them."""
        with pin(model=MINI, max_tokens=700, cot=True):
            call(model=BIG, temperature=0.5, n=2)
        sent = server.requests[0]
        assert (sent["model"], sent["max_tokens"]) == (MINI, 700)
        assert (sent["temperature"], sent["n"]) == (0.5, 2)
        assert sent["messages"][0]["content"] == f"hello\n\n{COT_INSTRUCTION}"
        assert HELLO == [{"role": "user", "content": "hello"}]

    def test_other_arguments_pass(self, call, server):
        """What is not part of an action reaches litellm as it was passed."""
        with pin(model=MINI, cot=False):
            call(user="u1", seed=7, stop=["."], messages=iter(HELLO))
        sent = server.requests[0]
        assert {k: sent[k] for k in ("user", "seed", "stop", "messages")} == {
            "user": "u1",
            "seed": 7,
            "stop": ["."],
            "messages": HELLO,
        }

    @pytest.mark.parametrize(
        "form",
        [
            {"tools": [TOOL], "tool_choice": "auto"},
            {"response_format": {"type": "json_object"}},
            {"response_format": Answer},
        ],
    )
    def test_tools_and_schemas(self, call, server, form):
        """Tools and response formats pass, and no instruction is put beside them."""
        with pin(model=MINI):
            call(**form)
        (sent,) = server.requests
        assert sent["messages"] == HELLO
        if form.get("response_format") is Answer:
            assert sent["response_format"]["json_schema"]["name"] == "Answer"
        else:
            assert {name: sent[name] for name in form} == form

    def test_a_schema_is_held_for(self, call, router):
        """What tools and schemas add to the input is part of the worst case."""
        with pin(model=BIG, max_tokens=256, cot=False):
            call()
            plain = decided(call).chosen.worst
            call(response_format=Answer, tools=[TOOL])
        assert decided(call).chosen.worst > plain

    def test_images(self, call, server, tmp_path):
        """An image needs a model whose image tokens are known; the message passes whole."""
        table = f'[models."{MINI}"]\nimage_tokens = 1500\n[models."{BIG}"]\n'
        router = make_router(tmp_path, more=OPENAI_ONLY + table)
        with pin(cot=False):
            call(PICTURE, router=router)
        assert server.requests[0]["model"] == MINI
        assert server.requests[0]["messages"] == PICTURE
        assert decided(call).chosen.worst > cost(router, MINI, 1500, 0)

    def test_images_that_nobody_can_bound(self, call, server, router):
        """Without any known image tokens the call is refused with the line to write."""
        with pytest.raises(NoEligibleAction, match="image_tokens"):
            call(PICTURE)
        assert server.requests == []

    def test_what_a_route_can_be_told(self, call, server, tmp_path):
        """route, prompt_type, floor, require and providers are the decorator's."""
        table = f'[models."{MINI}"]\ntags = ["eu"]\n[models."{BIG}"]\n'
        router = make_router(tmp_path, more=table)
        call(router=router, route="r", prompt_type="math", require=["eu"], providers=["openai"])
        decision = decided(call)
        assert (decision.route, decision.prompt_type, decision.model) == ("r", "math", MINI)
        with pytest.raises(ConfigError, match="prompt type 'maths'"):
            call(router=router, prompt_type="maths")


class TestBilled:
    def test_missing_usage(self, call, router, server):
        """A provider that does not count leaves an estimate and a hold that covers the bill."""
        server.then(no_usage())
        call()
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held == decided(call).chosen.worst

    def test_a_stream(self, call, loop, router, server):
        """A stream reaches the caller whole, and is billed by the usage that was asked for."""
        server.then(ok("hello"))
        stream = call(stream=True)

        async def drain():
            return [chunk async for chunk in stream]

        chunks = loop.run_until_complete(drain()) if call.decision else list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "hello"
        assert attempts(router) == [("settled", billed(router, server))]

    def test_a_broken_store(self, call, router, server, monkeypatch):
        """A settlement that fails does not cost the answer."""

        def broken(bill):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(router.store, "settle", broken)
        assert call().choices[0].message.content == "ok"
        assert [state for state, _ in attempts(router)] == ["held"]


class TestRefused:
    @pytest.mark.parametrize(
        ("messages", "found"),
        [
            ("hello", "found str"),
            ([], "an empty list"),
            (None, "found NoneType"),
            ({"role": "user"}, "found dict"),
            (["hello"], "a message of type str"),
            ([HELLO[0], 3], "a message of type int"),
        ],
    )
    def test_no_messages(self, call, router, server, messages, found):
        """What is no list of messages is refused before money is held."""
        with pytest.raises(BudgetRouteError, match=found):
            call(messages)
        assert (attempts(router), server.requests) == ([], [])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"attempts": 0},
            {"attempts": True},
            {"timeout": 0},
            {"timeout": float("nan")},
            {"max_tokens": 0},
            {"max_tokens": "300"},
            {"n": 0},
            {"temperature": "hot"},
            {"model": 3},
        ],
    )
    def test_wrong_arguments(self, call, router, server, wrong):
        """An argument that cannot be meant is refused by its name, before money is held."""
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            call(**wrong)
        assert (attempts(router), server.requests) == ([], [])

    @pytest.mark.parametrize("name", ["fallbacks", "model_list"])
    def test_other_peoples_fallbacks(self, call, router, server, name):
        """fallbacks= would send what was never priced: refused with the reason, hold released."""
        with pytest.raises(ConfigError, match=f"{name}= was given"):
            call(**{name: [BIG]})
        assert server.requests == []
        assert attempts(router) == [("released", 0)]

    def test_a_malicious_litellm(self, call, router, server, monkeypatch):
        """A litellm that must not run is not run, and the hold is released."""
        monkeypatch.setattr(
            "budgetroute.backends.litellm_backend.litellm_problem", lambda: "stolen"
        )
        with pytest.raises(ConfigError, match="stolen"):
            call()
        assert attempts(router) == [("released", 0)]

    def test_nothing_fits(self, call, server):
        """A budget that is spent refuses before anything is sent."""
        with run(usd=0.0), pytest.raises(BudgetExceeded):
            call()
        assert server.requests == []

    def test_nothing_is_eligible(self, call, server):
        """Without a baseline, gates that leave nothing raise with their reasons."""
        with pytest.raises(NoEligibleAction, match="provider openai is not one"):
            call(providers=["mistral"])
        assert server.requests == []

    def test_nothing_is_eligible_with_a_baseline(self, call, server, router):
        """With one, the baseline is sent at its own cap, capped and settled like any call."""
        call(providers=["mistral"], model=MINI)
        assert decided(call).fallback
        assert server.requests[0]["max_tokens"] == 16384
        assert day(router).settled == billed(router, server)


class TestOff:
    def test_litellm_as_it_is(self, call, router, server, monkeypatch):
        """Turned off, litellm is called with what was passed, and nothing is counted."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")
        call(model="openai/anything", max_tokens=77)
        assert server.requests == [{"model": "anything", "max_tokens": 77, "messages": HELLO}]
        assert attempts(router) == []

    def test_without_a_model(self, call, server, monkeypatch):
        """Turned off, nobody chooses a model: the error says to pass one."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")
        with pytest.raises(ConfigError, match="pass model="):
            call()
        assert server.requests == []


def test_the_default_router(loop, tmp_path, server, monkeypatch):
    """Without router= the configuration above the current folder is used."""
    make_router(tmp_path, more=OPENAI_ONLY)
    monkeypatch.chdir(tmp_path)
    budgetroute.completion(HELLO, api_base=server.base_url, api_key="none")
    assert len(server.requests) == 1


class TestShadow:
    """Shadow mode: litellm receives what was passed, the bill is counted, nothing is refused."""

    @pytest.fixture
    def shadow(self, tmp_path):
        made = make_router(tmp_path, more=OPENAI_ONLY, usd=1e-9)
        file = made.config.source
        file.write_text('mode = "shadow"\n' + file.read_text())
        return budgetroute.Router.from_config(file, store=made.store)

    def test_what_was_passed_is_sent_and_billed(self, call, shadow, server):
        """Neither cap nor instruction is added, though the budget could not pay for the call."""
        answer = call(router=shadow, model=f"openai/{MINI}", user="u")
        assert answer.choices[0].message.content == "ok"
        assert server.requests == [{"model": MINI, "messages": HELLO, "user": "u"}]
        status = shadow.status()
        assert status.calls == 1
        assert status.spent_usd > 0
        assert (status.virtual.refused, status.virtual.calls) == (1, 0)

    def test_a_call_that_cannot_be_followed_goes_through(self, call, shadow, server, caplog):
        """A value that is no part of an action is litellm's to refuse, not ours."""
        call(router=shadow, model=f"openai/{MINI}", messages=iter(HELLO), attempts=0)
        assert server.requests == [{"model": MINI, "messages": HELLO}]
        assert "is not counted" in caplog.text

    def test_a_stream_arrives_as_it_is_and_is_counted(self, call, shadow, server, loop):
        """No usage is asked for; what was delivered is booked as estimated."""
        answer = call(router=shadow, model=f"openai/{MINI}", stream=True)
        if hasattr(answer, "__anext__"):

            async def drain():
                return [chunk async for chunk in answer]

            chunks = loop.run_until_complete(drain())
        else:
            chunks = list(answer)
        assert chunks
        assert "stream_options" not in server.requests[0]
        assert shadow.status().calls == 1

    def test_without_a_model_nobody_chooses(self, call, shadow):
        """As with budgetroute off, a model must be passed."""
        with pytest.raises(ConfigError, match="in shadow mode"):
            call(router=shadow)
