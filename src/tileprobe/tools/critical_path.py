"""critical-path: what a launch would have to do faster to be over sooner.

From the end of a launch backwards: which program ended last and what let it begin, which of its streams was waited for
and for whom, what was issued and awaited. Time on that path is all that counts; what lies beside it is hidden. Launches
are the samples; the chain that is shown is that of the launch of median length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tileprobe.tools.bubbles import named
from tileprobe.tools.chain import CHAIN, HELD, chain, held_up
from tileprobe.tools.crowded import warned
from tileprobe.tools.near import Near, near
from tileprobe.tools.path import KINDS, NOWHERE, RAMP, TAIL, UNKNOWN, WAIT, Path, path_of
from tileprobe.tools.plan import Plan
from tileprobe.tools.ratios import ratio
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.words import duration, percent
from tileprobe.trace import Kernel, Trace

REGIONS = [
    Column("name", "text", "on the path"),
    Column("share", "share", "of the launch"),
    Column("error", "noise", ""),
    Column("waited", "percent", "of it waited for"),
    Column("ns", "ns", "a launch"),
    Column("spare_ns", "ns", "beside it to spare"),
]
LINES = [
    Column("line", "text", "line"),
    Column("share", "share", "of the launch"),
    Column("error", "noise", ""),
    Column("ns", "ns", "a launch"),
]
SHARES = [
    Column("kind", "text", "what it does"),
    Column("share", "share", "of the launch"),
    Column("error", "noise", ""),
    Column("ns", "ns", "a launch"),
]
WORTH = 0.05  # of the launch: worth a sentence


class CriticalPath:
    name = "critical-path"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        for kernel in told_apart(trace.kernels):
            path = path_of(trace, kernel)
            if path is not None and path.rows.height:
                _tell(result, trace, kernel, path)
        if not result.tables:
            text = "nothing was recorded that a path could be made of (tileprobe run --tool critical-path)"
            result.findings.append(Finding(text, level="warning"))
        return result


def _tell(result: Result, trace: Trace, kernel: Kernel, path: Path) -> None:
    exact = kernel.clock.is_simulated and not path.sampled
    rows = _said(trace, kernel, path)
    beside = near(path)
    regions = shares(path, rows, "name", exact, pl.col("region") != NOWHERE)
    regions = regions.join(_waited(rows), on="name", how="left")
    regions = regions.join(_spare(rows, beside), on="name", how="left", maintain_order="left")
    kinds = shares(path, rows, "kind", exact)
    lines = shares(path, rows, "line", exact, pl.col("line") != "")
    waits = held_up(trace, kernel, path, rows)
    legs = chain(trace, kernel, path, rows)
    tables = (
        ("what is on the critical path", regions, REGIONS),
        ("kinds of time on it", kinds, SHARES),
        ("lines on it", lines, LINES),
        ("what it waits for", waits, HELD),
        ("the chain", legs, CHAIN),
    )
    for title, frame, columns in tables:
        if frame.height:
            result.tables.append(Table(f"{kernel.name}: {title}", frame, columns, kernel.id))
    result.findings += _findings(kernel, path, regions, kinds, waits, beside)
    if path.streams is not None:
        runs = path.streams.key.select("launch", "unit", start_ns="begin", stop_ns="end")
        result.findings += warned(trace, kernel, runs)


def _said(trace: Trace, kernel: Kernel, path: Path) -> pl.DataFrame:
    """Rows with the name and the line of their region, and the time that they stand for."""
    regions = {r.id: r for r in trace.regions}
    lines = {n: _line(r.file, r.first_line, r.last_line) for n, r in regions.items() if r.first_line}
    where = pl.col("region").replace_strict(lines, default="", return_dtype=pl.String)
    stands = pl.col("stands") if "stands" in path.rows.columns else pl.lit(1.0)
    return path.rows.with_columns(
        named(trace, kernel, "stream", "region").alias("name"),
        where.alias("line"),
        ((pl.col("stop_ns") - pl.col("start_ns")) * stands).alias("ns"),
    )


def _line(file: str, first: int, last: int) -> str:
    name = file.rpartition("/")[2]
    return f"{name}:{first}" if last <= first else f"{name}:{first}-{last}"


def shares(
    path: Path, rows: pl.DataFrame, by: str, exact: bool, which: pl.Expr | None = None
) -> pl.DataFrame:
    """Of each value of a column its share of the launches' time, with half its 95 % interval."""
    launches = list(path.lasted)
    number = {launch: n for n, launch in enumerate(launches)}
    whole = np.array([path.lasted[launch] for launch in launches])
    sums = rows.filter(pl.col("ns") > 0).group_by("launch", by).agg(pl.col("ns").sum())
    if by == "kind":
        sums = pl.concat([sums, _around(path, rows)]).group_by("launch", by).agg(pl.col("ns").sum())
    elif which is not None:
        sums = rows.filter(which).group_by("launch", by).agg(pl.col("ns").sum())
    found: list[dict[str, Any]] = []
    for (value,), mine in sums.group_by([by]):
        part = np.zeros(len(launches))
        part[[number[launch] for launch in mine["launch"].to_list()]] = mine["ns"].to_numpy()
        share = ratio(part, whole, np.arange(len(launches)), not exact)
        found.append({by: value, "share": share.value, "error": share.error, "ns": float(part.mean())})
    schema = {by: pl.String, "share": pl.Float64, "error": pl.Float64, "ns": pl.Float64}
    return pl.DataFrame(found, schema=schema).sort("share", by, descending=[True, False])


