"""What budgetroute adds to a call: import, decide, settle, next to litellm's Router, many processes.

    python benchmarks/overhead.py [--quick] [--json]

Absolute times on a shared machine are noisy; each comparison runs side by side in one process.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

from harness import Figure, at_least, at_most, exactly, options, report, say

from budgetroute import Router, pin, route
from budgetroute.backends.usage import read_usage

BLOCK = 20
HEAVY = ("litellm", "sklearn", "scipy", "numpy", "openai", "diskcache", "tenacity")
WORDS = [
    "explain",
    "how",
    "a",
    "careful",
    "baker",
    "could",
    "measure",
    "flour",
    "sugar",
    "and",
    "butter",
    "for",
    "seventeen",
    "cakes",
    "when",
    "the",
    "scale",
    "only",
    "shows",
    "whole",
    "ounces",
    "and",
    "the",
    "oven",
    "must",
    "be",
    "emptied",
    "before",
    "noon",
    "on",
    "a",
    "rainy",
    "day",
]
RESPONSE = {
    "model": "gpt-4o-mini",
    "choices": [{"finish_reason": "stop"}],
    "usage": {"prompt_tokens": 40, "completion_tokens": 120},
}


def messages(words: int) -> list[dict[str, str]]:
    text = (WORDS * (words // len(WORDS) + 1))[:words]
    return [{"role": "user", "content": " ".join(text)}]


def a_router(folder: str, **more: object) -> Router:
    return Router.from_config(
        overrides={"name": "bench", "budget.daily_usd": 1_000_000.0, "store.path": folder, **more}
    )


def routed(router: Router):  # noqa: ANN201 - a decorated function
    @route(router=router)
    def answer(messages, *, model="gpt-4o-mini", max_tokens=1024):  # noqa: ANN001, ANN202, ARG001
        return RESPONSE

    return answer


# --- import ---------------------------------------------------------------------------------

PROBE = """
import sys, time
begun = time.perf_counter()
{statement}
spent = time.perf_counter() - begun
heavy = [m for m in {heavy!r} if m in sys.modules]
status = open("/proc/self/status").read() if sys.platform == "linux" else ""
peak = float(status.partition("VmHWM:")[2].split()[0]) / 1024 if status else float("nan")
print(spent, peak, ",".join(heavy) or "-")
"""


def probe(statement: str) -> tuple[float, float, str]:
    code = PROBE.format(statement=statement, heavy=HEAVY)
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return float(out[0]), float(out[1]), out[2]


def imports(times: int) -> list[Figure]:
    bare = [probe("pass") for _ in range(times)]
    ours = [probe("import budgetroute") for _ in range(times)]
    used = [probe("from budgetroute import route, Router") for _ in range(times)]
    seconds = statistics.median(t for t, _, _ in ours) - statistics.median(t for t, _, _ in bare)
    memory = statistics.median(m for _, m, _ in ours) - statistics.median(m for _, m, _ in bare)
    heavy = sum(len(h.split(",")) for _, _, h in ours if h != "-")
    return [
        at_most("import budgetroute", seconds, "s", 0.15),
        at_most("import budgetroute, memory over bare Python", memory, "MB", 40),
        exactly("import budgetroute, heavy libraries loaded", heavy, "", 0),
        Figure(
            "from budgetroute import route, Router", statistics.median(t for t, _, _ in used), "s"
        ),
    ]


# --- decide and settle ----------------------------------------------------------------------


def decide_and_settle(times: int) -> list[Figure]:
    figures = []
    limits = {20: 250, 200: 450, 2000: None}
    with tempfile.TemporaryDirectory() as folder:
        router = a_router(folder)
        answer = routed(router)
        usages = [read_usage(RESPONSE)]
        for words, limit in limits.items():
            asked = messages(words)
            decide, settle = paired(router, answer.__budgetroute__, asked, usages, times)
            what = f"decide, {words} words (disk), p50"
            figures.append(
                Figure(what, decide, "us") if limit is None else at_most(what, decide, "us", limit)
            )
            figures.append(at_most(f"settle after {words} words (disk), p50", settle, "us", 100))
    return figures


def paired(router, carrier, asked, usages, times) -> tuple[float, float]:  # noqa: ANN001
    """Return median microseconds of (request + decide) and of settle, one after the other."""
    decides, settles = [], []
    for number in range(times + 20):
        begun = time.perf_counter_ns()
        request, _ = carrier.request(carrier.bind((asked,), {}))
        decision = router.decide(request)
        decided = time.perf_counter_ns()
        router.settle(decision, usages)
        settled = time.perf_counter_ns()
        if number >= 20:
            decides.append(decided - begun)
            settles.append(settled - decided)
    return statistics.median(decides) / 1000, statistics.median(settles) / 1000


# --- next to litellm's Router ---------------------------------------------------------------


def next_to_litellm(times: int) -> list[Figure]:
    """Time litellm.completion with a mock answer bare, under @route, and through litellm's Router."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    warnings.simplefilter("ignore")
    say("importing litellm …")
    import litellm

    litellm.suppress_debug_info = True
    asked = messages(20)
    theirs = litellm.Router(
        model_list=[
            {
                "model_name": "gpt-4o-mini",
                "litellm_params": {"model": "gpt-4o-mini", "api_key": "x"},
            }
        ],
        num_retries=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        ours = route(router=a_router(folder, **{"routes.bench.providers": ["openai"]}))(
            litellm.completion
        )

        def bare() -> None:
            litellm.completion(
                model="gpt-4o-mini", messages=asked, mock_response="ok", max_tokens=1024
            )

        def under_route() -> None:
            with pin(model="gpt-4o-mini", cot=False):
                ours(model="gpt-4o-mini", messages=asked, mock_response="ok", max_tokens=1024)

        def their_router() -> None:
            theirs.completion(
                model="gpt-4o-mini", messages=asked, mock_response="ok", max_tokens=1024
            )

        spans = interleaved([bare, under_route, their_router], times)
    base, added_ours, added_theirs = spans[0], spans[1] - spans[0], spans[2] - spans[0]
    return [
        Figure("litellm.completion, mock answer, p50", base, "us"),
        Figure("added by @route", added_ours, "us"),
        Figure("added by litellm's Router", added_theirs, "us"),
        at_most(
            "added by @route / added by litellm's Router", added_ours / added_theirs, "", 1 / 3
        ),
    ]


def interleaved(works, times: int) -> list[float]:  # noqa: ANN001
    """Return each work's microseconds a call, median over blocks taken in turns.

    A block ends when litellm's logging threads are idle again: what they do belongs to the calls
    that caused it, and must not be paid by whichever block comes next and lets them run.
    """
    spans: list[list[float]] = [[] for _ in works]
    for block in range(times // BLOCK + 1):
        for place, work in enumerate(works):
            begun = time.perf_counter_ns()
            for _ in range(BLOCK):
                work()
            drained()
            if block:
                spans[place].append((time.perf_counter_ns() - begun) / BLOCK)
    return [statistics.median(span) / 1000 for span in spans]


def drained() -> None:
    """Wait until litellm's logging threads have nothing left to do."""
    from litellm.litellm_core_utils.thread_pool_executor import executor

    while not executor._work_queue.empty() or executor._idle_semaphore._value < len(  # noqa: SLF001
        executor._threads  # noqa: SLF001
    ):
        time.sleep(0.0002)


# --- many processes -------------------------------------------------------------------------


def work_hard(folder: str, calls: int, start: float) -> tuple[list[float], float, float, float]:
    """Run calls on the shared store; return spans in ms, begin, end, and dollars billed."""
    router = a_router(folder)
    carrier = routed(router).__budgetroute__
    asked, usages = messages(20), [read_usage(RESPONSE)]
    request, _ = carrier.request(carrier.bind((asked,), {}))
    warm = router.decide(request)
    billed = router.settle(warm, usages).amount
    while time.time() < start:
        time.sleep(0.01)
    spans, begun = [], time.time()
    for _ in range(calls):
        at = time.perf_counter()
        request, _ = carrier.request(carrier.bind((asked,), {}))
        decision = router.decide(request)
        billed += router.settle(decision, usages).amount
        spans.append((time.perf_counter() - at) * 1000)
    return spans, begun, time.time(), billed


def many_processes(processes: int, calls: int) -> list[Figure]:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        start = time.time() + 3.0 + processes * 0.5
        with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
            runs = [pool.submit(work_hard, folder, calls, start) for _ in range(processes)]
            done = [run.result() for run in runs]
        status = a_router(folder).status()
    spans = sorted(span for spans, *_ in done for span in spans)
    seconds = max(end for _, _, end, _ in done) - min(begin for _, begin, _, _ in done)
    billed = sum(amount for *_, amount in done)
    lost = round(status.spent_usd * 1e12) - billed
    return [
        at_least(f"decide+settle, {processes} processes, one disk store",
                 processes * calls / seconds, "/s", 3000),
        at_most(f"decide+settle, {processes} processes, p99", spans[int(len(spans) * 0.99)], "ms", 50),
        exactly("calls lost or doubled", status.calls - processes * (calls + 1), "", 0),
        exactly("ledger − Σ billed", lost / 1e12, "$", 0),
    ]  # fmt: skip


def main() -> None:
    said = options(__doc__.splitlines()[0])
    quick = said.quick
    say("imports …")
    figures = imports(5 if quick else 15)
    say("decide and settle …")
    figures += decide_and_settle(500 if quick else 3000)
    say("8 processes …")
    figures += many_processes(8, 400 if quick else 2000)
    figures += next_to_litellm(200 if quick else 1000)
    figures.append(
        Figure("peak memory of this run",
               resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")
    )  # fmt: skip
    report(figures, as_json=said.json)


if __name__ == "__main__":
    main()
