"""Prices that are more than tokens, through the router: hours, searches, tiers, engines paid by time."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cli_support import cli
from helpers.world import MODELS, PRICES, asked, cell
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetroute import route
from budgetroute.errors import ConfigError, NoEligibleAction
from budgetroute.records import Action, InputSize, Pins, Terms, Usage
from budgetroute.router.engines import EngineTime
from budgetroute.units import pico_from_usd

DEEPSEEK = '[models."deepseek-flash"]\nlike = "mid"\nmax_tokens = [1024]\n'
OURS = '[models."small"]\nprice = { gpu_hour = 3.6, tokens_per_second = 100 }\n'
"""A tenth of a cent per second."""


def pinned(model, **more):
    return asked(pins=Pins(model=model), **more)


SUNDAY, MONDAY = datetime(2026, 11, 29, 8, tzinfo=UTC), datetime(2026, 11, 30, 8, tzinfo=UTC)


class TestHours:
    def decided(self, world, at):
        world.clock.at = at
        router = world.router(models=MODELS + DEEPSEEK)
        return router, router.decide(pinned("deepseek-flash"))

    def test_off_peak_is_expected(self, world):
        """On a Sunday half of a Monday's price is expected; what is held is the same."""
        (_, cheap), (_, dear) = self.decided(world, SUNDAY), self.decided(world, MONDAY)
        assert dear.expected_usd == pytest.approx(2 * cheap.expected_usd)
        assert cheap.worst_usd == dear.worst_usd > 0

    def test_off_peak_is_billed(self, world):
        """On a Sunday half of a Monday's price is billed."""
        bills = []
        for at in (SUNDAY, MONDAY):
            router, decision = self.decided(world, at)
            bills.append(router.settle(decision, [Usage(1000, 100)]).usd)
        assert bills[0] == pytest.approx((1000 * 0.15 + 100 * 0.60) / 1e6)
        assert bills[1] == pytest.approx(2 * bills[0])

    def test_the_end_of_the_call_counts(self, world):
        """Sent in cheap hours, ended in dear ones: the whole price."""
        router, decision = self.decided(world, datetime(2026, 11, 30, 5, 59, tzinfo=UTC))
        world.pass_time(minutes=2)
        settlement = router.settle(decision, [Usage(1000, 100)])
        assert settlement.usd == pytest.approx((1000 * 0.30 + 100 * 1.20) / 1e6)


SEARCHING = '[models."mid"]\nprice = { input = 1.0, output = 4.0, search = 0.01 }\n'


class TestSearches:
    def router(self, world, more=""):
        return world.router(models=SEARCHING, more=more)

    def test_declared_searches_are_held_and_reported_ones_billed(self, world):
        """A search tool with a bound holds that many fees; the bill has the reported ones."""
        router = self.router(world)
        plain = router.decide(asked())
        decision = router.decide(asked(terms=Terms(searches=3)))
        assert decision.worst_usd - plain.worst_usd == pytest.approx(0.03)
        assert decision.expected_usd - plain.expected_usd == pytest.approx(0.01)
        settlement = router.settle(decision, [Usage(200, 100, searches=2)])
        assert settlement.usd == pytest.approx((200 + 100 * 4) / 1e6 + 0.02)
        assert settlement.overshoot == 0

    def test_unbounded_searches_hold_what_the_route_says(self, world):
        """Where the request bounds nothing, `searches` of its route does."""
        unbounded = asked(terms=Terms(searches=None))
        plain = self.router(world).decide(asked())
        for more, most in (("", 10), ("[routes.answer]\nsearches = 4\n", 4)):
            decision = self.router(world, more).decide(unbounded)
            assert decision.worst_usd - plain.worst_usd == pytest.approx(most * 0.01)

    def test_searches_without_a_fee_are_told(self, world, caplog):
        """A fee that nobody knows is not silently nothing."""
        router = world.router()
        router.settle(router.decide(pinned("mid")), [Usage(1, 1, searches=1)])
        assert "search = 0.01" in caplog.text

    def test_a_search_tool_without_a_known_fee_is_told_before_the_call(self, world, caplog):
        """Nothing is held for it then, and that is said."""
        world.router().decide(pinned("mid", terms=Terms(searches=3)))
        assert "none is held" in caplog.text

    def test_tools_with_unlisted_fees_are_told(self, world, caplog):
        """A file search is billed by its provider, and by no price here."""
        world.router().decide(asked(unbilled=frozenset({"file_search"})))
        assert "file_search" in caplog.text


