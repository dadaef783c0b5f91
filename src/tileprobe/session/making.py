"""The tables of a trace while they grow, kernel by kernel: regions and units of all targets under one numbering."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tileprobe.ir.machine import Clock, Domain, Unit
from tileprobe.session.recorded import Recorded
from tileprobe.session.tally import Ran
from tileprobe.targets.base import ClockSource
from tileprobe.trace.domains import combined
from tileprobe.trace.model import Kernel as KernelRow
from tileprobe.trace.model import Launch, Region, Work
from tileprobe.trace.trace import Trace

Columns = dict[str, np.ndarray]


class Units:
    """Units of all targets under numbers of the trace: a target's own where they are free."""

    def __init__(self) -> None:
        self.rows: list[Unit] = []
        self._numbers: dict[tuple[str, int, str], int] = {}

    def add(self, machine: str, units: Sequence[Unit]) -> dict[int, int]:
        """The numbers that units have in the trace, by those that the target gave them."""
        found: dict[int, int] = {}
        taken = {row.id for row in self.rows}
        for unit in parents_first(units):
            key = (machine, unit.id, unit.name)
            if key not in self._numbers:
                self._numbers[key] = unit.id if unit.id not in taken else max(taken) + 1
                taken.add(self._numbers[key])
                parent = None if unit.parent is None else found.get(unit.parent)
                self.rows.append(replace(unit, id=self._numbers[key], parent=parent))
            found[unit.id] = self._numbers[key]
        return found


def parents_first(units: Sequence[Unit]) -> list[Unit]:
    """Each unit behind the one that it is a part of, in their order otherwise."""
    left, ordered = {unit.id: unit for unit in units}, []

    def add(unit: Unit) -> None:
        del left[unit.id]
        if unit.parent in left:
            add(left[unit.parent])
        ordered.append(unit)

    while left:
        add(next(iter(left.values())))
    return ordered


@dataclass
class Making:
    """The tables of a trace while they grow."""

    kernels: list[KernelRow] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    units: Units = field(default_factory=Units)
    intervals: list[Columns] = field(default_factory=list)
    edges: list[Columns] = field(default_factory=list)
    counters: list[Columns] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    domains: dict[str, Domain] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    clocks: dict[int, Clock] = field(default_factory=dict)

    def clock(self, source: ClockSource) -> Clock:
        """Asked once: a rate that is learnt changes in its last digits each time, and by it kernels of one machine
        would lie apart in time, by as much of all the time that its counter has run."""
        return self.clocks.setdefault(id(source), Clock(source.hz(), source.name, source.bits))

    def add_regions(self, kernel: int, regions: Sequence[Region]) -> int:
        """Adds a kernel's regions; returns the number of its first."""
        first = len(self.regions)
        self.regions += [
            replace(r, id=first + r.id, kernel=kernel, parent=None if r.parent is None else first + r.parent)
            for r in regions
        ]
        return first

    def add_works(self, kernel: int, works: Mapping[Hashable, Ran]) -> dict[Hashable, int]:
        """Adds the works of a kernel; returns their numbers."""
        numbers = {key: len(self.works) + n for n, key in enumerate(works)}
        self.works += [ran.row(numbers[key], kernel) for key, ran in works.items()]
        return numbers

    def add_domain(self, domain: Domain) -> None:
        """What another kernel's records say of the same clock narrows its offset down further."""
        known = self.domains.get(domain.name)
        both = domain if known is None else combined(known, domain)
        if both is None:
            self.notes.append(f"the clock of {domain.name} drifts: its kernels do not agree on its offset")
        else:
            self.domains[domain.name] = both

    def touched(self, launch: int, kernel: str, run: Recorded) -> None:
        """What a launch did to memory, where it was asked."""
        if run.counters:
            columns = {name: np.asarray(column) for name, column in run.counters.items()}
            count = len(next(iter(columns.values())))
            self.counters.append({**columns, "launch": np.full(count, launch, np.uint32)})
        self.notes += [f"{kernel}: {note}" for note in run.notes]

    def trace(self, meta: dict[str, Any]) -> Trace:
        starts = [launch.start_ns for launch in self.launches if launch.start_ns is not None]
        origin = min(starts, default=0.0)
        nothing = {name: np.zeros(0, np.int64) for name in ("region", "start", "stop")}
        return Trace.build(
            joined(self.intervals) or nothing,
            kernels=self.kernels,
            launches=[
                replace(launch, start_ns=(launch.start_ns or 0.0) - origin) for launch in self.launches
            ],
            regions=self.regions,
            units=self.units.rows,
            edges=stacked(self.edges),
            counters=stacked(self.counters),
            domains=self.domains.values(),
            works=self.works,
            meta={
                **meta,
                **self.meta,
                **_clock_time(origin),
                **({"notes": self.notes} if self.notes else {}),
            },
        )


def _clock_time(origin: float) -> dict[str, int]:
    """When the first launch began by the clock on the wall, so that traces of others can be laid beside this one."""
    return {"origin_unix_ns": time.time_ns() - time.perf_counter_ns() + int(origin)} if origin else {}


def stacked(pieces: list[Columns]) -> pl.DataFrame | None:
    """Tables of several targets: what one of them leaves out is null in its rows."""
    frames = [pl.DataFrame(piece) for piece in pieces]
    return pl.concat(frames, how="diagonal_relaxed") if frames else None


def joined(pieces: list[Columns]) -> Columns:
    """Intervals of several targets: the columns that all of them have."""
    names = [name for name in (pieces[0] if pieces else ()) if all(name in piece for piece in pieces)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


def _renumbered(columns: Columns, names: Sequence[str], number: Callable[[np.ndarray], np.ndarray]) -> None:
    for name in names:
        if name in columns:
            columns[name] = number(np.asarray(columns[name]))


def _by_table(table: dict[int, int]) -> Callable[[np.ndarray], np.ndarray]:
    known = np.array(sorted(table), np.int64)
    new = np.array([table[old] for old in known.tolist()], np.int64)
    return lambda old: new[np.searchsorted(known, old)] if len(old) else old


def renumber(columns: Columns, first_region: int, units: dict[int, int]) -> None:
    """Regions and units of one kernel's columns under the numbers of the trace."""
    _renumbered(columns, ("region", "from_region", "to_region"), lambda old: old + first_region)
    _renumbered(columns, ("unit", "from_unit", "to_unit"), _by_table(units))


def corrected(columns: Columns, names: tuple[str, ...]) -> Columns:
    """Every kernel's columns have corrected times, so that those of several fit together."""
    for name in names:
        columns.setdefault(f"{name}_corrected", columns[name].astype(np.float64))
    return columns
