"""Two traces side by side, region by region, with the noise of each: what changed, and what may be chance.

A region's time in one launch is one sample. The difference of the medians is held against the noise of the
samples; with fewer than three launches on a side there is no telling, and the result says so.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tileprobe.tools.regions import DURATION
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.streams import partitions, with_partition
from tileprobe.trace import Kernel, Trace

ENOUGH = 3  # launches on each side
MANY = 10  # launches, from which on the error of a median can be estimated from their spread
SIGMAS = 3.0  # standard errors, beyond which a difference is no longer called noise

COLUMNS = [
    Column("name", "tree", "region"),
    Column("a_ns", "ns", "A"),
    Column("b_ns", "ns", "B"),
    Column("change", "change", "change"),
    Column("verdict", "text", ""),
    Column("noise", "noise", "noise"),
]


def compare(a: Trace, b: Trace) -> Result:
    """Regions are matched by kernel and by the path of names to them."""
    result = Result("compare")
    left, right = _samples(a), _samples(b)
    kernels = [k.name for k in a.kernels if any(k.name == other.name for other in b.kernels)]
    for name in dict.fromkeys(kernels):
        paths = [p for p in left if p[0] == name and p in right]
        rows = [_row(path, left[path], right[path]) for path in paths]
        if rows:
            result.tables.append(Table(name, pl.DataFrame(rows, infer_schema_length=None), COLUMNS))
            result.findings += _finding(name, rows)
        missing = [p for p in (*left, *right) if p[0] == name and (p in left) != (p in right)]
        if missing:
            names = ", ".join(p[-1] for p in missing[:3]) + (" ..." if len(missing) > 3 else "")
            result.findings.append(
                Finding(f"{name}: only in one of the two: {names}", data={"count": len(missing)})
            )
    for trace, other, side in ((a, b, "A"), (b, a, "B")):
        alone = sorted({k.name for k in trace.kernels} - {k.name for k in other.kernels})
        if alone:
            result.findings.append(Finding(f"only in {side}: {', '.join(alone)}"))
    return result


def _samples(trace: Trace) -> dict[tuple[str, ...], np.ndarray]:
    """For each path (kernel, region, region ...) the time that a program, or each of its streams, spent there: one
    number a launch. Partitions have paths of their own."""
    timed = trace.scan().filter(pl.col("kind").is_in(["region", "wait"]))
    grouped = with_partition(trace, timed).group_by("partition", "region", "launch")
    frame = grouped.agg(
        DURATION.sum().alias("ns"), pl.struct("program", "stream").n_unique().alias("streams")
    )
    frame = frame.sort("partition", "region", "launch").collect(engine="streaming")
    times = dict(frame.group_by("partition", "region", maintain_order=True))
    found: dict[tuple[str, ...], np.ndarray] = {}
    for kernel in trace.kernels:
        for number, partition in enumerate(partitions(trace, kernel)):
            for region, path in _paths(trace, kernel, partition.name).items():
                if (number, region) in times:
                    part = times[number, region]
                    found[path] = (part["ns"] / part["streams"]).to_numpy()
    return found


def _paths(trace: Trace, kernel: Kernel, partition: str) -> dict[int, tuple[str, ...]]:
    """The names from the kernel to each region; two regions of one name under one parent are told apart by a space.
    The outermost regions of a partition carry its name."""
    paths: dict[int, tuple[str, ...]] = {}
    for region in trace.kernel_regions(kernel.id):
        before = None if region.parent is None else paths.get(region.parent)
        name = f"{partition}: {region.name}" if partition and before is None else region.name
        path = (*(before or (kernel.name,)), name)
        while path in paths.values():
            path = (*path[:-1], path[-1] + " ")
        paths[region.id] = path
    return paths


def _row(path: tuple[str, ...], a: np.ndarray, b: np.ndarray) -> dict:
    before, after = float(np.median(a)), float(np.median(b))
    change = after / before - 1.0 if before else 0.0
    noise = _noise(a, b, before)
    return {
        "name": path[-1].strip(),
        "depth": len(path) - 2,
        "a_ns": before,
        "b_ns": after,
        "change": change,
        "noise": noise,
        "verdict": _verdict(change, noise),
        "launches_a": len(a),
        "launches_b": len(b),
    }


def _noise(a: np.ndarray, b: np.ndarray, before: float) -> float | None:
    """The change that may be chance, as a share; None if unknown. With few launches it is the range that
    either side covers by itself, with many it is SIGMAS standard errors of the difference of the medians."""
    if min(len(a), len(b)) < ENOUGH or not before:
        return None
    if min(len(a), len(b)) < MANY:
        return float(max(np.ptp(a), np.ptp(b)) / before)
    errors = [1.4826 * np.median(np.abs(x - np.median(x))) * np.sqrt(np.pi / 2 / len(x)) for x in (a, b)]
    return float(SIGMAS * np.hypot(*errors) / before)


def _verdict(change: float, noise: float | None) -> str:
    if noise is None:
        return "too few launches"
    if abs(change) <= noise:
        return "within noise"
    return "slower" if change > 0 else "faster"


def _finding(name: str, rows: list[dict]) -> list[Finding]:
    whole = max((row for row in rows if row["depth"] == rows[0]["depth"]), key=lambda row: row["a_ns"])
    if whole["noise"] is None:
        text = f"{name}: too few launches to tell a change from noise; {ENOUGH} on each side are needed"
        return [Finding(text, "warning", {"launches": [whole["launches_a"], whole["launches_b"]]})]
    if whole["verdict"] == "within noise":
        return [
            Finding(
                f"{name}: no change beyond the noise of {100 * whole['noise']:.1f} %",
                data={"change": whole["change"]},
            )
        ]
    change, noise = abs(100 * whole["change"]), 100 * whole["noise"]
    text = f"{name}: B is {change:.1f} % {whole['verdict']} than A, noise {noise:.1f} %"
    return [Finding(text, data={"change": whole["change"], "noise": whole["noise"]})]
