"""source: the kernel's source, with the time that each line took.

A stage fused from several lines is one measurement; its time is spread evenly over its lines of code, and
those lines are marked as estimates.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import region_times, region_tree, whole_ns
from tileprobe.tools.result import Column, Result, Table
from tileprobe.tools.times import Times
from tileprobe.trace import Kernel, Trace

COLUMNS = [
    Column("ns", "ns", "time"),
    Column("share", "share", ""),
    Column("line", "count", "line"),
    Column("text", "source", ""),
]

SCHEMA = {"line": pl.Int64, "text": pl.String, "ns": pl.Float64, "share": pl.Float64, "estimate": pl.Boolean}


class Source:
    name = "source"

    def plan(self) -> Plan:
        return Plan(kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in trace.kernels:
            frame = line_times(trace, kernel, times) if kernel.source else None
            if frame is not None and frame["ns"].count():
                result.tables.append(Table(kernel.name, frame, COLUMNS, kernel.id))
        return result


def line_times(trace: Trace, kernel: Kernel, times: Times | None = None) -> pl.DataFrame:
    """One row a line of the kernel's source: number, text, nanoseconds, share, whether it is an estimate.
    Lines of functions that the kernel calls follow at the end."""
    text = {(kernel.first_line or 1) + n: line for n, line in enumerate(kernel.source.splitlines())}
    spent: dict[int, float] = {}
    estimated: set[int] = set()
    frame = region_tree(trace, kernel, times)
    places = {region.id: region for region in trace.regions}
    for row in frame.iter_rows(named=True):
        if row["kind"] in ("partition", "kernel", "loop", "iteration", "scope") or not row["self_ns"]:
            continue
        region = places[row["region"]]
        code = [n for n in region.all_lines if _is_code(text.get(n, "?"))]
        for number in code:
            spent[number] = spent.get(number, 0.0) + row["self_ns"] / len(code)
        if len(code) > 1 or region.estimate:
            estimated.update(code)
    for number in sorted(spent):
        text.setdefault(number, "(in a function that it calls)")
    whole = whole_ns(frame)
    return pl.DataFrame(
        {
            "line": list(text),
            "text": list(text.values()),
            "ns": [spent.get(n) for n in text],
            "share": [spent.get(n, 0.0) / whole if whole else 0.0 for n in text],
            "estimate": [n in estimated for n in text],
        },
        schema=SCHEMA,
    )


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")