def _around(path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """What launches took before their first program and behind their last."""
    inside = dict(rows.group_by("launch").agg(pl.col("ns").sum()).iter_rows())
    kind = UNKNOWN if path.sampled and path.streams is None else RAMP
    around = [(n, kind, max(0.0, ns - inside.get(n, 0.0))) for n, ns in path.lasted.items()]
    schema = {"launch": rows.schema["launch"], "kind": pl.String, "ns": pl.Float64}
    return pl.DataFrame(around, schema=schema, orient="row").filter(pl.col("ns") > 0)


def _waited(rows: pl.DataFrame) -> pl.DataFrame:
    """Of each region the share of its time on the path that is waiting."""
    waits = (pl.col("kind") == WAIT) | ((pl.col("kind") == TAIL) & (pl.col("handover") >= 0))
    share = (pl.col("ns") * waits).sum() / pl.col("ns").sum()
    return rows.group_by("name").agg(share.alias("waited"))


def _spare(rows: pl.DataFrame, beside: Near | None) -> pl.DataFrame:
    """What executions of each region beside the path have to spare: the median of their time, and the least."""
    found = rows.select("name", "region").unique().filter(pl.col("region") != NOWHERE)
    spare = {} if beside is None else beside.spare_ns
    regions = found["region"].to_list()
    found = found.with_columns(
        pl.Series("spare_ns", [spare[n][0] if n in spare else None for n in regions], pl.Float64),
        pl.Series("least_spare_ns", [spare[n][1] if n in spare else None for n in regions], pl.Float64),
    )
    return found.group_by("name").agg(pl.col("spare_ns", "least_spare_ns").min())


def _findings(
    kernel: Kernel,
    path: Path,
    regions: pl.DataFrame,
    kinds: pl.DataFrame,
    waits: pl.DataFrame,
    beside: Near | None,
) -> list[Finding]:
    found = [_top(kernel, path, regions, waits)] if regions.height else []
    share = {row["kind"]: row for row in kinds.iter_rows(named=True)}
    tail = share.get(TAIL)
    if tail and tail["share"] >= WORTH:
        found.append(_tail(kernel, path, tail))
    unknown = share.get(UNKNOWN)
    if "stands" in path.rows.columns and path.rows["stands"].max() > 1:  # type: ignore[operator]
        most = float(path.rows["stands"].max())  # type: ignore[arg-type]
        text = f"{kernel.name}: what was recorded stands for what was left out, each layer for {most:.3g}"
        found.append(Finding(text, data={"stands": most}, kernel=kernel.id))
    if unknown and unknown["share"] > 0:
        text = (
            f"{kernel.name}: {percent(unknown['share'], unknown['error'])} of the critical path is not known: not all "
            "programs and iterations were recorded (--programs all --iterations all records them)"
        )
        level = "warning" if unknown["share"] >= WORTH else "info"
        found.append(Finding(text, level, {"unknown": unknown}, kernel.id))
    if beside is not None and beside.units > 1:
        found.append(_beside(kernel, beside))
    return found


def _top(kernel: Kernel, path: Path, regions: pl.DataFrame, waits: pl.DataFrame) -> Finding:
    """The two longest on the path, and what holds it up."""
    first, *rest = regions.head(2).iter_rows(named=True)
    text = f"{kernel.name}: the critical path is {percent(first['share'], first['error'])} {first['name']}"
    if rest and rest[0]["share"] >= WORTH:
        text += f", then {percent(rest[0]['share'], rest[0]['error'])} {rest[0]['name']}"
    top = waits.row(0, named=True) if waits.height else None
    if top is not None and top["share"] >= WORTH:
        text += (
            f"; it is held up most at {top['name']}, {100 * top['share']:.0f} % of the time, by {top['whom']}"
        )
    data = {
        "region": first["name"],
        "share": first["share"],
        "error": first["error"],
        "ns": first["ns"],
        "held_up": top,
        "kinds": list(KINDS),
        "launches": len(path.lasted),
        "sampled": path.sampled,
    }
    return Finding(text, data=data, kernel=kernel.id)


def _tail(kernel: Kernel, path: Path, tail: dict[str, Any]) -> Finding:
    """The program that is on the path then."""
    rows = path.rows.filter(pl.col("kind") == TAIL)
    lasted = (pl.col("stop_ns") - pl.col("start_ns")).sum().alias("ns")
    program, ns = rows.group_by("program").agg(lasted).sort("ns", "program", descending=[True, False]).row(0)
    share = percent(tail["share"], tail["error"])
    text = (
        f"{kernel.name}: for {share} of the launch half of the units or fewer still work; mostly program {program} is "
        "on the path then"
    )
    data = {"tail": tail, "program": program, "of_it": ns / float(rows.select(lasted).item())}
    return Finding(text, data=data, kernel=kernel.id)


def _beside(kernel: Kernel, beside: Near) -> Finding:
    """How much is won at most by shortening this path alone."""
    if beside.close > 1:
        text = (
            f"{kernel.name}: {beside.close:,} of {beside.units:,} units have paths within 1 % of the longest: what is "
            "on it must get shorter on all of them"
        )
    else:
        spare = f"{duration(beside.next_ns)} to spare ({100 * beside.share:.1f} % of the launch)"
        text = f"{kernel.name}: on all other units the path has {spare} or more"
    data = {
        "units": beside.units,
        "close": beside.close,
        "next_ns": beside.next_ns,
        "next_share": beside.share,
    }
    return Finding(text, data=data, kernel=kernel.id)
