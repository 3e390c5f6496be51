"""wrap(OpenAI()) and route(): the Responses API is routed in its own words, or refused with the reason."""

import asyncio

import openai
import pydantic
import pytest
from api_support import ApiServer
from http_support import (
    BIG,
    HELLO,
    MINI,
    REASONER,
    async_client,
    attempts,
    cost,
    day,
    make_router,
    openai_client,
)
from stream_support import ASYNC, SYNC, TEXT, aended, booked, counted, ended, watched

from budgetroute import ConfigError, NoEligibleAction, last_decision, pin, route, wrap
from budgetroute.calls.bounds import refuse_unbounded
from budgetroute.calls.dialects import CHAT, MESSAGES, RESPONSES
from budgetroute.router.table import COT_INSTRUCTION
from budgetroute.testing import cut, no_usage, ok, slow, status

ASKED = {"model": MINI, "input": "hello"}
TURN = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


class Answer(pydantic.BaseModel):
    text: str


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ApiServer() as running:
        yield running


@pytest.fixture
def wrapped(server, router):
    with openai_client(server) as client:
        yield wrap(client, router=router)


def entered(manager, read):
    with manager as opened:
        return read(opened)


async def aentered(manager, read):
    async with manager as opened:
        return await read(opened)


FACES = {
    "create": lambda c: c.responses.create(**ASKED).output_text,
    "parse": lambda c: c.responses.parse(**ASKED, text_format=Answer).output_text,
    "stream, iterated": lambda c: entered(
        c.responses.stream(**ASKED), lambda s: list(s)[-1].response.output_text
    ),
    "stream, at its end": lambda c: entered(
        c.responses.stream(**ASKED), lambda s: s.get_final_response().output_text
    ),
    "stream, until done": lambda c: entered(
        c.responses.stream(**ASKED), lambda s: s.until_done().get_final_response().output_text
    ),
    "create(stream)": lambda c: (
        list(c.responses.create(**ASKED, stream=True))[-1].response.output_text
    ),
    "raw": lambda c: c.responses.with_raw_response.create(**ASKED).parse().output_text,
    "streaming": lambda c: entered(
        c.with_streaming_response.responses.create(**ASKED), lambda r: r.parse().output_text
    ),
}


async def text_of(call):
    return (await call).output_text


async def last_of(call):
    return [event async for event in await call][-1].response.output_text


AFACES = {
    "create": lambda c: text_of(c.responses.create(**ASKED)),
    "parse": lambda c: text_of(c.responses.parse(**ASKED, text_format=Answer)),
    "stream, at its end": lambda c: aentered(
        c.responses.stream(**ASKED), lambda s: text_of(s.get_final_response())
    ),
    "create(stream)": lambda c: last_of(c.responses.create(**ASKED, stream=True)),
    "streaming": lambda c: aentered(
        c.responses.with_streaming_response.create(**ASKED), lambda r: text_of(r.parse())
    ),
}


