"""Asynchronous copies from global to shared memory, and matrices between shared memory and registers.

A copy is checked when it is issued and done when it is waited for: what reads shared memory without waiting sees what
was there before. Copies of a warp stand in a ring in its block's memory; when it is full, the oldest is done. ARRIVES
puts an arrival at a barrier behind them; it comes, and all copies before it are done, when every warp has had a turn.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.addresses import (
    check_global,
    second_addresses,
    shared_addresses,
)
from tileprobe.targets.simgpu.engine.fields import field, predicate, row
from tileprobe.targets.simgpu.engine.lanes_address import BYTES
from tileprobe.targets.simgpu.engine.mbarriers import WORD, arrive_by_copy, passed, subject
from tileprobe.targets.simgpu.engine.memory import check_shared, own_shared
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_LDGSTS, _LDGDEPBAR, _DEPBAR, _LDSM, _STSM, _ARRIVES = (
    NUMBERS[n] for n in ("LDGSTS", "LDGDEPBAR", "DEPBAR", "LDSM", "STSM", "ARRIVES")
)
# A copy in the ring: mask, mask of those that become zeros, bytes, group; addresses of the lanes; place in the code. An
# arrival: mask, the warp's time, how it arrives (negated), group; addresses of the barriers in place of the targets'.
_MASK, _ZEROS, _SIZE, _GROUP_OF, _FROM, _TO, _PC = 0, 4, 8, 12, 16, 272, 528
COPY = 544
RING = 64
_MADE, _DONE, _GROUP, _RING = at.W_COPIES_MADE, at.W_COPIES_DONE, at.W_GROUP, at.W_COPIES


@part
def _arrived(cta, place):
    """An arrival that the copies before it were waited for by. OK or a fault."""
    raw.put64(cta + at.CTA_ARRIVALS, raw.i64(cta + at.CTA_ARRIVALS) - 1)
    for lane in range(32):
        address = raw.i64(place + _TO + 8 * lane)
        if (raw.u32(place + _MASK) >> lane) & 1:
            if not arrive_by_copy(cta, address, -raw.i32(place + _SIZE)):
                return _wrong(cta, at.BAD_MBARRIER, lane, address, 0)
    return at.OK


@part
def _do(cta, warp, place, time):
    """Copies what one entry says. OK, or a fault of an arrival."""
    mask, zeros, size = raw.u32(place + _MASK), raw.u32(place + _ZEROS), raw.i32(place + _SIZE)
    if size < 0:
        return _arrived(cta, place)
    shadow.copied(cta, warp, place + _TO, mask, size, raw.i32(place + _PC), time)
    for lane in range(32):
        if (mask >> lane) & 1:
            target = raw.i64(place + _TO + 8 * lane)
            if (zeros >> lane) & 1:
                raw.fill(target, 0, size)
            else:
                raw.copy(target, raw.i64(place + _FROM + 8 * lane), size)
    return at.OK


@part
def _arrive_of(cta, warp):
    """Does the copies of a warp up to its last arrival."""
    ring, made, done, wrong = raw.i64(warp + _RING), raw.i32(warp + _MADE), raw.i32(warp + _DONE), at.OK
    while True:
        last = done
        while last < made and raw.i32(ring + COPY * (last % RING) + _SIZE) >= 0:
            last += 1
        if last == made or wrong:
            raw.put32(warp + _DONE, done)
            return wrong
        arrival = ring + COPY * (last % RING)
        while done <= last:
            wrong = _do(cta, warp, ring + COPY * (done % RING), raw.u32(arrival + _ZEROS))
            done += 1
        if wrong:
            raw.put64(cta + at.CTA_ERROR_PC, raw.i32(arrival + _PC))


@part
def arrive_all(cta):
    """Does what arrivals wait for, of all warps of a program, and the arrivals. OK or a fault."""
    for n in range(raw.i64(cta + at.CTA_WARP_COUNT)):
        wrong = _arrive_of(cta, raw.i64(cta + at.CTA_WARPS) + n * raw.i64(cta + at.CTA_WARP_BYTES))
        if wrong:
            return wrong
    return at.OK


@part
def loaded_last(warp):
    """The lanes for which the newest copy loads; the others get zeros."""
    place = raw.i64(warp + _RING) + COPY * ((raw.i32(warp + _MADE) - 1) % RING)
    return raw.u32(place + _MASK) & ~raw.u32(place + _ZEROS)


@part
def complete(cta, warp, pending):
    """Does copies, the oldest first, until only the newest `pending` groups are left. OK, or a fault of an arrival."""
    wrong = at.OK
    ring, made, done = raw.i64(warp + _RING), raw.i32(warp + _MADE), raw.i32(warp + _DONE)
    last = raw.i32(warp + _GROUP) - pending
    while done < made:
        place = ring + COPY * (done % RING)
        if raw.i32(place + _GROUP_OF) >= last:
            break
        wrong = _do(cta, warp, place, 0)
        done += 1
        if wrong:
            break
    raw.put32(warp + _DONE, done)
    return wrong


@part
def _place(cta, warp):
    """A place in the ring for what is issued; if it is full, the oldest is done. And OK, or a fault of that."""
    made, wrong = raw.i32(warp + _MADE), at.OK
    place = raw.i64(warp + _RING) + COPY * (made % RING)
    if made - raw.i32(warp + _DONE) >= RING:
        wrong = _do(cta, warp, place, 0)
        raw.put32(warp + _DONE, raw.i32(warp + _DONE) + 1)
    raw.put32(warp + _MADE, made + 1)
    return place, wrong


@part
def _copy(uop, warp, cta, constants, mask, pc):
    """LDGSTS: where the predicate does not hold, zeros."""
    out = raw.i64(cta + at.CTA_SCRATCH)
    other = out + 512
    size = field(uop, at.I2) & BYTES
    shared_addresses(uop, warp, cta, constants, mask, out)
    own_shared(cta, out)
    wrong = check_shared(cta, out, mask, size)
    if wrong:
        return wrong
    loaded = mask & predicate(uop, 0, warp)
    if loaded:
        second_addresses(uop, warp, cta, constants, loaded, other)
        wrong = check_global(cta, other, loaded, size)
        if wrong:
            return wrong
        shadow.touch(cta, warp, other, loaded, size, shadow.READ, 0)
    place, wrong = _place(cta, warp)
    if wrong:
        return wrong
    shadow.copies(cta, warp, out, mask, size)
    raw.put32(place + _PC, pc)
    raw.put32(place + _MASK, mask)
    raw.put32(place + _ZEROS, mask & ~loaded)
    raw.put32(place + _SIZE, size)
    raw.put32(place + _GROUP_OF, raw.i32(warp + _GROUP))
    base = raw.i64(cta + at.CTA_SHARED) - raw.i64(cta + at.CTA_SHARED_BASE)
    for lane in range(32):
        raw.put64(place + _TO + 8 * lane, base + raw.i64(out + 8 * lane))
        raw.put64(place + _FROM + 8 * lane, raw.i64(other + 8 * lane))
    return at.OK


@part
def _arrive(uop, warp, cta, constants, mask, pc):
    """ARRIVES: when the copies up to here are done, each lane arrives at a barrier. I2: how."""
    out, how = raw.i64(cta + at.CTA_SCRATCH), field(uop, at.I2)
    shared_addresses(uop, warp, cta, constants, mask, out)
    if how == WORD:
        wrong = check_shared(cta, out, mask, 8)
        if wrong:
            return wrong
    block, time = clocks.block_of(cta), 0
    if block:
        time = clocks.now(block, raw.i32(warp + at.W_AGENT))
    for lane in range(32):
        if (mask >> lane) & 1:
            address = raw.i64(out + 8 * lane)
            if how != WORD and passed(cta, address, 0) < 0:
                return _wrong(cta, at.BAD_MBARRIER, lane, address, 0)
            if block:
                clocks.release(cta, warp, subject(cta, address))
    place, wrong = _place(cta, warp)
    if wrong:
        return wrong
    raw.put32(place + _PC, pc)
    raw.put32(place + _MASK, mask)
    raw.put32(place + _ZEROS, time)
    raw.put32(place + _SIZE, -how)
    raw.put32(place + _GROUP_OF, raw.i32(warp + _GROUP))
    raw.copy(place + _TO, out, 8 * 32)
    raw.put64(cta + at.CTA_ARRIVALS, raw.i64(cta + at.CTA_ARRIVALS) + 1)
    return at.OK


@part
def _matrices(uop, warp, cta, constants, mask, load):
    """I2: how many 8 x 8 matrices of halves; bit 8: whether rows and columns are exchanged. Lanes 8n to 8n + 7 have
    the addresses of the rows of matrix n. In a register a matrix stands as it does in memory."""
    out = raw.i64(cta + at.CTA_SCRATCH)
    how = field(uop, at.I2)
    count, exchanged = how & BYTES, how & 0x100
    shared_addresses(uop, warp, cta, constants, mask, out)
    own_shared(cta, out)
    needed = (1 << (8 * count)) - 1  # also of lanes that do not execute: their rows are touched, too
    start, room = raw.i64(cta + at.CTA_SHARED_BASE), raw.i64(cta + at.CTA_SHARED_BYTES)
    for lane in range(32):
        address = raw.i64(out + 8 * lane)
        if (needed >> lane) & 1:
            if address & 15:
                return _wrong(cta, at.MISALIGNED, lane, address, 16)
            if address < start or address + 16 > start + room:
                return _wrong(cta, at.SHARED_BOUNDS, lane, address - start, room)
    if load:
        wrong = shadow.loads(cta, warp, out, needed, 16)
        if wrong:
            return wrong
    base = raw.i64(cta + at.CTA_SHARED) - start
    register = row(uop, at.D, warp, constants) if load else row(uop, at.E, warp, constants)
    for matrix in range(count):
        mine = register + at.ROW * matrix
        for n in range(8):
            place = base + raw.i64(out + 8 * (8 * matrix + n))
            low, high = raw.i64(place), raw.i64(place + 8)
            _row(mine, place, n, exchanged, load)
            if not load:
                same = low == raw.i64(place) and high == raw.i64(place + 8)
                shadow.store(cta, warp, 8 * matrix + n, place - base - start, 16, same)
    return at.OK


@part
def _row(matrix, place, n, exchanged, load):
    """Row n of a matrix between shared memory and a register."""
    if not exchanged:
        if load:
            raw.copy(matrix + 16 * n, place, 16)
        else:
            raw.copy(place, matrix + 16 * n, 16)
        return
    for column in range(8):
        inside = matrix + 2 * (8 * column + n)
        if load:
            raw.put16(inside, raw.u16(place + 2 * column))
        else:
            raw.put16(place + 2 * column, raw.u16(inside))


@part
def _wrong(cta, kind, lane, address, more):
    raw.put64(cta + at.CTA_ERROR_LANE, lane)
    raw.put64(cta + at.CTA_ERROR_ADDRESS, address)
    raw.put64(cta + at.CTA_ERROR_MORE, more)
    return kind


@family("LDGSTS", "LDGDEPBAR", "DEPBAR", "LDSM", "STSM", "ARRIVES")
def copies(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    if op == _LDGSTS:
        return _copy(uop, warp, cta, constants, mask, pc)
    if op == _LDGDEPBAR:  # what was issued up to here is a group
        raw.put32(warp + _GROUP, raw.i32(warp + _GROUP) + 1)
        return at.OK
    if op == _DEPBAR:
        wrong = complete(cta, warp, field(uop, at.I0))
        clocks.wait_groups(cta, warp, clocks.STORES, field(uop, at.I0))
        return wrong
    if op == _ARRIVES:
        return _arrive(uop, warp, cta, constants, mask, pc)
    return _matrices(uop, warp, cta, constants, mask, op == _LDSM)
