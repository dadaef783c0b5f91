"""`while` loops that run longer than there is room for: later launches spread their records over all of it, and
`capacity` is room for them, too. Counts are compared, never times."""

import numpy as np
import polars as pl
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
    assert row(found, "iteration")["count"] == pytest.approx(iterations)
    assert row(found, "sin")["count"] == pytest.approx(
        sines, rel=0.1
    )  # about as many of those that were looked at


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
        assert total == pytest.approx(full.losses.kept, rel=0.02)


@pytest.mark.parametrize(("n", "m"), [(3, 1500), (1500, 3)])
def test_the_loop_that_is_long_is_the_one_that_is_thinned(n, m):
    """With a stride of its own the short one would hardly be seen."""
    x = tileprobe.array(np.random.default_rng(0).random(256, np.float32))
    trace, found = profiled(nested_kernel, x, n, m)
    assert row(found, "mul")["count"] == pytest.approx(10 * n * m)
    strides = [
        {int(loop): every["stride"] for loop, every in launch.sampling["loops"].items() if int(loop) >= 0}
        for launch in trace.launches[1:]
    ]
    thinned = [loop for loop, stride in strides[-1].items() if stride > 1]
    inner = max(trace.kernels[0].layout["loops"], key=lambda loop: len(loop.get("loops", ())))["id"]
    assert [loop == inner for loop in thinned] == [m > n]


# -- iterations are counted, whatever is looked at -------------------------------------------------------------


@triton.jit
def mixed_kernel(x_ptr, n_ptr, m, BLOCK: tl.constexpr):
    """`while` in `for`, `while` in `while` and `for` in `while`, in a function that some programs leave early."""
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    n = tl.load(n_ptr + p)
    v = tl.load(x_ptr + i)
    if n == 0:
        return
    for j in range(m):
        k = 0
        while k < n + j % 3:
            v = tl.exp(v * -0.5)
            k += 1
    a = 0
    while a < m:
        b = 0
        while b < n + a % 2:
            v = tl.sin(v)
            b += 1
        for _ in range(a % 4):
            v = tl.cos(v)
        a += 1
    tl.store(x_ptr + i, v)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"iterations": "every:4"},
        {"iterations": "first:8"},
        {"iterations": "last:3"},
        {"capacity": 16},
    ],
    ids=str,
)
def test_iterations_of_all_loops_are_counted(options):
    x = tileprobe.array(np.random.default_rng(0).random(PROGRAMS * 256, np.float32))
    n, m = (5, 1, 9, 0), 13
    trips = tileprobe.array(np.array(n, np.int32))
    trace, _ = profiled(mixed_kernel, x, trips, m, grid=4, launches=7, programs="all", **options)
    rows = region_tree(trace, trace.kernels[0]).filter(pl.col("kind") == "iteration")
    run = [each for each in n if each]
    in_for = sum(each + j % 3 for each in run for j in range(m))
    in_while = sum(each + a % 2 for each in run for a in range(m))
    counted = sum(a % 4 for a in range(m))
    assert rows["count"].to_list() == pytest.approx(
        [7 * count for count in (3 * m, in_for, 3 * m, in_while, 3 * counted)]
    )


def recorded_iterations(trace, launch):
    columns = trace.to_polars().filter((pl.col("launch") == launch) & (pl.col("region_kind") == "iteration"))
    return sorted(columns["iteration"].to_list())


def test_the_last_iterations_of_a_while_loop_are_those_before_its_end():
    """Nobody knows the end of the first launch's; later ones go by it."""
    x, trips = (
        tileprobe.array(np.full(size, 900, kind)) for size, kind in ((1024, np.float32), (1, np.int32))
    )
    trace, found = profiled(late_kernel, x, trips, block=1024, launches=4, iterations="last:3")
    assert [recorded_iterations(trace, n) for n in range(1, 4)] == [[897, 898, 899]] * 3
    assert found["iteration"]["count"] == pytest.approx(4 * 900)
    assert ["1 of 4 launches" in note for note in trace.meta["notes"]] == [True]


def test_programs_whose_while_loops_end_at_different_times_all_have_their_last_iterations():
    """The shortest run ends after 20, the longest after 60: from 17 on there is room for all."""
    x = tileprobe.array(np.random.default_rng(0).random(2 * 1024, np.float32))
    trips = tileprobe.array(np.array([20, 60], np.int32))
    trace, _ = profiled(
        late_kernel, x, trips, grid=2, block=1024, launches=3, iterations="last:3", programs="all"
    )
    assert recorded_iterations(trace, 2) == sorted([*range(17, 20), *range(17, 60)])


def test_where_ends_are_too_far_apart_other_iterations_stand_for_the_last():
    """From the seventeenth iteration on 2,000 do not fit: the whole length is covered."""
    trace, found = late(iterations="last:3", launches=5, programs="all")
    assert row(found, "iteration")["count"] == pytest.approx(5 * sum(TRIPS))
    assert max(recorded_iterations(trace, 4)) > 1900
    assert "5 of 5 launches" in trace.meta["notes"][0] or "4 of 5 launches" in trace.meta["notes"][0]


@triton.jit
def rare_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """In one of its iterations there is a loop of its own."""
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i)
    k = 0
    while k < n:
        if k == 500:
            j = 0
            while j < 50:
                v = tl.sin(v)
                j += 1
        v = tl.exp(v * -0.5)
        k += 1
    tl.store(x_ptr + i, v)


def test_what_most_launches_did_not_see_is_counted_in_all_of_them():
    x = tileprobe.array(np.random.default_rng(0).random(256, np.float32))
    trace, _ = profiled(rare_kernel, x, 2000, launches=30)
    regions = [region.id for region in trace.regions if region.kind == "iteration"]
    frames = [trace.to_polars().filter(pl.col("region") == region) for region in regions]
    assert [frame["weight"].sum() for frame in frames] == pytest.approx([30 * 2000, 30 * 50])
    assert 0 < frames[1]["launch"].n_unique() < 15


def test_every_fourth_iteration_of_a_while_loop_begins_anywhere():
    """Also where one program goes round once only."""
    x = tileprobe.array(np.random.default_rng(0).random(PROGRAMS * 1024, np.float32))
    trips = tileprobe.array(np.array((1, 40, 40, 40), np.int32))
    trace, found = profiled(
        late_kernel, x, trips, grid=4, block=1024, launches=9, programs="all", iterations="every:4"
    )
    seen = [set(recorded_iterations(trace, n)) for n in range(9)]
    assert set().union(*seen) == set(range(40))
    assert all(one - {0} == set(range(min(one), 40, 4)) - {0} for one in seen)
    assert found["iteration"]["count"] == pytest.approx(9 * 121)
