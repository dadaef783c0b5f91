"""What a kernel does at each moment, place by place: loads, products, arithmetic, stores, waiting.

Comes in: a trace. Goes out: spans, each at a *place* where things can run beside each other (an SM, a core; the whole
machine where units are of several kinds) and with the *kind* of work it is. Of a stream (a warp, a program) every
moment is one thing, the innermost region around it; asynchronous operations run beside the stream that issued them.
Where units are of several kinds, as of Cambricon-LLM, the kind of unit is the kind of work. Programs that the operating
system interrupted are left out, as long as there are others.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tileprobe.ir.regions import Region
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import Array
from tileprobe.trace.sweep import KINDS, innermost
from tileprobe.trace.works import left_out

WAITING, OTHER, SIGNAL = "waiting", "other", "signal"
# By the words that targets have for stages; what is fused of several has them all, and products win.
_WORDS = {
    **dict.fromkeys(("load", "gather", "copy", "async copy", "tma load", "global memory", "spills"), "load"),
    **dict.fromkeys(("store", "tma store", "scatter"), "store"),
    **dict.fromkeys(("dot", "async dot"), "dot"),
    **dict.fromkeys(("shared load", "shared store", "shared memory", "convert", "shuffle"), "shared memory"),
    **dict.fromkeys(("tensor memory load", "tensor memory store", "tensor memory copy"), "tensor memory"),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "erf"), "special functions"),
    **dict.fromkeys(("sqrt", "rsqrt", "sqrt_rn", "special functions"), "special functions"),
    **dict.fromkeys(("wait", "barrier"), WAITING),
    **dict.fromkeys(("release", "arrive"), SIGNAL),
    **dict.fromkeys(("kernel", "loop", "iteration", "scope", "partition", "line", ""), OTHER),
}  # fmt: skip
SPAN = ("launch", "program", "stream", "unit", "region", "start_ns", "stop_ns")
_ORDER = ("load", "shared memory", "tensor memory", "special functions", "compute", "store")


def kind_of(region: Region) -> str:
    """load, store, dot, special functions, compute ... ; a fused stage may be `load + compute`."""
    said = region.name.partition(" @ ")[0] if region.kind == "async" else region.kind
    found = {_WORDS.get(part.strip().lower(), "compute") for part in said.split("+")}
    if len(found) == 1:
        return found.pop()
    if "dot" in found:
        return "dot"
    if "special functions" in found:
        found.discard("compute")
    return " + ".join(kind for kind in _ORDER if kind in found) or OTHER


@dataclass(frozen=True)
class Activities:
    """Spans of work and of waiting: `spans` has the columns of SPAN, `what` (its kind) and `place`;
    `kind` is the number of each span's kind in `kinds`. `by_unit` says that kinds are those of units,
    `sampled` that there was more than was recorded."""

    kinds: list[str]
    kind: Array
    spans: pl.DataFrame
    places: int
    by_unit: bool
    sampled: bool

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """place, start, stop"""
        return tuple(self.spans[name].to_numpy() for name in ("place", "start_ns", "stop_ns"))  # type: ignore[return-value]

    @property
    def waits(self) -> pl.DataFrame:
        return self.spans.filter(pl.col("what") == WAITING)


def activities(trace: Trace, kernel: Kernel, gone: set[int] | None = None) -> Activities | None:
    """Of the kernel's recorded launches; None where nothing was recorded."""
    gone = left_out(trace) if gone is None else gone
    launches = [x for x in trace.kernel_launches(kernel.id) if x.probed and x.id not in gone]
    wanted = pl.col("launch").is_in([x.id for x in launches]) & pl.col("kind").is_in(
        ["region", "async", "wait"]
    )
    long = pl.col("stop_ns") > pl.col("start_ns")
    frame = trace.scan().filter(wanted & long).select(*SPAN, "kind", "weight", "taken_ns").collect()
    if not frame.height:
        return None
    frame = _undisturbed(frame)
    unit_kinds = {unit.id: unit.kind for unit in trace.units}
    mine = frame["unit"].unique().to_list()
    by_unit = len({unit_kinds.get(unit, "unit") for unit in mine}) > 1
    sampled = frame["weight"].max() != 1 or any(x.losses.sampled_out + x.losses.lost for x in launches)
    spans = _of_units(frame, unit_kinds) if by_unit else _of_streams(trace, kernel, frame)
    key = ["launch"] if by_unit else ["launch", "unit"]
    places = spans.select(key).unique().sort(key).with_row_index("place")
    spans = spans.join(places, on=key, how="left", maintain_order="left")
    names = _ordered(spans)
    number = {name: n for n, name in enumerate(names)}
    last = len(names) - 1  # those that there are no bits for
    kind = spans["what"].replace_strict(number, default=last, return_dtype=pl.Int64).to_numpy()
    return Activities(names, kind, spans, places.height, by_unit, sampled)


