"""Rare instructions, one lane at a time: conversions of all widths, slow functions, directed rounding of doubles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_NAMES = ("CS2R", "FRND", "F2I", "I2F_ANY", "F2F_ANY", "MUFU_SLOW", "DIRECTED_64", "PACK_F8", "UNPACK_F8")
_CS2R, _FRND, _F2I, _I2F, _F2F, _MUFU, _DIRECTED, _PACK, _UNPACK = (NUMBERS[n] for n in _NAMES)
SINGLE, DOUBLE, HALF, BRAIN = range(4)  # formats of floating-point numbers: f32, f64, f16, bf16
NEAREST, TRUNCATED, FLOOR, CEILING = range(4)
ZERO, DOWN, UP = 1, 2, 3  # directions of rounding
_QUIET, _ROW = 0x7FFFFFFF, at.ROW
_NAN_64 = 0x7FF8000000000000


@raw.intrinsic
def _fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * 3)
        function = builder.module.globals.get("llvm.fma.f64") or ir.Function(
            builder.module, kind, "llvm.fma.f64"
        )
        return builder.call(function, args)

    return types.float64(types.float64, types.float64, types.float64), generate


@part
def _pair(place):
    return raw.u32(place) | (raw.u32(place + _ROW) << 32)


@part
def _put_pair(place, value):
    raw.put32(place, value)
    raw.put32(place + _ROW, value >> 32)


@part
def _float(uop, place, number, form, shift=0):
    """A source as a double, with its sign and absolute value as the modifiers say; halves stand from bit `shift` on."""
    mods = field(uop, at.MODS)
    if form == DOUBLE:
        value = raw.double_of(_pair(place))
    elif form == HALF:
        value = np.float64(raw.half_of(raw.u32(place) >> shift))
    elif form == BRAIN:
        value = np.float64(raw.float_of((raw.u32(place) >> shift) << 16))
    else:
        value = np.float64(raw.float_of(raw.u32(place)))
    if (mods >> (at.ABSOLUTE + number)) & 1:
        value = abs(value)
    if (mods >> (at.NEGATE + number)) & 1:
        value = -value
    return value


@part
def _flushed(value):
    return value * 0.0 if abs(value) < 1.1754943508222875e-38 else value


@part
def _rounded(value, how):
    if how == TRUNCATED:
        return np.trunc(value)
    if how == FLOOR:
        return np.floor(value)
    if how == CEILING:
        return np.ceil(value)
    return np.rint(value)


@part
def _to_integer(value, bits, signed, how, wide):
    """Saturates. NaN is 0, but 1 << (bits - 1) where 64 bits come in or go out (PTX ISA, `cvt`)."""
    if value != value:
        return 1 << (bits - 1) if wide or bits == 64 else 0
    value = _rounded(value, how)
    if signed:
        limit = 2.0 ** (bits - 1)
        if value >= limit:
            return (1 << (bits - 1)) - 1
        if value < -limit:
            return -(1 << (bits - 1))
        return np.int64(value)
    if value <= 0.0:
        return 0
    if value >= 2.0**bits:
        return -1 if bits == 64 else (1 << bits) - 1
    if value >= 9223372036854775808.0:
        return np.int64(value - 9223372036854775808.0) ^ (-9223372036854775807 - 1)
    return np.int64(value)


@part
def _f2i(uop, target, source):
    kind, how = field(uop, at.I0), field(uop, at.I1)
    bits, form = kind & 255, how & 15
    value = _float(uop, source, 0, form, field(uop, at.I2))
    if (how >> 8) & 1:
        value = _flushed(value)
    result = _to_integer(value, bits, kind & 256, (how >> 4) & 15, form == DOUBLE)
    if bits == 64:
        _put_pair(target, result)
    else:
        raw.put32(target, result)


@part
def _unsigned_float(value):
    """A 64-bit number without a sign to single precision, rounded once: halved with its last bit kept if large."""
    if value >= 0:
        return np.float32(value)
    half = ((value >> 1) & 0x7FFFFFFFFFFFFFFF) | (value & 1)
    return np.float32(half) * np.float32(2.0)


@part
def _sticky(value, signed):
    """An integer as a double that any narrower format rounds as it would the integer: of what a double has no room for
    one bit is kept."""
    negative = signed and value < 0
    size = -value if negative else value
    if size < 0 or size >> 53:
        kept = ((size >> 11) & 0x1FFFFFFFFFFFFF) | (1 if size & 0x7FF else 0)
        result = np.float64(kept) * 2048.0
    else:
        result = np.float64(size)
    return -result if negative else result


@part
def narrow(value, form):
    """A double as 16 bits, to the nearest, ties to even; NaN is 0x7fff."""
    if value != value:
        return 0x7FFF
    mantissa, bias = (10, 15) if form == HALF else (7, 127)
    sign = 0x8000 if raw.bits_of_double(value) < 0 else 0
    size = abs(value)
    exponent = ((raw.bits_of_double(size) >> 52) & 2047) - 1023
    if exponent > bias:
        return sign | (0x7FFF >> mantissa << mantissa)
    if exponent < 1 - bias:
        return sign | np.int64(np.rint(size * 2.0 ** (bias - 1 + mantissa)))
    units = np.int64(np.rint(size * 2.0 ** (mantissa - exponent)))
    return sign | (((exponent + bias - 1) << mantissa) + units)


@part
def _f2f(uop, target, source):
    """I0: the format that comes out and, of a float, the direction; I1: the format that goes in; I2: where a half
    stands. Nothing lies above a half."""
    form, direction = field(uop, at.I0) & 15, field(uop, at.I0) >> 4
    value = _float(uop, source, 0, field(uop, at.I1), field(uop, at.I2))
    if form >= HALF:
        raw.put32(target, narrow(value, form))
    elif form == SINGLE:
        single = np.float32(value)
        close = np.float64(single)
        result = raw.bits_of(single)
        beside = _beside(result, result >> 31, close < value, close > value, direction)
        raw.put32(target, _QUIET if value != value else beside)
    else:
        _put_pair(target, _NAN_64 if value != value else raw.bits_of_double(value))


@part
def _i2f(uop, target, source):
    kind, how = field(uop, at.I0), field(uop, at.I1)
    bits, signed, shift = kind & 255, kind & 256, kind >> 16
    value = _pair(source) if bits == 64 else raw.u32(source) >> shift
    if bits < 64:
        value &= (1 << bits) - 1
        if signed and value >> (bits - 1):
            value -= 1 << bits
    if how & 15 >= HALF:
        raw.put32(target, narrow(_sticky(value, signed), how & 15))
        return
    direction = how >> 4
    if how & 15 == DOUBLE:
        near = np.float64(value)
        if bits == 64 and not signed and value < 0:
            half = ((value >> 1) & 0x7FFFFFFFFFFFFFFF) | (value & 1)
            near = np.float64(half) * 2.0
        wide = raw.bits_of_double(near)
        if direction:
            wide = _directed_integer(wide, near, value, signed, direction)
        _put_pair(target, wide)
        return
    single = _unsigned_float(value) if not signed else np.float32(value)
    result = raw.bits_of(single)
    if direction:
        result = _directed_integer(result, np.float64(single), value, signed, direction)
    raw.put32(target, result)


@part
def _directed_integer(result, near, value, signed, direction):
    """The float, or double, beside the nearest one, if that lies on the wrong side of an integer."""
    if not signed and value < 0:  # above 2**63: compare halves, with a bit for what is lost
        close = near * 0.5
        large = close >= 9223372036854775808.0
        back = 9223372036854775807 if large else np.int64(close)
        half = (value >> 1) & 0x7FFFFFFFFFFFFFFF
        below = not large and (back < half or (back == half and value & 1))
        above = large or back > half
    else:
        large = near >= 9223372036854775808.0
        back = 9223372036854775807 if large else np.int64(near)
        below, above = back < value, large or back > value
    return _beside(result, signed and value < 0, below, above, direction)


@part
def _beside(result, negative, below, above, direction):
    """Of the nearest number's bits those of the one beside it, if it lies on the wrong side of what is exact."""
    if direction == UP and below:
        return result - 1 if negative else result + 1
    if direction == DOWN and above:
        return result + 1 if negative else result - 1
    if direction == ZERO and ((above and not negative) or (below and negative)):
        return result - 1
    return result


