"""source: the kernel's source, with the time that each line took.

A stage fused from several lines is one measurement; its time is spread evenly over its lines of code, and
those lines are marked as estimates.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import region_times, region_tree
from tileprobe.tools.result import Column, Result, Table
from tileprobe.trace import Kernel, Trace

COLUMNS = [
    Column("ns", "ns", "time"),
    Column("share", "share", ""),
    Column("line", "count", "line"),
    Column("text", "source", ""),
]


class Source:
    name = "source"

    def plan(self) -> Plan:
        return Plan(kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in trace.kernels:
            if kernel.source:
                frame = line_times(trace, kernel, times)
                result.tables.append(Table(kernel.name, frame, COLUMNS, kernel.id))
        return result


def line_times(trace: Trace, kernel: Kernel, times: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a line of the kernel's source: number, text, nanoseconds, share, whether it is an estimate."""
    lines = kernel.source.splitlines()
    first = kernel.first_line or 1
    spent: dict[int, float] = {}
    estimated: set[int] = set()
    frame = region_tree(trace, kernel, times)
    places = {region.id: region for region in trace.regions}
    for row in frame.iter_rows(named=True):
        region = places[row["region"]]
        if (
            region.kind in ("kernel", "loop", "iteration", "scope")
            or not region.first_line
            or not row["self_ns"]
        ):
            continue
        if kernel.file and region.file and region.file.rsplit("/", 1)[-1] != kernel.file.rsplit("/", 1)[-1]:
            continue  # a helper from another file: its lines are not shown here
        span = range(region.first_line, max(region.first_line, region.last_line) + 1)
        code = [n for n in span if 0 <= n - first < len(lines) and _is_code(lines[n - first])]
        for number in code:
            spent[number] = spent.get(number, 0.0) + row["self_ns"] / len(code)
        if len(code) > 1 or region.estimate:
            estimated.update(code)
    whole = frame["total_ns"][0] if frame.height else 0.0
    return pl.DataFrame(
        {
            "line": [first + n for n in range(len(lines))],
            "text": lines,
            "ns": [spent.get(first + n) for n in range(len(lines))],
            "share": [spent.get(first + n, 0.0) / whole if whole else 0.0 for n in range(len(lines))],
            "estimate": [first + n in estimated for n in range(len(lines))],
        },
        schema={
            "line": pl.Int64,
            "text": pl.String,
            "ns": pl.Float64,
            "share": pl.Float64,
            "estimate": pl.Boolean,
        },
    )


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")
