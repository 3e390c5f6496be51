"""What a routed function receives: the parameters it declares, and nothing the caller had fixed."""

import pytest
from http_support import BIG, CLAUDE, DEAR, HELLO, MINI, REASONER, make_router, reply

from budgetroute import NoEligibleAction, Plan, UnpricedModel, last_decision, pin, route
from budgetroute.records import Action
from budgetroute.router.table import COT_INSTRUCTION


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path)


@pytest.fixture
def cheap(tmp_path):
    return make_router(tmp_path, price=DEAR)


def routed(router, fn, **options):
    return route(router=router, **options)(fn)


class TestDeclared:
    def test_only_what_is_declared(self, router):
        """A function with model and cap gets those two; actions that need more are no candidates."""
        seen = {}

        def ask(question, *, model=MINI, max_tokens=512):
            seen.update(model=model, max_tokens=max_tokens)
            return reply(model)

        routed(router, ask)("why?")
        assert seen == {"model": BIG, "max_tokens": 1024}
        assert "reasoning_effort" in last_decision().reasons[f"{REASONER}/4096/high"]

    def test_an_effort_parameter(self, router):
        """With a parameter for the effort, reasoning models are candidates and it is told."""
        seen = {}

        def ask(question, *, model=MINI, max_tokens=512, reasoning_effort=None):
            seen.update(locals())
            return reply(model)

        routed(router, ask)("why?")
        assert (seen["model"], seen["reasoning_effort"]) == (REASONER, "high")

    def test_an_effort_that_is_not_wanted_is_taken_away(self, cheap):
        """Where the default is an effort and the choice is a plain model, None is passed."""
        seen = {}

        def ask(question, *, model=REASONER, max_tokens=4096, reasoning_effort="low"):
            seen.update(locals())
            return reply(model)

        routed(cheap, ask)("why?")
        assert (seen["model"], seen["reasoning_effort"]) == (MINI, None)

    def test_keywords_take_everything_but_cot(self, router):
        """**kwargs carries model, cap and effort beside the caller's own keywords."""
        seen = {}

        def ask(question, **kwargs):
            seen.update(kwargs)
            return reply(kwargs["model"])

        routed(router, ask)("why?", model=REASONER, user="u1")
        assert seen == {
            "model": REASONER,
            "max_completion_tokens": 4096,
            "reasoning_effort": "high",
            "user": "u1",
        }

    @pytest.mark.parametrize("name", ["max_completion_tokens", "max_output_tokens"])
    def test_other_names_of_the_cap(self, router, name):
        """The cap goes to the parameter that the function has for it."""
        scope = {}
        source = f"def ask(question, *, model, {name}):\n    return model, {name}\n"
        exec(source, scope)  # noqa: S102 - a function for each name
        model, cap = routed(router, scope["ask"])("why?", model=BIG)
        assert (model, cap) == (BIG, 1024)

    @pytest.mark.parametrize(("model", "sent"), [(BIG, (1024, None)), (REASONER, (None, 4096))])
    def test_both_names_of_the_cap(self, router, model, sent):
        """OpenAI's reasoning models refuse max_tokens; a function with both gets the right one."""

        def ask(question, *, model=MINI, max_tokens=800, max_completion_tokens=None,
                reasoning_effort=None):  # fmt: skip
            return max_tokens, max_completion_tokens

        with pin(model=model):
            assert routed(router, ask)("why?") == sent

    def test_sampling_of_the_baseline_is_kept(self, router):
        """Default temperature and n stay, and every choice is held for."""
        seen = {}

        def ask(question, *, model=MINI, max_tokens=512, temperature=0.3, n=2):
            seen.update(locals())
            return reply(model)

        routed(router, ask)("why?")
        assert (seen["temperature"], seen["n"]) == (0.3, 2)
        assert last_decision().action.label == f"{BIG}/1024/t0.3/n2"

    def test_sampling_from_config(self, tmp_path):
        """Where config names a sampling, it is injected over the default, even one choice."""
        table = f'[models."{MINI}"]\ntemperature = [0.0]\nn = [1]\n'
        router = make_router(tmp_path, more=table)

        def ask(question, *, model=MINI, max_tokens=512, temperature=0.3, n=1):
            return temperature, n

        assert routed(router, ask)("why?") == (0.0, 1)

    def test_the_result_is_untouched(self, router):
        """The function's result comes back as the very object it returned."""
        result = object()

        def ask(question, *, model=MINI, max_tokens=512):
            return result

        assert routed(router, ask)("why?") is result

    def test_parameters_from_config(self, tmp_path):
        """Further request parameters reach **kwargs; a function that cannot take them says why."""
        table = f'[models."{MINI}"]\nparams = {{ top_p = 0.9 }}\n'
        router = make_router(tmp_path, more=table)

        def closed(question, *, model=MINI, max_tokens=512):
            return reply(model)

        assert routed(router, lambda question, **kw: kw)("why?", model=MINI)["top_p"] == 0.9
        routed(router, closed)("why?")
        assert last_decision().fallback
        assert "carries params" in last_decision().why