@part
def _frnd(uop, target, source):
    how = field(uop, at.I1)
    form = how & 15
    value = _float(uop, source, 0, form, field(uop, at.I2))
    if (how >> 8) & 1:
        value = _flushed(value)
    value = _rounded(value, (how >> 4) & 15)
    if form >= HALF:
        raw.put32(target, narrow(value, form))
    elif form == DOUBLE:
        _put_pair(target, raw.bits_of_double(value))
    else:
        raw.put32(target, _QUIET if value != value else raw.bits_of(np.float32(value)))


@part
def _mufu(uop, target, source):
    """Functions whose documented errors (PTX ISA) are above that of the nearest number of their format (I1; a half
    stands from bit I2 on)."""
    form, which = field(uop, at.I1), field(uop, at.I0)
    if form >= HALF:  # subnormal halves are numbers
        value = _float(uop, source, 0, form, field(uop, at.I2))
        raw.put32(target, narrow(math.tanh(value) if which == 3 else 2.0**value, form))
        return
    value = _flushed(_float(uop, source, 0, SINGLE))
    if value != value:
        raw.put32(target, _QUIET)
        return
    if which == 0:
        if value < 0.0:
            raw.put32(target, _QUIET)
            return
        result = math.log2(value) if value > 0.0 else -np.inf
    elif which == 3:
        result = math.tanh(value)
    elif abs(value) == np.inf:
        raw.put32(target, _QUIET)
        return
    elif which == 1:  # the argument is in full circles; zeros keep their sign (PTX ISA, `sin`)
        result = math.sin(2.0 * math.pi * (value - np.floor(value))) if value != 0.0 else value
    else:
        result = math.cos(2.0 * math.pi * (value - np.floor(value)))
    raw.put32(target, raw.bits_of(np.float32(_flushed(result))))


