"""Integer functions of CUDA's libdevice and MLIR's math dialect, on i32 and i64."""

from __future__ import annotations

import llvmlite.ir as ir

from .registry import register
from .values import I1, I32, I64, Val, constant, declare, short

INTEGERS = ("i8", "i16", "i32", "i64")


def _counted(x: Val, intrinsic: str) -> Val:
    """ctlz or cttz, defined at zero."""
    f = declare(x.b.module, f"{intrinsic}.{short(x.type)}", x.type, [x.type, I1])
    return Val(x.b, x.b.call(f, [x.v, constant(I1, 0)]))


def _i32(x: Val) -> Val:
    return x.cast("trunc", I32) if x.bits > 32 else x


@register("clz", types=INTEGERS)
def clz(x: Val) -> Val:
    return _i32(_counted(x, "llvm.ctlz"))


@register("ctlz", types=INTEGERS)
def ctlz(x: Val) -> Val:
    return _counted(x, "llvm.ctlz")


@register("cttz", types=INTEGERS)
def cttz(x: Val) -> Val:
    return _counted(x, "llvm.cttz")


@register("ctpop", types=INTEGERS)
def ctpop(x: Val) -> Val:
    return x.call("llvm.ctpop")


@register("popc", types=INTEGERS)
def popc(x: Val) -> Val:
    return _i32(x.call("llvm.ctpop"))


@register("ffs", types=INTEGERS)
def ffs(x: Val) -> Val:
    """One more than the place of the lowest set bit; 0 for 0."""
    place = _counted(x, "llvm.cttz") + 1
    return _i32(x.eq(0).pick(place.const(0), place))


@register("brev", types=INTEGERS)
def brev(x: Val) -> Val:
    return x.call("llvm.bitreverse")


@register("abs", types=INTEGERS)
def abs_(x: Val) -> Val:
    return x.abs()


def _high(x: Val, y: Val, extend: str) -> Val:
    wide = ir.IntType(2 * x.bits)
    product = x.cast(extend, wide) * y.cast(extend, wide)
    return product.lshr(x.bits).cast("trunc", ir.IntType(x.bits))


@register("mulhi", types=INTEGERS)
def mulhi(x: Val, y: Val) -> Val:
    return _high(x, y, "sext")


@register("umulhi", types=INTEGERS)
def umulhi(x: Val, y: Val) -> Val:
    return _high(x, y, "zext")


@register("mul24", types=("i32",))
def mul24(x: Val, y: Val) -> Val:
    return ((x << 8) >> 8) * ((y << 8) >> 8)


@register("umul24", types=("i32",))
def umul24(x: Val, y: Val) -> Val:
    return (x & 0xFFFFFF) * (y & 0xFFFFFF)


@register("sad", types=("i32",))
def sad(x: Val, y: Val, z: Val) -> Val:
    return (x < y).pick(y - x, x - y) + z


@register("usad", types=("i32",))
def usad(x: Val, y: Val, z: Val) -> Val:
    return x.ult(y).pick(y - x, x - y) + z


@register("hadd", types=("i32",))
def hadd(x: Val, y: Val) -> Val:
    """(x + y) / 2 rounded down, without overflow."""
    return (x & y) + ((x ^ y) >> 1)


@register("uhadd", types=("i32",))
def uhadd(x: Val, y: Val) -> Val:
    return (x & y) + (x ^ y).lshr(1)


@register("rhadd", types=("i32",))
def rhadd(x: Val, y: Val) -> Val:
    """(x + y + 1) / 2 rounded down, without overflow."""
    return (x | y) - ((x ^ y) >> 1)


@register("urhadd", types=("i32",))
def urhadd(x: Val, y: Val) -> Val:
    return (x | y) - (x ^ y).lshr(1)


@register("byte_perm", types=("i32",))
def byte_perm(x: Val, y: Val, selector: Val) -> Val:
    """Four bytes picked from the eight of x and y by the low three bits of each nibble of the selector."""
    both = x.cast("zext", I64) | (y.cast("zext", I64) << 32)
    wide = selector.cast("zext", I64)
    out = both.const(0)
    for i in range(4):
        shift = (wide.lshr(4 * i) & 7) << 3
        byte = both.lshr(shift) & 0xFF
        out = out | (byte << (8 * i))
    return out.cast("trunc", I32)
