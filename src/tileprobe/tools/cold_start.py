"""What is said of a kernel's first launch, where it took longer than the others.

In come a trace and the times of its regions; out goes a finding: how many times as long, and in which region most of
the difference is.
"""

from __future__ import annotations

from statistics import median

import polars as pl

from tileprobe.tools.result import Finding
from tileprobe.tools.times import Times
from tileprobe.trace import Kernel, Launch, Trace
from tileprobe.trace.cold import cold_launches, own_ns
from tileprobe.trace.works import with_works

MOST = 0.5  # of the difference: a region with as much is named


def cold_start(trace: Trace, kernel: Kernel, times: Times, name: str) -> list[Finding]:
    trace = with_works(trace)
    cold = cold_launches(trace)
    launches = trace.kernel_launches(kernel.id)
    first = [launch for launch in launches if launch.id in cold]
    if not first:
        return []
    ratios = sorted(_ratio(one, launches, kernel) for one in first)
    low, high = f"{ratios[0]:.1f}", f"{ratios[-1]:.1f}"
    several = f"the first launch of {len(first)} kinds of work took"
    who = "the first launch took" if len(first) == 1 else several
    how = f"{low} times" if low == high else f"{low} to {high} times"
    where = _where(trace, kernel, times, first[0], launches) if len(first) == 1 else None
    most = f", most of that in {where}" if where else ""
    text = (
        f"{name}: {who} {how} as long as the others (cold){most}; "
        "totals have it once, distributions are without it"
    )
    data = {"launches": [one.id for one in first], "times_as_long": ratios, "region": where}
    return [Finding(text, data=data, kernel=kernel.id)]


def _ratio(one: Launch, launches: list[Launch], kernel: Kernel) -> float:
    others = [x.duration_ns for x in launches if x.work == one.work and x is not one and x.duration_ns]
    return own_ns(one, kernel) / median(others)


def _where(trace: Trace, kernel: Kernel, times: Times, one: Launch, launches: list[Launch]) -> str | None:
    """The region that has most of the difference in its own time."""
    others = [x.id for x in launches if x.work == one.work and x is not one and times.standing.get(x.id)]
    mine = times.launches.filter(pl.col("launch").is_in([one.id, *others]))
    each = pl.when(pl.col("launch") == one.id).then(1.0).otherwise(-1.0 / max(len(others), 1))
    more = dict(mine.group_by("region").agg((pl.col("ns") * each).sum()).iter_rows())
    regions = {region.id: region for region in trace.kernel_regions(kernel.id) if region.id in more}
    whole = sum(more[region.id] for region in regions.values() if region.parent not in regions)
    own = dict(more)
    for region in regions.values():
        if region.parent in regions:
            own[region.parent] -= more[region.id]
    found = max(regions, key=lambda region: own[region], default=None)
    return regions[found].name if found is not None and own[found] > MOST * whole > 0 else None
