"""Loads and stores: global, shared, local, constant.

Every address is checked before it is touched. A row of a result is a register: a load of 16 bytes fills four rows.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw, shadow
from tileprobe.targets.simgpu.engine.addresses import check_global, fault, global_addresses, shared_addresses
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.lanes_address import (
    BYTES,
    HIGHEST,
    LOWEST,
    SIDE_BY_SIDE,
    SIGNED,
    TOGETHER,
)
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_SCRATCH, _SHARED, _SHARED_BASE, _SHARED_BYTES = (
    at.CTA_SCRATCH, at.CTA_SHARED, at.CTA_SHARED_BASE, at.CTA_SHARED_BYTES,
)  # fmt: skip
_ROW, _OK = at.ROW, at.OK
_LDG, _STG, _LDS, _STS, _LDL, _STL = (NUMBERS[name] for name in ("LDG", "STG", "LDS", "STS", "LDL", "STL"))
_A, _B, _C, _D, _E, _I0, _I2 = at.A, at.B, at.C, at.D, at.E, at.I0, at.I2


@part
def load_one(address, target, size, signed):
    """One lane's value from memory into its place in a row and those below."""
    if size == 4:
        raw.put32(target, raw.u32(address))
    elif size == 16:
        raw.put32(target, raw.u32(address))
        raw.put32(target + _ROW, raw.u32(address + 4))
        raw.put32(target + 2 * _ROW, raw.u32(address + 8))
        raw.put32(target + 3 * _ROW, raw.u32(address + 12))
    elif size == 8:
        raw.put32(target, raw.u32(address))
        raw.put32(target + _ROW, raw.u32(address + 4))
    elif size == 2:
        raw.put32(target, raw.i16(address) if signed else raw.u16(address))
    else:
        raw.put32(target, raw.i8(address) if signed else raw.u8(address))


@part
def store_one(address, source, size):
    if size == 4:
        raw.put32(address, raw.u32(source))
    elif size == 16:
        raw.put32(address, raw.u32(source))
        raw.put32(address + 4, raw.u32(source + _ROW))
        raw.put32(address + 8, raw.u32(source + 2 * _ROW))
        raw.put32(address + 12, raw.u32(source + 3 * _ROW))
    elif size == 8:
        raw.put32(address, raw.u32(source))
        raw.put32(address + 4, raw.u32(source + _ROW))
    elif size == 2:
        raw.put16(address, raw.u32(source))
    else:
        raw.put8(address, raw.u32(source))


@part
def _move(uop, out, base, target, mask, load):
    """All lanes between memory (addresses at `out`, plus `base`) and rows."""
    how = field(uop, _I2)
    size, signed = how & BYTES, how & SIGNED
    if size == 4 and raw.i64(out + SIDE_BY_SIDE):
        if load:
            raw.copy(target, base + raw.i64(out), _ROW)
        else:
            raw.copy(base + raw.i64(out), target, _ROW)
        return
    for lane in range(32):
        if (mask >> lane) & 1:
            address = base + raw.i64(out + 8 * lane)
            if load:
                load_one(address, target + 4 * lane, size, signed)
            else:
                store_one(address, target + 4 * lane, size)


@part
def global_access(uop, warp, cta, constants, mask, load):
    out = raw.i64(cta + _SCRATCH)
    global_addresses(uop, warp, cta, constants, mask, out)
    wrong = check_global(cta, out, mask, field(uop, _I2) & BYTES)
    if wrong:
        return wrong
    register = row(uop, _D, warp, constants) if load else row(uop, _E, warp, constants)
    how = field(uop, _I2)
    touched = shadow.READ if load else shadow.WRITE
    if how & shadow.STRONG:
        touched = shadow.STRONG_READ if load else shadow.STRONG_WRITE
    shadow.touch(cta, warp, out, mask, how & BYTES, touched, register)
    _move(uop, out, 0, register, mask, load)
    return _OK


@part
def check_shared(cta, out, mask, size):
    """Makes offsets into the program's shared memory of the addresses at `out`."""
    start, room = raw.i64(cta + _SHARED_BASE), raw.i64(cta + _SHARED_BYTES)
    low, high = raw.i64(out + LOWEST), raw.i64(out + HIGHEST)
    if raw.i64(out + TOGETHER) & (size - 1):
        for lane in range(32):
            if (mask >> lane) & 1 and raw.i64(out + 8 * lane) & (size - 1):
                return fault(cta, at.MISALIGNED, lane, raw.i64(out + 8 * lane), size)
    if low < start or high + size > start + room:
        for lane in range(32):
            address = raw.i64(out + 8 * lane)
            if (mask >> lane) & 1 and (address < start or address + size > start + room):
                return fault(cta, at.SHARED_BOUNDS, lane, address - start, room)
    return _OK


