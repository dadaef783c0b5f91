"""What caches have in common, numbers of the machine, and where units note when they were busy."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl

_LONG_AFTER = 1 << 40  # cycles; no launch takes so many


@part
def number(chip, place):
    """One of the machine's numbers."""
    return raw.i64(raw.i64(chip + tl.C_MACHINE) + place)


@part
def found(tags, sets, ways, line):
    """The place of a line in a cache, or that of the one to go for it; and whether it is there."""
    spread = line ^ (line >> 7) ^ (line >> 13) ^ (line >> 21)
    place = tags + tl.TAG_BYTES * ways * (spread % sets)
    oldest, least = place, raw.i64(place + tl.USED)
    for n in range(ways):
        here = place + tl.TAG_BYTES * n
        if raw.i64(here + tl.TAG) == line + 1:
            return here, True
        if raw.i64(here + tl.USED) < least:
            oldest, least = here, raw.i64(here + tl.USED)
    return oldest, False


@part
def used(when, hint):
    """What is noted of a line that is used in a cycle: lines with the least of it go first."""
    if hint == tl.GO_FIRST:
        return 1  # behind those that are empty
    return when + _LONG_AFTER if hint == tl.GO_LAST else when


@part
def sectors_in(sectors):
    """How many sectors a mask names."""
    return (sectors & 1) + ((sectors >> 1) & 1) + ((sectors >> 2) & 1) + ((sectors >> 3) & 1)


@part
def note_busy(block, busy, unit, what, begin, end):
    """A unit of a multiprocessor, or a channel, was busy from one part of a cycle to another. `busy`: where the fields
    stand in the block."""
    count = raw.i64(block + busy + 8)
    place = raw.i64(block + busy) + tl.BUSY * count
    raw.put64(place, begin)
    raw.put64(place + 8, end)
    raw.put32(place + 16, unit)
    raw.put32(place + 20, what)
    raw.put64(block + busy + 8, count + 1)


@part
def busy_unit(sm, unit, begin, end):
    """Likewise one of a multiprocessor, with the instruction that was issued last."""
    if raw.i64(sm + tl.S_BUSY_ROOM) and end > begin:
        note_busy(sm, tl.S_BUSY, unit, raw.i64(sm + tl.S_PC), begin, end)
