"""The ledger on disk under load: reserve + settle, and whole decisions, at 1, 2, 4 and 8 processes.

    python benchmarks/ledger.py [--quick] [--json]

Nothing may be lost or doubled, and no cap crossed, while it is measured.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from faultlab import AT, WORST, Lab, asked, billed, ended, slot
from harness import Figure, at_least, exactly, options, report, say
from overhead import many_processes

from budgetroute.records import Balance, Grant
from budgetroute.stores.books import verify

AMOUNT = 300
PROCESSES = (1, 2, 4, 8)
RANKED = ",".join(
    f'{{"action":"gpt-4o-mini/{cap}","R":0.7,"C":0.000171,"surplus":0.6921,"source":"pooled"}}'
    for cap in (256, 512, 1024, 2048, 4096)
)
DECIDED = (
    '{"v":1,"route":"answer","types":[["general",0.93],["math",0.07]],"by":"linear",'
    f'"input_tokens":40.0,"lambda":60.12,"propensity":0.41,"plan_steps":12,"best":[{RANKED}],'
    '"steps":["gpt-4o-mini/4096"],"worst":[0.0026],"gated":{"no parameter carries cot":["a","b"]},'
    '"why":"+1.1 points for $0.000004 more ($0.01667 buys a unit); flips above λ 2993"}'
)
"""A decision's record as the router writes it: its size is what a row mostly is."""
OUTCOME = (
    '{"source":"reported","billed_as":"gpt-4o-mini","input":40,"cached":0,"cache_write":0,'
    '"output":120,"reasoning":0,"model":"gpt-4o-mini","finish":"stop","planned":"gpt-4o-mini/4096"}'
)


@dataclass(frozen=True)
class Race:
    """What processes that reserved and settled at once came to.

    Attributes:
        spans: milliseconds of each reserve + settle, sorted.
        rate: of them in a second, all processes together.
        cpu_us: CPU time of each: it is steadier than the clock where others use the machine.
        granted: how many were granted.
        highest: settled + held, the highest that any of them was shown.
        sums: the day's sums afterwards.
        is_true: the audit found nothing.
        row_bytes: of the ledger's file, for each attempt.
    """

    spans: list[float]
    rate: float
    cpu_us: float
    granted: int
    highest: int
    sums: Balance
    is_true: bool
    row_bytes: float

    def at(self, share: float) -> float:
        return self.spans[min(len(self.spans) - 1, int(len(self.spans) * share))]


def race(processes: int, calls: int, *, limit: int = 10**15) -> Race:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), limit=limit)
        lab.folder.mkdir()
        lab.prepare()
        begin = time.time() + 0.3 + 0.05 * processes
        statuses = ended(
            [lab.spawn(partial(run, calls=calls, begin=begin)) for _ in range(processes)]
        )
        if any(statuses):
            raise RuntimeError(f"a process failed: {statuses}")
        seen = [json.loads(path.read_text()) for path in lab.root.glob("*.seen")]
        with contextlib.closing(lab.store()) as store:
            sums = store.snapshot([slot()])[0]
        spans = sorted(span for each in seen for span in each["spans"])
        return Race(
            spans,
            rate=len(spans) / (max(each["end"] for each in seen) - begin),
            cpu_us=sum(each["cpu"] for each in seen) / len(spans) * 1e6,
            granted=sum(each["granted"] for each in seen),
            highest=max(each["highest"] for each in seen),
            sums=sums,
            is_true=verify(lab.ledger, now=AT).is_clean,
            row_bytes=lab.ledger.stat().st_size / max(1, sums.calls),
        )


def run(lab: Lab, name: str, *, calls: int, begin: float) -> None:
    """Reserve and settle `calls` times from `begin` on; leave what was seen in a file."""
    store, spans, granted, highest = lab.store(), [], 0, 0
    store.snapshot([slot()])
    time.sleep(max(0.0, begin - time.time()))
    cpu = time.process_time()
    for number in range(calls):
        ask = replace(asked(f"{name}{number:012x}#1", at=AT, limit=lab.limit), record=DECIDED)
        begun = time.perf_counter()
        answer = store.reserve(ask)
        if isinstance(answer, Grant):
            store.settle(replace(billed(ask, AMOUNT), record=OUTCOME))
            granted += 1
            highest = max(highest, answer.balances[0].settled + answer.balances[0].held)
        spans.append((time.perf_counter() - begun) * 1000)
    end, cpu = time.time(), time.process_time() - cpu
    store.close()
    seen = {"spans": spans, "end": end, "cpu": cpu, "granted": granted, "highest": highest}
    (lab.root / f"{name}.seen").write_text(json.dumps(seen))


def bare(processes: int, calls: int) -> list[Figure]:
    """Measure reserve + settle with rows written, without a router."""
    done = race(processes, calls)
    what = f"reserve+settle, {processes} process{'es' * (processes > 1)}"
    wrong = abs(done.sums.calls - processes * calls)
    wrong += done.sums.settled != AMOUNT * processes * calls or not done.is_true
    figures = [
        Figure(what, done.rate, "/s"),
        Figure(f"{what}, p50", done.at(0.5), "ms"),
        Figure(f"{what}, p99", done.at(0.99), "ms"),
        Figure(f"{what}, CPU of each", done.cpu_us, "us"),
        exactly(f"{what}, lost or doubled", wrong, "", 0),
    ]
    if processes == PROCESSES[-1]:
        figures.append(Figure("bytes of an attempt on disk", done.row_bytes, "B"))
    return figures


def capped(processes: int, calls: int) -> list[Figure]:
    """Let processes race for a cap that holds two thirds of what they ask for."""
    limit = AMOUNT * processes * calls * 2 // 3
    done = race(processes, calls, limit=limit)
    over = max(0, done.highest - limit, done.sums.settled + done.sums.held - limit)
    return [
        exactly(f"cap, {processes} processes, crossed by", over / 1e12, "$", 0),
        at_least(f"cap, {processes} processes, used", done.sums.settled / limit * 100, "%",
                 100 * (1 - WORST / limit)),
        exactly("cap, granted − rows", done.granted - done.sums.calls, "", 0),
    ]  # fmt: skip


def whole(processes: int, calls: int) -> list[Figure]:
    """Measure whole decisions through the router; only 8 processes have a target."""
    found = many_processes(processes, calls)
    if processes == PROCESSES[-1]:
        return found
    return [Figure(each.what, each.value, each.unit) for each in found[:2]] + found[2:]


def main() -> None:
    said = options(__doc__.splitlines()[0])
    quick = said.quick
    figures: list[Figure] = []
    for processes in PROCESSES:
        say(f"reserve + settle, {processes} …")
        figures += bare(processes, (1500 if quick else 20_000) // processes)
    say("cap …")
    figures += capped(8, 150 if quick else 2000)
    for processes in PROCESSES[-1:] if quick else PROCESSES:
        say(f"decide + settle, {processes} …")
        figures += whole(processes, 400 if quick else 2000)
    report(figures, as_json=said.json)


if __name__ == "__main__":
    main()
