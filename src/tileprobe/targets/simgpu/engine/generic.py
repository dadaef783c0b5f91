"""Loads, stores and atomics whose address says which memory is meant: global, a lane's own local memory, or the shared
memory of a program of the cluster. Lanes are looked at one by one: a warp may mean different memories at once."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.addresses import fault, global_addresses, inside
from tileprobe.targets.simgpu.engine.atomics import apply, gather
from tileprobe.targets.simgpu.engine.clusters import after_end, member
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.lanes_address import BYTES, SIGNED
from tileprobe.targets.simgpu.engine.memory import load_one, local_place, store_one
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_LD, _ST, _ATOM = (NUMBERS[name] for name in ("LD", "ST", "ATOM"))
_WINDOW = 32  # bits of an address within a window
_SHARED, _LOCAL = at.SHARED_WINDOW >> _WINDOW, at.LOCAL_WINDOW >> _WINDOW
_OFFSET = 0xFFFFFF  # of a byte in a program's shared memory; the number of the program stands above


@part
def _window(address):
    return (address >> _WINDOW) & 0xFFFFFFFF


@part
def _in_shared(cta, lane, address, size):
    """Where a byte of shared memory lies on this machine; 0 after a fault was noted."""
    low = address & 0xFFFFFFFF
    owner = member(cta, low)
    if owner == 0:
        fault(cta, at.SHARED_BOUNDS, lane, low, 0)
        return 0
    offset = (low & _OFFSET) - raw.i64(owner + at.CTA_SHARED_BASE)
    room = raw.i64(owner + at.CTA_SHARED_BYTES)
    if offset < 0 or offset + size > room:
        fault(cta, at.SHARED_BOUNDS, lane, offset, room)
        return 0
    return raw.i64(owner + at.CTA_SHARED) + offset


@part
def _place(cta, lane, address, size):
    """The place of shared or global memory; 0 after a fault was noted."""
    if _window(address) == _SHARED:
        return _in_shared(cta, lane, address, size)
    if address < 0 or not inside(cta, address, address + size):
        fault(cta, at.OUT_OF_BOUNDS, lane, address, size)
        return 0
    return address


@part
def _local(cta, warp, lane, address, size, register, load, signed):
    offset, room = address & 0xFFFFFFFF, raw.i64(warp + at.W_LOCAL_BYTES)
    if offset + size > room:
        return fault(cta, at.LOCAL_BOUNDS, lane, offset, room)
    if size < 4:
        if load:
            load_one(local_place(warp, lane, offset), register, size, signed)
        else:
            store_one(local_place(warp, lane, offset), register, size)
        return at.OK
    for n in range(size // 4):
        place = local_place(warp, lane, offset + 4 * n)
        if load:
            raw.put32(register + n * at.ROW, raw.u32(place))
        else:
            raw.put32(place, raw.u32(register + n * at.ROW))
    return at.OK


@part
def _meant(cta, out, mask, size, owner, own):
    """The lanes that mean shared memory of a program, if it is there; their addresses in it go to `own`."""
    start, room, found = raw.i64(owner + at.CTA_SHARED_BASE), raw.i64(owner + at.CTA_SHARED_BYTES), 0
    for lane in range(32):
        address = raw.i64(out + 8 * lane)
        if not (mask >> lane) & 1 or _window(address) != _SHARED or address & (size - 1):
            continue
        low = address & 0xFFFFFFFF
        if member(cta, low) == owner and start <= low & _OFFSET and (low & _OFFSET) + size <= start + room:
            raw.put64(own + 8 * lane, low & _OFFSET)
            found |= 1 << lane
    return found


@part
def _visit(cta, owner, warp):
    """A warp uses the shared memory of another program, which must still be there."""
    block = clocks.block_of(owner)
    if block == 0 or owner == cta:
        return
    clocks.visit(block, warp)
    after_end(cta, owner, warp)


@part
def _shared_told(cta, owner, warp, own, mask, size, how, source):
    _visit(cta, owner, warp)
    if how == shadow.ATOMIC:
        return shadow.atomics(owner, warp, own, mask, size)
    if how in (shadow.WRITE, shadow.STRONG_WRITE):
        return shadow.stores(owner, warp, own, mask, size, source)
    return shadow.loads(owner, warp, own, mask, size)


@part
def _told(cta, warp, out, mask, size, how, source):
    """Tells the checks what lanes do to shared memory, program by program, and to global memory. OK or a fault."""
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return at.OK
    cluster, own, rest = raw.i64(cta + at.CTA_CLUSTER), out + 2048, 0
    for n in range(raw.i64(cluster + at.CLUSTER_SIZE)):
        owner = raw.i64(cluster + at.CLUSTER_MEMBERS + 8 * n)
        mine = _meant(cta, out, mask, size, owner, own)
        wrong = _shared_told(cta, owner, warp, own, mine, size, how, source) if mine else at.OK
        if wrong:
            for place in (at.CTA_ERROR_LANE, at.CTA_ERROR_ADDRESS, at.CTA_ERROR_MORE):
                raw.put64(cta + place, raw.i64(owner + place))
            return wrong
    for lane in range(32):
        window = _window(raw.i64(out + 8 * lane))
        if (mask >> lane) & 1 and window != _SHARED and window != _LOCAL:
            rest |= 1 << lane
    return shadow.touch(cta, warp, out, rest, size, how, source) if rest else at.OK


@part
def _access(uop, warp, cta, constants, mask, out, load):
    how = field(uop, at.I2)
    size, signed, strong = how & BYTES, how & SIGNED, how & shadow.STRONG
    register = row(uop, at.D, warp, constants) if load else row(uop, at.E, warp, constants)
    if load:
        touched = shadow.STRONG_READ if strong else shadow.READ
    else:
        touched = shadow.STRONG_WRITE if strong else shadow.WRITE
    wrong = _told(cta, warp, out, mask, size, touched, register)
    if wrong:
        return wrong
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        address, mine = raw.i64(out + 8 * lane), register + 4 * lane
        if address & (size - 1):
            return fault(cta, at.MISALIGNED, lane, address, size)
        if _window(address) == _LOCAL:
            wrong = _local(cta, warp, lane, address, size, mine, load, signed)
            if wrong:
                return wrong
            continue
        place = _place(cta, lane, address, size)
        if place == 0:
            return raw.i64(cta + at.CTA_ERROR)
        if load:
            load_one(place, mine, size, signed)
        else:
            store_one(place, mine, size)
    return at.OK


@part
def _atomic(uop, warp, cta, constants, mask, out):
    size = field(uop, at.I2) & BYTES
    held, target = out + 512, row(uop, at.D, warp, constants)
    gather(uop, warp, constants, held, size)
    wrong = _told(cta, warp, out, mask, size, shadow.ATOMIC, 0)
    if wrong:
        return wrong
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        address = raw.i64(out + 8 * lane)
        if address & (size - 1):
            return fault(cta, at.MISALIGNED, lane, address, size)
        place = _place(cta, lane, address, size)
        if place == 0:
            return raw.i64(cta + at.CTA_ERROR)
        apply(uop, place, raw.i64(held + 16 * lane), raw.i64(held + 16 * lane + 8), target + 4 * lane, size)
    return at.OK


@family("LD", "ST", "ATOM")
def generic(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    out = raw.i64(cta + at.CTA_SCRATCH)
    global_addresses(uop, warp, cta, constants, mask, out)
    if op == _ATOM:
        return _atomic(uop, warp, cta, constants, mask, out)
    return _access(uop, warp, cta, constants, mask, out, op == _LD)
