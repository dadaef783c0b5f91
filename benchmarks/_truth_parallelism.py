"""Cases of `truth.py` for `parallelism`: multiply-adds of which each needs the one before."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from benchmarks._truth import CPU, Case, Pair, named

LINKS, ROUNDS, TURNS = 128, 2000, 8
CYCLES = 4  # of a multiply-add on an A100 (machines/a100.toml)


@triton.jit
def chained(x, out, n, LINKS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    y = tl.load(x + i)
    for _ in range(n):
        for _ in tl.static_range(LINKS):
            y = y * 0.999 + 0.5
    tl.store(out + i, y)


def _read(target: str, launches: int, rounds: int, block: int, **options: Any) -> tuple[Any, list[Any]]:
    import tileprobe

    x, out = (tileprobe.array(np.ones(block, np.float32)) for _ in range(2))
    with tileprobe.use(target, **options), tileprobe.profile(tools=["parallelism"]) as session:
        for _ in range(launches):
            chained[(1,)](x, out, rounds, LINKS=LINKS, BLOCK=block, num_warps=1)
    (result,) = session.results()
    return result.tables[0].frame.to_dicts()[0], result.findings


def _cpu() -> list[Pair]:
    """The chain takes its links, whatever else the core could do meanwhile."""
    row, findings = _read("cpu", 20, ROUNDS, 16)
    return [
        named("held up by latency", findings[0].data["limit"] == "latency"),
        Pair("time of a round, by its chain", row["measured_ns"], row["limit_ns"]),
        Pair("chains in flight", 1.0, row["in_flight"], ""),
    ]


def _simulated() -> list[Pair]:
    row, findings = _read("sim:a100", 1, TURNS, 32, timed=True, check=False)
    took = row["issued"] + row["of_it"] * row["cycles"]  # issued, and waited for the one before
    return [
        named("waits for the instruction before", findings[0].data["stall"] == "wait"),
        named("the line", row["line"] == chained.fn.__code__.co_firstlineno + 6),
        Pair("cycles of the chain", CYCLES * LINKS * TURNS, took, "cycles"),
    ]


CASES = (
    Case("a chain of dependent multiply-adds", "parallelism", "cpu", _cpu, CPU),
    Case("a chain of dependent multiply-adds", "parallelism", "sim:a100", _simulated),
)
