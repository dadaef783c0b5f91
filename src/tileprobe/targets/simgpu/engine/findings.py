"""What checks have found: a table of pairs of instructions, each with one example and how often it was seen."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw

# Kinds: what the second access of a pair did, and to what
(
    WROTE_WRITTEN, READ_WRITTEN, WROTE_READ, NO_FENCE, WROTE_BUSY, WROTE_UNDER_WAY, COPIED_TWICE,
    GLOBAL_WROTE_WRITTEN, GLOBAL_READ_WRITTEN, GLOBAL_WROTE_READ, GLOBAL_UNWRITTEN, UNWRITTEN,
    LEFT,
) = range(13)  # fmt: skip
# 64-bit fields of an entry
(
    KIND,
    FIRST_PC,
    SECOND_PC,
    FIRST_AGENT,
    SECOND_WARP,
    FIRST_PROGRAM,
    SECOND_PROGRAM,
    PLACE,
    SIZE,
    LANE,
    COUNT,
) = (8 * n for n in range(11))
ENTRY, ROOM = 96, 64


@part
def note(block, kind, first_pc, first_agent, first_program, pc, warp, place, size, lane):
    """A pair was seen: again, or for the first time. Where there is no room it is only counted."""
    table, count = raw.i64(block + clocks.FOUND), raw.i64(block + clocks.FOUND_COUNT)
    for n in range(count):
        entry = table + ENTRY * n
        if (
            raw.i64(entry + KIND) == kind
            and raw.i64(entry + FIRST_PC) == first_pc
            and raw.i64(entry + SECOND_PC) == pc
        ):
            raw.put64(entry + COUNT, raw.i64(entry + COUNT) + 1)
            return
    if count >= ROOM:
        raw.put64(block + clocks.LOST, raw.i64(block + clocks.LOST) + 1)
        return
    entry = table + ENTRY * count
    raw.put64(entry + KIND, kind)
    raw.put64(entry + FIRST_PC, first_pc)
    raw.put64(entry + SECOND_PC, pc)
    raw.put64(entry + FIRST_AGENT, first_agent)
    raw.put64(entry + SECOND_WARP, warp)
    raw.put64(entry + FIRST_PROGRAM, first_program)
    raw.put64(entry + SECOND_PROGRAM, raw.i64(block + clocks.PROGRAM))
    raw.put64(entry + PLACE, place)
    raw.put64(entry + SIZE, size)
    raw.put64(entry + LANE, lane)
    raw.put64(entry + COUNT, 1)
    raw.put64(block + clocks.FOUND_COUNT, count + 1)
