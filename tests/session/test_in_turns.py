"""Launches of a simulated machine begin at zero by its clock: in the trace they lie one behind the other."""

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.machine import INSTRUCTIONS, SIMULATED, Clock
from tileprobe.session.in_turns import in_turns
from tileprobe.session.making import Making, corrected
from tileprobe.trace.model import Kernel, Launch


def making(clock=SIMULATED, layout=True, target="sim:a100"):
    """Two kernels in turns, 2 GHz: launches 0 and 1 of the one, 2 of the other, which the host made in between."""
    made = Making()
    layouts = {} if layout else None
    made.kernels = [Kernel(n, "k", target, Clock(2e9, clock), layout=layouts) for n in range(2)]
    made.launches = [
        Launch(0, 0, start_ns=5e9, duration_ns=100.0),
        Launch(1, 0, start_ns=9e9, duration_ns=100.0),
        Launch(2, 1, start_ns=7e9, duration_ns=30.5),
    ]
    for launches, stop in (([0, 1], 150), ([2], 40)):
        ends = np.full(len(launches), stop, np.int64)
        columns = {"launch": np.array(launches, np.uint32), "start": ends - stop + 3, "stop": ends}
        made.intervals.append(corrected(columns, ("start", "stop")))
    edges = {"launch": np.array([1], np.uint32), "from_tick": np.array([3]), "to_tick": np.array([9])}
    made.edges.append(corrected(edges, ("from_tick", "to_tick")))
    return made


def starts(made, name="start"):
    return {
        int(launch): float(at) for piece in made.intervals for launch, at in zip(piece["launch"], piece[name])
    }


def test_a_launch_begins_where_the_one_before_ended():
    made = making()
    in_turns(made)
    assert starts(made) == {0: 3, 2: 200 + 3, 1: 200 + 61 + 3}
    assert starts(made, "stop_corrected") == {0: 150, 2: 200 + 40, 1: 261 + 150}
    (edge,) = made.edges
    assert [edge[name][0] for name in ("from_tick", "to_tick_corrected")] == [264, 270]


def test_instructions_are_counted_to_the_last_of_them():
    made = making(INSTRUCTIONS)  # a launch has those of all its warps, which are not one behind the other
    in_turns(made)
    assert starts(made) == {0: 3, 2: 150 + 3, 1: 190 + 3}


@pytest.mark.parametrize("other", [{"clock": "tsc", "target": "cpu"}, {"layout": False}])
def test_clocks_that_go_on_are_left_alone(other):
    made = making(**other)
    in_turns(made)
    assert starts(made) == {0: 3, 1: 3, 2: 3}


@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for step in range(n):
        tl.store(x + step * BLOCK + i, 2 * tl.load(x + step * BLOCK + i))


@pytest.mark.parametrize("timed", [True, False])
def test_recorded_launches_of_a_simulated_gpu_do_not_overlap(timed):
    x = tileprobe.array(np.ones(2048, np.float32))
    options = {"timed": True, "probes": "free"} if timed else {}
    with tileprobe.use("sim:a100", **options), tileprobe.profile(programs="all", alternate=False) as session:
        for _ in range(2):
            twice[(1,)](x, 4, BLOCK=512)
            twice[(1,)](x, 8, BLOCK=256)
    ends = pl.col("start_ns").min(), pl.col("stop_ns").max()
    spans = session.trace.scan().group_by("launch").agg(ends).sort("start_ns").collect()
    host = sorted(session.trace.launches, key=lambda launch: launch.start_ns)
    assert spans["launch"].to_list() == [launch.id for launch in host]
    assert (spans["start_ns"][1:] >= spans["stop_ns"][:-1]).all()
