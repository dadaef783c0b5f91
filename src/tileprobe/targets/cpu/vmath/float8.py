"""The eight-bit floats to and from f32, by bit operations on whole vectors.

Narrowing saturates: what is too large, infinity included, becomes the largest finite number, and NaN stays
NaN, which is what Triton's GPU targets do.
"""

from __future__ import annotations

import math

from .formats import Float8
from .half import half_to_float, has_half
from .values import FLOAT, I8, I16, I32, Val

_BIAS, _MANTISSA, _HALF_BIAS = 127, 23, 15


def to_float(x: Val, f: Float8) -> Val:
    """A code as f32, exactly."""
    if has_half() and not (f.exponent_bits == 5 and f.unsigned_zero):
        return _through_half(x, f)
    code = x.cast("zext", I32)
    magnitude = code & 0x7F
    shift = _MANTISSA - f.mantissa_bits
    normal = ((magnitude << shift) + ((_BIAS - f.bias) << _MANTISSA)).as_float()
    tiny = magnitude.cast("sitofp", FLOAT) * 2.0 ** (1 - f.bias - f.mantissa_bits)
    y = (magnitude < (1 << f.mantissa_bits)).pick(tiny, normal)
    if f.infinite:
        top = ((1 << f.exponent_bits) - 1) << f.mantissa_bits
        special = ((magnitude << shift) | 0x7F800000).as_float()
        y = (magnitude >= top).pick(special, y)
    elif f.nan == 0x7F:
        y = magnitude.eq(0x7F).pick(math.nan, y)
    y = (y.as_int() | ((code & 0x80) << 24)).as_float()
    return code.eq(0x80).pick(math.nan, y) if f.unsigned_zero else y


def _through_half(x: Val, f: Float8) -> Val:
    """The code's fields moved to where a half has them; what is left is a power of two, and NaN."""
    if f.exponent_bits == 5:  # the upper byte of a half
        return half_to_float((x.cast("zext", I16) << 8).as_float())
    wide = x.cast("sext", I16)  # the sign in every upper bit
    y = half_to_float(((wide << 7) & 0xBF80).as_float())
    if f.bias != _HALF_BIAS:
        y = y * 2.0 ** (_HALF_BIAS - f.bias)
    if f.unsigned_zero:
        return x.eq(0x80).pick(math.nan, y)
    return y.abs().eq(480.0).pick(math.nan, y) if f.nan == 0x7F else y


def from_float(x: Val, f: Float8, rounding: str) -> Val:
    """f32 as a code, rounded once, saturating."""
    shift = _MANTISSA - f.mantissa_bits
    a = x.abs()
    a = (a > f.largest_value).pick(f.largest_value, a)
    bits = a.as_int()
    rebias = (_BIAS - f.bias) << _MANTISSA
    step = 2.0 ** (1 - f.bias - f.mantissa_bits)  # the smallest denormal
    if rounding == "rtne":
        normal = (bits + (bits.lshr(shift) & 1) + ((1 << (shift - 1)) - 1) - rebias).lshr(shift)
        magic = a.const(step * 2.0**_MANTISSA)  # its last bit is worth one step
        tiny = (a + magic).as_int() - magic.as_int()
    else:
        normal = (bits - rebias).lshr(shift)
        tiny = ((a < 1).pick(a, 0) * (1 / step)).cast("fptosi", I32)
    y = (a < 2.0 ** (1 - f.bias)).pick(tiny, normal)
    sign = x.as_int().lshr(24) & 0x80
    if f.unsigned_zero:
        sign = y.eq(0).pick(sign.const(0), sign)
        y = x.isnan().pick(y.const(f.nan), y | sign)
    else:
        y = x.isnan().pick(y.const(f.nan), y) | sign
    return y.cast("trunc", I8)