class TestRouted:
    @pytest.mark.parametrize("face", FACES)
    def test_every_face(self, wrapped, router, server, face):
        """Model, cap and effort are on the wire as this API calls them; the usage is booked once."""
        server.then(ok('{"text": "hi"}', cached=4, reasoning=2))
        bills = watched(router)
        assert FACES[face](wrapped) == '{"text": "hi"}'
        ((path, sent),) = server.requests
        assert (path, sent["model"]) == ("/v1/responses", REASONER)
        assert sent["max_output_tokens"] == last_decision().max_tokens
        assert sent["reasoning"] == {"effort": last_decision().action.reasoning_effort}
        assert {"max_tokens", "reasoning_effort", "messages", "n"}.isdisjoint(sent)
        amount = cost(router, REASONER, 12, 5, cached=4)
        assert booked(router, bills) == ("settled", amount, "reported")
        assert bills.seen[0].usage.reasoning_tokens == 2

    @pytest.mark.parametrize("face", AFACES)
    def test_every_face_async(self, router, server, face):
        """The same holds for AsyncOpenAI."""

        async def called():
            async with async_client(server) as client:
                return await AFACES[face](wrap(client, router=router))

        server.then(ok('{"text": "hi"}', cached=4))
        bills = watched(router)
        assert asyncio.run(called()) == '{"text": "hi"}'
        amount = cost(router, REASONER, 12, 5, cached=4)
        assert booked(router, bills) == ("settled", amount, "reported")

    def test_without_wrap(self, router, server):
        """route(client.responses.create) does the same for one method."""
        with openai_client(server) as client:
            route(router=router)(client.responses.create)(**ASKED)
        assert server.bodies[0]["model"] == REASONER
        assert attempts(router) == [("settled", cost(router, REASONER, 12, 5))]

    def test_baseline_and_ceiling(self, wrapped, server):
        """What is passed is baseline and ceiling; an effort is given up where the model has none."""
        thinking = {"effort": "low", "summary": "auto"}
        wrapped.responses.create(
            model=REASONER, input="hello", max_output_tokens=300, reasoning=thinking
        )
        assert last_decision().action.label == f"{BIG}/256"
        assert server.bodies[-1] == {"model": BIG, "input": "hello", "max_output_tokens": 256}
        wrapped.responses.create(model=REASONER, input="hello", reasoning=thinking)
        assert server.bodies[-1]["reasoning"] == {"effort": "high", "summary": "auto"}
        with pin(model=REASONER, reasoning_effort="low"):
            wrapped.responses.create(**ASKED)
        assert server.bodies[-1]["reasoning"] == {"effort": "low"}

    def test_the_instruction(self, wrapped, server):
        """The chain-of-thought instruction joins a text or the last user turn; the caller's stay."""
        turns = [TURN, {"role": "assistant", "content": "yes?"}]
        with pin(model=MINI, cot=True):
            wrapped.responses.create(**ASKED, instructions="Be brief.")
            wrapped.responses.create(model=MINI, input=turns)
        text, listed = server.bodies
        assert text["input"] == f"hello\n\n{COT_INSTRUCTION}"
        assert text["instructions"] == "Be brief."
        part = {"type": "input_text", "text": COT_INSTRUCTION}
        assert listed["input"] == [{**TURN, "content": [*TURN["content"], part]}, turns[1]]
        assert len(TURN["content"]) == 1

    @pytest.mark.parametrize(
        "more", [{"tools": [TOOL]}, {"text": {"format": {"type": "json_schema", "name": "a"}}}]
    )
    def test_no_instruction_where_the_answer_has_a_form(self, wrapped, server, more):
        """With tools or a schema the input goes out as it is, and what they need is asked of models."""
        with pin(model=MINI):
            wrapped.responses.create(**ASKED, **more)
            wrapped.responses.create(**ASKED)
        assert [body["input"] == "hello" for body in server.bodies] == [True, False]

    def test_the_size_of_the_prompt(self, wrapped):
        """Instructions, items, tools and what tools returned count as input."""
        sizes = []
        for more in (
            {},
            {"instructions": "word " * 500},
            {"input": [TURN] * 400},
            {"tools": [{**TOOL, "description": "word " * 4000}]},
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "word " * 600}]},
            {"input": iter([{"role": "user", "content": "word " * 700}])},
        ):
            wrapped.responses.create(**{**ASKED, **more})
            sizes.append(last_decision().input_tokens)
        assert sizes[0] < 100
        assert min(sizes[1:]) > sizes[0] + 400

    def test_images_in_what_a_tool_returned(self, wrapped):
        """An image is an image there too, not text: its tokens must be known."""
        image = {"type": "input_image", "file_id": "file_1"}
        item = {"type": "function_call_output", "call_id": "c", "output": [image]}
        with pytest.raises(NoEligibleAction, match="has images"):
            wrapped.responses.create(model=MINI, input=[TURN, item])

    @pytest.mark.parametrize(
        "more",
        [
            {"include": ["reasoning.encrypted_content"]},
            {"input": [TURN, {**THOUGHT, "encrypted_content": "abc"}]},
        ],
    )
    def test_reasoning_stays_with_its_model(self, wrapped, server, more):
        """Reasoning that is passed on can only be read by the model that made it."""
        wrapped.responses.create(**{"model": MINI, "input": [TURN], **more})
        assert server.bodies[0]["model"] == MINI
        assert any("pinned" in why for why in last_decision().reasons.values())

    def test_reasoning_by_its_id(self, wrapped):
        """Reasoning that the provider keeps is input that is not seen: room is held for it."""
        held = []
        for items in ([], [{**THOUGHT, "encrypted_content": "abc"}], [THOUGHT], [THOUGHT] * 2):
            wrapped.responses.create(model=REASONER, input=[TURN, *items])
            held.append(last_decision().chosen.worst)
        room = 4000 * 1.1e-6 * 10**12  # [routes] input_tokens, at o4-mini's price of input
        assert held[1] - held[0] < room / 10
        assert held[2] - held[1] > 0.9 * room
        assert held[3] - held[2] > room

    def test_a_partial(self, router, server):
        """What functools.partial has set counts as passed."""
        with openai_client(server) as client:
            import functools

            create = functools.partial(
                client.responses.create, instructions="word " * 500, max_output_tokens=300
            )
            route(router=router)(create)(**ASKED)
        assert last_decision().input_tokens > 400
        assert last_decision().max_tokens <= 300
        assert server.bodies[0]["max_output_tokens"] == last_decision().max_tokens


