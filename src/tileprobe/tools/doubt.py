"""What the operating system may have taken from programs without being recognised: how much of a kernel's time that is.

In come a trace and the times of its regions; out go nanoseconds, of all launches that ran. They are in the totals, and
nobody knows in which: a total may be too long by as much.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tileprobe.tools.times import Times
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.stand_ins import UNDISTURBED
from tileprobe.trace.works import with_works

ALONE = 3  # launches that did not have to wait, from which on the others are not needed to know how long one takes


def doubtful_ns(trace: Trace, kernel: Kernel, times: Times) -> float:
    """Nanoseconds, of all that ran, that may have been taken and were not recognised. A launch that waited for longer
    than was taken out of it has lost no more than it took longer than a quick one of its work that had not waited."""
    roots = [r.id for r in trace.kernel_regions(kernel.id) if r.kind == "kernel" or r.parent is None]
    rows = times.launches.filter(pl.col("region").is_in(roots)).group_by("launch")
    sums = {
        launch: (ns, taken)
        for launch, ns, taken in rows.agg(pl.col("ns").sum(), pl.col("taken_ns").sum()).iter_rows()
    }
    works: dict[int, list[int]] = {}
    waited: dict[int, float] = {}
    for launch in with_works(trace).launches:
        if launch.kernel == kernel.id and launch.id in sums:
            works.setdefault(launch.work, []).append(launch.id)
            waited[launch.id] = launch.preempted_ns or 0.0
    found = 0.0
    for mine in works.values():
        left = {launch: max(waited[launch] - sums[launch][1], 0.0) for launch in mine}
        alone = [sums[launch][0] for launch in mine if left[launch] <= UNDISTURBED * sums[launch][0]]
        quick = float(np.quantile(alone, 0.25)) if len(alone) >= ALONE else 0.0
        for launch in mine:
            lost = min(left[launch], max(sums[launch][0] - quick, 0.0))
            found += times.standing[launch] * lost
    return found
