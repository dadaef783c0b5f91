"""Traces of loops whose loads run ahead, built by the rules of a machine with so many buffers."""

import numpy as np

from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

REGIONS = [
    Region(0, "k", "kernel"),
    Region(1, "loop @ 3", "loop", 0),
    Region(2, "iteration", "iteration", 1),
    Region(3, "async copy @ 4", "async", 0),
    Region(4, "dot @ 5", "dot", 2),
    Region(5, "release @ 5", "async", 2),
]
NAMES = ("program", "stream", "region", "kind", "iteration", "start", "stop")


def rows_of(rounds, depth, load, compute, *, wake=0, begin=100, program=0):
    """Load j is issued when the product of round j - depth is over, and takes `load`; `wake` is what a wait costs that
    finds all there."""
    ended, rows, now = [begin] * depth, [], begin
    issued = [begin] * depth
    first = begin
    for j in range(rounds):
        there = max(now + wake, issued[j] + load)
        if j == 0:  # it is waited for in front of the loop
            rows.append((program, 0, 3, "async", 0, issued[0], there))
            rows.append((program, 0, 3, "wait", 0, now, there))
            now = first = there
        else:
            rows.append((program, 0, 3, "async", j, issued[j], there))
            rows.append((program, 0, 3, "wait", j, now, there))
        start, now = now, there + compute
        rows.append((program, 0, 4, "region", j, there, now))
        rows.append((program, 0, 2, "region", j, start, now))
        issued.append(now)
        ended.append(now)
    rows.append((program, 0, 1, "region", -1, first, now))
    rows.append((program, 0, 0, "region", -1, begin - 10, now + 10))
    return rows


def trace_of(rows, streams=(), launches=1):
    columns = {name: list(column) for name, column in zip(NAMES, zip(*rows))}
    unit = np.array(columns["program"])
    return Trace.build(
        {**columns, "unit": unit},
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9, "simulated"), streams=streams)],
        launches=[Launch(n, 0, (4,), 0.0, 1e6, losses=Losses(1)) for n in range(launches)],
        regions=REGIONS,
        units=[Unit(n, f"SM {n}", "sm") for n in range(int(unit.max()) + 1)],
    )
