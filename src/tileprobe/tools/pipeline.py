"""pipeline: loops whose loads run ahead of their products, against the two models of KPerfIR.

In come loops with asynchronous loads (their issue, their wait), of one stream or of a producer and its consumers; out
go what the models predict of such a loop, what it took, and which of the two it waits for, by how much. The models are
those of the paper (arXiv:2505.21661): a round takes as long as its computing, or as a load and what is computed until
the next one into its buffer is issued, divided by the loads that are under way at once, whichever is more; between
specialised warps a load begins at the producer, and consumers may take turns at the loads of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tileprobe.tools.activities import SIGNAL, kind_of
from tileprobe.tools.bubbles import STREAM, last_at, named
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.words import duration
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import covered_by
from tileprobe.trace.works import left_out

COLUMNS = [
    Column("name", "text", "loop"),
    Column("bound", "text", "bound by"),
    Column("margin", "number", "load/compute"),
    Column("measured_ns", "ns", "a round"),
    Column("predicted_ns", "ns", "predicted"),
    Column("error", "percent", "off by"),
    Column("compute_ns", "ns", "computing"),
    Column("load_ns", "ns", "load"),
    Column("until_ns", "ns", "next issued"),
    Column("depth", "number", "under way"),
    Column("groups", "count", "consumers"),
    Column("waits", "share", "waits"),
    Column("rounds", "count", "rounds"),
]
LOADS, COMPUTE, EVEN = "loads", "computing", "both alike"
STOOD = 0.1  # of a load: who waits longer for it stood still; less is what a wait costs that finds all there
FEW = 0.1  # of the loads of a loop, that have to have been waited for to say how long they take
ALIKE = 0.05  # the two are called alike when they are this close
MEASURED, FIRST, AT_MOST = "measured", "first loads", "at most"  # how the time of a load is known
LATE_NS = 1.0  # a wait ends where its load does, but for rounding
NO_LOOPS = (
    "no loop of this trace has asynchronous loads that were recorded: GPUs have them where Triton pipelines a loop "
    "(simulated ones with --timed --probes free)"
)
ROUND = [*STREAM, "loop"]


class Pipeline:
    name = "pipeline"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result, gone = Result(self.name), left_out(trace)
        for kernel in told_apart(trace.kernels):
            frame = loops(trace, kernel, gone)
            if frame is None or not frame.height:
                continue
            result.tables.append(Table(f"{kernel.name}: pipelined loops", frame, COLUMNS, kernel.id))
            result.findings += [_finding(kernel, row) for row in frame.iter_rows(named=True)]
        if not result.tables:
            result.findings.append(Finding(NO_LOOPS, level="warning"))
        return result


@dataclass(frozen=True)
class Model:
    """What the models say of a loop: of one round in the mean, computing and load; loads under way at once for who
    computes; between specialised warps, how long a buffer takes from its consumer back to the producer. `until_ns`:
    from the end of a load until the next one into its buffer is issued, where that was seen; the paper takes it that
    all of a round's computing, and the buffer's way back, lie between."""

    compute_ns: float
    load_ns: float
    depth: float
    back_ns: float = 0.0
    until_ns: float | None = None

    @property
    def path_ns(self) -> float:
        """A round as loads allow it."""
        until = self.compute_ns + self.back_ns if self.until_ns is None else self.until_ns
        return (self.load_ns + until) / self.depth

    @property
    def predicted_ns(self) -> float:
        return max(self.compute_ns, self.path_ns)

    @property
    def margin(self) -> float:
        """Above 1 the loop waits for its loads; below, they have so much time to spare."""
        return self.path_ns / self.compute_ns if self.compute_ns else np.inf

    @property
    def bound(self) -> str:
        if abs(self.margin - 1) <= ALIKE:
            return EVEN
        return LOADS if self.margin > 1 else COMPUTE


def loops(trace: Trace, kernel: Kernel, gone: set[int] | None = None) -> pl.DataFrame | None:
    """A row for each loop (and partition) that waits for asynchronous loads; None where there is none."""
    gone = left_out(trace) if gone is None else gone
    parts = {region.id: region for region in trace.kernel_regions(kernel.id)}
    around = {r.id for r in parts.values() if r.kind == "loop"}
    loads = [r.id for r in parts.values() if r.kind == "async" and kind_of(r) == "load"]
    backs = [r.id for r in parts.values() if r.kind == "async" and kind_of(r) == SIGNAL]
    launches = [x.id for x in trace.kernel_launches(kernel.id) if x.probed and x.id not in gone]
    if not around or not loads or not launches:
        return None
    rounds = {r.id: r.parent for r in parts.values() if r.kind == "iteration" and r.parent in around}
    mine = pl.col("launch").is_in(launches) & pl.col("region").is_in([*around, *loads, *backs, *rounds])
    frame = trace.scan().filter(mine).select(*STREAM, "region", "kind", "start_ns", "stop_ns").collect()
    runs = frame.filter(pl.col("region").is_in(list(around)))
    spans = frame.filter((pl.col("kind") == "async") & pl.col("region").is_in(loads))
    given = frame.filter((pl.col("kind") == "async") & pl.col("region").is_in(backs))
    waits = frame.filter(pl.col("kind") == "wait")
    if not runs.height or not spans.height or not waits.height:
        return None
    count = frame.filter(pl.col("region").is_in(list(rounds))).with_columns(
        pl.col("region").replace_strict(rounds, return_dtype=pl.UInt32)
    )
    table = _table(runs, count, _waited(spans, waits))
    if table is None:
        return None
    table = table.join(_given_back(given), on=STREAM, how="left").with_columns(
        pl.when("handed").then("back_ns").otherwise(0.0).fill_null(0.0).alias("back_ns")
    )
    names = table.select(named(trace, kernel, "stream", "region").alias("name"), pl.all())
    rows = [_row(str(name[0]), part) for name, part in names.group_by("name", maintain_order=True)]
    schema = {"name": pl.String, "bound": pl.String, "known": pl.String, "rounds": pl.Int64}
    schema |= dict.fromkeys(_NUMBERS, pl.Float64)
    return pl.DataFrame(rows, schema=schema).sort("measured_ns", descending=True, maintain_order=True)  # type: ignore[arg-type]


def _waited(spans: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Each load with the wait that ended it: by whom, from when, for how long; `depth`, how many were under
    way with it; `until_ns`, from its end until the next into its buffer is issued; how many `groups` wait for such
    loads, and which part of them this one does. Loads that are waited for together are alike in that."""
    keys = ["launch", "program", "region"]
    ends = spans.with_columns((pl.col("stop_ns") / LATE_NS).round().cast(pl.Int64).alias("end"))
    last = waits.with_columns((pl.col("stop_ns") / LATE_NS).round().cast(pl.Int64).alias("end"))
    last = last.group_by(*keys, "end").agg(
        pl.col("stream").sort_by(pl.col("stop_ns") - pl.col("start_ns")).last().alias("waiter"),
        (pl.col("stop_ns") - pl.col("start_ns")).max().alias("waited_ns"),
    )
    found = ends.join(last, on=[*keys, "end"], how="inner")
    once = [*keys, "stream", "start_ns"]  # who loads for several is one load, under way until the last has it
    each = found.group_by(once).agg(pl.col("stop_ns").max())
    group = each.select(pl.struct(*keys, "stream").rank("dense")).to_series().to_numpy().astype(np.int64)
    start, stop = each["start_ns"].to_numpy(), each["stop_ns"].to_numpy()
    most = _under_way(group, start, stop)
    each = each.select(
        *once,
        pl.Series("depth", most[group]),
        pl.Series("until_ns", _until(group, start, stop, most), nan_to_null=True),
    )
    found = found.join(each, on=once, how="left")
    loaded = [*keys, "stream"]
    groups = found.group_by(loaded).agg(
        pl.col("waiter").n_unique().alias("groups"), pl.col("start_ns").n_unique().alias("all")
    )
    mine = found.group_by(*loaded, "waiter").agg(pl.col("start_ns").n_unique().alias("mine"))
    mine = mine.join(groups, on=loaded).with_columns((pl.col("mine") / pl.col("all")).alias("part"))
    return found.join(mine.select(*loaded, "waiter", "groups", "part"), on=[*loaded, "waiter"], how="left")


