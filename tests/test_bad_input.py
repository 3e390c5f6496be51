"""Bad input through the real `@route`: a clear error or the documented fallback, nothing lost."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.world import MODELS, World, asked

import budgetroute
from budgetroute import route
from budgetroute.clock import ManualClock
from budgetroute.errors import BudgetExceeded, NoEligibleAction, ProfileError, StoreError
from budgetroute.records import Pins, Usage
from budgetroute.stores import DiskStore

CANARY = "xyzzy-secret-canary"


def routed(router, reply=None, **options):
    """A routed function that answers with the usage it is given."""

    @route(router=router, **options)
    def answer(question, *, model: str = "mid", max_tokens: int = 1024):
        return {"usage": {"prompt_tokens": 20, "completion_tokens": 30}} if reply is None else reply

    return answer


def routed_messages(router):
    @route(router=router)
    def chat(messages=None, *, model: str = "mid", max_tokens: int = 1024, **rest):
        return {"usage": {"prompt_tokens": 20, "completion_tokens": 30}}

    return chat


@pytest.mark.parametrize(
    "prompt",
    ["", " ", "\x00\x01\x1b[2J", "\ud800 half a character", "👩‍👩‍👧‍👦" * 2000, "a" * 3000, None, 17,
     b"bytes", object()],
    ids=["empty", "blank", "control", "surrogate", "emoji", "one word", "none", "number", "bytes",
         "object"],
)  # fmt: skip
def test_odd_prompts_are_served_and_settled(any_world, prompt):
    """Whatever the prompt is, the call is made once, billed, and nothing stays held."""
    router = any_world.router()
    assert routed(router)(prompt)["usage"]["completion_tokens"] == 30
    status = router.status()
    assert (status.calls, status.held_usd, status.estimated) == (1, 0.0, 0)
    assert status.spent_usd > 0


@pytest.mark.parametrize(
    "messages",
    [None, [], [None], [{}], ["text"], [{"role": "user"}], [{"role": "user", "content": None}],
     [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text"}, None, 3]}],
     [{"role": 7, "content": {"deep": [[[[["x"]]]]]}}], "just text", {"role": "user"}],
    ids=repr,
)  # fmt: skip
def test_odd_conversations_are_served_and_settled(world, messages):
    """Messages of no known shape count by what they are, and never break the call."""
    router = world.router()
    routed_messages(router)(messages)
    status = router.status()
    assert (status.calls, status.held_usd) == (1, 0.0)


def test_five_megabytes_are_measured_in_time_and_bounded_by_their_bytes(world):
    """An absurdly long prompt takes no minutes to measure, and is held for what it can cost."""
    router = world.router(budget="daily_usd = 1000")
    prompt = "The quick brown fox. " * 250_000
    routed(router)("warm up")
    begun = time.perf_counter()
    routed(router)(prompt)
    assert time.perf_counter() - begun < 15.0
    decision = budgetroute.last_decision()
    per_token = {"small": 0.1, "mid": 1.0, "large": 10.0}[decision.model]
    assert decision.worst_usd >= 1_250_000 * per_token / 1e6


def test_a_prompt_longer_than_any_context_falls_back_with_the_reason(world, caplog):
    """Every model refuses its length: the baseline is sent, as the code would have done."""
    models = '[models."gpt-4"]\nlike = "large"\nmax_tokens = [1024]\n'
    router = world.router(models=models, budget="daily_usd = 1000")

    @route(router=router)
    def answer(question: str, *, model: str = "gpt-4", max_tokens: int = 1024):
        return {"usage": {"prompt_tokens": 20, "completion_tokens": 30}}

    answer("word " * 60_000)
    assert budgetroute.last_decision().fallback
    assert "prompt exceeds the model's 8192 input tokens" in caplog.text


def test_a_prompt_the_budget_cannot_hold_is_refused_before_it_is_sent(world):
    """BudgetExceeded says what it would need; the function was not called."""
    sent = []

    @route(router=world.router(budget="daily_usd = 0.05"))
    def answer(question: str, *, model: str = "mid", max_tokens: int = 1024):
        sent.append(model)

    with pytest.raises(BudgetExceeded) as caught:
        answer("word " * 1_000_000)
    assert caught.value.needed_usd > 0.05
    assert sent == []


@pytest.mark.parametrize(
    "usage",
    [{"prompt_tokens": -1, "completion_tokens": 3}, {"prompt_tokens": 1.5, "completion_tokens": 3},
     {"prompt_tokens": True, "completion_tokens": 3}, {"prompt_tokens": 10**12},
     {"prompt_tokens": "7", "completion_tokens": 3}, {"prompt_tokens": float("nan")}, {}, None, 3,
     "usage"],
    ids=repr,
)  # fmt: skip
def test_impossible_usage_counts_as_unknown(world, usage):
    """A report that cannot be true is not billed: the expected cost is, and the rest stays held."""
    router = world.router()
    routed(router, reply={"usage": usage})("hello")
    status = router.status()
    assert status.estimated == 1
    assert status.spent_usd == pytest.approx(budgetroute.last_decision().expected_usd)
    assert status.held_usd > 0


def test_a_profile_of_a_newer_version_says_upgrade(world):
    """The format is checked before anything else is read."""
    world.router()
    file = world.folder / "tiny.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["format"] = "budgetroute-profile/2"
    content["cells"] = "of another shape"
    file.write_text(json.dumps(content), encoding="utf-8")
    from budgetroute.router import Router

    with pytest.raises(ProfileError, match=r"budgetroute-profile/2.*upgrade budgetroute"):
        Router.from_config(world.folder / "budgetroute.toml", store=world.store)


def test_a_missing_profile_names_the_file(world):
    """The error says which file was looked for."""
    world.router()
    (world.folder / "tiny.json").unlink()
    from budgetroute.router import Router

    with pytest.raises(ProfileError, match=r"tiny\.json"):
        Router.from_config(world.folder / "budgetroute.toml", store=world.store)


def test_a_store_path_that_is_a_file_is_an_error_that_says_so(tmp_path, clock):
    """The call is not made; the text names the path and what to change."""
    (tmp_path / "store").write_text("not a folder", encoding="utf-8")
    world = World(tmp_path, clock, DiskStore(tmp_path / "store", clock))
    with pytest.raises(StoreError, match=r"is a file, not a folder.*\[store\] path"):
        routed(world.router())("hello")


@pytest.fixture
def unwritable():
    """A folder that this process may read and not write, also where it runs as root."""
    folder = Path(tempfile.mkdtemp(prefix="budgetroute-", dir="/tmp"))
    folder.chmod(0o555)
    as_root = os.geteuid() == 0
    yield folder, (lambda: os.seteuid(65534)) if as_root else (lambda: None)
    if as_root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX rights")
def test_a_read_only_store_folder_is_an_error_that_says_so(world, disk_world, unwritable):
    """StoreError with the path; with `open` the call goes through and is said to be uncounted."""
    folder, become_nobody = unwritable
    routed(disk_world.router())("everything is imported now")
    store = DiskStore(folder / "s", world.clock, patience_s=0.1)
    strict, lax = (
        world.router(store=store),
        world.router(store=store, more='[store]\non_store_error = "open"'),
    )
    become_nobody()
    with pytest.raises(StoreError, match=r"/s.*\[store\] path"):
        routed(strict)("hello")
    assert routed(lax)("hello")["usage"]
    assert lax.uncounted == 1


def damage(file: Path) -> None:
    for part in file.parent.glob(file.name + "*"):
        part.write_bytes(b"this is no database" * 300)


def test_a_damaged_ledger_is_set_aside_with_a_message_and_the_app_goes_on(disk_world, caplog):
    """The old file is kept, what was lost is said, λ is still there, new money is counted."""
    router = disk_world.router()
    answer = routed(router)
    answer("one")
    price = router.status().shadow_price
    disk_world.store.close()
    damage(disk_world.store.path / "ledger.db")
    answer("two")
    status = router.status()
    assert (status.calls, status.shadow_price) == (1, price)
    assert "set aside" in caplog.text
    assert "Lost" in caplog.text
    assert list(disk_world.store.path.glob("ledger.db.corrupt-*"))


def test_a_damaged_plan_loses_the_price_and_no_money(disk_world, caplog):
    """λ starts over from the profile; spend is the ledger's and stays."""
    router = disk_world.router()
    answer = routed(router)
    answer("one")
    spent = router.status().spent_usd
    disk_world.store.close()
    damage(disk_world.store.path / "plan" / "cache.db")
    disk_world.pass_time(minutes=6)
    answer("two")
    status = router.status()
    assert status.calls == 2
    assert status.spent_usd > spent > 0
    assert status.shadow_price > 1.0
    assert "No money is lost" in caplog.text


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 28), 23), ((2026, 10, 24), 25)])
def test_days_of_23_and_25_hours_hold_their_own_budget(any_world, day, hours):
    """The day that changes the clocks is one day: its money is one budget, its end is right."""
    budget = 'daily_usd = 10\ntimezone = "Europe/Paris"'
    router = any_world.router(budget=budget)
    start = datetime(*day, 23 if hours == 23 else 22, tzinfo=UTC)
    windows = []
    for hour in range(hours + 1):
        any_world.clock.at = start + timedelta(hours=hour, minutes=1)
        routed(router)("hello")
        windows.append(router.status().window)
    assert len(set(windows[:hours])) == 1
    assert windows[hours] != windows[0]
    past = router.store.history("test|all")
    assert [sums.calls for _, sums in sorted(past.items())] == [hours, 1]


