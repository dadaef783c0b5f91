"""What a launch did to memory, by instruction: the memory that the engine counts in, and what becomes of it.

In comes a launch that ran with time; out goes an `Access` for each source line, opcode and space: all that was
executed, counted. Which lines are different is known of the multiprocessors whose lines had room.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tileprobe.ir.accesses import COUNTED, Access
from tileprobe.targets.simgpu.blocks import Image, address, aligned, fill
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.timing.instructions import bytes_of
from tileprobe.targets.simgpu.timing.loops import opcode_of

_LISTED = 4  # multiprocessors whose lines are kept
_ROOM = 1 << 17  # lines of each
_SECTOR, _PASS = 32, 128  # bytes
_WORDS = {
    "LDG": "load", "LD": "load", "LDS": "load", "LDSM": "load", "LDGSTS": "copy", "UTMALDG": "copy", "STG": "store",
    "ST": "store", "STS": "store", "STSM": "store", "STAS": "store", "UTMASTG": "copy", "UTMAREDG": "copy",
}  # fmt: skip
_LINES = np.dtype([("sectors", np.int64), ("program", np.int64), ("row", np.int64)])
assert _LINES.itemsize == tl.TOUCH


@dataclass(frozen=True)
class Touched:
    """`sums`: by instruction, space (global, shared) and field; `lines`: what was touched, where all of a
    multiprocessor had room."""

    sums: np.ndarray
    lines: np.ndarray


class Touching:
    def __init__(self, rows: int, sms: list[np.ndarray]) -> None:
        self._rows, self._sums = rows, list[np.ndarray]()
        self._listed = sms[:: max(1, len(sms) // _LISTED)][:_LISTED]
        self._held = [aligned(tl.TOUCH * _ROOM) for _ in self._listed]
        for sm, held in zip(self._listed, self._held):
            fill(sm, {tl.S_TOUCHED: address(held), tl.S_TOUCHED_ROOM: _ROOM})

    def rows(self) -> int:
        """Sums of a thread's own."""
        self._sums.append(aligned(tl.TOUCHED * self._rows))
        return address(self._sums[-1])

    def whole(self) -> Touched:
        pieces = []
        for sm, held in zip(self._listed, self._held):
            count = int(sm.view(np.int64)[tl.S_TOUCHED_COUNT // 8])
            if count <= _ROOM:
                pieces.append(held[: tl.TOUCH * count].view(_LINES))
        lines = np.concatenate(pieces) if pieces else np.zeros(0, _LINES)
        tables = [held.view(np.int64).reshape(self._rows, 2, -1) for held in self._sums]
        return Touched(_added(tables), lines)


def _added(tables: list[np.ndarray]) -> np.ndarray:
    """Sums of all threads; strides and bits are no sums."""
    found = sum(tables[1:], tables[0].copy())
    votes, stride = tl.X_VOTES // 8, tl.X_STRIDE // 8
    most = np.argmax([table[:, :, votes] for table in tables], axis=0)
    found[:, :, stride] = np.take_along_axis(
        np.stack([table[:, :, stride] for table in tables]), most[None], 0
    )[0]
    found[:, :, tl.X_BITS // 8] = np.bitwise_or.reduce([table[:, :, tl.X_BITS // 8] for table in tables])
    return found


def touched_by(made: Image, grid: int) -> list[Access]:
    """The accesses of a launch of so many programs that was counted."""
    found: Touched = made.took.touched
    program, sites = made.program, defaultdict[tuple[str, int, str, int], list[int]](list)
    for n, row in enumerate(found.sums[: len(program.texts)]):
        for space in np.flatnonzero(row[:, tl.X_LANES // 8]):
            place = program.file_names[program.files[n]], int(program.lines[n])
            sites[(*place, opcode_of(program.texts[n]), int(space))].append(n)
    distinct, programs = _different(found.lines), len(np.unique(found.lines["program"]))
    accesses: list[Access] = []
    for site, rows in sites.items():
        file, line, opcode, space = site
        figures = _figures(found.sums[rows, space], bytes_of(program.texts[rows[0]]), grid, space == 1)
        if space == 0:
            figures |= _footprint(distinct, rows, programs)
        what = f"{_WORDS.get(opcode.split('.')[0], 'atomic')} {opcode}"
        where = ("global", "shared")[space]
        accesses.append(Access(file, line, what, where, len(accesses), COUNTED, figures))
    return accesses


def _figures(rows: np.ndarray, size: int, grid: int, shared: bool) -> dict[str, float]:
    """Of the sums of an access's instructions."""
    total = {name: int(rows[:, place // 8].sum()) for name, place in _SUMMED.items()}
    figures: dict[str, float] = {"programs": grid, "grid": grid, "size": size, "width": size}
    figures |= {name: total[name] for name in ("times", "lanes", "active")}
    if shared:
        passes = {"passes": total["passes"], "least": total["least"]}
        figures |= {"unit": _PASS, "moved": _PASS * total["passes"], **passes}
    else:
        figures |= {"unit": _SECTOR, "moved": _SECTOR * total["sectors"]}
    if total["pairs"]:
        first = rows[int(np.argmax(rows[:, tl.X_VOTES // 8]))]
        figures |= {"stride": int(first[tl.X_STRIDE // 8]), "regular": total["agreed"] / total["pairs"]}
        figures["beside"] = total["beside"] / total["pairs"]
    bits = int(np.bitwise_or.reduce(rows[:, tl.X_BITS // 8]))
    if bits:
        figures["alignment"] = min(bits & -bits, 64)
    return figures


_SUMMED = {
    "times": tl.X_TIMES, "lanes": tl.X_LANES, "active": tl.X_ACTIVE, "sectors": tl.X_SECTORS, "passes": tl.X_PASSES,
    "least": tl.X_LEAST, "pairs": tl.X_PAIRS, "beside": tl.X_BESIDE, "agreed": tl.X_AGREED,
}  # fmt: skip


def _different(lines: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """By instruction: sectors that were touched, and by which programs; each pair once."""
    if not len(lines):
        return {}
    bits = np.arange(4)  # of a line, its sectors
    there = (lines["sectors"][:, None] >> bits) & 1 == 1
    sector = ((lines["sectors"] // 16)[:, None] * 4 + bits)[there]
    program = np.repeat(lines["program"], 4).reshape(-1, 4)[there]
    row = np.repeat(lines["row"] // tl.ROW, 4).reshape(-1, 4)[there]
    return {int(n): (sector[row == n], program[row == n]) for n in np.unique(row)}


def _footprint(
    distinct: dict[int, tuple[np.ndarray, np.ndarray]], at: list[int], programs: int
) -> dict[str, float]:
    """Bytes of different sectors that a program touched, and that all whose lines are known did."""
    mine = [distinct[n] for n in at if n in distinct]
    if not mine:
        return {}
    sector, program = (np.concatenate([pair[k] for pair in mine]) for k in (0, 1))
    pairs = np.unique(np.stack([program, sector]), axis=1)
    return {
        "program": _SECTOR * pairs.shape[1] / programs,
        "sample": _SECTOR * len(np.unique(sector)),
    }
