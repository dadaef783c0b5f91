"""How the time of each region is distributed: over its executions, over a loop's iterations, over the grid.

In come a trace and a kernel; out go, for each region, a histogram with the quantiles of an execution, p5 to p95 by
iteration, and the mean time in each program of the grid. Interruptions by the operating system are left out, and so
are launches that others stand for or that were cold; an execution counts as often as it stands for, as in every figure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl

from tileprobe.tools.figures import LASTED, STANDS, TIME
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.works import standing_for

REGIONS, FEWEST = 400, 8  # of a page, the longest ones of each kernel; and of a kernel among many
BINS = 40
STEPS = 160  # iterations, or bins of them
CELLS, COARSE = 2500, 64  # of a grid, or bins of programs; among many regions
NUMBERS = 600_000  # of all maps of a page: it must stay small
FAR = 3.0  # times the range from p5 to p95, beyond p95
ALIKE = 1e-4  # executions that differ by less all take the same time
WIDE = 60.0  # a spread beyond which a histogram has a logarithmic axis


def distributions(trace: Trace, kernel: Kernel, gone: Collection[int] = ()) -> dict[int, dict[str, Any]]:
    """By region, without the launches that are `gone`. The more kernels a trace has, the fewer regions of each, and the
    coarser."""
    launches = standing_for(trace)
    roots = any(region.kernel == kernel.id and region.kind == "kernel" for region in trace.regions)
    regions = [region.id for region in trace.regions if region.kernel == kernel.id]
    count = min(max(FEWEST, REGIONS // max(len(trace.kernels), 1)), len(regions))
    cells = min(CELLS, max(COARSE, NUMBERS // max(count * len(trace.kernels), 1)))
    timed = trace.scan().filter(pl.col("region").is_in(regions) & pl.col("kind").is_in(["region", "wait"]))
    timed = timed.filter(~pl.col("launch").is_in(list(gone))) if gone else timed
    frame = timed.select(
        *("region", "launch", "program", "iteration"),
        LASTED.alias("ns"),
        TIME.alias("time"),
        (STANDS * pl.col("launch").replace_strict(launches, default=1.0)).alias("stands"),
        (STANDS.min().over("launch", "program") if roots else pl.lit(1.0)).alias("programs"),  # it stands for
    ).collect()
    longest = frame.group_by("region").agg(pl.col("time").sum()).sort("time", descending=True)
    found: dict[int, dict[str, Any]] = {}
    shape = _grid(trace, kernel)
    for (region,), rows in frame.filter(
        pl.col("region").is_in(longest["region"].head(count).to_list())
    ).group_by("region"):
        found[int(region)] = {  # type: ignore[arg-type]
            "histogram": _histogram(rows),
            "iterations": _iterations(rows),
            "programs": _programs(rows, shape, cells),
        }
    return found


def _histogram(rows: pl.DataFrame) -> dict[str, Any] | None:
    """Of the bulk; the few executions that are far longer than the rest are counted beside it."""
    ns, stands = rows["ns"].to_numpy(), rows["stands"].to_numpy()
    few, half, most = (_quantile(ns, stands, share) for share in (0.05, 0.5, 0.95))
    low, high = float(ns.min()), min(float(ns.max()), most + FAR * (most - few))
    if len(ns) < 2 or high - low <= ALIKE * high:
        return None
    logarithmic = low > 0 and high / low > WIDE
    edges = np.geomspace(low, high, BINS + 1) if logarithmic else np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(ns, edges, weights=stands)
    return {
        "beyond": _digits(float(stands[ns > edges[-1]].sum())),
        "from": _digits(edges[0]),
        "to": _digits(edges[-1]),
        "log": bool(logarithmic),
        "counts": [_digits(count) for count in counts],
        "largest": _digits(float(ns.max())),
        "quantiles": [_digits(few), _digits(half), _digits(most)],
    }


def _quantile(ns: np.ndarray, stands: np.ndarray, share: float) -> float:
    """As the region tree has it (`tools/figures.weighted_quantile`)."""
    order = np.argsort(ns, kind="stable")
    summed = np.cumsum(stands[order])
    return float(ns[order][np.searchsorted(summed, share * summed[-1] * (1 - 1e-9))])


def _iterations(rows: pl.DataFrame) -> dict[str, Any] | None:
    inside = rows.filter(pl.col("iteration") >= 0)
    last = inside["iteration"].max()
    if last is None or not last:
        return None
    width = -(-(int(last) + 1) // STEPS)  # type: ignore[arg-type]
    grouped = inside.group_by(pl.col("iteration") // width).agg(
        *(
            pl.col("ns").quantile(share).alias(name)
            for name, share in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95))
        )
    )
    grouped = grouped.sort("iteration")
    return {
        "width": width,
        "at": (grouped["iteration"] * width).to_list(),
        **{name: [_digits(value) for value in grouped[name]] for name in ("p5", "p50", "p95")},
    }


def _grid(trace: Trace, kernel: Kernel) -> tuple[int, ...]:
    """The grid of most launches, without what is one at its end."""
    grids = Counter(launch.grid for launch in trace.kernel_launches(kernel.id) if launch.probed)
    shape = grids.most_common(1)[0][0] if grids else (1,)
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _programs(rows: pl.DataFrame, shape: tuple[int, ...], cells: int) -> dict[str, Any] | None:
    """The mean over launches of the time in each program; null for programs that were not recorded."""
    count = math.prod(shape)
    each = rows.group_by("launch", "program").agg((pl.col("time") / pl.col("programs")).sum().alias("ns"))
    means = each.group_by("program").agg(pl.col("ns").mean())
    means = means.filter(pl.col("program") < count)
    if count < 2 or not means.height:
        return None
    width = -(-count // cells)
    sums, seen = np.zeros(-(-count // width)), np.zeros(-(-count // width))
    cell = means["program"].to_numpy() // width
    np.add.at(sums, cell, means["ns"].to_numpy())
    np.add.at(seen, cell, 1)
    values = [_digits(total / n) if n else None for total, n in zip(sums, seen)]
    return {"shape": list(shape), "width": width, "ns": values}


def _digits(value: float) -> float:
    """Four digits: what a picture can show."""
    return float(f"{value:.4g}")