def everything_logged(caplog) -> str:
    return "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)


def test_the_prompt_is_nowhere_but_in_the_call(disk_world, caplog):
    """No log field, no record, no error text and no byte of the store holds it, nor a tag's value."""
    caplog.set_level(logging.DEBUG, logger="budgetroute")
    router = disk_world.router(budget="daily_usd = 0.06")
    answer, texts = routed(router), []
    prompt = f"Tell me about {CANARY} please. " * 3
    with budgetroute.tags(user=f"{CANARY}-user", request_id=f"{CANARY}-id"):
        answer(prompt)
        texts.append(repr(budgetroute.last_decision()))
        for blow in (ValueError(CANARY), KeyError(CANARY)):
            router.equipment.lane("answer").chain.parts = (_raising(blow),)
            answer(prompt)
        router.equipment.lane("answer").chain.parts = ()
        routed(router, reply={"usage": CANARY})(prompt)
        with pytest.raises(BudgetExceeded) as caught:
            answer(prompt * 50_000)
        texts.append(str(caught.value))
        with pytest.raises(NoEligibleAction) as gated:
            router.decide(asked(text=prompt, require=frozenset({"eu"}), prompt_type="math"))
        texts.append(str(gated.value))
    texts += [repr(e) for e in router.store.recent(100)]
    disk_world.store.close()
    assert {"budgetroute.decide", "budgetroute.spend"} <= {r.name for r in caplog.records}
    assert CANARY not in everything_logged(caplog)
    assert [text for text in texts if CANARY in text] == []
    files = [f for f in disk_world.store.path.rglob("*") if f.is_file()]
    assert files
    assert [f.name for f in files if CANARY.encode() in f.read_bytes()] == []


