"""The money path read by an attacker: what is sent beyond what was held, what is billed and lost."""

import functools

import pytest
from http_support import BIG, DEAR, HELLO, MINI, attempts, make_router, openai_client, reply

from budgetroute import ConfigError, last_decision, pin, route
from budgetroute.billing import services_asked
from budgetroute.testing import ScriptedServer

LONG_TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "x" * 40_000, "parameters": {"type": "object"}},
}


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def client(server):
    with openai_client(server) as made:
        yield made


class TestSentIsHeld:
    def test_pinned_n_replaces_the_callers(self, router, server, client):
        """`pin(n=1)` holds one answer, so the caller's n=3 must not reach the wire."""
        create = route(router=router)(client.chat.completions.create)
        with pin(n=1):
            create(model=MINI, messages=HELLO, n=3)
        assert last_decision().action.n == 1
        assert server.requests[0].get("n", 1) == 1

    def test_one_cap_is_sent(self, router):
        """A second cap of the caller's under another name would outlast the one that is held."""

        @route(router=router)
        def answer(question, *, model=MINI, **rest):
            return reply(model) | {"rest": rest}

        sent = answer("why?", max_tokens=100, max_output_tokens=99_999)["rest"]
        assert [sent[name] for name in sent if name.startswith("max_")] == [100]

    @pytest.mark.parametrize("hidden", [{"max_tokens": 99_999}, {"n": 9}, {"model": BIG}])
    def test_extra_body_cannot_replace_the_decision(self, router, server, client, hidden):
        """The OpenAI client sends `extra_body` over its parameters: refused, nothing is sent."""
        create = route(router=router)(client.chat.completions.create)
        with pytest.raises(ConfigError, match="extra_body"):
            create(model=MINI, messages=HELLO, extra_body=hidden)
        with pytest.raises(ConfigError, match="extra_body"):
            route(router=router)(
                functools.partial(client.chat.completions.create, extra_body=hidden)
            )
        assert (server.requests, attempts(router)) == ([], [])


class TestStandingArguments:
    def worst_of(self, folder, call, **arguments):
        router = make_router(folder, price=DEAR)
        with pin(model=BIG, max_tokens=256):
            route(router=router)(call)(model=BIG, **arguments)
        return last_decision().chosen.worst

    @pytest.mark.parametrize(
        "standing",
        [{"service_tier": "priority"}, {"tools": [LONG_TOOL]}, {"messages": HELLO * 50}],
    )
    def test_a_partial_holds_what_its_arguments_cost(self, tmp_path, client, standing):
        """A service tier, tools or messages cost the same, passed now or bound beforehand."""
        create = client.chat.completions.create
        given = {"messages": HELLO} | standing
        rest = {name: value for name, value in given.items() if name not in standing}
        now = self.worst_of(tmp_path, create, **given)
        before = self.worst_of(tmp_path, functools.partial(create, **standing), **rest)
        assert before == now > self.worst_of(tmp_path, create, messages=HELLO)

    def test_a_default_service_tier_is_held(self, tmp_path):
        """A function's own default tier is sent, so its rates are held."""

        def plain(question, *, model=BIG, max_tokens=256):
            return reply(model)

        def dear(question, *, model=BIG, max_tokens=256, service_tier="priority"):
            return reply(model)

        assert self.worst_of(tmp_path, dear, question="why?") > self.worst_of(
            tmp_path, plain, question="why?"
        )

    @pytest.mark.parametrize(
        ("parameters", "tiers"),
        [
            ({"service_tier": "flex"}, {"flex"}),
            ({"extra_body": {"service_tier": "priority"}}, {"priority"}),
            ({"speed": "fast"}, {"fast"}),
            ({"speed": "fast", "inference_geo": "us"}, {"fast", "us", "fast us"}),
            ({"service_tier": None, "speed": 3}, set()),
        ],
    )
    def test_every_dearer_tier_counts(self, parameters, tiers):
        """Anthropic's speed and region are billed like tiers, so they are held like tiers."""
        assert services_asked(parameters) == tiers