class TestStreams:
    @pytest.mark.parametrize("way", SYNC, ids=lambda way: way.__name__)
    def test_left(self, wrapped, router, server, way):
        """A stream that is left before its end is booked once, as counted."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        ended(way, lambda: wrapped.responses.create(**ASKED, stream=True))
        assert booked(router, bills)[0] == "estimated"

    @pytest.mark.parametrize("way", ASYNC, ids=lambda way: way.__name__)
    def test_left_async(self, router, server, way):
        """The same holds for async streams."""

        async def called():
            async with async_client(server) as client:
                create = wrap(client, router=router).responses.create
                await aended(way, lambda: create(**ASKED, stream=True))

        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        asyncio.run(called())
        assert booked(router, bills)[0] == "estimated"

    def test_what_was_delivered_is_counted(self, wrapped, router, server):
        """The text that had come counts, next to the prompt."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        with pin(model=BIG):
            stream = wrapped.responses.create(**ASKED, stream=True)
        read = [next(stream) for _ in range(5)]
        stream.close()
        text = "".join(e.delta for e in read if e.type == "response.output_text.delta")
        assert len(text) == 160
        assert booked(router, bills) == ("estimated", counted(router, text), "partial")

    def test_a_helper_that_is_left(self, wrapped, router, server):
        """The helper's block is left: booked as counted, once."""
        server.then(ok(TEXT, output_tokens=80))
        bills = watched(router)
        with wrapped.responses.stream(**ASKED) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    break
        assert booked(router, bills)[::2] == ("estimated", "partial")

    @pytest.mark.parametrize("ending", ["incomplete", "failed"])
    def test_other_endings(self, wrapped, router, server, ending):
        """The usage of an answer that was cut at its cap, or failed, is billed."""
        server.then(ok(TEXT, output_tokens=80, status=ending))
        wrapped.responses.create(**ASKED)
        assert attempts(router) == [("settled", cost(router, REASONER, 12, 80))]

    def test_a_stream_that_broke(self, wrapped, router, server):
        """A stream cut in the middle raises what the SDK raises, and is booked as counted."""
        server.then(cut(ok(TEXT, output_tokens=80), at=0.6))
        with pytest.raises(Exception) as caught:
            list(wrapped.responses.create(**ASKED, stream=True))
        assert type(caught.value).__module__.partition(".")[0] in {"openai", "httpx2", "httpx"}
        assert [state for state, _ in attempts(router)] == ["estimated"]


class TestFaults:
    def test_no_usage(self, wrapped, router, server):
        """A response without usage is unknown: the expected cost is booked, the rest stays held."""
        server.then(no_usage())
        wrapped.responses.create(**ASKED)
        assert [state for state, _ in attempts(router)] == ["estimated"]
        assert day(router).settled + day(router).held == last_decision().chosen.worst

    @pytest.mark.parametrize("code", [400, 401, 404, 429, 500])
    def test_refused(self, wrapped, router, server, code):
        """What the provider refused costs nothing."""
        server.then(status(code))
        with pytest.raises(openai.APIStatusError):
            wrapped.responses.create(**ASKED)
        assert attempts(router) == [("released", 0)]

    def test_a_timeout(self, router, server):
        """After a timeout the provider may have answered."""
        server.then(slow(5.0))
        with openai_client(server, timeout=0.3) as client, pytest.raises(openai.APITimeoutError):
            wrap(client, router=router).responses.create(**ASKED)
        assert [state for state, _ in attempts(router)] == ["estimated"]


UNSEEN = {
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "prompt": {"id": "pmpt_1"},
    "background": True,
    "context_management": [{"type": "compaction"}],
}