def _undisturbed(frame: pl.DataFrame) -> pl.DataFrame:
    """Without programs that had to wait for a processor, unless all had."""
    whole = frame.filter(pl.col("taken_ns").max().over("launch", "program") == 0)
    return whole if whole.height else frame


def _ordered(spans: pl.DataFrame) -> list[str]:
    """The kinds, longest first, as many as a sweep can tell apart; waiting comes first and is always there."""
    lasted = (pl.col("stop_ns") - pl.col("start_ns")).sum().alias("ns")
    found = spans.group_by("what").agg(lasted).sort("ns", "what", descending=[True, False])["what"].to_list()
    rest = [name for name in found if name != WAITING]
    return [WAITING, *(rest if len(rest) < KINDS else [*rest[: KINDS - 2], OTHER])]


def _of_units(frame: pl.DataFrame, kinds: dict[int, str]) -> pl.DataFrame:
    """What a unit does at once counts once. A wait is that of a command, not of the unit, which may work meanwhile."""
    unit = pl.col("unit").replace_strict(kinds, default="unit", return_dtype=pl.String)
    waits = pl.col("kind") == "wait"
    return frame.select(*SPAN, pl.when(waits).then(pl.lit(WAITING)).otherwise(unit).alias("what"))


def _of_streams(trace: Trace, kernel: Kernel, frame: pl.DataFrame) -> pl.DataFrame:
    """Each moment of a stream is one thing; what is asynchronous runs beside it."""
    what = {region.id: kind_of(region) for region in trace.kernel_regions(kernel.id)}
    named = pl.col("region").replace_strict(what, default=OTHER, return_dtype=pl.String)
    beside = frame.filter(pl.col("kind") == "async").with_columns(named.alias("what"))
    found = moments(trace, kernel, frame.filter(pl.col("kind") != "async")).with_columns(
        pl.when(pl.col("kind") == "wait").then(pl.lit(WAITING)).otherwise(named).alias("what"),
    )
    spans = pl.concat([found, beside]).filter(pl.col("what") != SIGNAL)
    return spans.select(*SPAN, "what")


def moments(trace: Trace, kernel: Kernel, inline: pl.DataFrame) -> pl.DataFrame:
    """Each moment of a stream, with the innermost interval around it. Of equal ones the last is the innermost: a stage
    in a scope that has nothing else, a wait in its region."""
    depths = {region.id: region.depth for region in trace.kernel_regions(kernel.id)}
    depth = pl.col("region").replace_strict(depths, default=0, return_dtype=pl.Int64)
    inline = inline.sort(depth, pl.col("kind") == "wait", maintain_order=True)
    stream = inline.select(pl.struct("launch", "program", "stream", "unit").rank("dense")).to_series()
    pieces = innermost(stream.to_numpy(), inline["start_ns"].to_numpy(), inline["stop_ns"].to_numpy())
    return inline[pieces.index].with_columns(
        pl.Series("start_ns", pieces.start), pl.Series("stop_ns", pieces.stop)
    )
