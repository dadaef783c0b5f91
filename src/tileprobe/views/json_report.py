"""A trace as JSON: the figures of each kernel and its regions, for programs and for comparison over time.

Comes in: a trace. Goes out: plain data, schema 2; docs/trace.md explains each field. Figures are scaled to all that
ran, each with what was recorded of it and how sure it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median
from typing import Any

from tileprobe.tools.accounting import accounted, interrupted
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.load import DEFAULT
from tileprobe.tools.overhead import overhead
from tileprobe.tools.regions import region_tree
from tileprobe.tools.result import Result
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import Times, region_times
from tileprobe.tools.verified import verified
from tileprobe.trace import Kernel, Losses, Trace, Work
from tileprobe.trace.works import with_works
from tileprobe.views import text

SCHEMA = 2
REGION_KEYS = (
    *("name", "kind", "source", "depth", "count", "recorded_count", "total_ns", "recorded_ns", "self_ns"),
    *("mean_ns", "p50_ns", "p95_ns", "share", "share_error", "estimate", "interrupted", "moved"),
)


def trace_to_json(trace: Trace, results: Iterable[Result] = ()) -> dict[str, Any]:
    """The report as plain data; `tools` has what others than the usual ones found, where they were asked."""
    tools = [result.to_json() for result in results if result.tool not in DEFAULT]
    trace = with_works(trace)
    times, names = region_times(trace), labels(trace.kernels)
    totals = {row["kernel"]: row for row in kernel_totals(trace, times).iter_rows(named=True)}
    targets = sorted({kernel.target for kernel in trace.kernels})
    budget = trace.meta.get("budget") or {}
    return {
        "schema": SCHEMA,
        "target": targets[0] if len(targets) == 1 else targets,
        "unit": "instructions" if text.counts(trace) else "ns",
        "remarks": [text.NO_TIME] if not all(kernel.clock.is_time for kernel in trace.kernels) else [],
        "notes": list(trace.meta.get("notes") or []),
        "budget": {"spent": bool(budget.get("spent")), "not_recorded": budget.get("not_recorded", [])},
        "problems": list((trace.meta.get("problems") or {}).values()),
        "kernels": [
            _kernel(trace, kernel, times, names[kernel.id], totals[kernel.id]) for kernel in trace.kernels
        ],
        **({"tools": tools} if tools else {}),
    }


def _kernel(trace: Trace, kernel: Kernel, times: Times, label: str, total: dict[str, Any]) -> dict[str, Any]:
    launches = trace.kernel_launches(kernel.id)
    works = [work for work in trace.works if work.kernel == kernel.id]
    probed = [launch for launch in launches if launch.probed]
    lengths = [launch.duration_ns for launch in probed if launch.duration_ns is not None]
    losses = sum((launch.losses for launch in launches), Losses())
    return {
        "name": kernel.name,
        "label": label,
        "signature": kernel.signature,
        "file": kernel.file,
        "line": kernel.first_line,
        "launches": sum(work.ran for work in works),
        "probed": len(probed),
        "grid": list(probed[0].grid) if probed else [],
        "total_ns": total["total_ns"],
        "share": total["share"],
        "each_ns": total["each_ns"],
        "duration_ns": median(lengths) if lengths else None,
        **_simulated(kernel, median(lengths) if lengths else None),
        **_verified(trace, kernel),
        "works": [_work(work) for work in works],
        **_costs(trace, kernel, works),
        **_trust(trace, kernel, times),
        "records": {"kept": losses.kept, "sampled_out": losses.sampled_out, "lost": losses.lost},
        "regions": [_region(row) for row in region_tree(trace, kernel, times).iter_rows(named=True)],
    }


def _simulated(kernel: Kernel, duration_ns: float | None) -> dict[str, Any]:
    """Whether times are a model's; if so at which clock, and the launch in cycles."""
    clock = kernel.clock
    if not (clock.is_simulated and clock.is_time):
        return {"simulated": clock.is_simulated}
    cycles = None if duration_ns is None else round(duration_ns * clock.hz / 1e9)
    return {"simulated": True, "clock_mhz": clock.hz / 1e6, "cycles": cycles}


def _verified(trace: Trace, kernel: Kernel) -> dict[str, Any]:
    """Of a simulated machine that was asked for the truth: what probes cost exactly, and how far regions are off."""
    truth = verified(trace, kernel)
    if truth is None:
        return {}
    return {
        "overhead_percent": truth.overhead_percent,
        "region_error_percent": truth.mean_error_percent,
        "verified": {
            "launches": truth.launches,
            "plain_ns": truth.plain_ns,
            "free_ns": truth.free_ns,
            "probed_ns": truth.probed_ns,
            "records_percent": truth.records_percent,
            "code_percent": truth.code_percent,
            "regions": [
                {
                    "name": row.region.name,
                    "source": row.region.source,
                    "count": row.count,
                    "true_ns": row.true_ns,
                    "raw_ns": row.raw_ns,
                    "corrected_ns": row.corrected_ns,
                    "error_percent": row.error_percent,
                    "records_percent": row.records_percent,
                    "plain_ns": row.plain_ns,
                    "code_percent": row.code_percent,
                    "interleaved_percent": row.interleaved_percent,
                }
                for row in truth.regions
            ],
        },
    }


def _work(work: Work) -> dict[str, Any]:
    counts = {name: getattr(work, name) for name in ("ran", "probed", "plain", "dosed", "unrecorded")}
    return {"arguments": work.arguments, "grid": list(work.grid), **counts}


def _costs(trace: Trace, kernel: Kernel, works: list[Work]) -> dict[str, Any]:
    """What profiling took."""
    cost = overhead(trace, kernel)
    session = [work.session_us for work in works if work.session_us is not None]
    missed = sum(work.unrecorded for work in works)
    return {
        "overhead": {
            "percent": cost.percent,
            "low": cost.low,
            "high": cost.high,
            "measurable": cost.measurable,
            "why": cost.why,
            "estimated_percent": cost.estimated_percent,
            "estimated_error": cost.estimated_error,
        },
        "record_cost_ns": cost.record_cost_ns,
        "session_us_per_launch": fmean(session) if session else None,
        "budget": {"spent": bool(missed), "launches_not_recorded": missed},
    }


def _trust(trace: Trace, kernel: Kernel, times: Times) -> dict[str, Any]:
    """How far the figures add up, and what they are without."""
    found, sums = interrupted(trace, kernel, times), accounted(trace, kernel)
    return {
        "trusted": found.trusted,
        "preempted_percent": found.percent if found.known else None,
        "doubtful_percent": found.doubtful_percent if found.known else None,
        "interrupted_programs": found.programs,
        "launches_left_out": found.launches,
        "accounted": None
        if sums is None
        else {"percent": sums.percent, "low": sums.low, "high": sums.high, "threads": sums.threads},
        "residual_percent": 100.0 * float(kernel.calibration.get("residual_share", 0.0)),
    }


def _region(row: dict[str, Any]) -> dict[str, Any]:
    interval = None if row["low_ns"] is None else [row["low_ns"], row["high_ns"]]
    return {
        **{key: row[key] for key in REGION_KEYS},
        "interval": interval,
        "interval_from": row["basis"] or None,
    }
