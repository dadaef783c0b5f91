"""Observed launches become a trace: decoded in groups, calibrated by dose, put together with their kernels.

In come `Recorded` launches as they end; out goes one `Trace`. Launches that were recorded alike are decoded
together, so that a thousand small ones cost hardly more than a large one. Those of simulated machines come with their
intervals and need no decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tileprobe.ir.machine import Clock, Unit
from tileprobe.session.recorded import Recorded
from tileprobe.session.works import PROBED
from tileprobe.targets.base import Exact, Kernel, Target, Variant
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.model import KINDS, Launch, Losses, Region
from tileprobe.trace.model import Kernel as KernelRow
from tileprobe.trace.replay import Calibration, calibrate
from tileprobe.trace.trace import Trace

_DECODED_BYTES = 64 * 2**20  # of buffers that are decoded together
_CALIBRATING = 8  # launches of each dose are enough to learn the cost of a record from

Columns = dict[str, np.ndarray]
_USUAL = {"program": 0, "stream": 0, "unit": 0, "kind": 0, "iteration": -1, "outer": 0, "value": np.nan}


@dataclass
class Observed:
    """All launches of one kernel."""

    kernel: Kernel
    variant: Variant
    launches: list[Recorded] = field(default_factory=list)
    dosed: list[Recorded] = field(default_factory=list)


@dataclass
class Collected:
    """By compiled kernel, in the order they were first seen."""

    kernels: dict[Any, Observed] = field(default_factory=dict)

    def add(self, kernel: Kernel, variant: Variant, recorded: Recorded, calibration: bool) -> None:
        seen = self.kernels.setdefault((kernel.machine, variant.key), Observed(kernel, variant))
        if not calibration:
            seen.launches.append(recorded)
        elif len(seen.dosed) < _CALIBRATING:
            seen.dosed.append(recorded)


def build_trace(collected: Collected, meta: dict[str, Any]) -> Trace:
    making = _Making()
    for seen in collected.kernels.values():
        if any(run.exact for run in seen.launches):
            _add_exact(making, seen)
        else:
            _add_recorded(making, seen)
    origin = min((launch.start_ns for launch in making.launches if launch.start_ns is not None), default=0.0)
    launches = [replace(launch, start_ns=(launch.start_ns or 0.0) - origin) for launch in making.launches]
    return Trace.build(
        _joined(making.intervals) or {name: np.zeros(0, np.int64) for name in ("region", "start", "stop")},
        kernels=making.kernels,
        launches=launches,
        regions=making.regions,
        units=making.units.rows,
        edges=_joined(making.edges) or None,
        counters=_joined(making.counters) or None,
        meta={**meta, **making.meta, **({"notes": making.notes} if making.notes else {})},
    )


class _Units:
    """Units of all targets under numbers of the trace: a target's own where they are free."""

    def __init__(self) -> None:
        self.rows: list[Unit] = []
        self._numbers: dict[tuple[str, int, str], int] = {}

    def add(self, machine: str, units: Sequence[Unit]) -> dict[int, int]:
        """The numbers that units have in the trace, by those that the target gave them."""
        found: dict[int, int] = {}
        taken = {row.id for row in self.rows}
        for unit in units:
            key = (machine, unit.id, unit.name)
            if key not in self._numbers:
                self._numbers[key] = unit.id if unit.id not in taken else max(taken) + 1
                taken.add(self._numbers[key])
                parent = None if unit.parent is None else found[unit.parent]
                self.rows.append(replace(unit, id=self._numbers[key], parent=parent))
            found[unit.id] = self._numbers[key]
        return found


@dataclass
class _Making:
    """The tables of a trace while they grow."""

    kernels: list[KernelRow] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    units: _Units = field(default_factory=_Units)
    intervals: list[Columns] = field(default_factory=list)
    edges: list[Columns] = field(default_factory=list)
    counters: list[Columns] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)

    def add_regions(self, kernel: int, regions: Sequence[Region]) -> int:
        """Adds a kernel's regions; returns the number of its first."""
        first = len(self.regions)
        self.regions += [
            replace(r, id=first + r.id, kernel=kernel, parent=None if r.parent is None else first + r.parent)
            for r in regions
        ]
        return first


def _joined(pieces: list[Columns]) -> Columns:
    names = pieces[0].keys() if pieces else ()
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


