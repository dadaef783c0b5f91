"""Stores of lanes into the shared memory of a program of the cluster, which arrive at a barrier there (`st.async`).

A store waits in the queue of the program it goes to, as bulk loads do: it is done when every warp has had a turn, and
its bytes arrive then. Its entry has no descriptor; the value stands in place of coordinates, its bytes of the rank.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw, shadow
from tileprobe.targets.simgpu.engine.addresses import fault
from tileprobe.targets.simgpu.engine.bulk import entered, free_entry
from tileprobe.targets.simgpu.engine.clusters import after_end, member
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.numbers import family


@part
def _wrong(cta, target, lane, address, barrier, size):
    """A fault of a lane's addresses, noted; OK."""
    if target == 0:
        return fault(cta, at.SHARED_BOUNDS, lane, address, 0)
    offset, room = (
        (address & 0xFFFFFF) - raw.i64(target + at.CTA_SHARED_BASE),
        raw.i64(target + at.CTA_SHARED_BYTES),
    )
    if offset & (size - 1):
        return fault(cta, at.MISALIGNED, lane, address, size)
    if offset < 0 or offset + size > room:
        return fault(cta, at.SHARED_BOUNDS, lane, offset, room)
    if address >> 24 != barrier >> 24:  # the barrier must be in the same program
        return fault(cta, at.BAD_MBARRIER, lane, barrier, 0)
    return at.OK


@family("STAS")
def remote_store(op, uop, warp, cta, constants, mask, pc):
    """A: two rows, where to and the barrier; E: the value; I2: its bytes."""
    where, values, size = row(uop, at.A, warp, constants), row(uop, at.E, warp, constants), field(uop, at.I2)
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        address, barrier = raw.u32(where + 4 * lane), raw.u32(where + at.ROW + 4 * lane)
        target = member(cta, address)
        wrong = _wrong(cta, target, lane, address, barrier, size)
        if wrong:
            return wrong
        entry, wrong = free_entry(target)
        if wrong:
            return wrong
        raw.put32(entry + at.ASYNC_SHARED, address)
        raw.put32(entry + at.ASYNC_BARRIER, barrier)
        for n in range(size // 4):
            raw.put32(entry + at.ASYNC_AT + 4 * n, raw.u32(values + at.ROW * n + 4 * lane))
        raw.put32(entry + at.ASYNC_RANK, size)
        raw.put32(entry + at.ASYNC_PC, pc)
        raw.put64(entry + at.ASYNC_DESCRIPTOR, 0)
        raw.put64(entry + at.ASYNC_BY, raw.i64(warp + at.W_CYCLE) * 64 + raw.i32(warp + at.W_NUMBER))
        after_end(cta, target, warp)
        shadow.copy(target, warp, (address & 0xFFFFFF) - raw.i64(target + at.CTA_SHARED_BASE), size)
        entered(target)
    return at.OK