def _raising(error: Exception):
    class Raising:
        def classify(self, request):
            raise error

    return Raising()


def test_names_with_control_characters_stay_on_their_line(world, caplog):
    """Tags, run ids and route names cannot start a line of their own."""
    caplog.set_level(logging.DEBUG, logger="budgetroute")
    evil = "x\nERROR budgetroute forged\r\x1b[31m\u2028"
    router = world.router(budget="daily_usd = 0.01")

    @route(router=router)
    def answer(question: str, *, model: str = "mid", max_tokens: int = 1024):
        return {"usage": {"prompt_tokens": 1, "completion_tokens": 1}, "model": evil}

    with budgetroute.tags(user=evil, tier=evil), suppress(BudgetExceeded):
        answer("hello")
    answer("hello")
    router.release(router.decide(asked(route=evil)))
    with pytest.raises(BudgetExceeded) as caught:
        router.decide(asked(route=evil, run_limits=((evil, 0),)))
    assert str(caught.value).isprintable()
    assert caplog.records
    for record in caplog.records:
        assert record.getMessage().isprintable(), record.getMessage()


def test_nothing_is_lost_when_the_body_fails_in_odd_ways(any_world):
    """Exceptions, cancellation and exits settle or release; nothing stays open for ever."""
    router = any_world.router()

    @route(router=router)
    def answer(error: str, *, model: str = "mid", max_tokens: int = 1024):
        raise {"value": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt}[error]

    for name, kind in (
        ("value", ValueError),
        ("exit", SystemExit),
        ("interrupt", KeyboardInterrupt),
    ):
        with pytest.raises(kind):
            answer(name)
    states = {e.row.state for e in router.store.recent(10)}
    assert states == {"estimated"}
    assert router.status().calls == 3


def test_an_unpriced_baseline_is_refused_by_name(world):
    """The function's own default needs a price as soon as it matters."""
    router = world.router(models=MODELS, more='[routes.answer]\ndeny = ["small", "mid", "large"]')

    @route(router=router)
    def answer(question: str, *, model: str = "mystery-9", max_tokens: int = 100):
        raise AssertionError("must not be called")

    with pytest.raises(Exception, match="mystery-9"):
        answer("hello")
    assert router.status().calls == 0


def test_a_manual_clock_without_a_zone_is_refused():
    """Times without a zone would count money in the wrong day."""
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 3, 4))


def test_usage_of_a_pinned_model_counts_though_it_is_unknown_to_the_profile(world):
    """R is unknown, the money is not."""
    models = MODELS + '[models."extra"]\nprice = { input = 5.0, output = 5.0 }\nlike = "mid"\n'
    router = world.router(models=models + "enabled = false\n")
    decision = router.decide(asked(pins=Pins(model="extra"), prompt_type="math"))
    assert router.settle(decision, [Usage(10, 10)]).usd == pytest.approx(0.0001)
