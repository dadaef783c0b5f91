"""Atomics on global and shared memory, lane after lane in the order of their numbers."""

from __future__ import annotations

import numpy as np

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw, shadow
from tileprobe.targets.simgpu.engine.addresses import check_global, global_addresses, shared_addresses
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.lanes_address import BYTES
from tileprobe.targets.simgpu.engine.memory import check_shared, own_shared
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

OPERATIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS")
ADD, MIN, MAX, INC, DEC, AND, OR, XOR, EXCH, CAS = range(10)
TYPES = ("U32", "S32", "U64", "S64", "F32", "F64", "F16x2", "BF16x2")
_U32, _S32, _U64, _S64, _F32, _F64, _F16, _BF16 = range(8)
F32_WHOLE = 8  # sums of which subnormal numbers are not flushed: of bulk reductions, no instruction names it
# I2: bytes; from bit 8 on the operation, from bit 16 on the type; bit 24: words of that type one behind the other
VECTOR = 1 << 24
TRUTH = 1 << 25  # CAS answers whether it has exchanged: 1 or 0
_ATOMS = NUMBERS["ATOMS"]
_ALL = 0xFFFFFFFF


@part
def _less(x, y, kind):
    if kind == _U64:
        return (x ^ (-9223372036854775807 - 1)) < (y ^ (-9223372036854775807 - 1))
    if kind == _S32:
        a = x - (1 << 32) if x >> 31 else x
        b = y - (1 << 32) if y >> 31 else y
        return a < b
    return x < y


@part
def half(bits, kind):
    """One half as a double."""
    if kind == _BF16:
        return np.float64(raw.float_of(bits << 16))
    sign = -1.0 if bits >> 15 else 1.0
    exponent, fraction = (bits >> 10) & 31, bits & 1023
    if exponent == 31:
        return sign * np.inf if fraction == 0 else np.nan
    if exponent == 0:
        return sign * fraction * 2.0**-24
    return sign * (1024 + fraction) * 2.0 ** (exponent - 25)


@part
def to_half(value, kind):
    """A double to the nearest half, ties to even."""
    if value != value:
        return 0x7FFF
    if kind == _BF16:
        single = np.float32(value)
        bits = raw.bits_of(single)
        back = np.float64(single)
        if back != value and not bits & 1:  # keep that something was lost
            bits += 1 if abs(back) < abs(value) else -1
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF
    sign = 0x8000 if raw.bits_of_double(value) < 0 else 0
    size = abs(value)
    if size >= 65520.0:
        return sign | 0x7C00
    if size < 2.0**-14:
        return sign | np.int64(np.rint(size * 2.0**24))
    exponent = ((raw.bits_of_double(size) >> 52) & 2047) - 1023
    units = np.int64(np.rint(size * 2.0 ** (10 - exponent)))
    return sign | (((exponent + 14) << 10) + units)


@part
def _flushed(bits):
    """A subnormal float is a zero of its sign."""
    return bits if bits & 0x7F800000 else bits & 0x80000000


@part
def _added(x, y, kind):
    if kind in (F32_WHOLE, _F32):
        flush = kind == _F32  # PTX ISA, `atom`: on global memory subnormal inputs and results are flushed
        total = raw.float_of(_flushed(x) if flush else x) + raw.float_of(_flushed(y) if flush else y)
        if total != total:
            return 0x7FFFFFFF
        return _flushed(raw.bits_of(total)) if flush else raw.bits_of(total)
    if kind == _F64:
        return raw.bits_of_double(raw.double_of(x) + raw.double_of(y))
    low = to_half(half(x & 0xFFFF, kind) + half(y & 0xFFFF, kind), kind)
    high = to_half(half(x >> 16, kind) + half(y >> 16, kind), kind)
    return low | (high << 16)


