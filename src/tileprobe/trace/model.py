"""The parts of a trace: the columns of its three tables, and kernels, launches, regions, units, clocks, losses.

The latter are plain frozen data that turns into JSON and back; intervals, edges and counters are Polars tables
whose columns `COLUMNS`, `EDGES` and `COUNTERS` declare. Nothing here knows how a target measured them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

import polars as pl

from tileprobe.ir.functions import Function
from tileprobe.ir.machine import Clock, Domain, Unit
from tileprobe.ir.regions import Region

# What an interval is. `region` intervals nest in their stream; the others need not.
#   region  start to stop of a piece of the kernel
#   async   an asynchronous operation, from its issue to the end of its wait
#   wait    the part of an asynchronous operation for which the program stood still
#   mark    an instant (start == stop)
#   value   an instant with a payload in `value`
KINDS = ("region", "async", "wait", "mark", "value")
KIND_DTYPE = pl.Enum(KINDS)

COLUMNS: dict[str, Any] = {
    "launch": pl.UInt32,  # Launch.id
    "program": pl.UInt32,  # program instance, linear over the grid
    "stream": pl.UInt16,  # what of that program ran in order: a warp, a partition; 0 where there is one
    "unit": pl.UInt32,  # Unit.id: the core, SM, warp, channel, die ... it ran on
    "region": pl.UInt32,  # Region.id
    "kind": KIND_DTYPE,
    "iteration": pl.Int32,  # logical iteration of the innermost loop around it, -1 outside of loops
    "outer": pl.Int64,  # which run of that innermost loop in this program it was, from 0
    "start": pl.Int64,  # raw, in ticks of the clock of the unit's domain
    "stop": pl.Int64,
    "start_ns": pl.Float64,  # corrected for the cost of the probes, from the origin of the trace
    "stop_ns": pl.Float64,
    "value": pl.Float64,  # payload, null when there is none
    # How many executions it stands for within its launch: itself, and those that sampling left out or that had no
    # room. Whatever sums or counts uses it; a figure with other weights than 1 is an estimate.
    "weight": pl.Float32,
    # What its time is multiplied by beside the weight, so that iterations that stand for others fill the time of
    # their loop, which is measured whole.
    "fit": pl.Float32,
    "taken_ns": pl.Float32,  # of its time, what the operating system took; figures are without it
    "probes_ns": pl.Float32,  # what records in it cost one behind the other; how much of that shows is an estimate
}

# What an edge says: `to` could not go on before `from`.
#   issue-wait       an asynchronous operation was issued here and its end awaited there
#   arrive-wait      a barrier was arrived at here and waited for there
#   program-slot     a program left its place on a unit here, and the next one took it there
#   release-acquire  memory was released here (an atomic, a flag) and acquired there
EDGE_KINDS = ("issue-wait", "arrive-wait", "program-slot", "release-acquire")
EDGE_DTYPE = pl.Enum(EDGE_KINDS)

EDGES: dict[str, Any] = {
    "launch": pl.UInt32,
    "kind": EDGE_DTYPE,
    **{
        f"{end}_{name}": dtype
        for end in ("from", "to")
        for name, dtype in {
            "program": pl.UInt32,
            "stream": pl.UInt16,
            "unit": pl.UInt32,
            "region": pl.UInt32,  # null when it is at no region
            "ns": pl.Float64,  # corrected, from the origin of the trace, as start_ns
        }.items()
    },
}

# How sure a counter is: counted, estimated from samples, or read off the code.
QUALITIES = ("exact", "sampled", "static")
QUALITY_DTYPE = pl.Enum(QUALITIES)

COUNTERS: dict[str, Any] = {
    "launch": pl.UInt32,
    "unit": pl.UInt32,
    "file": pl.String,
    "line": pl.Int32,  # 0 when unknown
    "instruction": pl.String,  # null when it is about the whole line
    "name": pl.String,
    "value": pl.Float64,
    "quality": QUALITY_DTYPE,
}

T = TypeVar("T")

__all__ = [
    "COLUMNS",
    "COUNTERS",
    "EDGES",
    "EDGE_DTYPE",
    "EDGE_KINDS",
    "KINDS",
    "KIND_DTYPE",
    "QUALITIES",
    "QUALITY_DTYPE",
    "Clock",
    "Domain",
    "Kernel",
    "Launch",
    "Losses",
    "Region",
    "Unit",
    "Work",
    "from_json",
    "to_json",
]


@dataclass(frozen=True)
class Losses:
    """Records kept, left out on purpose by sampling, and lost because they did not fit."""

    kept: int = 0
    sampled_out: int = 0
    lost: int = 0

    def __add__(self, other: Losses) -> Losses:
        return Losses(self.kept + other.kept, self.sampled_out + other.sampled_out, self.lost + other.lost)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: its source, its IR at each level, how its records were laid out and corrected."""

    id: int
    name: str
    target: str
    clock: Clock
    file: str = ""
    first_line: int = 0
    source: str = ""
    ir: dict[str, str] = field(default_factory=dict)  # level ("ttir", "tile", "probe", "record", ...) -> text
    layout: dict[str, Any] | None = None  # Layout.to_json()
    calibration: dict[str, Any] = field(default_factory=dict)  # Calibration.to_json(), and measured overhead
    streams: tuple[str, ...] = ()  # names of the streams of a program, where it has several
    functions: tuple[Function, ...] = ()  # that it calls, where time is spent in them
    signature: str = ""  # the specialisation in short: "x: *fp32, n: i32, BLOCK=128, num_warps=4"


@dataclass(frozen=True)
class Launch:
    """One launch. An unprobed one has a duration and no intervals: overhead is measured against it."""

    id: int
    kernel: int = 0
    grid: tuple[int, ...] = (1,)
    start_ns: float | None = None
    duration_ns: float | None = None
    probed: bool = True
    sampling: dict[str, Any] = field(default_factory=dict)
    losses: Losses = Losses()
    work: int = 0  # Work.id, where the trace has works
    preempted_ns: float | None = (
        None  # what the operating system took from its programs; None where not known
    )
    ran_ns: float | None = None  # for how long its programs were on processors, all threads together


@dataclass(frozen=True)
class Work:
    """What is repeated: launches of one kernel over one grid with the same arguments. Those that were recorded stand
    for all that ran."""

    id: int
    kernel: int = 0
    grid: tuple[int, ...] = (1,)
    arguments: str = ""  # for people: "n=4096, causal=True; x 1024x64 f32"
    ran: int = 0  # every launch that the session saw, looked at or not
    probed: int = 0  # of these, with records kept
    plain: int = 0  # timed without probes
    dosed: int = 0  # with each record written several times, to learn its cost
    unrecorded: int = 0  # left unprobed because the session's room for records was spent
    session_us: float | None = None  # median time that the session itself took for a probed launch, in Python


def to_json(item: Any) -> dict[str, Any]:
    """A side-table row as JSON data; fields that hold their default are left out to keep files small."""
    row = asdict(item)
    defaults = {f.name: f.default for f in fields(item)}
    return {key: value for key, value in row.items() if value != defaults[key]}


def from_json(kind: type[T], row: dict[str, Any]) -> T:
    """The inverse of `to_json`. Unknown keys are ignored: a newer writer of the same version may add some."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    values = {key: value for key, value in row.items() if key in known}
    if "clock" in values:
        values["clock"] = Clock(**values["clock"])
    if "functions" in values:
        values["functions"] = tuple(from_json(Function, row) for row in values["functions"])
    if "losses" in values:
        values["losses"] = Losses(**values["losses"])
    for name in ("grid", "lines", "streams"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)
