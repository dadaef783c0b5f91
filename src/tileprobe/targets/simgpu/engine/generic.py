"""Loads, stores and atomics whose address says which memory is meant: global, a lane's own local memory, or the shared
memory of a program of the cluster. Lanes are looked at one by one: a warp may mean different memories at once."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.addresses import fault, global_addresses, inside
from tileprobe.targets.simgpu.engine.atomics import apply, gather
from tileprobe.targets.simgpu.engine.clusters import member
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
def _mark(cta, address, size):
    """Shared memory holds a value from now on."""
    if _window(address) != _SHARED:
        return
    owner = member(cta, address & 0xFFFFFFFF)
    if owner and raw.i64(owner + at.CTA_CHECKS):
        offset = (address & _OFFSET) - raw.i64(owner + at.CTA_SHARED_BASE)
        raw.fill(raw.i64(owner + at.CTA_SHADOW) + offset, at.WRITTEN, size)


@part
def _access(uop, warp, cta, constants, mask, out, load):
    how = field(uop, at.I2)
    size, signed = how & BYTES, how & SIGNED
    register = row(uop, at.D, warp, constants) if load else row(uop, at.E, warp, constants)
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
            _mark(cta, address, size)
    return at.OK


@part
def _atomic(uop, warp, cta, constants, mask, out):
    size = field(uop, at.I2) & BYTES
    held, target = out + 512, row(uop, at.D, warp, constants)
    gather(uop, warp, constants, held, size)
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
