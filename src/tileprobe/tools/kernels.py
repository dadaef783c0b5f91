"""The kernels of a trace beside each other: how long all launches of each took, the longest first.

In comes a trace; out goes one row a kernel. A launch that was not recorded counts as long as those of its work that
were timed, without probes where there are enough of these.
"""

from __future__ import annotations

from statistics import median

import polars as pl

from tileprobe.tools.accounting import accounted
from tileprobe.tools.regions import region_tree, whole_ns
from tileprobe.tools.result import Column
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import Times, region_times
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.works import with_works

ENOUGH = (
    3  # launches without probes, from which on those with probes are not needed to know how long one takes
)

COLUMNS = [
    Column("name", "text", "kernel"),
    Column("share", "share", ""),
    Column("total_ns", "ns", "total", estimate="estimate"),
    Column("launches", "count", "launches"),
    Column("each_ns", "ns", "each"),
    Column("accounted", "percent", "in programs"),
    Column("recorded", "count", "recorded"),
    Column("target", "text", "target"),
]
SCHEMA = {
    "kernel": pl.Int64,
    "name": pl.String,
    "target": pl.String,
    "total_ns": pl.Float64,  # of all launches that ran
    "share": pl.Float64,
    "launches": pl.Int64,
    "recorded": pl.Int64,
    "each_ns": pl.Float64,  # the median of a launch
    "accounted": pl.Float64,  # the share of the launches' time, on all threads, that programs ran for
    "estimate": pl.Boolean,  # not every launch was timed
}


def kernel_totals(trace: Trace, times: Times | None = None) -> pl.DataFrame:
    """One row a kernel, by total time. Where a launch's duration is not known, the time of its programs counts."""
    trace = with_works(trace)
    names = labels(trace.kernels)
    rows: list[dict] = [{**_row(trace, kernel), "name": names[kernel.id]} for kernel in trace.kernels]
    if any(row["total_ns"] is None for row in rows):  # then compare what all of them have
        times = region_times(trace) if times is None else times
        for row, kernel in zip(rows, trace.kernels):
            row["total_ns"] = whole_ns(region_tree(trace, kernel, times))
    whole = sum(row["total_ns"] for row in rows)
    for row in rows:
        row["share"] = row["total_ns"] / whole if whole else 0.0
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return frame.sort("total_ns", descending=True, maintain_order=True)


def _row(trace: Trace, kernel: Kernel) -> dict:
    works = [work for work in trace.works if work.kernel == kernel.id]
    launches = trace.kernel_launches(kernel.id)
    total: float | None = 0.0
    each: list[float] = []
    timed = 0
    for work in works:
        mine = [launch for launch in launches if launch.work == work.id and launch.duration_ns is not None]
        plain = [launch for launch in mine if not launch.probed]
        lengths = [
            n.duration_ns for n in (plain if len(plain) >= ENOUGH else mine) if n.duration_ns is not None
        ]
        timed += len(mine)
        each += lengths
        if not lengths:
            total = None if work.ran else total
        elif total is not None:
            total += median(lengths) * work.ran
    ran = sum(work.ran for work in works)
    programs = accounted(trace, kernel)
    return {
        "accounted": None if programs is None else min(1.0, programs.percent / 100),
        "kernel": kernel.id,
        "target": kernel.target,
        "total_ns": total,
        "launches": ran,
        "recorded": sum(launch.probed for launch in launches),
        "each_ns": median(each) if each else None,
        "estimate": timed < ran,
    }