def _given_back(given: pl.DataFrame) -> pl.DataFrame:
    """Of each stream how long its longest sort of release takes, until who waits for it has it."""
    each = given.group_by(*STREAM, "region").agg((pl.col("stop_ns") - pl.col("start_ns")).mean().alias("ns"))
    return each.group_by(STREAM).agg(pl.col("ns").max().alias("back_ns"))


def _under_way(group: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Of each group of loads the most that are issued from the issue of one to its end. They are as many as there are
    buffers: the next load into its own is issued behind that."""
    order = np.lexsort((start, group))
    own = last_at(group[order], start[order], group, start)
    last = last_at(group[order], start[order], group, stop)
    most = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, group, (last - own + 1).astype(np.int64))
    return most


def _until(group: np.ndarray, start: np.ndarray, stop: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Of each load how long after its end the next into its buffer is issued: the one that is as many behind it as
    there are buffers. NaN where there is none."""
    if not len(group):
        return np.zeros(0)
    order = np.lexsort((start, group))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    then = place + most[group]
    there = (then < len(order)) & (group[order][np.minimum(then, len(order) - 1)] == group)
    issued = start[order][np.minimum(then, len(order) - 1)]
    return np.where(there, np.maximum(issued - stop, 0.0), np.nan)


def _table(runs: pl.DataFrame, rounds: pl.DataFrame, loads: pl.DataFrame) -> pl.DataFrame | None:
    """A row for each run of a loop and load in it: rounds, time, time that it stood still, and the loads' own."""
    runs = runs.sort(*STREAM, "start_ns").with_row_index("run")
    stream = pl.struct("launch", "program", "stream").rank("dense").alias("group")
    pieces = pl.concat(
        [
            runs.select("launch", "program", "stream", "start_ns"),
            loads.select(
                "launch", "program", pl.col("waiter").alias("stream"),
                (pl.col("stop_ns") - pl.col("waited_ns")).alias("start_ns"),
            ),
            rounds.select("launch", "program", "stream", "start_ns"),
        ]
    ).select(stream, "start_ns")  # fmt: skip
    group, time = pieces["group"].to_numpy().astype(np.int64), pieces["start_ns"].to_numpy()
    first, second = runs.height, runs.height + loads.height
    order = np.lexsort((time[:first], group[:first]))
    at = last_at(group[:first][order], time[:first][order], group[first:], time[first:])
    row = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    inside = (row >= 0) & (group[:first][row] == group[first:])
    inside &= time[first:] <= runs["stop_ns"].to_numpy()[row] + LATE_NS
    row = np.where(inside, row, -1)
    loads = loads.with_columns(pl.Series("run", row[: second - first]))
    own = loads.filter(pl.col("run") >= 0)
    if not own.height:
        return None
    own = own.with_columns(
        pl.col("run").cast(pl.UInt32), (pl.col("stop_ns") - pl.col("start_ns")).alias("ns")
    )
    runs = _filled(runs, own)
    stood = own.filter(pl.col("waited_ns") >= STOOD * pl.col("ns")).join(
        runs.select("run", pl.col("start_ns").alias("begun_ns")), on="run"
    )
    ids, still = covered_by(
        stood["run"].to_numpy(),
        stood.select(pl.max_horizontal("begun_ns", pl.col("stop_ns") - pl.col("waited_ns")))
        .to_series()
        .to_numpy(),
        stood["stop_ns"].to_numpy(),
    )
    turns = np.bincount(row[second - first :][row[second - first :] >= 0], minlength=runs.height)
    return runs.with_columns(
        pl.Series("rounds", turns),
        pl.Series("still_ns", _spread(ids, still, runs.height)),
        (pl.col("stop_ns") - pl.col("start_ns")).alias("ns"),
    ).join(_of_loads(own, _first(loads)), on="run").filter(pl.col("rounds") > 0)  # fmt: skip


def _filled(runs: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Runs from where their first load is there, if another warp brings it: their loop begins with nothing under way,
    and the models are of a pipeline that is full."""
    handed = own.filter(pl.col("stream") != pl.col("waiter"))
    first = handed.group_by("run").agg(pl.col("stop_ns").min().alias("filled_ns"))
    runs = runs.join(first, on="run", how="left", maintain_order="left")
    return runs.with_columns(pl.max_horizontal("start_ns", "filled_ns").alias("start_ns")).drop("filled_ns")


def _spread(ids: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count)
    found[ids] = values
    return found


def _first(loads: pl.DataFrame) -> pl.DataFrame:
    """Of each sort of load how long those took that are waited for before the loop begins: nothing hides these."""
    stood = (pl.col("run") < 0) & (pl.col("waited_ns") >= STOOD * (pl.col("stop_ns") - pl.col("start_ns")))
    mean = (pl.col("stop_ns") - pl.col("start_ns")).mean().alias("first_ns")
    return loads.filter(stood).group_by(pl.col("region").alias("load")).agg(mean)


def _of_loads(own: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """Of each run the sort of load that it waits for longest: how long it takes, how many are under way, how that is
    known. A load that nobody stood still for was there before: how long it took is not known. The first ones say it,
    where they were waited for; else it took no longer than until its wait."""
    stood = pl.col("waited_ns") >= STOOD * pl.col("ns")
    each = own.group_by("run", pl.col("region").alias("load")).agg(
        pl.col("ns").filter(stood).mean().alias("stood_ns"),
        stood.mean().alias("often"),
        pl.col("ns").mean().alias("most_ns"),
        pl.col("depth").max() * pl.col("part").first(),
        pl.col("groups").max(),
        pl.col("until_ns").mean(),
        (pl.col("stream") != pl.col("waiter")).any().alias("handed"),
    )
    often = pl.col("often") >= FEW
    first_known = pl.when(pl.col("first_ns").is_not_null()).then(pl.lit(FIRST)).otherwise(pl.lit(AT_MOST))
    hidden = pl.min_horizontal("first_ns", "most_ns")
    each = each.join(first, on="load", how="left").with_columns(
        pl.when(often).then("stood_ns").otherwise(hidden).alias("load_ns"),
        pl.when(often).then(pl.lit(MEASURED)).otherwise(first_known).alias("known"),
        often.alias("stood"),
    )
    return (
        each.sort("run", "stood", "load_ns", descending=[False, True, True])
        .group_by("run", maintain_order=True)
        .first()
    )


_NUMBERS = (
    "margin", "measured_ns", "predicted_ns", "error", "compute_ns", "load_ns", "depth", "waits", "gain", "back_ns",
    "delta_ns", "until_ns", "groups",
)  # fmt: skip


def _row(name: str, part: pl.DataFrame) -> dict[str, Any]:
    """All runs of a loop, each by its rounds."""
    rounds = part["rounds"].to_numpy().astype(float)
    total = float(rounds.sum())
    measured, still = float(part["ns"].sum()) / total, float(part["still_ns"].sum()) / total
    load = float((part["load_ns"].to_numpy() * rounds).sum() / total)
    depth = float((part["depth"].to_numpy() * rounds).sum() / total)
    back = float((part["back_ns"].to_numpy() * rounds).sum() / total)
    seen = part["until_ns"].is_not_null().to_numpy()
    until = float(np.average(part["until_ns"].to_numpy()[seen], weights=rounds[seen])) if seen.any() else None
    groups = float(part["groups"].max())  # type: ignore[arg-type]
    model = Model(measured - still, load, depth or 1.0, back, until)
    known = str(part["known"].mode().sort()[0])
    bound = model.bound if known == MEASURED else COMPUTE  # nobody waits for them
    predicted = model.predicted_ns if known == MEASURED else model.compute_ns
    return {
        "name": name,
        "bound": bound,
        "known": known,
        "rounds": int(total),
        "margin": model.margin,
        "measured_ns": measured,
        "predicted_ns": predicted,
        "error": predicted / measured - 1 if measured else None,
        "compute_ns": model.compute_ns,
        "load_ns": load,
        "depth": model.depth,
        "waits": still / measured if measured else 0.0,
        "gain": max(0.0, 1 - model.compute_ns / predicted) if predicted else 0.0,
        "back_ns": back,
        "delta_ns": model.depth * (model.compute_ns - model.path_ns),
        "until_ns": until,
        "groups": groups,
    }


def _finding(kernel: Kernel, row: dict[str, Any]) -> Finding:
    where = f"{kernel.name}: {row['name']}"
    took = f"{duration(row['predicted_ns'])} a round predicted, {duration(row['measured_ns'])} measured"
    each = f"a load takes {duration(row['load_ns'])} and {row['depth']:.3g} are under way"
    if row["back_ns"]:
        each = (
            f"a load takes {duration(row['load_ns'])}, its buffer {duration(row['back_ns'])} back, and "
            f"{row['depth']:.3g} are under way"
        )
    if row["groups"] > 1:
        each += f" for each of {row['groups']:.0f} consumers"
    if row["bound"] == LOADS:
        text = (
            f"{where} is load-bound: {each}, which is {row['margin']:.2f} times what a round of "
            f"{duration(row['compute_ns'])} computing hides; {took}; with loads hidden whole "
            f"it would be {100 * row['gain']:.0f} % shorter"
        )
    elif row["bound"] == EVEN:
        text = f"{where}: loads and computing take as long as each other ({each}); {took}"
    elif row["known"] != AT_MOST and row["margin"] < 1:
        said = "the first load took" if row["known"] == FIRST else "a load takes"
        text = (
            f"{where} is compute-bound: {said} {duration(row['load_ns'])} and {row['depth']:.3g} are under way, "
            f"{1 / row['margin']:.2f} times as quick as it needs; {took}"
        )
    else:
        text = f"{where} is compute-bound: its loads are there before it waits for them; {took}"
    return Finding(
        text,
        data={"loop": row["name"], **{k: row[k] for k in ("bound", "known", *_NUMBERS)}},
        kernel=kernel.id,
    )
