"""What profiling cost a kernel: measured against unprobed launches of the same work, and estimated."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import polars as pl

from tileprobe.tools.regions import DURATION
from tileprobe.trace import Kernel, Losses, Trace

ENOUGH = 3  # launches of each sort, below which a measured overhead would be a guess


@dataclass(frozen=True)
class Overhead:
    """Percent of the unprobed time. `measured` needs launches with and without probes, in turns."""

    measured_percent: float | None
    estimated_percent: float | None
    record_cost_ns: float | None


def overhead(trace: Trace, kernel: Kernel) -> Overhead:
    launches = trace.kernel_launches(kernel.id)
    cost_ticks = kernel.calibration.get("cost_ticks")
    cost = None if cost_ticks is None else float(cost_ticks) * 1e9 / kernel.clock.hz
    return Overhead(_measured(launches), _estimated(trace, kernel, launches, cost), cost)


def _measured(launches: list) -> float | None:
    """Launches of one grid only: others are other work."""
    by_grid: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}
    for launch in launches:
        if launch.duration_ns:
            by_grid.setdefault(launch.grid, ([], []))[launch.probed].append(launch.duration_ns)
    plain, probed = max(by_grid.values(), key=lambda pair: min(map(len, pair)), default=([], []))
    if min(len(plain), len(probed)) < ENOUGH:
        return None
    return 100.0 * (median(probed) / median(plain) - 1.0)


def _estimated(trace: Trace, kernel: Kernel, launches: list, cost: float | None) -> float | None:
    """The records' cost against the time of the programs that wrote them."""
    roots = [r.id for r in trace.regions if r.kernel == kernel.id and r.parent is None]
    if cost is None or not roots:
        return None
    mine = trace.scan().filter(pl.col("region").is_in(roots) & (pl.col("kind") == "region"))
    whole = mine.select(DURATION.sum()).collect().item()
    kept = sum((launch.losses for launch in launches), Losses()).kept
    return 100.0 * kept * cost / whole if whole else None
