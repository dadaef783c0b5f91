"""A trace as JSON: the figures of each kernel and its regions, for programs and for comparison over time."""

from __future__ import annotations

from statistics import median
from typing import Any

from tileprobe.tools.overhead import overhead
from tileprobe.tools.regions import region_times, region_tree
from tileprobe.trace import Kernel, Losses, Trace

SCHEMA = 1
REGION_KEYS = ("name", "kind", "source", "depth", "count", "total_ns", "self_ns", "mean_ns", "share")


def trace_to_json(trace: Trace) -> dict[str, Any]:
    """The report as plain data; docs/trace.md explains each field."""
    times = region_times(trace)
    targets = sorted({kernel.target for kernel in trace.kernels})
    return {
        "schema": SCHEMA,
        "target": targets[0] if len(targets) == 1 else targets,
        "kernels": [_kernel(trace, kernel, times) for kernel in trace.kernels],
    }


def _kernel(trace: Trace, kernel: Kernel, times) -> dict[str, Any]:
    launches = trace.kernel_launches(kernel.id)
    probed = [launch for launch in launches if launch.probed]
    lengths = [launch.duration_ns for launch in probed if launch.duration_ns is not None]
    losses = sum((launch.losses for launch in launches), Losses())
    cost = overhead(trace, kernel)
    rows = region_tree(trace, kernel, times).iter_rows(named=True)
    return {
        "name": kernel.name,
        "launches": len(probed),
        "grid": list(probed[0].grid) if probed else [],
        "duration_ns": median(lengths) if lengths else None,
        "overhead_percent": cost.measured_percent,
        "overhead_estimated_percent": cost.estimated_percent,
        "record_cost_ns": cost.record_cost_ns,
        "records": {"kept": losses.kept, "sampled_out": losses.sampled_out, "lost": losses.lost},
        "regions": [{key: row[key] for key in REGION_KEYS} for row in rows],
    }