def test_a_service_tier_without_rates_is_told(world, caplog):
    """A tier that the map does not price is billed at the standard rates with a warning."""
    router = world.router()
    settlement = router.settle(
        router.decide(pinned("mid")), [Usage(1000, 10, service_tier="priority")]
    )
    assert settlement.usd == pytest.approx(0.00104)
    assert "service tier 'priority'" in caplog.text


def test_a_service_tier_that_nobody_asked_for_is_billed_and_shown(world, caplog):
    """OpenAI may serve `auto` at priority: the bill is true, and beyond the hold an overshoot."""
    models = '[models."gpt-5"]\nlike = "mid"\nmax_tokens = [1024]\n'
    router = world.router(models=MODELS + models)
    decision = router.decide(pinned("gpt-5"))
    usage = Usage(200, 1024, service_tier="priority")
    settlement = router.settle(decision, [usage])
    assert settlement.usd == pytest.approx((200 * 2.5 + 1024 * 20) / 1e6)
    assert settlement.overshoot > 0
    asked_for = router.decide(pinned("gpt-5", terms=Terms(services=frozenset({"priority"}))))
    assert router.settle(asked_for, [usage]).overshoot == 0


def test_sound_is_held_at_its_rate(world):
    """A prompt with sound holds the dearer rate, one without does not."""
    models = '[models."mid"]\nprice = { input = 1.0, output = 4.0, audio_input = 10.0 }\n'
    router = world.router(models=models)
    text, sound = InputSize(200, 200), InputSize(200, 200, audio=True)
    pins = Pins(cot=False)
    plain, heard = (router.decide(asked(size=size, pins=pins)) for size in (text, sound))
    assert heard.worst_usd - plain.worst_usd == pytest.approx(200 * 9 / 1e6)
    settlement = router.settle(heard, [Usage(200, 0, audio_tokens=200)])
    assert settlement.usd == pytest.approx(200 * 10 / 1e6)
    assert settlement.overshoot == 0


