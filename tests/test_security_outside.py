"""Attacks by what providers answer, users send and names contain; and by what we write of it."""

from __future__ import annotations

import ast
import json
import logging
import re
import sqlite3
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_support import STORE, cli_at
from helpers.world import asked
from rich.text import Text

import budgetroute
from budgetroute import context, route
from budgetroute.backends.failures import retry_after
from budgetroute.backends.usage import read_usage
from budgetroute.calls.carry import Carrier
from budgetroute.calls.options import Options
from budgetroute.calls.partial import Tally
from budgetroute.calls.prompts import read_prompt
from budgetroute.calls.shape import shape_of
from budgetroute.classify import Rule, Rules
from budgetroute.cli import console
from budgetroute.errors import BudgetExceeded, ConfigError, UnpricedModel
from budgetroute.oneline import LOGGERS
from budgetroute.prices import PriceBook
from budgetroute.records import InputSize, Request, Usage
from budgetroute.router.picks import draw_of
from budgetroute.tokens import O200k, measure_messages, prompt_text

PACKAGE = Path(budgetroute.__file__).parent
EVIL = "a\x1b[31m\x1b]0;x\x07\x9b1m\r\nforged=1 \u202e\u2028\x7f[bold]x[/bold] \ud800"
"""Colours, a window title, C1 codes, line breaks, direction marks, markup, half a surrogate pair."""
OBEYED = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal or an editor obeys instead of showing."""


# what a provider answers


def response(**more: object) -> dict[str, object]:
    return {"usage": {"prompt_tokens": 5, "completion_tokens": 5}, **more}


def test_a_providers_words_are_kept_short():
    """Ten megabytes of model name would go into rows, logs and searches."""
    seen = read_usage(
        response(
            model="m" * 10**7, service_tier="t" * 10**7, choices=[{"finish_reason": EVIL * 10**5}]
        )
    )
    assert [len(word) for word in (seen.model, seen.service_tier, seen.finish_reason)] == [200] * 3
    json.dumps([seen.model, seen.finish_reason]).encode("utf-8")


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens": 10**5000, "completion_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": 1, "completion_tokens": 10**8 + 1},
        {"prompt_tokens": 1e308, "completion_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": True},
        {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 10**30},
        {"input_tokens": 10**9, "cache_read_input_tokens": 10**9, "output_tokens": 1},
    ],
)
def test_absurd_reports_are_no_bill(world, counts):
    """They are booked as the expected cost, never as a refund and never as a fortune."""
    router = world.router()
    decision = router.decide(asked())
    usage = read_usage({"usage": counts})
    settled = router.settle(decision, () if usage is None else [usage])
    assert usage is None
    assert settled.usd == pytest.approx(decision.expected_usd, rel=1e-6)


def test_the_largest_report_that_is_believed_still_fits_the_ledger(any_world):
    """10⁸ tokens are billed as told, beyond what was held, and the next call is refused."""
    router = any_world.router()
    settled = router.settle(router.decide(asked()), [Usage(10**8, 10**8)])
    assert settled.overshoot > 0
    with pytest.raises(BudgetExceeded):
        router.decide(asked())


def test_answers_of_many_models_cost_neither_memory_nor_time(world):
    """A server that names another model each time leaves no trace of them in the price book."""
    book = PriceBook()
    for number in range(50):
        assert book.card(f"made-up-{number}").provider == "custom"
    assert len(book._cards) == 0
    with pytest.raises(UnpricedModel) as caught:
        book.price("gpt-4o-mini-" * 10_000)
    assert "close:" not in str(caught.value)
    router = world.router()
    settled = router.settle(router.decide(asked()), [Usage(10, 10, model="x" * 200)])
    assert settled.source == "reported"


class AnsweredError(Exception):
    """An error with the headers of a response."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headers = {"retry-after": text}


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 2026 1:1:99999999999999999999 GMT",
        "Mon, 01 Jan 2026 00:00:00 +9999",
        "-5",
        "nan",
        "inf",
        "(" * 100_000,
        "\x00",
    ],
)
def test_no_header_makes_waiting_fail(text):
    """A wait that cannot be read is none; the user's own error is what is raised."""
    assert retry_after(AnsweredError(text), now=datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_an_endless_stream_is_not_kept():
    """Its text is counted in pieces: memory does not grow with it, and no token is forgotten."""
    tally = Tally()
    chunk = {"choices": [{"index": 0, "delta": {"content": "word " * 200}, "finish_reason": None}]}
    for number in range(1000):
        tally.take({"choices": [{**chunk["choices"][0], "index": number}]})
        tally.take({"choices": [{"index": number, "delta": {}, "finish_reason": "stop"}]})
    assert sum(map(len, tally._texts)) <= 51_000
    assert len(tally._finished) == 1
    assert tally.text_tokens() == pytest.approx(200_000, rel=0.01)


# what a user sends


def nested(depth: int, *, of: str) -> object:
    made: object = "x" * 1000
    for _ in range(depth):
        made = [made] if of == "lists" else {"a": made}
    return made


@pytest.mark.parametrize("of", ["lists", "tables"])
@pytest.mark.parametrize("depth", [5, 900, 20_000])
@pytest.mark.parametrize("place", ["content", "part", "tool_calls", "tools", "schema"])
def test_deep_nesting_is_measured(of, depth, place):
    """A request body nested without end is measured with all its text, and raises nothing."""
    deep = nested(depth, of=of)
    message = {
        "content": {"role": "user", "content": deep},
        "part": {"role": "user", "content": [{"type": "odd", "odd": deep}]},
        "tool_calls": {"role": "user", "content": "", "tool_calls": deep},
    }.get(place, {"role": "user", "content": ""})
    more = {"tools": {"tools": deep}, "schema": {"response_format": deep}}.get(place, {})
    size = measure_messages([message], tokenizer=O200k(folder=Path("/nowhere")), **more)
    assert size.utf8_bytes + size.framing >= 1000
    prompt_text([message])


def test_a_container_inside_itself_is_measured():
    """So is one that holds itself, and one that stands in many places at once."""
    ring: list[object] = ["x"]
    ring.append(ring)
    deep = nested(2000, of="lists")
    for odd in (ring, [deep, deep, {"a": [ring, deep]}]):
        size = measure_messages(
            [{"role": "user", "content": "", "odd": odd}], tokenizer=O200k(folder=Path("/nowhere"))
        )
        assert 0 < size.utf8_bytes < 100_000


@pytest.mark.parametrize("text", [EVIL, "", "x" * 201, "a\nb", "\u202ex", 5])
def test_ids_from_outside_are_names(text):
    """A run's id and a route's name stand in keys, rows and logs: printable, and at most 200 long."""
    with pytest.raises(ConfigError, match="printable"), context.run(usd=1, id=text):
        pass
    with pytest.raises(ConfigError, match="printable"):
        Options(name=text)


def test_any_tag_is_served(disk_world):
    """Whatever a user calls himself, the call is routed, and the ledger does not name him."""
    limit = '[limits.users]\nper = "user"\ndaily_usd = 1.0'
    router = disk_world.router(more=f"{STORE}\n{limit}")
    for user in (EVIL, "", "\udcff", "x" * 10**6, "alice@example.com"):
        request = asked(tags={"user": user, "request_id": user})
        router.settle(router.decide(request), [Usage(10, 10)])
        assert "alice" not in repr(request)
    assert router.till.scopes._value_key.cache_info().currsize == 4  # the long one is not kept
    content = b"".join(p.read_bytes() for p in disk_world.store.path.rglob("*") if p.is_file())
    assert b"alice" not in content


def test_the_draw_takes_any_seed():
    """A request id with half a surrogate pair draws like any other."""
    assert 0 <= draw_of("\ud800") < 1


@pytest.mark.parametrize("keyword", ["a " * 500 + "b", "(a+)+$", "a|" * 200, ".*" * 100, "[" * 50])
def test_keywords_are_no_patterns(keyword):
    """A keyword is searched literally: it cannot be made to try a prompt in exponentially many ways."""
    rules = Rules([Rule("code", keywords=(keyword,))])
    for text in ("a" * 4000, "a " * 2000, " " * 4000, "(" * 4000):
        assert rules.classify(Request("r", text, InputSize(1, 1))) is None
    assert rules.classify(Request("r", f"x {keyword.strip()} x", InputSize(1, 1))) is not None


# what reaches a terminal


@pytest.fixture
def named(disk_world):
    """A world whose ledger has names that would take over a terminal."""
    router = disk_world.router(more=STORE)
    router.settle(router.decide(asked()), [Usage(10, 10, model="other", finish_reason="stop")])
    with sqlite3.connect(disk_world.store.path / "ledger.db") as connection:
        for column in ("decided", "outcome"):
            (text,) = connection.execute(f"SELECT {column} FROM attempts").fetchone()  # noqa: S608 - ours
            content = json.loads(text)
            planted = json.dumps(_planted(content))
            connection.execute(f"UPDATE attempts SET {column} = ?", (planted,))  # noqa: S608 - ours
    connection.close()
    return disk_world


def _planted(content: object) -> object:
    """Put the evil text behind every text of a record."""
    text = EVIL.replace("\ud800", "")
    if isinstance(content, dict):
        return {key: _planted(part) for key, part in content.items()}
    if isinstance(content, list):
        return [_planted(part) for part in content]
    return content + text if isinstance(content, str) else content


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "last"),
        ("explain", "last", "--json"),
        ("status",),
        ("status", "--json"),
        ("ledger", "list"),
        ("ledger", "list", "--json"),
        ("ledger", "export"),
        ("ledger", "export", "--format", "jsonl"),
        ("ledger", "sum"),
        ("ledger", "verify"),
        ("doctor",),
        ("doctor", "--json"),
    ],
    ids=" ".join,
)
def test_no_command_lets_a_name_take_over_the_terminal(named, command):
    """Escape sequences, C1 codes and direction marks are shown, not obeyed; so is markup."""
    answer = cli_at(named, *command)
    assert not OBEYED.search(answer.out.replace("\r\n", "\n") + answer.err)
    assert "\nforged" not in answer.out
    if "--json" in command:
        json.loads(answer.out)


