"""Kernels of which nothing was recorded do not hide others; what is too little is not listed."""

from dataclasses import replace

import polars as pl
from made import attention

from tileprobe.ir.machine import INSTRUCTIONS
from tileprobe.tools.accounting import interrupted
from tileprobe.tools.headline import _mixture
from tileprobe.tools.overhead import FINE, _why
from tileprobe.tools.regions import Regions
from tileprobe.tools.times import Times, _samples
from tileprobe.tools.units import Units
from tileprobe.trace import Clock, Launch, Losses


def test_a_kernel_without_records_does_not_hide_the_next():
    trace = attention()
    empty = replace(trace.kernels[0], id=1, name="empty")
    trace.kernels = [empty, trace.kernels[0]]
    trace.launches.append(Launch(99, 1, (1,), 0.0, 1.0, False))
    assert [table.kernel for table in Regions().read(trace).tables] == [0]
    assert {table.kernel for table in Units().read(trace).tables} <= {0}


def test_hardly_anything_is_not_listed():
    text = _mixture({"dot": 0.6, "load+mul": 0.397, "exp": 0.003})
    assert text.endswith("dot 60 %, load + mul 40 %")
    assert _mixture({"a": 0.4, "b": 0.3, "c": 0.1, "d": 0.1, "e": 0.1}).endswith("d 10 %, the rest 10 %")


def test_launches_without_room_that_count_are_counted():
    """Two of six lost records, and nobody did as much as they did: they count, as launches that are there in part."""
    trace = attention(launches=6)
    lost = Losses(kept=40, lost=7)
    trace.launches = [replace(one, losses=lost if one.id < 2 else one.losses) for one in trace.launches]
    trace.frame = trace.intervals.filter((pl.col("launch") > 1) | (pl.col("program") < 1))
    found = interrupted(trace, trace.kernels[0])
    assert (found.partial, found.launches, found.beginnings) == (2, 0, 0)
    trace.frame = trace.intervals.vstack(
        attention(launches=6).intervals.filter(pl.col("launch") < 2)
    ).unique()
    found = interrupted(trace, trace.kernels[0])
    assert (found.partial, found.beginnings) == (0, 2)  # the other four did as much and stand for them


def test_a_busy_machine_does_not_trouble_a_simulated_one():
    """Its clock counts instructions: however long this machine took, nothing came between them."""
    trace = attention(launches=1, noise=0.5)
    trace.meta["switched_per_s"] = 1e6
    assert "cannot be trusted" in interrupted(trace, trace.kernels[0]).text
    trace.kernels[0] = replace(trace.kernels[0], clock=Clock(1e9, INSTRUCTIONS))
    found = interrupted(trace, trace.kernels[0])
    assert (found.trusted, found.known, found.text) == (True, True, "")


def test_programs_that_do_not_reach_a_region_are_samples_of_no_time():
    """Of five recorded programs two reached the region; of two launches one did."""
    row = {"partition": [0, 0], "region": [3, 3], "launch": [0, 0], "program": [1, 4], "ns": [10.0, 20.0]}
    programs = pl.DataFrame(row)
    launches = pl.DataFrame({"partition": [0], "region": [3], "launch": [0], "ns": [30.0]})
    times = Times(pl.DataFrame(), launches, programs, {0: 2.0, 1: 3.0}, {0: 5, 1: 7})
    assert sorted(_samples(times, [(0, 3)], [0])[0].tolist()) == [0.0, 0.0, 0.0, 20.0, 40.0]
    assert _samples(times, [(0, 3)], [0, 1]).tolist() == [[60.0, 0.0]]


def test_an_overhead_as_wide_as_itself_is_still_told():
    assert _why(4.0, 2.0, 6.0) == ""
    assert "differ by more" in _why(4.0, 2.0, 6.01)
    assert _why(0.0, -FINE, FINE) == ""
