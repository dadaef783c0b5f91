"""The partitions of a kernel: streams that run the same code are one, those that run different code are apart.

In comes a kernel whose programs have streams with names ("producer", "consumer / warp 0", "consumer / warp 1"); out go
its partitions ("producer" and "consumer" with two warps). Times of one partition's streams can be put together, times
of different partitions are different stories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tileprobe.trace import Kernel, Trace

_INSTANCE = re.compile(r"(?:^| / )(?:warp|warp group|instance) \d+$")


@dataclass(frozen=True)
class Partition:
    """`streams` are the numbers of its streams in a program; the only partition of a kernel has no name."""

    name: str
    streams: tuple[int, ...]


def partitions(trace: Trace, kernel: Kernel) -> list[Partition]:
    """At least one, in the order of the streams."""
    found: dict[str, list[int]] = {}
    for number, name in enumerate(trace.stream_names(kernel.id)):
        found.setdefault(_INSTANCE.sub("", name), []).append(number)
    if len(found) < 2:
        return [Partition("", tuple(next(iter(found.values()), [0])))]
    return [Partition(name or "default", tuple(numbers)) for name, numbers in found.items()]


def with_partition(trace: Trace, intervals: pl.LazyFrame) -> pl.LazyFrame:
    """The intervals with the column `partition`: which of its kernel's partitions each belongs to."""
    rows = [
        (region.id, stream, number)
        for kernel in trace.kernels
        for number, partition in enumerate(partitions(trace, kernel))
        if number
        for stream in partition.streams
        for region in trace.regions
        if region.kernel == kernel.id
    ]
    if not rows:
        return intervals.with_columns(pl.lit(0, pl.Int64).alias("partition"))
    schema = {"region": pl.UInt32, "stream": pl.UInt16, "partition": pl.Int64}
    table = pl.LazyFrame(rows, schema=schema, orient="row")
    joined = intervals.join(table, on=["region", "stream"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("partition").fill_null(0))