@part
def _lost(op, x, y, z, near):
    """What rounding lost of x + y, x * y or x * y + z, with the right sign (Knuth; Boldo and Muller)."""
    if op == 0:
        back = near - x
        return (x - (near - back)) + (y - back)
    product = x * y
    rest = _fma(x, y, -product)
    if op == 1:
        return rest
    alpha = z + rest
    back = alpha - z
    alpha_rest = (z - (alpha - back)) + (rest - back)
    beta = product + alpha
    back = beta - product
    beta_rest = (product - (beta - back)) + (alpha - back)
    return ((beta - near) + beta_rest) + alpha_rest


@part
def _directed(uop, target, first, second, third):
    direction, op = field(uop, at.I0) + 1, field(uop, at.I1)
    x, y = _float(uop, first, 0, 1), _float(uop, second, 1, 1)
    z = _float(uop, third, 2, 1) if op == 2 else 0.0
    near = x + y if op == 0 else x * y if op == 1 else _fma(x, y, z)
    bits = raw.bits_of_double(near)
    lost = _lost(op, x, y, z, near)
    negative = bits < 0
    if near == near and abs(near) != np.inf and lost != 0.0 and lost == lost:
        if direction == UP and lost > 0.0:
            bits += -1 if negative else 1
        elif direction == DOWN and lost < 0.0:
            bits += 1 if negative else -1
        elif direction == ZERO and ((lost < 0.0 and not negative) or (lost > 0.0 and negative)):
            bits -= 1
    _put_pair(target, bits)


@part
def to_f8(value, exponents, mantissa, highest):
    """A float to eight bits, to the nearest, ties to even; above `highest` it stays there. NaN is 0x7f."""
    if value != value:
        return 0x7F
    sign = 0x80 if raw.bits_of_double(value) < 0 else 0
    size = min(abs(value), highest)
    bias = (1 << (exponents - 1)) - 1
    exponent = ((raw.bits_of_double(size) >> 52) & 2047) - 1023
    if exponent < 1 - bias:
        return sign | np.int64(np.rint(size * 2.0 ** (bias - 1 + mantissa)))
    units = np.int64(np.rint(size * 2.0 ** (mantissa - exponent)))
    return sign | (((exponent + bias - 1) << mantissa) + units)


