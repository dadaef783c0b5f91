"""Cases of `truth.py` for the critical path: a slow program in the tail, a barrier released late, a chain of loads."""

from __future__ import annotations

import numpy as np
import polars as pl
import triton
import triton.language as tl

import tileprobe
from benchmarks._truth import CPU, Case, Pair, named
from tileprobe.tools import load_tool
from tileprobe.tools.result import Result
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit


def _asked(trace: Trace) -> Result:
    return load_tool("critical-path").read(trace)


def _table(result: Result, title: str):
    return next(t.frame for t in result.tables if title in t.title)


def _tail() -> list[Pair]:
    """Four units of four programs of 100 ns; the third unit's last one takes 500."""
    unit, lasts = np.tile(np.arange(4), 4), np.full(16, 100)
    lasts[14] = 500
    start = np.repeat(np.arange(4) * 100, 4)
    trace = Trace.build(
        {"program": np.arange(16), "unit": unit, "region": np.zeros(16, int), "start": start, "stop": start + lasts},
        kernels=[Kernel(0, "tail", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (16,), 0.0, 800.0)],
        regions=[Region(0, "tail", "kernel")],
        units=[Unit(n, f"core {n}") for n in range(4)],
    )  # fmt: skip
    found = next(f.data for f in _asked(trace).findings if "tail" in f.data)
    return [named("the slow program", found["program"] == 14), Pair("the tail", 400, found["tail"]["ns"])]


def _barrier() -> list[Pair]:
    """A producer that could have gone on after 10 ns waits, ten times, until a consumer arrives 80 ns later."""
    rows, edges = [], []
    for n in range(10):
        at = 100 * n
        rows += [
            (0, 1, "region", at, at + 90),
            (1, 2, "region", at, at + 10),
            (1, 3, "wait", at + 10, at + 92),
        ]
        rows += [(1, 2, "region", at + 92, at + 100), (0, 4, "wait", at + 90, at + 100)]
        edges += [(0, 1, at + 90, 1, 3, at + 92), (1, 2, at + 99, 0, 4, at + 100)]
    names = ("from_stream", "from_region", "from_ns", "to_stream", "to_region", "to_ns")
    count = len(edges)
    fixed = {"launch": [0] * count, "kind": ["arrive-wait"] * count}
    fixed |= {f"{end}_{name}": [0] * count for end in ("from", "to") for name in ("program", "unit")}
    trace = Trace.build(
        dict(zip(("stream", "region", "kind", "start", "stop"), zip(*rows))),
        kernels=[Kernel(0, "k", "sim:h100", Clock(1e9, "simulated"), streams=("consumer", "producer"))],
        launches=[Launch(0, 0, (1,), 0.0, 1000.0)],
        regions=[Region(0, "k", "kernel"), Region(1, "dot @ 5", "dot"), Region(2, "load @ 2", "load"),
                 Region(3, "wait @ 1", "wait"), Region(4, "wait @ 4", "wait")],
        units=[Unit(0, "SM 0", "sm")],
        edges=fixed | dict(zip(names, zip(*edges))),
    )  # fmt: skip
    held = _table(_asked(trace), "waits for").row(0, named=True)
    right = held["name"] == "producer: wait @ 1" and held["whom"] == "consumer: dot @ 5"
    return [named("who is late", right), Pair("waited for it", 820, held["ns"])]


@triton.jit
def chase(x, out, n):
    at = 0
    for _ in range(n):
        at = tl.load(x + at)
    tl.store(out, at)


def _chase() -> list[Pair]:
    """Each load waits for the one before it, all in L1 but the first: the path is loads, each as long as published."""
    from tileprobe.targets.simgpu.machine import machine

    found, loads = {}, (100, 300)
    for count in loads:
        x, out = (tileprobe.array(np.zeros(64, np.int32)) for _ in range(2))
        with tileprobe.use("sim:a100", timed=True), tileprobe.profile() as session:
            chase[(1,)](x, out, count, num_warps=1)
        top = _table(_asked(session.trace), "on the critical path").row(0, named=True)
        found[count] = top["ns"] * top["waited"]
    hz = machine("a100").clock_mhz / 1e3
    each = (found[loads[1]] - found[loads[0]]) / (loads[1] - loads[0]) * hz
    return [Pair("a load that is waited for", machine("a100").timing.latency_l1, each, "cycles")]


@triton.jit
def late(x, out, short, long, slow, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    steps = tl.where(tl.program_id(0) == slow, long, short)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(steps):
        total += tl.sqrt(tl.load(x + (step % 8) * BLOCK + i))
    tl.store(out + tl.program_id(0) * BLOCK + i, total)


def _cpu_tail() -> list[Pair]:
    """The last of 16 programs on two cores takes 24 times as many steps as the others: all that it takes beyond
    the other core's work is tail. Programs are long enough for the other core to wake up for the first of them."""
    short, long = 4000, 96000
    x, out = tileprobe.array(np.ones((8, 512), np.float32)), tileprobe.array(np.zeros((16, 512), np.float32))
    with tileprobe.use("cpu", threads=2):
        late[(16,)](x, out, short, long, 15, BLOCK=512)
        with tileprobe.profile(tools=("critical-path",), programs="all") as session:
            for _ in range(12):
                late[(16,)](x, out, short, long, 15, BLOCK=512)
    findings = session.results()[0].findings
    told = _on_two_cores(session.trace) and not any("crowded" in f.data for f in findings)
    tails = [f.data for f in findings if "tail" in f.data]
    found = tails[0] if tails else {"program": None, "tail": {"share": 0.0}}
    # 15 others on two cores; the slow one begins when the first of the last two is over
    planted = (long - short) / (long + 7 * short)
    return [
        Pair("the slow program", 1.0, float(found["program"] == 15), "", told),
        Pair("the tail", 100 * planted, 100 * found["tail"]["share"], "%", told),
    ]


def _on_two_cores(trace: Trace) -> bool:
    """Whether all launches but a few had two cores at work, each for itself."""
    cores = trace.scan().group_by("launch").agg(pl.col("unit").n_unique()).collect()["unit"]
    return bool((cores == 2).mean() > 0.9)


CASES = (
    Case("the last program is slow", "critical-path", "by hand", _tail),
    Case("a barrier is released late", "critical-path", "by hand", _barrier),
    Case("a chain of loads", "critical-path", "sim:a100", _chase),
    Case("the last program is slow", "critical-path", "cpu", _cpu_tail, CPU),
)
