"""Threads that had to share a core: what ran beside what is not what the program asked for.

Comes in: when programs ran on which cores, by their launches. Goes out: for how much of the launches' time two
programs were on one core of a CPU, where one runs at a time; and a warning that says so. On other machines many
programs are on a unit by design.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.result import Finding
from tileprobe.trace import Kernel, Trace

ENOUGH = 0.05  # of the time: from here on it is said


def crowded(runs: pl.DataFrame) -> float:
    """The share of the time of launches in which a unit had more than one program; `runs` has launch, unit, start_ns
    and stop_ns of each."""
    ordered = runs.sort("launch", "unit", "start_ns").with_columns(
        pl.col("stop_ns").cum_max().over("launch", "unit").alias("reached")
    )
    before = pl.col("reached").shift(1).over("launch", "unit").fill_null(pl.col("start_ns"))
    shared = (pl.min_horizontal(before, "stop_ns") - pl.col("start_ns")).clip(lower_bound=0.0)
    launches = ordered.group_by("launch").agg(pl.col("stop_ns").max() - pl.col("start_ns").min())
    whole = float(launches["stop_ns"].sum())
    both = float(ordered.select(shared.sum()).item() or 0.0)
    return both / whole if whole > 0 else 0.0


def warned(trace: Trace, kernel: Kernel, runs: pl.DataFrame) -> list[Finding]:
    """Nothing where units are no cores of a CPU, and where threads had cores of their own."""
    kinds = {unit.id: unit.kind for unit in trace.units}
    on = {kinds.get(unit, "") for unit in runs["unit"].unique().to_list()}
    if kernel.clock.is_simulated or on != {"core"}:
        return []
    share = crowded(runs)
    if share < ENOUGH:
        return []
    text = (
        f"{kernel.name}: for {100 * share:.0f} % of the time the system had two of its threads on one core; the path "
        "and the tail are of that, and cannot be trusted for an idle machine"
    )
    return [Finding(text, "warning", {"crowded": share}, kernel.id)]
