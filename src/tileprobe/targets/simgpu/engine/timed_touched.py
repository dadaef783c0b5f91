"""What each instruction does to memory: counted for every access, where somebody asked (`C_TOUCHED`).

Comes in: an access that was just timed, its addresses still in the scratch memory and its lines in the list. Goes out:
a row of sums for each instruction, and a list of the lines that the first accesses of a few multiprocessors touched.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.timed_caches import sectors_in


@part
def ones(bits):
    """How many lanes a mask of 32 names."""
    count, left = 0, bits & 0xFFFFFFFF
    while left:
        left &= left - 1
        count += 1
    return count


@part
def _add(place, field, value):
    raw.put64(place + field, raw.i64(place + field) + value)


@part
def _row(chip, row):
    """The sums of the instruction that is timed by this row."""
    return raw.i64(chip + tl.C_TOUCHED) + tl.TOUCHED * ((row - raw.i64(chip + tl.C_ROWS)) // tl.ROW)


@part
def _neighbours(place, out, mask, size):
    """How far apart lanes beside each other are. The stride is that of most, by vote."""
    for lane in range(31):
        if (mask >> lane) & 3 != 3:
            continue
        step = raw.i64(out + 8 * lane + 8) - raw.i64(out + 8 * lane)
        _add(place, tl.X_PAIRS, 1)
        if step == size:
            _add(place, tl.X_BESIDE, 1)
        if raw.i64(place + tl.X_VOTES) == 0:
            raw.put64(place + tl.X_STRIDE, step)
        if step == raw.i64(place + tl.X_STRIDE):
            _add(place, tl.X_VOTES, 1)
            _add(place, tl.X_AGREED, 1)
        else:
            _add(place, tl.X_VOTES, -1)


@part
def _lanes(place, out, mask, lanes, size):
    """Of so many lanes of a warp those in the mask: the others are off by a guard, or went another way."""
    _add(place, tl.X_LANES, lanes)
    if mask == 0:
        return
    _add(place, tl.X_TIMES, 1)
    _add(place, tl.X_ACTIVE, ones(mask))
    first = 0
    while (mask >> first) & 1 == 0:
        first += 1
    raw.put64(place + tl.X_BITS, raw.i64(place + tl.X_BITS) | raw.i64(out + 8 * first))
    _neighbours(place, out, mask, size)


@part
def _lines(sm, place, warp, row, count):
    """The sectors of the lines in the list, and the lines themselves while there is room for them."""
    lines = raw.i64(sm + tl.S_LINES)
    program = raw.i64(raw.i64(warp + tl.T_WORKER) + at.WORKER_NEXT)
    for n in range(count):
        sectors = raw.i64(lines + tl.LINE * n + 8)
        _add(place, tl.X_SECTORS, sectors_in(sectors))
        kept = raw.i64(sm + tl.S_TOUCHED_COUNT)
        if kept < raw.i64(sm + tl.S_TOUCHED_ROOM):
            there = raw.i64(sm + tl.S_TOUCHED) + tl.TOUCH * kept
            raw.put64(there, raw.i64(lines + tl.LINE * n) * 16 + sectors)
            raw.put64(there + 8, program)
            raw.put64(there + 16, row)
        raw.put64(sm + tl.S_TOUCHED_COUNT, kept + 1)


@part
def touched_global(chip, sm, warp, row, out, mask, size, count):
    """A load, store, copy or atomic operation on global memory, of `count` lines."""
    if raw.i64(chip + tl.C_TOUCHED) == 0:
        return
    place = _row(chip, row)
    _lanes(place, out, mask, 32, size)
    _lines(sm, place, warp, row - raw.i64(chip + tl.C_ROWS), count)


@part
def touched_tile(chip, sm, warp, row, size, count):
    """A tile of a bulk copy."""
    if raw.i64(chip + tl.C_TOUCHED) == 0:
        return
    place = _row(chip, row)
    _add(place, tl.X_TIMES, 1)
    _add(place, tl.X_LANES, size)
    _add(place, tl.X_ACTIVE, size)
    _lines(sm, place, warp, row - raw.i64(chip + tl.C_ROWS), count)


@part
def touched_shared(chip, row, out, mask, lanes, size, passes):
    """Lanes that go through the banks: at the least once for each part of a warp that goes by itself."""
    if raw.i64(chip + tl.C_TOUCHED) == 0:
        return
    place = _row(chip, row) + tl.TOUCHED_SHARED
    _lanes(place, out, mask, lanes, size)
    if mask == 0:
        return
    group, least = max(min(128 // size, 32), 8), 0
    for first in range(0, 32, group):
        if (mask >> first) & ((1 << group) - 1):
            least += 1
    _add(place, tl.X_PASSES, passes)
    _add(place, tl.X_LEAST, least)
