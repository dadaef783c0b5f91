"""The Trace: what every target produces and every tool reads.

One table of intervals (columns in `model.COLUMNS`) with its side tables. In come columns from a decoder or
a simulator, or a file; out go Polars frames, filtered and merged traces, and files.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.trace import file
from tileprobe.trace.model import COLUMNS, KIND_DTYPE, KINDS, Kernel, Launch, Losses, Region, Unit

_DEFAULTS: dict[str, Any] = {
    "launch": 0,
    "program": 0,
    "unit": 0,
    "kind": "region",
    "iteration": -1,
    "outer": 0,
}


@dataclass
class Trace:
    """Intervals and what they mean. `frame` may be lazy: `scan()` never forces it, `intervals` does."""

    frame: pl.DataFrame | pl.LazyFrame
    kernels: list[Kernel]
    launches: list[Launch]
    regions: list[Region]
    units: list[Unit]
    meta: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def build(
        columns: Mapping[str, Any] | pl.DataFrame,
        *,
        kernels: Iterable[Kernel],
        launches: Iterable[Launch],
        regions: Iterable[Region],
        units: Iterable[Unit] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Trace:
        """A trace from columns (arrays, lists or a frame).

        `region`, `start` and `stop` (ticks) are needed, the rest have defaults. Corrected times come as
        `start_ns` and `stop_ns`, or in ticks as `start_corrected` and `stop_corrected`; without them they are
        the raw ones: right for a machine whose probes cost nothing. NaN in `value` means no payload.
        """
        frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
        for name in ("region", "start", "stop"):
            if name not in frame.columns:
                raise TileProbeError(
                    f"a trace needs the column {name!r}; there are {', '.join(frame.columns)}"
                )
        kernels, launches, units = list(kernels), list(launches), list(units) or [Unit(0, "unit 0")]
        absent = [pl.lit(v).alias(k) for k, v in _DEFAULTS.items() if k not in frame.columns]
        frame = frame.with_columns(absent)
        if "value" not in frame.columns:
            frame = frame.with_columns(pl.lit(None, pl.Float64).alias("value"))
        if "start_ns" not in frame.columns:
            frame = _raw_times(frame, kernels, launches)
        if frame["kind"].dtype.is_integer():
            names = pl.col("kind").replace_strict(
                list(range(len(KINDS))), list(KINDS), return_dtype=KIND_DTYPE
            )
            frame = frame.with_columns(names)
        frame = frame.select([pl.col(name).cast(dtype) for name, dtype in COLUMNS.items()])
        frame = frame.with_columns(pl.col("value").fill_nan(None))
        return Trace(frame, kernels, launches, list(regions), units, dict(meta or {}))

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

    def __len__(self) -> int:
        return int(self.scan().select(pl.len()).collect().item())

    @property
    def losses(self) -> Losses:
        return sum((launch.losses for launch in self.launches), Losses())

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
        such as `*attn*`; `where` is any Polars expression over the columns."""
        kept = [k for k in self.kernels if kernel is None or fnmatch.fnmatchcase(k.name, kernel)]
        ids = {k.id for k in kept}
        wanted = None if launches is None else set(launches)
        runs = [r for r in self.launches if r.kernel in ids and (wanted is None or r.id in wanted)]
        regions = [r for r in self.regions if r.kernel in ids]
        if region is not None:
            regions = [r for r in regions if fnmatch.fnmatchcase(r.name, region)]
        if kind is not None:
            regions = [r for r in regions if fnmatch.fnmatchcase(r.kind, kind)]
        query = self.scan()
        if len(runs) != len(self.launches):
            query = query.filter(pl.col("launch").is_in([r.id for r in runs]))
        if len(regions) != len(self.regions):
            query = query.filter(pl.col("region").is_in([r.id for r in regions]))
        if programs is not None:
            query = query.filter(pl.col("program").is_in(list(programs)))
        if where is not None:
            query = query.filter(where)
        frame = query if isinstance(self.frame, pl.LazyFrame) else query.collect()
        return Trace(frame, kept, runs, regions, self.units, self.meta)

    @staticmethod
    def merge(*traces: Trace) -> Trace:
        """One trace of several. Kernels that are the same in all become one; launches stay apart."""
        from tileprobe.trace.merge import merge

        return merge(traces)

    # -- disk ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to one file, whole or not at all."""
        tables = {
            "kernels": self.kernels,
            "launches": self.launches,
            "regions": self.regions,
            "units": self.units,
        }
        file.write(path, self.scan(), tables, self.meta)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Trace:
        """The trace at `path`, its intervals left on disk until a query needs them."""
        frame, tables, meta = file.read(path)
        return Trace(frame, **tables, meta=meta)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trace:
        """The trace at `path`, read into memory."""
        trace = Trace.open(path)
        try:
            trace.intervals  # noqa: B018
        except (OSError, pl.exceptions.PolarsError) as error:
            raise TileProbeError(f"{os.fspath(path)} is damaged: {error}") from error
        return trace


def _raw_times(frame: pl.DataFrame, kernels: list[Kernel], launches: list[Launch]) -> pl.DataFrame:
    """Adds start_ns and stop_ns from the ticks, corrected if there are such, counted from the first start."""
    corrected = "start_corrected" in frame.columns
    rates = {kernel.id: 1e9 / kernel.clock.hz for kernel in kernels}
    ns_per_tick = {launch.id: rates[launch.kernel] for launch in launches}
    if len(set(rates.values())) == 1:
        scale = pl.lit(next(iter(rates.values())))
    else:
        scale = pl.col("launch").replace_strict(ns_per_tick, return_dtype=pl.Float64)
    origin = frame["start"].min() if frame.height else 0
    names = {c: f"{c}_corrected" if corrected else c for c in ("start", "stop")}
    times = [((pl.col(name) - origin) * scale).alias(f"{c}_ns") for c, name in names.items()]
    return frame.with_columns(times)


def with_corrected(trace: Trace, start_ns: Any, stop_ns: Any) -> Trace:
    """The same trace with other corrected times (Replay's result)."""
    frame = trace.intervals.with_columns(
        pl.Series("start_ns", start_ns, pl.Float64), pl.Series("stop_ns", stop_ns, pl.Float64)
    )
    return replace(trace, frame=frame)