@pytest.mark.parametrize(
    "word", ["\udcff", "\x1b[31m", "[bold]x[/]", "'; DROP TABLE attempts; --", "%_*?"]
)
def test_an_argument_is_only_a_text(named, word):
    """An id from the command line is no SQL, no pattern, no markup and no bytes of a terminal."""
    answer = cli_at(named, "explain", word)
    assert answer.code == 2
    assert not OBEYED.search(answer.out + answer.err)
    assert cli_at(named, "explain", "last").code == 0


def test_the_console_itself_lets_nothing_through(capsys):
    """Even a command that forgets to escape prints no control character and no markup."""
    for made in (console.out(), console.err()):
        made.print(EVIL.replace("\ud800", ""))
        made.print(Text(EVIL.replace("\ud800", ""), style="red"))
    seen = capsys.readouterr()
    assert "[bold]x[/bold]" in seen.out
    assert not OBEYED.search(seen.out + seen.err)


def test_json_is_json_whatever_a_number_is(capsys):
    """Infinity has no place in JSON: null stands there, not a traceback."""
    console.emit({"a": float("inf"), "b": [float("nan")], "c": EVIL})
    text = capsys.readouterr().out
    assert not OBEYED.search(text)
    read = json.loads(text)
    assert read == {"a": None, "b": [None], "c": EVIL}


