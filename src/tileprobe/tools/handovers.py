"""The streams of a kernel, and the moments at which one of them could go on because something else was done.

Comes in: a trace. Goes out: streams as pieces of time, each the innermost region around it, and *hand-overs*: a stream
stood still until another one, or an operation that it had issued itself, was ready. Edges of the trace say so; where a
target gives none, an asynchronous operation whose wait took time is one. Edges that nobody waited for are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.activities import SPAN, WAITING, kind_of, moments
from tileprobe.tools.bubbles import last_at
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import Array

STREAM = ["launch", "program", "stream"]
_ROUNDING_NS = 0.01


@dataclass(frozen=True)
class Streams:
    """Streams by number, those of a launch and of a program behind one another; pieces of time by stream and start."""

    key: pl.DataFrame  # launch, program, stream, unit of each, with when it begins and ends
    program: Array  # of each stream: the number of its program, over all launches
    number: Array  # of each piece: its stream
    start: Array
    stop: Array
    region: Array
    waits: Array  # whether the stream stands still in it
    sampled: bool  # there was more than was recorded

    @property
    def begin(self) -> Array:
        return self.key["begin"].to_numpy()

    @property
    def end(self) -> Array:
        return self.key["end"].to_numpy()


@dataclass(frozen=True)
class Handovers:
    """In the order of the stream that waits and of when it goes on. `source` is the stream that it waits for (its own,
    where it issued the operation itself), or -1 where that was not recorded."""

    to: Array
    to_ns: Array
    source: Array
    from_ns: Array
    region: Array  # what is waited for
    at: Array  # the region in which it is waited
    waited: Array  # for how long
    arrives: Array  # whether another stream came to a barrier, rather than an operation being done


def streams_of(trace: Trace, kernel: Kernel, launches: list[int]) -> Streams | None:
    """None where nothing was recorded."""
    wanted = pl.col("launch").is_in(launches) & pl.col("kind").is_in(["region", "wait"])
    long = pl.col("stop_ns") > pl.col("start_ns")
    frame = trace.scan().filter(wanted & long).select(*SPAN, "kind", "weight").collect()
    if not frame.height:
        return None
    pieces = moments(trace, kernel, frame)
    key = pieces.group_by(*STREAM, "unit").agg(
        pl.col("start_ns").min().alias("begin"), pl.col("stop_ns").max().alias("end")
    )
    key = key.sort(*STREAM, "unit").with_row_index("number")
    pieces = pieces.join(key.select(*STREAM, "unit", "number"), on=[*STREAM, "unit"], how="left")
    pieces = pieces.sort("number", "start_ns")
    still = [r.id for r in trace.kernel_regions(kernel.id) if kind_of(r) == WAITING and r.kind != "wait"]
    waits = (pl.col("kind") == "wait") | pl.col("region").is_in(still)
    program = key.select(pl.struct("launch", "program").rank("dense")).to_series().to_numpy() - 1
    columns = (pieces[name].to_numpy() for name in ("number", "start_ns", "stop_ns", "region"))
    number, start, stop, region = columns
    sampled = frame["weight"].max() != 1
    return Streams(
        key, program.astype(np.int64), number.astype(np.int64), start, stop, region.astype(np.int64),
        pieces.select(waits).to_series().to_numpy(), sampled,
    )  # fmt: skip


def pieces_within(streams: Streams, stream: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """Which pieces of a stream lie within times of it: for each the time's number, and the piece's."""
    first = last_at(streams.number, streams.start, stream, start)
    first = np.where((first >= 0) & (streams.number[first] == stream), first, first + 1)
    last = last_at(streams.number, streams.start, stream, np.nextafter(stop, -np.inf))
    count = np.maximum(last - first + 1, 0)
    number = np.repeat(np.arange(len(stream)), count)
    piece = first[number] + np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    kept = (streams.stop[piece] > start[number]) & (streams.start[piece] < stop[number])
    return number[kept], piece[kept]


def handovers(trace: Trace, streams: Streams) -> Handovers:
    """Those that were waited for."""
    launches = streams.key["launch"].unique().to_list()
    edges = trace.scan_edges().filter(pl.col("launch").is_in(launches) & (pl.col("kind") != "program-slot"))
    names = ("kind", "from_program", "from_stream", "from_ns", "from_region")
    more = ("to_program", "to_stream", "to_ns", "to_region")
    found = edges.select("launch", *names, *more).with_columns(pl.col("kind").cast(pl.String)).collect()
    spans = trace.scan().filter(pl.col("launch").is_in(launches) & pl.col("kind").is_in(["async", "wait"]))
    asynchronous = spans.select(*SPAN, "kind").collect()
    known = found.filter(pl.col("kind") == "issue-wait").select("launch").unique()
    found = pl.concat(
        [found, _implied(asynchronous.join(known, on="launch", how="anti")).select(found.columns)]
    )
    number = streams.key.select(*STREAM, "number").unique(STREAM, keep="first")
    for end in ("from", "to"):
        names = {"program": f"{end}_program", "stream": f"{end}_stream", "number": end}
        found = found.join(number.rename(names), on=["launch", f"{end}_program", f"{end}_stream"], how="left")
    found = found.filter(pl.col("to").is_not_null() & (pl.col("from_ns") < pl.col("to_ns")))
    waited = asynchronous.filter(pl.col("kind") == "wait")["region"].unique().to_list()
    return _binding(streams, found.sort("to", "to_ns", "from_ns"), waited)


def _implied(spans: pl.DataFrame) -> pl.DataFrame:
    """An edge for each asynchronous operation of launches whose edges do not say it."""
    spans = spans.filter(pl.col("kind") == "async")
    stream = {
        f"{end}_{name}": pl.col(name) for end in ("from", "to") for name in ("program", "stream", "region")
    }
    times = {"from_ns": pl.col("start_ns"), "to_ns": pl.col("stop_ns")}
    return spans.select("launch", **stream, **times).with_columns(pl.lit("issue-wait").alias("kind"))


def _binding(streams: Streams, found: pl.DataFrame, waited: list[int]) -> Handovers:
    """Without those that were over before anybody waited. An operation with waits of its own was waited for where one
    of them ends; for others the target says only what was."""
    to, to_ns = found["to"].to_numpy().astype(np.int64), found["to_ns"].to_numpy()
    from_ns = found["from_ns"].to_numpy()
    at = last_at(streams.number, streams.start, to, to_ns - np.minimum(_ROUNDING_NS, (to_ns - from_ns) / 2))
    there = (at >= 0) & (streams.number[at] == to) & (to_ns <= streams.stop[at] + _ROUNDING_NS)
    where = found["to_region"].cast(pl.Int64).fill_null(-1).to_numpy()
    still = there & streams.waits[at] & ((streams.region[at] == where) | (where < 0))
    since = np.where(there, streams.start[at], to_ns)
    arrives = (found["kind"] != "issue-wait").to_numpy()
    has_waits = found["to_region"].is_in(waited).fill_null(False).to_numpy()
    kept = still | ~has_waits
    # of several that were waited for together, the one that began last
    again = (to[1:] == to[:-1]) & (to_ns[1:] == to_ns[:-1]) & kept[1:]
    kept[:-1] &= ~again
    source = found["from"].cast(pl.Int64).fill_null(-1).to_numpy()
    region = found["from_region"].cast(pl.Int64).fill_null(-1).to_numpy()
    # without a wait of its own, a stream stood still since the piece began, or since it issued what it waits for
    begun = np.where(still | (source != to), since, np.maximum(since, from_ns))
    lasted = to_ns - begun
    columns = (to, to_ns, source, from_ns, region, where, lasted, arrives)
    return Handovers(*(column[kept] for column in columns))