class TestPins:
    def test_explicit_arguments_win(self, router):
        """An explicit model and cap are taken as they are, by keyword and by position."""

        def ask(question, model=MINI, max_tokens=512):
            return model, max_tokens

        fn = routed(router, ask)
        assert fn("why?", model=MINI) == (MINI, 1024)
        assert fn("why?", MINI, 300) == (MINI, 300)
        assert fn("why?", max_tokens=300) == (BIG, 300)

    def test_explicit_over_pin(self, router):
        """pin() fills what the arguments leave open."""

        def ask(question, *, model=MINI, max_tokens=512):
            return model, max_tokens

        with pin(model=MINI, max_tokens=400):
            assert routed(router, ask)("why?", max_tokens=300) == (MINI, 300)

    @pytest.mark.parametrize(
        "fixed", [{"temperature": 0.9}, {"n": 3}, {"reasoning_effort": "low"}, {"cot": True}]
    )
    def test_every_axis_can_be_fixed(self, router, fixed):
        """Temperature, n, effort and cot are pins when they are passed."""

        def ask(question, *, model=MINI, max_tokens=512, temperature=None, n=1,
                reasoning_effort=None, cot=False):  # fmt: skip
            return locals()

        got = routed(router, ask)("why?", **fixed)
        assert {name: got[name] for name in fixed} == fixed

    def test_none_pins_nothing(self, router):
        """An argument passed as None leaves the choice open."""

        def ask(question, *, model=None, max_tokens=None):
            return model, max_tokens

        assert routed(router, ask)("why?", model=None, max_tokens=None)[1] is not None

    def test_an_unpriced_pin(self, router):
        """A pinned model without a price is an error that names it, and nothing is held."""

        def ask(question, *, model=MINI, max_tokens=512):
            return reply(model)

        with pytest.raises(UnpricedModel, match="no-such-model"):
            routed(router, ask)("why?", model="no-such-model")
        assert router.store.recent(5) == ()


class TestPlan:
    def test_one_plan(self, router):
        """A function that declares `plan` gets everything in it, ready to send."""

        def ask(messages, *, plan):
            return plan

        plan = routed(router, ask, model=MINI, max_tokens=512)(HELLO)
        assert isinstance(plan, Plan)
        assert plan.kwargs() == {
            "model": REASONER,
            "max_completion_tokens": 4096,
            "reasoning_effort": "high",
            "messages": HELLO,
        }

    def test_a_plan_with_instruction(self, router):
        """A plan's messages carry the instruction; the caller's do not."""

        def ask(messages, *, plan):
            return plan

        with pin(model=MINI, cot=True):
            plan = routed(router, ask, model=MINI, max_tokens=512)(HELLO)
        assert plan.messages[0]["content"] == f"hello\n\n{COT_INSTRUCTION}"
        assert HELLO == [{"role": "user", "content": "hello"}]

    def test_a_passed_plan_fixes_all(self, router):
        """A plan handed on from elsewhere pins every axis."""
        fixed = Plan(Action(MINI, 300))
        got = routed(router, lambda question, *, plan: plan)("why?", plan=fixed)
        assert got.action == fixed.action