# what reaches the log


def test_no_value_forges_a_line_of_the_log(caplog):
    """Whoever of us logs a path, a name or an error: it stays on its line, and numbers their format."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.warning(
            "%s and %r took %d in %.1f", Path(EVIL.replace("\ud800", "")), ValueError(EVIL), 3, 0.25
        )
    assert len(caplog.records) == len(LOGGERS)
    for record in caplog.records:
        assert not OBEYED.search(record.getMessage())
        assert "\n" not in record.getMessage()
        assert record.getMessage().endswith("took 3 in 0.2")


def test_every_logger_is_guarded():
    """No module logs under a name whose records are not looked at."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        names |= set(re.findall(r'getLogger\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    assert names <= set(LOGGERS)


def test_no_message_is_put_together_before_it_is_logged():
    """Values reach the log as arguments, where they are looked at; never inside the format."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if not is_call or not isinstance(node.func.value, ast.Name):
                continue
            if node.func.value.id in {"logger", "_log"} and node.func.attr in _LEVELS:
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"


_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


# what stands in errors and tracebacks

CANARY = "my-secret-question"


def answer(question: str, *, messages=None, model: str = "mid", max_tokens: int = 256, **extra):
    """A function as users route it."""


def test_no_repr_holds_a_prompt_or_a_key():
    """Error trackers keep the repr of local variables: ours show neither prompt, key nor user."""
    messages = [{"role": "user", "content": CANARY}]
    carrier = Carrier(shape_of(answer), Options(), "answer")
    call = carrier.bind((CANARY,), {"messages": messages, "api_key": CANARY})
    prompt = read_prompt(messages, {})
    tally = Tally()
    tally.take({"choices": [{"index": 0, "delta": {"content": CANARY}}]})
    request = asked(text=CANARY, tags={"user": CANARY}, seed=CANARY)
    for made in (call, prompt, tally, request):
        assert CANARY not in repr(made)


def test_errors_of_sdks_are_told_by_their_kind(world, caplog):
    """A foreign error's text may hold a key or a prompt: only its type is logged or kept."""
    router = world.router(top='mode = "on"')

    @route("answer", router=router)
    def fails(question: str, *, model: str = "mid", max_tokens: int = 256) -> str:
        raise RuntimeError(f"invalid api key {CANARY}")

    def unreadable(result: object) -> None:
        raise ValueError(CANARY)

    @route("answer", router=router, usage=unreadable)
    def works(question: str, *, model: str = "mid", max_tokens: int = 256) -> str:
        return "done"

    with caplog.at_level(logging.DEBUG), pytest.raises(RuntimeError):
        fails(CANARY)
    works(CANARY)
    assert "ValueError" in caplog.text
    assert CANARY not in caplog.text
    assert CANARY not in repr(world.store._rows) + repr(world.store._plans)


