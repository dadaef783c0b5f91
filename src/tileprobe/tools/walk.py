"""The walk from the end of a launch backwards: what had to be over before what.

In come the streams of a kernel and their hand-overs; out go *steps*, each a piece of time of one launch: a stream went
its own way; it stood still for what was handed over; a place on a unit stood empty between two programs; the launch had
not begun there yet. The steps of a launch follow one another without a gap from its first start to its last stop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.handovers import Handovers, Streams
from tileprobe.trace import Trace
from tileprobe.trace.intervals import Array

OWN, HELD, BETWEEN, RAMP = range(4)


@dataclass(frozen=True)
class Steps:
    """`handover` is the number of the hand-over that ends a HELD step, else -1; launch by launch, latest first."""

    what: Array
    stream: Array
    start: Array
    stop: Array
    handover: Array


class Walk:
    """All launches of a kernel. What is looked up again and again is kept in lists, which are faster than arrays."""

    def __init__(self, trace: Trace, streams: Streams, handed: Handovers) -> None:
        self._streams, self._handed = streams, handed
        self._begin, self._end = streams.begin.tolist(), streams.end.tolist()
        self._program = streams.program.tolist()
        ends = np.searchsorted(handed.to, np.arange(len(self._begin) + 1))
        self._first = ends.tolist()
        self._to_ns, self._from_ns = handed.to_ns.tolist(), handed.from_ns.tolist()
        self._source = handed.source.tolist()
        self._members: dict[int, list[int]] = defaultdict(list)
        for stream, program in enumerate(self._program):
            self._members[program].append(stream)
        self.before = _predecessors(trace, streams)
        self._rows: list[tuple[int, int, float, float, int]] = []

    def steps(self) -> Steps:
        launches = self._streams.key["launch"].to_numpy()
        for launch in np.unique(launches).tolist():
            self._walk(_range(launches, launch))
        columns = zip(*self._rows) if self._rows else ((),) * 5
        what, stream, start, stop, handover = (np.array(column) for column in columns)
        return Steps(what.astype(np.int64), stream.astype(np.int64), start, stop, handover.astype(np.int64))

    def _walk(self, mine: range) -> None:
        """One launch: from its last stop to its first start."""
        stream = max(mine, key=self._end.__getitem__)
        origin = min(self._begin[n] for n in mine)
        at = self._end[stream]
        while True:
            number = self._handed_over(stream, at)
            if number >= 0:
                stream, at = self._follow(stream, at, number)
                continue
            begin = min(self._begin[stream], at)
            self._add(OWN, stream, begin, at, -1)
            other = self._of_program(stream, begin)
            if other is not None:
                stream, at = other, begin
                continue
            before = self.before.get(self._program[stream])
            if before is None or self._end[before] > begin:
                self._add(RAMP, stream, origin, begin, -1)
                return
            self._add(BETWEEN, stream, self._end[before], begin, -1)
            stream, at = before, self._end[before]

    def _handed_over(self, stream: int, at: float) -> int:
        """The last hand-over to a stream up to a time, or -1."""
        first = self._first[stream]
        number = bisect_right(self._to_ns, at, first, self._first[stream + 1]) - 1
        return number if number >= first and self._from_ns[number] < at else -1

    def _follow(self, stream: int, at: float, number: int) -> tuple[int, float]:
        until, since = self._to_ns[number], self._from_ns[number]
        self._add(OWN, stream, until, at, -1)
        source = self._source[number] if self._source[number] >= 0 else stream
        self._add(HELD, source, since, until, number)
        return source, since

    def _of_program(self, stream: int, begin: float) -> int | None:
        """Another stream of the program that was there before this one began."""
        others = [n for n in self._members[self._program[stream]] if self._begin[n] < begin]
        return max(others, key=lambda n: min(self._end[n], begin)) if others else None

    def _add(self, what: int, stream: int, start: float, stop: float, handover: int) -> None:
        if stop > start:
            self._rows.append((what, stream, start, stop, handover))


def _range(launches: Array, launch: int) -> range:
    return range(int(np.searchsorted(launches, launch)), int(np.searchsorted(launches, launch, "right")))


def _predecessors(trace: Trace, streams: Streams) -> dict[int, int]:
    """For each program the stream whose end let it begin: by edges of the trace, else the last one that had ended on
    the same unit when it began."""
    table = streams.key.with_columns(pl.Series("place", streams.program))
    ends = table.sort("end").group_by("place", maintain_order=True).agg(
        pl.col("launch", "program", "unit").last(), pl.col("begin").min(), pl.col("end", "number").last()
    )  # fmt: skip
    last = ends.select("launch", "unit", pl.col("end").alias("begin"), "number").sort("begin")
    found = ends.sort("begin").join_asof(
        last, on="begin", by=["launch", "unit"], suffix="_before", check_sortedness=False
    )
    before = dict(found.drop_nulls("number_before").select("place", "number_before").iter_rows())
    slots = trace.scan_edges().filter(
        (pl.col("kind") == "program-slot") & pl.col("launch").is_in(ends["launch"].unique().to_list())
    )
    said = slots.select("launch", "from_program", "to_program").collect()
    if said.height:
        names = ends.select("launch", "program", "place", "number")
        said = said.join(
            names.rename({"program": "from_program", "place": "_"}), on=["launch", "from_program"]
        )
        said = said.join(names.drop("number").rename({"program": "to_program"}), on=["launch", "to_program"])
        before |= dict(said.select("place", "number").iter_rows())
    return before