@part
def from_f8(bits, kind):
    """Kind 0: e5m2, the upper half of a half; 1: e4m3."""
    if kind == 0:
        return raw.half_of(bits << 8)
    sign = np.float32(-1.0) if bits & 0x80 else np.float32(1.0)
    exponent, fraction = (bits >> 3) & 15, bits & 7
    if bits & 0x7F == 0x7F:
        return np.float32(np.nan)
    if exponent == 0:
        return sign * np.float32(fraction * 2.0**-9)
    return sign * np.float32((8 + fraction) * 2.0 ** (exponent - 10))


@part
def _pack_f8(uop, target, first, second, third):
    """B into the lowest byte, A into the next, the low half of C above. I0: the kind; I1: A holds two halves."""
    kind = field(uop, at.I0)
    if field(uop, at.I1):
        pair = raw.u32(first)
        high, low = np.float64(raw.half_of(pair >> 16)), np.float64(raw.half_of(pair))
    else:
        high, low = _float(uop, first, 0, 0), _float(uop, second, 1, 0)
    if kind == 0:
        packed = (to_f8(high, 5, 2, 57344.0) << 8) | to_f8(low, 5, 2, 57344.0)
    else:
        packed = (to_f8(high, 4, 3, 448.0) << 8) | to_f8(low, 4, 3, 448.0)
    raw.put32(target, packed | (raw.u32(third) << 16))


@part
def _unpack_f8(uop, target, source):
    """Two bytes to two halves: every such number is a half. I1: from which bit on they stand."""
    kind, bits = field(uop, at.I0), raw.u32(source) >> field(uop, at.I1)
    if kind == 0:
        raw.put32(target, ((bits & 0xFF) << 8) | ((bits & 0xFF00) << 16))
        return
    low, high = _half_bits(from_f8(bits & 0xFF, 1)), _half_bits(from_f8((bits >> 8) & 0xFF, 1))
    raw.put32(target, low | (high << 16))


@part
def _half_bits(value):
    """A float that is a normal half, or none, as its 16 bits."""
    bits = raw.bits_of(value)
    sign, exponent, fraction = (bits >> 16) & 0x8000, (bits >> 23) & 255, bits & 0x7FFFFF
    if exponent == 255:
        return sign | 0x7FFF
    if exponent == 0:
        return sign
    return sign | ((exponent - 112) << 10) | (fraction >> 13)


@part
def _clock(uop, warp, constants, mask):
    """Instructions issued so far. I0: 0 and 2 the low words of the clocks, 1 and 3 the high ones; I1: both words."""
    now = raw.i64(warp + at.W_CYCLE)
    target = row(uop, at.D, warp, constants)
    value = now >> 32 if field(uop, at.I0) & 1 else now
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.put32(target + 4 * lane, value)
            if field(uop, at.I1):
                raw.put32(target + _ROW + 4 * lane, now >> 32)


@family(*_NAMES)
def scalar(op, uop, warp, cta, constants, mask, pc):
    if op == _CS2R:
        _clock(uop, warp, constants, mask)
        return at.OK
    target, first = row(uop, at.D, warp, constants), row(uop, at.A, warp, constants)
    second, third = row(uop, at.B, warp, constants), row(uop, at.C, warp, constants)
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        here = 4 * lane
        if op == _F2I:
            _f2i(uop, target + here, first + here)
        elif op == _I2F:
            _i2f(uop, target + here, first + here)
        elif op == _F2F:
            _f2f(uop, target + here, first + here)
        elif op == _FRND:
            _frnd(uop, target + here, first + here)
        elif op == _MUFU:
            _mufu(uop, target + here, first + here)
        elif op == _PACK:
            _pack_f8(uop, target + here, first + here, second + here, third + here)
        elif op == _UNPACK:
            _unpack_f8(uop, target + here, first + here)
        else:
            _directed(uop, target + here, first + here, second + here, third + here)
    return at.OK