def _renumbered(columns: Columns, names: Sequence[str], number: Callable[[np.ndarray], np.ndarray]) -> None:
    for name in names:
        if name in columns:
            columns[name] = number(np.asarray(columns[name]))


def _by_table(table: dict[int, int]) -> Callable[[np.ndarray], np.ndarray]:
    known = np.array(sorted(table), np.int64)
    new = np.array([table[old] for old in known.tolist()], np.int64)
    return lambda old: new[np.searchsorted(known, old)] if len(old) else old


def _number(making: _Making, columns: Columns, first_region: int, units: dict[int, int]) -> None:
    """Regions and units of one kernel's columns under the numbers of the trace."""
    _renumbered(columns, ("region", "from_region", "to_region"), lambda old: old + first_region)
    _renumbered(columns, ("unit", "from_unit", "to_unit"), _by_table(units))


# -- simulated machines: intervals as they are ---------------------------------------------------------------------


def _add_exact(making: _Making, seen: Observed) -> None:
    """Each part of a launch is a kernel of its own in the trace."""
    kernels: dict[str, tuple[int, int]] = {}  # part -> its kernel, its first region
    for run in seen.launches:
        for part in run.exact:
            if part.part not in kernels:
                number = len(making.kernels)
                making.kernels.append(_exact_row(number, seen, part))
                kernels[part.part] = number, making.add_regions(number, part.regions)
            kernel, first = kernels[part.part]
            losses = Losses(part.kept, part.sampled_out, part.lost)
            launch = Launch(
                len(making.launches), kernel, part.grid, float(run.start_ns), part.duration_ns, losses=losses
            )
            making.launches.append(launch)
            units = making.units.add(seen.kernel.machine, part.units)
            tables = (
                (part.columns, making.intervals),
                (part.edges, making.edges),
                (part.counters, making.counters),
            )
            for columns, pieces in tables:
                if columns:
                    piece = _whole(columns) if columns is part.columns else _arrays(columns)
                    _number(making, piece, first, units)
                    piece["launch"] = np.full(len(next(iter(piece.values()))), launch.id, np.uint32)
                    pieces.append(piece)
            making.notes += [note for note in part.notes if note not in making.notes]
            making.meta |= part.meta


def _arrays(columns: Mapping[str, Any]) -> Columns:
    return {name: np.asarray(column) for name, column in columns.items()}


def _whole(columns: Mapping[str, Any]) -> Columns:
    """Intervals with every column that decoded ones have."""
    piece = _arrays(columns)
    length = len(piece["start"])
    for name, usual in _USUAL.items():
        piece.setdefault(name, np.full(length, usual))
    if piece["kind"].dtype.kind in "UO":
        piece["kind"] = np.array([KINDS.index(kind) for kind in piece["kind"].tolist()], np.uint8)
    return _corrected(piece, ("start", "stop"))


def _exact_row(number: int, seen: Observed, part: Exact) -> KernelRow:
    clock, name = seen.kernel.target.clock, seen.kernel.name
    return KernelRow(
        id=number,
        name=f"{name}: {part.part}" if part.part else name,
        target=seen.kernel.machine,
        clock=Clock(clock.hz(), clock.name, clock.bits),
        file=seen.kernel.source.file,
        first_line=seen.kernel.source.first_line,
        source=seen.kernel.source.text,
        ir={} if part.part else dict(seen.variant.ir),
    )


# -- records: decoded, with the cost of the probes taken out -------------------------------------------------------


def _add_recorded(making: _Making, seen: Observed) -> None:
    number, target = len(making.kernels), seen.kernel.target
    calibration = _calibration(seen)
    making.kernels.append(_kernel_row(number, seen, calibration))
    making.notes += [f"{seen.kernel.name}: {note}" for note in seen.variant.notes]
    first_region = making.add_regions(number, seen.variant.regions)
    launches, columns, edges = _launches(seen, number, len(making.launches), calibration)
    making.launches += launches
    units = making.units.add(seen.kernel.machine, _units_in(target, columns))
    for pieces, table in ((columns, making.intervals), (edges, making.edges)):
        for piece in pieces:
            _number(making, piece, first_region, units)
            table.append(piece)


def _units_in(target: Target, columns: list[Columns]) -> list[Unit]:
    numbers = np.unique(np.concatenate([piece["unit"] for piece in columns])) if columns else np.zeros(0, int)
    return target.units(numbers.tolist())


