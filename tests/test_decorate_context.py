"""run, tags and pin round routed calls: across tasks, threads and nesting; and budgetroute turned off."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_support import BIG, DEAR, MINI, attempts, cost, day, make_router, reply, write_config

from budgetroute import BudgetExceeded, ConfigError, Router, last_decision, pin, route, run, tags
from budgetroute.calls import default_router, set_default_router
from budgetroute.clock import ManualClock

RULE = '[[classify.rules]]\ntype = "math"\ntier = ["pro"]\n'


@pytest.fixture
def router(tmp_path):
    return make_router(tmp_path, more=RULE)


@pytest.fixture
def ask(router):
    @route(router=router)
    def ask(question, *, model=MINI, max_tokens=256):
        return reply(model)

    return ask


@pytest.fixture
def aask(router):
    @route(router=router)
    async def aask(question, *, model=MINI, max_tokens=256):
        before = last_decision()
        await asyncio.sleep(0)
        assert last_decision() is before
        return reply(model)

    return aask


async def chosen(aask, **pins):
    """Make one call under pins and tags of its own; return what was decided for it."""
    tier = "pro" if pins else "free"
    with pin(**pins), tags(tier=tier), run(usd=0.5):
        answer = await aask("why?")
        decision = last_decision()
    assert answer["model"] == decision.model
    return decision


class TestTasks:
    def test_gather(self, router, aask):
        """Calls gathered from one task keep their own pins, tags, runs and last decisions."""

        async def main():
            return await asyncio.gather(*(chosen(aask, model=m) for m in (MINI, BIG) * 5))

        decisions = asyncio.run(main())
        assert [d.model for d in decisions] == [MINI, BIG] * 5
        assert {d.prompt_type for d in decisions} == {"math"}
        assert len({d.id for d in decisions}) == 10
        assert all(d.slots[-1].scope.startswith("tests|run:") for d in decisions)

    def test_task_group(self, aask):
        """Tasks of a group inherit what surrounds it, and do not leak into each other or out."""

        async def main():
            before = last_decision()
            async with asyncio.TaskGroup() as group:
                with pin(model=MINI), tags(tier="pro"):
                    inside = group.create_task(chosen(aask))
                outside = group.create_task(chosen(aask, max_tokens=256))
            assert last_decision() is before
            return inside.result(), outside.result()

        inside, outside = asyncio.run(main())
        assert (inside.model, outside.model, outside.max_tokens) == (MINI, BIG, 256)

    def test_one_run_over_gathered_calls(self, router, aask):
        """A run caps the calls gathered inside it together, and none outside."""

        async def main():
            with run(usd=0.03) as scope, pin(model=MINI, max_tokens=1024):
                got = await asyncio.gather(
                    *(aask("why?") for _ in range(100)), return_exceptions=True
                )
            await aask("why?")
            return scope, got

        scope, got = asyncio.run(main())
        refused = [error for error in got if isinstance(error, BudgetExceeded)]
        assert 0 < len(refused) < 100
        assert {error.scope for error in refused} == {f"run:{scope.id}"}
        assert len(attempts(router)) == 100 - len(refused) + 1

    def test_to_thread(self, ask):
        """asyncio.to_thread carries the context along."""

        async def main():
            with pin(model=MINI):
                return await asyncio.to_thread(ask, "why?")

        assert asyncio.run(main())["model"] == MINI


class TestThreads:
    def test_each_thread_has_its_own_decision(self, router, ask):
        """Threads that share a routed function decide, settle and remember apart."""

        def work(model):
            with pin(model=model):
                ask("why?")
                return last_decision().model

        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(work, [MINI, BIG] * 50))
        assert got == [MINI, BIG] * 50
        each = cost(router, MINI, 10, 5) + cost(router, BIG, 10, 5)
        assert (day(router).settled, day(router).held, day(router).calls) == (50 * each, 0, 100)

    def test_a_pool_starts_without_context(self, ask):
        """A plain pool does not see the pin; copy_context().run hands it over."""
        with pin(model=MINI), ThreadPoolExecutor(1) as pool:
            bare = pool.submit(ask, "why?").result()
            handed = pool.submit(contextvars.copy_context().run, ask, "why?").result()
        assert (bare["model"], handed["model"]) == (BIG, MINI)


class TestRuns:
    def test_the_tightest_run_binds(self, ask):
        """Nested runs all apply; the inner may not spend what the outer lacks."""
        with run(usd=0.0), run(usd=5.0), pytest.raises(BudgetExceeded) as caught:
            ask("why?")
        assert caught.value.limit_usd == 0.0
        assert caught.value.resets_at is None

    def test_a_run_goes_on_by_its_id(self, router, ask):
        """A named run entered twice is one run: its spend is remembered."""
        with run(usd=1.0, id="job-7"):
            ask("why?")
        with run(usd=1e-9, id="job-7"), pytest.raises(BudgetExceeded) as caught:
            ask("why?")
        assert caught.value.spent_usd == pytest.approx(cost(router, BIG, 10, 5) / 1e12)

    def test_a_run_that_is_nearly_spent_gets_cheaper_answers(self, ask):
        """What does not fit a run is replaced by the next best that does."""
        with run(usd=0.005):
            assert ask("why?")["model"] == MINI
        assert last_decision().stepped_down > 0


class TestOff:
    @staticmethod
    def function(question, *, model=MINI, max_tokens=77):
        return model, max_tokens

    def test_by_config(self, tmp_path):
        """mode = "off" calls the function with the caller's arguments and opens no store."""
        state = tmp_path / "state"
        path = write_config(tmp_path, price=DEAR)
        settings = {"mode": "off", "store.path": str(state)}
        routed = route(router=Router.from_config(path, overrides=settings))(self.function)
        before = last_decision()
        assert routed("why?", model="anything") == ("anything", 77)
        assert last_decision() is before
        assert not state.exists()

    def test_by_environment(self, tmp_path, monkeypatch):
        """BUDGETROUTE_DISABLE=1 reads no configuration at all, sync and async."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")

        async def afunction(question, *, model=MINI, max_tokens=77):
            return model, max_tokens

        assert route(self.function)("why?") == (MINI, 77)
        assert asyncio.run(route(afunction)("why?", max_tokens=5)) == (MINI, 5)

    def test_turned_on_again(self, ask, monkeypatch):
        """The switch is read at each call."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "1")
        assert ask("why?")["model"] == MINI
        monkeypatch.delenv("BUDGETROUTE_DISABLE")
        assert ask("why?")["model"] == BIG

    def test_an_unclear_switch(self, ask, monkeypatch):
        """A switch that is neither on nor off is an error, not a guess."""
        monkeypatch.setenv("BUDGETROUTE_DISABLE", "perhaps")
        with pytest.raises(ConfigError, match="BUDGETROUTE_DISABLE"):
            ask("why?")


