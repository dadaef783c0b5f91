"""Records of a pipelined loop at odd sizes, executed as machine code by the simulated GPU: no iteration, fewer than the
pipeline has stages, more than there is room for; one program, and a grid of three dimensions."""

import math
import os

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session.session import Session
from tileprobe.targets.gpu import thinned

STAGES, WARPS, ROOM, MOST = 4, 8, 4, 9
LAUNCHES = [((1,), trips) for trips in (0, 1, 2, 4, MOST)] + [((2, 1, 3), trips) for trips in (0, 2, MOST)]
STREAMS = {"program": 1, "warp_group": 2, "warp": WARPS}
FLUSHED = {"program": 160, "warp_group": 160, "warp": 512}  # words, room for a part of nine iterations


@triton.jit(do_not_specialize=["count"])
def product(a, b, out, count, STAGES: tl.constexpr):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    program = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(
        0
    )
    total = tl.zeros([32, 32], tl.float32)
    for step in tl.range(0, count, num_stages=STAGES):
        total = tl.dot(tl.load(a + step * 1024 + at), tl.load(b + step * 1024 + at), total)
    tl.store(out + program * 1024 + at, total)


def launched():
    """What each launch leaves in memory, and a place behind its programs."""
    rng = np.random.default_rng(0)
    a, b = (tileprobe.array(rng.standard_normal((MOST, 32, 32)).astype(np.float16)) for _ in range(2))
    found = []
    for grid, trips in LAUNCHES:
        out = tileprobe.array(np.full((7, 32, 32), 7, np.float32))
        product[grid](a, b, out, trips, STAGES=STAGES, num_warps=WARPS)
        found.append(np.array(out.numpy()).view(np.int32))
    return found


@pytest.fixture(scope="module")
def plain():
    with tileprobe.use("sim:a100"):
        return launched()


def kept(strategy, trips):
    if strategy == "exact":
        return list(range(min(trips, ROOM)))
    return list(range(max(0, trips - ROOM) if strategy == "circular" else 0, trips))


EVERY = [
    (strategy, buffer, granularity, bits)
    for strategy in ("exact", "circular", "flush")
    for buffer in ("global", "shared")
    if (strategy, buffer) != ("flush", "global")
    for granularity in STREAMS
    for bits in (64, 32)
]
# Each strategy, buffer, granularity and clock, both clocks in global memory.
SOME = [
    ("exact", "global", "warp", 64),
    ("exact", "global", "program", 32),
    ("circular", "global", "warp_group", 32),
    ("circular", "shared", "program", 32),
    ("flush", "shared", "warp_group", 64),
]


@pytest.mark.parametrize(
    ("strategy", "buffer", "granularity", "bits"), EVERY if os.environ.get("TILEPROBE_GPU_ALL") else SOME
)
def test_every_iteration_once_and_in_order(plain, strategy, buffer, granularity, bits, monkeypatch):
    records = {
        "strategy": strategy,
        "buffer": buffer,
        "granularity": granularity,
        "clock_bits": bits,
        "shared_words": FLUSHED[granularity] if strategy == "flush" else 2048,
    }
    monkeypatch.setattr(thinned, "_BEARABLE", 1.0)  # these records, whatever they cost
    room = 16 if strategy == "flush" else ROOM
    with (
        tileprobe.use("sim:a100"),
        Session(min_cost=0.0, programs="all", alternate=False, capacity=room, records=records) as session,
    ):
        found = launched()
    assert all(np.array_equal(one, other) for one, other in zip(found, plain, strict=True))
    assert not session.problems
    trace = session.trace
    if strategy == "flush":
        assert 0 < trace.kernels[0].layout["loops"][0]["window"] < MOST
    (region,) = [region.id for region in trace.regions if region.kind == "iteration"]
    assert len(trace.launches) == len(LAUNCHES)
    for launch, (grid, trips) in zip(trace.launches, LAUNCHES, strict=True):
        assert launch.probed
        rows = trace.intervals.filter(trace.intervals["launch"] == launch.id).sort("start")
        streams = rows.partition_by(["program", "stream"])
        assert len(streams) == math.prod(grid) * STREAMS[granularity]
        for one in streams:
            steps = one.filter(one["region"] == region)
            assert steps["iteration"].to_list() == kept(strategy, trips)
            assert (steps["start"].to_numpy()[1:] >= steps["stop"].to_numpy()[:-1]).all()
        unkept = trips - len(kept(strategy, trips))
        assert (launch.losses.lost > 0) == (unkept > 0)
        # As many records an iteration lost as kept.
        assert launch.losses.lost * len(kept(strategy, trips)) == unkept * (
            launch.losses.kept - _outside(trace, grid)
        )


def _outside(trace, grid):
    """Records of a launch of that grid that no iteration has: those of the one without any."""
    return next(
        one.losses.kept
        for one, (size, trips) in zip(trace.launches, LAUNCHES, strict=True)
        if (size, trips) == (grid, 0)
    )
