"""Addresses of lanes as runs: lanes one behind the other whose bytes are, too. Checks look at a run at once."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw

_PLACE = 32 << 10  # in the scratch memory
OFFSET, BYTES, LANE, LANES, RUN = 0, 8, 16, 24, 32  # fields of a run, and its size


@part
def place_of(cta):
    return raw.i64(cta + at.CTA_SCRATCH) + _PLACE


@part
def find(cta, out, mask, size, base):
    """Runs of the addresses at `out`, less `base`. How many there are. A lane at the same place as the one before is
    left out."""
    place, count, lane = place_of(cta), 0, 0
    while lane < 32:
        if not (mask >> lane) & 1:
            lane += 1
            continue
        first, number = raw.i64(out + 8 * lane), 1
        end, lane = first + size, lane + 1
        while lane < 32 and (mask >> lane) & 1:
            here = raw.i64(out + 8 * lane)
            if here == end:
                end += size
            elif here != end - size:
                break
            number += 1
            lane += 1
        run = place + RUN * count
        raw.put64(run + OFFSET, first - base)
        raw.put64(run + BYTES, end - first)
        raw.put64(run + LANE, lane - number)
        raw.put64(run + LANES, number)
        count += 1
    return count
