"""When each unit of a simulated GPU was busy, and with which source line, in a launch that was timed.

The engine notes for each multiprocessor, and for the channels of DRAM, from when to when a unit was taken by what. In
come these notes, emptied between turns; out go intervals, those that touch and belong to the same line as one, as a
part of the launch with units of its own. Where there are more than somebody wanted every second multiprocessor is left
out, and of channels every second one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileprobe.ir.machine import Unit
from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact
from tileprobe.targets.simgpu.blocks import address, aligned, fill
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.program import Program

PART = "units"  # of a launch, that says what units did
_ROOM = 8192  # notes, before the memory of a multiprocessor is emptied
_A_CYCLE = (
    4 * 5
)  # notes at the most: each issue, its unit or the address unit, shared memory's data, a way to L2
_NOTE = np.dtype([("begin", np.int64), ("end", np.int64), ("unit", np.int32), ("what", np.int32)])
assert _NOTE.itemsize == tl.BUSY

# Kinds of units of a sub-partition, then those of a multiprocessor, by their numbers in the engine
_OF_SUB = {
    tl.ISSUE: "issue", tl.TENSOR: "tensor core", tl.FMA: "FMA", tl.ALU: "ALU", tl.HALF: "half", tl.DOUBLE: "double",
    tl.XU: "special function", tl.UNIFORM: "uniform", tl.MEMORY: "address unit",
}  # fmt: skip
_OF_SM = {
    tl.SHARED_DATA: "shared memory and L1", tl.L2_READ: "from L2", tl.L2_WRITE: "to L2", tl.BULK: "TMA",
}  # fmt: skip
_CHANNEL, _SLICE = "DRAM channel", "L2 slice"
_DRAM = {tl.FOR_READ: "read", tl.FOR_CHANGED: "written"}
_SHARED = 1 << 24  # units of the whole chip are numbered from here on


@dataclass
class Busy:
    """By multiprocessor its merged notes, and those of DRAM; what was taken in all, in parts of a cycle, by unit."""

    most: int
    sms: list[np.ndarray]
    block: np.ndarray
    groups: np.ndarray  # by instruction: which line it belongs to
    quantum: int
    requests: int  # of all multiprocessors in a turn
    kept: dict[int, list[np.ndarray]] = field(default_factory=dict)
    dram: list[np.ndarray] = field(default_factory=list)
    sums: dict[tuple[int, int], int] = field(default_factory=dict)  # (multiprocessor or -1, unit)
    every: int = 1  # so many channels, one is kept

    def __post_init__(self) -> None:
        self._held = [aligned(tl.BUSY * (_ROOM + _A_CYCLE * (self.quantum + 1))) for _ in self.sms]
        self._dram = aligned(tl.BUSY * (_ROOM + 4 * self.requests))
        self.kept = {n: [] for n in range(len(self.sms))}
        for sm, held in zip(self.sms, self._held):
            fill(sm, {tl.S_BUSY: address(held), tl.S_BUSY_ROOM: _ROOM})
        fill(self.block, {tl.C_BUSY: address(self._dram), tl.C_BUSY_ROOM: _ROOM})

    def empty(self) -> None:
        for n, kept in self.kept.items():
            kept += self._taken(n, self.sms[n], tl.S_BUSY_COUNT, self._held[n], self.groups)
        found = self._taken(-1, self.block, tl.C_BUSY_COUNT, self._dram, None)
        self.dram += [piece[piece["unit"] % self.every == 0] for piece in found]
        while sum(len(p) for kept in self.kept.values() for p in kept) > self.most and len(self.kept) > 1:
            for n in sorted(self.kept)[1::2]:
                del self.kept[n]
                fill(self.sms[n], {tl.S_BUSY_ROOM: 0})
        while sum(map(len, self.dram)) > self.most // 2 and self.every < 1 << 16:
            self.every *= 2
            self.dram = [piece[piece["unit"] % self.every == 0] for piece in self.dram]

    def _taken(
        self, n: int, block: np.ndarray, place: int, held: np.ndarray, groups: np.ndarray | None
    ) -> list[np.ndarray]:
        fields = block.view(np.int64)
        count = int(fields[place // 8])
        if not count:
            return []
        fields[place // 8] = 0
        notes = held[: tl.BUSY * count].view(_NOTE).copy()
        if groups is not None:
            notes["what"] = groups[notes["what"]]
        sums = np.bincount(notes["unit"], notes["end"] - notes["begin"])
        for unit in np.flatnonzero(sums).tolist():
            self.sums[n, unit] = self.sums.get((n, unit), 0) + int(sums[unit])
        return [merged(notes)]


def merged(notes: np.ndarray) -> np.ndarray:
    """Of each unit, in order: what touches and belongs together as one."""
    notes = notes[np.argsort(notes["unit"], kind="stable")]
    new = np.ones(len(notes), bool)
    for name in ("unit", "what"):
        new[1:] &= notes[name][1:] == notes[name][:-1]
    new[1:] = ~(new[1:] & (notes["begin"][1:] <= notes["end"][:-1]))
    found = notes[new]
    found["end"] = np.maximum.reduceat(notes["end"], np.flatnonzero(new))
    return found


def groups_of(program: Program) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """By instruction the number of its source line; and the lines, file and number."""
    known: dict[tuple[str, int], int] = {}
    of = [
        known.setdefault((program.file_names[file], line), len(known))
        for file, line in zip(program.files.tolist(), program.lines.tolist())
    ]
    return np.array([*of, 0], np.int64), list(known)


def part_of(busy: Busy, lines: list[tuple[str, int]], base: int, ns: float, hz: float, name: str) -> Exact:
    """The units' part of a launch that took so many nanoseconds from the cycle `base` on."""
    regions: dict[tuple[str, int], int] = {}
    rows: list[Region] = []

    def region(kind: str, what: int) -> int:
        if (kind, what) not in regions:
            regions[kind, what] = len(rows)
            file, line = ("", 0) if kind in (_CHANNEL, _SLICE) else lines[what]
            said = _DRAM[what] if kind in (_CHANNEL, _SLICE) else f"line {line}" if line else "no line"
            rows.append(Region(len(rows), f"{kind}: {said}", "hardware", None, 0, file, line, line))
        return regions[kind, what]

    units: list[Unit] = []
    pieces = []
    for sm, kept in sorted(busy.kept.items()):
        units.append(Unit(sm, f"SM {sm}", "sm"))
        notes = np.concatenate(kept) if kept else np.zeros(0, _NOTE)
        for unit in sorted(u for n, u in busy.sums if n == sm):
            units.append(_unit(sm, unit))
            pieces.append((units[-1], notes[notes["unit"] == unit]))
    notes = np.concatenate(busy.dram) if busy.dram else np.zeros(0, _NOTE)
    for channel in sorted(u for n, u in busy.sums if n < 0 and u % busy.every == 0):
        kind, number = (_SLICE, channel - tl.SLICES) if channel >= tl.SLICES else (_CHANNEL, channel)
        units.append(Unit(_SHARED + channel, f"{kind} {number}", kind))
        pieces.append((units[-1], notes[notes["unit"] == channel]))
    to_ns = 1e9 / hz / tl.PARTS
    sums = [busy.sums[(-1, one.id - _SHARED) if one.parent is None else _place(one.id)] for one, _ in pieces]
    columns = _columns(pieces, region, base)
    left_out = len(busy.sms) - len(busy.kept)
    notes = ()
    if left_out or busy.every > 1:
        also = f" and every {busy.every}th channel of DRAM and slice of L2" if busy.every > 1 else ""
        notes = (
            f"{name}: intervals of units are those of {len(busy.kept)} of {len(busy.sms)} multiprocessors{also}",
        )
    return Exact(
        columns, rows, units, ns, part=PART, grid=(len(pieces),), kept=len(columns["region"]), notes=notes,
        counters={
            "unit": np.array([one.id for one, _ in pieces]), "name": np.array(["busy_ns"] * len(pieces), object),
            "value": np.array([each * to_ns for each in sums]),
        },
    )  # fmt: skip


