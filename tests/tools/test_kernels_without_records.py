"""Kernels of which nothing was recorded do not hide others; what is too little is not listed."""

from dataclasses import replace

import polars as pl
from made import attention

from tileprobe.ir.machine import INSTRUCTIONS
from tileprobe.tools.accounting import interrupted
from tileprobe.tools.headline import _mixture
from tileprobe.tools.regions import Regions
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


def test_a_busy_machine_does_not_trouble_a_simulated_one():
    """Its clock counts instructions: however long this machine took, nothing came between them."""
    trace = attention(launches=1, noise=0.5)
    trace.meta["switched_per_s"] = 1e6
    assert "cannot be trusted" in interrupted(trace, trace.kernels[0]).text
    trace.kernels[0] = replace(trace.kernels[0], clock=Clock(1e9, INSTRUCTIONS))
    found = interrupted(trace, trace.kernels[0])
    assert (found.trusted, found.known, found.text) == (True, True, "")