class TestUnbounded:
    @pytest.mark.parametrize("name", UNSEEN)
    @pytest.mark.parametrize("hidden", [False, True])
    def test_what_cannot_be_held_for(self, wrapped, router, server, name, hidden):
        """Input that is not seen and bills that come later are refused, in extra_body too."""
        more = {"extra_body": {name: UNSEEN[name]}} if hidden else {name: UNSEEN[name]}
        with pytest.raises(ConfigError, match=f"{name}=") as caught:
            wrapped.responses.create(**ASKED, **more)
        assert "not routed" in str(caught.value)
        assert server.requests == attempts(router) == []

    @pytest.mark.parametrize("kind", ["web_search", "file_search", "code_interpreter", "mcp"])
    def test_tools_that_the_provider_runs(self, wrapped, server, kind):
        """They have fees, and feed what they find to further turns."""
        with pytest.raises(ConfigError, match=kind):
            wrapped.responses.create(**ASKED, tools=[TOOL, {"type": kind}])
        with pytest.raises(ConfigError, match=kind):
            wrapped.responses.create(**ASKED, tools=iter([TOOL, {"type": kind}]))
        assert server.requests == []

    @pytest.mark.parametrize("item", [{"type": "item_reference", "id": "x"}, {"id": "msg_1"}])
    def test_references(self, wrapped, server, item):
        """An item that the provider looks up is input that is not seen."""
        with pytest.raises(ConfigError, match="item reference"):
            wrapped.responses.create(model=MINI, input=[TURN, item])
        assert server.requests == []

    def test_reading_a_response_again(self, wrapped):
        """stream(response_id=…) makes no response; the message sends it to the plain client."""
        with pytest.raises(ConfigError, match="response_id="):
            wrapped.responses.stream(response_id="resp_1")

    def test_what_says_nothing(self, wrapped, server):
        """None, False and the SDK's own words for nothing are no reason to refuse."""
        wrapped.responses.create(
            **ASKED, background=False, conversation=None, previous_response_id=openai.NOT_GIVEN,
            prompt=openai.omit, tools=[], store=False, service_tier="default",
        )  # fmt: skip
        assert len(server.requests) == 1

    def test_reasoning_in_another_mode(self, wrapped, server):
        """What a mode other than the standard one takes beyond the cap is not known."""
        with pytest.raises(ConfigError, match="reasoning mode 'pro'"):
            wrapped.responses.create(**ASKED, reasoning={"mode": "pro"})
        wrapped.responses.create(**ASKED, reasoning={"mode": "standard"})
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        "extra",
        [{"max_output_tokens": 9}, {"model": "x"}, {"input": "y"}, {"tools": [TOOL]}],
    )
    def test_the_action_in_extra_body(self, wrapped, server, extra):
        """What would replace the decision on the wire is refused."""
        with pytest.raises(ConfigError, match="extra_body"):
            wrapped.responses.create(**ASKED, extra_body=extra)
        assert server.requests == []

    @pytest.mark.parametrize(
        ("dialect", "given"),
        [
            (CHAT, {"prediction": {"type": "content", "content": "x"}}),
            (CHAT, {"extra_body": {"plugins": [{"id": "web"}]}}),
            (CHAT, {"fallbacks": ["gpt-4o"]}),
            (RESPONSES, {"tools": [{"type": "image_generation"}]}),
            (MESSAGES, {"mcp_servers": [{"type": "url"}]}),
            (MESSAGES, {"container": "c"}),
            (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ],
    )
    def test_refused_in_every_dialect(self, dialect, given):
        """Fees, further turns and substitutes are refused wherever a client's method is routed."""
        with pytest.raises(ConfigError, match="no bound"):
            refuse_unbounded(dialect, given, where="create()")

    @pytest.mark.parametrize(
        ("dialect", "tool"),
        [
            (CHAT, {"type": "function", "function": {"name": "f"}}),
            (CHAT, {"type": "custom", "custom": {"name": "f"}}),
            (RESPONSES, TOOL),
            (RESPONSES, {"type": "apply_patch"}),
            (MESSAGES, {"name": "f", "input_schema": {}}),
            (MESSAGES, {"type": "bash_20250124", "name": "bash"}),
            (MESSAGES, {"type": "computer_20250124", "name": "computer"}),
        ],
    )
    def test_tools_that_the_caller_runs(self, dialect, tool):
        """Each of their results comes back in a call of its own, which is held for."""
        refuse_unbounded(dialect, {"tools": [tool]}, where="create()")

    def test_a_search_in_a_chat(self, wrapped, server):
        """A chat completion searches once, for a fee that is known and held."""
        wrapped.chat.completions.create(model=MINI, messages=HELLO)
        plain = last_decision().chosen
        with pin(model=plain.action.model):
            wrapped.chat.completions.create(model=MINI, messages=HELLO, web_search_options={})
        assert server.bodies[1]["web_search_options"] == {}
        assert last_decision().chosen.worst >= plain.worst
