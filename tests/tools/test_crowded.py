"""Threads that share a core: said where it is much, of cores of a CPU, and of nothing else."""

import pytest

from tileprobe.tools import load_tool
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit


def trace(spans, clock="steady", kind="core"):
    """Programs of one launch: (unit, start, stop) of each."""
    unit, start, stop = zip(*spans)
    return Trace.build(
        {
            "program": list(range(len(spans))),
            "unit": unit,
            "region": [0] * len(spans),
            "start": start,
            "stop": stop,
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9, clock))],
        launches=[Launch(0, 0, (len(spans),), 0.0, float(max(stop)))],
        regions=[Region(0, "k", "kernel")],
        units=[Unit(n, f"{kind} {n}", kind) for n in range(2)],
    )


def told(one):
    return [f for f in load_tool("critical-path").read(one).findings if "crowded" in f.data]


ALONE = [(0, 0, 100), (1, 0, 100), (0, 100, 400)]
SHARED = [(0, 0, 100), (0, 50, 150), (0, 150, 400)]


def test_two_threads_of_one_core_are_told():
    (found,) = told(trace(SHARED))
    assert found.level == "warning" and found.data["crowded"] == pytest.approx(50 / 400)
    assert "12 % of the time" in found.text and "cannot be trusted" in found.text
    assert not told(trace(ALONE))
    assert not told(trace([(0, 0, 100), (0, 90, 400)]))  # a moment
    (long,) = told(trace([(0, 0, 400), (0, 100, 200), (0, 250, 300)]))  # two within the first
    assert long.data["crowded"] == pytest.approx(150 / 400)


def test_units_that_take_several_programs_by_design_are_not():
    assert not told(trace(SHARED, kind="sm")) and not told(trace(SHARED, "simulated"))