class TestInstruction:
    def test_a_cot_parameter(self, router):
        """A function with `cot` is told and writes its own instruction; messages stay."""

        def ask(messages, *, model=MINI, max_tokens=512, cot=False):
            return cot, messages

        with pin(model=MINI, max_tokens=1024):
            cot, messages = routed(router, ask)(HELLO)
        assert cot is True
        assert messages is HELLO

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("hello", f"hello\n\n{COT_INSTRUCTION}"),
            ("", COT_INSTRUCTION),
            (
                [{"type": "text", "text": "hello"}],
                [{"type": "text", "text": "hello"}, {"type": "text", "text": COT_INSTRUCTION}],
            ),
        ],
    )
    def test_messages(self, router, content, expected):
        """The instruction follows the last user turn; the caller's list and turns are not changed."""
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": content},
            {"role": "assistant", "content": "…"},
        ]
        before = [dict(message) for message in messages]

        def ask(messages, *, model=MINI, max_tokens=512):
            return messages

        with pin(model=MINI, max_tokens=1024):
            got = routed(router, ask)(messages)
        assert got == [before[0], before[1] | {"content": expected}, before[2]]
        assert messages == before

    def test_messages_without_a_user_turn(self, router):
        """Where nobody asked yet, the instruction is a turn of its own."""

        def ask(messages, *, model=MINI, max_tokens=512):
            return messages

        with pin(model=MINI, max_tokens=1024):
            got = routed(router, ask)([{"role": "system", "content": "Answer."}])
        assert got[-1] == {"role": "user", "content": COT_INSTRUCTION}

    @pytest.mark.parametrize(
        "form",
        [
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
            {"functions": [{"name": "f"}]},
            {"response_format": {"type": "json_object"}},
        ],
    )
    def test_not_where_the_answer_has_a_form(self, router, form):
        """With tools or a response format no instruction is added: it would spoil the answer."""

        def ask(messages, *, model=MINI, max_tokens=512, tools=None, functions=None,
                response_format=None):  # fmt: skip
            return messages

        with pin(model=MINI):
            assert routed(router, ask)(HELLO, **form) is HELLO
        assert last_decision().cot is False

    def test_not_into_a_string(self, router):
        """A plain question has no place for it: such actions are no candidates."""

        def ask(question, *, model=MINI, max_tokens=512):
            return question

        with pin(model=MINI):
            assert routed(router, ask)("why?") == "why?"
        assert "cot" in last_decision().reasons[f"{MINI}/1024/cot"]

    def test_messages_that_can_be_read_once(self, router):
        """An iterator of messages is measured and still arrives whole."""

        def ask(messages, *, model=MINI, max_tokens=512):
            return list(messages)

        with pin(model=MINI, cot=False):
            assert routed(router, ask)(iter(HELLO)) == HELLO
        assert last_decision().input_tokens > 0


class TestPrompt:
    @pytest.mark.parametrize("prompt", ["topic", lambda question, topic="": topic])
    def test_which_parameter_is_the_prompt(self, router, prompt):
        """prompt= names the parameter, or computes the text; else it is the first string."""

        def ask(question, topic="", *, model=MINI, max_tokens=512):
            return reply(model)

        routed(router, ask)("one two three", "x")
        short = last_decision().input_tokens
        routed(router, ask, prompt=prompt)("x", "one two three")
        assert last_decision().input_tokens == short
        routed(router, ask, prompt=prompt)("one two three", "x")
        assert last_decision().input_tokens < short

    def test_the_prompts_default_counts(self, router):
        """A prompt parameter that is not passed is measured by its default."""

        def ask(topic="one two three four", *, model=MINI, max_tokens=512):
            return reply(model)

        routed(router, ask, prompt="topic")()
        assert last_decision().input_tokens >= 4


class TestProviders:
    @staticmethod
    def ask(question, *, model=MINI, max_tokens=None, reasoning_effort=None):
        return reply(model)

    def test_the_baselines_provider_alone(self, router):
        """A function with an OpenAI default never gets an Anthropic model, even without a cap."""
        with pin(max_tokens=1024):
            routed(router, self.ask)("why?")
        assert "provider anthropic" in last_decision().reasons[f"{CLAUDE}/1024"]

    def test_more_providers(self, router, tmp_path):
        """providers=[…] and config widen it."""
        with pin(max_tokens=1024):
            assert routed(router, self.ask, providers=["anthropic"])("why?")["model"] == CLAUDE
            (tmp_path / "b").mkdir()
            table = '[routes.ask]\nproviders = ["anthropic"]\n'
            other = make_router(tmp_path / "b", more=table)
            assert routed(other, self.ask)("why?")["model"] == CLAUDE

    def test_a_pinned_model_may_come_from_anywhere(self, router):
        """An explicit model is the user's word that the function can reach it."""
        assert routed(router, self.ask)("why?", model=CLAUDE)["model"] == CLAUDE

    def test_a_model_whose_cap_nobody_knows(self, tmp_path):
        """A default model of unknown size makes no baseline, but still says whose client it is."""
        table = (
            '[models."ours"]\nprice = "free"\nprovider = "openai"\nlike = "gpt-4o"\n'
            f'[models."{CLAUDE}"]\n[models."{MINI}"]\n'
        )
        router = make_router(tmp_path, more=table)

        def ask(question, *, model="ours", max_tokens=None):
            return model

        routed(router, ask)("why?")
        assert "provider anthropic" in last_decision().reasons[f"{CLAUDE}/1024"]

    def test_strict_says_what_was_gated(self, tmp_path):
        """strict raises instead of the baseline, with a reason for every action."""
        router = make_router(tmp_path)
        strict = type(router).from_config(
            tmp_path / "budgetroute.toml", overrides={"strict": True}, store=router.store
        )
        with pytest.raises(NoEligibleAction, match="provider openai is not one") as caught:
            routed(strict, self.ask, providers=["mistral"])("why?")
        assert caught.value.reasons