def test_the_command_line_shows_no_local_variables():
    """A traceback of the command line has lines of code, not the values in them."""
    from budgetroute.cli.app import app

    assert app.pretty_exceptions_show_locals is False


# what comes with us

ROOT = PACKAGE.parent


@pytest.mark.skipif(not (ROOT / "requirements-dev.lock").exists(), reason="not a checkout")
def test_the_lock_pins_hashes_and_no_addresses():
    """Every locked package has hashes, and none is fetched from an address."""
    text = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][^\s;=]*)==", text, re.MULTILINE | re.IGNORECASE)
    assert len(pins) > 50
    assert "litellm" in pins
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)
    assert all("--hash=sha256:" in block for block in blocks if "==" in block.split("\n")[0])
    assert not re.search(r"https?://|git\+|--index-url", re.sub(r"#.*", "", text))


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not a checkout")
def test_the_malicious_releases_cannot_be_resolved():
    """1.82.7 and 1.82.8 lie below the floor, 1.107.* is excluded by name."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    litellm = next(r for r in map(Requirement, project["dependencies"]) if r.name == "litellm")
    assert not any(
        litellm.specifier.contains(v) for v in ("1.82.7", "1.82.8", "1.107.0", "1.107.9")
    )
    assert litellm.specifier.contains("1.108.14")


FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


def test_nothing_unpickles_or_evaluates():
    """No module of the package names pickle, eval, exec or a shell."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.partition(".")[0] for alias in node.names}
                module = (getattr(node, "module", "") or "").partition(".")[0]
                assert not (names | {module}) & FORBIDDEN, where
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, where
            if isinstance(node, ast.keyword) and node.arg in {"shell", "allow_pickle"}:
                assert getattr(node.value, "value", True) is False, where


def test_servers_of_tests_and_demo_listen_here_only():
    """Nobody outside the machine reaches them."""
    from budgetroute.testing import ScriptedServer

    with ScriptedServer() as scripted:
        assert scripted.base_url.startswith("http://127.0.0.1:")
        assert scripted._loopback.port > 0
    text = (PACKAGE / "loopback" / "http.py").read_text(encoding="utf-8")
    assert re.findall(r'create_server\(\("([^"]*)"', text) == ["127.0.0.1"]
