"""The critical path of launches as a table: piece by piece where, what, and of which kind.

Comes in: a trace. Goes out: rows of `launch, program, stream, unit, region, kind, start_ns, stop_ns`, latest first, and
`handover`, the number of what was waited for; `stands`, for how many such pieces it stands, where whole layers were
left out. Kinds: `work`; `wait`, in which the time of an asynchronous operation
from its issue on counts as that operation's; `idle`, a place on a unit between two programs; `launch ramp`, before the
first program there; `tail`, whatever it does while half of the units or fewer still work; `not recorded`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tileprobe.tools.activities import SPAN
from tileprobe.tools.handovers import Handovers, Streams, handovers, pieces_within, streams_of
from tileprobe.tools.walk import BETWEEN, HELD, OWN, Steps, Walk
from tileprobe.trace import Kernel, Launch, Trace
from tileprobe.trace.works import left_out

WORK, WAIT, RAMP, TAIL, IDLE, UNKNOWN = KINDS = (
    "work",
    "wait",
    "launch ramp",
    "tail",
    "idle",
    "not recorded",
)
NOWHERE = -1  # a region
_TYPES = {"kind": pl.String, "number": pl.UInt32} | dict.fromkeys(("step", "region", "handover"), pl.Int64)


@dataclass(frozen=True)
class Path:
    """`rows` as above; `lasted` has of each launch how long it took. Where units are of several kinds, as of
    Cambricon-LLM, there are no streams."""

    rows: pl.DataFrame
    lasted: dict[int, float]
    streams: Streams | None
    handed: Handovers | None
    sampled: bool
    before: dict[int, int] = field(default_factory=dict)  # for each program the stream whose end let it begin


def path_of(trace: Trace, kernel: Kernel) -> Path | None:
    """Of the kernel's recorded launches; None where nothing was recorded."""
    launches = _launches(trace, kernel)
    if not launches:
        return None
    units = {unit.id: unit.kind for unit in trace.units}
    wanted = trace.scan().filter(pl.col("launch").is_in(list(launches)))
    mine = wanted.select(pl.col("unit").unique()).collect().to_series().to_list()
    lost = any(_lost(x) for x in trace.launches if x.id in launches)
    if len({units.get(unit, "unit") for unit in mine}) > 1:
        mine = wanted.filter(pl.col("kind") == "region").select(*SPAN, pl.col("weight").alias("stands"))
        rows = _of_units(mine.collect(), lost, _left_out(trace, list(launches)))
        return None if rows is None else Path(rows, launches, None, None, lost)
    streams = streams_of(trace, kernel, list(launches))
    if streams is None:
        return None
    handed = handovers(trace, streams)
    walk = Walk(trace, streams, handed)
    steps = walk.steps()
    sampled = lost or streams.sampled
    rows = _in_tail(_rows(streams, handed, steps, sampled), streams)
    return Path(rows, launches, streams, handed, sampled, walk.before)


def _lost(launch: Launch) -> bool:
    return launch.losses.sampled_out + launch.losses.lost > 0


def _launches(trace: Trace, kernel: Kernel) -> dict[int, float]:
    """Recorded launches with how long they took; interrupted ones, and those of which not all was recorded, only where
    there are no others."""
    gone = left_out(trace)
    recorded = [x for x in trace.kernel_launches(kernel.id) if x.probed and x.id not in gone]
    ids = [x.id for x in recorded if not _lost(x)] or [x.id for x in recorded]
    ns = (pl.col("stop").max() - pl.col("start").min()) * (1e9 / kernel.clock.hz)
    corrected = pl.col("stop_ns").max() - pl.col("start_ns").min()
    raw = corrected if trace.domains else ns
    frame = trace.scan().filter(pl.col("launch").is_in(ids)).group_by("launch")
    found = frame.agg(raw.alias("raw"), corrected.alias("ns"), pl.col("taken_ns").max()).collect()
    whole = found.filter(pl.col("taken_ns") == 0)
    known = {x.id: x.duration_ns for x in trace.launches}
    lasted: dict[int, float] = {}
    for launch, raw_ns, path_ns, _ in (whole if whole.height else found).sort("launch").iter_rows():
        lasted[launch] = path_ns + max(0.0, (known[launch] or 0.0) - raw_ns)  # what is around the programs
    return lasted


def _rows(streams: Streams, handed: Handovers, steps: Steps, sampled: bool) -> pl.DataFrame:
    """A row for each piece of a stream's own way, and one for each other step."""
    own = steps.what == OWN
    step, piece = pieces_within(streams, steps.stream[own], steps.start[own], steps.stop[own])
    step = np.flatnonzero(own)[step]
    start = np.maximum(streams.start[piece], steps.start[step])
    stop = np.minimum(streams.stop[piece], steps.stop[step])
    covered = np.bincount(step, stop - start, len(own))
    missing = np.flatnonzero(own & (steps.stop - steps.start - covered > 1e-6 * (steps.stop - steps.start)))
    other = np.flatnonzero(~own)
    held = steps.handover[other]
    of_held = (
        np.where(handed.region[held] >= 0, handed.region[held], handed.at[held]) if len(handed.to) else held
    )
    empty = UNKNOWN if sampled else IDLE
    names = np.select([steps.what[other] == HELD, steps.what[other] == BETWEEN], [WAIT, empty], RAMP)
    parts = [
        (step, streams.region[piece], np.where(streams.waits[piece], WAIT, WORK), start, stop, -1),
        (other, np.where(held >= 0, of_held, NOWHERE), names, steps.start[other], steps.stop[other], held),
        (missing, NOWHERE, UNKNOWN, steps.start[missing], (steps.stop - covered)[missing], -1),
    ]  # fmt: skip
    frames = [
        pl.DataFrame(
            {
                "step": at, "number": steps.stream[at], "region": np.broadcast_to(region, len(at)),
                "kind": np.broadcast_to(kind, len(at)), "start_ns": begin, "stop_ns": end,
                "handover": np.broadcast_to(handover, len(at)),
            },
            schema_overrides=_TYPES,
        )
        for at, region, kind, begin, end, handover in parts
    ]  # fmt: skip
    key = streams.key.select("number", "launch", "program", "stream", "unit")
    rows = pl.concat(frames).join(key, on="number", how="left")
    return rows.sort("step", -pl.col("start_ns"))


