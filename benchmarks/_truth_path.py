"""Cases of `truth.py` for tools that exist already: the slow program in the tail."""

from __future__ import annotations

import numpy as np

from benchmarks._truth import Case, Pair, named
from tileprobe.tools import load_tool
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit


def _tail() -> list[Pair]:
    """Four units of four programs of 100 ns; the last program of one of them takes 500."""
    unit = np.tile(np.arange(4), 4)
    lasts = np.full(16, 100)
    lasts[14] = 500
    start = np.repeat(np.arange(4) * 100, 4)
    trace = Trace.build(
        {"program": np.arange(16), "unit": unit, "region": np.zeros(16, int), "start": start, "stop": start + lasts},
        kernels=[Kernel(0, "tail", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (16,), 0.0, 800.0)],
        regions=[Region(0, "tail", "kernel")],
        units=[Unit(n, f"core {n}") for n in range(4)],
    )  # fmt: skip
    found = load_tool("programs").read(trace).findings
    slow = next(f for f in found if "program" in f.data)
    idle = next(f for f in found if "tail" in f.data)
    return [
        named("the slow program", slow.data["program"] == 14),
        Pair("its time", 500.0, slow.data["worst_ns"]),
        Pair("units idle at the end", 100 * 3 * 400 / (4 * 800), 100 * idle.data["tail"], "%"),
    ]


CASES = (Case("a slow program in the tail", "programs", "by hand", _tail),)
