"""@route on every kind of function: what it looks like afterwards, and what is refused at decoration."""

import asyncio
import functools
import inspect

import pytest
from http_support import BIG, CLAUDE, DEAR, MINI, REASONER, attempts, make_router, reply

from budgetroute import Action, ConfigError, last_decision, route


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


def plain(question, *, model=MINI, max_tokens=512):
    """Answer a question."""
    return reply(model)


class Asker:
    """Something with methods and a body of its own."""

    def __init__(self, name="asker"):
        self.name = name

    def ask(self, question, *, model=MINI, max_tokens=512):
        return reply(model) | {"by": self.name}

    def __call__(self, question, *, model=MINI, max_tokens=512):
        return reply(model) | {"by": self.name}


class TestForms:
    def test_without_parentheses(self, router, monkeypatch):
        """Bare @route routes with the process's router, under the function's name."""
        monkeypatch.setattr("budgetroute.calls.routers._default", router)
        assert route(plain)("why?")["model"] == BIG
        assert last_decision().route == "plain"

    def test_with_empty_parentheses(self, router):
        """@route() is the same with options."""
        assert route(router=router)(plain)("why?")["model"] == BIG
        assert last_decision().route == "plain"

    def test_with_a_name(self, router):
        """@route("name") names the route."""
        route("answer", router=router)(plain)("why?")
        assert last_decision().route == "answer"

    def test_a_coroutine_function_stays_one(self, router):
        """An async function is awaited as before and still says that it is async."""

        @route(router=router)
        async def ask(question, *, model=MINI, max_tokens=512):
            await asyncio.sleep(0)
            return reply(model)

        assert inspect.iscoroutinefunction(ask)
        assert asyncio.run(ask("why?"))["model"] == BIG
        assert [state for state, _ in attempts(router)] == ["settled"]

    def test_a_sync_function_that_returns_an_awaitable(self, router):
        """A plain function whose result is awaited later is settled when that is done."""

        async def later(model):
            return reply(model)

        @route(router=router)
        def ask(question, *, model=MINI, max_tokens=512):
            return later(model)

        async def main():
            pending = ask("why?")
            assert [state for state, _ in attempts(router)] == ["held"]
            return await pending

        assert asyncio.run(main())["model"] == BIG
        assert [state for state, _ in attempts(router)] == ["settled"]

    def test_an_async_function_made_sync_by_a_wrapper(self, router):
        """A wrapper that runs the coroutine itself gives its result, not a coroutine."""

        def synced(fn):
            @functools.wraps(fn)
            def run(*args, **kwargs):
                return asyncio.run(fn(*args, **kwargs))

            return run

        @route(router=router)
        @synced
        async def ask(question, *, model=MINI, max_tokens=512):
            return reply(model)

        assert ask("why?")["model"] == BIG

    def test_generator_functions_stay_ones(self, router):
        """Generators, async generators, partials and objects that are one still say what they are."""

        def stream(question, *, model=MINI, max_tokens=512):
            yield model

        async def astream(question, *, model=MINI, max_tokens=512):
            yield model

        class Stream:
            def __call__(self, question, *, model=MINI, max_tokens=512):
                yield model

        async def first():
            return [item async for item in route(router=router)(astream)("why?")]

        for fn in (stream, Stream(), functools.partial(stream)):
            assert inspect.isgeneratorfunction(route(router=router)(fn))
            assert list(route(router=router)(fn)("why?")) == [BIG]
        assert inspect.isasyncgenfunction(route(astream))
        assert asyncio.run(first()) == [BIG]

    def test_a_method(self, router):
        """A decorated method gets its instance; so does a bound method that is routed later."""

        class Routed(Asker):
            ask = route(router=router)(Asker.ask)

        assert Routed("a").ask("why?")["by"] == "a"
        assert route(router=router)(Asker("b").ask)("why?") == reply(BIG) | {"by": "b"}

    def test_a_static_method(self, router):
        """@staticmethod above @route works."""

        class Holder:
            ask = staticmethod(route(router=router)(plain))

        assert Holder().ask("why?")["model"] == BIG

    def test_a_partial(self, router):
        """A partial keeps its arguments, and gives the route the name of what is inside."""
        fixed = route(router=router)(functools.partial(plain, "why?"))
        assert fixed()["model"] == BIG
        assert (fixed.__name__, fixed.__doc__) == ("plain", plain.__doc__)
        assert last_decision().route == "plain"

    def test_a_partials_model_is_the_baseline(self, router):
        """What a partial fixes by keyword is a default of what is left."""
        fixed = route(router=router)(functools.partial(plain, model=BIG, max_tokens=77))
        call = fixed.__budgetroute__.bind(("why?",), {})
        assert fixed.__budgetroute__.request(call)[0].baseline == Action(BIG, 77)

    def test_a_callable_object(self, router):
        """An object with __call__ is routed under its class's name."""
        assert route(router=router)(Asker("c"))("why?")["by"] == "c"
        assert last_decision().route == "Asker"

    def test_an_async_callable_object(self, router):
        """An object with an async __call__ is awaited."""

        class Async:
            async def __call__(self, question, *, model=MINI, max_tokens=512):
                return reply(model)

        assert asyncio.run(route(router=router)(Async())("why?"))["model"] == BIG

    @pytest.mark.parametrize(
        "call",
        [lambda f: f("why?"), lambda f: f(question="why?"), lambda f: f("why?", "wide", "x")],
    )
    def test_positions_and_varargs_survive(self, router, call):
        """Positional, keyword and *args arguments arrive where they were sent."""

        @route(router=router)
        def ask(question, style="terse", *rest, model=MINI, max_tokens=512):
            return reply(model) | {"got": (question, style, rest)}

        got = call(ask)["got"]
        assert got in {("why?", "terse", ()), ("why?", "wide", ("x",))}

    def test_a_positional_model(self, router):
        """A model before the prompt is injected too, and required arguments may be injected."""

        @route(router=router)
        def ask(model, question, max_tokens):
            return reply(model) | {"got": (question, max_tokens)}

        assert ask(question="why?") == reply(CLAUDE) | {"got": ("why?", 1024)}
        assert "reasoning_effort" in last_decision().reasons[f"{REASONER}/4096/high"]


