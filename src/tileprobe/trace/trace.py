"""The Trace: what every target produces and every tool reads.

One table of intervals (columns in `model.COLUMNS`), one of edges between them and one of counters, both empty
where a target has nothing to say, and their side tables. In come columns from a decoder or a simulator, or a
file; out go Polars frames, filtered and merged traces, and files.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tileprobe import html_of
from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout
from tileprobe.trace import file
from tileprobe.trace.build import empty, make_counters, make_edges, make_intervals
from tileprobe.trace.clocks import Clocks
from tileprobe.trace.model import COUNTERS, EDGES, Domain, Kernel, Launch, Losses, Region, Unit, Work
from tileprobe.trace.works import of_launches

Columns = Mapping[str, Any] | pl.DataFrame


@dataclass
class Trace:
    """Intervals and what they mean. The frames may be lazy: `scan()` never forces them, `intervals` does; the
    same holds for `scan_edges()` and `edges`, `scan_counters()` and `counters`."""

    frame: pl.DataFrame | pl.LazyFrame
    kernels: list[Kernel]
    launches: list[Launch]
    regions: list[Region]
    units: list[Unit]
    meta: dict[str, Any] = field(default_factory=dict)
    domains: list[Domain] = field(default_factory=list)
    edge_frame: pl.DataFrame | pl.LazyFrame = field(default_factory=lambda: empty(EDGES))
    counter_frame: pl.DataFrame | pl.LazyFrame = field(default_factory=lambda: empty(COUNTERS))
    works: list[Work] = field(default_factory=list)  # empty in old files: `works.with_works`

    @staticmethod
    def build(
        columns: Columns,
        *,
        kernels: Iterable[Kernel],
        launches: Iterable[Launch],
        regions: Iterable[Region],
        units: Iterable[Unit] = (),
        meta: Mapping[str, Any] | None = None,
        edges: Columns | None = None,
        counters: Columns | None = None,
        domains: Iterable[Domain] = (),
        works: Iterable[Work] = (),
    ) -> Trace:
        """A trace from columns (arrays, lists or frames).

        `region`, `start` and `stop` (ticks) are needed, the rest have defaults. Corrected times come as
        `start_ns` and `stop_ns`, or in ticks as `start_corrected` and `stop_corrected`; without them they are
        the raw ones: right for a machine whose probes cost nothing. NaN in `value` means no payload.

        Edges have `from_tick` and `to_tick` (or `from_tick_corrected` ..., or `from_ns` ...); ticks become
        nanoseconds by the clock of the unit's domain, or the kernel's own where it has none.
        """
        frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
        kernels, launches, domains = list(kernels), list(launches), list(domains)
        units = list(units) or [Unit(0, "unit 0")]
        frame, clocks = make_intervals(frame, lambda raw: Clocks(raw, kernels, launches, units, domains))
        return Trace(
            frame,
            kernels,
            launches,
            list(regions),
            units,
            dict(meta or {}),
            domains,
            empty(EDGES) if edges is None else make_edges(edges, clocks),
            empty(COUNTERS) if counters is None else make_counters(counters),
            list(works),
        )

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def intervals(self) -> pl.DataFrame:
        """The intervals as a frame in memory."""
        if isinstance(self.frame, pl.LazyFrame):
            self.frame = self.frame.collect()
        return self.frame

    def scan(self) -> pl.LazyFrame:
        """The intervals as a query, so that a large file is read in pieces and only where it is needed."""
        return self.frame.lazy()

    @property
    def edges(self) -> pl.DataFrame:
        """What had to wait for what, as a frame in memory."""
        if isinstance(self.edge_frame, pl.LazyFrame):
            self.edge_frame = self.edge_frame.collect()
        return self.edge_frame

    def scan_edges(self) -> pl.LazyFrame:
        return self.edge_frame.lazy()

    @property
    def counters(self) -> pl.DataFrame:
        """What was counted, by launch, unit, source line and instruction, as a frame in memory."""
        if isinstance(self.counter_frame, pl.LazyFrame):
            self.counter_frame = self.counter_frame.collect()
        return self.counter_frame

    def scan_counters(self) -> pl.LazyFrame:
        return self.counter_frame.lazy()

    def __len__(self) -> int:
        return int(self.scan().select(pl.len()).collect().item())

    @property
    def losses(self) -> Losses:
        return sum((launch.losses for launch in self.launches), Losses())

    @property
    def clock_error_ns(self) -> float | None:
        """How far apart two events may be that happen at one time by this trace, on units with different clocks;
        None where all units share a clock."""
        errors = sorted(domain.error_ns for domain in self.domains)
        return sum(errors[-2:]) if errors else None

    def kernel_launches(self, kernel: int) -> list[Launch]:
        return [launch for launch in self.launches if launch.kernel == kernel]

    def kernel_regions(self, kernel: int) -> list[Region]:
        """The regions of one kernel, each parent before its children, as a report prints them."""
        mine = [region for region in self.regions if region.kernel == kernel]
        known = {region.id for region in mine}
        children: dict[int | None, list[Region]] = {}
        for region in mine:
            children.setdefault(region.parent if region.parent in known else None, []).append(region)
        ordered: list[Region] = []
        stack = list(reversed(children.get(None, [])))
        while stack:
            region = stack.pop()
            ordered.append(region)
            stack.extend(reversed(children.get(region.id, [])))
        return ordered

    def stream_names(self, kernel: int) -> tuple[str, ...]:
        """What the streams of a kernel's programs are called, by number; ("",) where a program is one stream."""
        this = next((k for k in self.kernels if k.id == kernel), None)
        if this is None or this.streams:
            return this.streams if this is not None else ("",)
        if not this.layout or not this.layout.get("streams"):
            return ("",)
        layout = Layout.from_json(this.layout)
        return tuple(layout.stream_name(n) for n in range(sum(s.instances for s in layout.streams)))

    def stream_name(self, kernel: int, stream: int) -> str:
        """What one stream is called."""
        names = self.stream_names(kernel)
        return names[stream] if stream < len(names) else f"stream {stream}"

    def to_polars(self) -> pl.DataFrame:
        """The intervals with names in place of ids, ready to look at."""
        regions = pl.DataFrame(
            {
                "region": [r.id for r in self.regions],
                "name": [r.name for r in self.regions],
                "region_kind": [r.kind for r in self.regions],
                "source": [r.source for r in self.regions],
            },
            schema={"region": pl.UInt32, "name": pl.String, "region_kind": pl.String, "source": pl.String},
        )
        units = pl.DataFrame(
            {"unit": [u.id for u in self.units], "unit_name": [u.name for u in self.units]},
            schema={"unit": pl.UInt32, "unit_name": pl.String},
        )
        joined = self.scan()
        for table, key in ((regions, "region"), (units, "unit")):
            joined = joined.join(table.lazy(), on=key, how="left", maintain_order="left")
        duration = (pl.col("stop_ns") - pl.col("start_ns")).alias("duration_ns")
        return joined.with_columns(duration).collect()

    def to_pandas(self) -> Any:
        """`to_polars` as a pandas frame; pandas is not a dependency."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise TileProbeError("to_pandas() needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def _repr_html_(self) -> str:
        """What a notebook shows: the page, in a frame."""
        return html_of(self)

    # -- changing -----------------------------------------------------------------------------------------

    def filter(
        self,
        *,
        kernel: str | None = None,
        launches: Iterable[int] | None = None,
        programs: Iterable[int] | None = None,
        region: str | None = None,
        kind: str | None = None,
        where: pl.Expr | None = None,
    ) -> Trace:
        """A trace with only the intervals that match. `kernel`, `region` and `kind` (of region) are patterns
        such as `*attn*`; `where` is any Polars expression over the columns. An edge stays when both its ends
        do; counters, which are about lines and not about intervals, stay with their launch. Launches that are
        asked for by number stand for no others."""
        kept = [k for k in self.kernels if kernel is None or fnmatch.fnmatchcase(k.name, kernel)]
        ids = {k.id for k in kept}
        wanted = None if launches is None else set(launches)
        runs = [r for r in self.launches if r.kernel in ids and (wanted is None or r.id in wanted)]
        works = [work for work in self.works if work.kernel in ids]
        works = works if wanted is None else of_launches(works, runs)
        regions = [r for r in self.regions if r.kernel in ids]
        if region is not None:
            regions = [r for r in regions if fnmatch.fnmatchcase(r.name, region)]
        if kind is not None:
            regions = [r for r in regions if fnmatch.fnmatchcase(r.kind, kind)]
        query, edges, counters = self.scan(), self.scan_edges(), self.scan_counters()
        if len(runs) != len(self.launches):
            mine = pl.col("launch").is_in([r.id for r in runs])
            query, edges, counters = query.filter(mine), edges.filter(mine), counters.filter(mine)
        if len(regions) != len(self.regions):
            ids = [r.id for r in regions]
            query = query.filter(pl.col("region").is_in(ids))
            edges = edges.filter(_both_ends("region", ids))
        if programs is not None:
            ids = list(programs)
            query, edges = (
                query.filter(pl.col("program").is_in(ids)),
                edges.filter(_both_ends("program", ids)),
            )
        if where is not None:
            query = query.filter(where)
            edges = _edges_within(edges, query)
        return replace(
            self,
            frame=_like(self.frame, query),
            kernels=kept,
            launches=runs,
            regions=regions,
            works=works,
            edge_frame=_like(self.edge_frame, edges),
            counter_frame=_like(self.counter_frame, counters),
        )

    @staticmethod
    def merge(*traces: Trace) -> Trace:
        """One trace of several. Kernels that are the same in all become one; launches stay apart."""
        from tileprobe.trace.merge import merge

        return merge(traces)

    # -- disk ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to one file, whole or not at all."""
        file.write(path, self)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Trace:
        """The trace at `path`, its tables left on disk until a query needs them."""
        return Trace(**file.read(path))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trace:
        """The trace at `path`, read into memory."""
        trace = Trace.open(path)
        try:
            _ = trace.intervals, trace.edges, trace.counters
        except (OSError, pl.exceptions.PolarsError) as error:
            raise TileProbeError(f"{os.fspath(path)} is damaged: {error}") from error
        return trace


def _like(old: pl.DataFrame | pl.LazyFrame, new: pl.LazyFrame) -> pl.DataFrame | pl.LazyFrame:
    """What was in memory stays in memory, what was on disk stays there."""
    return new if isinstance(old, pl.LazyFrame) else new.collect()


def _both_ends(name: str, ids: list[int]) -> pl.Expr:
    """Edges whose ends are both among `ids`, or at none."""
    ends = [pl.col(f"{end}_{name}") for end in ("from", "to")]
    return pl.all_horizontal([end.is_null() | end.is_in(ids) for end in ends])


def _edges_within(edges: pl.LazyFrame, intervals: pl.LazyFrame) -> pl.LazyFrame:
    """Edges between streams of which at least one interval is left."""
    left = intervals.select("launch", "program", "stream").unique()
    for end in ("from", "to"):
        edges = edges.join(
            left,
            left_on=["launch", f"{end}_program", f"{end}_stream"],
            right_on=["launch", "program", "stream"],
            how="semi",
            maintain_order="left",
        )
    return edges
