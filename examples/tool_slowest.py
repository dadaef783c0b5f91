"""A tool of your own: the slowest interval of each region, and where it happened.

    tileprobe report trace.parquet --tool examples/tool_slowest.py:Slowest

`plan` says what the tool needs probed when a kernel is profiled with it; `read` makes tables and findings of
any trace. The intervals are a Polars table; docs/trace.md lists its columns.
"""

import polars as pl

from tileprobe.tools import Column, Finding, Plan, Result, Table


class Slowest:
    name = "slowest"

    def plan(self):
        # Every stage inside of every loop; `kinds=("dot",)` would take only matrix products.
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace):
        duration = pl.col("stop_ns") - pl.col("start_ns")
        slowest = (
            trace.scan()
            .filter(pl.col("kind") == "region")
            .with_columns(duration.alias("worst_ns"))
            .group_by("region")
            .agg(
                pl.all().get(pl.col("worst_ns").arg_max()),
                pl.col("worst_ns").median().alias("p50_ns"),
            )
            .with_columns((pl.col("worst_ns") / pl.col("p50_ns")).alias("times"))
            .collect()
        )
        regions = pl.DataFrame(
            {"region": [r.id for r in trace.regions], "name": [r.name for r in trace.regions]}
        )
        frame = slowest.join(regions.cast({"region": pl.UInt32}), on="region").sort("times", descending=True)
        columns = [
            Column("name", "text", "region"),
            Column("worst_ns", "ns", "slowest"),
            Column("p50_ns", "ns", "median"),
            Column("times", "number", "times"),
            Column("launch", "count", "launch"),
            Column("program", "count", "program"),
            Column("iteration", "count", "iteration"),
        ]
        findings = [
            Finding(f"{row['name']}: program {row['program']} took {row['times']:.1f} times the median")
            for row in frame.iter_rows(named=True)
            if row["times"] and row["times"] > 1.5
        ]
        return Result(self.name, [Table("slowest intervals", frame, columns)], findings)