@part
def own_shared(cta, out):
    """Addresses of sm_90 name the program of the cluster in their upper byte: loads and stores are of its own."""
    if raw.i64(cta + at.CTA_SHARED_BASE) == 0:
        return
    for lane in range(32):
        raw.put64(out + 8 * lane, raw.i64(out + 8 * lane) & 0xFFFFFF)
    for place in (LOWEST, HIGHEST):
        raw.put64(out + place, raw.i64(out + place) & 0xFFFFFF)


@part
def shared_access(uop, warp, cta, constants, mask, load):
    out = raw.i64(cta + _SCRATCH)
    shared_addresses(uop, warp, cta, constants, mask, out)
    own_shared(cta, out)
    size = field(uop, _I2) & BYTES
    wrong = check_shared(cta, out, mask, size)
    if wrong == _OK and load:
        wrong = shadow.loads(cta, warp, out, mask, size)
    if wrong:
        return wrong
    base = raw.i64(cta + _SHARED) - raw.i64(cta + _SHARED_BASE)
    register = row(uop, _D, warp, constants) if load else row(uop, _E, warp, constants)
    if not load:
        shadow.stores(cta, warp, out, mask, size, register)
    _move(uop, out, base, register, mask, load)
    return _OK


@part
def local_place(warp, lane, address):
    """Where a byte of a lane's local memory lies: words of the lanes stand side by side."""
    return raw.i64(warp + at.W_LOCAL) + (address >> 2) * _ROW + 4 * lane + (address & 3)


@part
def local_access(uop, warp, cta, constants, mask, load):
    out = raw.i64(cta + _SCRATCH)
    shared_addresses(uop, warp, cta, constants, mask, out)
    how = field(uop, _I2)
    size, signed = how & BYTES, how & SIGNED
    register = row(uop, _D, warp, constants) if load else row(uop, _E, warp, constants)
    room = raw.i64(warp + at.W_LOCAL_BYTES)
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        address = raw.i64(out + 8 * lane)
        if address + size > room:
            return fault(cta, at.LOCAL_BOUNDS, lane, address, room)
        if address & (size - 1):
            return fault(cta, at.MISALIGNED, lane, address, size)
        mine = register + 4 * lane
        if size < 4:
            if load:
                load_one(local_place(warp, lane, address), mine, size, signed)
            else:
                store_one(local_place(warp, lane, address), mine, size)
            continue
        for n in range(size // 4):
            place = local_place(warp, lane, address + 4 * n)
            if load:
                raw.put32(mine + n * _ROW, raw.u32(place))
            else:
                raw.put32(place, raw.u32(mine + n * _ROW))
    return _OK


@part
def load_constant(uop, warp, cta, constants, mask):
    """A constant at an offset that a register says. I1: the bank."""
    how = field(uop, _I2)
    size, signed = how & BYTES, how & SIGNED
    bank = raw.i64(cta + at.CTA_BANKS) + 16 * field(uop, at.I1)
    index, target = row(uop, _A, warp, constants), row(uop, _D, warp, constants)
    for lane in range(32):
        if (mask >> lane) & 1:
            offset = (raw.u32(index + 4 * lane) + field(uop, _I0)) & 0xFFFFFFFF
            if offset + size > raw.i64(bank + 8):
                return fault(cta, at.CONSTANT_BOUNDS, lane, offset, raw.i64(bank + 8))
            load_one(raw.i64(bank) + offset, target + 4 * lane, size, signed)
    return _OK


@family("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC")
def access(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return _OK
    if op == _LDG:
        return global_access(uop, warp, cta, constants, mask, True)
    if op == _STG:
        return global_access(uop, warp, cta, constants, mask, False)
    if op == _LDS:
        return shared_access(uop, warp, cta, constants, mask, True)
    if op == _STS:
        return shared_access(uop, warp, cta, constants, mask, False)
    if op == _LDL:
        return local_access(uop, warp, cta, constants, mask, True)
    if op == _STL:
        return local_access(uop, warp, cta, constants, mask, False)
    return load_constant(uop, warp, cta, constants, mask)
