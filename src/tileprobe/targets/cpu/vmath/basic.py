"""What LLVM has itself or takes a few bit operations: rounding, signs, classes, roots, min and max."""

from __future__ import annotations

import math

from .registry import apply, register
from .saturate import to_integer
from .values import I32, Val, element

for _name, _intrinsic in {
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "rint": "llvm.rint",
    "nearbyint": "llvm.nearbyint",
    "roundeven": "llvm.roundeven",
    "round": "llvm.round",
    "abs": "llvm.fabs",
    "sqrt": "llvm.sqrt",
    "copysign": "llvm.copysign",
    "fma": "llvm.fma",
    "maxnum": "llvm.maxnum",  # a NaN loses against a number
    "minnum": "llvm.minnum",
    "maximum": "llvm.maximum",  # a NaN wins; -0 is less than +0
    "minimum": "llvm.minimum",
}.items():
    register(_name)(lambda x, *rest, _i=_intrinsic: x.call(_i, *rest))


@register("rsqrt")
def rsqrt(x: Val) -> Val:
    return 1 / x.sqrt()


@register("sigmoid")
def sigmoid(x: Val) -> Val:
    return 1 / (apply("exp", -x) + 1)


@register("fdim")
def fdim(x: Val, y: Val) -> Val:
    return (x <= y).pick(0, x - y)


@register("saturate")
def saturate(x: Val) -> Val:
    """Into [0, 1]; NaN becomes 0, as CUDA's does."""
    return (x > 0).pick((x > 1).pick(1, x), 0)


@register("isnan")
def isnan(x: Val) -> Val:
    return x.isnan().cast("zext", I32)


@register("isinf")
def isinf(x: Val) -> Val:
    return x.abs().eq(math.inf).cast("zext", I32)


@register("isfinite", "finite")
def isfinite(x: Val) -> Val:
    return (x.abs() < math.inf).cast("zext", I32)


@register("signbit")
def signbit(x: Val) -> Val:
    return (x.as_int() < 0).cast("zext", I32)


@register("ilogb")
def ilogb(x: Val) -> Val:
    """The exponent; of 0 and NaN the least integer, of infinity the greatest."""
    e, a = _exponent(x)
    e = e.cast("trunc", I32) if x.bits == 64 else e
    e = a.eq(math.inf).pick(e.const(2**31 - 1), e)
    return (a > 0).pick(e, e.const(-(2**31)))


@register("logb")
def logb(x: Val) -> Val:
    e, a = _exponent(x)
    y = e.cast("sitofp", element(x.type))
    return a.eq(0).pick(-math.inf, (a < math.inf).pick(y, a))


def _exponent(x: Val) -> tuple[Val, Val]:
    """The unbiased exponent of |x| as an integer of x's width, denormals included, and |x|."""
    a = x.abs()
    up = x.mantissa_bits + 1
    tiny = a < 2.0 ** (1 - x.bias)
    bits = tiny.pick(a * 2.0**up, a).as_int()
    e = (bits >> x.mantissa_bits) - x.bias
    return e - tiny.pick(e.const(up), 0), a


@register("nextafter")
def nextafter(x: Val, y: Val) -> Val:
    bits = x.as_int()
    away = (x < y).pick(x.const(1), -1)  # the direction as a sign
    grows = (away.as_int() ^ bits) >= 0  # moving away from zero
    stepped = bits + grows.pick(bits.const(1), -1)
    least = (away.as_int() & bits.const(1 << (x.bits - 1))) | 1
    out = x.eq(0).pick(least, stepped).as_float()
    out = x.eq(y).pick(y, out)
    return (x.isnan() | y.isnan()).pick(x + y, out)


@register("llrint")
def llrint(x: Val) -> Val:
    return to_integer(x.call("llvm.rint"), 64, True)


@register("llround")
def llround(x: Val) -> Val:
    return to_integer(x.call("llvm.round"), 64, True)