def _in_tail(rows: pl.DataFrame, streams: Streams) -> pl.DataFrame:
    """Cut where half of the units or fewer still work, and what is behind it called the tail."""
    ends = streams.key.group_by("launch", "unit").agg(pl.col("end").max()).sort("launch", "end")
    at = pl.col("end").get(((pl.len() + 1) // 2 - 1).cast(pl.Int64))
    since = ends.group_by("launch").agg(at.alias("tail"), pl.len().alias("units")).filter(pl.col("units") > 1)
    rows = rows.join(since.select("launch", "tail"), on="launch", how="left", maintain_order="left")
    late = pl.col("stop_ns") > pl.col("tail").fill_null(float("inf"))
    behind = rows.filter(late).with_columns(
        pl.max_horizontal("start_ns", "tail").alias("start_ns"),
        pl.when(pl.col("kind") == UNKNOWN).then("kind").otherwise(pl.lit(TAIL)).alias("kind"),
    )
    before = rows.with_columns(
        pl.when(late).then(pl.min_horizontal("stop_ns", "tail")).otherwise("stop_ns").alias("stop_ns")
    )
    rows = pl.concat([behind, before.filter(pl.col("stop_ns") > pl.col("start_ns"))])
    return rows.drop("tail").sort("launch", "step", -pl.col("start_ns"))


def _left_out(trace: Trace, launches: list[int]) -> dict[int, list[tuple[float, float]]]:
    """Of each launch from when to when went on what nobody recorded, by the trace's edges between no regions."""
    said = (
        pl.col("launch").is_in(launches)
        & (pl.col("kind") == "release-acquire")
        & pl.col("from_region").is_null()
    )
    edges = trace.scan_edges().filter(said).select("launch", "to_ns", "from_ns").sort("to_ns").collect()
    return {launch: mine.select("to_ns", "from_ns").rows() for (launch,), mine in edges.group_by("launch")}


def _of_units(
    frame: pl.DataFrame, sampled: bool, gone: dict[int, list[tuple[float, float]]]
) -> pl.DataFrame | None:
    """Units that hand work to each other, without edges: what ended last before something began let it begin; of
    several that ended together the one on the same unit. Where layers were left out, the path goes back to where what
    follows them could begin, and on at the end of what came before them: what ran ahead lies beside them. Where nobody
    said when that was, what begins behind a gap that is longer than itself is not known."""
    frame = frame.filter(pl.col("stop_ns") > pl.col("start_ns")).sort("launch", "stop_ns")
    found: list[tuple[int, int, float, float]] = []  # number, whether idle, start, stop
    first = 0
    for launch in frame.partition_by("launch", maintain_order=True):
        start, stop, unit = (launch[name].to_list() for name in ("start_ns", "stop_ns", "unit"))
        left = gone.get(launch["launch"][0], [])
        at = len(stop) - 1
        while at >= 0:
            begin, end, mine = start[at], stop[at], unit[at]
            n = bisect_left(left, (end,)) - 1  # the last that was over before this was
            before = _ended_before(stop, unit, begin, mine)
            long = not left and before >= 0 and begin - stop[before] > end - begin
            if n >= 0 and (before < 0 or stop[before] <= left[n][0]):
                since, until = left[n]
                found.append((first + at, 0, max(begin, since), end))
                if begin > since:
                    found.append((first + at, 1, since, begin))
                found.append((first + at, 1, until, since))
                at = _ended_before(stop, unit, until, mine)
                continue
            found.append((first + at, int(sampled and long), begin, end))
            if before >= 0 and stop[before] < begin:
                found.append((first + at, 1, stop[before], begin))
            at = before
        first += launch.height
    if not found:
        return None
    number, idle, start_ns, stop_ns = (np.array(column) for column in zip(*found))
    region = frame["region"].cast(pl.Int64).to_numpy()[number]
    rows = frame[number].with_columns(
        pl.Series("kind", np.where(idle, UNKNOWN if sampled else IDLE, WORK)),
        pl.Series("start_ns", start_ns),
        pl.Series("stop_ns", stop_ns),
        pl.Series("region", np.where(idle, NOWHERE, region)),
        pl.lit(-1).alias("handover"),
    )
    # what stands for others stands for the gaps in which they ran
    stands = pl.when(pl.lit(sampled) & (pl.col("kind") == UNKNOWN)).then(0.0).otherwise("stands")
    return rows.with_columns(stands.cast(pl.Float64).alias("stands")).with_row_index("step")


def _ended_before(stop: list[float], unit: list[int], when: float, mine: int) -> int:
    last = bisect_right(stop, when) - 1
    other = last
    while other >= 0 and stop[other] == stop[last]:
        if unit[other] == mine:
            return other
        other -= 1
    return last