class TestDefaultRouter:
    def test_it_is_found_from_the_folder(self, tmp_path, monkeypatch):
        """Without router= the configuration above the current folder is used, read once."""
        write_config(tmp_path)
        (tmp_path / "deep").mkdir()
        monkeypatch.chdir(tmp_path / "deep")

        @route
        def ask(question, *, model=MINI, max_tokens=256):
            return reply(model)

        assert ask("why?")["model"] == BIG
        assert default_router() is default_router()
        assert default_router().config.name == "tests"

    def test_one_is_made_by_many_threads(self, tmp_path, monkeypatch):
        """Threads that call first at the same time share one router."""
        write_config(tmp_path)
        monkeypatch.chdir(tmp_path)
        set_default_router(None)
        with ThreadPoolExecutor(8) as pool:
            made = set(pool.map(lambda _: id(default_router()), range(32)))
        assert len(made) == 1

    def test_a_clock_in_the_future(self, tmp_path):
        """A store whose clock is a year ahead counts in that day; nothing is lost or refused."""
        clock = ManualClock(make_router(tmp_path).store.now().replace(year=2027))
        router = Router.from_config(tmp_path / "budgetroute.toml", clock=clock)

        @route(router=router)
        def ask(question, *, model=MINI, max_tokens=256):
            return reply(model)

        ask("why?")
        assert router.status().calls == 1
        assert "2027-11-29" in router.status().window