class TestLooks:
    def test_name_doc_and_signature_are_kept(self):
        """Name, doc, module and signature are the function's own."""
        wrapped = route(plain)
        assert (wrapped.__name__, wrapped.__doc__) == (plain.__name__, plain.__doc__)
        assert wrapped.__module__ == plain.__module__
        assert inspect.signature(wrapped) == inspect.signature(plain)

    def test_hidden_takes_the_injected_names_out(self, router):
        """hidden=True shows a web framework the caller's own parameters only; routing goes on."""
        wrapped = route(router=router, hidden=True)(plain)
        assert str(inspect.signature(wrapped)) == "(question)"
        assert wrapped("why?")["model"] == BIG

    def test_decorating_asks_for_no_configuration(self, tmp_path, monkeypatch):
        """Decorating reads no file: a module imports where there is no budgetroute.toml."""
        monkeypatch.chdir(tmp_path)
        wrapped = route(plain)
        with pytest.raises(ConfigError, match="no configuration found"):
            wrapped("why?")


class TestRefused:
    def test_no_cap_parameter(self):
        """A function that cannot carry a cap is refused with the two ways out."""

        def ask(question, *, model=MINI): ...

        with pytest.raises(ConfigError, match=r"ask\(\).*max_tokens=800.*@route\(max_tokens=800\)"):
            route(ask)

    def test_no_model_parameter(self):
        """A function that cannot carry a model is refused with the two ways out."""

        def ask(question, *, max_tokens=512): ...

        with pytest.raises(ConfigError, match=r"no parameter `model`.*@route\(model="):
            route(ask)

    def test_stated_model_and_cap_replace_the_parameters(self, router):
        """@route(model=…, max_tokens=…) says what the body sends; nothing else is then chosen."""

        @route(router=router, model=MINI, max_tokens=256)
        def ask(question):
            return reply(MINI)

        ask("why?")
        assert last_decision().action.label == f"{MINI}/256"

    @pytest.mark.parametrize("kind", [staticmethod, classmethod])
    def test_the_wrong_order_with_staticmethod(self, kind):
        """@route above @staticmethod would lose the binding; the right order is named."""
        with pytest.raises(ConfigError, match=f"write @{kind.__name__} above @route"):
            route(kind(plain))

    def test_routed_twice(self, router):
        """A second @route would count every call twice."""
        with pytest.raises(ConfigError, match="routed already"):
            route(route(router=router)(plain))

    def test_an_unknown_prompt_parameter(self):
        """prompt= naming a parameter that is not there lists those that are."""
        with pytest.raises(ConfigError, match="no such parameter; it has question, model"):
            route(prompt="query")(plain)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"calls": 0}, "calls=0"),
            ({"calls": True}, "calls=True"),
            ({"max_tokens": -1}, "max_tokens=-1"),
            ({"floor": 1.2}, "floor=1.2"),
            ({"floor": "high"}, "floor='high'"),
            ({"require": "eu"}, "require='eu'.*a list of names"),
            ({"providers": "openai"}, "providers='openai'.*a list of names"),
            ({"providers": [1]}, "a list of names"),
            ({"model": ""}, "model=''"),
            ({"prompt": 3}, "prompt=3"),
            ({"usage": "usage"}, "usage='usage'"),
            ({"prompt_type": 1}, "prompt_type=1"),
        ],
    )
    def test_wrong_options(self, options, said):
        """An option that cannot be meant is refused when decorating, by its name and value."""
        with pytest.raises(ConfigError, match=said):
            route(**options)(plain)

    @pytest.mark.parametrize("thing", [3, object(), ["plain"]])
    def test_not_a_function(self, thing):
        """Something that is no function is refused, not kept for later."""
        with pytest.raises(ConfigError, match="where a function or a route's name belongs"):
            route(thing)

    def test_an_empty_name(self):
        """A route needs a name that config can say."""
        with pytest.raises(ConfigError, match="name=''"):
            route("")(plain)

    @pytest.mark.parametrize(
        "defaults", [{"max_tokens": "512"}, {"max_tokens": 0}, {"n": "two"}, {"temperature": -1}]
    )
    def test_defaults_that_are_no_action(self, defaults):
        """A default that is no part of an action is refused at decoration, by its name."""

        def ask(question, *, model=MINI, max_tokens=512, n=1, temperature=None): ...

        ask.__kwdefaults__ |= defaults
        with pytest.raises(ConfigError, match=next(iter(defaults))):
            route(ask)


class TestArguments:
    @pytest.mark.parametrize("cap", [0, -5, 2.5, "512", True])
    def test_an_impossible_cap_is_refused_before_money_is_held(self, router, cap):
        """A cap that is no cap would make the hold wrong: refused, nothing is reserved."""
        with pytest.raises(ConfigError, match=r"plain\(\): max_tokens="):
            route(router=router)(plain)("why?", max_tokens=cap)
        assert attempts(router) == []

    def test_a_missing_argument_is_a_type_error(self, router):
        """A call that does not fit the function raises TypeError and costs nothing."""
        wrapped = route(router=router)(plain)
        with pytest.raises(TypeError, match="'question'"):
            wrapped()
        with pytest.raises(TypeError, match="colour"):
            wrapped("why?", colour="red")
        assert [state for state, _ in attempts(router)] == ["released"]

    def test_cheap_when_money_is_dear(self, tmp_path):
        """At a high shadow price the cheapest action that the function can carry is injected."""
        router = make_router(tmp_path, price=DEAR)
        assert route(router=router)(plain)("why?")["model"] == MINI
        assert last_decision().max_tokens == 256
