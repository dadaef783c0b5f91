"""Conversions between all of Triton's element types.

Floats narrow to nearest-even or toward zero with one rounding, however many steps it takes; a float outside
an integer's range becomes the nearest integer that is in it and NaN becomes 0, as on an NVIDIA GPU.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir

from tileprobe.errors import UnsupportedError

from . import float8
from .directed import from_integer
from .formats import FLOAT8, is_float, width
from .half import float_to_half, half_to_float
from .saturate import to_integer
from .values import DOUBLE, FLOAT, I16, I32, Val

_ROUNDINGS = ("rtne", "rtz")


def convert(
    builder: ir.IRBuilder,
    x: ir.Value,
    src: str,
    dst: str,
    *,
    rounding: str = "rtne",
    signed: bool = True,
    saturate: bool = False,
) -> ir.Value:
    """`x` of element type `src` as element type `dst`.

    `rounding` is rtne or rtz and matters where a float gets narrower. `signed` says how the integer side is
    read, as in MLIR: a signed i1 is 0 or -1. With `saturate` a number too large for f16, bf16 or f32 becomes
    the largest finite one instead of infinity; fp8 always does that.
    """
    if rounding not in _ROUNDINGS:
        raise UnsupportedError(f"unknown rounding mode {rounding!r}; expected one of {', '.join(_ROUNDINGS)}")
    value = Val(builder, x)
    if src == dst:
        return x
    if is_float(src) and is_float(dst):
        return _float_to_float(value, src, dst, rounding, saturate).v
    if is_float(src):
        return _float_to_int(value, src, dst, signed).v
    if is_float(dst):
        return _int_to_float(value, dst, rounding, signed, saturate).v
    return _int_to_int(value, width(src), width(dst), signed).v


# ---- integers
def _int_to_int(x: Val, src: int, dst: int, signed: bool) -> Val:
    if src == dst:
        return x
    if dst < src:
        return x.cast("trunc", ir.IntType(dst))
    return x.cast("sext" if signed else "zext", ir.IntType(dst))


def _float_to_int(x: Val, src: str, dst: str, signed: bool) -> Val:
    wide = x if src == "f64" else _to_f32(x, src)
    if width(dst) == 1:
        return wide.ne(0)
    return to_integer(wide, width(dst), signed)


def _int_to_float(x: Val, dst: str, rounding: str, signed: bool, saturate: bool) -> Val:
    kind = "sitofp" if signed else "uitofp"
    if dst in ("f32", "f64"):
        e = FLOAT if dst == "f32" else DOUBLE
        exact = rounding == "rtne" or x.bits <= 16
        return x.cast(kind, e) if exact else from_integer(x, e, signed, "rz")
    # an integer that f32 cannot hold is infinite in f16 and fp8: rounding it twice does no harm
    if x.bits <= 16 or dst != "bf16":
        return _float_to_float(x.cast(kind, FLOAT), "f32", dst, rounding, saturate)
    exact = _odd_double(x, kind) if x.bits > 32 else x.cast(kind, DOUBLE)
    return _float_to_float(exact, "f64", dst, rounding, saturate)


def _odd_double(x: Val, kind: str) -> Val:
    """A 64-bit integer as a double with its last bit sticky, so that rounding it again rounds the integer."""
    low = x & 0x7FF
    kept = (x & ~0x7FF) | low.ne(0).pick(x.const(0x800), 0)
    magnitude = (x < 0).pick(-x, x) if kind == "sitofp" else x
    return magnitude.lshr(53).eq(0).pick(x, kept).cast(kind, DOUBLE)


# ---- floats
def _to_f32(x: Val, src: str) -> Val:
    """A format no wider than f32, exactly."""
    if src == "f32":
        return x
    if src == "f16":
        return half_to_float(x)
    if src == "bf16":
        return (x.cast("zext", I32) << 16).as_float()
    return float8.to_float(x, FLOAT8[src])


def _float_to_float(x: Val, src: str, dst: str, rounding: str, saturate: bool) -> Val:
    if dst == "f64":
        return _to_f32(x, src).cast("fpext", DOUBLE)
    if src == "f64":
        if dst == "f32":
            return _limit(_double_to_float(x, rounding), x, saturate)
        # a sticky last bit makes the second rounding the only one
        return _float_to_float(_odd_float(x), "f32", dst, rounding, saturate)
    if src == "f8E5M2" and dst == "f16":
        return (x.cast("zext", I16) << 8).as_float()
    wide = _to_f32(x, src)
    if dst == "f32":
        return wide
    if dst in FLOAT8:
        return float8.from_float(wide, FLOAT8[dst], rounding)
    if saturate:
        top = 65504.0 if dst == "f16" else 3.3895313892515355e38
        wide = wide.clamp(-top, top)
    if dst == "bf16":
        return float_to_bfloat(wide, rounding)
    return float_to_half(wide, rounding)


def _limit(y: Val, x: Val, saturate: bool) -> Val:
    return y.clamp(-3.4028234663852886e38, 3.4028234663852886e38) if saturate else y


def _double_to_float(x: Val, rounding: str) -> Val:
    y = x.cast("fptrunc", FLOAT)
    return toward_zero(x, y) if rounding == "rtz" else y


def toward_zero(exact: Val, rounded: Val) -> Val:
    """The narrow float next to `rounded` toward zero where that lies beyond the wide float `exact`."""
    over = rounded.cast("fpext", DOUBLE).abs() > exact.abs()
    bits = rounded.as_int()
    return (bits - over.cast("zext", ir.IntType(rounded.bits))).as_float()


def _odd_float(x: Val) -> Val:
    """A double as a float rounded to odd: toward zero, and the last bit set if anything was lost."""
    y = toward_zero(x, x.cast("fptrunc", FLOAT))
    lost = y.cast("fpext", DOUBLE).ne(x) & (x.abs() < math.inf)
    return (y.as_int() | lost.cast("zext", I32)).as_float()


def float_to_bfloat(x: Val, rounding: str) -> Val:
    bits = x.as_int()
    if rounding == "rtz":
        rounded = bits
    else:
        rounded = bits + (bits.lshr(16) & 1) + 0x7FFF
    # a NaN keeps its sign and gets a bit that survives the cut
    return x.isnan().pick(bits | 0x400000, rounded).lshr(16).cast("trunc", I16)