def _columns(pieces: list[tuple[Unit, np.ndarray]], region, base: int) -> dict[str, np.ndarray]:
    numbers = [np.full(len(notes), unit.id, np.int64) for unit, notes in pieces]
    of = [
        np.array([region(unit.kind, what) for what in notes["what"].tolist()], np.int64)
        for unit, notes in pieces
    ]
    ends = {
        end: [(notes[key] + tl.PARTS // 2) // tl.PARTS + base for _, notes in pieces]
        for end, key in (("start", "begin"), ("stop", "end"))
    }
    whole = {"program": numbers, "unit": numbers, "region": of, **ends}
    return {name: np.concatenate(parts) if parts else np.zeros(0, np.int64) for name, parts in whole.items()}


def _unit(sm: int, unit: int) -> Unit:
    """A row of the trace. Numbers of multiprocessors are their own."""
    number = (sm + 1) * (1 << 12) + unit
    if unit >= 4 * tl.UNITS:
        return Unit(number, f"SM {sm} {_OF_SM[unit]}", _OF_SM[unit], sm)
    sub, which = divmod(unit, tl.UNITS)
    return Unit(number, f"SM {sm}.{sub} {_OF_SUB[which]}", _OF_SUB[which], sm)


def _place(number: int) -> tuple[int, int]:
    return (number >> 12) - 1, number & ((1 << 12) - 1)