class TestPaidByTime:
    def test_expected_held_and_billed(self, world):
        """Expected: tokens ÷ speed; held: the timeout; billed: the measured time."""
        router = world.router(models=OURS)
        decision = router.decide(pinned("small", timeout_s=60, prompt_type="math"))
        tokens = {256: 150, 1024: 300}[decision.max_tokens]
        assert decision.expected_usd == pytest.approx(tokens / 100 * 0.001)
        assert decision.worst_usd == pytest.approx(0.06)
        world.pass_time(seconds=7)
        settlement = router.settle(decision, [Usage(200, 100)])
        assert (settlement.usd, settlement.source) == (pytest.approx(0.007), "timed")
        assert router.status().held_usd == 0

    def test_latency_of_the_profile_counts_before_the_stated_speed(self, world):
        """What was measured on the engine is expected."""
        slow = {name: (cell(0.5, 100, latency_mean=4.0),) for name in ("general", "math", "chat")}
        other = world.with_profile(actions=(Action("small", 256),), cells=slow)
        decision = other.router(models=OURS).decide(pinned("small", timeout_s=60))
        assert decision.expected_usd == pytest.approx(0.004)

    def test_calls_in_flight_share_the_time(self, world):
        """Two calls at once pay for one engine together."""
        router = world.router(models=OURS)
        first = router.decide(pinned("small", timeout_s=60))
        world.pass_time(seconds=4)
        second = router.decide(pinned("small", timeout_s=60))
        world.pass_time(seconds=6)
        bills = [router.settle(each, [Usage(1, 1)]).usd for each in (first, second)]
        assert bills == [pytest.approx(0.007), pytest.approx(0.003)]

    def test_a_released_call_pays_nothing_and_shares_no_more(self, world):
        """Once it is refused, the other call has the engine alone."""
        router = world.router(models=OURS)
        refused, other = (router.decide(pinned("small", timeout_s=60)) for _ in range(2))
        router.release(refused)
        world.pass_time(seconds=5)
        assert router.settle(other, [Usage(1, 1)]).usd == pytest.approx(0.005)

    def test_several_responses_of_one_call_pay_for_its_time_once(self, world):
        """The time is that of the whole body."""
        router = world.router(models=OURS)
        decision = router.decide(pinned("small", timeout_s=60, calls=2))
        world.pass_time(seconds=5)
        assert router.settle(decision, [Usage(1, 1)] * 2).usd == pytest.approx(0.005)

    def test_a_call_that_ended_without_usage_has_its_time(self, world):
        """A bare string says no tokens, but it came: nothing stays held."""
        router = world.router(models=OURS)
        decision = router.decide(pinned("small", timeout_s=60))
        world.pass_time(seconds=5)
        settlement = router.settle(decision, over=True)
        assert (settlement.usd, settlement.source) == (pytest.approx(0.005), "timed")

    def test_a_failed_call_is_estimated(self, world):
        """After a timeout the engine may go on: the rest of the worst case stays held."""
        router = world.router(models=OURS)
        decision = router.decide(pinned("small", timeout_s=60))
        world.pass_time(seconds=60)
        settlement = router.settle(decision)
        assert settlement.source == "estimated"
        assert router.status().held_usd == pytest.approx(0.06 - settlement.usd)

    def test_without_a_timeout_it_cannot_be_chosen(self, world):
        """Nothing bounds its cost then; the error says what to write."""
        router = world.router(models=OURS, top="strict = true")
        with pytest.raises(NoEligibleAction, match=r"timeout_s under \[routes\.answer\]"):
            router.decide(pinned("small", baseline=None))

    def test_without_a_timeout_others_are_chosen(self, world):
        """A model that is paid by tokens serves the request instead."""
        tokens = "\n".join(
            f'[models."{name}"]\nprice = {{ input = {given}, output = {made} }}\n'
            for name, (given, made) in PRICES.items()
            if name != "small"
        )
        best = '[pacing]\npacer = "fixed"\ninitial_lambda = 1e9\n'
        ours = OURS.replace("3.6", "0.36")
        router = world.router(models=ours + tokens, more=best)
        assert router.decide(asked()).model == "mid"
        assert router.decide(asked(timeout_s=0.001)).model == "small"

    def test_without_a_speed_it_is_refused_at_start_up(self, world):
        """The profile has no latency of it: the error names the key to write."""
        with pytest.raises(ConfigError, match="tokens_per_second"):
            world.router(models='[models."small"]\nprice = { gpu_hour = 3.6 }\n')

    def test_power_is_a_price(self, world):
        """1 kW at $3.60 per kWh costs what $3.60 an hour does."""
        power = (
            '[models."small"]\nprice = { watts = 1000, usd_per_kwh = 3.6, tokens_per_second = 9 }'
        )
        router = world.router(models=power)
        assert router.equipment.facts("small").price.second == 10**15


class TestPaidByTimeEndToEnd:
    """Functions under @route whose model runs on an engine of our own."""

    def routed(self, world, body, **options):
        router = world.router(models=OURS, more="[routes.answer]\ntimeout_s = 60\n")

        @route("answer", router=router, **options)
        def answer(question, *, model="small", max_tokens=256):
            world.pass_time(seconds=3)
            return body(model)

        return router, answer

    def test_a_bare_string_is_billed_by_its_time(self, world):
        """It reports no tokens, and needs to report none."""
        router, answer = self.routed(world, lambda model: "because")
        assert answer("why?") == "because"
        status = router.status()
        assert (status.spent_usd, status.held_usd) == (pytest.approx(0.003), 0.0)
        assert status.estimated == 0

    def test_a_stream_is_billed_until_its_end(self, world):
        """The engine works while the caller reads."""

        def chunks(model):
            for word in ("be", "cause"):
                world.pass_time(seconds=2)
                yield {"choices": [{"index": 0, "delta": {"content": word}}]}

        router, answer = self.routed(world, chunks)
        assert len(list(answer("why?"))) == 2
        assert router.status().spent_usd == pytest.approx(0.007)

    def test_a_body_that_fails_is_estimated(self, world):
        """Nobody knows whether the engine has stopped."""

        def fails(model):
            raise TimeoutError

        router, answer = self.routed(world, fails)
        with pytest.raises(TimeoutError):
            answer("why?")
        assert router.status().estimated == 1
        assert router.status().held_usd > 0

    def test_shadow_bills_the_baseline_by_time(self, world):
        """What is sent is what is paid, in shadow mode too."""
        router = world.router(
            models=OURS, top='mode = "shadow"', more="[routes.answer]\ntimeout_s = 60\n"
        )

        @route("answer", router=router)
        def answer(question, *, model="small", max_tokens=256):
            world.pass_time(seconds=3)
            return "because"

        answer("why?")
        assert router.status().spent_usd == pytest.approx(0.003)

    def test_status_and_doctor_know_engines(self, world):
        """Neither stumbles over a price without tokens."""
        world.router(models=OURS, more="[routes.answer]\ntimeout_s = 60\n")
        path = world.folder / "budgetroute.toml"
        assert cli("status", "--config", path, "--json").code == 0
        assert "by time" in cli("doctor", "--config", path).out


