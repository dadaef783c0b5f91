"""Works of launches, and traces that become one: what stands for what, and what is told apart."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import (
    EPOCH,
    Span,
    Stamp,
    allocate,
)
from tileprobe.ir.machine import Clock
from tileprobe.trace import Kernel, Launch, Region, Trace, Unit, Work
from tileprobe.trace.decode import decode
from tileprobe.trace.merge import merge
from tileprobe.trace.works import left_out, of_launches, standing_for, with_works

# -- works and merging --------------------------------------------------------------------------------------------


def launches_of(waited, work=0, first=0):
    return [Launch(first + n, work=work, duration_ns=100.0, preempted_ns=w) for n, w in enumerate(waited)]


def worked(launches, works=()):
    """Each launch that is probed has a program of 100 ns."""
    ids = [one.id for one in launches if one.probed]
    made = Trace.build(
        {"launch": ids, "region": [0] * len(ids), "start": [0] * len(ids), "stop": [100] * len(ids)},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=launches,
        regions=[Region(0, "k")],
    )
    return replace(made, works=list(works))


def test_launches_that_waited_are_left_out_where_eight_others_did_not():
    assert left_out(worked(launches_of([0.0] * 8 + [1.1]))) == {8}
    assert left_out(worked(launches_of([0.0] * 7 + [1.1]))) == set()
    assert left_out(worked(launches_of([1.0] * 8 + [None, 1.1]))) == {9}  # a hundredth is nothing
    trace = worked(launches_of([0.0] * 8 + [1.1]))
    longer = pl.when(pl.col("launch") == 8).then(152.0).otherwise(pl.col("stop_ns"))
    trace.frame = trace.intervals.with_columns(longer.alias("stop_ns"))
    assert left_out(trace) == set()  # one that took longer is no better known by those that did not
    two = [*launches_of([0.0] * 8), *launches_of([5.0] * 3, work=1, first=20)]
    assert left_out(worked(two, [Work(0, ran=8), Work(1, ran=3)])) == set()  # each work by itself


def test_those_that_are_left_stand_for_all():
    trace = worked(launches_of([0.0] * 8 + [9.0] * 2), [Work(0, ran=40)])
    assert standing_for(trace) == {**dict.fromkeys(range(8), 5.0), 8: 0.0, 9: 0.0}
    few = worked(launches_of([0.0] * 4), [Work(0, ran=1)])  # a work cannot have run less often than is seen
    assert standing_for(few) == dict.fromkeys(range(4), 1.0)


def test_launches_of_no_known_work_get_one_behind_those_that_are():
    trace = worked(
        [Launch(0, work=7), Launch(1, work=3, grid=(2,)), Launch(2, work=9, grid=(2,), probed=False)]
    )
    trace.works = [Work(7, ran=5)]
    found = with_works(trace)
    assert found.works == [Work(7, ran=5), Work(8, 0, (2,), ran=2, probed=1, plain=1)]
    assert [launch.work for launch in found.launches] == [7, 8, 8]
    assert of_launches(found.works, found.launches[2:]) == [Work(8, 0, (2,), ran=1, probed=0, plain=1)]


def simple(stop, **launch):
    return Trace.build(
        {"region": [0], "start": [0], "stop": [stop]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, **launch)],
        regions=[Region(0, "k")],
        units=[Unit(0, "core 0")],
    )


def test_merged_traces_follow_one_another():
    """Each begins where the one before ended: at 0, 100 and 150."""
    found = merge([simple(100, start_ns=5.0), simple(50), simple(30, start_ns=2.0)])
    assert found.intervals["start_ns"].to_list() == [0.0, 100.0, 150.0]
    assert found.intervals["stop_ns"].to_list() == [100.0, 150.0, 180.0]
    assert [one.start_ns for one in found.launches] == [5.0, None, 152.0]
    assert found.intervals["launch"].to_list() == [0, 1, 2]
    with pytest.raises(TileProbeError, match="at least one trace"):
        merge([])


def test_kernels_that_differ_in_anything_but_clock_and_cost_stay_apart():
    a, b = simple(1), simple(1)
    b.kernels = [replace(b.kernels[0], clock=Clock(3e9), calibration={"cost_ticks": 4.0})]
    assert len(merge([a, b]).kernels) == 1
    for change in ({"source": "x"}, {"signature": "B=1"}, {"target": "hip"}):
        b.kernels = [replace(a.kernels[0], **change)]
        assert len(merge([a, b]).kernels) == 2
    b.kernels, b.regions = a.kernels, [Region(0, "k", depth=1)]
    assert len(merge([a, b]).kernels) == 2


def test_units_of_one_name_are_told_apart_by_their_order():
    a, b = simple(1), simple(1)
    a.units = [Unit(0, "warp", "warp"), Unit(1, "warp", "warp"), Unit(2, "warp", "other", parent=1)]
    b.units = [Unit(4, "warp", "warp"), Unit(0, "warp", "warp")]
    found = merge([a, b])
    assert [(unit.id, unit.kind, unit.parent) for unit in found.units] == [
        (0, "warp", None),
        (1, "warp", None),
        (2, "other", 1),
    ]
    assert found.intervals["unit"].to_list() == [0, 1]  # b's unit 0 is its second


def test_values_of_both_kinds_are_read():
    layout = allocate(
        [Stamp(0, "i64"), Stamp(1, "f64")], spans=[Span(0, 0, 0, "value"), Span(1, 1, 1, "value")]
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH] = 1
    words[0, 8:12] = 10, np.int64(-7).view(np.uint64), 20, np.float64(2.5).view(np.uint64)
    found = decode(words, layout, epochs=[1], programs=1).columns
    assert (found["value"].tolist(), found["start"].tolist()) == ([-7.0, 2.5], [10, 20])


def test_kernels_of_two_clocks_are_each_timed_by_their_own():
    kernels = [
        Kernel(0, "a", "cpu", Clock(1e9)),
        Kernel(1, "b", "sim", Clock(2e9)),
        Kernel(2, "c", "x", Clock(4e9)),
    ]
    for count in (2, 3):
        trace = Trace.build(
            {"launch": range(count), "region": [0] * count, "start": [0] * count, "stop": [100] * count},
            kernels=kernels[:count],
            launches=[Launch(n, n) for n in range(count)],
            regions=[Region(0, "k")],
        )
        assert trace.intervals["stop_ns"].to_list() == [100.0, 50.0, 25.0][:count]


def test_an_empty_trace_takes_no_time_when_merged():
    empty = simple(1)
    empty.frame = empty.intervals.clear()
    assert merge([empty, simple(30)]).intervals["start_ns"].to_list() == [0.0]