def _kernel_row(number: int, seen: Observed, calibration: Calibration) -> KernelRow:
    clock, source, layout = seen.kernel.target.clock, seen.kernel.source, seen.variant.layout
    known = calibration.to_json()
    known["floor_ticks"] = clock.floor_ticks()
    if calibration.cost_ticks <= 2 * calibration.error_ticks:
        known["cost_ticks"] = known["floor_ticks"]  # nothing better is known; good enough for an estimate
    return KernelRow(
        id=number,
        name=seen.kernel.name,
        target=seen.kernel.machine,
        clock=Clock(clock.hz(), clock.name, clock.bits),
        file=source.file,
        first_line=source.first_line,
        source=source.text,
        ir=dict(seen.variant.ir),
        layout=None if layout is None else layout.to_json(),
        calibration=known,
    )


def _launches(
    seen: Observed, kernel: int, first: int, calibration: Calibration
) -> tuple[list[Launch], list[Columns], list[Columns]]:
    """The launches of one kernel, and the columns of their intervals and edges."""
    made = [
        Launch(
            id=first + n,
            kernel=kernel,
            grid=run.grid,
            start_ns=float(run.start_ns),
            duration_ns=float(run.duration_ns),
            probed=run.probed,
            sampling={} if run.sampling is None else run.sampling.to_json(),
        )
        for n, run in enumerate(seen.launches)
    ]
    columns: list[Columns] = []
    edges: list[Columns] = []
    correction = calibration if calibration.doses else None
    for group in _groups(seen.launches):
        runs = [seen.launches[n] for n in group]
        decoded = decode(
            np.stack([run.full_words() for run in runs]),
            runs[0].layout,  # type: ignore[arg-type]
            epochs=[run.epoch for run in runs],
            programs=[run.programs for run in runs],
            sampling=runs[0].sampling,
            launches=[first + n for n in group],
            calibration=correction,
        )
        for n, losses in zip(group, decoded.losses):
            made[n] = replace(made[n], losses=losses)
        if decoded.columns:
            columns.append(_corrected(decoded.columns, ("start", "stop")))
        found = getattr(decoded, "edges", None)
        if found:
            edges.append(_corrected(found, ("from_tick", "to_tick")))
    return made, columns, edges


def _corrected(columns: Columns, names: tuple[str, ...]) -> Columns:
    """Every kernel's columns have corrected times, so that those of several fit together."""
    for name in names:
        columns.setdefault(f"{name}_corrected", columns[name].astype(np.float64))
    return columns


def _groups(runs: list[Recorded]) -> list[list[int]]:
    """Launches with the same layout, grid and sampling, by number; as many at once as memory allows."""
    found: dict[Any, list[int]] = {}
    pieces: list[list[int]] = []
    for number, run in enumerate(runs):
        if run.words is None or run.layout is None:
            continue
        key = (id(run.layout), run.programs, len(run.words), repr(run.sampling))
        found.setdefault(key, []).append(number)
        if len(found[key]) * len(run.words) * run.layout.block_bytes >= _DECODED_BYTES:
            pieces.append(found.pop(key))
    return [*pieces, *found.values()]


def _calibration(seen: Observed) -> Calibration:
    """The cost of a record in this kernel, from launches that wrote each record more than once."""
    once = [run for run in seen.launches if run.words is not None]
    chosen = {run.grid for run in seen.dosed}
    doses = {PROBED: [run for run in once if run.grid in chosen][-_CALIBRATING:]}
    doses |= {run.dose: [other for other in seen.dosed if other.dose == run.dose] for run in seen.dosed}
    if len(doses) < 2 or not all(doses.values()):
        return Calibration()
    return calibrate({dose: _rows(runs) for dose, runs in doses.items()})


def _rows(runs: list[Recorded]):
    """The rows of several launches as one; each keeps its own sampling only as far as gaps need it."""
    blocks = min(len(run.words) for run in runs if run.words is not None)
    words = np.stack([run.full_words()[:blocks] for run in runs])
    rows, _ = read_rows(
        words,
        runs[0].layout,  # type: ignore[arg-type]
        epochs=[run.epoch for run in runs],
        programs=[run.programs for run in runs],
    )
    return rows
