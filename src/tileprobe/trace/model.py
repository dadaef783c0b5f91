"""The parts of a trace beside its intervals: kernels, launches, regions, units, clocks, losses.

Plain frozen data that turns into JSON and back; the intervals themselves are one Polars table whose columns
`COLUMNS` declares. Nothing here knows how a target measured them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

import polars as pl

from tileprobe.ir.machine import Clock, Unit
from tileprobe.ir.regions import Region

# What an interval is. `region` intervals nest in their program; the others need not.
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
    "unit": pl.UInt32,  # Unit.id: the core, SM, warp, channel, die ... it ran on
    "region": pl.UInt32,  # Region.id
    "kind": KIND_DTYPE,
    "iteration": pl.Int32,  # logical iteration of the innermost loop around it, -1 outside of loops
    "outer": pl.Int64,  # which run of that innermost loop in this program it was, from 0
    "start": pl.Int64,  # raw, in ticks of the kernel's clock
    "stop": pl.Int64,
    "start_ns": pl.Float64,  # corrected for the cost of the probes, from the origin of the trace
    "stop_ns": pl.Float64,
    "value": pl.Float64,  # payload, null when there is none
}

T = TypeVar("T")

__all__ = [
    "COLUMNS",
    "KINDS",
    "KIND_DTYPE",
    "Clock",
    "Kernel",
    "Launch",
    "Losses",
    "Region",
    "Unit",
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
    if "losses" in values:
        values["losses"] = Losses(**values["losses"])
    for name in ("grid", "lines"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)
