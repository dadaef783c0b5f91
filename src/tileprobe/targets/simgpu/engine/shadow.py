"""What is known about each byte of a program's shared memory, where `CTA_CHECKS` asks for it: whether it was written,
and whether an asynchronous copy to it is under way. Offsets count from the start of the program's shared memory."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw


@part
def mark(cta, offset, size, state):
    """Bytes are in this state from now on."""
    if raw.i64(cta + at.CTA_CHECKS):
        raw.fill(raw.i64(cta + at.CTA_SHADOW) + offset, state, size)


@part
def look(cta, lane, offset, size):
    """OK if all bytes hold a value, else the fault, noted with its place."""
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return at.OK
    place = raw.i64(cta + at.CTA_SHADOW) + offset
    for n in range(size):
        state = raw.u8(place + n)
        if state != at.WRITTEN:
            raw.put64(cta + at.CTA_ERROR_LANE, lane)
            raw.put64(cta + at.CTA_ERROR_ADDRESS, offset + n)
            raw.put64(cta + at.CTA_ERROR_MORE, size)
            return at.UNINITIALISED if state == at.UNWRITTEN else at.TOO_EARLY
    return at.OK


@part
def lanes_look(cta, out, mask, size):
    """The same for the addresses of all lanes at `out`."""
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return at.OK
    start = raw.i64(cta + at.CTA_SHARED_BASE)
    for lane in range(32):
        if (mask >> lane) & 1:
            wrong = look(cta, lane, raw.i64(out + 8 * lane) - start, size)
            if wrong:
                return wrong
    return at.OK


@part
def lanes_mark(cta, out, mask, size, state):
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return
    place = raw.i64(cta + at.CTA_SHADOW) - raw.i64(cta + at.CTA_SHARED_BASE)
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.fill(place + raw.i64(out + 8 * lane), state, size)
