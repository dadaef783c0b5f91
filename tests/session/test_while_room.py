"""`while` loops that run longer than there is room for: later launches spread their records over all of it, and
`capacity` is room for them, too. Counts are compared, never times."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.tools.regions import region_tree

PROGRAMS, LATE = 4, 300
TRIPS = (2000, 1000, 20, 20)


@triton.jit
def late_kernel(x_ptr, n_ptr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    n = tl.load(n_ptr + p)
    v = tl.load(x_ptr + i)
    k = 0
    while k < n:
        v = tl.exp(v * -0.5)
        if k > 300:
            v = tl.sin(v)
        k += 1
    tl.store(x_ptr + i, v + 1)


@triton.jit
def nested_kernel(x_ptr, n, m, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i)
    a = 0
    while a < n:
        b = 0
        while b < m:
            v = tl.exp(v * -0.5)
            b += 1
        a += 1
    tl.store(x_ptr + i, v)


def profiled(kernel, *arguments, grid=1, launches=10, block=256, **options):
    with tileprobe.profile(alternate=False, max_overhead=100.0, **options) as session:
        for _ in range(launches):
            kernel[(grid,)](*arguments, BLOCK=block)
    trace = session.trace
    return trace, {row["name"]: row for row in region_tree(trace, trace.kernels[0]).iter_rows(named=True)}


def late(**options):
    x = tileprobe.array(np.random.default_rng(0).random(PROGRAMS * 1024, np.float32))
    trips = tileprobe.array(np.array(TRIPS, np.int32))
    return profiled(late_kernel, x, trips, grid=PROGRAMS, block=1024, **options)


def row(found, begin):
    return next(row for name, row in found.items() if name.startswith(begin))


def test_what_happens_late_in_a_loop_is_seen():
    _, found = late()
    iterations, sines = 10 * sum(TRIPS), 10 * sum(max(0, n - LATE - 1) for n in TRIPS)
    assert row(found, "iteration")["count"] == pytest.approx(iterations, rel=0.1)
    assert row(found, "sin")["count"] == pytest.approx(sines, rel=0.1)


def test_iterations_fit_into_their_loop():
    _, found = late()
    assert found["iteration"]["total_ns"] <= row(found, "loop")["total_ns"] * 1.001


def test_capacity_is_room_for_while_loops():
    small, _ = late(launches=1)
    large, found = late(launches=1, capacity=4096)
    assert small.losses.lost > 0
    assert large.losses.lost == 0
    assert found["iteration"]["recorded_count"] == sum(TRIPS)


def test_less_capacity_is_less_room():
    small, usual = late(launches=1, capacity=64)[0], late(launches=1)[0]
    assert small.losses.kept < usual.losses.kept


def test_what_a_stride_left_out_is_counted():
    """All launches but the first take every n-th iteration; what they kept, left out and lost is what there was."""
    trace, _ = late(launches=6)
    full, _ = late(launches=1, capacity=4096)
    for launch in trace.launches[1:]:
        losses = launch.losses
        assert losses.sampled_out > 0
        total = losses.kept + losses.sampled_out + losses.lost
        assert total == pytest.approx(full.losses.kept, rel=0.1)


@pytest.mark.parametrize(("n", "m"), [(3, 1500), (1500, 3)])
def test_the_loop_that_is_long_is_the_one_that_is_thinned(n, m):
    """With a stride of its own the short one would hardly be seen."""
    x = tileprobe.array(np.random.default_rng(0).random(256, np.float32))
    trace, found = profiled(nested_kernel, x, n, m)
    assert row(found, "mul")["count"] == pytest.approx(10 * n * m, rel=0.1)
    strides = [
        {int(loop): every["stride"] for loop, every in launch.sampling["loops"].items() if int(loop) >= 0}
        for launch in trace.launches[1:]
    ]
    thinned = [loop for loop, stride in strides[-1].items() if stride > 1]
    inner = max(trace.kernels[0].layout["loops"], key=lambda loop: len(loop.get("loops", ())))["id"]
    assert [loop == inner for loop in thinned] == [m > n]