@part
def after(old, value, other, operation, kind):
    """What stands in memory afterwards. `other`: what CAS puts in place of `value`."""
    if operation == ADD:
        return _added(old, value, kind) if kind >= _F32 else old + value
    if operation == MIN:
        return value if _less(value, old, kind) else old
    if operation == MAX:
        return value if _less(old, value, kind) else old
    if operation == AND:
        return old & value
    if operation == OR:
        return old | value
    if operation == XOR:
        return old ^ value
    if operation == EXCH:
        return value
    if operation == CAS:
        return other if old == value else old
    if operation == INC:
        return 0 if old >= value else old + 1
    return value if old == 0 or old > value else old - 1


@part
def _stored(old, value, other, how):
    """What stands in memory afterwards, by I2."""
    return after(old, value, other, (how >> 8) & 255, (how >> 16) & 255)


@part
def _value(place, size):
    if size == 8:
        return raw.u32(place) | (raw.u32(place + at.ROW) << 32)
    return raw.u32(place)


@part
def gather(uop, warp, constants, held, size):
    """Sources of all lanes, read before a lane writes: a result may be in the place of a source."""
    values, others = row(uop, at.C, warp, constants), row(uop, at.E, warp, constants)
    for lane in range(32):
        raw.put64(held + 16 * lane, _value(values + 4 * lane, size))
        raw.put64(held + 16 * lane + 8, _value(others + 4 * lane, size))


@part
def _answer(old, value, how):
    """What a lane is told: what was there, or whether it was `value`."""
    if how & TRUTH:
        return 1 if old == value else 0
    return old


@part
def apply(uop, address, value, other, old_place, size):
    how = field(uop, at.I2)
    if size == 8:
        old = raw.i64(address)
        raw.put64(address, _stored(old, value, other, how))
        answer = _answer(old, value, how)
        raw.put32(old_place, answer)
        raw.put32(old_place + at.ROW, answer >> 32)
        return
    old = raw.u32(address)
    raw.put32(address, _stored(old, value, other, how))
    raw.put32(old_place, _answer(old, value, how))


@part
def _vectors(uop, warp, constants, mask, places, held, size):
    """Each lane's words, one after another; all sources are read before a lane writes."""
    values, target = row(uop, at.C, warp, constants), row(uop, at.D, warp, constants)
    how = field(uop, at.I2)
    for lane in range(32):
        for n in range(size // 4):
            raw.put32(held + 16 * lane + 4 * n, raw.u32(values + at.ROW * n + 4 * lane))
    for lane in range(32):
        if (mask >> lane) & 1:
            for n in range(size // 4):
                place = raw.i64(places + 8 * lane) + 4 * n
                old = raw.u32(place)
                raw.put32(place, _stored(old, raw.u32(held + 16 * lane + 4 * n), 0, how))
                raw.put32(target + at.ROW * n + 4 * lane, old)


@family("ATOMG", "ATOMS")
def atomics(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    out = raw.i64(cta + at.CTA_SCRATCH)
    size = field(uop, at.I2) & BYTES
    base = 0
    if op == _ATOMS:
        shared_addresses(uop, warp, cta, constants, mask, out)
        own_shared(cta, out)
        wrong = check_shared(cta, out, mask, size)
        if wrong == at.OK:
            wrong = shadow.atomics(cta, warp, out, mask, size)
        base = raw.i64(cta + at.CTA_SHARED) - raw.i64(cta + at.CTA_SHARED_BASE)
    else:
        global_addresses(uop, warp, cta, constants, mask, out)
        wrong = check_global(cta, out, mask, size)
        if wrong == at.OK:
            shadow.touch(cta, warp, out, mask, size, shadow.ATOMIC, 0)
    if wrong:
        return wrong
    held = out + 512
    if field(uop, at.I2) & VECTOR:
        _vectors(uop, warp, constants, mask, out, held, size)
        return at.OK
    gather(uop, warp, constants, held, size)
    target = row(uop, at.D, warp, constants)
    for lane in range(32):
        if (mask >> lane) & 1:
            place = base + raw.i64(out + 8 * lane)
            apply(
                uop, place, raw.i64(held + 16 * lane), raw.i64(held + 16 * lane + 8), target + 4 * lane, size
            )
    return at.OK
