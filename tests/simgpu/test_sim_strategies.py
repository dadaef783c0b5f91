"""How records are kept, executed as machine code by the simulated GPU: the last iterations only, each warp for itself,
and beside another profiler."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.language import scope
from tileprobe.session.session import Session
from tileprobe.tools.overhead import overhead

TRIPS, WARPS = 9, 4


@triton.jit
def added_up(x, out, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(count):
        total += tl.load(x + step * BLOCK + i)
        tl.store(out + i, total)


def profiled(**options):
    x = np.arange(TRIPS * 256, dtype=np.float32).reshape(TRIPS, 256)
    with tileprobe.use("sim:a100"):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(256, np.float32))
        with Session(min_cost=0.0, programs="all", alternate=False, **options) as session:
            for _ in range(3):
                added_up[(1,)](held, out, TRIPS, BLOCK=256, num_warps=WARPS)
        assert np.array_equal(out.numpy(), x.sum(0))
    assert not session.problems
    return session.trace


def iterations(trace):
    """By stream the iterations of one probed launch, in the order of their clocks."""
    region = [r.id for r in trace.regions if r.kind == "iteration"]
    launch = next(one.id for one in trace.launches if one.probed)
    rows = trace.intervals.filter(
        (trace.intervals["launch"] == launch) & trace.intervals["region"].is_in(region)
    ).sort("start")
    found = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(row["stream"], []).append(row["iteration"])
    return list(found.values())


@pytest.mark.parametrize("buffer", ["global", "shared"])
def test_circular_keeps_the_last_iterations(buffer):
    trace = profiled(capacity=4, records={"strategy": "circular", "buffer": buffer})
    assert iterations(trace) == [list(range(TRIPS - 4, TRIPS))]


def test_every_warp_flushes_its_own():
    """Room for some of the nine iterations of four warps at a time; all of them come back."""
    words = {"buffer": "shared", "strategy": "flush", "shared_words": 120, "granularity": "warp"}
    trace = profiled(capacity=16, records=words)
    assert 0 < trace.kernels[0].layout["loops"][0]["window"] < TRIPS
    assert iterations(trace) == WARPS * [list(range(TRIPS))]


def test_protons_hooks_may_be_active():
    """Its passes are in Triton's pipeline and its allocator is Triton's: it keeps both, and our records come back."""
    pytest.importorskip("triton.profiler")
    from triton.profiler import mode
    from triton.profiler.hooks.instrumentation import InstrumentationHook
    from triton.runtime import _allocation

    with tileprobe.use("sim:a100"):
        hook = InstrumentationHook(mode.Default())
        hook.activate()
    try:
        trace = profiled()
        assert _allocation._profile_allocator.get() is hook.allocator
    finally:
        with tileprobe.use("sim:a100"):
            hook.deactivate()
    assert iterations(trace) == [list(range(TRIPS))]


@triton.jit
def raised(x, out, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(count):
        row = tl.load(x + step * BLOCK + i)
        with scope("bare"):
            total += tl.exp2(row)
    tl.store(out + i, total)


def test_a_scope_of_arithmetic_alone_is_a_region():
    """No load, store or product lies in it; every iteration has it."""
    x = np.zeros((TRIPS, 128), np.float32)
    with tileprobe.use("sim:a100"):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(128, np.float32))
        with Session(min_cost=0.0, programs="all", alternate=False) as session:
            raised[(1,)](held, out, TRIPS, BLOCK=128, num_warps=WARPS)
        assert (out.numpy() == TRIPS).all()
    trace = session.trace
    (bare,) = [r for r in trace.regions if (r.name, r.kind) == ("bare", "scope")]
    rows = trace.intervals.filter(trace.intervals["region"] == bare.id).sort("start")
    assert rows["iteration"].to_list() == list(range(TRIPS))
    assert (rows["stop"].to_numpy() > rows["start"].to_numpy()).all()


def test_overhead_is_what_was_counted():
    """Instructions are the same in every launch: one of each sort says what probes add, exactly."""
    x = np.zeros((TRIPS, 256), np.float32)
    with tileprobe.use("sim:a100"):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(256, np.float32))
        with Session(min_cost=0.0, programs="all") as session:
            for _ in range(4):
                added_up[(1,)](held, out, TRIPS, BLOCK=256, num_warps=WARPS)
    trace = session.trace
    counts = {
        probed: {one.duration_ns for one in trace.launches if one.probed is probed}
        for probed in (True, False)
    }
    (with_probes,), (without,) = counts[True], counts[False]
    found = overhead(trace, trace.kernels[0])
    assert found.measurable
    assert found.percent == pytest.approx(100 * (with_probes / without - 1))
    assert found.low == found.high == found.percent