class TestEngineTime:
    @settings(max_examples=50)
    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=8))
    def test_all_bills_together_are_the_time_that_the_engine_was_busy(self, spans):
        """Σ v(end) − v(start) is the length of the union of all calls."""
        time = EngineTime()
        events = [(start, 1, i) for i, (start, _) in enumerate(spans)]
        events += [(start + length, 0, i) for i, (start, length) in enumerate(spans)]
        paid = 0.0
        for at, begins, i in sorted(events):
            if begins:
                time.begin("m", str(i), at=at * 10**6, until=10**12)
            else:
                paid += time.end("m", str(i), at=at * 10**6)
        busy = {t for start, length in spans for t in range(start, start + length)}
        assert paid == pytest.approx(len(busy))

    def test_an_abandoned_call_leaves_when_its_lease_ends(self):
        """A process that forgot a call does not share the engine with it for ever."""
        time = EngineTime()
        time.begin("m", "lost", at=0, until=10 * 10**6)
        time.begin("m", "mine", at=0, until=10**12)
        assert time.end("m", "mine", at=30 * 10**6) == pytest.approx(5 + 20)
        assert time.end("m", "lost", at=30 * 10**6) is None

    def test_a_clock_that_goes_back_pays_nothing_twice(self):
        """No call has a negative time."""
        time = EngineTime()
        time.begin("m", "a", at=10 * 10**6, until=10**12)
        time.begin("m", "b", at=5 * 10**6, until=10**12)
        assert time.end("m", "b", at=6 * 10**6) == 0.0
        assert time.end("m", "a", at=12 * 10**6) == pytest.approx(2.0)

    def test_threads_do_not_lose_calls(self):
        """Beginning and ending from many threads leaves nothing behind."""
        time = EngineTime()

        def work(name):
            for i in range(200):
                time.begin("m", f"{name}{i}", at=i, until=10**12)
                assert time.end("m", f"{name}{i}", at=i) is not None

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.end("m", "0", at=10**6) is None


class TestSanity:
    @pytest.mark.parametrize(
        "price", ["input = 0.00015, output = 0.0006", "input = 150.0, output = 600.0"]
    )
    def test_another_unit_is_refused(self, world, price):
        """Dollars per thousand tokens, or millionths: a thousand times off is a mistake."""
        models = f'[models."gpt-4o-mini"]\nlike = "mid"\nprice = {{ {price} }}\n'
        with pytest.raises(ConfigError, match=r"factor of 1,000.*Write 0\.15"):
            world.router(models=models)

    def test_an_odd_price_is_told(self, world, caplog):
        """A price 25 times off is taken, with a warning."""
        models = '[models."gpt-4o-mini"]\nlike = "mid"\nprice = { input = 3.75, output = 0.60 }\n'
        router = world.router(models=models)
        assert "price.input = 3.75" in caplog.text
        assert router.equipment.facts("gpt-4o-mini").price.rates.input == 3_750_000_000_000

    def test_a_contract_price_is_silent(self, world, caplog):
        """Half the list price is nobody's mistake; what searches cost is the map's still."""
        caplog.set_level(logging.WARNING)
        models = '[models."gpt-4o-mini"]\nlike = "mid"\nprice = { input = 0.07, output = 0.30 }\n'
        price = world.router(models=models).equipment.facts("gpt-4o-mini").price
        assert not [r for r in caplog.records if "price" in r.getMessage()]
        assert price.fees.search["medium"] == pico_from_usd("0.025")


def test_a_minute_is_enough(world):
    """The lease of a timed call ends a minute after its timeout, and with it its share."""
    router = world.router(models=OURS)
    router.decide(pinned("small", timeout_s=10))
    other = router.decide(pinned("small", timeout_s=600))
    world.clock.at += timedelta(seconds=100)
    assert router.settle(other, [Usage(1, 1)]).usd == pytest.approx((35 + 30) / 1000)
