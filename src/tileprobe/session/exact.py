"""Launches of simulated machines: their intervals go into the trace as they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.machine import Clock, Unit
from tileprobe.ir.regions import Region
from tileprobe.session.at_home import ir_at_home, part_at_home
from tileprobe.session.making import Columns, Making, corrected, renumber
from tileprobe.session.tally import work_of
from tileprobe.targets.base import Exact
from tileprobe.trace.model import KINDS, Launch, Losses
from tileprobe.trace.model import Kernel as KernelRow

if TYPE_CHECKING:
    from tileprobe.session.collect import Observed

# Columns that decoded intervals have and exact ones may leave out.
_USUAL = {"program": 0, "stream": 0, "unit": 0, "kind": 0, "iteration": -1, "outer": 0, "value": np.nan}
_USUAL |= {"weight": 1.0, "fit": 1.0, "taken_ns": 0.0, "probes_ns": 0.0}


def add_exact(making: Making, seen: Observed) -> None:
    """Each part of a launch is a kernel of its own in the trace."""
    name = seen.kernel.name
    making.notes += [f"{name}: {note}" for note in seen.variant.notes]
    silent = sum(not run.exact for run in seen.launches)
    if silent:
        making.notes.append(f"{name}: the target said nothing of what happened in {silent} of its launches")
    # part and its regions -> its kernel, its first region, its works
    kernels: dict[Any, tuple[int, int, dict[Hashable, int]]] = {}
    told = [[part_at_home(one, seen.kernel.source) for one in run.exact] for run in seen.launches]
    shared = _shared(part for parts in told for part, _ in parts)
    for run, parts in zip(seen.launches, told):
        for part, moves in parts:
            if part.part in shared and part.regions != shared[part.part]:
                part = _with_regions(part, shared[part.part])
            key = part.part, tuple(part.regions)
            if key not in kernels:
                number = len(making.kernels)
                row = _exact_row(number, seen, part, making.clock(seen.kernel.target.clock))
                making.kernels.append(replace(row, ir=ir_at_home(row.ir, moves)))
                works = making.add_works(number, seen.works)
                kernels[key] = number, making.add_regions(number, part.regions), works
            kernel, first, works = kernels[key]
            losses = Losses(part.kept, part.sampled_out, part.lost)
            launch = Launch(
                len(making.launches),
                kernel,
                part.grid,
                float(run.start_ns),
                part.duration_ns,
                losses=losses,
                work=works[work_of(run)],
                preempted_ns=0.0,
            )
            making.launches.append(launch)
            units = making.units.add(seen.kernel.machine, part.units or (Unit(0, seen.kernel.machine),))
            tables = (
                (part.columns, making.intervals),
                (part.edges, making.edges),
                (part.counters, making.counters),
            )
            for columns, pieces in tables:
                if columns:
                    piece = _whole(columns)
                    _check(name, piece, len(part.regions), units)
                    renumber(piece, first, units)
                    piece["launch"] = np.full(len(next(iter(piece.values()))), launch.id, np.uint32)
                    pieces.append(piece)
            if not part.part:
                making.touched(launch.id, name, run)
            making.notes += [note for note in part.notes if note not in making.notes]
            making.meta |= part.meta


def _shared(parts: Iterable[Exact]) -> dict[str, list[Region]]:
    """Of each part beside the launch itself all regions that any launch has of it: not every one does everything, and a
    part of two launches is one kernel and not two. Trees stay as they are."""
    found: dict[str, dict[Region, None]] = {}
    trees = set()
    for part in parts:
        if part.part:
            found.setdefault(part.part, {}).update((replace(region, id=0), None) for region in part.regions)
            if any(region.parent is not None or region.id != n for n, region in enumerate(part.regions)):
                trees.add(part.part)
    return {
        name: [replace(region, id=n) for n, region in enumerate(regions)]
        for name, regions in found.items()
        if name not in trees
    }


def _with_regions(part: Exact, regions: list[Region]) -> Exact:
    places = {replace(region, id=0): region.id for region in regions}
    new = np.array([places[replace(region, id=0)] for region in part.regions], np.int64)

    def moved(columns: Any) -> Any:
        ends = [name for name in ("region", "from_region", "to_region") if columns and name in columns]
        there = {name: np.asarray(columns[name]) for name in ends}
        return (
            {**columns, **{name: new[old] if old.size else old for name, old in there.items()}}
            if ends
            else columns
        )

    changed = {name: moved(getattr(part, name)) for name in ("columns", "edges", "counters")}
    return replace(part, regions=regions, **changed)


def _check(name: str, piece: Columns, regions: int, units: Mapping[int, int]) -> None:
    """What a target names must be there: numbers of its own regions and units."""
    for end in ("", "from_", "to_"):
        for what, known in (("region", range(regions)), ("unit", units)):
            column = piece.get(f"{end}{what}")
            if column is None or column.dtype.kind not in "iu":
                continue
            numbers = np.unique(column).tolist()
            strange = [number for number in numbers if number not in known]
            if strange:
                raise TileProbeError(
                    f"the target says of {name} that something happened in {what} {strange[0]}, and names no such "
                    f"{what}"
                )


def _whole(columns: Mapping[str, Any]) -> Columns:
    """A table with every column that decoded ones have."""
    piece = {name: np.asarray(column) for name, column in columns.items()}
    if "from_tick" in piece:
        return corrected(piece, ("from_tick", "to_tick"))
    if "start" not in piece:
        return piece
    length = len(piece["start"])
    for name, usual in _USUAL.items():
        piece.setdefault(name, np.full(length, usual))
    if piece["kind"].dtype.kind in "UO":
        strange = sorted(set(piece["kind"].tolist()) - set(KINDS))
        if strange:
            raise TileProbeError(
                f"intervals are of the kinds {', '.join(KINDS)}, not {', '.join(map(repr, strange))}"
            )
        piece["kind"] = np.array([KINDS.index(kind) for kind in piece["kind"].tolist()], np.uint8)
    return corrected(piece, ("start", "stop"))


def _exact_row(number: int, seen: Observed, part: Exact, clock: Clock) -> KernelRow:
    name = seen.kernel.name
    return KernelRow(
        id=number,
        name=f"{name}: {part.part}" if part.part else name,
        target=seen.kernel.machine,
        clock=clock,
        file=seen.kernel.source.file,
        first_line=seen.kernel.source.first_line,
        source=seen.kernel.source.text,
        ir={} if part.part else dict(seen.variant.ir),
        streams=part.streams,
        signature=getattr(seen.kernel, "signature", ""),
    )
